//! What disk helpers have read, or written, for a request or its response.

use super::Requests;
use crate::connection::State;
use crate::exchanges::send::RESIDENT_BYTES;
use crate::keys::ConnId;
use maitred_files::Segment;

impl Requests {
    /// A helper has read a piece of a file.
    pub(crate) fn on_fetched(&mut self, connection: ConnId, tail: bool, result: std::io::Result<Vec<u8>>) {
        let index = connection.key;
        if !self.is_current(connection)
            || !matches!(self.connections[index].state, State::Writing | State::Upstream(_))
        {
            return;
        }
        let outgoing = &mut *self.exchange(index).outgoing;
        outgoing.awaits_disk = false;
        let pieces = if tail { &mut outgoing.returned().pieces } else { &mut outgoing.segments };
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
        match self.connections[index].state {
            State::Upstream(_) => self.pump_to_client(index),
            _ => self.on_writable(index),
        }
    }

    /// Submits again the jobs that the disk helpers had no room for.
    pub(crate) fn retry_disk(&mut self) {
        if self.load.postponed_until.is_some_and(|at| at <= self.clock.now) {
            self.load.postponed_until = None;
            self.exchanges
                .processes
                .clients
                .base
                .again
                .append(&mut self.exchanges.processes.clients.load.postponed);
        }
    }

    pub(crate) fn on_disk_done(&mut self, connection: ConnId, result: std::io::Result<()>) {
        let index = connection.key;
        if !self.is_current(connection) {
            return;
        }
        let now = self.clock.now;
        match self.connections[index].state {
            // Whether a read went well shows when it is tried again.
            State::Disk => self.resume(index),
            State::Spooling => self.on_spooled(index, result),
            State::Writing | State::Upstream(_) => {
                let outgoing = &mut *self.exchange(index).outgoing;
                outgoing.awaits_disk = false;
                // What was read is taken to be there: to ask again could go on for ever on a machine short of memory.
                if let Some(Segment::File { file, offset, end }) = outgoing.segments.front() {
                    outgoing.resident_until = (*offset + RESIDENT_BYTES).min(*end);
                    outgoing.resident_at = Some(now);
                    if result.is_ok() {
                        file.was_read(*offset, outgoing.resident_until - *offset, now);
                    }
                }
                self.progress(index);
                match self.connections[index].state {
                    State::Upstream(_) => self.pump_to_client(index),
                    _ => self.on_writable(index),
                }
            }
            _ => {}
        }
    }
}
