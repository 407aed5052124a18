//! `allow` and `deny`: clients by their addresses.

use std::net::IpAddr;

use maitred_config::{AddressRules, Network};

/// The rules of a site or a route: clients in `deny` are refused; and, if there is an `allow`, those that are not in it.
#[derive(Debug)]
pub struct Addresses {
    allow: Option<NetworkSet>,
    deny: NetworkSet,
}

impl Addresses {
    /// Compiles them.
    pub(crate) fn new(rules: &AddressRules) -> Addresses {
        let allow = rules.allow.as_deref().map(NetworkSet::new);
        Addresses { allow, deny: NetworkSet::new(&rules.deny) }
    }

    /// Whether a client may pass. A client without an address, on a Unix socket, is in no network but `@all`.
    pub fn admit(&self, client: Option<IpAddr>) -> bool {
        let is_in = |set: &NetworkSet| client.map_or(set.is_all(), |client| set.contains(client));
        !is_in(&self.deny) && self.allow.as_ref().is_none_or(is_in)
    }
}

/// Networks as ranges of addresses, sorted, of which none touches another: so that a list of many is searched as fast as one of
/// few. Addresses of IPv4 are kept apart from those of IPv6.
#[derive(Debug, Default)]
struct NetworkSet {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl NetworkSet {
    fn new(networks: &[Network]) -> NetworkSet {
        let mut set = NetworkSet::default();
        for (network, bits) in networks {
            match network {
                IpAddr::V4(network) => {
                    let hosts = u32::MAX.checked_shr(u32::from(*bits)).unwrap_or(0);
                    set.v4.push((network.to_bits() & !hosts, network.to_bits() | hosts));
                }
                IpAddr::V6(network) => {
                    let hosts = u128::MAX.checked_shr(u32::from(*bits)).unwrap_or(0);
                    set.v6.push((network.to_bits() & !hosts, network.to_bits() | hosts));
                }
            }
        }
        join(&mut set.v4, |end| end.checked_add(1));
        join(&mut set.v6, |end| end.checked_add(1));
        set
    }

    fn is_all(&self) -> bool {
        self.v4 == [(0, u32::MAX)] && self.v6 == [(0, u128::MAX)]
    }

    fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => is_in(&self.v4, address.to_bits()),
            IpAddr::V6(address) => is_in(&self.v6, address.to_bits()),
        }
    }
}

/// Sorts ranges, and makes one of those that overlap or touch; `next` is the address behind another.
fn join<T: Ord + Copy>(ranges: &mut Vec<(T, T)>, next: fn(T) -> Option<T>) {
    ranges.sort_unstable();
    ranges.dedup_by(|later, first| {
        let touches = later.0 <= first.1 || next(first.1) == Some(later.0);
        if touches {
            first.1 = first.1.max(later.1);
        }
        touches
    });
}

fn is_in<T: Ord + Copy>(ranges: &[(T, T)], address: T) -> bool {
    let behind = ranges.partition_point(|(start, _)| *start <= address);
    let range = behind.checked_sub(1).and_then(|at| ranges.get(at));
    range.is_some_and(|(_, end)| address <= *end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use maitred_config::is_within;

    fn network(text: &str) -> Network {
        let (address, bits) = text.split_once('/').unwrap();
        (address.parse().unwrap(), bits.parse().unwrap())
    }

    fn rules(allow: Option<&[&str]>, deny: &[&str]) -> Addresses {
        let networks = |texts: &[&str]| texts.iter().map(|text| network(text)).collect();
        Addresses::new(&AddressRules { allow: allow.map(networks), deny: networks(deny) })
    }

    #[test]
    fn denied_networks_are_refused_and_then_all_that_are_not_allowed() {
        let admits = |rules: &Addresses, client: &str| rules.admit(Some(client.parse().unwrap()));
        let both = rules(Some(&["10.0.0.0/8", "2001:db8::/32"]), &["10.1.0.0/16"]);
        for (client, expected) in [
            ("10.0.0.1", true),
            ("10.1.2.3", false),
            ("10.2.0.0", true),
            ("11.0.0.0", false),
            ("9.255.255.255", false),
            ("::ffff:10.0.0.1", true),
            ("2001:db8::1", true),
            ("2001:db9::", false),
        ] {
            assert_eq!(admits(&both, client), expected, "{client}");
        }
        let only_deny = rules(None, &["192.0.2.0/24"]);
        assert!(admits(&only_deny, "198.51.100.1") && !admits(&only_deny, "192.0.2.255"));
        let all = rules(None, &["0.0.0.0/0", "::/0"]);
        assert!(!admits(&all, "192.0.2.1") && !admits(&all, "::1"));
    }

    #[test]
    fn a_client_without_an_address_is_in_no_network_but_all() {
        assert!(!rules(Some(&["10.0.0.0/8"]), &[]).admit(None) && rules(None, &["0.0.0.0/0"]).admit(None));
        assert!(rules(Some(&["0.0.0.0/0", "::/0"]), &[]).admit(None));
        assert!(!rules(None, &["0.0.0.0/1", "128.0.0.0/1", "::/0"]).admit(None), "half and half is all");
    }

    fn any_network() -> impl Strategy<Value = Network> {
        // Few networks, so that they overlap and touch.
        let v4 = (0..4_u32, 0..=32_u8)
            .prop_map(|(third, bits)| (IpAddr::from((third << 8 | 5).to_be_bytes()), bits));
        let v6 =
            (0..4_u128, 0..=128_u8).prop_map(|(last, bits)| (IpAddr::from((last << 8).to_be_bytes()), bits));
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn a_set_contains_what_one_of_its_networks_does(
            networks in proptest::collection::vec(any_network(), 0..8),
            v4 in 0..1500_u32,
            v6 in 0..1500_u128,
        ) {
            let set = NetworkSet::new(&networks);
            for address in [IpAddr::from(v4.to_be_bytes()), IpAddr::from(v6.to_be_bytes())] {
                // ::x.y.z is an address of IPv6, not a mapped one.
                prop_assert_eq!(set.contains(address), is_within(address, &networks), "{}", address);
            }
        }
    }
}
