//! DOC passed.rs

use super::Requests;
use crate::serve::Segment;
use crate::worker::connection::State;

impl Requests {
    /// A helper has read a piece of a file.
    pub(in crate::worker) fn on_fetched(
        &mut self,
        index: u32,
        serial: u32,
        tail: bool,
        result: std::io::Result<Vec<u8>>,
    ) {
        if !self.is_current(index, serial)
            || !matches!(self.connections[index as usize].state, State::Writing | State::Upstream(_))
        {
            return;
        }
        let exchange = self.exchange(index);
        exchange.awaits_disk = false;
        let pieces = if tail { &mut exchange.tail } else { &mut exchange.segments };
        let bytes = match result {
            Ok(bytes) if !bytes.is_empty() => bytes,
            _ => return self.break_off_file(index),
        };
        if let Some(Segment::File { offset, end, .. }) = pieces.front_mut() {
            *offset += bytes.len() as u64;
            if *offset >= *end {
                pieces.pop_front();
            }
            pieces.push_front(Segment::Bytes(bytes.into()));
        }
        self.progress(index);
        match self.connections[index as usize].state {
            State::Upstream(_) => self.pump_to_client(index),
            _ => self.on_writable(index),
        }
    }
}
