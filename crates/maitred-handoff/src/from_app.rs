//! What an application sends.

use crate::header::{Header, kind};
use crate::{APP_PAYLOAD_BYTES_MAX, CAPACITY_MAX, NAME_BYTES_MAX, ProtocolError, Rule, Side};

const CLEAN: u8 = 1 << 0;
const CLOSE: u8 = 1 << 1;
const DONE_BYTES: u32 = 16;
const HELLO_BYTES_MIN: usize = 8;

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
}

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Complete and delimited by length or chunks: the connection can be used again if KEEP was said.
    Clean,
    /// Complete, but only closing the connection tells the client so.
    Close,
    /// Broken off: the connection must be closed. With status 0, no byte was written, and Maitred may still answer.
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
    /// PONG, with the number that PING had.
    Pong {
        /// Echo of the PING's number.
        request: u32,
    },
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
            kind::PONG => {
                header.expect_plain(0, Side::App)?;
                Self::Pong { request: header.request }
            }
            _ => {
                header.skip_or_refuse(Side::App)?;
                Self::Skipped { descriptors: header.descriptors }
            }
        };
        Ok(Some((frame, used)))
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

fn decode_hello<'a>(header: &Header, payload: &'a [u8]) -> Result<Hello<'a>, ProtocolError> {
    header.expect_flags(0, Side::App)?;
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
    let header = Header { payload_bytes, kind: kind::HELLO, ..Header::default() };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(&hello.version_min.to_le_bytes());
    out.extend_from_slice(&hello.version_max.to_le_bytes());
    out.extend_from_slice(&hello.capacity.to_le_bytes());
    out.extend_from_slice(name.as_bytes());
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

/// Appends PONG, the answer to PING `request`.
pub fn encode_pong(out: &mut Vec<u8>, request: u32) {
    out.extend_from_slice(&Header { kind: kind::PONG, request, ..Header::default() }.to_bytes());
}

#[cfg(test)]
mod tests;
