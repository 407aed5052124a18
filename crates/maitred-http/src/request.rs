//! A judged request head: what is left of it once every rule of RFC 9112 that binds a server was applied.

use std::mem::MaybeUninit;

/// Room for the fields of one head, on the stack of whoever parses; never initialised before use.
pub type FieldRoom<'b> = [MaybeUninit<httparse::Header<'b>>; FIELDS_MAX];

/// The most header fields that any configuration can allow: 128 × 32 bytes of stack.
pub const FIELDS_MAX: usize = 128;

/// Bounds on a head. Values come from the configuration's `[limits]`.
#[derive(Debug, Clone, Copy)]
pub struct HeadLimits {
    /// Bytes from the first of the request line to the last of the empty line.
    pub head_bytes_max: usize,
    /// Header fields; at most [`FIELDS_MAX`].
    pub header_count_max: usize,
    /// Bytes of the request target.
    pub target_bytes_max: usize,
    /// Bytes of the body, for a stated `Content-Length`.
    pub body_bytes_max: u64,
}

/// A request that must be refused: the status to answer with, and why, for the error log. The connection is closed
/// after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reject {
    /// 400, 405, 413, 414, 417, 431, 501 or 505.
    pub status: u16,
    /// The rule that was broken, in a few words.
    pub reason: &'static str,
}

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

/// The two versions that are spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1 (and any HTTP/1.x above it, 9112-2.3)
    Http11,
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
#[derive(Debug)]
pub struct Request<'h, 'b> {
    /// Its method.
    pub method: Method,
    /// The method as it was sent; a token.
    pub method_text: &'b str,
    /// HTTP version.
    pub version: Version,
    /// The request target as it was sent, for the access log.
    pub target: &'b str,
    /// Path of the target, still percent-encoded: starts with `/`, or is `*` for `OPTIONS *`, or is empty for CONNECT.
    pub path: &'b str,
    /// What follows the first `?`, without it.
    pub query: Option<&'b str>,
    /// The authority that decides about the site: of an absolute target, otherwise of `Host`; with its port, as sent;
    /// empty for HTTP/1.0 without `Host`.
    pub authority: &'b str,
    /// All fields in their order. Names are valid tokens; values hold neither CR, LF nor NUL, and no white space
    /// at their ends.
    pub fields: &'h [httparse::Header<'b>],
    /// How the body is delimited.
    pub framing: Framing,
    /// Whether the client wants, and the version allows, another request on this connection (9112-9.3).
    pub keep_alive: bool,
    /// Whether the client waits for a 100 before it sends the body (9110-10.1.1).
    pub expects_continue: bool,
    /// Whether `Upgrade` was asked for, and `Connection` names it.
    pub upgrade: bool,
    /// Fields that handlers look at, found in the one pass over all of them.
    pub known: Known<'b>,
}

/// Field values that handlers look at. A field that may stand once and stands twice keeps its first value here
/// unless the rules demand a refusal.
#[derive(Debug, Default, Clone, Copy)]
pub struct Known<'b> {
    /// `Accept-Encoding` (the first one)
    pub accept_encoding: Option<&'b [u8]>,
    /// `If-Match`
    pub if_match: Option<&'b [u8]>,
    /// `If-None-Match`
    pub if_none_match: Option<&'b [u8]>,
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
