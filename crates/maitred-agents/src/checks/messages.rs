//! What master and checks agent say to each other. The socket is `SOCK_SEQPACKET`: one message, one packet, JSON. End of file
//! means that the other side is gone; an agent without a master ends.

use serde::{Deserialize, Serialize};

use crate::agents::process::Document;
use maitred_config::{Address, Health, ProxyProtocol, UpstreamTls};
use maitred_tls::upstream::UpstreamMaterial;

/// Largest message, in bytes: [`PART_MAX`] servers with the longest names.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Servers in one message: what a packet may have is bounded by the kernel.
pub const PART_MAX: usize = 64;
/// Bytes of [`FromAgent::Checked::why`].
pub(crate) const WHY_BYTES_MAX: usize = 200;

/// The start document of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Whose servers are checked; never empty.
    pub pools: Vec<Checked>,
    /// `log.level` of the configuration.
    pub log_level: String,
    /// Whether it is bound to a list of system calls.
    pub seccomp: bool,
}

/// A pool whose servers are checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// The name of the pool.
    pub name: String,
    /// What is asked.
    pub health: Health,
    /// Whether the servers speak HTTP/2.
    pub http2: bool,
    /// What connections to them begin with.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Over TLS: how, and what the master has read for it. The authorities of the system are read by the agent.
    pub tls: Option<(UpstreamTls, UpstreamMaterial)>,
}

/// A server that is checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Target {
    /// Where it listens.
    pub address: Address,
    /// The name of the server, and its port if it was written; empty for a Unix socket.
    pub name: String,
}

impl Document for Start {
    fn log_level(&self) -> &str {
        &self.log_level
    }

    fn seccomp(&self) -> bool {
        self.seccomp
    }
}

/// From the agent to the master.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromAgent {
    /// A server is in another state than before.
    Checked {
        /// The number of its pool.
        pool: usize,
        /// Where it listens.
        address: Address,
        /// Why it is unwell, in at most [`WHY_BYTES_MAX`] bytes; `None` if it is well.
        why: Option<String>,
    },
}

/// From the master to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAgent {
    /// The servers of a pool as they are now: those that are not among them are checked no more.
    Servers {
        /// The number of the pool.
        pool: usize,
        /// At most [`PART_MAX`] servers, each with whether it is well as far as is known.
        servers: Vec<(Target, bool)>,
        /// Further ones follow.
        goes_on: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use maitred_control::servers::NAME_BYTES_MAX;

    #[test]
    fn the_longest_servers_fit_into_a_message() {
        let target = Target {
            address: Address::Unix("p".repeat(Address::PATH_BYTES_MAX).into()),
            name: "n".repeat(NAME_BYTES_MAX),
        };
        let message = ToAgent::Servers { pool: 63, servers: vec![(target, false); PART_MAX], goes_on: false };
        assert!(serde_json::to_vec(&message).unwrap().len() <= MESSAGE_BYTES_MAX);
    }
}
