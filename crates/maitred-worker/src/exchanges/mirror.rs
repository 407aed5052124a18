//! Copies of requests for another pool (`mirror`). A copy goes as a question does ([`ask`](super::ask)), and what comes of it is
//! read and dropped. A copy is bound to nothing: it stays when the client of its request leaves.

use std::time::Duration;

use maitred_http::request::Request;

use super::Exchanges;
use super::ask::{Copied, head_of};
use crate::connection::body::RequestBody;
use crate::connection::gated::Gated;
use crate::keys::ConnKey;
use maitred_config::Mirror;
use maitred_policy::target::Target;

/// After this time the oldest copy makes room for another one: its response may have no end.
const COPY_TIME: Duration = Duration::from_secs(60);

impl Exchanges {
    /// Sends a copy of a request, with this body, to a pool, if there may be one more. False if there is none.
    pub(crate) fn send_copy(
        &mut self,
        index: ConnKey,
        (request, judged): (&Request<'_, '_>, (Target<'_>, &[u8])),
        body: &[u8],
        mirror: &Mirror,
    ) -> bool {
        if !self.has_room_for_copy(mirror) {
            return false;
        }
        let Some(pool) = self.shared.start.config.pools.get(mirror.pool) else { return false };
        let target = judged.0.for_pool(pool, judged.1);
        let how = Copied { body: Some(body.len()), ..Copied::of(request, request.method_text, &target) };
        let Some(head) = head_of(request, &how, &self.head_limits) else { return false };
        let before = self.exchange(index).dispatch.gated.as_deref();
        let gated = before.map(Gated::of_copy);
        let body = RequestBody { content: body.to_vec(), ..RequestBody::default() };
        self.begin_question((index, None), request, (head, body), (mirror.pool, gated.unwrap_or_default()))
            .is_some()
    }

    /// Whether fewer copies are under way than there may be, without one that has taken too long.
    fn has_room_for_copy(&mut self, mirror: &Mirror) -> bool {
        let copies = || self.questions.iter().filter(|(_, question)| question.index.is_none());
        if copies().count() < usize::from(mirror.concurrent) {
            return true;
        }
        let oldest = copies().map(|(key, question)| (question.since, key)).min();
        let late = oldest.filter(|(since, _)| self.clock.now.saturating_duration_since(*since) > COPY_TIME);
        late.is_some_and(|(_, key)| self.questions.try_remove(key).is_some())
    }
}
