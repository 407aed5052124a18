//! What has become of the datagrams.

use serde::Serialize;

/// Counts of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Clients, by their addresses.
    pub clients: u64,
    /// Datagrams of clients for which there was no further socket.
    pub refused: u64,
    /// How often a client's datagrams have gone on from another port.
    pub rebound: u64,
    /// From clients to the server.
    pub to_server: DirectionCounts,
    /// From the server to clients.
    pub to_client: DirectionCounts,
}

/// Counts of one direction, in datagrams unless the name says bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DirectionCounts {
    /// What has come.
    pub received: u64,
    /// The same in bytes.
    pub received_bytes: u64,
    /// What was passed on, copies included.
    pub sent: u64,
    /// The same in bytes.
    pub sent_bytes: u64,
    /// Lost at random.
    pub lost: u64,
    /// Larger than the MTU.
    pub too_large: u64,
    /// Found no room in the queue.
    pub overflowed: u64,
    /// Made late.
    pub reordered: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Came with an ECN mark.
    pub marked: u64,
    /// Had their mark cleared.
    pub bleached: u64,
    /// Not taken by the kernel.
    pub failed: u64,
}
