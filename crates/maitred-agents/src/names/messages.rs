//! What master and names agent say to each other. The socket is `SOCK_SEQPACKET`: one message, one packet, JSON. End of file
//! means that the other side is gone; an agent without a master ends.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::agents::process::Document;
use maitred_config::{Found, Query};

/// Largest message, in bytes: the most servers of a pool, each with the longest name.
pub const MESSAGE_BYTES_MAX: usize = 160 * 1024;

/// The start document of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// What is resolved, each once; never empty.
    pub queries: Vec<Query>,
    /// Name servers; those of resolv.conf(5) if there are none.
    pub resolver: Vec<SocketAddr>,
    /// `log.level` of the configuration.
    pub log_level: String,
    /// Whether it is bound to a list of system calls.
    pub seccomp: bool,
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
    /// The query of this number leads there, which is elsewhere than before. Never empty.
    Found(usize, Vec<Found>),
}

/// From the master to the agent: nothing as yet but the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAgent {}
