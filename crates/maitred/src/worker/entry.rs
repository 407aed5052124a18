//! A connection with its socket, and with its places in the tables of its thread: what a connection itself knows nothing of.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use slab::Slab;

use super::connection::Connection;
use super::connection::remote::Remote;
use super::connection::wire::Wire;
use crate::handoff::ClientSockets;

/// A connection, its socket, and its places. Kept small: 10,000 idle ones cost little more than their descriptors.
#[derive(Debug)]
pub struct Entry {
    /// The client's socket. Only this process shuts it down and closes it for good. A stream has none.
    pub socket: Option<OwnedFd>,
    /// Tells this connection from an earlier one of the same index.
    pub serial: u32,
    /// Index of the listen entry that it came in by.
    pub listen: u16,
    /// It is in the epoll set.
    pub registered: bool,
    /// It is looked at in the next turn already, or in the one in which its job is submitted to the disk helpers anew.
    pub again: bool,
    /// It is one of those that its address has.
    pub counted: bool,
    /// An application process has, or had, a copy of the socket.
    pub shared: bool,
    /// Epoll reported that the client has finished sending. That makes no edge of its own after what came before it.
    pub hung_up: bool,
    /// It came in by the admin listener.
    pub admin: bool,
    /// What it is doing.
    pub connection: Connection,
}

impl Deref for Entry {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Entry {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Entry {
    /// A connection on which nothing has happened yet.
    pub fn new(socket: OwnedFd, listen: u16, remote: Option<SocketAddr>, now: Instant) -> Self {
        let connection = Connection::new(Wire::Clear, Remote::new(remote), false, now);
        Entry { socket: Some(socket), registered: false, ..Entry::without_socket(connection, listen) }
    }

    /// A stream of the connection `parent`.
    pub fn stream(parent: &Entry, wire: Wire, now: Instant) -> Self {
        let connection = Connection::new(wire, parent.remote, parent.secure, now);
        Entry::without_socket(connection, parent.listen)
    }

    fn without_socket(connection: Connection, listen: u16) -> Self {
        Entry {
            socket: None,
            serial: 0,
            listen,
            // There is nothing to watch.
            registered: true,
            again: false,
            counted: false,
            shared: false,
            hung_up: false,
            admin: false,
            connection,
        }
    }
}

impl ClientSockets for Slab<Entry> {
    fn client_socket(&self, index: u32) -> Option<BorrowedFd<'_>> {
        self.get(index as usize)?.socket.as_ref().map(|socket| socket.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_small() {
        // The slab has no tag beside it. The timer's entry and what the allocator makes of tables that grow come on top.
        assert!(size_of::<Entry>() <= 152, "{} bytes", size_of::<Entry>());
        assert_eq!(size_of::<Option<Entry>>(), size_of::<Entry>());
    }
}
