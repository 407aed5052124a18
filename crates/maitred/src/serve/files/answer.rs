//! From an entry to an answer: conditions (RFC 9110 section 13), ranges (section 14), negotiation of the coding
//! (section 12.5.3).

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::rc::Rc;

use maitred_http::conditional::{self, Outcome, Validators};
use maitred_http::etag::EntityTag;
use maitred_http::negotiate;
use maitred_http::range::{self, Ranges};
use maitred_http::request::{Known, Method};

use super::entry::{Body, Chosen, Entry};
use super::prepare::token;
use crate::serve::fixed::{content_length, finish_head, status_line};
use crate::serve::{Exchange, Segment, Served, Summary};

/// A body in memory that is at least so long is not copied if it cannot be sent, but held where it is. A shorter one costs less
/// as a copy than what holding it takes.
const HELD_BYTES_MIN: usize = 1024;

/// An answer, or the error to answer with.
#[derive(Debug)]
pub(super) enum Answer {
    Served(Served),
    /// Status and further field lines.
    Error(u16, Vec<u8>),
}

/// Makes the boundaries of multipart answers. They cannot be foreseen, so nobody can plant one in a file.
#[derive(Debug, Default)]
pub(super) struct Boundaries {
    keys: RandomState,
    used: u64,
}

impl Boundaries {
    fn next(&mut self) -> String {
        self.used += 1;
        format!("maitred-{:016x}", self.keys.hash_one(self.used))
    }
}

/// Answers a GET or HEAD with a file. Nothing is written to `out` when the answer is an error.
#[inline]
pub(super) fn file(
    entry: &Rc<Entry>,
    exchange: &Exchange<'_>,
    ranges_max: usize,
    boundaries: &mut Boundaries,
    out: &mut Vec<u8>,
) -> Answer {
    let known = &exchange.request.known;
    let one = if entry.encoded.is_empty() { Chosen::plain(entry) } else { negotiated(entry, known) };
    if is_unconditional(known) {
        return Answer::Served(whole(one, exchange, out));
    }
    selected(one, exchange, ranges_max, boundaries, out)
}

/// An entry's page in answer to an error, with the status of the error.
pub(super) fn error_page(
    status: u16,
    fields: &[u8],
    entry: &Rc<Entry>,
    exchange: &Exchange<'_>,
    out: &mut Vec<u8>,
) -> Served {
    let one = Chosen::plain(entry);
    status_line(status, out);
    content_length(one.size, out);
    // No validators: the page's do not speak for what was asked for.
    out.extend_from_slice(one.type_line());
    out.extend_from_slice(fields);
    finish_head(exchange.clock, exchange.persistence, out);
    body(one, status, exchange, out)
}

#[inline]
fn is_unconditional(known: &Known<'_>) -> bool {
    known.range.is_none()
        && known.if_none_match.is_none()
        && known.if_modified_since.is_none()
        && known.if_match.is_none()
        && known.if_unmodified_since.is_none()
}

/// The representation that the client likes best. One that accepts none, not even identity, gets identity.
fn negotiated<'e>(entry: &'e Rc<Entry>, known: &Known<'_>) -> Chosen<'e> {
    let mut offered = [""; 3];
    for (place, (coding, _)) in offered.iter_mut().zip(&entry.encoded) {
        *place = token(*coding);
    }
    let offered = offered.get(..entry.encoded.len()).unwrap_or_default();
    let accepted = known.accept_encoding.map(|list| list.joined());
    let best = negotiate::best(accepted.as_deref(), offered);
    let encoded = entry.encoded.iter().position(|(coding, _)| Some(token(*coding)) == best);
    encoded.and_then(|at| Chosen::encoded(entry, at)).unwrap_or(Chosen::plain(entry))
}

/// The whole representation with 200.
#[inline]
fn whole(one: Chosen<'_>, exchange: &Exchange<'_>, out: &mut Vec<u8>) -> Served {
    let head = one.head();
    // Date, Connection and the empty line are less than this.
    const REST_BYTES_MAX: usize = 96;
    let inline = match one.body() {
        Body::Inline(bytes) => bytes.len(),
        Body::File(_) => 0,
    };
    out.reserve(head.len() + REST_BYTES_MAX + inline);
    out.extend_from_slice(head);
    finish_head(exchange.clock, exchange.persistence, out);
    body(one, 200, exchange, out)
}

#[inline]
fn body(one: Chosen<'_>, status: u16, exchange: &Exchange<'_>, out: &mut Vec<u8>) -> Served {
    if exchange.request.method == Method::Head {
        return Served::Whole(Summary { status, body_bytes: 0 });
    }
    let summary = Summary { status, body_bytes: one.size };
    match one.body() {
        Body::Inline(bytes) => {
            out.extend_from_slice(bytes);
            match bytes.len() {
                ..HELD_BYTES_MIN => Served::Whole(summary),
                _ => Served::Cached(summary, one.cached(0..one.size)),
            }
        }
        Body::File(file) => {
            let segment = Segment::File { file: Rc::clone(file), offset: 0, end: one.size };
            Served::Streaming(summary, VecDeque::from([segment]))
        }
    }
}

/// An answer to a request with conditions or ranges.
fn selected(
    one: Chosen<'_>,
    exchange: &Exchange<'_>,
    ranges_max: usize,
    boundaries: &mut Boundaries,
    out: &mut Vec<u8>,
) -> Answer {
    let request = exchange.request;
    let now = exchange.clock.unix_secs;
    let opaque = one.etag.as_deref().map(|etag| etag.trim_matches('"').as_bytes());
    let etag = opaque.map(|opaque| EntityTag { weak: false, opaque });
    let validators = Validators { etag, last_modified: one.last_modified };
    match conditional::evaluate(&request.known, request.method, Some(&validators), now) {
        Outcome::NotModified => return Answer::Served(not_modified(one, exchange, out)),
        Outcome::PreconditionFailed => return Answer::Error(412, Vec::new()),
        Outcome::Proceed => {}
    }
    let applies = conditional::range_applies(&request.known, request.method, &validators, now);
    let Some(value) = request.known.range.filter(|_| applies && one.accept_ranges) else {
        return Answer::Served(whole(one, exchange, out));
    };
    match range::parse(value, one.size, ranges_max) {
        Ranges::Ignore => Answer::Served(whole(one, exchange, out)),
        Ranges::Unsatisfiable => {
            Answer::Error(416, format!("Content-Range: bytes */{}\r\n", one.size).into_bytes())
        }
        Ranges::Some(ranges) => match ranges.as_slice() {
            [single] => Answer::Served(part(one, single, exchange, out)),
            several => Answer::Served(multipart(one, several, &boundaries.next(), exchange, out)),
        },
    }
}

fn not_modified(one: Chosen<'_>, exchange: &Exchange<'_>, out: &mut Vec<u8>) -> Served {
    status_line(304, out);
    out.extend_from_slice(one.common_fields());
    finish_head(exchange.clock, exchange.persistence, out);
    Served::Whole(Summary { status: 304, body_bytes: 0 })
}

fn content_range(range: &Range<u64>, size: u64, out: &mut Vec<u8>) {
    let line = format!("Content-Range: bytes {}-{}/{size}\r\n", range.start, range.end.saturating_sub(1));
    out.extend_from_slice(line.as_bytes());
}

/// One range with 206.
fn part(one: Chosen<'_>, range: &Range<u64>, exchange: &Exchange<'_>, out: &mut Vec<u8>) -> Served {
    let length = range.end - range.start;
    status_line(206, out);
    content_length(length, out);
    content_range(range, one.size, out);
    out.extend_from_slice(one.fields_from_type());
    finish_head(exchange.clock, exchange.persistence, out);
    let summary = Summary { status: 206, body_bytes: length };
    match one.body() {
        Body::Inline(body) => {
            let bytes = body.get(range.start as usize..range.end as usize).unwrap_or_default();
            out.extend_from_slice(bytes);
            match bytes.len() {
                ..HELD_BYTES_MIN => Served::Whole(summary),
                _ => Served::Cached(summary, one.cached(range.clone())),
            }
        }
        Body::File(file) => {
            let segment = Segment::File { file: Rc::clone(file), offset: range.start, end: range.end };
            Served::Streaming(summary, VecDeque::from([segment]))
        }
    }
}

/// Several ranges as `multipart/byteranges` (RFC 9110 section 14.6) with 206.
fn multipart(
    one: Chosen<'_>,
    ranges: &[Range<u64>],
    boundary: &str,
    exchange: &Exchange<'_>,
    out: &mut Vec<u8>,
) -> Served {
    let mut intros = Vec::with_capacity(ranges.len());
    let mut length = 0;
    for (nth, range) in ranges.iter().enumerate() {
        let mut intro = format!("{}--{boundary}\r\n", if nth == 0 { "" } else { "\r\n" }).into_bytes();
        intro.extend_from_slice(one.type_line());
        content_range(range, one.size, &mut intro);
        intro.extend_from_slice(b"\r\n");
        length += intro.len() as u64 + (range.end - range.start);
        intros.push(intro);
    }
    let outro = format!("\r\n--{boundary}--\r\n");
    length += outro.len() as u64;

    status_line(206, out);
    content_length(length, out);
    out.extend_from_slice(format!("Content-Type: multipart/byteranges; boundary={boundary}\r\n").as_bytes());
    out.extend_from_slice(one.fields_after_type());
    finish_head(exchange.clock, exchange.persistence, out);
    let mut rest = Rest::new(out);
    for (intro, range) in intros.iter().zip(ranges) {
        rest.bytes(intro);
        rest.piece(one, range);
    }
    rest.bytes(outro.as_bytes());
    rest.served(206, length)
}

/// What follows a head: into the buffer as long as nothing but bytes came, segments after that.
struct Rest<'o> {
    out: &'o mut Vec<u8>,
    segments: VecDeque<Segment>,
}

impl<'o> Rest<'o> {
    fn new(out: &'o mut Vec<u8>) -> Rest<'o> {
        Rest { out, segments: VecDeque::new() }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if self.segments.is_empty() {
            self.out.extend_from_slice(bytes);
        } else {
            self.segments.push_back(Segment::Bytes(bytes.into()));
        }
    }

    fn piece(&mut self, one: Chosen<'_>, range: &Range<u64>) {
        match one.body() {
            Body::Inline(body) => {
                let bytes = body.get(range.start as usize..range.end as usize).unwrap_or_default();
                match bytes.len() {
                    ..HELD_BYTES_MIN => self.bytes(bytes),
                    _ => self.segments.push_back(Segment::Cached(one.cached(range.clone()))),
                }
            }
            Body::File(file) => {
                let (offset, end) = (range.start, range.end);
                self.segments.push_back(Segment::File { file: Rc::clone(file), offset, end });
            }
        }
    }

    fn served(self, status: u16, body_bytes: u64) -> Served {
        let summary = Summary { status, body_bytes };
        if self.segments.is_empty() {
            Served::Whole(summary)
        } else {
            Served::Streaming(summary, self.segments)
        }
    }
}
