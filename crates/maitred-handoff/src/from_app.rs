//! What an application sends.

use crate::header::{Header, OPTIONAL, kind};
use crate::{
    APP_PAYLOAD_BYTES_MAX, CAPACITY_MAX, DETACH_STATUS, NAME_BYTES_MAX, ProtocolError, Rule, Side,
    TAIL_BYTES_MAX,
};

const CLEAN: u8 = 1 << 0;
const CLOSE: u8 = 1 << 1;
const FILE: u8 = 1 << 0;
const DONE_BYTES: u32 = 16;
const TAIL_FILE_BYTES: u32 = 16;
const DETACH_BYTES: u32 = 4;
const LIMITS_BYTES: u32 = 4;
const HELLO_BYTES_MIN: usize = 8;
/// Flag of HELLO.
const SOCKETS_ONLY: u8 = 1 << 0;
/// Flag of HELLO.
const RECOVERS: u8 = 1 << 1;

/// First frame of an application: it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Lowest version that it speaks; at least 1.
    pub version_min: u16,
    /// Highest version that it speaks; not below `version_min`.
    pub version_max: u16,
    /// How many requests it takes at a time; 1 to [`CAPACITY_MAX`].
    pub capacity: u32,
    /// What it calls itself, for status and log; printable, at most [`NAME_BYTES_MAX`] bytes.
    pub name: &'a str,
    /// Whether the process takes one descriptor per message, and only stream sockets; bodies that would come in a file come
    /// through the response descriptor.
    pub sockets_only: bool,
    /// Whether the process waits for another channel when this one ends without SHUTDOWN.
    pub recovers: bool,
}

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Complete and delimited by length or chunks: the connection can be used again if KEEP was said.
    Clean,
    /// Complete, but only closing the connection tells the client so.
    Close,
    /// Aborted: the connection must be closed. With status 0, no byte was written, and Maitred may still answer.
    Broken,
}

/// A request is answered, as far as the application is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Connection of the request.
    pub connection: u32,
    /// Number of the request.
    pub request: u32,
    /// Status of the response (100 to 999), or 0 if nothing was written.
    pub status: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// Microseconds that the application took.
    pub service_us: u32,
    /// Bytes of the body that were written, without head and chunk framing.
    pub body_bytes: u64,
}

/// A frame from an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromApp<'a> {
    /// HELLO
    Hello(Hello<'a>),
    /// DONE
    Done(Done),
    /// TAIL: what follows the bytes of the response that the application has written itself, or earlier TAILs.
    Tail {
        /// Connection of the request.
        connection: u32,
        /// Number of the request.
        request: u32,
        /// 1 to [`TAIL_BYTES_MAX`] bytes, to be sent as they are.
        bytes: &'a [u8],
    },
    /// TAIL with FILE: the same, as a part of a file whose descriptor comes along.
    TailFile {
        /// Connection of the request.
        connection: u32,
        /// Number of the request.
        request: u32,
        /// Where the part begins, in bytes.
        offset: u64,
        /// Bytes of it; at least 1. The end is at most `i64::MAX`, as for any file.
        length: u64,
    },
    /// DETACH, in place of DONE: the connection is the application's from now on.
    Detach {
        /// Connection of the request.
        connection: u32,
        /// Number of the request.
        request: u32,
        /// Status of the response; [`DETACH_STATUS`].
        status: u16,
    },
    /// PONG, with the number that PING had.
    Pong {
        /// Echo of the PING's number.
        request: u32,
    },
    /// LIMITS: how many files the process may have open.
    Limits {
        /// The soft limit of the process (`RLIMIT_NOFILE`), at least 1.
        open_files: u32,
    },
    /// STREAMS: bodies may come while the process works on their requests.
    Streams,
    /// A kind that is not known and may be skipped; its descriptors are to be taken from the queue and closed.
    Skipped {
        /// How many.
        descriptors: u16,
    },
}

impl<'a> FromApp<'a> {
    /// The first frame in `bytes`, and how many bytes it has; `None` if it is not complete.
    ///
    /// # Errors
    /// If the application broke the protocol. Nothing after that can be trusted.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, ProtocolError> {
        let Some((header, payload, used)) = Header::split(bytes, APP_PAYLOAD_BYTES_MAX, Side::App)? else {
            return Ok(None);
        };
        let frame = match header.kind {
            kind::DONE => Self::Done(decode_done(&header, payload)?),
            kind::HELLO => Self::Hello(decode_hello(&header, payload)?),
            kind::TAIL => decode_tail(&header, payload)?,
            kind::DETACH => decode_detach(&header, payload)?,
            kind::PONG => {
                header.expect_plain(0, Side::App)?;
                Self::Pong { request: header.request }
            }
            kind::LIMITS => Self::Limits { open_files: decode_limits(&header, payload)? },
            kind::STREAMS => {
                header.expect_plain(0, Side::App)?;
                Self::Streams
            }
            _ => {
                header.skip_or_refuse(Side::App)?;
                Self::Skipped { descriptors: header.descriptors }
            }
        };
        Ok(Some((frame, used)))
    }

    /// How many descriptors this frame takes from the queue.
    #[inline]
    pub fn descriptors(&self) -> u16 {
        match self {
            Self::TailFile { .. } => 1,
            Self::Skipped { descriptors } => *descriptors,
            Self::Hello(_)
            | Self::Done(_)
            | Self::Tail { .. }
            | Self::Detach { .. }
            | Self::Limits { .. }
            | Self::Streams
            | Self::Pong { .. } => 0,
        }
    }
}

fn broken(rule: Rule) -> ProtocolError {
    ProtocolError { by: Side::App, rule }
}

#[inline]
fn decode_done(header: &Header, payload: &[u8]) -> Result<Done, ProtocolError> {
    let length = Rule::PayloadLength { kind: header.kind, bytes: header.payload_bytes };
    let &[s0, s1, x0, x1, u0, u1, u2, u3, b0, b1, b2, b3, b4, b5, b6, b7] =
        <&[u8; DONE_BYTES as usize]>::try_from(payload).map_err(|_| broken(length))?;
    header.expect_flags(CLEAN | CLOSE, Side::App)?;
    header.expect_descriptors(0, Side::App)?;
    if (x0, x1) != (0, 0) {
        return Err(broken(Rule::Reserved));
    }
    let outcome = match (header.flags & CLEAN != 0, header.flags & CLOSE != 0) {
        (true, false) => Outcome::Clean,
        (false, true) => Outcome::Close,
        (false, false) => Outcome::Broken,
        (true, true) => return Err(broken(Rule::Flags { kind: header.kind, flags: header.flags })),
    };
    let status = u16::from_le_bytes([s0, s1]);
    if !(100..=999).contains(&status) && (status != 0 || outcome != Outcome::Broken) {
        return Err(broken(Rule::Status(status)));
    }
    Ok(Done {
        connection: header.connection,
        request: header.request,
        status,
        outcome,
        service_us: u32::from_le_bytes([u0, u1, u2, u3]),
        body_bytes: u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
    })
}

fn decode_tail<'a>(header: &Header, payload: &'a [u8]) -> Result<FromApp<'a>, ProtocolError> {
    header.expect_flags(FILE, Side::App)?;
    let Header { connection, request, .. } = *header;
    if header.flags & FILE == 0 {
        header.expect_descriptors(0, Side::App)?;
        if payload.is_empty() {
            return Err(broken(Rule::Range));
        }
        return Ok(FromApp::Tail { connection, request, bytes: payload });
    }
    header.expect_descriptors_exactly(1, Side::App)?;
    header.expect_payload(TAIL_FILE_BYTES, Side::App)?;
    let Some((&offset, length)) = payload.split_first_chunk::<8>() else { return Err(broken(Rule::Range)) };
    let Ok(length) = <[u8; 8]>::try_from(length) else { return Err(broken(Rule::Range)) };
    let (offset, length) = (u64::from_le_bytes(offset), u64::from_le_bytes(length));
    let end = offset.checked_add(length).filter(|end| *end <= i64::MAX as u64);
    if length == 0 || end.is_none() {
        return Err(broken(Rule::Range));
    }
    Ok(FromApp::TailFile { connection, request, offset, length })
}

fn decode_detach<'a>(header: &Header, payload: &[u8]) -> Result<FromApp<'a>, ProtocolError> {
    header.expect_plain(DETACH_BYTES, Side::App)?;
    let length = Rule::PayloadLength { kind: header.kind, bytes: header.payload_bytes };
    let &[s0, s1, x0, x1] = <&[u8; 4]>::try_from(payload).map_err(|_| broken(length))?;
    if (x0, x1) != (0, 0) {
        return Err(broken(Rule::Reserved));
    }
    let status = u16::from_le_bytes([s0, s1]);
    if status != DETACH_STATUS {
        return Err(broken(Rule::Status(status)));
    }
    Ok(FromApp::Detach { connection: header.connection, request: header.request, status })
}

fn decode_limits(header: &Header, payload: &[u8]) -> Result<u32, ProtocolError> {
    header.expect_plain(LIMITS_BYTES, Side::App)?;
    let open_files = <[u8; 4]>::try_from(payload).map_err(|_| broken(Rule::Range))?;
    Some(u32::from_le_bytes(open_files)).filter(|count| *count > 0).ok_or(broken(Rule::Range))
}

fn decode_hello<'a>(header: &Header, payload: &'a [u8]) -> Result<Hello<'a>, ProtocolError> {
    header.expect_flags(SOCKETS_ONLY | RECOVERS, Side::App)?;
    header.expect_descriptors(0, Side::App)?;
    let length = Rule::PayloadLength { kind: header.kind, bytes: header.payload_bytes };
    let Some((&[a0, a1, b0, b1, c0, c1, c2, c3], name)) = payload.split_first_chunk::<HELLO_BYTES_MIN>()
    else {
        return Err(broken(length));
    };
    if name.len() > NAME_BYTES_MAX {
        return Err(broken(length));
    }
    let hello = Hello {
        version_min: u16::from_le_bytes([a0, a1]),
        version_max: u16::from_le_bytes([b0, b1]),
        capacity: u32::from_le_bytes([c0, c1, c2, c3]),
        name: std::str::from_utf8(name).map_err(|_| broken(Rule::Name))?,
        sockets_only: header.flags & SOCKETS_ONLY != 0,
        recovers: header.flags & RECOVERS != 0,
    };
    if hello.version_min == 0 || hello.version_min > hello.version_max {
        return Err(broken(Rule::VersionRange));
    }
    if hello.capacity == 0 || hello.capacity > CAPACITY_MAX {
        return Err(broken(Rule::Capacity));
    }
    // The name goes to logs and terminals.
    if hello.name.chars().any(char::is_control) {
        return Err(broken(Rule::Name));
    }
    Ok(hello)
}

/// Appends HELLO. A name over the limit is cut at a character's boundary.
pub fn encode_hello(out: &mut Vec<u8>, hello: &Hello<'_>) {
    let name = hello.name.get(..hello.name.floor_char_boundary(NAME_BYTES_MAX)).unwrap_or_default();
    // At most 72, so the conversion keeps the value.
    let payload_bytes = (HELLO_BYTES_MIN + name.len()) as u32;
    let flags = if hello.sockets_only { SOCKETS_ONLY } else { 0 } | if hello.recovers { RECOVERS } else { 0 };
    let header = Header { payload_bytes, kind: kind::HELLO, flags, ..Header::default() };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(&hello.version_min.to_le_bytes());
    out.extend_from_slice(&hello.version_max.to_le_bytes());
    out.extend_from_slice(&hello.capacity.to_le_bytes());
    out.extend_from_slice(name.as_bytes());
}

/// Appends LIMITS, to be sent behind HELLO: how many files the process may have open.
pub fn encode_limits(out: &mut Vec<u8>, open_files: u32) {
    // A server that does not know it skips it.
    let header =
        Header { payload_bytes: LIMITS_BYTES, kind: kind::LIMITS, flags: OPTIONAL, ..Header::default() };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(&open_files.max(1).to_le_bytes());
}

/// Appends STREAMS, to be sent behind HELLO: bodies may come while the process works on their requests.
pub fn encode_streams(out: &mut Vec<u8>) {
    // A server that does not know it skips it.
    out.extend_from_slice(&Header { kind: kind::STREAMS, flags: OPTIONAL, ..Header::default() }.to_bytes());
}

/// Appends DONE.
pub fn encode_done(out: &mut Vec<u8>, done: &Done) {
    let flags = match done.outcome {
        Outcome::Clean => CLEAN,
        Outcome::Close => CLOSE,
        Outcome::Broken => 0,
    };
    let header = Header {
        payload_bytes: DONE_BYTES,
        kind: kind::DONE,
        flags,
        descriptors: 0,
        connection: done.connection,
        request: done.request,
    };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(&done.status.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&done.service_us.to_le_bytes());
    out.extend_from_slice(&done.body_bytes.to_le_bytes());
}

/// Appends `bytes` as TAILs of a request, as many as it takes; none for no bytes. Keeping to
/// [`crate::TAIL_TOTAL_BYTES_MAX`] per request is the caller's part.
pub fn encode_tail(out: &mut Vec<u8>, connection: u32, request: u32, bytes: &[u8]) {
    for piece in bytes.chunks(TAIL_BYTES_MAX) {
        // At most TAIL_BYTES_MAX, so the conversion keeps the value.
        let payload_bytes = piece.len() as u32;
        let header = Header { payload_bytes, kind: kind::TAIL, connection, request, ..Header::default() };
        out.extend_from_slice(&header.to_bytes());
        out.extend_from_slice(piece);
    }
}

/// Appends TAIL with FILE. The file's descriptor must leave with the first byte of this frame.
pub fn encode_tail_file(out: &mut Vec<u8>, connection: u32, request: u32, offset: u64, length: u64) {
    let header = Header {
        payload_bytes: TAIL_FILE_BYTES,
        kind: kind::TAIL,
        flags: FILE,
        descriptors: 1,
        connection,
        request,
    };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
}

/// Appends DETACH, in place of DONE. The application has taken the descriptor out of its cache.
pub fn encode_detach(out: &mut Vec<u8>, connection: u32, request: u32) {
    let header =
        Header { payload_bytes: DETACH_BYTES, kind: kind::DETACH, connection, request, ..Header::default() };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(&DETACH_STATUS.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
}

/// Appends PONG, the answer to PING `request`.
pub fn encode_pong(out: &mut Vec<u8>, request: u32) {
    out.extend_from_slice(&Header { kind: kind::PONG, request, ..Header::default() }.to_bytes());
}

#[cfg(test)]
mod tests;
