//! Writing a REQUEST straight into the buffer that will be sent: no intermediate copies, lengths patched at the end.
//!
//! The parts are types that are used up in the order of the wire, so that a frame out of order can not be written:
//! [`begin_request`] → [`MetaPart`] → [`HeadPart`] → [`BodyPart`] → finished. A part that is dropped takes the whole
//! frame back out of the buffer.

use crate::from_server::PART_LENGTHS_BYTES;
use crate::header::{Header, RequestFlags, kind};
use crate::{HEADER_BYTES, META_BYTES_MAX};

/// Appends the beginning of a REQUEST to `out`. `descriptors` is how many will be sent along with these bytes: one if the
/// connection's does, and one more if `flags.body_fd`.
#[inline]
pub fn begin_request(
    out: &mut Vec<u8>,
    connection: u32,
    request: u32,
    flags: RequestFlags,
    descriptors: u16,
) -> MetaPart<'_> {
    let start = out.len();
    let header = Header {
        payload_bytes: 0,
        kind: kind::REQUEST,
        flags: flags.bits(),
        descriptors,
        connection,
        request,
    };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(&[0; PART_LENGTHS_BYTES]);
    MetaPart(Draft { out, start, finished: false })
}

/// A frame that is not finished; leaves no trace if it never is.
#[derive(Debug)]
struct Draft<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    finished: bool,
}

impl Draft<'_> {
    /// Bytes since the start of the parts.
    fn part_bytes(&self) -> usize {
        self.out.len() - self.start - HEADER_BYTES - PART_LENGTHS_BYTES
    }

    fn patch(&mut self, at: usize, value: u32) {
        let at = self.start + at;
        if let Some(bytes) = self.out.get_mut(at..at + 4) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.out.truncate(self.start);
        }
    }
}

/// The frame's lines of `key=value`.
#[derive(Debug)]
pub struct MetaPart<'o>(Draft<'o>);

impl<'o> MetaPart<'o> {
    /// Appends lines that were prepared before, each `key=value` and a line feed: what stays the same for a connection
    /// is written once.
    #[inline]
    pub fn prepared(self, lines: &[u8]) -> Self {
        self.0.out.extend_from_slice(lines);
        self
    }

    /// Appends one line. Neither part may hold a line feed, nor the key `=`.
    #[inline]
    pub fn line(self, key: &str, value: &str) -> Self {
        debug_assert!(!key.contains(['=', '\n']) && !value.contains('\n'));
        let out = &mut *self.0.out;
        out.extend_from_slice(key.as_bytes());
        out.push(b'=');
        out.extend_from_slice(value.as_bytes());
        out.push(b'\n');
        self
    }

    /// Appends one line with a number.
    #[inline]
    pub fn number(self, key: &str, value: u64) -> Self {
        self.line(key, itoa::Buffer::new().format(value))
    }

    /// Ends the meta part, and appends the request line.
    #[inline]
    pub fn head(self, method: &str, target: &str) -> HeadPart<'o> {
        let meta_bytes = self.0.part_bytes();
        let out = &mut *self.0.out;
        out.extend_from_slice(method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(target.as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\n");
        HeadPart { draft: self.0, meta_bytes }
    }
}

/// The frame's request head.
#[derive(Debug)]
pub struct HeadPart<'o> {
    draft: Draft<'o>,
    meta_bytes: usize,
}

impl<'o> HeadPart<'o> {
    /// Appends a field whatever its name; the name is put into lower case. Neither may hold CR, LF or NUL.
    #[inline]
    pub fn field(&mut self, name: &str, value: &[u8]) {
        let at = self.draft.out.len();
        self.small_field(name, value);
        if let Some(written) = self.draft.out.get_mut(at..at + name.len()) {
            make_small(written);
        }
    }

    /// The same of a name that is in lower case.
    #[inline]
    pub fn small_field(&mut self, name: &str, value: &[u8]) {
        debug_assert!(!value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)));
        let out = &mut *self.draft.out;
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }

    /// Ends the head: appends `content-length` if there is one to state, and the empty line. The bytes that follow in the
    /// frame may be fewer: those of a body in a file do not come here.
    #[inline]
    pub fn body(self, content_length: Option<u64>) -> BodyPart<'o> {
        let out = &mut *self.draft.out;
        if let Some(length) = content_length {
            out.extend_from_slice(b"content-length: ");
            out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        let head_bytes = self.draft.part_bytes() - self.meta_bytes;
        BodyPart { draft: self.draft, meta_bytes: self.meta_bytes, head_bytes }
    }
}

/// Puts a name into lower case, eight bytes at a time: byte by byte this took as long as all else about a field.
#[inline]
fn make_small(name: &mut [u8]) {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    let word = |bytes: &mut [u8; 8]| {
        let word = u64::from_ne_bytes(*bytes);
        // Without its highest bit no byte overflows into the next one. What is added sets that bit from the first letter on, and
        // behind the last one.
        let low = word & (0x7f * EACH);
        let from_a = low + (0x80 - u64::from(b'A')) * EACH;
        let behind_z = low + (0x7f - u64::from(b'Z')) * EACH;
        let capitals = !word & from_a & !behind_z & (0x80 * EACH);
        *bytes = (word | (capitals >> 2)).to_ne_bytes();
    };
    match name.last_chunk_mut() {
        Some(last) => {
            // The last word may have some bytes of the word before it.
            word(last);
            name.as_chunks_mut().0.iter_mut().for_each(word);
        }
        None => name.make_ascii_lowercase(),
    }
}

/// The frame's body.
#[derive(Debug)]
pub struct BodyPart<'o> {
    draft: Draft<'o>,
    meta_bytes: usize,
    head_bytes: usize,
}

impl BodyPart<'_> {
    /// Appends a piece of the body.
    #[inline]
    pub fn extend(&mut self, piece: &[u8]) {
        self.draft.out.extend_from_slice(piece);
    }

    /// Patches the lengths. False, and nothing left of the frame, if it is over a limit: `payload_bytes_max` is what
    /// WELCOME said.
    #[inline]
    #[must_use]
    pub fn finish(mut self, payload_bytes_max: u32) -> bool {
        let parts = self.draft.part_bytes();
        let body_bytes = parts - self.meta_bytes - self.head_bytes;
        let payload_bytes = parts + PART_LENGTHS_BYTES;
        if payload_bytes > payload_bytes_max as usize || self.meta_bytes > META_BYTES_MAX as usize {
            return false;
        }
        // All are at most payload_bytes_max, so the conversions keep the values.
        self.draft.patch(0, payload_bytes as u32);
        self.draft.patch(HEADER_BYTES, self.meta_bytes as u32);
        self.draft.patch(HEADER_BYTES + 4, self.head_bytes as u32);
        self.draft.patch(HEADER_BYTES + 8, body_bytes as u32);
        self.draft.finished = true;
        true
    }
}

/// Whether a field of the client's head is copied into the canonical head. Not those that concern the connection
/// (9110-7.6.1; `http2-settings` belongs to an upgrade to h2c), not what Maitred writes itself (`host`, `content-length`),
/// not what it has answered (`expect`), and not `proxy`, which CGI-like variables would turn into `HTTP_PROXY`. Fields that
/// `Connection` names are the caller's to drop.
///
/// Nor is a field whose name is one of these but for `_` in place of `-`: applications that see fields as CGI variables
/// (RFC 3875 section 4.1.18) could not tell the two apart, and would take its value for what Maitred has judged.
#[inline]
pub fn is_forwardable(name: &str) -> bool {
    const NOT: [&str; 12] = [
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    !NOT.iter().any(|not| not.len() == name.len() && is_alike(name, not))
}

/// Whether a name is `known`, letter case and the difference of `_` and `-` aside.
fn is_alike(name: &str, known: &str) -> bool {
    let alike = |(byte, known): (u8, u8)| byte.to_ascii_lowercase() == known || (byte, known) == (b'_', b'-');
    name.bytes().zip(known.bytes()).all(alike)
}

#[cfg(test)]
mod tests;
