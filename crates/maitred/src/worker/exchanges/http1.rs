//! Requests to HTTP servers, as HTTP/1.1.

use maitred_handoff::{REQUEST_PREFIX_BYTES, RequestFlags, begin_request};

use super::Exchanges;
use crate::config::{Pool, Source, Upstream};
use crate::serve::RequestContext;
use crate::worker::clients::forwarded::Outbound;
use crate::worker::forward::{asks_for_trailers, canonical_target, protocol};
use crate::worker::frame::{append_body, payload_bytes_max};
use crate::worker::origin::Client;
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
        let peer = &self.connections[index as usize].peer();
        let client = &Client::of(request, peer, &self.shared.start.config.server.trusted_proxies);
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
        let outbound = Outbound {
            request,
            rules: &given.routed.plan.requests,
            settings,
            default_host: &host_of(settings),
            switch: protocol(request, settings),
            peer,
            client,
            id,
            tls_fields: &[],
        };
        self.append_outbound(index, &mut head, outbound);
        if outbound.switch.is_none() && asks_for_trailers(request) {
            // There are servers that send trailers to none but those that ask for them.
            head.field("te", b"trailers");
            head.field("connection", b"te");
        }
        const PREFIX: &str = "x-forwarded-prefix";
        let told =
            client.proxied && request.fields.iter().any(|field| field.name.eq_ignore_ascii_case(PREFIX));
        if !settings.mount.is_empty() && !told {
            head.field(PREFIX, settings.mount.as_bytes());
        }
        let most = payload_bytes_max(self.shared.start.config.limits.body_inline_bytes_max);
        let spool = self.exchange_of(index).and_then(|exchange| exchange.spool.as_ref());
        append_body(head, request, given.body, spool, most).then_some((out, REQUEST_PREFIX_BYTES))
    }
}
