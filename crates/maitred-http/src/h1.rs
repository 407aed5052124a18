//! HTTP/1 as it is written (9112): the one encoder of response heads, and of the framing of content.

use crate::fields::{FieldEdits, FieldsRef, Present};
use crate::response::{Fields, Received, ResponseHead};
use crate::status;

/// What goes into the `Connection` field of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// HTTP/1.1 and kept: no field.
    Implied,
    /// HTTP/1.0 and kept: `Connection: keep-alive`.
    Stated,
    /// `Connection: close`.
    Close,
    /// The connection speaks another protocol from here on: `Connection: Upgrade`.
    Switched,
}

/// What an encoder writes besides the fields of a final response.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// The time of now, as [`crate::date`] writes it. It is written where the response has no `Date` of its own.
    pub date: Option<&'a [u8; 29]>,
    /// Of the connection that the response goes to.
    pub persistence: Persistence,
    /// The response names protocols that the server could switch to (`Upgrade`), which `Connection` has to say (9110-7.8).
    pub upgrade: bool,
    /// The content goes out in chunks.
    pub chunked: bool,
    /// No content follows the head.
    pub ended: bool,
}

impl Frame<'_> {
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
        Fields::Received(received) if edits.is_empty() => put_received(head, &received, out),
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

/// What differs from one response to the next, and the empty line.
#[inline]
fn put_rest(frame: &Frame<'_>, out: &mut Vec<u8>) {
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
    put_status_line(head, out);
    let mut present = Present::default();
    head.for_each(|name, value| {
        if edits.keeps(name, &mut present) {
            put_line(name, value, out);
        }
    });
    edits.further(present).for_each(|(name, value)| put_line(name, value, out));
}

/// Appends a received head without the fields that do not go on, in runs of bytes that are as long as possible.
#[inline]
fn put_received(head: &ResponseHead<'_>, received: &Received<'_>, out: &mut Vec<u8>) {
    let bytes = received.bytes;
    out.reserve(bytes.len() + 128);
    let mut run = received_status_line(bytes, head, out);
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
        out.extend_from_slice(bytes.get(run..bytes.len().saturating_sub(2)).unwrap_or_default());
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
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    if content.is_empty() {
        return;
    }
    let bits = usize::BITS - content.len().leading_zeros();
    out.reserve(content.len() + 20);
    for digit in (0..bits.div_ceil(4)).rev() {
        let value = content.len() >> (digit * 4) & 0xf;
        out.push(DIGITS.get(value).copied().unwrap_or(b'0'));
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(content);
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of content in chunks, with its trailers (9112-7.1.2).
pub fn put_last_chunk(trailers: FieldsRef<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    out.extend_from_slice(trailers.text());
    out.extend_from_slice(b"\r\n");
}
