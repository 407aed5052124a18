//! Paths of request targets (RFC 3986): normalised once, and encoded again for `Location` and listings.

use std::borrow::Cow;

use crate::request::Reject;

/// Decodes and normalises the path of a target, so that equal resources have equal bytes: percent-encoded
/// bytes are decoded, repeated slashes merged, and then dot segments removed (RFC 3986 section 5.2.4). The
/// result starts with `/`, holds no empty, `.` or `..` segment and no NUL; a slash at the end stays.
///
/// An encoded slash (`%2F`) is decoded *first* and is then a slash like any other: no dot segment can hide
/// behind it, and routes and files see the same path as an application that decodes for itself. The price is
/// that no segment can hold a slash, which no file name can either. Decoding happens once: `%252e` is the
/// three characters `%2e`.
///
/// # Errors
///
/// 400 for a path that does not start with `/`, for `%` without two hexadecimal digits, for `%00`, and for
/// `..` above the root.
///
/// ```
/// assert_eq!(&*maitred_http::uri::normalise("/a/./b%2F..//c%20d").unwrap(), b"/a/c d");
/// assert!(maitred_http::uri::normalise("/a/..%2F..").is_err());
/// ```
#[inline]
pub fn normalise(path: &str) -> Result<Cow<'_, [u8]>, Reject> {
    if is_normal(path.as_bytes()) {
        Ok(Cow::Borrowed(path.as_bytes()))
    } else {
        rewrite(path.as_bytes()).map(Cow::Owned)
    }
}

/// Whether nothing needs to change; `false` for a few paths that need no change, such as `/.well-known/`.
#[inline]
fn is_normal(path: &[u8]) -> bool {
    // A slash that is followed by a slash or a dot, and a first byte other than a slash, are what to look
    // for.
    let mut after_slash = false;
    for byte in path {
        match byte {
            b'%' | 0 => return false,
            b'/' | b'.' if after_slash => return false,
            byte => after_slash = *byte == b'/',
        }
    }
    path.first() == Some(&b'/')
}

fn rewrite(path: &[u8]) -> Result<Vec<u8>, Reject> {
    if path.first() != Some(&b'/') {
        return Err(bad_path("path does not start with a slash"));
    }
    let decoded = decode(path)?;
    let mut normal = Vec::with_capacity(decoded.len());
    let mut segments = decoded.split(|byte| *byte == b'/').skip(1).peekable();
    normal.push(b'/');
    // Here `normal` always ends in a slash.
    while let Some(segment) = segments.next() {
        match segment {
            b"" | b"." => {}
            b".." => remove_last_segment(&mut normal)?,
            name => {
                normal.extend_from_slice(name);
                if segments.peek().is_some() {
                    normal.push(b'/');
                }
            }
        }
    }
    Ok(normal)
}

fn remove_last_segment(normal: &mut Vec<u8>) -> Result<(), Reject> {
    let without_slash = normal.len().saturating_sub(1);
    let parent = normal.get(..without_slash).and_then(|inner| memchr::memrchr(b'/', inner));
    let Some(slash) = parent else {
        return Err(bad_path("path leads above the root"));
    };
    normal.truncate(slash + 1);
    Ok(())
}

fn decode(path: &[u8]) -> Result<Vec<u8>, Reject> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    loop {
        let byte = match rest {
            [] => return Ok(decoded),
            [b'%', after @ ..] => {
                let [high, low, after @ ..] = after else { return Err(BAD_ENCODING) };
                rest = after;
                hex_digit(*high).ok_or(BAD_ENCODING)? << 4 | hex_digit(*low).ok_or(BAD_ENCODING)?
            }
            [byte, after @ ..] => {
                rest = after;
                *byte
            }
        };
        if byte == 0 {
            return Err(bad_path("path holds NUL"));
        }
        decoded.push(byte);
    }
}

const BAD_ENCODING: Reject = bad_path("percent sign without two hexadecimal digits in the path");

const fn bad_path(reason: &'static str) -> Reject {
    Reject { status: 400, reason }
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Appends `path` with everything percent-encoded that may not stand for itself in a path: all but `/` and
/// `pchar` without `&`, `'` and `;`, so that the result can also stand in HTML and in field values.
pub fn encode_path(path: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in path {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => out.push(*byte),
            b'/' | b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'(' | b')' | b'*' | b'+' | b',' | b'='
            | b':' | b'@' => {
                out.push(*byte);
            }
            _ => out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
    }
}

#[cfg(test)]
mod tests;
