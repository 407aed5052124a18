//! Errors that a disk has, and processes that are killed, on purpose.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use rustix::io::Errno;

/// After so many operations of the disk: nothing, for 0. The last one may be done by half.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    left: AtomicU64,
    kind: AtomicU64,
    part: AtomicU64,
}

/// What happens then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// One operation fails, with this error.
    Once(Errno),
    /// All of them fail from then on: the process has been killed.
    Killed,
}

impl Faults {
    /// Has the operation fail that comes after so many others. Of what it writes, so many bytes are written.
    pub(crate) fn plan(&self, after: u64, fault: Fault, part: u64) {
        self.part.store(part, SeqCst);
        self.kind.store(if let Fault::Once(errno) = fault { errno.raw_os_error() as u64 } else { 0 }, SeqCst);
        self.left.store(after + 1, SeqCst);
    }

    /// Whether the process counts as killed.
    pub(crate) fn is_killed(&self) -> bool {
        self.left.load(SeqCst) == u64::MAX
    }

    pub(super) fn step(&self) -> io::Result<()> {
        let left = self.left.load(SeqCst);
        match left {
            0 => return Ok(()),
            u64::MAX => return Err(io::Error::other("killed")),
            1 => {}
            _ => {
                self.left.store(left - 1, SeqCst);
                return Ok(());
            }
        }
        match self.kind.load(SeqCst) as i32 {
            0 => {
                self.left.store(u64::MAX, SeqCst);
                Err(io::Error::other("killed"))
            }
            errno => {
                self.left.store(0, SeqCst);
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }

    /// What is written of these bytes before the error. Of a process that was killed already, nothing.
    pub(super) fn part_of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let part = self.part.swap(0, SeqCst) as usize;
        bytes.get(..part.min(bytes.len())).unwrap_or_default()
    }
}
