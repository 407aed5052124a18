//! From an entry to an answer: conditions (RFC 9110 section 13), ranges (section 14), negotiation of the coding
//! (section 12.5.3).

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::rc::Rc;

use maitred_http::conditional::{self, Outcome, Validators};
use maitred_http::etag::EntityTag;
use maitred_http::fields::FieldLines;
use maitred_http::h1;
use maitred_http::negotiate;
use maitred_http::range::{self, Ranges};
use maitred_http::request::Known;

use super::entry::{Body, Chosen, Entry};
use super::prepare::token;
use crate::exchange::{Field, ResponseWriter};
use crate::{RequestContext, Segment, Served, Summary};

/// A body in memory that is at least so long is not copied if it cannot be sent, but held where it is. A shorter one costs less
/// as a copy than what holding it takes.
const HELD_BYTES_MIN: usize = 1024;

/// An answer, or the error to answer with.
#[derive(Debug)]
pub(super) enum Answer {
    Served(Served),
    /// Status, and a field that goes with it.
    Error(u16, Option<Field<'static>>),
}

/// Makes the boundaries of multipart answers. The boundaries cannot be predicted, so that none can be planted in a file.
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

/// Answers a GET or HEAD with a file. Nothing is written when the answer is an error.
#[inline]
pub(super) fn file(
    entry: &Rc<Entry>,
    context: &RequestContext<'_>,
    ranges_max: usize,
    boundaries: &mut Boundaries,
    writer: &mut ResponseWriter<'_>,
) -> Answer {
    let known = &context.request.known;
    let one = representation(entry, known);
    if is_unconditional(known) {
        return Answer::Served(whole(one, writer));
    }
    selected(one, context, ranges_max, boundaries, writer)
}

/// What this client gets of an entry.
#[inline]
fn representation<'e>(entry: &'e Rc<Entry>, known: &Known<'_>) -> Chosen<'e> {
    match &entry.made {
        Some(made) => made
            .choose(known)
            .and_then(|at| Chosen::made(entry, made, at))
            .unwrap_or_else(|| Chosen::plain(entry)),
        None if entry.encoded.is_empty() => Chosen::plain(entry),
        None => negotiated(entry, known),
    }
}

/// An entry's page in answer to an error, with the status of the error.
pub(super) fn error_page(
    status: u16,
    fields: &[Field<'_>],
    entry: &Rc<Entry>,
    context: &RequestContext<'_>,
    writer: &mut ResponseWriter<'_>,
) -> Served {
    let one = representation(entry, &context.request.known);
    let left_out = writer.leaves_out(status);
    let is_vary =
        |name: &[u8], value: &[u8]| name.eq_ignore_ascii_case(b"vary") && value == b"Accept-Encoding";
    let varies = one.fields().iter().any(|(name, value)| is_vary(name, value));
    writer.make(status, false, left_out || one.size == 0, |lines| {
        lines.push_number(b"Content-Length", one.size);
        // No validators: the page's do not speak for what was asked for.
        push_type(one, lines);
        if let Some(coding) = one.fields().get(b"content-encoding") {
            lines.push(b"Content-Encoding", coding);
        }
        if varies {
            lines.push(b"Vary", b"Accept-Encoding");
        }
        fields.iter().for_each(|field| lines.push(field.name.as_bytes(), &field.value));
    });
    body(one, status, writer)
}

/// Whether nothing follows the head of the whole representation.
#[inline]
fn is_without_content(one: Chosen<'_>, writer: &ResponseWriter<'_>) -> bool {
    writer.head_only() || one.size == 0
}

#[inline]
fn is_unconditional(known: &Known<'_>) -> bool {
    known.range.is_none()
        && known.if_none_match.is_none()
        && known.if_modified_since.is_none()
        && known.if_match.is_none()
        && known.if_unmodified_since.is_none()
}

/// The representation with the highest weight for the client. A client that accepts none, not even identity, gets identity.
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
fn whole(one: Chosen<'_>, writer: &mut ResponseWriter<'_>) -> Served {
    let head = one.head();
    // Date, Connection and the empty line are less than this.
    const REST_BYTES_MAX: usize = 96;
    let inline = match one.body() {
        Body::Inline(bytes) => bytes.len(),
        Body::File(_) => 0,
    };
    writer.reserve(head.len() + REST_BYTES_MAX + inline);
    writer.prepared(head, one.fields(), is_without_content(one, writer));
    body(one, 200, writer)
}

#[inline]
fn body(one: Chosen<'_>, status: u16, writer: &mut ResponseWriter<'_>) -> Served {
    if writer.leaves_out(status) {
        return Served::Whole(Summary { status, body_bytes: 0 });
    }
    let summary = Summary { status, body_bytes: one.size };
    match one.body() {
        Body::Inline(bytes) => {
            writer.put(bytes);
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
    context: &RequestContext<'_>,
    ranges_max: usize,
    boundaries: &mut Boundaries,
    writer: &mut ResponseWriter<'_>,
) -> Answer {
    let request = context.request;
    let now = context.clock.unix_secs;
    let opaque = one.etag.as_deref().map(|etag| etag.trim_matches('"').as_bytes());
    let etag = opaque.map(|opaque| EntityTag { weak: false, opaque });
    let validators = Validators { etag, last_modified: one.last_modified };
    match conditional::evaluate(&request.known, request.method, Some(&validators), now) {
        Outcome::NotModified => return Answer::Served(not_modified(one, writer)),
        Outcome::PreconditionFailed => return Answer::Error(412, None),
        Outcome::Proceed => {}
    }
    let applies = conditional::range_applies(&request.known, request.method, &validators, now);
    let Some(value) = request.known.range.filter(|_| applies && one.accept_ranges) else {
        return Answer::Served(whole(one, writer));
    };
    match range::parse(value, one.size, ranges_max) {
        Ranges::Ignore => Answer::Served(whole(one, writer)),
        Ranges::Unsatisfiable => {
            Answer::Error(416, Some(Field::of("Content-Range", format!("bytes */{}", one.size))))
        }
        Ranges::Some(ranges) => match ranges.as_slice() {
            [single] => Answer::Served(part(one, single, writer)),
            several => Answer::Served(multipart(one, several, &boundaries.next(), writer)),
        },
    }
}

fn not_modified(one: Chosen<'_>, writer: &mut ResponseWriter<'_>) -> Served {
    writer.partly_prepared(304, one.common_fields(), true);
    Served::Whole(Summary { status: 304, body_bytes: 0 })
}

/// The type of the whole, wherever it stands.
fn push_type(one: Chosen<'_>, lines: &mut FieldLines) {
    if let Some(media) = one.fields().get(b"content-type") {
        lines.push(b"Content-Type", media);
    }
}

fn push_content_range(range: &Range<u64>, size: u64, lines: &mut FieldLines) {
    let value = format!("bytes {}-{}/{size}", range.start, range.end.saturating_sub(1));
    lines.push(b"Content-Range", value.as_bytes());
}

/// One range with 206.
fn part(one: Chosen<'_>, range: &Range<u64>, writer: &mut ResponseWriter<'_>) -> Served {
    let length = range.end - range.start;
    writer.make(206, true, false, |lines| {
        lines.push_number(b"Content-Length", length);
        push_content_range(range, one.size, lines);
        lines.extend(one.fields_from_type());
    });
    let summary = Summary { status: 206, body_bytes: length };
    match one.body() {
        Body::Inline(body) => {
            let bytes = body.get(range.start as usize..range.end as usize).unwrap_or_default();
            writer.put(bytes);
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
    writer: &mut ResponseWriter<'_>,
) -> Served {
    let mut intros = Vec::with_capacity(ranges.len());
    let mut length = 0;
    for (nth, range) in ranges.iter().enumerate() {
        let mut fields = FieldLines::default();
        push_type(one, &mut fields);
        push_content_range(range, one.size, &mut fields);
        let mut intro = Vec::new();
        h1::put_part_head(nth == 0, boundary, fields.all(), &mut intro);
        length += intro.len() as u64 + (range.end - range.start);
        intros.push(intro);
    }
    let mut outro = Vec::new();
    h1::put_last_boundary(boundary, &mut outro);
    length += outro.len() as u64;

    writer.make(206, true, false, |lines| {
        lines.push_number(b"Content-Length", length);
        lines.push(b"Content-Type", format!("multipart/byteranges; boundary={boundary}").as_bytes());
        // The type of the whole may stand further behind, if the route sets it.
        let others =
            one.fields_after_type().iter().filter(|(name, _)| !name.eq_ignore_ascii_case(b"content-type"));
        others.for_each(|(name, value)| lines.push(name, value));
    });
    let mut rest = Rest::new(writer);
    for (intro, range) in intros.iter().zip(ranges) {
        rest.bytes(intro);
        rest.piece(one, range);
    }
    rest.bytes(&outro);
    rest.served(206, length)
}

/// What follows a head: into the buffer as long as nothing but bytes came, segments after that.
struct Rest<'o, 't> {
    writer: &'o mut ResponseWriter<'t>,
    segments: VecDeque<Segment>,
}

impl<'o, 't> Rest<'o, 't> {
    fn new(writer: &'o mut ResponseWriter<'t>) -> Rest<'o, 't> {
        Rest { writer, segments: VecDeque::new() }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if self.segments.is_empty() {
            self.writer.put(bytes);
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
