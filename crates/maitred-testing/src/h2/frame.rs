//! Frames of HTTP/2 (RFC 9113, sections 4 and 6) as bytes: written without any check, so that a test can write wrong ones.

/// Types of frames (9113-6, and 9218-7.1).
pub mod kind {
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

/// Flags; what they mean depends on the type.
pub mod flag {
    pub const END_STREAM: u8 = 1;
    pub const ACK: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 0x20;
}

/// Error codes (9113-7).
pub mod code {
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const INTERNAL_ERROR: u32 = 2;
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    pub const STREAM_CLOSED: u32 = 5;
    pub const FRAME_SIZE_ERROR: u32 = 6;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
    pub const COMPRESSION_ERROR: u32 = 9;
    pub const ENHANCE_YOUR_CALM: u32 = 11;
}

/// Settings (9113-6.5.2, 8441-3).
pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    pub const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// What a client says first (9113-3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Of every frame (9113-4.1).
pub const HEADER_BYTES: usize = 9;

/// One frame as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The 32 bits at `at`.
    #[track_caller]
    pub fn number(&self, at: usize) -> u32 {
        let bytes = self.payload.get(at..at + 4).unwrap_or_else(|| panic!("too short: {self:?}"));
        u32::from_be_bytes(bytes.try_into().expect("four bytes"))
    }

    /// The frame at the beginning of `bytes`, which are taken out; `None` until all of it is there.
    pub fn take(bytes: &mut Vec<u8>) -> Option<Frame> {
        let header: [u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        let length = usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
        let payload = bytes.get(HEADER_BYTES..HEADER_BYTES + length)?.to_vec();
        bytes.drain(..HEADER_BYTES + length);
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        assert_eq!(stream >> 31, 0, "the reserved bit is not sent (9113-4.1)");
        Some(Frame { kind: header[3], flags: header[4], stream, payload })
    }
}

/// A frame as bytes.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let header = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&header, payload].concat()
}

/// SETTINGS.
pub fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let pair = |(name, value): &(u16, u32)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(kind::SETTINGS, 0, 0, &values.iter().flat_map(pair).collect::<Vec<u8>>())
}

pub fn headers(stream: u32, block: &[u8], end: bool) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS | u8::from(end), stream, block)
}

pub fn data(stream: u32, bytes: &[u8], end: bool) -> Vec<u8> {
    frame(kind::DATA, u8::from(end), stream, bytes)
}

pub fn rst_stream(stream: u32, code: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &code.to_be_bytes())
}

pub fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

pub fn ping(payload: u64) -> Vec<u8> {
    frame(kind::PING, 0, 0, &payload.to_be_bytes())
}

pub fn goaway(last: u32, code: u32) -> Vec<u8> {
    frame(kind::GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// PRIORITY_UPDATE (9218-7.1).
pub fn priority_update(stream: u32, value: &str) -> Vec<u8> {
    frame(kind::PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], value.as_bytes()].concat())
}
