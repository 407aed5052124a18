//! How long requests took: counted for their route and their pool when they have ended, and kept of those that were slow.

use maitred_http::request::Request;
use maitred_http::uri::Slashes;
use maitred_policy::target::Target;
use maitred_status::latency::Took;
use maitred_status::slowest::SlowRequest;

use super::Clients;
use crate::keys::ConnKey;
use crate::origin::{self, Client};
use maitred_policy::plan::Plan;

impl Clients {
    /// Counts a response that has ended: the body for the route, and the time for the route and the pool. Gives back where the
    /// time went, if the request is among the slowest.
    #[inline]
    pub(crate) fn count_ended(
        &self,
        index: ConnKey,
        plan: &Plan,
        status: u16,
        body_bytes: u64,
    ) -> Option<Took> {
        let connection = &self.connections[index];
        if connection.is_admin() || connection.internal {
            return None;
        }
        let took = self.took(index, status);
        if let Some(route) = self.routes.get(plan.number) {
            route.sent(body_bytes);
            route.ended(&took);
        }
        let pool = connection.exchange.as_deref().and_then(|exchange| exchange.dispatch.pool);
        if let Some(shared) = pool.and_then(|pool| self.shared.pools.get(usize::from(pool))) {
            shared.handed[self.number].timing.add(&took);
        }
        let is_slow = self.shared.slowest.get(self.number).is_some_and(|kept| kept.is_one(took.whole_us));
        is_slow.then_some(took)
    }

    #[inline]
    fn took(&self, index: ConnKey, status: u16) -> Took {
        let connection = &self.connections[index];
        let whole = self.clock.now.saturating_duration_since(connection.began);
        let whole_us = whole.as_secs() * 1_000_000 + u64::from(whole.subsec_micros());
        let failed = status >= 500;
        let dispatch = connection.exchange.as_deref().map(|exchange| &exchange.dispatch);
        match dispatch.filter(|dispatch| dispatch.pool.is_some()) {
            None => Took { whole_us, failed, ..Took::default() },
            Some(dispatch) => {
                let (queue_us, answer_us) = (dispatch.queue_us.into(), dispatch.answer_us.into());
                Took { whole_us, queue_us, answer_us, failed }
            }
        }
    }

    /// Keeps a slow request for the status.
    #[cold]
    pub(crate) fn note_slow(
        &self,
        index: ConnKey,
        request: &Request<'_, '_>,
        client: &Client,
        took: Took,
        status: u16,
    ) {
        let exchange = self.connections[index].exchange.as_deref();
        let id = exchange.and_then(|exchange| exchange.dispatch.request_id());
        let id = id.map(origin::hexadecimal);
        let id = client.given_request_id(request).or(id.as_ref().map(<[u8; 32]>::as_slice));
        let routed = exchange.and_then(|exchange| exchange.routed);
        let slow = SlowRequest {
            at: self.clock.now,
            unix_secs: self.clock.unix_secs,
            method: request.method_text.to_owned(),
            path: Target::asked(request, Slashes::Keep).canonical_path().into_owned(),
            route: routed.map_or(0, |routed| routed.plan.number),
            status,
            took,
            request_id: String::from_utf8_lossy(id.unwrap_or_default()).into_owned(),
        };
        if let Some(kept) = self.shared.slowest.get(self.number) {
            kept.note(slow);
        }
    }
}
