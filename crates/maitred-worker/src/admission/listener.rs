//! A socket that connections are accepted from.

use std::os::fd::OwnedFd;

/// A listening socket, for one thread of its bucket.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The socket; every thread of the bucket has a duplicate of its own.
    pub socket: OwnedFd,
    /// Index of the listen entry.
    pub listen: u16,
    /// Whether it is the admin listener.
    pub admin: bool,
    /// The kernel hands a connection over together with its first bytes, so that reading at once is worth a try.
    pub deferred: bool,
    /// The other threads that accept from the same bucket.
    pub peers: Vec<u16>,
    /// How many connections to try for in one turn: grows while they keep coming, so that a lone one costs no
    /// second accept.
    pub(crate) quota: u32,
}

impl Listener {
    /// A listener that expects connections one by one.
    pub(crate) fn new(socket: OwnedFd, listen: u16, admin: bool, deferred: bool, peers: Vec<u16>) -> Self {
        Listener { socket, listen, admin, deferred, peers, quota: 1 }
    }
}
