//! What Maitred sends.

use crate::field::{append_field, is_token};
use crate::header::{Header, OPTIONAL, RequestFlags, kind};
use crate::{
    META_BYTES_MAX, ProtocolError, REQUEST_DESCRIPTORS_MAX, Rule, Side, TRAILER_BYTES_MAX, TRAILERS_MAX,
};

/// Bytes of a REQUEST's payload before its parts: three lengths.
pub(crate) const PART_LENGTHS_BYTES: usize = 12;
const WELCOME_BYTES: u32 = 8;

/// Answer to HELLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// The version that is spoken from now on; within the range that HELLO gave.
    pub version: u16,
    /// Bytes of the largest payload that Maitred will send.
    pub payload_bytes_max: u32,
}

/// A request to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Number of the client's connection: key of the descriptor cache.
    pub connection: u32,
    /// Number of the request, to be echoed in DONE.
    pub request: u32,
    /// What the response must look like.
    pub flags: RequestFlags,
    /// How many descriptors come along: first the connection's, if it does ([`Request::passes_connection`]); then that
    /// of the body, if `flags.body_fd`.
    pub descriptors: u16,
    /// Lines of `key=value`; see [`Request::meta`].
    pub meta: &'a str,
    /// Canonical head, with the empty line at its end.
    pub head: &'a [u8],
    /// The whole body; empty if it is in a file or follows on the response descriptor, with `content-length` bytes. With
    /// `flags.may_detach` early bytes of the new protocol.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Whether the connection's descriptor comes along, and replaces a cached one.
    #[inline]
    pub fn passes_connection(&self) -> bool {
        self.descriptors > u16::from(self.flags.body_fd)
    }

    /// Value of a key of the meta part.
    pub fn meta(&self, key: &str) -> Option<&'a str> {
        let (_, value) =
            self.meta.lines().filter_map(|line| line.split_once('=')).find(|(k, _)| *k == key)?;
        Some(value)
    }

    /// The user that Maitred has found out, and how (`Basic`, `Bearer`, `forward_auth`); `None` if there is none. Fields of the
    /// head never say it: a client may have written them.
    pub fn user(&self) -> Option<(&'a str, &'a str)> {
        let name = self.meta("user").filter(|name| !name.is_empty())?;
        Some((name, self.meta("auth_type").unwrap_or_default()))
    }
}

/// The trailers of the request whose REQUEST follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailers<'a> {
    /// Number of the client's connection.
    pub connection: u32,
    /// Number of the request.
    pub request: u32,
    /// Lines of `name: value`, each with its CRLF.
    lines: &'a [u8],
}

impl<'a> Trailers<'a> {
    /// Names, in lower case, and values.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        field_lines(self.lines).flatten()
    }
}

/// The fields of lines; `None` for a line that is no field.
fn field_lines(lines: &[u8]) -> impl Iterator<Item = Option<(&str, &[u8])>> {
    lines.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let line = line.strip_suffix(b"\r\n")?;
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at_checked(colon)?;
        let value = value.strip_prefix(b": ")?;
        let name = std::str::from_utf8(name).ok().filter(|name| is_token(name))?;
        let is_lower = !name.bytes().any(|byte| byte.is_ascii_uppercase());
        (is_lower && !value.iter().any(|byte| matches!(byte, b'\r' | 0))).then_some((name, value))
    })
}

/// A frame from Maitred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromServer<'a> {
    /// WELCOME
    Welcome(Welcome),
    /// REQUEST
    Request(Request<'a>),
    /// TRAILERS: the next frame is the REQUEST to which they belong.
    Trailers(Trailers<'a>),
    /// FORGET: close the cached descriptor of `connection`, whose number may be used for another from now on.
    Forget {
        /// Which.
        connection: u32,
    },
    /// CANCEL: the client does not wait for this request any more. The request is to be reported all the same; one that is not
    /// under way is to be ignored.
    Cancel {
        /// Connection of the request.
        connection: u32,
        /// Number of the request.
        request: u32,
    },
    /// PING: answer with PONG of the same number.
    Ping {
        /// The number.
        request: u32,
    },
    /// SHUTDOWN: finish what was received, then exit.
    Shutdown,
    /// A kind that is not known and may be skipped; its descriptors are to be taken from the queue and closed.
    Skipped {
        /// How many.
        descriptors: u16,
    },
}

impl<'a> FromServer<'a> {
    /// The first frame in `bytes`, and how many bytes it has; `None` if it is not complete. `payload_bytes_max` is what
    /// WELCOME said, [`crate::PAYLOAD_BYTES_MAX`] before that.
    ///
    /// # Errors
    /// If the server broke the protocol. Nothing after that can be trusted.
    pub fn decode(bytes: &'a [u8], payload_bytes_max: u32) -> Result<Option<(Self, usize)>, ProtocolError> {
        let Some((header, payload, used)) = Header::split(bytes, payload_bytes_max, Side::Server)? else {
            return Ok(None);
        };
        let frame = match header.kind {
            kind::REQUEST => Self::Request(decode_request(&header, payload)?),
            kind::TRAILERS => Self::Trailers(decode_trailers(&header, payload)?),
            kind::FORGET => {
                header.expect_plain(0, Side::Server)?;
                Self::Forget { connection: header.connection }
            }
            kind::CANCEL => {
                header.expect_plain(0, Side::Server)?;
                Self::Cancel { connection: header.connection, request: header.request }
            }
            kind::PING => {
                header.expect_plain(0, Side::Server)?;
                Self::Ping { request: header.request }
            }
            kind::SHUTDOWN => {
                header.expect_plain(0, Side::Server)?;
                Self::Shutdown
            }
            kind::WELCOME => Self::Welcome(decode_welcome(&header, payload)?),
            _ => {
                header.skip_or_refuse(Side::Server)?;
                Self::Skipped { descriptors: header.descriptors }
            }
        };
        Ok(Some((frame, used)))
    }

    /// How many descriptors this frame takes from the queue.
    #[inline]
    pub fn descriptors(&self) -> u16 {
        match self {
            Self::Request(request) => request.descriptors,
            Self::Skipped { descriptors } => *descriptors,
            Self::Welcome(_)
            | Self::Trailers(_)
            | Self::Forget { .. }
            | Self::Cancel { .. }
            | Self::Ping { .. }
            | Self::Shutdown => 0,
        }
    }
}

fn broken(rule: Rule) -> ProtocolError {
    ProtocolError { by: Side::Server, rule }
}

fn decode_welcome(header: &Header, payload: &[u8]) -> Result<Welcome, ProtocolError> {
    header.expect_plain(WELCOME_BYTES, Side::Server)?;
    let length = Rule::PayloadLength { kind: header.kind, bytes: header.payload_bytes };
    // The two bytes of flags are hints that version 1 has none of.
    let &[v0, v1, _, _, p0, p1, p2, p3] = <&[u8; 8]>::try_from(payload).map_err(|_| broken(length))?;
    let version = u16::from_le_bytes([v0, v1]);
    if version == 0 {
        return Err(broken(Rule::VersionRange));
    }
    Ok(Welcome { version, payload_bytes_max: u32::from_le_bytes([p0, p1, p2, p3]) })
}

fn decode_request<'a>(header: &Header, payload: &'a [u8]) -> Result<Request<'a>, ProtocolError> {
    header.expect_descriptors(REQUEST_DESCRIPTORS_MAX, Side::Server)?;
    let bad_flags = Rule::Flags { kind: header.kind, flags: header.flags };
    let flags = RequestFlags::from_bits(header.flags).ok_or_else(|| broken(bad_flags))?;
    // At most the connection's, and exactly one for a body in a file.
    let bodies = u16::from(flags.body_fd);
    if header.descriptors < bodies || header.descriptors > bodies + 1 {
        return Err(broken(Rule::Descriptors { kind: header.kind, descriptors: header.descriptors }));
    }
    let (meta, head, body) = parts(payload).ok_or_else(|| broken(Rule::PartLengths))?;
    if (flags.body_fd || flags.body_stream) && !body.is_empty() {
        return Err(broken(Rule::TwoBodies));
    }
    let meta = std::str::from_utf8(meta).map_err(|_| broken(Rule::Meta))?;
    if !meta.is_empty() && (!meta.ends_with('\n') || meta.lines().any(|line| !line.contains('='))) {
        return Err(broken(Rule::Meta));
    }
    if !head.ends_with(b"\r\n\r\n") || head.contains(&0) {
        return Err(broken(Rule::Head));
    }
    Ok(Request {
        connection: header.connection,
        request: header.request,
        flags,
        descriptors: header.descriptors,
        meta,
        head,
        body,
    })
}

fn decode_trailers<'a>(header: &Header, payload: &'a [u8]) -> Result<Trailers<'a>, ProtocolError> {
    header.expect_flags(0, Side::Server)?;
    header.expect_descriptors(0, Side::Server)?;
    let (mut count, mut are_fields) = (0, true);
    for field in field_lines(payload) {
        count += 1;
        are_fields &= field.is_some();
    }
    if !are_fields || !(1..=TRAILERS_MAX).contains(&count) || payload.len() > TRAILER_BYTES_MAX {
        return Err(broken(Rule::Trailers));
    }
    Ok(Trailers { connection: header.connection, request: header.request, lines: payload })
}

/// Meta, head and body of a REQUEST's payload; `None` if the lengths do not add up to it exactly.
fn parts(payload: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (lengths, rest) = payload.split_first_chunk::<PART_LENGTHS_BYTES>()?;
    let &[m0, m1, m2, m3, h0, h1, h2, h3, b0, b1, b2, b3] = lengths;
    let meta_bytes = u32::from_le_bytes([m0, m1, m2, m3]);
    let head_bytes = u32::from_le_bytes([h0, h1, h2, h3]);
    let body_bytes = u32::from_le_bytes([b0, b1, b2, b3]);
    if meta_bytes > META_BYTES_MAX {
        return None;
    }
    let (meta, rest) = rest.split_at_checked(meta_bytes as usize)?;
    let (head, body) = rest.split_at_checked(head_bytes as usize)?;
    (body.len() == body_bytes as usize).then_some((meta, head, body))
}

/// Appends WELCOME.
pub fn encode_welcome(out: &mut Vec<u8>, welcome: &Welcome) {
    let header = Header { payload_bytes: WELCOME_BYTES, kind: kind::WELCOME, ..Header::default() };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(&welcome.version.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&welcome.payload_bytes_max.to_le_bytes());
}

/// Appends TRAILERS of the request whose REQUEST is appended next. Names are put into lower case.
///
/// False, and nothing appended, if there are none, one cannot be sent, or there are more than [`TRAILERS_MAX`] or
/// [`TRAILER_BYTES_MAX`].
pub fn encode_trailers<'f>(
    out: &mut Vec<u8>,
    connection: u32,
    request: u32,
    fields: impl IntoIterator<Item = (&'f str, &'f [u8])>,
) -> bool {
    let start = out.len();
    let header = Header { kind: kind::TRAILERS, flags: OPTIONAL, connection, request, ..Header::default() };
    out.extend_from_slice(&header.to_bytes());
    let lines = out.len();
    let mut count = 0;
    let written = fields.into_iter().all(|(name, value)| {
        let at = out.len();
        let written = append_field(out, name, value);
        out.get_mut(at..).and_then(|line| line.get_mut(..name.len())).map(<[u8]>::make_ascii_lowercase);
        count += 1;
        written && count <= TRAILERS_MAX && out.len() - lines <= TRAILER_BYTES_MAX
    });
    let bytes = (out.len() - lines) as u32;
    match out.get_mut(start..start + 4) {
        Some(length) if written && bytes > 0 => length.copy_from_slice(&bytes.to_le_bytes()),
        _ => out.truncate(start),
    }
    out.len() > start
}

/// Appends FORGET of `connection`.
#[inline]
pub fn encode_forget(out: &mut Vec<u8>, connection: u32) {
    out.extend_from_slice(&Header { kind: kind::FORGET, connection, ..Header::default() }.to_bytes());
}

/// Appends CANCEL of a request.
#[inline]
pub fn encode_cancel(out: &mut Vec<u8>, connection: u32, request: u32) {
    out.extend_from_slice(
        &Header { kind: kind::CANCEL, connection, request, ..Header::default() }.to_bytes(),
    );
}

/// Appends PING with a number of the sender's choice, which PONG gives back.
pub fn encode_ping(out: &mut Vec<u8>, request: u32) {
    out.extend_from_slice(&Header { kind: kind::PING, request, ..Header::default() }.to_bytes());
}

/// Appends SHUTDOWN.
pub fn encode_shutdown(out: &mut Vec<u8>) {
    out.extend_from_slice(&Header { kind: kind::SHUTDOWN, ..Header::default() }.to_bytes());
}

#[cfg(test)]
mod tests;
