//! How much memory a connection holds of what a client, or an upstream, has yet to take.

use crate::connection::{Connection, Exchange};
use crate::entry::Entry;
use crate::upstream::Attempt;
use maitred_base::budget::Permit;

impl Connection {
    /// Whether a part of a response is held here, or of what is for an upstream.
    pub(crate) fn holds_something(&self) -> bool {
        self.exchange.as_deref().is_some_and(Exchange::holds_something) || self.forwarded_bytes() > 0
    }

    /// Memory of what an HTTP server, or the other end of a tunnel, has not taken.
    fn forwarded_bytes(&self) -> usize {
        self.attempt().map_or(0, Attempt::unsent_bytes)
    }

    /// Memory that is held meanwhile.
    pub(crate) fn unsent_bytes(&self) -> usize {
        let exchange = self.exchange.as_deref().map_or(0, Exchange::unsent_bytes);
        size_of::<Entry>() + exchange + self.forwarded_bytes()
    }
}

impl Exchange {
    fn holds_something(&self) -> bool {
        !self.outgoing.is_empty() || self.outgoing.has_returned()
    }

    fn unsent_bytes(&self) -> usize {
        let own = size_of::<Exchange>() + self.capacity();
        own + self.outgoing.segment_bytes()
            + self.outgoing.returned.as_ref().map_or(0, |returned| returned.memory())
    }

    /// What it has in the budget.
    pub(crate) fn counted(&self) -> u64 {
        self.outgoing.unsent.as_ref().map_or(0, Permit::taken)
    }
}
