//! Which parts of a client's request are sent to an application or an HTTP server, and which other protocol it may switch to.

use maitred_http::claims::{self, starts_alike};
use maitred_http::fields::{FieldEdits, FieldLines, Present};
use maitred_http::request::{Framing, Method, Request, Version};

use super::connection::Connection;
use super::origin::{self, PutField};
use maitred_config::{EarlyHints, Pool, RequestHeaders};
use maitred_log::trace::context::{TRACEPARENT, TRACESTATE};
use maitred_policy::plan::RequestEdits;
use maitred_policy::route::Choice;

/// The protocol that the client may switch to: the first of those in its `Upgrade` that the pool allows; only in a request of
/// version 1.1 that ends with its head (9110-7.8). Names are compared without case, and sent in the pool's spelling.
///
/// No other protocol is passed on. After a switch, the bytes are not parsed here: requests in h2c, which a server may support
/// without its operator knowing, would evade routes, limits, and the fields about the client.
pub(super) fn protocol<'p>(request: &Request<'_, '_>, pool: &'p Pool) -> Option<&'p str> {
    if !request.upgrade || request.version == Version::Http10 || request.framing != Framing::None {
        return None;
    }
    let upgrades = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("upgrade"));
    let mut asked = upgrades.flat_map(|field| field.value.split(|byte| *byte == b','));
    asked.find_map(|asked| {
        let is_asked = |allowed: &&String| asked.trim_ascii().eq_ignore_ascii_case(allowed.as_bytes());
        pool.upgrade.iter().find(is_asked).map(String::as_str)
    })
}

/// Whether a request on a stream is an extended CONNECT, which is represented here as an upgrade, and the choice cannot switch to
/// the protocol. The client would take any other success for a switch (8441-5).
pub(super) fn would_mislead(request: &Request<'_, '_>, choice: &Choice<'_>, pools: &[Pool]) -> bool {
    request.upgrade
        && match choice {
            Choice::Files(_) | Choice::NamedFile(_) | Choice::Modules => true,
            Choice::Pool(pool) => pools.get(*pool).is_none_or(|pool| protocol(request, pool).is_none()),
            Choice::Respond { status, .. } => (200..300).contains(status),
            Choice::Redirect { .. } | Choice::Reroute(_) | Choice::Nothing | Choice::NotThisMethod(_) => {
                false
            }
        }
}

/// Whether the client of a request may have the informational responses (9110-15.2) that come before the final one. Clients of
/// HTTP/2 accept them; some of HTTP/1.1 take the first response for the final one (8297-3), and so do all of HTTP/1.0.
pub(super) fn may_be_informed(connection: &Connection, request: &Request<'_, '_>, pool: &Pool) -> bool {
    if connection.internal {
        // The thread that has the client has decided it.
        let across = connection.exchange.as_deref().and_then(|exchange| exchange.dispatch.across.as_deref());
        return across.is_some_and(|across| across.may_be_informed);
    }
    match pool.early_hints {
        EarlyHints::Never => false,
        EarlyHints::Http2 => connection.is_stream(),
        EarlyHints::Always => request.version != Version::Http10,
    }
}

/// Whether the client of a request takes what comes behind the content of the response (9110-6.5.1): one of HTTP/2 does, of
/// HTTP/1.1 one that says so.
pub(super) fn takes_trailers(connection: &Connection, request: &Request<'_, '_>) -> bool {
    // The other thread knows the client, and drops what that does not take.
    connection.is_stream() || connection.internal || asks_for_trailers(request)
}

/// Whether a request says that its client takes trailers (9110-10.1.4).
pub(super) fn asks_for_trailers(request: &Request<'_, '_>) -> bool {
    let named = |value: &[u8]| {
        let codings = value.split(|byte| *byte == b',');
        codings.map(<[u8]>::trim_ascii).any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
    };
    let mut te = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("te"));
    request.version != Version::Http10 && te.any(|field| named(field.value))
}

/// What becomes of the fields of a trace that came with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Traced {
    /// The fields pass as they are: this server takes no part.
    AsSent,
    /// `traceparent` is this server's.
    Continued,
    /// The trace begins here, so that `tracestate` is of another one.
    Begun,
}

impl Traced {
    #[inline]
    fn replaces(self, name: &str) -> bool {
        match self {
            Traced::AsSent => false,
            Traced::Continued => name.eq_ignore_ascii_case(TRACEPARENT),
            Traced::Begun => name.eq_ignore_ascii_case(TRACEPARENT) || name.eq_ignore_ascii_case(TRACESTATE),
        }
    }
}

/// Appends the fields that go on: not those of this hop, nor those that [`origin::ForwardedHeaders::tell`] writes, nor those that
/// only a proxy may send, unless the peer is a trusted proxy (`proxied`).
pub(super) fn append_fields(
    head: &mut impl PutField,
    request: &Request<'_, '_>,
    (kept, rules): (&RequestHeaders, &RequestEdits),
    (proxied, traced): (bool, Traced),
) {
    let mut present = Present::default();
    // Mostly it names nothing that would go on (`keep-alive`), so that it is not looked at again for each field.
    let names_any = named_by_connection(request)
        .any(|name| std::str::from_utf8(name).is_ok_and(maitred_handoff::is_forwardable));
    let is_named = |name: &str| {
        names_any && named_by_connection(request).any(|named| named.eq_ignore_ascii_case(name.as_bytes()))
    };
    for field in request.fields {
        if maitred_handoff::is_forwardable(field.name)
            && !is_named(field.name)
            && !traced.replaces(field.name)
            && !origin::tells(field.name)
            && passes(field.name, kept, proxied)
            && (rules.fields.is_empty() || keeps(&rules.fields, field.name, &mut present))
        {
            head.field(field.name, field.value);
        }
    }
    for (name, value) in rules.fields.further(present) {
        head.field(std::str::from_utf8(name).unwrap_or_default(), value);
    }
}

/// The trailers of a request that go on, by the rules of its other fields. What the route sets stands in the head, and nothing
/// behind the body says anything else.
#[cold]
pub(super) fn passed_trailers(
    trailers: &FieldLines,
    request: &Request<'_, '_>,
    (kept, rules): (&RequestHeaders, &RequestEdits),
    proxied: bool,
) -> FieldLines {
    let (mut present, mut passed) = (Present::default(), FieldLines::default());
    let is_named =
        |name: &str| named_by_connection(request).any(|named| named.eq_ignore_ascii_case(name.as_bytes()));
    for (name, value) in trailers.all().iter() {
        let Ok(name) = std::str::from_utf8(name) else { continue };
        if maitred_handoff::is_forwardable(name)
            && !is_named(name)
            && !origin::tells(name)
            && passes(name, kept, proxied)
            && keeps(&rules.fields, name, &mut present)
        {
            passed.push(name.to_ascii_lowercase().as_bytes(), value);
        }
    }
    passed
}

/// The `content-length` that is sent on: none if the client has sent none. 0 is sent on, since applications distinguish it from a
/// request that may have lost its content (411, 9110-8.6).
pub(super) fn content_length(request: &Request<'_, '_>, body: &[u8]) -> Option<u64> {
    match (request.framing, request.method) {
        (Framing::Length(_) | Framing::Chunked, _) => Some(body.len() as u64),
        // Content has no meaning there, and most requests are of these methods: their fields are not searched.
        (Framing::None, Method::Get | Method::Head) => None,
        (Framing::None, _) => {
            let states = |name: &str| name.eq_ignore_ascii_case("content-length");
            request.fields.iter().any(|field| states(field.name)).then_some(0)
        }
    }
}

/// Appends what says that another protocol is asked for.
pub(super) fn append_switch(head: &mut impl PutField, switch: Option<&str>) {
    if let Some(protocol) = switch {
        head.field("upgrade", protocol.as_bytes());
        head.field("connection", b"upgrade");
    }
}

/// Whether the rules of the route let a field pass. For an application that gets fields as variables (RFC 3875 section 4.1.18) a
/// name with `_` or `.` is the same as one with `-`, which the rules may name.
fn keeps(rules: &FieldEdits, name: &str, present: &mut Present) -> bool {
    let alias = name.replace(['_', '.'], "-");
    rules.keeps(name.as_bytes(), present) && rules.keeps(alias.as_bytes(), present)
}

/// Whether a field may be sent on whose name may be another one for an application, or that an application may trust. A trusted
/// proxy (`proxied`) may say of a client what the pool says that it may, and nothing else; where the pool says nothing, what is
/// usual.
#[inline]
fn passes(name: &str, rules: &RequestHeaders, proxied: bool) -> bool {
    let ambiguous = is_ambiguous(name.as_bytes());
    let of_proxies = rules.trusted.iter().flatten().any(|known| claims::is_one(name.as_bytes(), known));
    let of_address = is_client_address(name, rules);
    let is_claim = of_proxies || of_address || claims::claim(name).is_some();
    let usual = || rules.trusted.is_none() && !ambiguous && claims::is_usual(name);
    let vouched = proxied
        && (of_address && !ambiguous || of_proxies && is_vouched_for(name, rules) || is_claim && usual());
    let refused = !vouched && (ambiguous && !rules.underscores || is_claim);
    !refused || rules.keep.iter().any(|kept| kept.eq_ignore_ascii_case(name))
}

/// Whether `trusted_fields` has a name as it is spelt: another spelling is not the proxy's.
#[cold]
fn is_vouched_for(name: &str, rules: &RequestHeaders) -> bool {
    let lower = name.to_ascii_lowercase();
    let is = |known: &String| match known.strip_suffix('*') {
        Some(start) => lower
            .strip_prefix(start)
            .is_some_and(|rest| !is_ambiguous(rest.as_bytes()) || is_ambiguous(start.as_bytes())),
        None => lower == *known,
    };
    rules.trusted.iter().flatten().any(is)
}

/// Whether a field has the client's address, by the configuration.
#[inline]
fn is_client_address(name: &str, rules: &RequestHeaders) -> bool {
    rules
        .client_address
        .as_deref()
        .is_some_and(|known| name.len() == known.len() && starts_alike(name.as_bytes(), known.as_bytes()))
}

/// Whether the name may be the same as another one for an application that gets fields as variables. Eight bytes are compared at
/// a time, which the compiler does by vector instructions: byte by byte, this was a twentieth of a browser's request.
fn is_ambiguous(name: &[u8]) -> bool {
    let is_one = |byte: &u8| matches!(byte, b'_' | b'.');
    let has_one = |word: &[u8; 8]| word.iter().fold(false, |any, byte| any | is_one(byte));
    match name.last_chunk() {
        // The last word may have some bytes of the one before it.
        Some(last) => name.as_chunks().0.iter().chain([last]).any(has_one),
        None => name.iter().any(is_one),
    }
}

/// What `Connection` names: fields of this hop only, among others (9110-7.6.1).
pub(super) fn named_by_connection<'b>(request: &Request<'_, 'b>) -> impl Iterator<Item = &'b [u8]> {
    let connections = request.fields.iter().filter(|field| field.name.eq_ignore_ascii_case("connection"));
    connections.flat_map(|field| field.value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests;
