//! `Cache-Status` (9211): what the caches on the way have done.

use crate::request::is_token_byte;

/// What the cache has done with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The request was answered without the server (`hit`).
    Hit,
    /// The request went to the server (`fwd`).
    Fwd(Fwd),
}

/// Why a request went to the server (9211-2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fwd {
    /// The cache was not to handle it.
    Bypass,
    /// The request's method.
    Method,
    /// Nothing was stored for its key.
    UriMiss,
    /// Something was, but no variant for it.
    VaryMiss,
    /// Nothing was stored for it; which of the two is not known.
    Miss,
    /// The response was fresh, and the client did not want it.
    Request,
    /// The response was stale.
    Stale,
    /// Only a part was stored.
    Partial,
}

impl Fwd {
    fn text(self) -> &'static str {
        match self {
            Fwd::Bypass => "bypass",
            Fwd::Method => "method",
            Fwd::UriMiss => "uri-miss",
            Fwd::VaryMiss => "vary-miss",
            Fwd::Miss => "miss",
            Fwd::Request => "request",
            Fwd::Stale => "stale",
            Fwd::Partial => "partial",
        }
    }
}

/// The member of one cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStatus<'a> {
    /// The name of the cache.
    pub cache: &'a str,
    /// What it has done.
    pub outcome: Outcome,
    /// The status of the server's response, if it is not that of the response itself: 304 where a stored one was validated.
    pub fwd_status: Option<u16>,
    /// How many seconds the response is fresh from now on; negative if it is stale.
    pub ttl: Option<i64>,
    /// The server's response was stored.
    pub stored: bool,
    /// The request has waited for that of another client.
    pub collapsed: bool,
    /// Anything else, such as why it was not stored.
    pub detail: Option<&'a str>,
}

/// Appends the value of `Cache-Status`: the members of caches nearer to the server, which are the lines that the response has,
/// and behind them the member of this one (9211-2).
pub fn put_cache_status<'l>(
    lines: impl IntoIterator<Item = &'l [u8]>,
    status: &CacheStatus<'_>,
    out: &mut Vec<u8>,
) {
    for line in lines.into_iter().map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
        out.extend_from_slice(line);
        out.extend_from_slice(b", ");
    }
    put_text(status.cache, out);
    match status.outcome {
        Outcome::Hit => out.extend_from_slice(b"; hit"),
        Outcome::Fwd(fwd) => {
            out.extend_from_slice(b"; fwd=");
            out.extend_from_slice(fwd.text().as_bytes());
        }
    }
    if let Some(fwd_status) = status.fwd_status {
        put_number(b"; fwd-status=", i64::from(fwd_status), out);
    }
    if let Some(ttl) = status.ttl {
        put_number(b"; ttl=", ttl, out);
    }
    for (name, is) in [(&b"; stored"[..], status.stored), (b"; collapsed", status.collapsed)] {
        out.extend_from_slice(if is { name } else { b"" });
    }
    if let Some(detail) = status.detail {
        out.extend_from_slice(b"; detail=");
        put_text(detail, out);
    }
}

fn put_number(name: &[u8], value: i64, out: &mut Vec<u8>) {
    // The most digits that an integer of structured fields has (9651-3.3.1).
    const MOST: i64 = 999_999_999_999_999;
    out.extend_from_slice(name);
    out.extend_from_slice(itoa::Buffer::new().format(value.clamp(-MOST, MOST)).as_bytes());
}

/// As a token if it is one, and otherwise as a string, in which what is no ASCII is a question mark.
fn put_text(text: &str, out: &mut Vec<u8>) {
    let starts = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '*');
    if starts && text.bytes().all(|byte| is_token_byte(&byte) || matches!(byte, b':' | b'/')) {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend_from_slice(&[b'\\', letter as u8]),
            ' '..='~' => out.push(letter as u8),
            _ => out.push(b'?'),
        }
    }
    out.push(b'"');
}
