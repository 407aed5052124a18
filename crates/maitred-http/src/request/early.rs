//! What can be said about a head that is incomplete, or that the parser refused.
//!
//! Everything here depends only on the bytes up to the first offence, so that the answer is the same however
//! the bytes arrive.

use super::{HeadLimits, Reject, bad_request, is_token_byte};
use crate::limits::METHOD_BYTES_MAX;

/// Why a head that `httparse` refused is refused.
#[cold]
pub(super) fn refusal(window: &[u8], error: httparse::Error, limits: &HeadLimits) -> Reject {
    if let Err(reject) = over_bounds(window, limits) {
        return reject;
    }
    match error {
        httparse::Error::TooManyHeaders => TOO_MANY_FIELDS,
        httparse::Error::Version => version(window),
        httparse::Error::HeaderName => bad_request("invalid byte in a field name, or a folded line"),
        httparse::Error::HeaderValue => INVALID_VALUE,
        httparse::Error::NewLine => bad_request("invalid line end"),
        httparse::Error::Status | httparse::Error::Token => bad_request("invalid request line"),
    }
}

/// Refuses a request line whose method or target is over its bound so far.
#[cold]
pub(super) fn over_bounds(window: &[u8], limits: &HeadLimits) -> Result<(), Reject> {
    let (method, rest) = split_at_space(window);
    if method.len() > METHOD_BYTES_MAX && method.iter().take(METHOD_BYTES_MAX + 1).all(is_token_byte) {
        return Err(METHOD_TOO_LONG);
    }
    if method.is_empty() || !method.iter().all(is_token_byte) {
        // Then that is the first offence.
        return Ok(());
    }
    let target_bytes = rest.iter().take_while(|byte| matches!(byte, b'!'..=b'~' | 0x80..)).count();
    if target_bytes > limits.target_bytes_max {
        return Err(TARGET_TOO_LONG);
    }
    Ok(())
}

/// A method longer than any that is known (9110-9.1).
pub(super) const METHOD_TOO_LONG: Reject = Reject { status: 501, reason: "method too long" };
/// More than `header_count_max`.
pub(super) const TOO_MANY_FIELDS: Reject = Reject { status: 431, reason: "too many header fields" };
/// A control character besides HTAB (9110-5.5).
pub(super) const INVALID_VALUE: Reject = bad_request("invalid byte in a field value");
/// 9110-15.5.15
pub(super) const TARGET_TOO_LONG: Reject = Reject { status: 414, reason: "target too long" };

fn version(window: &[u8]) -> Reject {
    let (_, rest) = split_at_space(window);
    let (_, version) = split_at_space(rest);
    match version {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor, ..] if minor.is_ascii_digit() => {
            Reject { status: 505, reason: "HTTP/1 beyond version 1.1" }
        }
        [b'H', b'T', b'T', b'P', b'/', b'2'..=b'9', ..] => {
            Reject { status: 505, reason: "HTTP version other than 1.0 and 1.1" }
        }
        _ => bad_request("invalid HTTP version"),
    }
}

fn split_at_space(bytes: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b' ', bytes) {
        Some(at) => (bytes.get(..at).unwrap_or_default(), bytes.get(at + 1..).unwrap_or_default()),
        None => (bytes, &[]),
    }
}
