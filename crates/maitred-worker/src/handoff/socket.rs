//! What a channel and a link have in common: their sockets are read and written in the same way, and the sockets of clients
//! are not theirs.

use crate::keys::ConnKey;
use std::os::fd::BorrowedFd;

/// Bytes asked of the socket at a time: a DONE has 32, so this is a large batch of them.
pub(crate) const RECEIVE_BYTES: usize = 16 * 1024;

/// Where a channel finds the sockets that it passes.
pub(crate) trait ClientSockets {
    /// The socket of the connection with this index; `None` if there is none.
    fn client_socket(&self, index: ConnKey) -> Option<BorrowedFd<'_>>;
}

/// How a flush ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Everything is in the socket.
    All,
    /// The application process does not read: wait until the socket takes more.
    Blocked,
    /// More descriptors are under way than this user may have open (`ETOOMANYREFS`, PROTOCOL.md section 2): nothing reports when
    /// there is room again.
    Crowded,
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// As many bytes as were asked for, or descriptors with them; there may be more.
    More,
    /// Fewer bytes than were asked for.
    Some,
    /// Nothing, for now.
    Drained,
    /// What came waits for helpers, which look at its descriptors. Nothing more is read until they have.
    Waits,
    /// The other side has closed.
    End,
}
