//! `Host` and other authorities without user information: `uri-host [ ":" port ]` (9110-7.2, RFC 3986 section
//! 3.2.2).

use std::net::Ipv6Addr;

use super::{Reject, bad_request};
use crate::bytes::{ByteSet, byte_set};

const INVALID: Reject = bad_request("invalid host");

/// Bytes of a `reg-name` that stand for themselves: unreserved and sub-delims of RFC 3986.
static NAME_BYTES: ByteSet = byte_set(&[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')], b"-._~!$&'()*+,;=");

/// Accepts `uri-host [ ":" port ]`, and nothing at all: a client whose URI has no authority sends an empty
/// `Host`.
#[inline]
pub(super) fn judge(authority: &[u8]) -> Result<(), Reject> {
    match authority.iter().position(|byte| !NAME_BYTES[usize::from(*byte)]) {
        None => Ok(()),
        Some(0) => judge_literal(authority),
        Some(at) => judge_rest(authority.get(at..).unwrap_or_default()),
    }
}

/// Accepts `uri-host ":" port` with both present: the target of CONNECT (9112-3.2.3).
pub(super) fn judge_with_port(authority: &str) -> Result<(), Reject> {
    judge(authority.as_bytes())?;
    // In a valid authority the last colon outside of brackets is the one before the port.
    match authority.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !port.is_empty() && !port.ends_with(']') => Ok(()),
        _ => Err(bad_request("authority-form without host and port")),
    }
}

/// What follows the first byte that is not a plain one of a name: an encoded byte, or the port.
fn judge_rest(mut rest: &[u8]) -> Result<(), Reject> {
    loop {
        match rest {
            [] => return Ok(()),
            [b':', port @ ..] => return judge_port(port),
            [b'%', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest = after
            }
            [byte, after @ ..] if NAME_BYTES[usize::from(*byte)] => rest = after,
            _ => return Err(INVALID),
        }
    }
}

/// An authority whose first byte is not a plain one: an encoded byte, or `[` and an address.
fn judge_literal(authority: &[u8]) -> Result<(), Reject> {
    let Some(inner) = authority.strip_prefix(b"[") else {
        // A port without a host names nothing (9110-4.2.1).
        return if authority.starts_with(b":") { Err(INVALID) } else { judge_rest(authority) };
    };
    let end = memchr::memchr(b']', inner).ok_or(INVALID)?;
    let (address, rest) = inner.split_at(end);
    let address = std::str::from_utf8(address).map_err(|_| INVALID)?;
    // Addresses of a future version (IPvFuture) exist nowhere, and are refused.
    address.parse::<Ipv6Addr>().map_err(|_| INVALID)?;
    match rest {
        b"]" => Ok(()),
        [b']', b':', port @ ..] => judge_port(port),
        _ => Err(INVALID),
    }
}

fn judge_port(port: &[u8]) -> Result<(), Reject> {
    let value = port.iter().try_fold(0_u32, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
        Some(value * 10 + digit).filter(|value| *value <= u32::from(u16::MAX))
    });
    value.map(|_| ()).ok_or(bad_request("invalid port"))
}
