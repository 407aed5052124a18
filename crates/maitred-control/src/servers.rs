//! The servers of a pool as they are now: what the configuration names, with what was discovered and commanded since.
//!
//! A list is always that of the whole pool, so that the newest one says everything: a worker process begins with those of its
//! start document ([`super::Start::servers`]), and later ones come in memory files ([`super::ToWorker::Servers`]). A list with a
//! revision that is not above that of the present one is old, and changes nothing. A pool of which no list has come has the
//! servers of its configuration.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

use maitred_sys::memfile;
use serde::{Deserialize, Serialize};

use maitred_base::bounds::SERVERS_MAX;
use maitred_config::{Address, Config, Pool, ServerSettings, Upstream};

/// The largest list in the form that is sent, in bytes: [`SERVERS_MAX`] servers with the longest names and paths take half of it.
const LIST_BYTES_MAX: u64 = 512 * 1024;
/// The longest name of a server: a host name of 253 bytes (RFC 1035 section 2.3.4), a colon and a port.
pub const NAME_BYTES_MAX: usize = 259;

/// All servers of one pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerList {
    /// The name of the pool, which it has in all configurations.
    pub pool: String,
    /// Counted from 1 over the master's life, upgrades included. Lists of the configuration alone have 0.
    pub revision: u64,
    /// At most [`SERVERS_MAX`], each address once.
    pub servers: Vec<ServerEntry>,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServerEntry {
    /// Where it listens. What is known of a server (health, connections, requests under way) stays with its address.
    pub address: Address,
    /// Host, and port if it was written, for the `Host` field and TLS; empty for a Unix socket. At most [`NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// The server's share of the requests, of those of the whole pool: [`ServerEntry::WEIGHT_MIN`] to
    /// [`ServerEntry::WEIGHT_MAX`].
    pub weight: u16,
    /// Whether the server gets requests only when all others are out.
    pub backup: bool,
    /// Requests that it may have under way, over all threads; `None` is without a bound.
    pub max_connections: Option<u32>,
    /// Whether it gets new requests.
    pub state: ServerState,
    /// Whether the server's checks fail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unwell: bool,
}

/// Whether a server gets new requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// The server gets new requests.
    #[default]
    Active,
    /// The server finishes the requests that it has.
    Draining,
}

impl ServerEntry {
    /// The least weight; a server that is to get nothing is drained.
    pub const WEIGHT_MIN: u16 = 1;
    /// The greatest weight: a sum over [`SERVERS_MAX`] servers is far from overflowing.
    pub const WEIGHT_MAX: u16 = 1000;

    /// A server of which nothing more is said than where it is.
    pub fn plain(address: Address, name: String) -> ServerEntry {
        let weight = ServerEntry::WEIGHT_MIN;
        ServerEntry {
            address,
            name,
            weight,
            backup: false,
            max_connections: None,
            state: ServerState::Active,
            unwell: false,
        }
    }

    /// A server of which the configuration has nothing more than where it is.
    fn of(upstream: &Upstream) -> ServerEntry {
        match upstream {
            Upstream::Tcp { name, address } => ServerEntry::plain(Address::Inet(*address), name.clone()),
            Upstream::Unix(path) => ServerEntry::plain(Address::Unix(path.clone()), String::new()),
        }
    }

    /// The servers of a pool as its configuration has them; `None` if it has processes.
    pub fn configured(pool: &Pool) -> Option<Vec<ServerEntry>> {
        let settings = pool.balancing.servers.iter().cloned();
        let settings = settings.chain(std::iter::repeat_with(ServerSettings::default));
        let entry = |(upstream, settings): (&Upstream, ServerSettings)| ServerEntry {
            weight: settings.weight,
            backup: settings.backup,
            max_connections: settings.max_connections,
            ..ServerEntry::of(upstream)
        };
        Some(pool.source.servers()?.iter().zip(settings).map(entry).collect())
    }

    fn is_sound(&self) -> bool {
        (ServerEntry::WEIGHT_MIN..=ServerEntry::WEIGHT_MAX).contains(&self.weight)
            && self.name.len() <= NAME_BYTES_MAX
            && self.max_connections != Some(0)
            && match &self.address {
                Address::Inet(address) => address.port() != 0,
                Address::Unix(path) => path.as_os_str().len() <= Address::PATH_BYTES_MAX,
            }
    }
}

impl ServerList {
    /// As a memory file, for [`super::ToWorker::Servers`].
    ///
    /// # Errors
    /// What the system says.
    pub fn seal(&self) -> io::Result<OwnedFd> {
        memfile::sealed("maitred-servers", &serde_json::to_vec(self)?)
    }

    /// What came in such a file.
    ///
    /// # Errors
    /// What the system says, and `InvalidData` where a bound is exceeded.
    pub fn open(file: OwnedFd) -> io::Result<ServerList> {
        let list: ServerList = serde_json::from_slice(&memfile::read(file, LIST_BYTES_MAX)?)?;
        let sound = list.servers.len() <= SERVERS_MAX && list.servers.iter().all(ServerEntry::is_sound);
        if sound { Ok(list) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

/// What the admin address can ask of the servers of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpstreamCommand {
    /// What they are, as JSON ([`super::ToWorker::CommandDocument`]).
    List,
    /// One more, or one that was drained or removed again.
    Add {
        /// Where it listens.
        address: Address,
        /// The weight of the server; `None` leaves that of a server that is there, or the least.
        weight: Option<u16>,
        /// Whether it is a backup; for one that is new.
        backup: bool,
    },
    /// No new requests for this one.
    Drain(Address),
    /// Not one of them any more.
    Remove(Address),
    /// Another weight.
    Weight(Address, u16),
    /// As if no command had been given.
    Reset,
}

/// The ports that a worker process with this configuration connects to, when these lists are what it begins with: it is confined
/// to them for its life.
pub fn ports(config: &Config, lists: &[ServerList]) -> BTreeSet<u16> {
    let configured = config.pools.iter().filter_map(|pool| pool.source.servers()).flatten();
    let port = |server: &Upstream| match server {
        Upstream::Tcp { address, .. } => Some(address.port()),
        Upstream::Unix(_) => None,
    };
    let names = config.pools.iter().flat_map(|pool| &pool.discovery.names);
    let named = names.flat_map(|name| {
        let first = name.first.iter().map(|found| found.address(name.port).port());
        first.chain([name.port]).filter(|port| *port != 0)
    });
    let listed = lists.iter().flat_map(|list| &list.servers).filter_map(|server| server.address.port());
    let collector =
        config.trace.as_ref().and_then(|trace| trace.otlp.as_ref()).map(|otlp| otlp.address.port());
    configured.filter_map(port).chain(named).chain(listed).chain(collector).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(servers: usize) -> ServerList {
        let server = |number: usize| ServerEntry {
            weight: ServerEntry::WEIGHT_MAX,
            max_connections: Some(u32::MAX),
            state: ServerState::Draining,
            unwell: true,
            ..ServerEntry::plain(
                Address::Unix(format!("/{}{number:03}", "p".repeat(Address::PATH_BYTES_MAX - 4)).into()),
                "n".repeat(NAME_BYTES_MAX),
            )
        };
        ServerList { pool: "x".repeat(64), revision: u64::MAX, servers: (0..servers).map(server).collect() }
    }

    #[test]
    fn the_largest_list_is_read_as_it_was_sent() {
        let list = list(SERVERS_MAX);
        assert!(serde_json::to_vec(&list).unwrap().len() as u64 <= LIST_BYTES_MAX / 2);
        assert_eq!(ServerList::open(list.seal().unwrap()).unwrap(), list);
    }

    #[test]
    fn what_exceeds_a_bound_is_refused() {
        let refused = |change: &dyn Fn(&mut ServerList)| {
            let mut list = list(1);
            change(&mut list);
            assert!(ServerList::open(list.seal().unwrap()).is_err(), "{list:?}");
        };
        refused(&|list| list.servers = vec![list.servers[0].clone(); SERVERS_MAX + 1]);
        refused(&|list| list.servers[0].weight = 0);
        refused(&|list| list.servers[0].weight = ServerEntry::WEIGHT_MAX + 1);
        refused(&|list| list.servers[0].name.push('n'));
        refused(&|list| list.servers[0].max_connections = Some(0));
        refused(&|list| list.servers[0].address = Address::Inet("127.0.0.1:0".parse().unwrap()));
        let file = memfile::sealed("maitred-test", b"[]").unwrap();
        assert!(ServerList::open(file).is_err());
    }
}
