//! TYPES of links.rs

/// What is said at the user's side of the end of a link.
pub(super) const LINK_ENDED: &str = "the link to the worker process that has its channel has ended";

/// Whether the next frame of a channel is a word of its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// It is not, or not yet known to be.
    No,
    /// It was, and has so many bytes.
    Taken(usize),
    /// It is not there as a whole.
    Partial,
    /// It waits for helpers that look at its descriptor.
    Waits,
}
