//! Who may say on whose behalf a request comes.

use std::net::IpAddr;

/// Whether a field says where a request came from before it reached this server: `Forwarded` (RFC 7239 section 4) and
/// `X-Forwarded-*`. Anyone can write such a field, so only that of a trusted proxy is passed on.
pub(super) fn says_whom_for(name: &str) -> bool {
    const PREFIX: &str = "x-forwarded-";
    name.eq_ignore_ascii_case("forwarded")
        || name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// Whether a peer is in one of `networks` (address, prefix bits). A peer on a Unix socket, `None`, is in none.
pub(super) fn is_trusted(peer: Option<IpAddr>, networks: &[(IpAddr, u8)]) -> bool {
    let Some(peer) = peer.map(|peer| peer.to_canonical()) else { return false };
    networks.iter().any(|(network, bits)| match (network, peer) {
        (IpAddr::V4(network), IpAddr::V4(peer)) => {
            (network.to_bits() ^ peer.to_bits()).leading_zeros() >= u32::from(*bits)
        }
        (IpAddr::V6(network), IpAddr::V6(peer)) => {
            (network.to_bits() ^ peer.to_bits()).leading_zeros() >= u32::from(*bits)
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proxies_are_known() {
        for name in ["Forwarded", "X-Forwarded-For", "x-forwarded-PROTO", "X-FORWARDED-"] {
            assert!(says_whom_for(name), "{name}");
        }
        for name in ["X-Forwarded", "Forwarded-For", "Forward", "X-Real", "x-forward\u{e9}-for"] {
            assert!(!says_whom_for(name), "{name}");
        }
    }

    #[test]
    fn networks_are_compared_by_their_bits() {
        let networks: Vec<(IpAddr, u8)> = [("10.1.0.0", 16), ("192.0.2.7", 32), ("2001:db8::", 33)]
            .map(|(address, bits)| (address.parse().unwrap(), bits))
            .into();
        let trusted = |peer: &str| is_trusted(Some(peer.parse().unwrap()), &networks);
        for peer in ["10.1.255.255", "192.0.2.7", "::ffff:10.1.2.3", "2001:db8:7fff::1"] {
            assert!(trusted(peer), "{peer}");
        }
        for peer in ["10.2.0.0", "192.0.2.6", "2001:db8:8000::", "::1", "127.0.0.1"] {
            assert!(!trusted(peer), "{peer}");
        }
        let all = [("0.0.0.0".parse().unwrap(), 0)];
        assert!(is_trusted("127.0.0.1".parse().ok(), &all));
        assert!(!is_trusted(None, &all));
    }
}
