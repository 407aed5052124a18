//! How much memory an exchange holds of what a client, or an upstream, has yet to take.

use crate::budget::Permit;
use crate::serve::Segment;
use crate::worker::connection::Exchange;
use crate::worker::connection::tunnel::Tunnel;
use crate::worker::entry::Entry;
use crate::worker::upstream::Attempt;

impl Exchange {
    /// Whether a part of a response is held here, or of what is for an upstream.
    pub(in crate::worker) fn holds_something(&self) -> bool {
        !self.outgoing.is_empty() || !self.tail.is_empty() || self.forwarded_bytes() > 0
    }

    /// Memory of what an HTTP server, or the other end of a tunnel, has not taken.
    fn forwarded_bytes(&self) -> usize {
        let request = self.attempt.as_deref().map_or(0, Attempt::unsent_bytes);
        request + self.tunnel.as_deref().map_or(0, Tunnel::unsent_bytes)
    }

    /// Memory that is held meanwhile.
    pub(in crate::worker) fn unsent_bytes(&self) -> usize {
        let tail = self.tail_bytes + self.tail.len() * size_of::<Segment>();
        let own = size_of::<Entry>() + size_of::<Exchange>() + self.capacity();
        own + self.outgoing.segment_bytes() + tail + self.forwarded_bytes()
    }

    /// What it has in the budget.
    pub(in crate::worker) fn counted(&self) -> u64 {
        self.unsent.as_ref().map_or(0, Permit::taken)
    }
}
