//! How many connections each address has, and whether it may have one more. All threads share it.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use super::origin::is_within;
use maitred_base::rates::AddressKey;
use maitred_config::{Limits, Network};

/// Locks: far more than threads, so that two of them seldom need the same one.
const SHARDS: usize = 64;

/// The lock of an address.
fn shard_of(key: AddressKey) -> usize {
    let bits = match key {
        AddressKey::V4(bits) => u64::from(bits),
        AddressKey::V6(bits) => bits,
    };
    // The last bits of an IPv4 address differ most, and so do those of an IPv6 network; multiplying spreads them (Knuth).
    (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % SHARDS
}

/// The counts.
#[derive(Debug)]
pub(crate) struct Addresses {
    shards: Vec<Mutex<HashMap<AddressKey, u32>>>,
    /// Connections that one address may have; 0 for any number.
    max: u32,
    exempt: Vec<Network>,
}

impl Addresses {
    /// No address has a connection yet.
    pub(crate) fn new(limits: &Limits) -> Self {
        Addresses {
            shards: std::iter::repeat_with(Mutex::default).take(SHARDS).collect(),
            max: limits.connections_per_address_max,
            exempt: limits.connections_per_address_exempt.clone(),
        }
    }

    /// `None` for what is not counted: addresses that are exempt, and Unix sockets.
    fn key(&self, address: Option<SocketAddr>) -> Option<AddressKey> {
        let address = address.filter(|_| self.max > 0)?.ip();
        (!is_within(address, &self.exempt)).then(|| AddressKey::of(address))
    }

    fn shard(&self, key: AddressKey) -> Option<MutexGuard<'_, HashMap<AddressKey, u32>>> {
        Some(self.shards.get(shard_of(key))?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts one more connection. False, and nothing is counted, if the address has as many as it may.
    pub(crate) fn enter(&self, address: Option<SocketAddr>) -> bool {
        self.enter_up_to(address, self.max)
    }

    /// Whether an address has as many as it may. Nothing is counted.
    pub(crate) fn is_full(&self, address: SocketAddr) -> bool {
        let Some(key) = self.key(Some(address)) else { return false };
        self.shard(key).is_some_and(|counts| counts.get(&key).is_some_and(|count| *count >= self.max))
    }

    pub(crate) fn enter_up_to(&self, address: Option<SocketAddr>, max: u32) -> bool {
        let Some(key) = self.key(address) else { return true };
        let Some(mut counts) = self.shard(key) else { return true };
        let count = counts.entry(key).or_insert(0);
        let fits = *count < max;
        if fits {
            *count += 1;
        }
        fits
    }

    /// Counts one connection less.
    pub(crate) fn leave(&self, address: Option<SocketAddr>) {
        let Some(key) = self.key(address) else { return };
        let Some(mut counts) = self.shard(key) else { return };
        if let Some(count) = counts.get_mut(&key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn addresses(max: u32) -> Addresses {
        let directory = tempfile::tempdir().unwrap();
        let text = "[[listen]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \".\"\n";
        let mut limits = maitred_testing::config(directory.path(), text).limits;
        limits.connections_per_address_max = max;
        limits.connections_per_address_exempt.push(("10.0.0.0".parse().unwrap(), 8));
        Addresses::new(&limits)
    }

    fn at(text: &str) -> Option<SocketAddr> {
        Some(SocketAddr::new(text.parse().unwrap(), 1))
    }

    #[test]
    fn an_address_has_no_more_than_it_may() {
        let addresses = addresses(2);
        assert!(addresses.enter(at("192.0.2.1")) && addresses.enter(at("::ffff:192.0.2.1")));
        assert!(!addresses.enter(at("192.0.2.1")) && addresses.enter(at("192.0.2.2")));
        addresses.leave(at("192.0.2.1"));
        assert!(addresses.enter(at("192.0.2.1")) && !addresses.enter(at("192.0.2.1")));
        assert!(addresses.enter_up_to(at("192.0.2.1"), u32::MAX), "what was admitted elsewhere comes in");
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let addresses = addresses(2);
        assert!(addresses.enter(at("2001:db8::1")) && addresses.enter(at("2001:db8::ffff:0:0:2")));
        assert!(!addresses.enter(at("2001:db8::3")));
        assert!(addresses.enter(at("2001:db8:0:1::3")));
        // The first one has the same bits as an IPv4 address.
        assert!(addresses.enter(at("0:0:c000:201::")) && addresses.enter(at("192.0.2.1")));
    }

    #[test]
    fn some_are_not_counted() {
        let addresses = addresses(1);
        for exempt in [at("127.0.0.1"), at("127.1.2.3"), at("::1"), at("10.1.2.3"), None] {
            assert!((0..5).all(|_| addresses.enter(exempt)), "{exempt:?}");
        }
        let unbounded = super::tests::addresses(0);
        assert!((0..5).all(|_| unbounded.enter(at("192.0.2.1"))));
        assert!(unbounded.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
    }

    #[test]
    fn nothing_is_left_of_connections_that_are_gone() {
        let addresses = addresses(1000);
        let from = |number: u32| Some(SocketAddr::new(IpAddr::V4((0xc000_0200 + number).into()), 1));
        (0..500).for_each(|number| assert!(addresses.enter(from(number % 100))));
        let used = addresses.shards.iter().filter(|shard| !shard.lock().unwrap().is_empty()).count();
        assert!(used > SHARDS / 2, "they are spread over the shards: {used}");
        (0..500).for_each(|number| addresses.leave(from(number % 100)));
        assert!(addresses.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
        // Once too often changes nothing.
        addresses.leave(from(1));
        assert!(addresses.enter(from(1)));
    }
}
