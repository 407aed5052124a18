//! Fields of responses whose values have placeholders.

use maitred_http::fields::FieldLines;
use maitred_http::request::Request;

use super::Clients;
use crate::keys::ConnKey;
use crate::origin::{Client, hexadecimal};
use maitred_policy::plan::Plan;
use maitred_policy::target::Target;

impl Clients {
    /// The fields of a response whose values have placeholders.
    #[cold]
    pub(super) fn put_filled(
        &self,
        index: ConnKey,
        request: &Request<'_, '_>,
        plan: &Plan,
        out: &mut FieldLines,
    ) {
        let uri = Target::routed(request, plan.slashes).canonical();
        let connection = &self.connections[index];
        let proxies = &self.shared.start.config.server.trusted_proxies;
        let given = Client::of(request, &connection.peer(), proxies).given_request_id(request);
        let id = connection.exchange.as_deref().and_then(|exchange| exchange.dispatch.request_id());
        let (origin, id) = (|| self.origin(index, request), id.map(hexadecimal));
        let request_id = given.or(id.as_ref().map(<[u8; 32]>::as_slice)).unwrap_or_default();
        let told = self.told(index, request, (&origin, &uri, request_id));
        let mut value = Vec::new();
        for filled in &plan.filled {
            if filled.fill(&told, &mut value) {
                out.push(filled.name.as_bytes(), &value);
            }
        }
    }
}
