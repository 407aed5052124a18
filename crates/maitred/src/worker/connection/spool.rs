//! Bodies of requests that are too large for memory.

use crate::budget::Permit;

/// A body in a file without a name.
#[derive(Debug)]
pub struct Spool {
    /// The file, to be read from its start.
    pub file: std::fs::File,
    /// Its length.
    pub bytes: u64,
    /// Whether it is on a disk, so that writing to it may wait.
    pub on_disk: bool,
    /// What it takes up.
    pub kept: Permit,
    /// Its place among the descriptors.
    pub held: Permit,
}
