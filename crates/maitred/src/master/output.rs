//! What an application process writes to standard output and standard error: into the error log, line by line, with its
//! pool and slot.
//!
//! Both are one pipe, so the lines stand in the order in which they were written. A process that writes faster than the
//! log takes it waits, as it would for a terminal: the pipe is the bound.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// Bytes of a line that are logged at once; a longer one is several. Bounds what is kept of a line that has not ended.
pub const LINE_BYTES_MAX: usize = 8 * 1024;
/// Bytes that are taken from one process before the others have their turn: the capacity of a pipe (pipe(7)).
const BYTES_PER_TURN: usize = 64 * 1024;

/// The reading end of the pipe.
#[derive(Debug)]
pub struct Output {
    /// `pool/slot`
    name: String,
    /// `None` once it has ended.
    pipe: Option<OwnedFd>,
    /// A line without its end.
    begun: Vec<u8>,
}

impl Output {
    /// A pipe for the process of this name, and its writing end.
    ///
    /// # Errors
    /// What pipe2(2) says.
    pub fn pipe(name: &str) -> io::Result<(Output, OwnedFd)> {
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&reading, true)?;
        Ok((Output { name: name.to_owned(), pipe: Some(reading), begun: Vec::new() }, writing))
    }

    /// The rest of a pipe that another image of this program has read from.
    pub fn left(name: String, pipe: OwnedFd) -> Output {
        Output { name, pipe: Some(pipe), begun: Vec::new() }
    }

    /// `pool/slot`
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What to wait for.
    pub fn pipe_end(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Logs what has been written since, but for a line that has not ended. `room` is where the kernel writes.
    pub fn pass_on(&mut self, room: &mut [u8; LINE_BYTES_MAX]) {
        let name = std::mem::take(&mut self.name);
        self.take(room, &mut |line| crate::log::error::application(&name, line));
        self.name = name;
    }

    /// The process has exited: logs what is left.
    pub fn finish(&mut self, room: &mut [u8; LINE_BYTES_MAX]) {
        self.pass_on(room);
        let rest = std::mem::take(&mut self.begun);
        if !rest.is_empty() {
            crate::log::error::application(&self.name, &rest);
        }
    }

    fn take(&mut self, room: &mut [u8; LINE_BYTES_MAX], log: &mut dyn FnMut(&[u8])) {
        let mut left = BYTES_PER_TURN;
        while left > 0 {
            let Some(pipe) = &self.pipe else { return };
            match rustix::io::read(pipe, &mut room[..]) {
                Ok(0) => self.pipe = None,
                Ok(bytes) => {
                    left = left.saturating_sub(bytes);
                    self.split(room.get(..bytes).unwrap_or_default(), log);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.pipe = None,
            }
        }
    }

    /// Logs whole lines, and keeps the rest, unless it is too long already.
    fn split(&mut self, bytes: &[u8], log: &mut dyn FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if let Some(line) = self.begun.strip_suffix(b"\n") {
                if !line.is_empty() {
                    log(line);
                }
                self.begun.clear();
            } else if self.begun.len() >= LINE_BYTES_MAX {
                log(&self.begun);
                self.begun.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(texts: &[&[u8]]) -> (Vec<Vec<u8>>, Output) {
        let (mut output, writing) = Output::pipe("web/0").unwrap();
        let (mut lines, mut room) = (Vec::new(), [0; LINE_BYTES_MAX]);
        for text in texts {
            rustix::io::write(&writing, text).unwrap();
            output.take(&mut room, &mut |line| lines.push(line.to_vec()));
        }
        drop(writing);
        output.take(&mut room, &mut |line| lines.push(line.to_vec()));
        (lines, output)
    }

    #[test]
    fn lines_are_put_together_and_empty_ones_left_out() {
        let (lines, output) = written(&[b"one\n\ntw", b"o\nthr", b"ee"]);
        assert_eq!(lines, [b"one".to_vec(), b"two".to_vec()]);
        assert_eq!(output.begun, b"three");
        assert!(output.pipe_end().is_none(), "the other end is closed");
    }

    #[test]
    fn a_line_without_an_end_is_logged_in_pieces() {
        let (lines, output) = written(&[&[b'a'; 3 * LINE_BYTES_MAX]]);
        assert!(lines.iter().all(|line| line.len() == LINE_BYTES_MAX));
        assert_eq!((lines.len(), output.begun.len()), (3, 0));
    }
}
