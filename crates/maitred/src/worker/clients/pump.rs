//! DOC upstream/pump.rs

use super::Clients;

impl Clients {
    /// Whether the client has yet to take something, over TLS as well: then it is its turn, and not that of who answers.
    pub(in crate::worker) fn has_output(&self, index: u32) -> bool {
        let exchange = self.exchange_of(index);
        exchange.is_some_and(|exchange| exchange.sent < exchange.output.len()) || self.encrypted(index) > 0
    }
}
