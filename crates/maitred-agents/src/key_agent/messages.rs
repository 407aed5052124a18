//! What master and key agent say to each other. The socket is `SOCK_SEQPACKET`: one message, one packet, JSON. End of file means
//! that the other side is gone; an agent without a master ends.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::agents::process::Document;
use maitred_base::jwt::keys::Key;
use maitred_config::UrlKeys;

/// Largest message, in bytes: a set of 64 keys with 8192 bits takes 100 KiB.
pub const MESSAGE_BYTES_MAX: usize = 160 * 1024;

/// The start document of the agent: all of its configuration. An agent whose start document would be another is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// What is fetched; never empty.
    pub sources: Vec<UrlKeys>,
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

    fn reads(&self) -> Vec<&Path> {
        self.sources.iter().filter_map(|source| source.ca_file.as_deref()).collect()
    }
}

/// From the agent to the master.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromAgent {
    /// The keys of the source of this number, which are others than before.
    Keys(usize, Vec<Key>),
}

/// From the master to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAgent {
    /// A token has named a key that the source of this number has not.
    Wanted(usize),
}
