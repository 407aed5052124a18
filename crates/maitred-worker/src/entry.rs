//! A connection with its socket, and with its places in the tables of its thread: what a connection itself knows nothing of.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::io::ioctl_fionbio;

use super::connection::Connection;
use super::connection::remote::Remote;
use super::connection::wire::Wire;
use crate::handoff::ClientSockets;
use crate::keys::{ConnKey, Table};

/// A connection, its socket, and its places. Kept small: 10,000 idle ones cost little more than their descriptors.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The client's socket. Only this process shuts it down and closes it for good. A stream has none, nor has a QUIC connection.
    pub socket: Option<OwnedFd>,
    /// Tells this connection from an earlier one of the same index.
    pub serial: u32,
    /// Index of the listen entry that it came in by.
    pub listen: u16,
    /// The socket is in the epoll set.
    pub registered: bool,
    /// The connection is looked at in the next turn already, or in the one in which its job is submitted to the disk helpers
    /// anew.
    pub again: bool,
    /// The connection is one of those that its address has.
    pub counted: bool,
    /// An application process has, or had, a copy of the socket.
    pub shared: bool,
    /// Epoll reported that the client has finished sending. The report makes no edge of its own after what came before it.
    pub hung_up: bool,
    /// What its socket is, and by which kind of listener it came in.
    pub kind: SocketKind,
    /// What it is doing.
    pub connection: Connection,
}

/// What the socket of a connection is. One byte for two questions: an idle connection is small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketKind {
    /// A TCP connection of a client, a stream of one, or a socket of this process.
    Client,
    /// The connection of a client on a Unix socket.
    UnixClient,
    /// A TCP connection to the admin listener.
    Admin,
    /// Likewise, on a Unix socket.
    UnixAdmin,
}

impl SocketKind {
    /// By its listener.
    pub(crate) fn new(admin: bool, unix: bool) -> SocketKind {
        match (admin, unix) {
            (false, false) => SocketKind::Client,
            (false, true) => SocketKind::UnixClient,
            (true, false) => SocketKind::Admin,
            (true, true) => SocketKind::UnixAdmin,
        }
    }
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
    pub(crate) fn new(socket: OwnedFd, listen: u16, remote: Option<SocketAddr>, now: Instant) -> Self {
        let connection = Connection::new(Wire::Clear, Remote::new(remote), false, now);
        Entry { socket: Some(socket), registered: false, ..Entry::without_socket(connection, listen) }
    }

    /// A QUIC connection of a client. The address is not known before it is proved.
    pub(crate) fn quic(listen: u16, now: Instant) -> Self {
        let connection = Connection::new(Wire::Quic, Remote::unproved(), true, now);
        Entry::without_socket(connection, listen)
    }

    /// A stream of the connection `parent`.
    pub(crate) fn stream(parent: &Entry, wire: Wire, now: Instant) -> Self {
        let connection = Connection::new(wire, parent.remote, parent.secure, now);
        Entry::without_socket(connection, parent.listen)
    }

    /// Whether it came in by the admin listener.
    pub(crate) fn is_admin(&self) -> bool {
        matches!(self.kind, SocketKind::Admin | SocketKind::UnixAdmin)
    }

    /// Whether its other end could pass descriptors.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.kind, SocketKind::UnixClient | SocketKind::UnixAdmin)
    }

    fn without_socket(connection: Connection, listen: u16) -> Self {
        Entry {
            socket: None,
            serial: 0,
            listen,
            // An entry without a socket has nothing to watch.
            registered: true,
            again: false,
            counted: false,
            shared: false,
            hung_up: false,
            kind: SocketKind::Client,
            connection,
        }
    }
}

impl ClientSockets for Table<ConnKey, Entry> {
    fn client_socket(&self, index: ConnKey) -> Option<BorrowedFd<'_>> {
        let socket = self.get(index)?.socket.as_ref()?;
        // Another application may have made it block, and each is promised that it does not.
        let _ = ioctl_fionbio(socket, true);
        Some(socket.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::SocketType;

    use super::*;
    use crate::keys::{Key as _, SessionKey, conn};
    use crate::testing::sockets;

    #[test]
    fn an_idle_connection_is_small() {
        // The slab has no tag beside it. The timer's entry and what the allocator makes of tables that grow come on top.
        assert!(size_of::<Entry>() <= 152, "{} bytes", size_of::<Entry>());
        assert_eq!(size_of::<Option<Entry>>(), size_of::<Entry>());
    }

    #[test]
    fn a_stream_has_the_client_of_its_connection_and_no_socket() {
        let (socket, _far_end) = sockets(SocketType::STREAM);
        let now = Instant::now();
        let mut parent = Entry::new(socket, 3, "192.0.2.1:1".parse().ok(), now);
        (parent.secure, parent.requests, parent.counted) = (true, 9, true);
        let stream = Entry::stream(&parent, Wire::Stream { session: SessionKey::of(1), stream: 2 }, now);
        assert!(stream.is_stream() && !stream.is_client() && stream.socket.is_none());
        assert!(stream.registered && !stream.counted && !parent.registered, "epoll has nothing to watch");
        assert_eq!((stream.listen, stream.secure, stream.remote.text()), (3, true, "192.0.2.1"));
        assert_eq!((stream.requests, stream.is_idle()), (0, true), "its requests are its own");
        assert!(parent.is_client());
        parent.internal = true;
        assert!(!parent.is_client(), "the other end is a thread");
    }

    #[test]
    fn a_process_gets_the_sockets_of_connections_that_have_one() {
        let (socket, far_end) = sockets(SocketType::STREAM);
        let now = Instant::now();
        let mut table = Table::new();
        let index = table.insert(Entry::new(socket, 0, None, now));
        let stream =
            Entry::stream(&table[index], Wire::Stream { session: SessionKey::of(0), stream: 0 }, now);
        let stream = table.insert(stream);
        rustix::io::write(table.client_socket(index).unwrap(), b"x").unwrap();
        assert_eq!(rustix::io::read(&far_end, &mut [0; 2]), Ok(1), "it is that connection's");
        ioctl_fionbio(table[index].socket.as_ref().unwrap(), false).unwrap();
        let passed = table.client_socket(index).unwrap();
        let flags = rustix::fs::fcntl_getfl(passed).unwrap();
        assert!(flags.contains(rustix::fs::OFlags::NONBLOCK), "whatever another process has made of it");
        assert!(table.client_socket(stream).is_none() && table.client_socket(conn(99)).is_none());
    }
}
