//! What master and agent say to each other. The socket is `SOCK_SEQPACKET`: one message, one packet, JSON. End of file means
//! that the other side is gone; an agent without a master ends.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::Acme;
use crate::tls::material::Pair;

/// Largest message, in bytes; what is larger is a bug. A challenge with a certificate and its key takes about 4 KiB.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// All that the agent is told at its start. An agent whose start document would be another is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// How to get certificates.
    pub acme: Acme,
    /// The sites that want one.
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

/// A site that wants an automatic certificate.
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

/// Something that is to be answered while the authority looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// Its number, counted over the agent's life.
    pub serial: u64,
    /// The name that is validated.
    pub name: String,
    /// How.
    pub answer: Answer,
}

impl Challenge {
    /// As a worker process is told of it.
    pub fn for_worker(&self) -> Challenge {
        let answer = match &self.answer {
            Answer::TlsAlpn(_) => Answer::InHandshakes,
            other => other.clone(),
        };
        Challenge { serial: self.serial, name: self.name.clone(), answer }
    }
}

/// How a challenge is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// `/.well-known/acme-challenge/TOKEN` has this content (RFC 8555 section 8.3).
    Http {
        /// The last part of the path.
        token: String,
        /// What is there.
        key_authorization: String,
    },
    /// A TLS handshake for the name, with the protocol `acme-tls/1`, gets this certificate (RFC 8737 section 3).
    TlsAlpn(Pair),
    /// The same as a worker process is told of it: the certificate and its key come with all others
    /// ([`crate::tls::material::Material::challenges`]).
    InHandshakes,
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

/// How a site's certificate stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The site.
    pub name: String,
    /// When the certificate that is there ends, in seconds of Unix time.
    pub not_after: Option<u64>,
    /// When it is going to be renewed.
    pub renew_at: Option<u64>,
    /// When the next order may begin, if the last one failed.
    pub retry_at: Option<u64>,
    /// Why the last order failed.
    pub error: Option<String>,
    /// How many orders in a row have failed.
    #[serde(default)]
    pub failures: u32,
}
