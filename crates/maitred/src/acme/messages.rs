//! What master and agent say to each other. The socket is `SOCK_SEQPACKET`: one message, one packet, JSON. End of file means
//! that the other side is gone; an agent without a master ends.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::Acme;
use crate::control::{Challenge, Report};

/// Largest message, in bytes; what is larger is a bug. A challenge with a certificate and its key takes about 4 KiB.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// The start document of the agent: all of its configuration. An agent whose start document would be another is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// How to get certificates.
    pub acme: Acme,
    /// The sites with automatic certificates.
    pub sites: Vec<Site>,
    /// Where the files are; absolute.
    pub state: PathBuf,
    /// Whether the server has an address without TLS, which HTTP-01 needs.
    pub http: bool,
    /// Whether the server has an address with TLS, which TLS-ALPN-01 needs.
    pub tls: bool,
    /// `log.level` of the configuration.
    pub log_level: String,
    /// Whether it is bound to a list of system calls.
    pub seccomp: bool,
}

/// A site with an automatic certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Its names, in the order of the file; never empty. The first one names its files.
    pub names: Vec<String>,
}

impl Site {
    /// What it is called in files and messages.
    pub fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }
}

/// From the agent to the master.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromAgent {
    /// To be answered from now on; the agent waits for [`ToAgent::InPlace`].
    Challenge(Challenge),
    /// The challenge of this number is over.
    Over(u64),
    /// The file of the site of this name is new.
    Certificate(String),
    /// How a site stands; said at the start, and after each change.
    Report(Report),
}

/// From the master to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAgent {
    /// The worker process answers the challenge of this number.
    InPlace(u64),
}
