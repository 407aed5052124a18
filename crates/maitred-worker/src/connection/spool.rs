//! Bodies of requests that are too large for memory.

use maitred_base::budget::Permit;

/// A body in a file without a name.
#[derive(Debug)]
pub(crate) struct Spool {
    /// The file, to be read from its start.
    pub file: std::fs::File,
    /// The length of the file.
    pub bytes: u64,
    /// Whether it is on a disk, so that writing to it may wait.
    pub on_disk: bool,
    /// The bytes of the file in the budget of memory or disk.
    pub kept: Permit,
    /// The descriptor of the file in the budget of descriptors.
    pub held: Permit,
}
