//! What conditions, placeholders and fields look at, besides the head of a request.

use maitred_http::request::Request;
use maitred_http::uri;

use super::Clients;
use crate::origin::Client;
use maitred_config::Address;
use maitred_policy::rewrite::{Origin, Told};

impl Clients {
    /// Where a request comes from, as routes see it.
    pub(crate) fn origin(&self, index: u32, request: &Request<'_, '_>) -> Origin {
        let connection = &self.connections[index as usize];
        let client =
            Client::of(request, &connection.peer(), &self.shared.start.config.server.trusted_proxies);
        let port = self
            .shared
            .bound_at(connection.listen)
            .and_then(Address::port)
            .unwrap_or(if client.https { 443 } else { 80 });
        Origin { client: client.remote.address.map(|address| address.ip()), https: client.https, port }
    }

    /// The path of a request in its canonical form.
    pub(super) fn canonical_path(&self, request: &Request<'_, '_>) -> String {
        let slashes = self.shared.start.config.server.encoded_slashes;
        let mut canonical = Vec::new();
        match uri::canonical_path(request.path, slashes.into(), &mut canonical) {
            Ok(()) => String::from_utf8_lossy(&canonical).into_owned(),
            Err(_) => request.path.to_owned(),
        }
    }

    /// What placeholders of fields and variables are filled in with.
    pub(crate) fn told<'a>(
        &'a self,
        index: u32,
        request: &Request<'a, 'a>,
        (origin, uri, request_id): (&'a dyn Fn() -> Origin, &'a str, &'a [u8]),
    ) -> Told<'a> {
        let exchange = self.connections[index as usize].exchange.as_deref();
        let gated = exchange.and_then(|exchange| exchange.dispatch.gated.as_deref());
        let user = gated.and_then(|gated| gated.user.as_deref()).unwrap_or_default();
        Told { authority: request.authority, origin, uri, user, request_id }
    }
}
