//! Servers of a pool that are found while the server runs.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind};

/// Where a pool's servers come from, besides those that stand in `connect` with their addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, std::default::Default)]
pub struct Discovery {
    /// `resolve`, and names of services: names in `connect` that are resolved again and again.
    pub names: Vec<Name>,
    /// `endpoints`: absolute.
    pub file: Option<PathBuf>,
}

impl Discovery {
    /// Names that one pool takes.
    pub(crate) const NAMES_MAX: usize = 32;
}

/// A name that leads to servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// What is asked.
    pub query: Query,
    /// The port, where the answer does not say it.
    pub port: u16,
    /// Host, and port if it was written: for `Host` and TLS where the answer has no name of its own.
    pub authority: String,
    /// What it led to when the configuration was read.
    pub first: Vec<Found>,
}

/// A question about a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Query {
    /// The name, as it was written.
    pub host: String,
    /// For its service (SRV, RFC 2782), rather than for its addresses (A and AAAA).
    pub srv: bool,
}

/// What an answer leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The address of the server.
    pub ip: IpAddr,
    /// The port of the server; 0 where the answer has none.
    pub port: u16,
    /// The server's own name; empty where that is the one that was asked for.
    pub target: String,
    /// The server's share of the requests.
    pub weight: u16,
    /// Whether it is for when all others are out.
    pub backup: bool,
}

impl Found {
    /// Of which the answer says no more than the address.
    pub fn plain(ip: IpAddr) -> Found {
        Found { ip, port: 0, target: String::new(), weight: 1, backup: false }
    }

    /// Where it listens: with this port, unless the answer has one.
    pub fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, if self.port == 0 { port } else { self.port })
    }
}

/// `resolve`
pub(super) const RESOLVE: Key = Key::new(
    "resolve",
    Kind::Flag,
    Default::Flag(false),
    "With `connect` to names: resolve them again by the time that their records are good for (1 s to 1 h), and use all of their \
     addresses (A, AAAA). Without it, a name is resolved when the configuration is read, and the first address is used. \
     Names of services (`http+srv://_http._tcp.example.com`) are always resolved. See [discovery](discovery.md#names).",
);

/// `endpoints`
pub(super) const ENDPOINTS: Key = Key::new(
    "endpoints",
    Kind::Text("a path"),
    Default::Absent("no such file"),
    "A file with servers, as JSON, which is read again when it changes: `[{ \"address\": \"192.0.2.7:8080\", \"weight\": 5 }]`. With \
     `connect`, its servers are further ones; without it, they are HTTP servers. See [discovery](discovery.md#a-file).",
);

/// `resolver`
pub(super) const RESOLVER: Key = Key::new(
    "resolver",
    Kind::TextOrTexts("an IP address, with or without a port"),
    Default::Absent("those of resolv.conf(5)"),
    "Name servers for names of servers that are resolved while the server runs (`resolve` of `[pool.NAME]`). Port 53 if none is named.",
);
