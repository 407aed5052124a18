//! Response heads: HTTP/1.1 text in, header blocks out, in one pass (9113-8.2, 9113-8.3.2, 8441-5).

use super::{Code, Session, StreamKey};
use crate::h2::frame::{self, FRAME_BYTES_MIN, FrameHeader, HEADER_BYTES, flag, kind};

impl Session {
    /// The head of a response: text that this server wrote or judged, status line to empty line. Fields of the connection
    /// are left out, names become small. An interim head (1xx) may be followed by others. To an extended CONNECT 101
    /// becomes 200 and loses its `sec-websocket-accept`. `ended`: there is no content.
    ///
    /// Text that is no such head, and 101 to any other request, resets the stream with INTERNAL_ERROR.
    pub fn respond(&mut self, stream: StreamKey, head: &[u8], ended: bool) {
        let Some(known) = self.streams.get(stream).filter(|known| !known.reset && !known.head_sent) else {
            return;
        };
        let (id, tunnel) = (known.id, known.tunnel);
        let (status, lines) = match split_status(head) {
            Some((101, lines)) if tunnel => (200, lines),
            Some((101, _)) | None => return self.reset(stream, Code::InternalError),
            Some(split) => split,
        };
        let interim = status < 200;
        known.head_sent = !interim;
        let ends = ended && !interim;
        let start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
        self.encoder.status(status, &mut self.out);
        self.put_fields(lines, tunnel);
        close_block(&mut self.out, start, id, ends);
        if ends {
            self.end_locally(stream);
        }
    }

    /// Fields behind the content, as lines; they end the response. None at all end it, too.
    pub fn trailers(&mut self, stream: StreamKey, fields: &[u8]) {
        if fields.is_empty() {
            return self.end(stream);
        }
        let Some(known) = self.streams.get(stream).filter(|known| !known.reset && !known.local_ended) else {
            return;
        };
        if !known.head_sent {
            return self.reset(stream, Code::InternalError);
        }
        let id = known.id;
        let start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
        self.put_fields(fields, false);
        close_block(&mut self.out, start, id, true);
        self.end_locally(stream);
    }

    /// A response without fields or content.
    #[cold]
    pub(super) fn put_answer(&mut self, id: u32, status: u16) {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
        self.encoder.status(status, &mut self.out);
        self.encoder.field(b"content-length", b"0", &mut self.out);
        close_block(&mut self.out, start, id, true);
    }

    /// Encodes lines up to an empty one, or to the end.
    fn put_fields(&mut self, mut lines: &[u8], tunnel: bool) {
        while let Some(end) = memchr::memchr(b'\n', lines) {
            let (line, rest) = lines.split_at(end);
            lines = rest.get(1..).unwrap_or_default();
            let Some(colon) = find_colon(line) else { break };
            let (name, value) = line.split_at(colon);
            if !is_for_client(name, tunnel) {
                continue;
            }
            self.encoder.field(name, trim(value.get(1..).unwrap_or_default()), &mut self.out);
        }
    }
}

/// The status, and the lines behind the status line.
#[inline]
fn split_status(head: &[u8]) -> Option<(u16, &[u8])> {
    let text = head.strip_prefix(b"HTTP/1.1 ").or_else(|| head.strip_prefix(b"HTTP/1.0 "))?;
    let [hundreds @ b'1'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9', rest @ ..] = text else {
        return None;
    };
    let digit = |byte: &u8| u16::from(byte - b'0');
    let lines = rest.get(memchr::memchr(b'\n', rest)? + 1..)?;
    Some((digit(hundreds) * 100 + digit(tens) * 10 + digit(ones), lines))
}

/// Whether a field goes on to the client: all but those of the connection. Length and first letter choose the only name that
/// it can be.
#[inline]
fn is_for_client(name: &[u8], tunnel: bool) -> bool {
    let is = |expected: &[u8]| name.eq_ignore_ascii_case(expected);
    match (name.len(), name.first().map_or(0, |byte| byte | 0x20)) {
        (0, _) => false,
        (7, b'u') => !is(b"upgrade"),
        (10, b'c') => !is(b"connection"),
        (10, b'k') => !is(b"keep-alive"),
        (16, b'p') => !is(b"proxy-connection"),
        (17, b't') => !is(b"transfer-encoding"),
        (20, b's') => !(tunnel && is(b"sec-websocket-accept")),
        _ => true,
    }
}

/// Where the first colon is. Names are short: eight bytes at a time without a call is the quickest way.
#[inline]
fn find_colon(line: &[u8]) -> Option<usize> {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = EACH << 7;
    let (words, rest) = line.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        // A byte that is a colon becomes 0, and the lowest one that is has its highest bit set.
        let word = u64::from_le_bytes(*word) ^ (EACH * u64::from(b':'));
        let found = word.wrapping_sub(EACH) & !word & HIGH;
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|byte| *byte == b':').map(|at| words.len() * 8 + at)
}

/// Takes white space and the CR off.
#[inline]
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t' | b'\r'] = value {
        value = rest;
    }
    value
}

/// Writes the header of the frame that starts at `start`, and splits a block that is too large for one frame.
#[inline]
fn close_block(out: &mut Vec<u8>, start: usize, stream: u32, ended: bool) {
    let length = out.len() - start - HEADER_BYTES;
    if length > FRAME_BYTES_MIN as usize {
        return split_block(out, start, stream, ended);
    }
    let flags = flag::END_HEADERS | if ended { flag::END_STREAM } else { 0 };
    let header = FrameHeader { length: length as u32, kind: kind::HEADERS, flags, stream };
    if let Some(place) = out.get_mut(start..start + HEADER_BYTES) {
        place.copy_from_slice(&header.to_bytes());
    }
}

/// A block of several frames: any peer takes frames of 16,384 bytes.
#[cold]
fn split_block(out: &mut Vec<u8>, start: usize, stream: u32, ended: bool) {
    let block = out.split_off(start + HEADER_BYTES);
    out.truncate(start);
    let last = block.chunks(FRAME_BYTES_MIN as usize).count() - 1;
    for (index, part) in block.chunks(FRAME_BYTES_MIN as usize).enumerate() {
        let (kind, mut flags) = match index {
            0 => (kind::HEADERS, if ended { flag::END_STREAM } else { 0 }),
            _ => (kind::CONTINUATION, 0),
        };
        flags |= if index == last { flag::END_HEADERS } else { 0 };
        frame::put_header(out, part.len(), kind, flags, stream);
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_colon_is_found_anywhere() {
        for length in 0..30 {
            let mut line = vec![b'9'; length];
            assert_eq!(find_colon(&line), None);
            for at in (0..length).rev() {
                line[at] = b':';
                assert_eq!(find_colon(&line), Some(at), "{length}");
                line[at] = b';';
                assert_eq!(find_colon(&line), if at + 1 < length { Some(at + 1) } else { None });
                line[at] = b':';
            }
        }
    }
}
