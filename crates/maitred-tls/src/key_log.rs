//! `keylog`: session secrets in the format of NSS's key log, for debugging.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustls::KeyLog;

use maitred_base::pki::hex;

/// An open file, which was opened for appending.
#[derive(Debug)]
pub struct KeyLogFile {
    file: File,
}

impl KeyLogFile {
    /// Lines are appended to this file.
    pub fn new(file: OwnedFd) -> KeyLogFile {
        KeyLogFile { file: file.into() }
    }
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        // One write, so that the lines of several threads do not mix; a full disk is no reason to refuse a client.
        let _ = (&self.file).write(line.as_bytes());
    }
}
