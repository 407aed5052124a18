//! A relay: a socketpair that an application process writes a response into, and that Maitred reads it from.
//!
//! Making a pair and passing one end costs more than answering a small request, so a pair belongs to one application
//! process for good, and is used for one response after the other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::budget::Permit;
use crate::serve::passed::{Lane, Passed};

/// Set in the numbers of relays, so that they differ from those of connections.
pub const RELAY_BIT: u32 = 1 << 31;

/// One relay, seen from Maitred's end.
#[derive(Debug)]
pub struct Relay {
    /// Key of the channel of the process that has the far end.
    pub channel: u32,
    /// Index of the connection whose response comes through it; `None` while it is free, or when the client has gone.
    pub index: Option<u32>,
    /// Responses that came through it, the present one included; wraps around.
    pub uses: u32,
    /// It is in the epoll set: its response is slow enough, or long enough, to be sent on before it is whole.
    pub watched: bool,
    /// Something may be in it that belongs to no response any more: it is not used again.
    pub spoilt: bool,
    /// The process is not this thread's any more; what it has written is still on its way to the client.
    pub orphan: bool,
    /// The process has taken it over for good, to speak another protocol with the client.
    pub detached: bool,
    /// Epoll said that the process has finished sending.
    pub hung_up: bool,
    /// Epoll said that the process has closed it.
    pub gone: bool,
    /// Closed by helpers: what nobody has received from it is closed with it.
    socket: Passed,
}

impl Relay {
    /// A new pair: the relay, and its far end. Ours does not block; the far end does neither, as a client's socket. `lane` is
    /// that of the process that gets the far end.
    ///
    /// # Errors
    /// What socketpair(2) says.
    pub fn new(channel: u32, held: Permit, lane: Lane) -> io::Result<(Relay, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, far_end) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let relay = Relay {
            channel,
            index: None,
            uses: 0,
            watched: false,
            spoilt: false,
            orphan: false,
            detached: false,
            hung_up: false,
            gone: false,
            socket: Passed::own(socket, Some(held), lane),
        };
        Ok((relay, far_end))
    }

    /// The way to the helpers for what comes from the process.
    pub fn lane(&self) -> &Lane {
        self.socket.lane()
    }

    /// Our end.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
