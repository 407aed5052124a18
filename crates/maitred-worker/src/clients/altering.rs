//! Heads of responses that go through modules before they are sent.

use maitred_http::request::{HeadRoom, RequestHead};

use super::Clients;
use crate::keys::ConnKey;
use crate::modules::altering::HeadFilter;
use crate::origin::Client;
use maitred_policy::plan::Plan;

impl Clients {
    /// Has the head of the response that is written next go through the modules of its plan.
    #[cold]
    pub(super) fn note_head_filter(
        &mut self,
        index: ConnKey,
        plan: &'static Plan,
        request: RequestHead,
        path: Box<[u8]>,
    ) {
        let proxies = &self.shared.start.config.server.trusted_proxies;
        let connection = &self.connections[index];
        let mut room = HeadRoom::default();
        let Some(view) = request.view(&mut room) else { return self.buffers.head_filter = None };
        let client = Client::of(&view, &connection.peer(), proxies);
        let (shared, modules) = (self.shared, &*plan.modules.of_responses);
        self.buffers.head_filter =
            Some(Box::new(HeadFilter { shared, modules, request, path, slashes: plan.slashes, client }));
    }

    /// The same for a response of an upstream, whose request is kept. False if there is no module.
    pub(super) fn note_kept_head_filter(&mut self, index: ConnKey, plan: &'static Plan) -> bool {
        if plan.modules.of_responses.is_empty() || self.connections[index].internal {
            return false;
        }
        let exchange = self.exchange(index);
        let mut head = RequestHead::default();
        head.copy_from(&exchange.head);
        let kept = exchange.path.clone();
        let path = kept.unwrap_or_else(|| {
            let mut room = HeadRoom::default();
            head.view(&mut room).map(|request| request.path.as_bytes().into()).unwrap_or_default()
        });
        self.note_head_filter(index, plan, head, path);
        true
    }
}
