//! What a response is stored by.

use super::entry::Marks;
use super::key::Key;

/// What a response is stored by: made when it is asked for, so that it is not stored if it is purged while it is on its way.
#[derive(Debug, Clone)]
pub struct Fetch {
    pub(super) key: Key,
    pub(super) stamp: u64,
    pub(super) generation: u64,
    pub(super) tested: u64,
}

impl Fetch {
    /// The key of the fetch.
    pub fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn marks(&self, file: u64) -> Marks {
        let (stamp, generation, tested) = (self.stamp, self.generation, self.tested);
        Marks { hash: self.key.hash, file, stamp, generation, tested }
    }
}
