//! Request bodies that are too large for a frame: kept in a memory file, or beyond a bound in a file without a name, and
//! passed to the application as a descriptor.
//!
//! A memory file is written here; it takes memory, but no time. A file on a disk is written by a helper thread, and the
//! client is not read from meanwhile: that is the back-pressure of an upload.

use std::fs::File;
use std::io::{self, Write as _};

use rustix::fs::{MemfdFlags, Mode, OFlags};

use super::connection::{Spool, State};
use super::event_loop::Thread;
use super::receive::Stop;
use crate::serve::DiskJob;

impl Thread {
    /// Moves the piece of the body that was decoded last to where the whole is kept. `Some` if that ends the look at the
    /// received bytes.
    pub(super) fn spool_body(&mut self, index: u32) -> Option<Stop> {
        let limits = &self.shared.start.config.limits;
        let (inline, memory) =
            (u64::from(limits.body_inline_bytes_max), u64::from(limits.body_memory_bytes_max));
        let work = self.work(index);
        let bytes = work.spool.as_ref().map_or(0, |spool| spool.bytes) + work.body.len() as u64;
        if work.spool.is_none() && bytes <= inline || work.body.is_empty() {
            return None;
        }
        let expected = bytes.max(work.expected);
        let stored = match &work.spool {
            Some(spool) if spool.on_disk || bytes <= memory => Ok(()),
            _ => self.open_spool(index, expected > memory),
        };
        match stored.and_then(|()| self.append(index)) {
            Ok(true) => None,
            Ok(false) => Some(Stop::Settled(None)),
            Err(error) => Some(self.spool_failed(index, &error)),
        }
    }

    /// Makes the file. What was in a memory file before goes to the disk with the next piece.
    fn open_spool(&mut self, index: u32, on_disk: bool) -> io::Result<()> {
        let file: File = if on_disk {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            rustix::fs::open(&self.shared.start.config.server.spool, flags, Mode::RUSR | Mode::WUSR)?.into()
        } else {
            rustix::fs::memfd_create("maitred-body", MemfdFlags::CLOEXEC)?.into()
        };
        let work = self.work(index);
        if let Some(before) = work.spool.take() {
            let mut whole = vec![0; usize::try_from(before.bytes).unwrap_or(usize::MAX)];
            std::os::unix::fs::FileExt::read_exact_at(&before.file, &mut whole, 0)?;
            whole.append(&mut work.body);
            work.body = whole;
        }
        work.spool = Some(Spool { file, bytes: 0, on_disk });
        Ok(())
    }

    /// Writes the decoded piece, or has it written: false if that is waited for.
    fn append(&mut self, index: u32) -> io::Result<bool> {
        let work = self.work(index);
        let Some(spool) = &mut work.spool else { return Ok(true) };
        spool.bytes += work.body.len() as u64;
        if !spool.on_disk {
            spool.file.write_all(&work.body)?;
            work.body.clear();
            return Ok(true);
        }
        let job = DiskJob::Append { file: spool.file.try_clone()?, bytes: std::mem::take(&mut work.body) };
        if !self.submit(index, job) {
            return Err(io::Error::other("the disk helpers have too much to do"));
        }
        self.enter(index, State::Spooling);
        self.wheel.disarm(index);
        Ok(false)
    }

    fn spool_failed(&mut self, index: u32, error: &io::Error) -> Stop {
        self.limiter.log(self.clock.now, || tracing::error!(%error, "a request body cannot be kept"));
        self.answer_unkept(index);
        Stop::Settled(Some(super::connection::After::Linger))
    }

    /// A piece has been written, or could not be.
    pub(super) fn on_spooled(&mut self, index: u32, failed: Option<&io::Error>) {
        self.enter(index, State::Body);
        if let Some(error) = failed {
            let Stop::Settled(after) = self.spool_failed(index, error) else { return };
            self.send_joined(index, after);
            return self.settle(index, false);
        }
        self.wheel.arm(index, self.clock.now + self.shared.start.config.limits.body_timeout);
        self.settle(index, true);
    }
}
