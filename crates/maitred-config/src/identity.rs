//! Accounts, as the configuration has found them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An account that was looked up when the configuration was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The name of the account, for messages and for the supplementary groups.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// The home directory, which need not be there; empty in passwd(5), it is `/`.
    pub home: PathBuf,
    /// The login shell; empty in passwd(5), it is `/bin/sh`.
    pub shell: PathBuf,
}

impl Identity {
    /// An identity without a home of its own.
    pub fn new(name: impl Into<String>, uid: u32, gid: u32) -> Identity {
        Identity { name: name.into(), uid, gid, home: "/".into(), shell: "/bin/sh".into() }
    }
}
