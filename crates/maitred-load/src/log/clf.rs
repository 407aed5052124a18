//! Common Log Format, and Combined, which adds two quoted fields:
//! `client ident user [time] "request" status bytes "referer" "user agent"`.
//! (Apache HTTP Server documentation, "Log Files".)

use std::borrow::Cow;

use memchr::{memchr, memchr2, memmem};

use super::{Entry, Malformed, RequestLine, time};

pub(super) fn parse(line: &[u8]) -> Result<Entry<'_>, Malformed> {
    let (client, rest) =
        split(line, b' ').filter(|(client, _)| !client.is_empty()).ok_or(Malformed::Client)?;
    let at = memmem::find(rest, b" [").ok_or(Malformed::Time)?;
    let (stamp, rest) = split(rest.get(at + 2..).unwrap_or_default(), b']').ok_or(Malformed::Time)?;
    let time_us = time::clf(stamp).ok_or(Malformed::Time)?;
    let (request, rest) = quoted(rest.strip_prefix(b" ").unwrap_or(rest)).ok_or(Malformed::Request)?;
    let rest = rest.strip_prefix(b" ").ok_or(Malformed::Status)?;
    let (status, rest) = split(rest, b' ').ok_or(Malformed::Status)?;
    let status = time::number(status).and_then(|number| u16::try_from(number).ok());
    let status = status.filter(|status| (100..1000).contains(status)).ok_or(Malformed::Status)?;
    let (length, rest) = split(rest, b' ').unwrap_or((rest, b""));
    let body_bytes = match length {
        b"-" => None,
        digits => Some(time::number(digits).ok_or(Malformed::Length)?),
    };
    let (referer, rest) = quoted(rest).unwrap_or_default();
    let (user_agent, _) = quoted(rest.strip_prefix(b" ").unwrap_or(rest)).unwrap_or_default();
    Ok(Entry {
        client: Cow::Borrowed(client),
        time_us,
        is_precise: false,
        request: request_line(request),
        status,
        body_bytes,
        referer: present(referer),
        user_agent: present(user_agent),
        host: None,
    })
}

fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let position = memchr(at, bytes)?;
    Some((bytes.get(..position)?, bytes.get(position + 1..)?))
}

fn present(field: Cow<'_, [u8]>) -> Option<Cow<'_, [u8]>> {
    Some(field).filter(|field| !field.is_empty() && **field != *b"-")
}

/// What stands between double quotes, its escapes undone, and what follows. A last field that is not closed (the line was
/// cut) is taken as it is.
fn quoted(bytes: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let rest = bytes.strip_prefix(b"\"")?;
    match memchr2(b'"', b'\\', rest) {
        None => Some((Cow::Borrowed(rest), b"")),
        Some(end) if rest.get(end) == Some(&b'"') => {
            Some((Cow::Borrowed(rest.get(..end)?), rest.get(end + 1..)?))
        }
        Some(_) => Some(unescaped(rest)),
    }
}

/// Undoes `\"`, `\\`, `\n`, `\t`, `\r` and `\xHH`, as httpd, nginx and Maitred write them, up to the closing quote.
fn unescaped(bytes: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    loop {
        rest = match rest {
            [] => break,
            [b'"', after @ ..] => {
                rest = after;
                break;
            }
            [b'\\', b'x' | b'X', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                text.push(hex(*high) << 4 | hex(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                text.push(match escaped {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'v' => 0x0b,
                    b'b' => 0x08,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                text.push(*byte);
                after
            }
        };
    }
    (Cow::Owned(text), rest)
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20).wrapping_sub(b'a').wrapping_add(10) & 15,
    }
}

/// `GET /path HTTP/1.1`. A request of HTTP/0.9 has no version. A target with spaces stays whole.
fn request_line(request: Cow<'_, [u8]>) -> Option<RequestLine<'_>> {
    let (method_end, target_end) = {
        let bytes: &[u8] = &request;
        let method_end = memchr(b' ', bytes)?;
        let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        let method = bytes.get(..method_end)?;
        if method.is_empty() || !method.iter().all(is_token) {
            return None;
        }
        let last_space = memchr::memrchr(b' ', bytes)?;
        let has_version = bytes.get(last_space + 1..)?.starts_with(b"HTTP/") && last_space > method_end;
        (method_end, if has_version { last_space } else { bytes.len() })
    };
    if target_end <= method_end + 1 {
        return None;
    }
    Some(match request {
        Cow::Borrowed(bytes) => RequestLine {
            method: Cow::Borrowed(bytes.get(..method_end)?),
            target: Cow::Borrowed(bytes.get(method_end + 1..target_end)?),
        },
        Cow::Owned(bytes) => RequestLine {
            method: Cow::Owned(bytes.get(..method_end)?.to_vec()),
            target: Cow::Owned(bytes.get(method_end + 1..target_end)?.to_vec()),
        },
    })
}
