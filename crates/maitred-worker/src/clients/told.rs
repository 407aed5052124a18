//! What conditions, placeholders and fields look at, besides the head of a request.

use maitred_http::request::Request;

use super::Clients;
use crate::facts::identity::User;
use crate::keys::ConnKey;
use crate::origin::Client;
use maitred_policy::rewrite::{Origin, Told};

impl Clients {
    /// Where a request comes from, as routes see it.
    pub(crate) fn origin(&self, index: ConnKey, request: &Request<'_, '_>) -> Origin {
        let connection = &self.connections[index];
        let client =
            Client::of(request, &connection.peer(), &self.shared.start.config.server.trusted_proxies);
        let port = self.arrival(index).local_port().unwrap_or(if client.https { 443 } else { 80 });
        Origin { client: client.remote.address.map(|address| address.ip()), https: client.https, port }
    }

    /// What placeholders of fields and variables are filled in with.
    pub(crate) fn told<'a>(
        &'a self,
        index: ConnKey,
        request: &Request<'a, 'a>,
        (origin, uri, request_id): (&'a dyn Fn() -> Origin, &'a str, &'a [u8]),
    ) -> Told<'a> {
        let user = self.identity(index).user().map(User::name).unwrap_or_default();
        Told { authority: request.authority, origin, uri, user, request_id, fields: request.fields }
    }
}
