//! DOC upstream/feed.rs

use super::Processes;

impl Processes {
    /// The rest of the body will not come: a process that reads it must not wait for it.
    pub(in crate::worker) fn end_feed(&self, relay: u32) {
        if let Some(relay) = self.pools.relays.get(relay as usize) {
            let _ = rustix::net::shutdown(relay.socket(), rustix::net::Shutdown::Write);
        }
    }
}
