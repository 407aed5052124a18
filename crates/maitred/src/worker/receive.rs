//! TYPES of receive.rs

use super::connection::After;

/// Responses to pipelined requests are joined until there are so many bytes of them.
pub(super) const JOINED_BYTES: usize = 128 * 1024;

/// How the look at the received bytes ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// More bytes are needed.
    Starved,
    /// Responses have to leave before more is read.
    Flush,
    /// The connection waits for something, or has its last response.
    Settled(Option<After>),
    /// What comes is HTTP/2.
    Http2,
    /// What comes is TLS.
    TlsSession,
    /// The connection is to move to this thread, with all that was received, for this pool.
    Moves(u16, usize),
    /// The connection is gone.
    Gone,
}
