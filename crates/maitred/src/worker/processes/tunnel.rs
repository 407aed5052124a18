//! DOC tunnel.rs

use super::Processes;
use crate::worker::agenda::Next;

impl Processes {
    /// The process keeps its end of a relay for good. The 101 may come before DETACH, or behind it.
    pub(in crate::worker) fn detach_relay(&mut self, key: u32) {
        let Some(relay) = self.pools.relays.get_mut(key as usize) else { return };
        // It is not used again, and nobody is told to forget it.
        (relay.detached, relay.orphan, relay.spoilt) = (true, true, true);
        let Some(index) = relay.index else { return self.drop_relay(key) };
        self.row.detached.add(1);
        self.follow_up(index, Next::Detached);
    }

    /// Whether the process has kept its end of this relay.
    pub(in crate::worker) fn is_detached(&self, relay: u32) -> bool {
        self.pools.relays.get(relay as usize).is_some_and(|relay| relay.detached)
    }
}
