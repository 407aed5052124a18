//! DOC channels.rs

use super::Requests;
use crate::worker::connection::After;

impl Requests {
    /// The connection is Maitred's again, and its response is out.
    pub(in crate::worker) fn reclaim_connection(&mut self, index: u32, after: After) {
        let exchange = self.exchange(index);
        let input = std::mem::take(&mut exchange.input);
        exchange.reset();
        exchange.input = input;
        self.finish(index, after);
        if after != After::Keep {
            return;
        }
        let more = self.has_input(index);
        self.settle(index, more);
    }
}
