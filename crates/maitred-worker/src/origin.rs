//! The client of a request, and the fields that inform the application about it.
//!
//! Any client can write `X-Forwarded-For`. What a request says of its own past is therefore trusted only if the peer is a trusted
//! proxy, and is replaced by what was observed here if it is not. The application gets the same fields either way, and can trust
//! all of them.

use std::hash::{BuildHasher, RandomState};
use std::io::Write as _;
use std::net::SocketAddr;

use maitred_handoff::HeadPart;
use maitred_http::claims::starts_alike;
use maitred_http::fields::{FieldEdits, FieldLines};
use maitred_http::forwarded::{self, Hop};
use maitred_http::request::Request;

use super::connection::remote::Remote;
use maitred_config::TrustedProxies;
pub(super) use maitred_config::is_within;

/// Bytes of the longest request id that is taken from a proxy.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The peer of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    /// The address of the peer.
    pub remote: Remote,
    /// Whether it uses TLS.
    pub secure: bool,
}

fn scheme(secure: bool) -> &'static str {
    if secure { "https" } else { "http" }
}

/// The client of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client {
    /// The client's address: the peer's, or the one that trusted proxies name.
    pub remote: Remote,
    /// Whether the client used TLS: observed here, or reported by a trusted proxy.
    pub https: bool,
    /// Whether the peer is a trusted proxy.
    pub proxied: bool,
    /// What has named the client's address.
    pub named_by: NamedBy,
}

/// What names the client's address, if the peer is a trusted proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NamedBy {
    /// `X-Forwarded-For`, or `Forwarded` without it.
    Either,
    /// The given field alone.
    Only(Told),
    /// Another field. The two of `Either` are made from what it says.
    Another,
}

impl Client {
    /// The client of a request that came from `peer`.
    pub(super) fn of(request: &Request<'_, '_>, peer: &Peer, proxies: &TrustedProxies) -> Client {
        match proxies.trusts(peer.remote.address.map(|address| address.ip())) {
            true => Client::behind(request, peer, proxies),
            false => {
                let (remote, https) = (peer.remote, peer.secure);
                Client { remote, https, proxied: false, named_by: NamedBy::Either }
            }
        }
    }

    /// `X-Forwarded-For` decides if it is there, because most proxies set it, and pass on what a client has put into
    /// `Forwarded`.
    fn behind(request: &Request<'_, '_>, peer: &Peer, proxies: &TrustedProxies) -> Client {
        let trusted = |address| is_within(address, &proxies.networks);
        let by_list =
            || forwarded::walk(values(request, Told::For).flat_map(forwarded::x_forwarded_for), trusted);
        let by_elements =
            || forwarded::walk(values(request, Told::Forwarded).flat_map(forwarded::forwarded), trusted);
        let named_by = NamedBy::of(proxies);
        let hop = match named_by {
            NamedBy::Either if values(request, Told::For).next().is_some() => by_list(),
            NamedBy::Either | NamedBy::Only(Told::Forwarded) => by_elements(),
            NamedBy::Only(_) => by_list(),
            NamedBy::Another => {
                let fields = request.fields.iter().filter(|field| proxies.names(field.name));
                forwarded::walk(fields.flat_map(|field| forwarded::x_forwarded_for(field.value)), trusted)
            }
        };
        let proto = values(request, Told::Proto).last().map(last_item).or(hop.and_then(|hop| hop.proto));
        Client {
            remote: hop.map_or(peer.remote, |hop| Remote::new(Some(SocketAddr::new(hop.address, hop.port)))),
            https: proto.map_or(peer.secure, |proto| proto.eq_ignore_ascii_case(b"https")),
            proxied: true,
            named_by,
        }
    }

    /// Scheme of the URI that the client requested.
    pub(super) fn scheme(&self) -> &'static str {
        scheme(self.https)
    }

    /// The request id that a trusted proxy has given.
    pub(super) fn given_request_id<'b>(&self, request: &Request<'_, 'b>) -> Option<&'b [u8]> {
        let usable = |id: &&[u8]| {
            (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
        };
        if !self.proxied {
            return None;
        }
        values(request, Told::RequestId).next().filter(usable)
    }
}

impl NamedBy {
    fn of(proxies: &TrustedProxies) -> NamedBy {
        match proxies.field.as_deref() {
            None => NamedBy::Either,
            Some("x-forwarded-for") => NamedBy::Only(Told::For),
            Some("forwarded") => NamedBy::Only(Told::Forwarded),
            Some(_) => NamedBy::Another,
        }
    }
}

/// What a field says about a request's past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// `X-Forwarded-For`: the hops
    For,
    /// `Forwarded`: the same, by RFC 7239
    Forwarded,
    /// `X-Forwarded-Proto`: the client's scheme
    Proto,
    /// `X-Forwarded-Host`: the client's `Host`
    Host,
    /// `X-Request-Id`
    RequestId,
    /// `X-Request-Start`: when the first proxy had it
    RequestStart,
    /// `X-SSL-*`: the client's TLS
    Tls,
    /// Any other `X-Forwarded-*`, `X-Real-IP`, `X-Queue-Start`, `Early-Data` (RFC 8470 section 5.1)
    Other,
    /// A field of these with `_` or `.` for `-`. For an application that sees fields as CGI variables (RFC 3875 section 4.1.18)
    /// it would be the same one, so that it is never passed on.
    Disguised,
}

fn told(name: &str) -> Option<Told> {
    const KNOWN: [(&str, Told); 9] = [
        ("x-forwarded-for", Told::For),
        ("x-forwarded-proto", Told::Proto),
        ("x-forwarded-host", Told::Host),
        ("forwarded", Told::Forwarded),
        ("x-request-id", Told::RequestId),
        ("x-request-start", Told::RequestStart),
        ("x-real-ip", Told::Other),
        ("x-queue-start", Told::Other),
        ("early-data", Told::Other),
    ];
    const PREFIX: &str = "x-forwarded-";
    const TLS_PREFIX: &str = "x-ssl-";
    // For most fields, this check is enough.
    if !matches!(name.as_bytes().first(), Some(b'x' | b'X' | b'f' | b'F' | b'e' | b'E')) {
        return None;
    }
    let starts = |known: &str| starts_alike(name.as_bytes(), known.as_bytes());
    let known = KNOWN.iter().find(|(known, _)| name.len() == known.len() && starts(known));
    let told = match known {
        Some((_, told)) => *told,
        None if starts(PREFIX) => Told::Other,
        None if starts(TLS_PREFIX) => Told::Tls,
        None => return None,
    };
    Some(if name.contains(['_', '.']) { Told::Disguised } else { told })
}

/// Whether a field is about a request's past, so that only [`ForwardedHeaders::tell`] may write it.
pub(super) fn tells(name: &str) -> bool {
    told(name).is_some()
}

fn values<'a, 'b>(
    request: &'a Request<'_, 'b>,
    wanted: Told,
) -> impl Iterator<Item = &'b [u8]> + use<'a, 'b> {
    let fields = request.fields.iter();
    fields.filter(move |field| told(field.name) == Some(wanted)).map(|field| field.value)
}

fn last_item(value: &[u8]) -> &[u8] {
    value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii()
}

/// The target of the fields for an upstream: a head of HTTP/1.1, or a list of which another form is made.
pub(super) trait PutField {
    /// Takes a field. Neither name nor value holds CR, LF or NUL.
    fn field(&mut self, name: &str, value: &[u8]);

    /// The same of a name in lower case.
    fn small_field(&mut self, name: &'static str, value: &[u8]) {
        self.field(name, value);
    }
}

impl PutField for HeadPart<'_> {
    #[inline]
    fn field(&mut self, name: &str, value: &[u8]) {
        HeadPart::field(self, name, value);
    }

    #[inline]
    fn small_field(&mut self, name: &'static str, value: &[u8]) {
        HeadPart::small_field(self, name, value);
    }
}

impl PutField for FieldLines {
    fn field(&mut self, name: &str, value: &[u8]) {
        self.push(name.as_bytes(), value);
    }
}

/// What is known of a request besides its head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival<'a> {
    /// The peer that it came from.
    pub peer: &'a Peer,
    /// The client: the peer, or the one that trusted proxies name.
    pub client: &'a Client,
    /// The id that it gets if it has none.
    pub id: u128,
    /// When its first byte was here: Unix time in microseconds.
    pub began_unix_us: u64,
    /// The rules of the route: what they set or remove goes on from no proxy.
    pub rules: &'a FieldEdits,
}

impl Arrival<'_> {
    /// Whether the route sets the field, or removes it.
    fn is_said_by_rules(&self, name: &str) -> bool {
        !self.rules.is_empty() && self.rules.drops(&name.to_ascii_lowercase())
    }
}

/// Writes the fields about a request's past. Each thread has its own.
#[derive(Debug, Default)]
pub(super) struct ForwardedHeaders {
    /// Keys of a keyed hash, from the system's random numbers, once for each thread.
    keys: [RandomState; 2],
    requests: u64,
    scratch: Vec<u8>,
}

impl ForwardedHeaders {
    /// A request id: 128 bits that cannot be guessed, and that no other request has. No system call: the keyed hash (SipHash) of
    /// a counter.
    pub(super) fn next_id(&mut self) -> u128 {
        self.requests = self.requests.wrapping_add(1);
        let [high, low] = self.keys.each_ref().map(|key| u128::from(key.hash_one(self.requests)));
        high << 64 | low
    }

    /// Appends the fields to an application's request head.
    pub(super) fn tell(&mut self, head: &mut impl PutField, request: &Request<'_, '_>, arrival: Arrival<'_>) {
        if arrival.client.proxied {
            pass_on(head, request, &arrival);
        }
        let missing = |wanted| !arrival.client.proxied || values(request, wanted).next().is_none();
        if missing(Told::Proto) {
            head.small_field("x-forwarded-proto", arrival.client.scheme().as_bytes());
        }
        if missing(Told::Host) && !request.authority.is_empty() {
            head.small_field("x-forwarded-host", request.authority.as_bytes());
        }
        self.tell_hops(head, request, arrival);
        // The request's id and start come last, because they differ each time: an adapter may have cached the part before them.
        match arrival.client.given_request_id(request) {
            Some(id) => head.small_field("x-request-id", id),
            None => head.small_field("x-request-id", &hexadecimal(arrival.id)),
        }
        match arrival.client.proxied.then(|| values(request, Told::RequestStart).next()).flatten() {
            Some(start) => head.small_field("x-request-start", start),
            None => self.tell_start(head, arrival.began_unix_us),
        }
    }

    fn tell_start(&mut self, head: &mut impl PutField, unix_us: u64) {
        let (secs, millis) = (unix_us / 1_000_000, unix_us / 1000 % 1000);
        self.scratch.clear();
        self.scratch.extend_from_slice(b"t=");
        self.scratch.extend_from_slice(itoa::Buffer::new().format(secs).as_bytes());
        let digit = |unit: u64| b'0' + (millis / unit % 10) as u8;
        self.scratch.extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
        head.small_field("x-request-start", &self.scratch);
    }

    /// `X-Forwarded-For` and `Forwarded`. If a proxy sends only one of them, or only one is believed, the other is made from
    /// that, so that the two never contradict each other by omission. If another field names the client, both are made from it.
    /// A peer on a Unix socket has no address that could be added; where there is nothing else, neither field is sent.
    fn tell_hops(&mut self, head: &mut impl PutField, request: &Request<'_, '_>, arrival: Arrival<'_>) {
        let (scratch, client, peer) = (&mut self.scratch, arrival.client, arrival.peer.remote);
        let is_read = |told| {
            client.proxied && (client.named_by == NamedBy::Either || client.named_by == NamedBy::Only(told))
        };
        // Without the field, or without an address in it, the peer is the client.
        let named = (client.named_by == NamedBy::Another && client.remote.address != peer.address)
            .then_some(client.remote);
        scratch.clear();
        if is_read(Told::For) {
            append_list(scratch, values(request, Told::For));
        }
        if is_read(Told::Forwarded) && scratch.is_empty() {
            let hops = values(request, Told::Forwarded).flat_map(forwarded::forwarded);
            hops.for_each(|hop| append_address(scratch, hop));
        }
        scratch.extend_from_slice(named.as_ref().map_or(b"", |remote| remote.bytes()));
        if peer.address.is_some() {
            append_separator(scratch);
            scratch.extend_from_slice(peer.bytes());
        }
        if !scratch.is_empty() {
            head.small_field("x-forwarded-for", scratch);
        }

        scratch.clear();
        if is_read(Told::Forwarded) {
            append_list(scratch, values(request, Told::Forwarded));
        }
        if is_read(Told::For) && scratch.is_empty() {
            let hops = values(request, Told::For).flat_map(forwarded::x_forwarded_for);
            hops.for_each(|hop| append_element(scratch, hop));
        }
        if let Some(remote) = named {
            forwarded::append_hop(scratch, remote.bytes());
        }
        if peer.address.is_some() {
            append_separator(scratch);
            forwarded::append_element(scratch, peer.bytes(), request.authority, scheme(arrival.peer.secure));
        }
        if !scratch.is_empty() {
            head.small_field("forwarded", scratch);
        }
    }
}

/// Fields of a trusted proxy that are sent on as they are. The fields about TLS are replaced if the proxy itself uses TLS here.
fn pass_on(head: &mut impl PutField, request: &Request<'_, '_>, arrival: &Arrival<'_>) {
    for field in request.fields {
        match told(field.name) {
            Some(Told::Other) if arrival.is_said_by_rules(field.name) => {}
            Some(Told::Proto | Told::Host | Told::Other) => head.field(field.name, field.value),
            Some(Told::Tls) if !arrival.peer.secure => head.field(field.name, field.value),
            _ => {}
        }
    }
}

fn append_separator(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.extend_from_slice(b", ");
    }
}

/// The values of several fields are the items of one list (9110-5.3).
fn append_list<'a>(out: &mut Vec<u8>, values: impl Iterator<Item = &'a [u8]>) {
    for value in values.filter(|value| !value.is_empty()) {
        append_separator(out);
        out.extend_from_slice(value);
    }
}

fn append_address(out: &mut Vec<u8>, hop: Option<Hop<'_>>) {
    append_separator(out);
    let _ = match hop {
        Some(hop) => write!(out, "{}", hop.address),
        None => write!(out, "unknown"),
    };
}

fn append_element(out: &mut Vec<u8>, hop: Option<Hop<'_>>) {
    append_separator(out);
    match hop {
        Some(hop) => {
            forwarded::append_hop(out, Remote::new(Some(SocketAddr::new(hop.address, hop.port))).bytes())
        }
        None => out.extend_from_slice(b"for=unknown"),
    }
}

/// The two digits of each byte: a request has its id written twice, and digit by digit that took five times as long.
static HEX_PAIRS: [[u8; 2]; 256] = {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

/// A request id as it is written.
pub(super) fn hexadecimal(id: u128) -> [u8; 32] {
    let mut text = [0; 32];
    for (pair, byte) in text.as_chunks_mut().0.iter_mut().zip(id.to_be_bytes()) {
        *pair = HEX_PAIRS[usize::from(byte)];
    }
    text
}

#[cfg(test)]
mod tests;
