//! Standard error, which is written without ever waiting: neither the event loops nor the master may stand still because a pipe
//! is not read, or a terminal is stopped. What is not taken is dropped and counted, and the next line that is taken says so.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What a pipe that poll(2) calls writable takes at once without waiting (`PIPE_BUF`, pipe(7)).
const PIECE_BYTES: usize = 4096;

/// For the subscriber: one write is one line.
#[derive(Debug)]
pub(super) struct Stderr;

impl io::Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a line, or counts it. There is no place to report that standard error cannot be written.
pub(super) fn put(line: &[u8]) {
    static STATE: Mutex<Lines> = Mutex::new(Lines { torn: false, lost: 0 });
    let stderr = io::stderr().lock();
    STATE.lock().unwrap_or_else(PoisonError::into_inner).write(stderr.as_fd(), line);
}

/// What became of earlier lines.
#[derive(Debug)]
struct Lines {
    /// The last one was taken in part: the next one starts by ending it.
    torn: bool,
    /// Lines that were not taken since the last one that was.
    lost: u64,
}

impl Lines {
    fn write(&mut self, sink: BorrowedFd<'_>, line: &[u8]) {
        let mut note = String::new();
        if self.torn {
            note.push('\n');
        }
        if self.lost > 0 {
            note.push_str(&format!(
                "({} lines of the log were lost: standard error did not take them)\n",
                self.lost
            ));
        }
        if put_all(sink, note.as_bytes()).is_err() {
            self.lost += 1;
            return;
        }
        (self.torn, self.lost) = (false, 0);
        if let Err(written) = put_all(sink, line) {
            self.torn = written > 0;
            self.lost = 1;
        }
    }
}

/// Writes piece by piece, each only if it will not wait. The error is how much was written.
fn put_all(sink: BorrowedFd<'_>, text: &[u8]) -> Result<(), usize> {
    let mut written = 0;
    while let Some(rest) = text.get(written..).filter(|rest| !rest.is_empty()) {
        let piece = rest.get(..PIECE_BYTES).unwrap_or(rest);
        match if takes(sink) { rustix::io::write(sink, piece) } else { Err(Errno::AGAIN) } {
            Ok(bytes) if bytes > 0 => written += bytes,
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return Err(written),
        }
    }
    Ok(())
}

/// Whether a write of [`PIECE_BYTES`] returns at once. Files always do.
fn takes(sink: BorrowedFd<'_>) -> bool {
    let mut descriptors = [PollFd::from_borrowed_fd(sink, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut descriptors, Some(&now)), Ok(ready) if ready > 0)
        && descriptors.iter().all(|one| one.revents().contains(PollFlags::OUT))
}

#[cfg(test)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    #[test]
    fn a_full_pipe_holds_nobody_up_and_what_was_lost_is_counted() {
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut lines = Lines { torn: false, lost: 0 };
        let line = [&[b'a'; 99][..], b"\n"].concat();
        let mut taken = 0;
        while lines.lost == 0 {
            lines.write(writing.as_fd(), &line);
            taken += 1;
        }
        lines.write(writing.as_fd(), &line);
        assert_eq!(lines.lost, 2);
        let mut text = vec![0; 1 << 20];
        let read = rustix::io::read(&reading, &mut text[..]).unwrap();
        assert_eq!(read, (taken - 1) * line.len());
        lines.write(writing.as_fd(), b"the next\n");
        let read = rustix::io::read(&reading, &mut text[..]).unwrap();
        let said = String::from_utf8_lossy(&text[..read]);
        assert_eq!(said, "(2 lines of the log were lost: standard error did not take them)\nthe next\n");
    }

    #[test]
    fn a_line_that_was_taken_in_part_is_ended_before_the_next() {
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut lines = Lines { torn: false, lost: 0 };
        lines.write(writing.as_fd(), &[b'a'; 1 << 20]);
        assert!(lines.torn && lines.lost == 1);
        let mut text = vec![0; 1 << 20];
        let read = rustix::io::read(&reading, &mut text[..]).unwrap();
        assert!(read >= PIECE_BYTES && text[..read].iter().all(|byte| *byte == b'a'));
        lines.write(writing.as_fd(), b"the next\n");
        let read = rustix::io::read(&reading, &mut text[..]).unwrap();
        assert!(text[..read].starts_with(b"\n(1 lines") && text[..read].ends_with(b")\nthe next\n"));
    }
}
