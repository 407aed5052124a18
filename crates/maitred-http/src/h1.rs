//! HTTP/1 as it is written (9112): the one encoder of response heads, and of the framing of content.

use crate::fields::{FieldEdits, FieldsRef, Present};
use crate::response::{Dropped, Encode, Ending, Fields, Received, ResponseHead};
use crate::status;

pub use crate::response::Persistence;

/// What an encoder writes besides the fields of a final response.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// The time of now, as [`crate::date`] writes it. The date is written where the response has no `Date` of its own.
    pub date: Option<&'a [u8; 29]>,
    /// Of the connection that the response goes to.
    pub persistence: Persistence,
    /// The response names protocols that the server could switch to (`Upgrade`), which `Connection` has to say (9110-7.8).
    pub upgrade: bool,
    /// The content goes out in chunks.
    pub chunked: bool,
    /// A 205 says that it has no content (9110-15.3.6), whatever the application has said.
    pub no_length: bool,
}

impl<'a> Frame<'a> {
    /// The frame of a response made here, which says how long its content is.
    #[inline]
    pub fn of(date: &'a [u8; 29], persistence: Persistence) -> Frame<'a> {
        Frame { date: Some(date), persistence, upgrade: false, chunked: false, no_length: false }
    }

    fn connection(&self) -> &'static [u8] {
        match (self.persistence, self.upgrade) {
            (Persistence::Implied, false) => b"",
            (Persistence::Implied, true) => b"Connection: upgrade\r\n",
            (Persistence::Stated, false) => b"Connection: keep-alive\r\n",
            (Persistence::Stated, true) => b"Connection: keep-alive, upgrade\r\n",
            (Persistence::Close, false) => b"Connection: close\r\n",
            (Persistence::Close, true) => b"Connection: close, upgrade\r\n",
            (Persistence::Switched, _) => b"Connection: Upgrade\r\n",
        }
    }
}

/// The encoder of one response.
#[derive(Debug)]
pub struct Encoder<'t> {
    /// What the connection sends.
    pub out: &'t mut Vec<u8>,
    /// The time of now, as [`crate::date`] writes it.
    pub date: &'t [u8; 29],
    /// Changes of the fields of the final response.
    pub edits: &'t FieldEdits,
    /// What it has besides.
    pub further: FieldsRef<'t>,
}

impl Encode for Encoder<'_> {
    fn interim(&mut self, head: &ResponseHead<'_>) {
        put_interim(head, self.out);
    }

    #[inline]
    fn head(&mut self, head: &ResponseHead<'_>, ending: &Ending) {
        let frame = Frame {
            date: if ending.dated { None } else { Some(self.date) },
            persistence: ending.persistence,
            upgrade: ending.upgrade,
            chunked: ending.chunked,
            no_length: ending.no_length,
        };
        put_head(head, self.edits, self.further, &frame, self.out);
    }

    #[inline]
    fn content(&mut self) -> &mut Vec<u8> {
        self.out
    }
}

/// Appends the head of a final response. `further` are fields that this response has besides its own.
#[inline]
pub fn put_head(
    head: &ResponseHead<'_>,
    edits: &FieldEdits,
    further: FieldsRef<'_>,
    frame: &Frame<'_>,
    out: &mut Vec<u8>,
) {
    match head.fields {
        Fields::Received(received) if !edits.watches(received.names) => {
            put_received(head, &received, out);
            edits.put_further(Present::default(), out);
        }
        Fields::Own(fields) if edits.is_empty() => {
            put_status_line(head, out);
            out.extend_from_slice(fields.text());
        }
        _ => put_edited(head, edits, out),
    }
    out.extend_from_slice(further.text());
    put_rest(frame, out);
}

/// Appends the rest of a head of which `prepared` has the beginning: a status line and fields, as [`prepare`] writes them.
#[inline]
pub fn put_prepared(prepared: &[u8], frame: &Frame<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(prepared);
    put_rest(frame, out);
}

/// The status line, for fields to be put behind it ([`FieldLines::behind`](crate::fields::FieldLines::behind)).
pub fn prepare(status: u16) -> Vec<u8> {
    let mut line = Vec::with_capacity(512);
    put_status_line(&ResponseHead::own(status, FieldsRef::default()), &mut line);
    line
}

/// Appends the head of an interim response (9110-15.2).
pub fn put_interim(head: &ResponseHead<'_>, out: &mut Vec<u8>) {
    match head.fields {
        Fields::Received(received) => put_received(head, &received, out),
        Fields::Own(fields) => {
            put_status_line(head, out);
            out.extend_from_slice(fields.text());
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends what stands before a part of a multipart body (9110-14.6, RFC 2046 section 5.1), behind the part before it.
pub fn put_part_head(first: bool, boundary: &str, fields: FieldsRef<'_>, out: &mut Vec<u8>) {
    let before: &[u8] = if first { b"--" } else { b"\r\n--" };
    for part in [before, boundary.as_bytes(), b"\r\n", fields.text(), b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Appends what stands behind the last part of a multipart body.
pub fn put_last_boundary(boundary: &str, out: &mut Vec<u8>) {
    for part in [b"\r\n--", boundary.as_bytes(), b"--\r\n"] {
        out.extend_from_slice(part);
    }
}

/// What differs from one response to the next, and the empty line.
#[inline]
fn put_rest(frame: &Frame<'_>, out: &mut Vec<u8>) {
    if frame.no_length {
        out.extend_from_slice(b"Content-Length: 0\r\n");
    }
    if frame.chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    if let Some(date) = frame.date {
        out.extend_from_slice(b"Date: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(frame.connection());
    out.extend_from_slice(b"\r\n");
}

fn put_status_line(head: &ResponseHead<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(head.status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(head.reason.unwrap_or(status::reason(head.status).as_bytes()));
    out.extend_from_slice(b"\r\n");
}

fn put_line(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.reserve(name.len() + value.len() + 4);
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn put_edited(head: &ResponseHead<'_>, edits: &FieldEdits, out: &mut Vec<u8>) {
    let mut present = Present::default();
    match head.fields {
        Fields::Received(received) => {
            let mut more: Option<Dropped> = None;
            for (at, field) in received.fields.iter().enumerate() {
                let kept = received.dropped.is_none() || !received.dropped.has(at);
                if kept && !edits.keeps(field.name.as_bytes(), &mut present) {
                    more.get_or_insert_with(|| received.dropped.clone()).set(at);
                }
            }
            let dropped = more.as_ref().unwrap_or(received.dropped);
            put_received(head, &Received { dropped, ..received }, out);
        }
        Fields::Own(fields) => {
            put_status_line(head, out);
            for (name, value) in fields.iter().filter(|(name, _)| edits.keeps(name, &mut present)) {
                put_line(name, value, out);
            }
        }
    }
    edits.put_further(present, out);
}

/// Appends a received head without the fields that do not go on, in runs of bytes that are as long as possible.
#[inline]
fn put_received(head: &ResponseHead<'_>, received: &Received<'_>, out: &mut Vec<u8>) {
    let bytes = received.bytes;
    out.reserve(bytes.len() + 128);
    let mut run = received_status_line(bytes, head, out);
    let end = bytes.len().saturating_sub(2);
    if received.dropped.is_none() {
        return out.extend_from_slice(bytes.get(run..end).unwrap_or_default());
    }
    let mut dropped = false;
    for (at, field) in received.fields.iter().enumerate() {
        let start = field.name.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr());
        if dropped {
            run = start;
        }
        dropped = received.dropped.has(at);
        if dropped {
            out.extend_from_slice(bytes.get(run..start).unwrap_or_default());
            run = start;
        }
    }
    if !dropped {
        out.extend_from_slice(bytes.get(run..end).unwrap_or_default());
    }
}

/// Where the run of bytes starts that can be copied as they are: at 0 unless the status line is to be written in another way, of
/// version 1.1 and with a space before the reason phrase (9112-4).
#[inline]
fn received_status_line(bytes: &[u8], head: &ResponseHead<'_>, out: &mut Vec<u8>) -> usize {
    const START: &[u8] = b"HTTP/1.1 ";
    const PHRASE: usize = START.len() + 3;
    if bytes.starts_with(START) && bytes.get(PHRASE) == Some(&b' ') {
        return 0;
    }
    out.extend_from_slice(START);
    out.extend_from_slice(itoa::Buffer::new().format(head.status).as_bytes());
    if bytes.get(PHRASE) != Some(&b' ') {
        out.push(b' ');
    }
    PHRASE
}

/// Appends a chunk (9112-7.1); nothing for no content, which would end the body.
#[inline]
pub fn put_chunk(content: &[u8], out: &mut Vec<u8>) {
    if content.is_empty() {
        return;
    }
    out.reserve(content.len() + 20);
    put_chunk_start(content.len() as u64, out);
    out.extend_from_slice(content);
    put_chunk_end(out);
}

/// Appends what comes before the content of a chunk of so many bytes, at least one.
#[inline]
pub fn put_chunk_start(bytes: u64, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let bits = u64::BITS - bytes.leading_zeros();
    for digit in (0..bits.div_ceil(4)).rev() {
        let value = (bytes >> (digit * 4) & 0xf) as usize;
        out.push(DIGITS.get(value).copied().unwrap_or(b'0'));
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends what comes behind the content of a chunk.
#[inline]
pub fn put_chunk_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of content in chunks, with its trailers (9112-7.1.2).
pub fn put_last_chunk(trailers: FieldsRef<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    out.extend_from_slice(trailers.text());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Decoder;
    use crate::fields::FieldLines;
    use crate::request::Framing;

    const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    /// A response on a connection that is kept, with a stated length.
    const PLAIN: Frame<'_> = Frame {
        date: None,
        persistence: Persistence::Implied,
        upgrade: false,
        chunked: false,
        no_length: false,
    };

    fn lines(fields: &[(&str, &str)]) -> FieldLines {
        let mut lines = FieldLines::default();
        fields.iter().for_each(|(name, value)| lines.push(name.as_bytes(), value.as_bytes()));
        lines
    }

    /// What is written behind something else, which stays.
    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"before|".to_vec();
        write(&mut out);
        let text = String::from_utf8(out).unwrap();
        text.strip_prefix("before|").unwrap().replace("\r\n", "|")
    }

    fn head(status: u16, fields: &[(&str, &str)], edits: &FieldEdits, frame: &Frame<'_>) -> String {
        let (fields, further) = (lines(fields), lines(&[("Alt-Svc", "clear")]));
        written(|out| {
            put_head(&ResponseHead::own(status, fields.all()), edits, further.all(), frame, out);
        })
    }

    /// The same of a head that was received, of which the fields at these places do not go on.
    fn passed(bytes: &str, dropped: &[usize], edits: &FieldEdits) -> String {
        let bytes = bytes.replace('|', "\r\n").into_bytes();
        let mut room = [httparse::EMPTY_HEADER; 8];
        let mut parsed = httparse::Response::new(&mut room);
        assert_eq!(parsed.parse(&bytes), Ok(httparse::Status::Complete(bytes.len())));
        let mut places = Dropped::default();
        dropped.iter().for_each(|at| places.set(*at));
        let received = Received::new(&bytes, parsed.headers, &places);
        let reason = parsed.reason.map(str::as_bytes);
        let head = ResponseHead { status: parsed.code.unwrap(), reason, fields: Fields::Received(received) };
        let interim = written(|out| put_interim(&head, out));
        let whole = written(|out| put_head(&head, edits, FieldsRef::default(), &PLAIN, out));
        assert!(!edits.is_empty() || interim == whole, "{interim}");
        whole
    }

    #[test]
    fn a_head_of_ones_own_is_written_with_further_fields() {
        let fields = [("Content-Type", "text/plain"), ("Empty", "")];
        assert_eq!(
            head(404, &fields, FieldEdits::NONE, &PLAIN),
            "HTTP/1.1 404 Not Found|Content-Type: text/plain|Empty: |Alt-Svc: clear||"
        );
        assert_eq!(head(200, &[], FieldEdits::NONE, &PLAIN), "HTTP/1.1 200 OK|Alt-Svc: clear||");
        let named = ResponseHead { reason: Some(b"Fine"), ..ResponseHead::own(299, FieldsRef::default()) };
        let text = written(|out| put_head(&named, FieldEdits::NONE, FieldsRef::default(), &PLAIN, out));
        assert_eq!(text, "HTTP/1.1 299 Fine||");
    }

    #[test]
    fn what_a_frame_says_comes_last() {
        let frame = Frame { date: Some(DATE), chunked: true, persistence: Persistence::Close, ..PLAIN };
        assert_eq!(
            head(200, &[("A", "b")], FieldEdits::NONE, &frame),
            "HTTP/1.1 200 OK|A: b|Alt-Svc: clear|Transfer-Encoding: chunked|Date: Sun, 06 Nov 1994 08:49:37 GMT|\
             Connection: close||"
        );
        for (persistence, upgrade, field) in [
            (Persistence::Implied, false, ""),
            (Persistence::Implied, true, "Connection: upgrade|"),
            (Persistence::Stated, false, "Connection: keep-alive|"),
            (Persistence::Stated, true, "Connection: keep-alive, upgrade|"),
            (Persistence::Close, false, "Connection: close|"),
            (Persistence::Close, true, "Connection: close, upgrade|"),
            (Persistence::Switched, false, "Connection: Upgrade|"),
            (Persistence::Switched, true, "Connection: Upgrade|"),
        ] {
            let frame = Frame { persistence, upgrade, ..PLAIN };
            let expected = format!("HTTP/1.1 200 OK|Alt-Svc: clear|{field}|");
            assert_eq!(head(200, &[], FieldEdits::NONE, &frame), expected);
        }
    }

    fn edits() -> FieldEdits {
        let mut edits = FieldEdits::default();
        edits.set("X-Frame-Options", b"DENY");
        edits.remove("X-Powered-By");
        edits.add_if_absent("Server", b"maitred");
        edits.add_if_absent("Vary", b"Cookie");
        edits
    }

    #[test]
    fn edits_change_a_head_of_ones_own() {
        let fields =
            [("x-frame-options", "SAMEORIGIN"), ("A", "b"), ("x-powered-by", "x"), ("SERVER", "mine")];
        let frame = Frame { date: Some(DATE), ..PLAIN };
        assert_eq!(
            head(200, &fields, &edits(), &frame),
            "HTTP/1.1 200 OK|A: b|SERVER: mine|X-Frame-Options: DENY|Vary: Cookie|Alt-Svc: clear|\
             Date: Sun, 06 Nov 1994 08:49:37 GMT||"
        );
    }

    #[test]
    fn a_received_head_goes_on_but_for_what_is_dropped() {
        let bytes = "HTTP/1.1 200 Fine|A: b|Connection: x|X: y|C:d||";
        assert_eq!(passed(bytes, &[], FieldEdits::NONE), bytes);
        let expected = [
            (&[0][..], "HTTP/1.1 200 Fine|Connection: x|X: y|C:d||"),
            (&[1], "HTTP/1.1 200 Fine|A: b|X: y|C:d||"),
            (&[1, 2], "HTTP/1.1 200 Fine|A: b|C:d||"),
            (&[0, 2], "HTTP/1.1 200 Fine|Connection: x|C:d||"),
            (&[3], "HTTP/1.1 200 Fine|A: b|Connection: x|X: y||"),
            (&[2, 3], "HTTP/1.1 200 Fine|A: b|Connection: x||"),
            (&[0, 1, 2, 3], "HTTP/1.1 200 Fine||"),
        ];
        for (dropped, text) in expected {
            assert_eq!(passed(bytes, dropped, FieldEdits::NONE), text, "{dropped:?}");
        }
        assert_eq!(passed("HTTP/1.1 204 No Content||", &[], FieldEdits::NONE), "HTTP/1.1 204 No Content||");
    }

    #[test]
    fn a_received_status_line_has_version_1_1_and_its_space() {
        assert_eq!(passed("HTTP/1.0 200 OK|A: b||", &[], FieldEdits::NONE), "HTTP/1.1 200 OK|A: b||");
        assert_eq!(passed("HTTP/1.1 200|A: b||", &[], FieldEdits::NONE), "HTTP/1.1 200 |A: b||");
        assert_eq!(passed("HTTP/1.0 200|A: b||", &[0], FieldEdits::NONE), "HTTP/1.1 200 ||");
    }

    #[test]
    fn edits_change_a_received_head() {
        let bytes = "HTTP/1.1 200 Fine|X-Powered-By: x|A: b|X-Hop: y|vary:  Accept ||";
        assert_eq!(
            passed(bytes, &[2], &edits()),
            "HTTP/1.1 200 Fine|A: b|vary:  Accept |X-Frame-Options: DENY|Server: maitred||"
        );
    }

    #[test]
    fn names_of_one_bit_are_told_apart() {
        let mut edits = FieldEdits::default();
        edits.remove("Server");
        edits.add_if_absent("Referer", b"a");
        // All of these share the bit of `Server`, by length and first letter.
        let bytes = "HTTP/1.1 200 OK|T: b|Qual: c|Prior: d|Referer: e||";
        assert_eq!(passed(bytes, &[], &edits), bytes);
        let all = "HTTP/1.1 200 OK|T: b|SERVER: c||";
        assert_eq!(passed(all, &[], &edits), "HTTP/1.1 200 OK|T: b|Referer: a||");
        assert_eq!(passed("HTTP/1.1 200 OK|A: b||", &[], &edits), "HTTP/1.1 200 OK|A: b|Referer: a||");
        // A field that nothing is done about any more leaves no bit behind.
        edits.leave_out("Referer");
        assert_eq!(passed("HTTP/1.1 200 OK|Server: b||", &[], &edits), "HTTP/1.1 200 OK||");
        edits = FieldEdits::default();
        edits.add_if_absent("Server", b"a");
        edits.leave_out("server");
        assert_eq!(edits, FieldEdits::default());
    }

    #[test]
    fn a_prepared_head_is_completed() {
        let mut fields = FieldLines::behind(prepare(304));
        fields.push(b"ETag", b"\"a\"");
        let (prepared, _) = fields.into_parts();
        let frame = Frame { date: Some(DATE), ..PLAIN };
        assert_eq!(
            written(|out| put_prepared(&prepared, &frame, out)),
            "HTTP/1.1 304 Not Modified|ETag: \"a\"|Date: Sun, 06 Nov 1994 08:49:37 GMT||"
        );
        assert_eq!(written(|out| put_prepared(&prepare(204), &PLAIN, out)), "HTTP/1.1 204 No Content||");
    }

    #[test]
    fn an_interim_head_has_its_own_fields_only() {
        let hints = lines(&[("Link", "</a>")]);
        let text = |head: &ResponseHead<'_>| written(|out| put_interim(head, out));
        assert_eq!(text(&ResponseHead::own(103, hints.all())), "HTTP/1.1 103 Early Hints|Link: </a>||");
        assert_eq!(text(&ResponseHead::own(100, FieldsRef::default())), "HTTP/1.1 100 Continue||");
    }

    #[test]
    fn a_chunk_says_its_size() {
        assert_eq!(written(|out| put_chunk(b"", out)), "", "nothing would end the body");
        for (bytes, size) in [(1, "1"), (9, "9"), (10, "a"), (15, "f"), (16, "10"), (255, "ff"), (256, "100")]
        {
            let content = "x".repeat(bytes);
            assert_eq!(written(|out| put_chunk(content.as_bytes(), out)), format!("{size}|{content}|"));
        }
        let large = written(|out| put_chunk(&[b'x'; 0x12345], out));
        assert!(large.starts_with("12345|x") && large.len() == 5 + 1 + 0x12345 + 1);
    }

    #[test]
    fn the_last_chunk_has_the_trailers() {
        assert_eq!(written(|out| put_last_chunk(FieldsRef::default(), out)), "0||");
        let trailers = lines(&[("Grpc-Status", "0"), ("X-Sum", "1")]);
        assert_eq!(written(|out| put_last_chunk(trailers.all(), out)), "0|Grpc-Status: 0|X-Sum: 1||");
        assert_eq!(written(|out| put_last_chunk(trailers.all().part(1..2), out)), "0|X-Sum: 1||");
    }

    #[test]
    fn a_body_in_chunks_is_read_again() {
        let mut out = Vec::new();
        for content in [&b"hello"[..], b"", &[b'x'; 5000], b"!"] {
            put_chunk(content, &mut out);
        }
        put_last_chunk(lines(&[("X-Sum", "1")]).all(), &mut out);
        let (mut decoder, mut content) = (Decoder::new(Framing::Chunked, u64::MAX), Vec::new());
        let progress = decoder.decode(&out, &mut content).unwrap();
        assert_eq!((progress.consumed, progress.complete, content.len()), (out.len(), true, 5006));
    }
}
