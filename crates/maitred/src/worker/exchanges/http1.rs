//! Requests to HTTP servers, as HTTP/1.1.

use maitred_handoff::{REQUEST_PREFIX_BYTES, RequestFlags, begin_request};

use super::Exchanges;
use crate::config::{Pool, Source, Upstream};
use crate::serve::RequestContext;
use crate::worker::connection::tls::TlsLookup;
use crate::worker::forward::{append_fields, append_switch, canonical_target, protocol};
use crate::worker::frame::{append_body, payload_bytes_max};
use crate::worker::origin::{Arrival, Client};
use crate::worker::step::RequestInput;

/// The host for a request that came without one.
fn host_of(settings: &Pool) -> String {
    match &settings.source {
        Source::Http(servers) => match servers.first() {
            Some(Upstream::Tcp { name, .. }) => name.clone(),
            _ => "localhost".to_owned(),
        },
        _ => "localhost".to_owned(),
    }
}

impl Exchanges {
    /// The request as the server gets it, after [`REQUEST_PREFIX_BYTES`] of a prefix that is not sent. `None` if it is too large.
    pub(in crate::worker) fn write_http1(
        &mut self,
        index: u32,
        settings: &Pool,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
    ) -> Option<(Vec<u8>, usize)> {
        let request = context.request;
        let id = self.forwarded.next_id();
        self.exchange(index).request_id = Some(id);
        let connection = &self.processes.clients.connections[index as usize];
        let spool = connection.exchange.as_deref().and_then(|exchange| exchange.spool.as_ref());
        let mut out = Vec::with_capacity(given.head.len() + given.body.len() + 1024);
        let flags = RequestFlags {
            keep: false,
            http10: false,
            head: false,
            body_fd: false,
            may_detach: false,
            body_stream: false,
        };
        // A frame without meta lines: after its prefix comes the canonical head, which HTTP servers get, too.
        let target = canonical_target(context, &self.shared.start.config.server);
        let mut head = begin_request(&mut out, 0, 0, flags, 0).head(request.method_text, &target);
        let host =
            if request.authority.is_empty() { host_of(settings) } else { request.authority.to_owned() };
        let rules = &given.routed.plan.requests;
        head.field("host", rules.host.as_deref().unwrap_or(host.as_bytes()));
        let switch = protocol(request, settings);
        let peer = &connection.peer();
        let wire = connection.wire;
        let client = &Client::of(request, peer, &self.shared.start.config.server.trusted_proxies);
        append_fields(&mut head, request, (&settings.request_headers, rules), client.proxied);
        append_switch(&mut head, switch);
        let waited = self.clock.now.saturating_duration_since(connection.began).as_micros() as u64;
        let began_unix_us = self.clock.unix_us().saturating_sub(waited);
        let lookup = TlsLookup::new(&self.tls_sessions, &self.sessions, &self.connections);
        lookup.fields(wire, |name, value| head.field(name, value));
        self.processes.clients.forwarded.tell(
            &mut head,
            request,
            Arrival { peer, client, id, began_unix_us },
        );
        const PREFIX: &str = "x-forwarded-prefix";
        let told =
            client.proxied && request.fields.iter().any(|field| field.name.eq_ignore_ascii_case(PREFIX));
        if !settings.mount.is_empty() && !told {
            head.field(PREFIX, settings.mount.as_bytes());
        }
        let most = payload_bytes_max(self.shared.start.config.limits.body_inline_bytes_max);
        append_body(head, request, given.body, spool, most).then_some((out, REQUEST_PREFIX_BYTES))
    }
}
