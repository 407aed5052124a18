//! What applications and servers are told of a request besides its method and its target, in whatever form they get it.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use maitred_http::body;
use maitred_http::fields::FieldLines;
use maitred_http::request::{Framing, Request, Version};
use maitred_http::websocket::{self, Handshake};

use super::Clients;
use crate::connection::gated::Gated;
use crate::connection::tls::TlsLookup;
use crate::facts::identity::{Identity, Source};
use crate::forward::{Traced, append_fields, append_switch, passed_trailers};
use crate::keys::ConnKey;
use crate::origin::{Arrival, Client, Peer, PutField, hexadecimal};
use maitred_config::{HostRule, Pool};
use maitred_log::trace::context::TRACEPARENT;
use maitred_policy::plan::RequestEdits;
use maitred_policy::rewrite::{Told, put_variable};

/// A request on its way to an application or a server.
#[derive(Clone, Copy)]
pub(crate) struct Outbound<'a> {
    /// The request.
    pub(crate) request: &'a Request<'a, 'a>,
    /// What its route changes about it.
    pub(crate) rules: &'a RequestEdits,
    /// The pool that it goes to.
    pub(crate) settings: &'a Pool,
    /// The host that is named if the request names none.
    pub(crate) default_host: &'a str,
    /// The protocol that is asked for instead.
    pub(crate) switch: Option<&'a str>,
    /// Whom it came from directly.
    pub(crate) peer: &'a Peer,
    /// The client.
    pub(crate) client: &'a Client,
    /// Path and query, as they are passed on.
    pub(crate) target: &'a str,
    /// The id of the request.
    pub(crate) id: u128,
    /// What another thread has said of the client's TLS, which is not here.
    pub(crate) tls_fields: &'a [(String, Vec<u8>)],
}

impl Clients {
    /// Appends the fields of a request: those that the client has sent, as the route changes them, and those that say who the
    /// client is. Gives back what the answer to the handshake of a WebSocket has to be, if the client has left it to this server
    /// to make a key.
    pub(crate) fn append_outbound(
        &mut self,
        index: ConnKey,
        head: &mut impl PutField,
        outbound: Outbound<'_>,
    ) -> Option<Box<Handshake>> {
        let Outbound { request, rules, settings, peer, client, id, .. } = outbound;
        let mut filled = Vec::new();
        let host = if request.authority.is_empty() { outbound.default_host } else { request.authority };
        let host = match (&rules.host, &settings.external.host) {
            (Some(host), _) => host,
            (None, HostRule::Client) => host.as_bytes(),
            (None, HostRule::Server) => outbound.default_host.as_bytes(),
            (None, HostRule::Named(host)) => host.as_bytes(),
            (None, HostRule::Filled(template)) => {
                let origin = || self.origin(index, request);
                let told = Told { authority: host, ..self.told(index, request, (&origin, "", b"")) };
                put_variable(template, &told, &mut filled);
                &filled
            }
        };
        if !host.is_empty() {
            head.small_field("host", host);
        }
        let context = self.trace_context(request, client, id);
        let traced = match &context {
            None => Traced::AsSent,
            Some(context) if context.parent_id.is_some() => Traced::Continued,
            Some(_) => Traced::Begun,
        };
        append_fields(head, request, (&settings.request_headers, rules), (client.proxied, traced));
        if !rules.filled.is_empty() {
            self.append_filled(index, head, outbound);
        }
        if let Some(context) = context {
            head.small_field(TRACEPARENT, &context.field());
        }
        append_switch(head, outbound.switch);
        let handshake = self.append_key(head, request, outbound.switch);
        let connection = &self.connections[index];
        let lookup = TlsLookup::new(&self.tls_sessions, &self.sessions, &self.connections);
        lookup.fields(connection.wire, |name, value| head.field(name, value));
        for (name, value) in outbound.tls_fields {
            head.field(name, value);
        }
        let exchange = connection.exchange.as_deref();
        if let Some(gated) = exchange.and_then(|exchange| exchange.dispatch.gated.as_deref()) {
            append_gated(head, gated);
        }
        let took = self.clock.now.saturating_duration_since(connection.began).as_micros() as u64;
        let began_unix_us = self.clock.unix_us().saturating_sub(took);
        self.forwarded.tell(head, request, Arrival { peer, client, id, began_unix_us, rules: &rules.fields });
        handshake
    }

    /// Appends a key for a WebSocket of HTTP/2 or HTTP/3, which has none: a new one for each (6455-4.1).
    fn append_key(
        &mut self,
        head: &mut impl PutField,
        request: &Request<'_, '_>,
        switch: Option<&str>,
    ) -> Option<Box<Handshake>> {
        let framed = matches!(request.version, Version::Http2 | Version::Http3);
        switch.filter(|protocol| framed && protocol.eq_ignore_ascii_case("websocket"))?;
        let key = websocket::key(self.forwarded.next_id());
        head.small_field("sec-websocket-key", key.as_bytes());
        let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, &websocket::challenge(&key));
        Some(Box::new(Handshake::new(digest.as_ref(), request.fields)))
    }

    /// Who the client of a connection's request is.
    pub(crate) fn identity(&self, index: ConnKey) -> Identity<'_> {
        let connection = &self.connections[index];
        let exchange = connection.exchange.as_deref();
        let lookup = TlsLookup::new(&self.tls_sessions, &self.sessions, &self.connections);
        let user = exchange.and_then(|exchange| exchange.dispatch.user());
        Identity::new(user, lookup.certificate(connection.wire))
    }

    /// Appends the fields whose values have placeholders.
    #[cold]
    fn append_filled(&self, index: ConnKey, head: &mut impl PutField, outbound: Outbound<'_>) {
        let Outbound { request, rules, client, target, id, .. } = outbound;
        let (origin, id) = (|| self.origin(index, request), hexadecimal(id));
        let request_id = client.given_request_id(request).unwrap_or(&id);
        let told = self.told(index, request, (&origin, target, request_id));
        let mut value = Vec::new();
        for filled in &rules.filled {
            if filled.fill(&told, &mut value) {
                head.field(&filled.name, &value);
            }
        }
    }

    /// What came behind the body of a request, as far as applications and servers are told of it; `None` if nothing is left.
    pub(crate) fn outbound_trailers(
        &self,
        index: ConnKey,
        request: &Request<'_, '_>,
        settings: &Pool,
        rules: &RequestEdits,
    ) -> Option<FieldLines> {
        let connection = &self.connections[index];
        let trailers = connection.exchange.as_deref()?.body.trailers.as_deref()?;
        if connection.is_client() && request.framing != Framing::Chunked {
            // The trailers are an earlier request's.
            return None;
        }
        let proxied =
            Client::of(request, &connection.peer(), &self.shared.start.config.server.trusted_proxies).proxied;
        let passed = passed_trailers(trailers, request, (&settings.request_headers, rules), proxied);
        (!passed.is_empty()).then_some(passed)
    }

    /// What may come behind the body of a request that goes on while it comes, by what its client has announced; without values.
    pub(crate) fn announced_trailers(
        &self,
        request: &Request<'_, '_>,
        client: &Client,
        settings: &Pool,
        rules: &RequestEdits,
    ) -> Option<FieldLines> {
        if request.framing != Framing::Chunked {
            return None;
        }
        let announced = body::announced(request.fields)?;
        let passed = passed_trailers(&announced, request, (&settings.request_headers, rules), client.proxied);
        (!passed.is_empty()).then_some(passed)
    }
}

/// The field in which applications and servers get the user that `basic_auth` or `jwt` has found.
const USER_FIELD: &str = "x-remote-user";

/// Appends what gates have said. A user of `forward_auth` is in the fields that are copied from its answer, under their own
/// names.
fn append_gated(head: &mut impl PutField, gated: &Gated) {
    let user = gated.user().filter(|user| user.source() != Source::ForwardAuth);
    if let Some(user) = user {
        head.small_field(USER_FIELD, user.name().as_bytes());
    }
    for (name, value) in gated.fields.all().iter() {
        // A request has one user: no other gate or module may name a second one besides.
        if user.is_none() || !name.eq_ignore_ascii_case(USER_FIELD.as_bytes()) {
            head.field(std::str::from_utf8(name).unwrap_or_default(), value);
        }
    }
}
