//! Headers of the PROXY protocol for servers.

use std::io::Write as _;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::V2_SIGNATURE;

/// The version of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// A line of text (section 2.1).
    V1,
    /// Binary (section 2.2).
    V2,
}

/// What is said of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// The connection is passed on for a client: that one's address, and the one that it has connected to.
    Client(SocketAddr, SocketAddr),
    /// The connection is passed on for a client without an address.
    Unknown,
    /// The connection is the proxy's own, for a check of the server's health. Version 1 has no word for that.
    Local,
}

/// Version 2 and the command LOCAL, or PROXY.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
/// TCP over IPv4, over IPv6, or nothing that is known.
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNKNOWN: u8 = 0x00;

/// Appends a header. If one of the addresses is of IPv6, the other one is mapped to it.
pub fn write(version: Version, passed: Passed, out: &mut Vec<u8>) {
    match version {
        Version::V1 => write_v1(passed, out),
        Version::V2 => write_v2(passed, out),
    }
}

/// Both addresses in one family; those of version 4 as such if both are.
fn in_one_family(source: SocketAddr, destination: SocketAddr) -> (IpAddr, IpAddr) {
    let (source, destination) = (source.ip().to_canonical(), destination.ip().to_canonical());
    if source.is_ipv4() && destination.is_ipv4() {
        return (source, destination);
    }
    let mapped = |address: IpAddr| match address {
        IpAddr::V4(address) => IpAddr::V6(address.to_ipv6_mapped()),
        IpAddr::V6(_) => address,
    };
    (mapped(source), mapped(destination))
}

fn write_v1(passed: Passed, out: &mut Vec<u8>) {
    let Passed::Client(source, destination) = passed else {
        return out.extend_from_slice(b"PROXY UNKNOWN\r\n");
    };
    let (from, to) = in_one_family(source, destination);
    let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
    // A vector takes all that is written to it.
    let _ = write!(out, "PROXY {family} {from} {to} {} {}\r\n", source.port(), destination.port());
}

fn write_v2(passed: Passed, out: &mut Vec<u8>) {
    out.extend_from_slice(V2_SIGNATURE);
    let Passed::Client(source, destination) = passed else {
        let command = if passed == Passed::Local { LOCAL } else { PROXY };
        return out.extend_from_slice(&[command, UNKNOWN, 0, 0]);
    };
    let octets = |address: IpAddr, out: &mut Vec<u8>| match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&Ipv6Addr::octets(&address)),
    };
    let (from, to) = in_one_family(source, destination);
    let (family, bytes) = if from.is_ipv4() { (TCP4, 12) } else { (TCP6, 36) };
    out.extend_from_slice(&[PROXY, family, 0, bytes]);
    octets(from, out);
    octets(to, out);
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
}
