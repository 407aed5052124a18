//! TYPES of send.rs

/// Bytes that are looked for in the page cache, and read in by a helper thread, at a time.
pub(in crate::worker) const RESIDENT_BYTES: u64 = 256 * 1024;

/// What became of one step of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// All of it.
    All,
    /// The turn's share; the socket may take more.
    Share,
    /// The socket is full, or the disk is asked.
    Waits,
    /// The connection cannot be used any more.
    Broken,
}
