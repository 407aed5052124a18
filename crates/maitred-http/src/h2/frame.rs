//! The frame layer (9113-4, 9113-6, 9113-7): headers of frames, error codes, identifiers. Parsed and written, not judged.

/// What a client sends first (9113-3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The preface's first line, which no request of HTTP/1 begins with.
pub const PREFACE_LINE: &[u8] = PREFACE.split_at(16).0;

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 9;

/// The smallest value that `SETTINGS_MAX_FRAME_SIZE` can have, and its initial one.
pub const FRAME_BYTES_MIN: u32 = 16_384;

/// The largest value that `SETTINGS_MAX_FRAME_SIZE` can have.
pub const FRAME_BYTES_MAX: u32 = (1 << 24) - 1;

/// The initial value of every window (9113-6.9.2).
pub const INITIAL_WINDOW: u32 = 65_535;

/// The largest window, and the largest stream identifier.
pub const WINDOW_MAX: u32 = (1 << 31) - 1;

/// Types of frames.
pub mod kind {
    #![allow(missing_docs, reason = "the names are those of the sections of RFC 9113, and of RFC 9218")]
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
    pub const PRIORITY_UPDATE: u8 = 0x10;
}

/// Flags of frames. What a flag means depends on the frame's type.
pub mod flag {
    #![allow(missing_docs, reason = "the names are those of the sections of RFC 9113")]
    pub const END_STREAM: u8 = 1;
    pub const ACK: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 0x20;
}

/// Identifiers of settings (9113-6.5.2, 8441-3, 9218-2.1).
pub mod setting {
    #![allow(missing_docs, reason = "the names are those of the RFCs")]
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    pub const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// Error codes (9113-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    /// Graceful shutdown, or no need for the rest of a request.
    NoError = 0,
    /// A rule was broken that has no code of its own.
    ProtocolError = 1,
    /// An error of the server itself.
    InternalError = 2,
    /// A window was overrun, or made too large.
    FlowControlError = 3,
    /// Settings were not acknowledged in time.
    SettingsTimeout = 4,
    /// A frame came for a stream that had ended.
    StreamClosed = 5,
    /// A frame had a wrong size.
    FrameSizeError = 6,
    /// The request was not processed at all; it may be sent again.
    RefusedStream = 7,
    /// The stream is not needed any more.
    Cancel = 8,
    /// A header block could not be decoded.
    CompressionError = 9,
    /// The connection behind a CONNECT was lost.
    ConnectError = 10,
    /// The peer does something too often.
    EnhanceYourCalm = 11,
    /// TLS is too weak for HTTP/2.
    InadequateSecurity = 12,
    /// The request has to be made by HTTP/1.1.
    Http11Required = 13,
}

/// The header of a frame (9113-4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the payload, at most 24 bits.
    pub length: u32,
    /// One of [`kind`], or an unknown one.
    pub kind: u8,
    /// Bits of [`flag`].
    pub flags: u8,
    /// The stream; 0 for the connection. The reserved bit is not kept.
    pub stream: u32,
}

impl FrameHeader {
    /// Reads the nine bytes of a header. The reserved bit is ignored, as it has to be.
    #[inline]
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *bytes;
        Self {
            length: u32::from_be_bytes([0, l0, l1, l2]),
            kind,
            flags,
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & WINDOW_MAX,
        }
    }

    /// The nine bytes of a header.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let [_, l0, l1, l2] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, self.kind, self.flags, s0, s1, s2, s3]
    }

    /// Whether all bits of `flag` are set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag == flag
    }
}

/// Appends a frame's header.
#[inline]
pub fn put_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let length = u32::try_from(length).unwrap_or(FRAME_BYTES_MAX);
    out.extend_from_slice(&FrameHeader { length, kind, flags, stream }.to_bytes());
}

/// The header of a DATA frame, for callers that write it after the content.
#[inline]
pub fn data_header(length: usize, flags: u8, stream: u32) -> [u8; HEADER_BYTES] {
    let length = u32::try_from(length).unwrap_or(FRAME_BYTES_MAX);
    FrameHeader { length, kind: kind::DATA, flags, stream }.to_bytes()
}

/// Appends a frame whose payload is one number: RST_STREAM or WINDOW_UPDATE.
#[inline]
pub fn put_number(out: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    let mut bytes = [0; HEADER_BYTES + 4];
    let (header, payload) = bytes.split_at_mut(HEADER_BYTES);
    header.copy_from_slice(&FrameHeader { length: 4, kind, flags: 0, stream }.to_bytes());
    payload.copy_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// Appends a GOAWAY. `debug` is for diagnostics at the other side.
pub fn put_go_away(out: &mut Vec<u8>, last: u32, code: Code, debug: &str) {
    put_header(out, 8 + debug.len(), kind::GOAWAY, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&(code as u32).to_be_bytes());
    out.extend_from_slice(debug.as_bytes());
}

/// Appends a PING with these eight bytes.
pub fn put_ping(out: &mut Vec<u8>, flags: u8, opaque: [u8; 8]) {
    put_header(out, 8, kind::PING, flags, 0);
    out.extend_from_slice(&opaque);
}

/// Appends a SETTINGS frame; an empty list with [`flag::ACK`] acknowledges the peer's.
pub fn put_settings(out: &mut Vec<u8>, flags: u8, settings: &[(u16, u32)]) {
    put_header(out, settings.len() * 6, kind::SETTINGS, flags, 0);
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_from_their_bytes() {
        let header = FrameHeader { length: 0x01_02_03, kind: 9, flags: 0x25, stream: 0x7a0b_0c0d };
        assert_eq!(header.to_bytes(), [1, 2, 3, 9, 0x25, 0x7a, 0x0b, 0x0c, 0x0d]);
        assert_eq!(FrameHeader::parse(&header.to_bytes()), header);
        assert!(header.has(flag::END_HEADERS) && header.has(flag::END_STREAM) && !header.has(flag::PADDED));
    }

    #[test]
    fn the_reserved_bit_is_ignored() {
        let header = FrameHeader::parse(&[0, 0, 0, 0, 0, 0x80, 0, 0, 5]);
        assert_eq!(header.stream, 5);
    }

    #[test]
    fn frames_are_written_as_the_sections_draw_them() {
        let mut out = Vec::new();
        put_number(&mut out, kind::RST_STREAM, 3, Code::Cancel as u32);
        assert_eq!(out, [0, 0, 4, 3, 0, 0, 0, 0, 3, 0, 0, 0, 8]);
        out.clear();
        put_go_away(&mut out, 7, Code::EnhanceYourCalm, "x");
        assert_eq!(out, [0, 0, 9, 7, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 11, b'x']);
        out.clear();
        put_settings(&mut out, 0, &[(setting::MAX_FRAME_SIZE, 0x4000)]);
        assert_eq!(out, [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0x40, 0]);
        out.clear();
        put_ping(&mut out, flag::ACK, *b"abcdefgh");
        assert_eq!(out, *b"\0\0\x08\x06\x01\0\0\0\0abcdefgh");
    }
}
