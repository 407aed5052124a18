//! A judged request head as a value, its parts, and the refusal of one.

use super::List;
use crate::bytes::{ByteSet, byte_set};

/// Bounds on a head. Values come from the configuration's `[limits]`.
#[derive(Debug, Clone, Copy)]
pub struct HeadLimits {
    /// Bytes from the first of the request line to the last of the empty line.
    pub head_bytes_max: usize,
    /// Header fields; at most [`FIELDS_MAX`](crate::limits::FIELDS_MAX).
    pub header_count_max: usize,
    /// Bytes of the request target.
    pub target_bytes_max: usize,
    /// Bytes of the body, for a stated `Content-Length`.
    pub body_bytes_max: u64,
}

/// A request that must be refused: the status to answer with, and why, for the error log. The connection is
/// closed after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reject {
    /// 400, 413, 414, 417, 421, 431, 501 or 505.
    pub status: u16,
    /// The rule that was broken, in a few words.
    pub reason: &'static str,
}

/// What was not secured by TLS must not be taken for what was (9110-7.4).
pub const MISDIRECTED: Reject = Reject { status: 421, reason: "https target on a cleartext connection" };

impl std::fmt::Display for Reject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.reason, self.status)
    }
}

impl std::error::Error for Reject {}

/// Request methods of RFC 9110 section 9.3 and RFC 5789.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// CONNECT
    Connect,
    /// OPTIONS
    Options,
    /// TRACE
    Trace,
    /// PATCH
    Patch,
    /// Any other token; an application may know it.
    Other,
}

/// The versions that are spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
    /// HTTP/3
    Http3,
}

/// How the body is delimited (9112-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// No body.
    None,
    /// So many bytes; never 0.
    Length(u64),
    /// Chunked.
    Chunked,
}

/// A head that may be acted on. Everything borrows from the bytes that were received.
#[derive(Debug, Clone, Copy)]
pub struct Request<'h, 'b> {
    /// The method.
    pub method: Method,
    /// The method as it was sent; a token.
    pub method_text: &'b str,
    /// HTTP version.
    pub version: Version,
    /// The request target as it was sent, for the access log.
    pub target: &'b str,
    /// Path of the target, still percent-encoded: starts with `/`, or is `*` for `OPTIONS *`, or is empty for
    /// CONNECT.
    pub path: &'b str,
    /// What follows the first `?`, without it.
    pub query: Option<&'b str>,
    /// The authority that decides about the site: of an absolute target, otherwise of `Host`; with its port,
    /// as sent; empty for HTTP/1.0 without `Host`.
    pub authority: &'b str,
    /// Whether the target says `https` itself, being an absolute one. On a connection that is not secured such a request
    /// has to be refused: [`MISDIRECTED`].
    pub https: bool,
    /// All fields in their order. Names are valid tokens; values hold neither CR, LF nor NUL, and no white
    /// space at their ends.
    pub fields: &'h [httparse::Header<'b>],
    /// How the body is delimited.
    pub framing: Framing,
    /// Whether the client asks for, and the version allows, another request on this connection (9112-9.3).
    pub keep_alive: bool,
    /// Whether the client waits for a 100 before it sends the body (9110-10.1.1).
    pub expects_continue: bool,
    /// Whether `Upgrade` was asked for, and `Connection` names it.
    pub upgrade: bool,
    /// Fields that handlers look at, found in the one pass over all of them.
    pub known: Known<'h>,
}

/// Field values that handlers look at. A condition or range that may stand once and stands twice is empty here, and so invalid.
#[derive(Debug, Default, Clone, Copy)]
pub struct Known<'b> {
    /// `Accept-Encoding`
    pub accept_encoding: Option<List<'b>>,
    /// `If-Match`
    pub if_match: Option<List<'b>>,
    /// `If-None-Match`
    pub if_none_match: Option<List<'b>>,
    /// `If-Modified-Since`
    pub if_modified_since: Option<&'b [u8]>,
    /// `If-Unmodified-Since`
    pub if_unmodified_since: Option<&'b [u8]>,
    /// `If-Range`
    pub if_range: Option<&'b [u8]>,
    /// `Range`
    pub range: Option<&'b [u8]>,
    /// `Referer`
    pub referer: Option<&'b [u8]>,
    /// `User-Agent`
    pub user_agent: Option<&'b [u8]>,
}

pub(super) const fn bad_request(reason: &'static str) -> Reject {
    Reject { status: 400, reason }
}

impl Method {
    /// The method that a token names; methods are case-sensitive (9110-9.1).
    #[inline]
    pub fn from_token(token: &str) -> Self {
        match token {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "CONNECT" => Self::Connect,
            "OPTIONS" => Self::Options,
            "TRACE" => Self::Trace,
            "PATCH" => Self::Patch,
            _ => Self::Other,
        }
    }
}

/// `tchar` of 9110-5.6.2.
static TOKEN_BYTES: ByteSet = byte_set(&[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')], b"!#$%&'*+-.^_`|~");

/// Whether a token may have this byte.
#[inline]
pub(crate) fn is_token_byte(byte: &u8) -> bool {
    TOKEN_BYTES[usize::from(*byte)]
}
