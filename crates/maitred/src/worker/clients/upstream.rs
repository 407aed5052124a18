//! DOC upstream/mod.rs

use super::Clients;
use crate::worker::connection::State;
use crate::worker::upstream::{Attempt, Source};

impl Clients {
    /// Where the response of a connection comes from.
    pub(in crate::worker) fn source_of(&self, index: u32) -> Option<Source> {
        match self.connections.get(index as usize)?.state {
            State::Upstream(source) => Some(source),
            _ => None,
        }
    }

    /// The attempt that a connection waits for.
    pub(in crate::worker) fn attempt_of(&self, index: u32) -> Option<&Attempt> {
        self.exchange_of(index)?.attempt.as_deref()
    }
}
