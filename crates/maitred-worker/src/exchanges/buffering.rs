//! What is kept of a response for a client that is slower than its upstream (`response_buffering`), so that the upstream is free
//! early. Nothing is held back: it is kept only because the client's socket is full.
//!
//! | kept so far | what the upstream sends next |
//! |---|---|
//! | less than `memory` | behind it, in memory |
//! | more, with nothing or less than `disk` in the file | at the end of the file, by a disk helper; nothing is read meanwhile |
//! | `memory` and `disk`, or the memory of the process is short | is not read |
//! | the file cannot be written, or has no room | the same, until the client has everything |
//!
//! The end of the upstream's response frees the upstream, and the connection goes on as with any response that is sent.

use std::fs::File;
use std::io;
use std::rc::Rc;

use rustix::fs::{Mode, OFlags};

use super::Exchanges;
use crate::connection::State;
use crate::connection::outgoing::Overflow;
use crate::inbox::Message;
use crate::keys::{ConnId, ConnKey};
use maitred_base::residency::OpenFile;
use maitred_config::ResponseBuffering;
use maitred_files::{DiskJob, Segment, ServedFile};

impl Exchanges {
    /// Whether more may be read from the upstream, although the client has yet to take what was read before.
    pub(super) fn runs_ahead(&self, index: ConnKey) -> bool {
        let room = self.buffering(index);
        if room == ResponseBuffering::OFF || self.is_short_of_memory() || self.is_tunnel(index) {
            return false;
        }
        let Some(exchange) = self.exchange_of(index) else { return false };
        match &exchange.outgoing.overflow {
            // Pieces of another making end the response.
            None => {
                let fits = exchange.outgoing.left() < room.memory.into();
                exchange.outgoing.segments.is_empty() && (fits || room.disk > 0)
            }
            Some(overflow) => !overflow.full && overflow.writing.is_none() && overflow.end < room.disk,
        }
    }

    /// Whether a helper writes what was read last.
    pub(super) fn is_spilling(&self, index: ConnKey) -> bool {
        let overflow = self.exchange_of(index).and_then(|exchange| exchange.outgoing.overflow.as_deref());
        overflow.is_some_and(|overflow| overflow.writing.is_some())
    }

    fn buffering(&self, index: ConnKey) -> ResponseBuffering {
        self.overrides(index).and_then(|overrides| overrides.response_buffering).unwrap_or_default()
    }

    /// Keeps bytes that the client does not take now.
    pub(super) fn keep_for_client(&mut self, index: ConnKey, bytes: &[u8]) {
        let room = self.buffering(index);
        let outgoing = &mut *self.exchange(index).outgoing;
        let fits = outgoing.left() + bytes.len() as u64 <= room.memory.into();
        if outgoing.overflow.is_none() && (fits || outgoing.is_empty() || room.disk == 0) {
            return outgoing.append(bytes);
        }
        if let Err(error) = self.spill(index, bytes) {
            self.keep_instead(index, bytes, &error);
        }
    }

    /// Has bytes written to the file.
    fn spill(&mut self, index: ConnKey, bytes: &[u8]) -> io::Result<()> {
        let shared = self.shared;
        let connection = self.id(index);
        let outgoing = &mut *self.exchange(index).outgoing;
        if outgoing.overflow.is_none() {
            let held = shared.descriptor()?;
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC;
            let file = rustix::fs::open(&shared.start.config.server.spool, flags, Mode::RUSR | Mode::WUSR)?;
            let kept = shared.bodies_on_disk.begin();
            let file = Rc::new(ServedFile::Own(OpenFile::new(file)));
            outgoing.overflow =
                Some(Box::new(Overflow { file, end: 0, writing: None, full: false, kept, _held: held }));
        }
        let Some(overflow) = outgoing.overflow.as_deref_mut() else { return Ok(()) };
        if overflow.full || !overflow.kept.grow(bytes.len() as u64) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = File::from(rustix::io::fcntl_dupfd_cloexec(&*overflow.file, 0)?);
        let job = DiskJob::Append { file, bytes: bytes.to_vec() };
        overflow.writing = Some(bytes.into());
        let inbox = &shared.inboxes[self.number];
        let done = Box::new(move |result| inbox.send(Message::Spilled { connection, result }));
        self.row.disk_waits.add(1);
        shared.disk.submit(job, done).map_err(|_| io::Error::other("the disk helpers have too much to do"))
    }

    /// Bytes cannot be written to the file: they stay in memory, and nothing more is read until the client has everything.
    fn keep_instead(&mut self, index: ConnKey, bytes: &[u8], error: &io::Error) {
        self.log_limited(
            || tracing::warn!(%error, "a response is not kept on the disk (response_buffering)"),
        );
        let outgoing = &mut *self.exchange(index).outgoing;
        if let Some(overflow) = outgoing.overflow.as_deref_mut() {
            (overflow.full, overflow.writing) = (true, None);
        }
        match outgoing.segments.is_empty() {
            true => outgoing.append(bytes),
            false => outgoing.segments.push_back(Segment::Bytes(bytes.into())),
        }
    }

    /// A helper has written what was read last, or could not.
    pub(crate) fn on_spilled(&mut self, connection: ConnId, result: io::Result<()>) {
        let index = connection.key;
        if !self.is_current(connection) {
            return;
        }
        let Some(outgoing) = self.exchange(index).outgoing.existing() else { return };
        let Some(overflow) = outgoing.overflow.as_deref_mut() else { return };
        let Some(bytes) = overflow.writing.take() else { return };
        match result {
            Ok(()) => outgoing.note_spilled(bytes.len() as u64),
            Err(error) => self.keep_instead(index, &bytes, &error),
        }
        if matches!(self.connections[index].state, State::Upstream(_)) {
            self.pump_to_client(index);
        }
    }
}
