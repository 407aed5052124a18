//! A judged request head: what is left of it once every rule of RFC 9112 that binds a server was applied.

mod early;
mod framing;
mod host;
mod target;
#[cfg(test)]
mod tests;

use std::mem::MaybeUninit;

use crate::limits::{EMPTY_LINES_MAX, METHOD_BYTES_MAX};

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
    /// HTTP/1.1
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

/// Room for the fields of one head, uninitialised, so that making it costs nothing.
#[inline]
pub fn field_room<'b>() -> FieldRoom<'b> {
    [const { MaybeUninit::uninit() }; FIELDS_MAX]
}

/// Parses the head that `bytes` start with, and judges it.
///
/// Returns `None` while the head is incomplete; otherwise the request, and how many bytes it took: those of the head,
/// and of the empty lines before it that are skipped (9112-2.2). Whatever way the bytes arrive, the first answer other
/// than `None` is the one that all of them at once would have had.
///
/// # Errors
///
/// A [`Reject`] for a head that breaks a rule, or that has no hope to keep a limit.
#[inline]
pub fn parse<'h, 'b>(
    bytes: &'b [u8],
    room: &'h mut FieldRoom<'b>,
    limits: &HeadLimits,
) -> Result<Option<(Request<'h, 'b>, usize)>, Reject> {
    let skipped = match bytes {
        [b'\r' | b'\n', ..] => skip_empty_lines(bytes)?,
        _ => 0,
    };
    let received = bytes.get(skipped..).unwrap_or_default();
    let window = received.get(..limits.head_bytes_max).unwrap_or(received);
    let fields = room.get_mut(..limits.header_count_max.min(FIELDS_MAX)).unwrap_or_default();
    let mut parsed = httparse::Request::new(&mut []);
    match parsed.parse_with_uninit_headers(window, fields) {
        Ok(httparse::Status::Complete(head_bytes)) => {
            let head = window.get(..head_bytes).unwrap_or_default();
            Ok(Some((judge(parsed, head, limits)?, skipped + head_bytes)))
        }
        Ok(httparse::Status::Partial) => {
            early::over_bounds(window, limits)?;
            if received.len() >= limits.head_bytes_max {
                return Err(Reject { status: 431, reason: "head too big" });
            }
            Ok(None)
        }
        Err(error) => Err(early::refusal(window, error, limits)),
    }
}

const fn bad_request(reason: &'static str) -> Reject {
    Reject { status: 400, reason }
}

/// Counts the bytes of empty lines before a request line.
#[cold]
fn skip_empty_lines(bytes: &[u8]) -> Result<usize, Reject> {
    let mut skipped = 0;
    loop {
        match bytes.get(skipped..).unwrap_or_default() {
            [b'\r', b'\n', ..] if skipped < EMPTY_LINES_MAX * 2 => skipped += 2,
            [b'\r'] if skipped < EMPTY_LINES_MAX * 2 => return Ok(skipped),
            [b'\r' | b'\n', ..] => return Err(bad_request("empty lines before the request line")),
            _ => return Ok(skipped),
        }
    }
}

/// Applies the rules to a head that `httparse` accepted.
fn judge<'h, 'b>(
    parsed: httparse::Request<'h, 'b>,
    head: &'b [u8],
    limits: &HeadLimits,
) -> Result<Request<'h, 'b>, Reject> {
    let (Some(method_text), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(bad_request("invalid request line"));
    };
    if method_text.len() > METHOD_BYTES_MAX {
        return Err(early::METHOD_TOO_LONG);
    }
    if target.len() > limits.target_bytes_max {
        return Err(early::TARGET_TOO_LONG);
    }
    let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
    let method = Method::from_token(method_text);
    let fields: &'h [httparse::Header<'b>] = parsed.headers;
    judge_line_ends(head, target, fields)?;
    let taken_apart = target::judge(method, target)?;
    let facts = facts(fields)?;

    let host = match facts.host {
        Some(host) => {
            host::judge(host)?;
            // Only ASCII passes the judgement.
            std::str::from_utf8(host).unwrap_or_default()
        }
        None if version == Version::Http11 => return Err(bad_request("no Host")),
        None => "",
    };
    let framing = facts.framing.judge(version, limits)?;
    if facts.other_expectation && version == Version::Http11 {
        return Err(Reject { status: 417, reason: "expectation other than 100-continue" });
    }
    Ok(Request {
        method,
        method_text,
        version,
        target,
        path: taken_apart.path,
        query: taken_apart.query,
        authority: taken_apart.authority.unwrap_or(host),
        fields,
        framing,
        keep_alive: !facts.close && (version == Version::Http11 || facts.keep_alive),
        // A client of version 1.0 cannot mean it (9110-10.1.1), and without a body there is nothing to wait for.
        expects_continue: facts.expects_continue && version == Version::Http11 && framing != Framing::None,
        // A 1.0 client's wish to upgrade is ignored (9110-7.8).
        upgrade: facts.upgrade && facts.connection_upgrade && version == Version::Http11,
        known: facts.known,
    })
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

/// Refuses lines that end in a bare LF, which `httparse` lets pass. It leaves no other place for a CR or LF than the
/// line ends, so that one look behind each part decides.
#[inline]
fn judge_line_ends(head: &[u8], target: &str, fields: &[httparse::Header<'_>]) -> Result<(), Reject> {
    const BARE_LF: Reject = bad_request("line ends in a bare LF");
    let offset_behind =
        |part: &[u8]| part.as_ptr().addr().wrapping_sub(head.as_ptr().addr()).wrapping_add(part.len());
    let version_end = offset_behind(target.as_bytes()) + " HTTP/1.1".len();
    if head.get(version_end) != Some(&b'\r') || !head.ends_with(b"\r\n") {
        return Err(BARE_LF);
    }
    for field in fields {
        let behind = offset_behind(field.value);
        match head.get(behind) {
            Some(b'\r') => {}
            Some(b' ' | b'\t') if ends_in_cr(head.get(behind..).unwrap_or_default()) => {}
            _ => return Err(BARE_LF),
        }
    }
    Ok(())
}

/// Whether CR follows the white space that `bytes` start with.
#[cold]
fn ends_in_cr(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !matches!(byte, b' ' | b'\t')) == Some(&b'\r')
}

/// What the one pass over the fields finds.
#[derive(Default)]
struct Facts<'b> {
    host: Option<&'b [u8]>,
    framing: framing::Seen,
    close: bool,
    keep_alive: bool,
    connection_upgrade: bool,
    upgrade: bool,
    expects_continue: bool,
    other_expectation: bool,
    known: Known<'b>,
}

/// The one pass over the fields. Length and first letter choose the only name that a field can have here, so that the
/// unknown ones cost one jump, and the known ones one comparison.
#[inline]
fn facts<'b>(fields: &[httparse::Header<'b>]) -> Result<Facts<'b>, Reject> {
    let mut facts = Facts::default();
    for field in fields {
        let (name, value) = (field.name.as_bytes(), field.value);
        let first = name.first().map_or(0, |byte| byte | 0x20);
        let is = |expected: &[u8]| name.eq_ignore_ascii_case(expected);
        let known = &mut facts.known;
        match (name.len(), first) {
            (4, b'h') if is(b"host") => {
                if facts.host.replace(value).is_some() {
                    return Err(bad_request("Host more than once"));
                }
            }
            (5, b'r') if is(b"range") => keep_first(&mut known.range, value),
            (6, b'e') if is(b"expect") => facts.expect(value),
            (7, b'r') if is(b"referer") => keep_first(&mut known.referer, value),
            (7, b'u') if is(b"upgrade") => facts.upgrade = true,
            (8, b'i') if is(b"if-match") => keep_first(&mut known.if_match, value),
            (8, b'i') if is(b"if-range") => keep_first(&mut known.if_range, value),
            (10, b'c') if is(b"connection") => facts.connection(value),
            (10, b'u') if is(b"user-agent") => keep_first(&mut known.user_agent, value),
            (13, b'i') if is(b"if-none-match") => keep_first(&mut known.if_none_match, value),
            (14, b'c') if is(b"content-length") => facts.framing.content_length(value)?,
            (15, b'a') if is(b"accept-encoding") => keep_first(&mut known.accept_encoding, value),
            (17, b't') if is(b"transfer-encoding") => facts.framing.transfer_encoding(value)?,
            (17, b'i') if is(b"if-modified-since") => keep_first(&mut known.if_modified_since, value),
            (19, b'i') if is(b"if-unmodified-since") => keep_first(&mut known.if_unmodified_since, value),
            _ => {}
        }
    }
    Ok(facts)
}

#[inline]
fn keep_first<'b>(slot: &mut Option<&'b [u8]>, value: &'b [u8]) {
    slot.get_or_insert(value);
}

impl Facts<'_> {
    fn expect(&mut self, value: &[u8]) {
        if value.eq_ignore_ascii_case(b"100-continue") {
            self.expects_continue = true;
        } else {
            self.other_expectation = true;
        }
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',') {
            let option = option.trim_ascii();
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            self.connection_upgrade |= option.eq_ignore_ascii_case(b"upgrade");
        }
    }
}
