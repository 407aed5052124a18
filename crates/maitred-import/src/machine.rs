//! What is there on this machine: `maitred check` looks at directories, certificates and the addresses of names.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::Path;

/// Remembers what was asked.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    names: RefCell<HashMap<String, bool>>,
}

/// Names that are looked up, at most: each may take seconds.
const NAMES_MAX: usize = 64;

impl Machine {
    /// Whether the name of a server has an address.
    pub(crate) fn has_address(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.parse::<IpAddr>().is_ok() {
            return true;
        }
        if let Some(known) = self.names.borrow().get(host) {
            return *known;
        }
        if self.names.borrow().len() >= NAMES_MAX {
            return false;
        }
        let found = (host, 80).to_socket_addrs().is_ok_and(|mut found| found.next().is_some());
        self.names.borrow_mut().insert(host.to_owned(), found);
        found
    }

    /// Whether a directory is there.
    pub(crate) fn has_directory(&self, path: &str) -> bool {
        !path.contains('\0') && Path::new(path).join(".").is_dir()
    }

    /// Whether a certificate and its key are there; whether they can be used, the check says.
    pub(crate) fn has_file(&self, path: &str) -> bool {
        !path.contains('\0') && std::fs::File::open(path).is_ok() && Path::new(path).is_file()
    }
}
