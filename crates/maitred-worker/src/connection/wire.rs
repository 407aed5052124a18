//! What carries the bytes of a connection, and what became of one step of receiving or sending.

use crate::keys::{SessionKey, TlsKey};

/// Bytes of a file that are read at a time where they cannot go to the socket by themselves: four TLS records or frames.
pub(crate) const FILE_PIECE_BYTES: usize = 64 * 1024;

/// What carries the bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// The socket, with the bytes as they are.
    Clear,
    /// The socket, by TLS.
    Tls {
        /// Key of the TLS session.
        session: TlsKey,
    },
    /// Datagrams of a QUIC connection, by a socket that many have. All that is received and sent is on its streams.
    Quic,
    /// A stream of an HTTP/2 or HTTP/3 connection; there is no socket.
    Stream {
        /// Key of the session.
        session: SessionKey,
        /// The stream's key there.
        stream: u32,
    },
}

/// What became of one step of receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// Bytes. With `more`, there may be others that no event will announce.
    Bytes {
        /// Whether to look again.
        more: bool,
    },
    /// The client has finished sending.
    End,
    /// None for now.
    Nothing,
    /// The connection is of no use any more.
    Broken,
}

/// What follows bytes that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// More of the same response, at once.
    More,
    /// Not known yet, or another response.
    Perhaps,
    /// Nothing: the connection ends with them.
    End,
}

/// What became of one step of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All of it.
    All,
    /// The turn's share; the socket may take more.
    Share,
    /// The socket is full, or a disk helper reads.
    Waits,
    /// The connection cannot be used any more.
    Broken,
}
