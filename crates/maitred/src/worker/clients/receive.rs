//! DOC receive.rs

use super::Clients;

impl Clients {
    /// Whether something was received that was not acted on: bytes, or the end of a body.
    pub(in crate::worker) fn has_input(&self, index: u32) -> bool {
        let exchange =
            self.connections.get(index as usize).and_then(|connection| connection.exchange.as_deref());
        exchange.is_some_and(|exchange| !exchange.input.is_empty()) || self.is_content_ended(index)
    }
}
