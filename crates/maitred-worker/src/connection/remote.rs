//! The client's address.

use std::io::Write as _;
use std::net::SocketAddr;

/// The client's address, with its text form made once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remote {
    /// The address; `None` on a Unix socket, and of a client that has not proved it.
    pub address: Option<SocketAddr>,
    text: [u8; Remote::TEXT_BYTES_MAX],
    len: u8,
}

impl Remote {
    /// Eight groups of four digits and what is between them. The longer form, with an IPv4 address at its end, is only
    /// written of mapped addresses (RFC 5952 section 5), which are shown as IPv4 addresses here.
    const TEXT_BYTES_MAX: usize = 39;

    /// The address of a new connection.
    pub(crate) fn new(address: Option<SocketAddr>) -> Self {
        let mut remote = Remote { address, text: [0; Remote::TEXT_BYTES_MAX], len: 0 };
        let mut room = &mut remote.text[..];
        // No address runs out of room here.
        let _ = match address {
            Some(address) => write!(room, "{}", address.ip().to_canonical()),
            None => write!(room, "unix:"),
        };
        remote.len = (Remote::TEXT_BYTES_MAX - room.len()) as u8;
        remote
    }

    /// The address of a client which has not proved where it is: no address counts, and none is logged.
    pub(crate) fn unproved() -> Self {
        let mut text = [0; Remote::TEXT_BYTES_MAX];
        text[0] = b'-';
        Remote { address: None, text, len: 1 }
    }

    /// The IP address without port, as logs show it.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(self.bytes()).unwrap_or("-")
    }

    /// The same, for those that write it once per request: the text is not checked each time.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.text.get(..usize::from(self.len)).unwrap_or_default()
    }
}
