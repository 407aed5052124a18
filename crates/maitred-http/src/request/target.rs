//! The request target (9112-3.2): its four forms, and the bytes that none of them may hold.

use super::{Method, Reject, bad_request, host};
use crate::bytes::{ByteSet, byte_set};

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
    let (path, query) = target.split_once('?').filter(|(path, _)| path.len() == at).ok_or(FORBIDDEN)?;
    if query.bytes().all(|byte| QUERY_BYTES[usize::from(byte)]) {
        Ok((path, Some(query)))
    } else {
        Err(FORBIDDEN)
    }
}

const FORBIDDEN: Reject = bad_request("target with a fragment, a backslash, or other bytes that no URI has");
