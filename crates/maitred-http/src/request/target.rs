//! The request target (9112-3.2): its four forms, and the bytes that none of them may hold.

use std::borrow::Cow;

use super::{Method, Reject, Request, bad_request, host};
use crate::bytes::{ByteSet, byte_set};

impl<'b> Request<'_, 'b> {
    /// The target that was sent, in the form that a server gets (9112-3.2.1): path and query, whether the client has put scheme
    /// and authority before them or not; `*` for the server as a whole; nothing for CONNECT. What a route has made of path and
    /// query is not in it.
    pub fn origin_form(&self) -> Cow<'b, str> {
        if self.target.starts_with('/') && self.method != Method::Connect {
            return Cow::Borrowed(self.target);
        }
        origin_form(self.method, self.target)
    }
}

#[cold]
fn origin_form(method: Method, target: &str) -> Cow<'_, str> {
    if method == Method::Connect {
        return Cow::Borrowed("");
    }
    let Some((_, rest)) = target.split_once("://") else { return Cow::Borrowed(target) };
    match rest.find(['/', '?']).and_then(|at| rest.get(at..)) {
        Some(path) if path.starts_with('/') => Cow::Borrowed(path),
        Some(query) => Cow::Owned(format!("/{query}")),
        None if method == Method::Options => Cow::Borrowed("*"),
        None => Cow::Borrowed("/"),
    }
}

/// A target that was taken apart.
pub(super) struct Target<'b> {
    pub(super) path: &'b str,
    pub(super) query: Option<&'b str>,
    /// Of an absolute or authority form; it then decides about the site, whatever `Host` says (9112-3.2.2).
    pub(super) authority: Option<&'b str>,
    /// Of an absolute form with the scheme `https`.
    pub(super) https: bool,
}

/// Takes the target of a request apart. Bytes below `!` were refused already: over HTTP/1 they end a target, over HTTP/2 no
/// pseudo-field has them.
#[inline]
pub(super) fn judge<'b>(method: Method, target: &'b str) -> Result<Target<'b>, Reject> {
    if target.starts_with('/') && method != Method::Connect {
        let (path, query) = split_query(target)?;
        return Ok(Target { path, query, authority: None, https: false });
    }
    judge_other_form(method, target)
}

#[cold]
fn judge_other_form<'b>(method: Method, target: &'b str) -> Result<Target<'b>, Reject> {
    if method == Method::Connect {
        host::judge_with_port(target)?;
        return Ok(Target { path: "", query: None, authority: Some(target), https: false });
    }
    if target == "*" {
        if method != Method::Options {
            return Err(bad_request("asterisk-form with a method other than OPTIONS"));
        }
        return Ok(Target { path: "*", query: None, authority: None, https: false });
    }
    judge_absolute(method, target)
}

fn judge_absolute<'b>(method: Method, target: &'b str) -> Result<Target<'b>, Reject> {
    let (scheme, rest) = target.split_once("://").ok_or(bad_request("target in none of the four forms"))?;
    let https = scheme.eq_ignore_ascii_case("https");
    if !https && !scheme.eq_ignore_ascii_case("http") {
        return Err(bad_request("target with a scheme other than http and https"));
    }
    let authority_bytes = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(authority_bytes);
    if authority.is_empty() {
        return Err(bad_request("target with an empty authority"));
    }
    host::judge(authority.as_bytes())?;
    let (path, query) = split_query(rest)?;
    let path = match path {
        // A whole server is asked for its options (9112-3.2.4).
        "" if method == Method::Options && query.is_none() => "*",
        "" => "/",
        path => path,
    };
    Ok(Target { path, query, authority: Some(authority), https })
}

/// Bytes of a path: all visible ones of ASCII but `?` and `#`, which end it, and four that no browser sends as they are: it makes
/// a slash of `\\`, as some applications do, and encodes `"`, `<` and `>`.
static PATH_BYTES: ByteSet =
    byte_set(&[(b'!', b'!'), (b'$', b';'), (b'=', b'='), (b'@', b'['), (b']', b'~')], b"");
/// Bytes of a query: all visible ones of ASCII but `#`.
static QUERY_BYTES: ByteSet = byte_set(&[(b'!', b'"'), (b'$', b'~')], b"");

/// Splits at the first `?`, and refuses what no target may hold. Targets are short, so that a plain loop
/// beats vectors.
#[inline]
fn split_query(target: &str) -> Result<(&str, Option<&str>), Reject> {
    let Some(at) = target.bytes().position(|byte| !PATH_BYTES[usize::from(byte)]) else {
        return Ok((target, None));
    };
    let refused = || forbidden(target);
    let (path, query) = target.split_once('?').filter(|(path, _)| path.len() == at).ok_or_else(refused)?;
    if query.bytes().all(|byte| QUERY_BYTES[usize::from(byte)]) {
        Ok((path, Some(query)))
    } else {
        Err(refused())
    }
}

/// Why a target is refused that has bytes which may not be there.
#[cold]
fn forbidden(target: &str) -> Reject {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let may =
        |bytes: &str, set: &ByteSet| bytes.bytes().all(|byte| !byte.is_ascii() || set[usize::from(byte)]);
    if may(path, &PATH_BYTES) && may(query, &QUERY_BYTES) { NOT_ENCODED } else { FORBIDDEN }
}

/// A target whose only fault is text beyond ASCII, which [`encode_text`] mends.
pub const NOT_ENCODED: Reject = bad_request("target with text beyond ASCII that is not encoded");

/// Encodes text beyond ASCII in the target of the request line that `bytes` have at `at`. Many clients send the UTF-8 of what a
/// user has typed, and other servers take it for the same text, encoded: so it is encoded where it arrives, once, and everything
/// (the rules for targets, routes, gates, caches, logs, applications) sees the encoded form.
pub fn encode_text(bytes: &mut Vec<u8>, at: usize) {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let Some(line) = bytes.get(at..) else { return };
    // Empty lines may come before it.
    let start = at + line.iter().take_while(|byte| is_end(byte)).count();
    let line = bytes.get(start..).unwrap_or_default();
    let end = start + line.iter().position(is_end).unwrap_or(line.len());
    let mut encoded = Vec::with_capacity(end - start + 64);
    encode_beyond_ascii(bytes.get(start..end).unwrap_or_default(), &mut encoded);
    bytes.splice(start..end, encoded);
}

/// Appends bytes, those beyond ASCII encoded.
pub(crate) fn encode_beyond_ascii(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        match byte.is_ascii() {
            true => out.push(*byte),
            false => out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
    }
}

const FORBIDDEN: Reject = bad_request("target with a fragment, a backslash, or other bytes that no URI has");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{HeadLimits, field_room, parse};

    #[test]
    fn the_absolute_form_says_what_the_origin_form_says() {
        let limits = HeadLimits {
            head_bytes_max: 1024,
            header_count_max: 8,
            target_bytes_max: 512,
            body_bytes_max: 0,
        };
        for (line, expected) in [
            ("GET /a?b", "/a?b"),
            ("GET http://a.example/a?b", "/a?b"),
            ("GET HTTPS://a.example:81/a?http://b/c", "/a?http://b/c"),
            ("GET /a://b/c", "/a://b/c"),
            ("GET http://a.example", "/"),
            ("GET http://a.example?b=/c", "/?b=/c"),
            ("OPTIONS http://a.example", "*"),
            ("OPTIONS http://a.example?b", "/?b"),
            ("OPTIONS *", "*"),
            ("CONNECT a.example:443", ""),
        ] {
            let head = format!("{line} HTTP/1.1\r\nHost: a.example\r\n\r\n");
            let mut room = field_room();
            let (request, _) = parse(head.as_bytes(), &mut room, &limits).unwrap().unwrap();
            assert_eq!(request.origin_form(), expected, "{line}");
            let own = if request.path == "*" || request.path.is_empty() {
                request.path.to_owned()
            } else {
                request.path.to_owned() + &request.query.map_or(String::new(), |query| format!("?{query}"))
            };
            assert_eq!(own, expected, "{line}");
        }
    }

    #[test]
    fn text_beyond_ascii_is_told_from_what_no_target_may_hold() {
        let limits = HeadLimits {
            head_bytes_max: 1024,
            header_count_max: 8,
            target_bytes_max: 512,
            body_bytes_max: 0,
        };
        let refusal = |bytes: &[u8]| {
            let mut room = field_room();
            parse(bytes, &mut room, &limits).map(|found| found.map(|(request, _)| request.target.to_owned()))
        };
        for (target, encoded) in [
            ("/caf\u{e9}", "/caf%C3%A9"),
            ("/a?q=\u{65e5}&b=|", "/a?q=%E6%97%A5&b=|"),
            ("http://a.example/\u{e4}?\u{f6}", "http://a.example/%C3%A4?%C3%B6"),
            ("/%C3\u{a9}", "/%C3%C2%A9"),
        ] {
            let mut bytes = format!(
                "GET / HTTP/1.1\r\n\r\n\r\nGET {target} HTTP/1.1\r\nHost: a\r\nX: \u{e9}\r\n\r\nrest"
            );
            let at = bytes.find("\r\n\r\nGET").unwrap() + 2;
            assert_eq!(refusal(&bytes.as_bytes()[at..]), Err(NOT_ENCODED), "{target}");
            let mut raw = std::mem::take(&mut bytes).into_bytes();
            encode_text(&mut raw, at);
            assert_eq!(refusal(&raw[at..]), Ok(Some(encoded.to_owned())), "{target}");
            assert!(
                raw.starts_with(b"GET / HTTP/1.1\r\n") && raw.ends_with("X: \u{e9}\r\n\r\nrest".as_bytes())
            );
        }
        for target in ["/\u{e9}#a", "/\u{e9}\\a", "/\u{e9}<a>", "/a?\u{e9}#", "http://\u{e9}/"] {
            let found = refusal(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            assert!(found.is_err_and(|reject| reject != NOT_ENCODED), "{target}");
        }
        // What is no text is no target.
        let found = refusal(b"GET /\xe9 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(found.is_err_and(|reject| reject.status == 400 && reject != NOT_ENCODED));
    }
}
