//! The descriptor that lines end in, and what happens when it does not take them.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// How often a failing descriptor is reported.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Lines in a buffer.
pub(super) fn lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// A descriptor of any kind: file, pipe, terminal or socket, blocking or not.
#[derive(Debug)]
pub(super) struct Sink {
    descriptor: OwnedFd,
    /// The last write stopped inside a line: the next one starts by ending it, so that no two lines run into one.
    torn: bool,
    complained: Option<Instant>,
    /// Lines lost since the last report.
    lost: u64,
}

impl Sink {
    pub(super) fn new(descriptor: OwnedFd) -> Sink {
        Sink { descriptor, torn: false, complained: None, lost: 0 }
    }

    /// As if the last write had stopped inside a line.
    #[cfg(test)]
    pub(super) fn tear(&mut self) {
        self.torn = true;
    }

    /// Writes whole lines, and waits as long as that takes. Gives how many were lost to an error; the next call tries
    /// again, because disks are emptied.
    pub(super) fn write(&mut self, buffer: &[u8]) -> u64 {
        if self.torn && self.write_all(b"\n").is_ok() {
            self.torn = false;
        }
        let Err((written, error)) = self.write_all(buffer) else {
            return 0;
        };
        let (done, rest) = buffer.split_at(written);
        self.torn |= done.last().is_some_and(|last| *last != b'\n');
        let lost = lines(rest);
        self.lost += lost;
        self.complain(&error);
        lost
    }

    /// As [`io::Write::write_all`], but tells how far it came, and waits where a non-blocking descriptor does not.
    fn write_all(&self, buffer: &[u8]) -> Result<(), (usize, io::Error)> {
        let mut written = 0;
        while let Some(rest) = buffer.get(written..).filter(|rest| !rest.is_empty()) {
            match rustix::io::write(&self.descriptor, rest) {
                Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait().map_err(|error| (written, error))?,
                Err(error) => return Err((written, error.into())),
            }
        }
        Ok(())
    }

    /// Until the descriptor takes bytes again, or fails.
    fn wait(&self) -> io::Result<()> {
        loop {
            match poll(&mut [PollFd::new(&self.descriptor, PollFlags::OUT)], None) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn complain(&mut self, error: &io::Error) {
        if self.complained.is_none_or(|last| last.elapsed() >= COMPLAIN_EVERY) {
            tracing::error!(lost = self.lost, %error, "access log: lines could not be written");
            self.complained = Some(Instant::now());
            self.lost = 0;
        }
    }
}
