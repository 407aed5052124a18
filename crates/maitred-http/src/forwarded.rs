//! The client's address as proxies report it: `Forwarded` (RFC 7239) and `X-Forwarded-For`, which means the same by common
//! practice and has no standard.
//!
//! Both fields list the hops of a request, the client first; each proxy adds the address of *its* peer. A list is worth as much
//! as the hops that wrote its parts, so that it is read from its end: see [`walk`].

use std::net::IpAddr;

/// One hop of a request, as the proxy behind it saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop<'a> {
    /// The hop's address; an IPv4 address in IPv6 form is given as what it is.
    pub address: IpAddr,
    /// The hop's port; 0 if that is not said.
    pub port: u16,
    /// Protocol that the hop used (`proto` of RFC 7239 section 5.4), as sent.
    pub proto: Option<&'a [u8]>,
}

/// The client, given the hops in the order in which they are written; `None` stands for one without an address (`unknown`,
/// an obfuscated name, anything malformed).
///
/// The client is the last hop that is not trusted, because everything before it is what that one claims. If all are trusted,
/// the client is the first. Behind a hop without an address the rest cannot be trusted, so that the search never goes past one.
/// `None` if there is no such hop; then the connection's peer is the client.
pub fn walk<'a>(
    hops: impl IntoIterator<Item = Option<Hop<'a>>>,
    trusted: impl Fn(IpAddr) -> bool,
) -> Option<Hop<'a>> {
    let (mut first, mut stranger) = (None, None);
    for hop in hops {
        match hop {
            None => (first, stranger) = (None, None),
            Some(hop) => {
                first = first.or(Some(hop));
                if !trusted(hop.address) {
                    stranger = Some(hop);
                }
            }
        }
    }
    stranger.or(first)
}

/// The hops of one `X-Forwarded-For` field.
pub fn x_forwarded_for(value: &[u8]) -> impl Iterator<Item = Option<Hop<'_>>> {
    let items = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    items.filter(|item| !item.is_empty()).map(|item| hop(item, None))
}

/// The hops of one `Forwarded` field. Where the syntax of section 4 is left, one hop without an address ends the list.
pub fn forwarded(value: &[u8]) -> Elements<'_> {
    Elements { rest: Some(value) }
}

/// Hops of a `Forwarded` field; made by [`forwarded`].
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    /// What was not looked at; `None` at the end.
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Option<Hop<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.rest?.trim_ascii_start();
            // Empty elements of a list are skipped (9110-5.6.1).
            match rest.first() {
                None => self.rest = None,
                Some(b',') => self.rest = rest.get(1..),
                Some(_) => return Some(self.element(rest)),
            }
        }
    }
}

impl<'a> Elements<'a> {
    fn element(&mut self, mut rest: &'a [u8]) -> Option<Hop<'a>> {
        let (mut node, mut proto) = (None, None);
        loop {
            let Some((name, value, after)) = pair(rest) else {
                self.rest = None;
                return None;
            };
            if name.eq_ignore_ascii_case(b"for") {
                node = Some(value);
            } else if name.eq_ignore_ascii_case(b"proto") {
                proto = Some(value);
            }
            let after = after.trim_ascii_start();
            match after.split_first() {
                None => self.rest = None,
                Some((b',', next)) => self.rest = Some(next),
                Some((b';', next)) => {
                    rest = next.trim_ascii_start();
                    continue;
                }
                Some(_) => {
                    self.rest = None;
                    return None;
                }
            }
            return hop(node?, proto);
        }
    }
}

/// `name=value` at the start of `rest`, the value without its quotes, and what follows.
fn pair(rest: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let equals = rest.iter().position(|byte| *byte == b'=')?;
    let (name, rest) = (rest.get(..equals)?, rest.get(equals + 1..)?);
    if name.is_empty() || !name.iter().all(crate::request::is_token_byte) {
        return None;
    }
    if let Some(quoted) = rest.strip_prefix(b"\"") {
        let end = quoted.iter().position(|byte| *byte == b'"')?;
        let value = quoted.get(..end)?;
        // No address and no scheme has a quoted-pair (9110-5.6.4) in it, so that one that has is taken for malformed.
        return (!value.contains(&b'\\')).then_some((name, value, quoted.get(end + 1..)?));
    }
    // Colons and brackets belong into quotes, but not all proxies know that.
    let plain = |byte: &u8| crate::request::is_token_byte(byte) || matches!(byte, b':' | b'[' | b']');
    let end = rest.iter().position(|byte| !plain(byte)).unwrap_or(rest.len());
    (end > 0).then_some((name, rest.get(..end)?, rest.get(end..)?))
}

/// `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]`, `[2001:db8::1]:80`, and without brackets for `X-Forwarded-For`. A port
/// may be obfuscated (section 6.3), and is then none.
fn hop<'a>(node: &[u8], proto: Option<&'a [u8]>) -> Option<Hop<'a>> {
    let text = std::str::from_utf8(node).ok()?;
    let (address, port) = match text.strip_prefix('[') {
        Some(literal) => {
            let (literal, after) = literal.split_once(']')?;
            let port = if after.is_empty() { None } else { Some(after.strip_prefix(':')?) };
            (IpAddr::V6(literal.parse().ok()?), port)
        }
        None => match text.parse() {
            Ok(address) => (address, None),
            Err(_) => {
                let (address, port) = text.split_once(':')?;
                (IpAddr::V4(address.parse().ok()?), Some(port))
            }
        },
    };
    Some(Hop { address: address.to_canonical(), port: port_of(port)?, proto })
}

fn port_of(text: Option<&str>) -> Option<u16> {
    match text {
        None => Some(0),
        Some(text) if text.starts_with('_') => Some(0),
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        Some(_) => None,
    }
}

/// Appends an element of `Forwarded`: a hop, by its address as text, and what it asked for. Nothing is said of an empty `host`.
pub fn append_element(out: &mut Vec<u8>, address: &[u8], host: &str, proto: &str) {
    append_hop(out, address);
    if !host.is_empty() {
        out.extend_from_slice(b";host=");
        append_value(out, host);
    }
    out.extend_from_slice(b";proto=");
    append_value(out, proto);
}

/// Appends the part of an element that names a hop: `for=192.0.2.1`, `for="[2001:db8::1]"`.
pub fn append_hop(out: &mut Vec<u8>, address: &[u8]) {
    let (before, behind): (&[u8], &[u8]) = match address.contains(&b':') {
        true => (b"for=\"[", b"]\""),
        false => (b"for=", b""),
    };
    for part in [before, address, behind] {
        out.extend_from_slice(part);
    }
}

/// A token as it is, anything else as a quoted string (9110-5.6.4).
fn append_value(out: &mut Vec<u8>, value: &str) {
    let value = value.as_bytes();
    if !value.is_empty() && value.iter().all(crate::request::is_token_byte) {
        return out.extend_from_slice(value);
    }
    let is_escaped = |byte: &u8| matches!(byte, b'"' | b'\\');
    out.push(b'"');
    match memchr::memchr2(b'"', b'\\', value) {
        // A host with a port, or an address in brackets.
        None => out.extend_from_slice(value),
        Some(_) => value.iter().for_each(|byte| {
            out.extend(is_escaped(byte).then_some(b'\\'));
            out.push(*byte);
        }),
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;
