//! DOC drain.rs

use super::Exchanges;
use crate::worker::connection::State;

impl Exchanges {
    /// Whether the client still takes what the kernel has of a response, if so slowly that there was no room for more, nor for
    /// what TLS has encrypted. It has its time anew, then, from when the last bytes left.
    pub(in crate::worker) fn is_taken_slowly(&mut self, index: u32) -> bool {
        let Some(connection) = self.connections.get(index as usize) else { return false };
        let is_writing = match connection.state {
            State::Writing => true,
            State::Upstream(_) => self.waits_for_client(index),
            _ => false,
        };
        let timeout = self.load.write_timeout;
        let last = self.socket(index).filter(|_| is_writing).and_then(maitred_sys::delivery::last_left);
        let Some(left) = last.and_then(|ago| timeout.checked_sub(ago)).filter(|left| !left.is_zero()) else {
            return false;
        };
        self.arm_in(index, left);
        true
    }
}
