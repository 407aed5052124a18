//! DOC passed.rs

use super::Exchanges;
use crate::worker::connection::State;
use crate::worker::upstream::failure::Cause;

impl Exchanges {
    /// There is no room for the rest of a response that comes through a relay.
    pub(in crate::worker) fn end_short(&mut self, index: u32) {
        match self.attempt_of(index).is_some_and(|attempt| attempt.filter.head_written()) {
            true => self.abort(index),
            false => self.refuse_upstream(index, 503),
        }
    }

    /// A file that a process has returned is shorter than it said, or cannot be read.
    pub(in crate::worker) fn break_off_file(&mut self, index: u32) {
        match self.connections[index as usize].state {
            State::Upstream(_) => {
                self.row.files_broken.add(1);
                self.fail_upstream(
                    index,
                    Cause::Bad,
                    "it returned a file that is shorter than it said, or that cannot be read",
                );
            }
            _ => {
                self.note_broken_file(index);
                self.abort(index);
            }
        }
    }
}
