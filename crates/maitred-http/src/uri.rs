//! Paths of request targets (RFC 3986): normalised once, and encoded again for `Location` and listings.

use std::borrow::Cow;

use crate::bytes::{ByteSet, byte_set};
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

/// Whether [`normalise`] need not change a path; `false` for a few that it does not change, such as `/.well-known/`.
#[inline]
pub fn is_normal(path: &[u8]) -> bool {
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
    resolve(&decode(path)?)
}

/// Merges slashes, and removes dot segments.
fn resolve(decoded: &[u8]) -> Result<Vec<u8>, Reject> {
    let mut normal = Vec::with_capacity(decoded.len());
    let mut segments = decoded.split(|byte| *byte == b'/').skip(1).peekable();
    normal.push(b'/');
    // `normal` always ends in a slash.
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

/// What an encoded slash (`%2F`) in a path is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Slashes {
    /// A slash like any other, for routes, files and applications.
    #[default]
    Decode,
    /// A slash for routes and files, and encoded for applications, of whose segment it is a part.
    Keep,
    /// 400, as is an encoded backslash.
    Reject,
}

/// [`normalise`] for a server that looks at some paths more closely. `parameters`: a segment may have parameters, which begin
/// with `;`; an application may take what stands before them for the whole segment.
///
/// # Errors
///
/// The errors of [`normalise`], and 400 for what is not wanted. With [`Slashes::Keep`] a `.` or `..` is not wanted in a path
/// with an encoded slash: it would lead routes to another place than an application that does not decode the slash.
#[inline]
pub fn judge(path: &str, slashes: Slashes, parameters: bool) -> Result<Cow<'_, [u8]>, Reject> {
    let normal = normalise(path)?;
    if !parameters && path.contains(';') {
        return Err(bad_path("path with parameters"));
    }
    if slashes != Slashes::Decode && path.contains('%') {
        judge_slashes(path.as_bytes(), slashes)?;
    }
    Ok(normal)
}

#[cold]
fn judge_slashes(path: &[u8], slashes: Slashes) -> Result<(), Reject> {
    let encoded = |code: &[u8]| path.windows(3).any(|window| window.eq_ignore_ascii_case(code));
    if slashes == Slashes::Reject && (encoded(b"%2f") || encoded(b"%5c")) {
        return Err(bad_path("path with an encoded slash"));
    }
    let is_dots = |segment: &[u8]| matches!(segment, b"." | b"..");
    if encoded(b"%2f") && decode(path)?.split(|byte| *byte == b'/').any(is_dots) {
        return Err(bad_path("dot segment and encoded slash in one path"));
    }
    Ok(())
}

/// Bytes of a path in its canonical form, besides encoded ones: `/` and `pchar` (RFC 3986 section 3.3).
static CANONICAL_PATH: ByteSet =
    byte_set(&[(b'a', b'z'), (b'@', b'Z'), (b'0', b'9'), (b'&', b'/')], b"-._~!$:;=");
/// Bytes of a query in its canonical form, `%` among them: RFC 3986 section 3.4, and brackets, which many forms have.
static CANONICAL_QUERY: ByteSet =
    byte_set(&[(b'a', b'z'), (b'?', b'['), (b'0', b'9'), (b'$', b'/')], b"]_~!:;=");

/// Whether a path that [`normalise`] leaves as it is, and its query, have the form in which applications get them.
#[inline]
pub fn is_canonical(path: &str, query: Option<&str>) -> bool {
    path.bytes().all(|byte| CANONICAL_PATH[usize::from(byte)])
        && query.is_none_or(|query| query.bytes().all(|byte| CANONICAL_QUERY[usize::from(byte)]))
}

/// Appends the one form of a path that an application gets, whatever form the client has chosen (RFC 3986 section 6.2.2):
/// slashes merged, dot segments removed, unreserved bytes as they are, other encoded bytes with capital digits, and bytes
/// encoded that no URI has. A reserved byte stays encoded or not, which are two paths; but for a slash, with [`Slashes::Decode`].
///
/// # Errors
///
/// The errors of [`normalise`].
pub fn canonical_path(path: &str, slashes: Slashes, out: &mut Vec<u8>) -> Result<(), Reject> {
    let mut text = Vec::with_capacity(path.len() + 16);
    let mut rest = path.as_bytes();
    loop {
        rest = match rest {
            [] => break,
            [b'%', high, low, after @ ..] => {
                let digits = hex_digit(*high).zip(hex_digit(*low)).ok_or(BAD_ENCODING)?;
                match digits.0 << 4 | digits.1 {
                    b'/' if slashes == Slashes::Decode => text.push(b'/'),
                    byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => text.push(byte),
                    byte => push_encoded(byte, &mut text),
                }
                after
            }
            [b'%', ..] => return Err(BAD_ENCODING),
            [byte, after @ ..] => {
                push_canonical(*byte, &CANONICAL_PATH, &mut text);
                after
            }
        };
    }
    out.extend_from_slice(&resolve(&text)?);
    Ok(())
}

/// Appends a query in the same way: what no URI has is encoded, and nothing is decoded, since its parts are the application's.
pub fn canonical_query(query: &str, out: &mut Vec<u8>) {
    query.bytes().for_each(|byte| push_canonical(byte, &CANONICAL_QUERY, out));
}

/// A target in origin form as a URI reference: bytes that no URI has are encoded, and nothing else is changed.
pub fn encode_rest(target: &str) -> Cow<'_, str> {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let plain = |byte: u8| byte == b'%' || CANONICAL_PATH[usize::from(byte)];
    if path.bytes().all(plain)
        && query.is_none_or(|query| query.bytes().all(|byte| CANONICAL_QUERY[usize::from(byte)]))
    {
        return Cow::Borrowed(target);
    }
    let mut out = Vec::with_capacity(target.len() + 16);
    path.bytes().for_each(|byte| if plain(byte) { out.push(byte) } else { push_encoded(byte, &mut out) });
    if let Some(query) = query {
        out.push(b'?');
        canonical_query(query, &mut out);
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

fn push_canonical(byte: u8, plain: &ByteSet, out: &mut Vec<u8>) {
    if plain[usize::from(byte)] { out.push(byte) } else { push_encoded(byte, out) }
}

fn push_encoded(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

/// Appends a value that stands for itself anywhere in a URI: everything but unreserved characters (3986-2.3) is encoded.
pub fn encode_component(value: &[u8], out: &mut Vec<u8>) {
    for byte in value {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            _ => push_encoded(*byte, out),
        }
    }
}

/// Appends a value for one item of a query, whatever takes that apart: but for what a URI has in no other meaning there, all is
/// encoded. `+` would be a space, `&`, `;` and `=` ends of names and values, `#` that of the query.
pub fn encode_query(value: &[u8], out: &mut Vec<u8>) {
    for byte in value {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            b'/' | b':' | b'@' | b',' | b'!' | b'$' | b'(' | b')' | b'*' => out.push(*byte),
            _ => push_encoded(*byte, out),
        }
    }
}

/// Appends a value for a part of a field: what ends a field, a quoted text, or an item of a list (RFC 9110 section 5.6) is
/// encoded, and so is `%`.
pub fn encode_in_field(value: &[u8], out: &mut Vec<u8>) {
    for byte in value {
        match byte {
            b'%' | b'"' | b'\\' | b',' | b';' => push_encoded(*byte, out),
            b'!'..=b'~' => out.push(*byte),
            _ => push_encoded(*byte, out),
        }
    }
}

/// A name or a value of a query, decoded as forms are encoded: `+` is a space. What is no encoding stays as it is.
pub fn decode_parameter(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, after @ ..] = rest {
        let hex = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
        let encoded = match (first, after) {
            (b'%', [high, low, ..]) => hex(high).zip(hex(low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        out.push(encoded.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = after.get(if encoded.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    out
}

/// Appends `path` with everything percent-encoded that may not stand for itself in a path: all but `/` and
/// `pchar` without `&`, `'` and `;`, so that the result can also stand in HTML and in field values.
pub fn encode_path(path: &[u8], out: &mut Vec<u8>) {
    for byte in path {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => out.push(*byte),
            b'/' | b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'(' | b')' | b'*' | b'+' | b',' | b'='
            | b':' | b'@' => {
                out.push(*byte);
            }
            _ => push_encoded(*byte, out),
        }
    }
}

#[cfg(test)]
mod tests;
