//! Requests to HTTP servers, as HTTP/1.1.

use std::ops::Range;

use maitred_handoff::{HeadPart, REQUEST_PREFIX_BYTES, RequestFlags, begin_request};
use maitred_http::fields::FieldLines;
use maitred_http::h1::{put_chunk_end, put_chunk_start, put_last_chunk};
use maitred_http::request::{Framing, Request};

use super::Exchanges;
use crate::clients::forwarded::Outbound;
use crate::connection::spool::Spool;
use crate::forward::{asks_for_trailers, protocol};
use crate::frame::{append_body, payload_bytes_max};
use crate::keys::ConnKey;
use crate::origin::Client;
use crate::step::RequestInput;
use crate::upstream::server::{Dialect, Ending, Written};
use maitred_config::{HostRule, Pool, Upstream};
use maitred_files::RequestContext;
use maitred_policy::plan::RequestEdits;
use maitred_policy::target::Target;

/// The host for a request that came without one, or for all of them.
fn host_of(settings: &Pool) -> &str {
    settings.source.server(0).map_or("localhost", Upstream::authority)
}

/// Where the host stands in a head that begins with a request line and that field, if each server gets its own: which one that is
/// is not known yet, and it need not be one of the configuration.
fn place_of_host(head: &[u8], start: usize, settings: &Pool, rules: &RequestEdits) -> Option<Range<usize>> {
    const NAME: &[u8] = b"host: ";
    if settings.external.host != HostRule::Server || rules.host.is_some() {
        return None;
    }
    let end_of =
        |from: usize, last: u8| Some(from + head.get(from..)?.iter().position(|byte| *byte == last)?);
    let field = end_of(start, b'\n')? + 1;
    let end = end_of(field, b'\r')?;
    head.get(field..end)?.starts_with(NAME).then_some(field + NAME.len()..end)
}

/// The value of `Trailer` (9110-6.6.2).
fn names_of(trailers: &FieldLines) -> Vec<u8> {
    let names: Vec<&[u8]> = trailers.all().iter().map(|(name, _)| name).collect();
    names.join(&b", "[..])
}

/// Ends a head whose body has trailers, and appends that as one chunk (9112-7.1), unless it is spooled. Gives back what comes
/// behind a spooled body, otherwise nothing; `None` if all of it is larger than `payload_bytes_max`.
#[cold]
fn append_chunk(
    mut head: HeadPart<'_>,
    body: &[u8],
    spool: Option<&Spool>,
    trailers: &FieldLines,
    payload_bytes_max: u32,
) -> Option<Vec<u8>> {
    head.field("trailer", &names_of(trailers));
    head.field("transfer-encoding", b"chunked");
    let mut part = head.body(None);
    let (mut start, mut ending) = (Vec::new(), Vec::new());
    let bytes = spool.map_or(body.len() as u64, |spool| spool.bytes);
    if bytes > 0 {
        put_chunk_start(bytes, &mut start);
        put_chunk_end(&mut ending);
    }
    part.extend(&start);
    put_last_chunk(trailers.all(), &mut ending);
    if spool.is_none() {
        part.extend(body);
        part.extend(&ending);
        ending.clear();
    }
    part.finish(payload_bytes_max).then_some(ending)
}

/// Ends a head whose body follows while it comes. False if it is larger than `payload_bytes_max`.
fn end_head(mut head: HeadPart<'_>, request: &Request<'_, '_>, payload_bytes_max: u32) -> bool {
    if request.expects_continue {
        // The client sends nothing before the server's 100 (Continue), or for a while.
        head.field("expect", b"100-continue");
    }
    match request.framing {
        Framing::Length(length) => head.body(Some(length)).finish(payload_bytes_max),
        Framing::Chunked | Framing::None => {
            head.field("transfer-encoding", b"chunked");
            head.body(None).finish(payload_bytes_max)
        }
    }
}

/// What is said of the connection to a server.
fn put_connection(head: &mut HeadPart<'_>, request: &Request<'_, '_>, settings: &Pool) {
    // Some servers send trailers to none but those that ask for them.
    let trailers = asks_for_trailers(request);
    if trailers {
        head.field("te", b"trailers");
    }
    // With `proxy_protocol`, the connection is this client's, and not kept.
    match (trailers, settings.external.proxy_protocol.is_some()) {
        (true, true) => head.field("connection", b"te, close"),
        (true, false) => head.field("connection", b"te"),
        (false, true) => head.field("connection", b"close"),
        (false, false) => {}
    }
}

/// Of a request that is not handed to a process.
const NO_FLAGS: RequestFlags = RequestFlags {
    keep: false,
    http10: false,
    head: false,
    body_fd: false,
    may_detach: false,
    body_stream: false,
};

/// Tells a server where it is mounted, unless a trusted proxy has told it.
fn put_mount(head: &mut HeadPart<'_>, request: &Request<'_, '_>, settings: &Pool, proxied: bool) {
    const PREFIX: &str = "x-forwarded-prefix";
    let told = proxied && request.fields.iter().any(|field| field.name.eq_ignore_ascii_case(PREFIX));
    if !settings.mount.is_empty() && !told {
        head.field(PREFIX, settings.mount.as_bytes());
    }
}

impl Exchanges {
    /// The request as the server gets it, after [`REQUEST_PREFIX_BYTES`] of a prefix that is not sent. `None` if it is too large.
    /// `chunked`: trailers follow the body in chunks; otherwise they are left out.
    pub(crate) fn write_head(
        &mut self,
        index: ConnKey,
        settings: &Pool,
        context: &RequestContext<'_>,
        given: RequestInput<'_>,
        chunked: bool,
    ) -> Option<Written> {
        let request = context.request;
        let new_id = self.forwarded.next_id();
        let (id, across) = self.exchange(index).dispatch.begin_outbound(new_id);
        let peer = &self.connections[index].peer();
        let client = &Client::of(request, peer, &self.shared.start.config.server.trusted_proxies);
        let mut out = self.upstreams.take_buffer();
        out.reserve(given.head.len() + given.body.len() + 1024);
        // A frame without meta lines: after its prefix comes the canonical head, which HTTP servers get, too.
        let target = Target::routed(request, given.routed.plan.slashes).for_pool(settings, context.path);
        let mut head = begin_request(&mut out, 0, 0, NO_FLAGS, 0).head(request.method_text, &target);
        let outbound = Outbound {
            request,
            rules: &given.routed.plan.requests,
            settings,
            default_host: host_of(settings),
            switch: protocol(request, settings),
            peer,
            client,
            target: &target,
            id,
            tls_fields: across.as_deref().map_or(&[], |across| &across.fields),
        };
        let handshake = self.append_outbound(index, &mut head, outbound);
        if outbound.switch.is_none() {
            put_connection(&mut head, request, settings);
        }
        put_mount(&mut head, request, settings, client.proxied);
        let most = payload_bytes_max(self.shared.start.config.limits.body_inline_bytes_max);
        let spool = self.exchange_of(index).and_then(|exchange| exchange.body.spool.as_deref());
        let passes = self.passes_body(index);
        let trailers = match passes {
            true => self.announced_trailers(request, client, settings, outbound.rules),
            false => self.outbound_trailers(index, request, settings, outbound.rules),
        };
        if let Some(trailers) = trailers.as_ref().filter(|_| passes || !chunked) {
            // Some servers give no others to their applications: those written in Go, over HTTP/2.
            head.field("trailer", &names_of(trailers));
        }
        let ending = match trailers.filter(|_| chunked) {
            _ if passes => end_head(head, request, most).then_some(Vec::new()),
            None => append_body(head, request, given.body, spool, most).then_some(Vec::new()),
            Some(trailers) => append_chunk(head, given.body, spool, &trailers, most),
        };
        self.exchange(index).dispatch.across = across;
        let dialect = Dialect::Http1(Ending::new(ending?));
        let host = place_of_host(&out, REQUEST_PREFIX_BYTES, settings, &given.routed.plan.requests);
        Some(Written { out, start: REQUEST_PREFIX_BYTES, dialect, host, handshake })
    }
}
