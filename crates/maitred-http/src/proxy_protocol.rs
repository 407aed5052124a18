//! The PROXY protocol, versions 1 and 2: what a proxy sends before anything else, to say whose connection it passes on
//! (`proxy-protocol.txt` of HAProxy, "The PROXY protocol, versions 1 & 2").
//!
//! [`write()`] makes headers for servers. Of one that has come, only the client's address is taken; the destination, and the TLVs
//! of version 2, are checked for their form or skipped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of the longest header of version 1, its line end included (section 2.1).
pub const V1_BYTES_MAX: usize = 107;

/// Bytes after the fixed part of a header of version 2, TLVs included. The format would allow 65,535; what proxies send
/// has a few hundred, with the details of a client's certificate.
pub const V2_PAYLOAD_BYTES_MAX: usize = 4096;

/// What every header of version 2 starts with (section 2.2).
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, command, family and length.
const V2_FIXED_BYTES: usize = 16;
const V1_START: &[u8] = b"PROXY ";

/// A header that may be acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The client's address. `None` if the proxy speaks for itself (`LOCAL`, a check of its health), or does not say:
    /// then the connection's own peer is the client.
    pub client: Option<SocketAddr>,
}

/// Why the bytes are no header; the connection is to be closed without an answer (section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bad(pub &'static str);

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Bad {}

/// The header that `bytes` start with, and how many bytes it has; `None` while it is incomplete. However the bytes
/// arrive, the first answer other than `None` is the one that all of them at once would have had.
///
/// # Errors
/// [`Bad`] for what is no header of either version, as early as that is certain.
pub fn parse(bytes: &[u8]) -> Result<Option<(Header, usize)>, Bad> {
    match bytes.first() {
        None => Ok(None),
        Some(b'P') => parse_v1(bytes),
        Some(_) => parse_v2(bytes),
    }
}

/// Whether `bytes` and `start` agree as far as both go.
fn agrees(bytes: &[u8], start: &[u8]) -> bool {
    bytes.iter().zip(start).all(|(byte, expected)| byte == expected)
}

/// `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n`
fn parse_v1(bytes: &[u8]) -> Result<Option<(Header, usize)>, Bad> {
    if !agrees(bytes, V1_START) {
        return Err(Bad("no PROXY header"));
    }
    let window = bytes.get(..V1_BYTES_MAX).unwrap_or(bytes);
    let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
        return match bytes.len() < V1_BYTES_MAX {
            true => Ok(None),
            false => Err(Bad("a PROXY header of version 1 that is too long")),
        };
    };
    const MALFORMED: Bad = Bad("a malformed PROXY header of version 1");
    let line = window.get(V1_START.len()..end).and_then(|line| line.strip_suffix(b"\r")).ok_or(MALFORMED)?;
    let line = std::str::from_utf8(line).map_err(|_| MALFORMED)?;
    let client = line_v1(line).ok_or(MALFORMED)?;
    Ok(Some((Header { client }, end + 1)))
}

/// What follows `PROXY `. The outer `None` is for what is malformed.
fn line_v1(line: &str) -> Option<Option<SocketAddr>> {
    let mut words = line.split(' ');
    let family = words.next()?;
    if family == "UNKNOWN" {
        // What follows must be ignored (section 2.1).
        return Some(None);
    }
    let [source, destination, source_port, destination_port] = std::array::from_fn(|_| words.next());
    let address = |text: Option<&str>| -> Option<IpAddr> {
        match family {
            "TCP4" => text?.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            "TCP6" => text?.parse::<Ipv6Addr>().ok().map(|address| address.to_canonical()),
            _ => None,
        }
    };
    let client = SocketAddr::new(address(source)?, port_v1(source_port?)?);
    let well_formed = address(destination).is_some() && port_v1(destination_port?).is_some();
    (well_formed && words.next().is_none()).then_some(Some(client))
}

/// A decimal number without a sign or leading zeros, as section 2.1 requires.
fn port_v1(text: &str) -> Option<u16> {
    let padded = text.len() > 1 && text.starts_with('0');
    if padded || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn parse_v2(bytes: &[u8]) -> Result<Option<(Header, usize)>, Bad> {
    if !agrees(bytes, V2_SIGNATURE) {
        return Err(Bad("no PROXY header"));
    }
    let fixed = bytes.get(V2_SIGNATURE.len()..V2_FIXED_BYTES.min(bytes.len())).unwrap_or_default();
    // Undefined versions and commands are refused at once, whatever follows.
    let local = match fixed.first() {
        None => return Ok(None),
        Some(0x20) => true,
        Some(0x21) => false,
        Some(_) => return Err(Bad("a PROXY header of an unknown version or command")),
    };
    let &[_, family, high, low] = fixed else { return Ok(None) };
    let payload_bytes = usize::from(u16::from_be_bytes([high, low]));
    if payload_bytes > V2_PAYLOAD_BYTES_MAX {
        return Err(Bad("a PROXY header of version 2 that is too long"));
    }
    let total = V2_FIXED_BYTES + payload_bytes;
    let Some(payload) = bytes.get(V2_FIXED_BYTES..total) else { return Ok(None) };
    // LOCAL: the family and all that follows are to be ignored (section 2.2).
    let client = if local { None } else { client_v2(family, payload)? };
    Ok(Some((Header { client }, total)))
}

/// The source address of a PROXY command: high four bits of `family` say what it is, low four the protocol.
fn client_v2(family: u8, payload: &[u8]) -> Result<Option<SocketAddr>, Bad> {
    const SHORT: Bad = Bad("a PROXY header of version 2 without room for its addresses");
    if family & 0x0f > 2 {
        return Err(Bad("a PROXY header of an unknown protocol"));
    }
    match family >> 4 {
        0 => Ok(None),
        1 => {
            // Source, destination: four bytes each; source port, destination port.
            let (block, _) = payload.split_first_chunk::<12>().ok_or(SHORT)?;
            let &[a, b, c, d, _, _, _, _, high, low, _, _] = block;
            Ok(Some((Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low])).into()))
        }
        2 => {
            let (block, _) = payload.split_first_chunk::<36>().ok_or(SHORT)?;
            let (source, rest) = block.split_first_chunk::<16>().ok_or(SHORT)?;
            let port = rest.get(16..18).and_then(|port| <[u8; 2]>::try_from(port).ok()).ok_or(SHORT)?;
            let address = Ipv6Addr::from(*source).to_canonical();
            Ok(Some((address, u16::from_be_bytes(port)).into()))
        }
        // A Unix socket: two paths of 108 bytes, neither of which is the address of a client.
        3 if payload.len() >= 216 => Ok(None),
        3 => Err(SHORT),
        _ => Err(Bad("a PROXY header of an unknown family")),
    }
}

mod write;

pub use write::{Passed, Version, write};

#[cfg(test)]
mod tests;
