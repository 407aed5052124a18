//! The faults of a path.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A path: both directions, and what the translation of addresses in its middle does. The default one has no faults.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where clients send to; a port of 0 is any free one.
    pub listen: SocketAddr,
    /// The same seed, clients and datagrams have the same ones lost, reordered and duplicated.
    pub seed: u64,
    /// From clients to the server.
    pub to_server: Faults,
    /// From the server to clients.
    pub to_client: Faults,
    /// When the path goes on from another port.
    pub rebind: Rebind,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            seed: 0,
            to_server: Faults::default(),
            to_client: Faults::default(),
            rebind: Rebind::default(),
        }
    }
}

impl Config {
    /// The same faults in both directions.
    #[must_use]
    pub fn both(faults: Faults) -> Config {
        Config { to_server: faults, to_client: faults, ..Config::default() }
    }
}

/// What happens to the datagrams of one direction.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// How long each datagram is on its way.
    pub delay: Duration,
    /// Datagrams of a thousand that are lost.
    pub loss_per_mille: u16,
    /// Datagrams of a thousand that are late, so that later ones overtake them.
    pub reorder_per_mille: u16,
    /// By how much these are late.
    pub reorder_delay: Duration,
    /// Datagrams of a thousand that arrive twice.
    pub duplicate_per_mille: u16,
    /// ECN marks are cleared; otherwise they are passed on.
    pub bleach_ecn: bool,
    /// Larger datagrams (bytes of UDP's payload) are dropped, silently.
    pub mtu_bytes: Option<usize>,
    /// The bandwidth, of all clients together.
    pub rate: Option<Rate>,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            delay: Duration::ZERO,
            loss_per_mille: 0,
            reorder_per_mille: 0,
            reorder_delay: Duration::from_millis(2),
            duplicate_per_mille: 0,
            bleach_ecn: false,
            mtu_bytes: None,
            rate: None,
        }
    }
}

/// A bandwidth, with a queue before it. Bytes are those of UDP's payload.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// What passes in a second.
    pub bytes_per_second: u64,
    /// What may wait; a datagram that finds no room is dropped.
    pub queue_bytes: u64,
}

/// When the path goes on from another port towards the server. Datagrams to the old one are lost from then on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rebind {
    /// After so many datagrams of a client, again and again.
    pub every: Option<u64>,
    /// So long after a client's first datagram, with the next one that the client sends.
    pub after: Option<Duration>,
    /// The address becomes another one, too (of 127.0.0.0/8).
    pub address: bool,
}
