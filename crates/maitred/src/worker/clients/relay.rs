//! DOC upstream/relay.rs

use super::Clients;
use crate::worker::upstream::relay::Handed;

impl Clients {
    /// What the attempt of a connection has of its process.
    pub(in crate::worker) fn handed_mut(&mut self, index: u32) -> Option<&mut Handed> {
        self.exchange(index).attempt.as_deref_mut()?.handed_mut()
    }
}
