//! What an unsafe request makes invalid (9111-4.4), and which groups (9875-3).

use super::Target;
use super::tags::for_each_group;
use crate::request::Method;
use crate::response::ResponseHead;

/// Whether a response to this method makes stored responses invalid: the method is not known to be safe (9110-9.2.1), and the
/// response is no error.
pub fn invalidates(method: Method, status: u16) -> bool {
    let safe =
        matches!(method, Method::Get | Method::Head | Method::Options | Method::Trace | Method::Connect);
    !safe && (200..400).contains(&status)
}

/// Gives what such a response makes invalid: the target itself, and what `Location` and `Content-Location` name, if it has the
/// same origin. A target may be given twice.
pub fn for_each_invalidated(target: &Target<'_>, head: &ResponseHead<'_>, mut each: impl FnMut(&Target<'_>)) {
    each(target);
    head.for_each(|name, value| {
        if name.eq_ignore_ascii_case(b"location") || name.eq_ignore_ascii_case(b"content-location") {
            resolve(target, value, &mut each);
        }
    });
}

/// Whether a response names its own target in `Content-Location`: it is then what a GET would get (9110-8.7), and a response to
/// POST may be stored as one ([`Wanted::as_get`](super::Wanted::as_get)). Paths are compared as the cache's keys are, without
/// rules.
pub fn names_itself(target: &Target<'_>, head: &ResponseHead<'_>) -> bool {
    let key = |target: &Target<'_>| {
        let mut key = Vec::new();
        super::key::put_target(target, &mut key);
        key
    };
    let (own, mut lines, mut same) = (key(target), 0, false);
    head.for_each(|name, value| {
        if name.eq_ignore_ascii_case(b"content-location") {
            lines += 1;
            resolve(target, value, &mut |named: &Target<'_>| same |= key(named) == own);
        }
    });
    same && lines == 1
}

/// Gives what a reference names (RFC 3986 section 5.2), if that has the origin of the target.
fn resolve(base: &Target<'_>, reference: &[u8], each: &mut impl FnMut(&Target<'_>)) {
    let Ok(reference) = std::str::from_utf8(reference) else { return };
    let reference = reference.trim_ascii().split('#').next().unwrap_or_default();
    let (scheme, rest) = split_scheme(reference);
    if scheme.is_some_and(|scheme| !scheme.eq_ignore_ascii_case(base.scheme)) {
        return;
    }
    let (authority, rest) = match rest.strip_prefix("//") {
        Some(rest) => {
            let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            (Some(authority), rest)
        }
        // A scheme without an authority is no URI of HTTP.
        None if scheme.is_some() => return,
        None => (None, rest),
    };
    let same_host = |authority| super::key::same_authority(base.scheme, authority, base.authority);
    if authority.is_some_and(|authority| !same_host(authority)) {
        return;
    }
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (rest, None),
    };
    if path.starts_with('/') {
        each(&Target { path, query, ..*base });
    } else if authority.is_some() {
        each(&Target { path: "/", query, ..*base });
    } else if path.is_empty() {
        each(&Target { query: query.or(base.query), ..*base });
    } else {
        let directory = base.path.rfind('/').and_then(|slash| base.path.get(..=slash)).unwrap_or("/");
        // Keys are of canonical paths, where dot segments are gone.
        let path = [directory, path].concat();
        each(&Target { path: &path, query, ..*base });
    }
}

/// The scheme that a reference begins with, and what is behind its colon.
fn split_scheme(reference: &str) -> (Option<&str>, &str) {
    match reference.split_once(':') {
        Some((scheme, rest))
            if scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) =>
        {
            (Some(scheme), rest)
        }
        _ => (None, reference),
    }
}

/// Gives the groups that such a response makes invalid (`Cache-Group-Invalidation`, 9875-3): those of responses of the same
/// origin. At most [`TAGS_MAX`](super::TAGS_MAX) of them, each at most [`TAG_BYTES_MAX`](super::TAG_BYTES_MAX) long; the rest is
/// ignored, and a line that is no list of strings is.
pub fn for_each_invalidated_group(head: &ResponseHead<'_>, mut each: impl FnMut(&[u8])) {
    for_each_group(head, b"cache-group-invalidation", &mut each);
}
