//! Request bodies that are too large for a frame: kept in a memory file, or beyond a bound in a file without a name, and
//! passed to the application as a descriptor.
//!
//! A memory file is written here; it takes memory, but no time. A file on a disk is written by a helper thread, and the
//! client is not read from meanwhile: that is the back-pressure of an upload.
//!
//! All bodies together have a bound in memory, beyond which they go to the disk, and one on the disk, beyond which they are
//! refused: with 503, because nothing is wrong with the request, and another server may have room. A disk that is full before
//! that is 507 (RFC 4918 section 11.5): other uploads that end need not change that.
//!
//! What a body takes up of either bound is a `Permit` of a [`Budget`](maitred_base::budget::Budget), which goes where its file
//! goes.

use std::fs::File;
use std::io::{self, Write as _};

use rustix::fs::{MemfdFlags, Mode, OFlags};

use super::Requests;
use crate::connection::State;
use crate::connection::spool::Spool;
use crate::keys::ConnKey;
use crate::step::Stop;
use maitred_files::DiskJob;
use maitred_files::exchange::Field;

/// A body without room may be sent again when other uploads have ended. The end of uploads takes longer than a second.
const RETRY_LATER: &[Field<'static>] = &[Field::new("Retry-After", "10")];

/// Why a body cannot be kept.
enum Unkept {
    /// Other bodies use the whole budget; the name of the bound.
    NoRoom(&'static str),
    /// An error of the system.
    Failed(io::Error),
}

/// The budget for bodies on the disk is used up.
const NO_SPACE: Unkept = Unkept::NoRoom("bodies_disk_bytes_max");

/// The process has no descriptors for the file of the body.
const NO_DESCRIPTOR: Unkept = Unkept::NoRoom("RLIMIT_NOFILE");

impl<E: Into<io::Error>> From<E> for Unkept {
    fn from(error: E) -> Unkept {
        Unkept::Failed(error.into())
    }
}

impl Requests {
    /// Moves the piece of the body that was decoded last to where the whole is kept. `Some` if that ends the look at the
    /// received bytes.
    pub(crate) fn spool_body(&mut self, index: ConnKey) -> Option<Stop> {
        let inline = u64::from(self.shared.start.config.limits.body_inline_bytes_max);
        let exchange = self.exchange(index);
        let bytes =
            exchange.body.spool.as_ref().map_or(0, |spool| spool.bytes) + exchange.body.content.len() as u64;
        if exchange.body.spool.is_none() && bytes <= inline || exchange.body.content.is_empty() {
            return None;
        }
        match self.make_room(index, bytes).and_then(|()| self.append(index)) {
            Ok(true) => None,
            Ok(false) => Some(Stop::Settled(None)),
            Err(error) => Some(self.spool_failed(index, &error)),
        }
    }

    /// Finds room for a body of which this many bytes have come: in memory if it and the bodies there allow that, otherwise on
    /// the disk.
    fn make_room(&mut self, index: ConnKey, bytes: u64) -> Result<(), Unkept> {
        let own = self.overrides(index).and_then(|overrides| overrides.limits.body_memory_bytes_max);
        let (shared, exchange) = (self.shared, self.exchange(index));
        let in_memory = own.unwrap_or(shared.start.config.limits.body_memory_bytes_max.into());
        let small = bytes.max(exchange.body.incoming.announced()) <= in_memory;
        let more = exchange.body.content.len() as u64;
        match &mut exchange.body.spool {
            Some(spool) if spool.on_disk => return spool.kept.grow(more).then_some(()).ok_or(NO_SPACE),
            Some(spool) => {
                if small && spool.kept.grow(more) {
                    return Ok(());
                }
            }
            None => {
                let mut kept = shared.bodies_in_memory.begin();
                if small && kept.grow(bytes) {
                    let held = shared.descriptors.take(1).ok_or(NO_DESCRIPTOR)?;
                    let file = rustix::fs::memfd_create("maitred-body", MemfdFlags::CLOEXEC)?.into();
                    exchange.body.spool =
                        Some(Box::new(Spool { file, bytes: 0, on_disk: false, kept, held }));
                    return Ok(());
                }
            }
        }
        self.move_to_disk(index, bytes)
    }

    /// Continues in a file. What was in a memory file before goes there with the next piece.
    fn move_to_disk(&mut self, index: ConnKey, bytes: u64) -> Result<(), Unkept> {
        let (shared, exchange) = (self.shared, self.exchange(index));
        let mut kept = shared.bodies_on_disk.begin();
        // What is announced and cannot find room to its end is better refused now than half-way.
        if !shared.bodies_on_disk.has(bytes.max(exchange.body.incoming.announced())) || !kept.grow(bytes) {
            return Err(NO_SPACE);
        }
        let held = shared.descriptors.take(1).ok_or(NO_DESCRIPTOR)?;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file: File = rustix::fs::open(&shared.start.config.server.spool, flags, mode)?.into();
        if let Some(before) = exchange.body.spool.take() {
            let mut whole = vec![0; usize::try_from(before.bytes).unwrap_or(usize::MAX)];
            std::os::unix::fs::FileExt::read_exact_at(&before.file, &mut whole, 0)?;
            whole.append(&mut exchange.body.content);
            exchange.body.content = whole;
        }
        exchange.body.spool = Some(Box::new(Spool { file, bytes: 0, on_disk: true, kept, held }));
        Ok(())
    }

    /// Writes the decoded piece, or has it written: false if that is waited for.
    fn append(&mut self, index: ConnKey) -> Result<bool, Unkept> {
        let exchange = self.exchange(index);
        let Some(spool) = &mut exchange.body.spool else { return Ok(true) };
        spool.bytes += exchange.body.content.len() as u64;
        if !spool.on_disk {
            spool.file.write_all(&exchange.body.content)?;
            exchange.body.content.clear();
            return Ok(true);
        }
        let job = DiskJob::Append {
            file: spool.file.try_clone()?,
            bytes: std::mem::take(&mut exchange.body.content),
        };
        if !self.submit(index, job) {
            return Err(io::Error::other("the disk helpers have too much to do").into());
        }
        self.enter(index, State::Spooling);
        self.pause_body(index);
        Ok(false)
    }

    fn spool_failed(&mut self, index: ConnKey, error: &Unkept) -> Stop {
        // The room is given back before the client hears of it, for the next upload.
        self.exchange(index).body.spool = None;
        match error {
            Unkept::NoRoom(bound) => {
                self.row.bodies_refused.add(1);
                self.log_limited(|| {
                    tracing::warn!("a request body is refused: {bound} is reached");
                });
                self.refuse_body(index, 503, RETRY_LATER)
            }
            Unkept::Failed(error) if is_full(error) => {
                self.row.bodies_refused.add(1);
                let place = self.shared.start.config.server.spool.display();
                self.log_limited(
                    || tracing::error!(%error, "507: a request body finds no room in {place} (`spool`)"),
                );
                self.refuse_body(index, 507, RETRY_LATER)
            }
            Unkept::Failed(error) => {
                self.log_limited(|| tracing::error!(%error, "a request body cannot be kept"));
                self.refuse_body(index, 500, &[])
            }
        }
    }

    /// A piece has been written, or could not be.
    pub(crate) fn on_spooled(&mut self, index: ConnKey, result: io::Result<()>) {
        self.enter(index, State::Body);
        if let Err(error) = result {
            let Stop::Settled(after) = self.spool_failed(index, &error.into()) else { return };
            self.send_joined(index, after);
            return self.settle(index, false);
        }
        self.arm_body(index);
        self.settle(index, true);
    }
}

/// Whether it is the disk, or the share of it that this account may use.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests;
