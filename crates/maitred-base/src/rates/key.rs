//! What is counted together.

use std::net::IpAddr;

/// What counts as one address: a whole network in IPv6, because a client that has one address there has 2^64 (RFC 6177).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressKey {
    /// An address.
    V4(u32),
    /// The first 64 bits of one.
    V6(u64),
}

impl AddressKey {
    /// The key of an address; one of IPv4 in IPv6 (`::ffff:192.0.2.1`) is one of IPv4.
    pub fn of(address: IpAddr) -> AddressKey {
        match address.to_canonical() {
            IpAddr::V4(address) => AddressKey::V4(address.to_bits()),
            IpAddr::V6(address) => AddressKey::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// What requests are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key<'a> {
    /// The client's address.
    Address(AddressKey),
    /// What a field or a cookie says.
    Text(&'a [u8]),
    /// The route, by a number that stands for it.
    Route(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let of = |text: &str| AddressKey::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:0:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        // The same bits, and another kind.
        assert_ne!(of("0:0:c000:201::"), of("192.0.2.1"));
    }
}
