//! A real name server that takes updates: Debian's Knot DNS, with the zone `example` and the key `maitred`.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use maitred_agents::acme::dns::message::{self, Data, Kind};

use crate::acme::pebble::{end, free, has_names};
use crate::support::{TIMEOUT, eventually};

/// Where Debian's package `knot` has it.
const PROGRAM: &str = "/usr/sbin/knotd";
/// The key that updates are signed with.
pub(crate) const SECRET: &str = "bWFpdHJlZCBtYWl0cmVkIG1haXRyZWQgbWFpdHJlZCE=";

#[derive(Debug)]
pub(crate) struct Knot {
    pub(crate) address: SocketAddr,
    pub(crate) directory: tempfile::TempDir,
    process: Child,
}

impl Knot {
    /// Starts it at an address of this host; `None` if it is not installed.
    pub(crate) fn start(ip: IpAddr) -> Option<Knot> {
        if !PathBuf::from(PROGRAM).exists() {
            crate::support::skip_missing("there is no Knot DNS (Debian's package knot)");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let [address] = free(ip);
        let place = directory.path().display();
        let zone = "@ 60 SOA ns admin 1 60 60 60 60\n@ 60 NS ns\nns 60 A 127.0.0.1\n";
        std::fs::write(directory.path().join("example.zone"), format!("$ORIGIN example.\n{zone}")).unwrap();
        let config = format!(
            "server:\n    listen: {}@{}\n    rundir: {place}\n    tcp-io-timeout: 5000\n\
             log:\n  - target: stderr\n    any: warning\n\
             database:\n    storage: {place}\n\
             key:\n  - id: maitred\n    algorithm: hmac-sha256\n    secret: {SECRET}\n\
             acl:\n  - id: update\n    key: maitred\n    action: update\n\
             zone:\n  - domain: example\n    storage: {place}\n    file: example.zone\n    acl: update\n    zonefile-sync: -1\n",
            ip,
            address.port()
        );
        let file = directory.path().join("knot.conf");
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("-c").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let knot = Knot { address, directory, process };
        eventually("the name server answers", || has_names(address));
        Some(knot)
    }

    /// The texts of a name.
    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let socket = UdpSocket::bind((self.address.ip(), 0)).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.connect(self.address).unwrap();
        socket.send(&message::question(1, name, Kind::Txt).unwrap()).unwrap();
        let mut bytes = [0; 4096];
        let length = socket.recv(&mut bytes).unwrap();
        let answer = message::answer(&bytes[..length], 1).unwrap();
        let texts = answer.records.into_iter().filter_map(|record| match record.data {
            Data::Txt(text) => Some(String::from_utf8(text).unwrap()),
            _ => None,
        });
        texts.collect()
    }

    /// The lines of `[acme]` that have records made here, by a key file with this text.
    pub(crate) fn updates(&self, key: &str, more: &str) -> String {
        let file = self.directory.path().join("update.key");
        std::fs::write(&file, key).unwrap();
        let (address, file) = (self.address, file.display());
        format!("[[acme.dns]]\nserver = \"{address}\"\nkey_file = \"{file}\"\n{more}\n")
    }
}

impl Drop for Knot {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}
