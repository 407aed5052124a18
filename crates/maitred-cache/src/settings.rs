//! What a store has.

use std::path::PathBuf;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where the files are. The directory has to exist; no other store and no other program writes there.
    pub directory: PathBuf,
    /// Bytes of its files, counted in blocks of 4 KiB.
    pub bytes_max: u64,
    /// Entries; what its table was made for.
    pub entries_max: u32,
    /// Bytes of hot entries in memory.
    pub memory_bytes_max: u64,
    /// Larger bodies are sent from their files.
    pub inline_bytes_max: u32,
    /// Files that hot entries hold open.
    pub files_max: u32,
}
