//! What an application process writes to standard output and standard error: into the error log, line by line, with its
//! pool and slot.
//!
//! Both streams are one pipe, so the lines stand in the order in which they were written. A process that writes more than
//! `limits.output_bytes_per_second_max` loses lines, which are counted: it could otherwise fill the disk, and neither it nor the
//! master waits for a log that is slow.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// Bytes of a line that are logged at once; a longer one is several. Bounds what is kept of a line that has not ended.
pub(crate) const LINE_BYTES_MAX: usize = 8 * 1024;
/// Bytes that are taken from one process before the others have their turn: the capacity of a pipe (pipe(7)).
const BYTES_PER_TURN: usize = 64 * 1024;

/// So many seconds' worth may come at once: a traceback, or what a program says at its start.
const BURST_SECS: u64 = 4;
/// Lines that are said when a process ended.
const LAST_LINES: usize = 3;
/// Lines that are kept: the traceback of an application that does not start.
const KEPT_LINES: usize = 40;
/// Characters of each of them.
const LAST_CHARS: usize = 200;
/// How often it is said that lines are dropped.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// How much a process may still write: a bucket of bytes that fills with time.
#[derive(Debug)]
struct Allowance {
    per_second: u64,
    left: u64,
    filled: Option<Instant>,
    /// Lines and bytes beyond it that nothing was said of yet.
    dropped: (u64, u64),
    said: Option<Instant>,
}

impl Allowance {
    fn new(per_second: u32) -> Allowance {
        let per_second = u64::from(per_second);
        Allowance { per_second, left: per_second * BURST_SECS, filled: None, dropped: (0, 0), said: None }
    }

    /// Whether a line of so many bytes may be logged now.
    fn take(&mut self, bytes: usize, now: Instant) -> bool {
        let since = now.saturating_duration_since(*self.filled.get_or_insert(now));
        let more = since.as_micros().saturating_mul(u128::from(self.per_second)) / 1_000_000;
        if more > 0 {
            self.left = self.left.saturating_add(more as u64).min(self.per_second * BURST_SECS);
            self.filled = Some(now);
        }
        let bytes = bytes as u64;
        let within = bytes <= self.left;
        match within {
            true => self.left -= bytes,
            false => self.dropped = (self.dropped.0 + 1, self.dropped.1 + bytes),
        }
        within
    }

    /// Lines and bytes that were dropped, when it is time to say so; `at_once` at the end of the process.
    fn owns_up(&mut self, now: Instant, at_once: bool) -> Option<(u64, u64)> {
        let due = at_once || self.said.is_none_or(|said| now.saturating_duration_since(said) >= SAY_EVERY);
        if self.dropped.0 == 0 || !due {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.dropped))
    }
}

/// The reading end of the pipe.
#[derive(Debug)]
pub(crate) struct Output {
    /// `pool/slot`
    name: String,
    /// `None` once it has ended.
    pipe: Option<OwnedFd>,
    /// A line without its end.
    begun: Vec<u8>,
    allowance: Allowance,
    /// The last lines that were logged, the oldest first.
    last: VecDeque<String>,
}

impl Output {
    /// A pipe for the process of this name, and its writing end. So many bytes a second are logged.
    ///
    /// # Errors
    /// What pipe2(2) says.
    pub(crate) fn pipe(name: &str, bytes_per_second: u32) -> io::Result<(Output, OwnedFd)> {
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&reading, true)?;
        maitred_log::console::begins(name);
        Ok((Output::left(name.to_owned(), reading, bytes_per_second), writing))
    }

    /// The rest of a pipe that another image of this program has read from.
    pub(crate) fn left(name: String, pipe: OwnedFd, bytes_per_second: u32) -> Output {
        Output {
            name,
            pipe: Some(pipe),
            begun: Vec::new(),
            allowance: Allowance::new(bytes_per_second),
            last: VecDeque::new(),
        }
    }

    /// `pool/slot`
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What to wait for.
    pub(crate) fn pipe_end(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Logs what has been written since, but for a line that has not ended. `room` is where the kernel writes.
    pub(crate) fn pass_on(&mut self, room: &mut [u8; LINE_BYTES_MAX]) {
        let name = std::mem::take(&mut self.name);
        self.take(room, &mut |line| maitred_log::error::application(&name, line));
        self.name = name;
        self.own_up(false);
    }

    fn own_up(&mut self, at_once: bool) {
        if let Some((lines, bytes)) = self.allowance.owns_up(Instant::now(), at_once) {
            tracing::warn!(
                process = self.name,
                lines,
                bytes,
                "output of an application process is dropped: it exceeds limits.output_bytes_per_second_max"
            );
        }
    }

    /// The process has exited: logs what is left.
    pub(crate) fn finish(&mut self, room: &mut [u8; LINE_BYTES_MAX]) {
        self.pass_on(room);
        let rest = std::mem::take(&mut self.begun);
        if !rest.is_empty() {
            maitred_log::error::application(&self.name, &rest);
            self.keep(shorten(&rest));
        }
        self.own_up(true);
    }

    fn take(&mut self, room: &mut [u8; LINE_BYTES_MAX], log: &mut dyn FnMut(&[u8])) {
        let (mut left, now) = (BYTES_PER_TURN, Instant::now());
        while left > 0 {
            let Some(pipe) = &self.pipe else { return };
            match rustix::io::read(pipe, &mut room[..]) {
                Ok(0) => self.pipe = None,
                Ok(bytes) => {
                    left = left.saturating_sub(bytes);
                    self.split(room.get(..bytes).unwrap_or_default(), now, log);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.pipe = None,
            }
        }
    }

    /// Logs whole lines, and keeps the rest, unless it is too long already.
    fn split(&mut self, bytes: &[u8], now: Instant, log: &mut dyn FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            let whole = self.begun.strip_suffix(b"\n");
            if whole.is_none() && self.begun.len() < LINE_BYTES_MAX {
                continue;
            }
            let line = whole.unwrap_or(&self.begun);
            if !line.is_empty() && self.allowance.take(line.len(), now) {
                log(line);
                let last = shorten(line);
                self.keep(last);
            }
            self.begun.clear();
        }
    }

    fn keep(&mut self, line: String) {
        if self.last.len() == KEPT_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// The last lines of the process, the oldest first, without control characters.
    pub(crate) fn last_lines(&mut self) -> Vec<String> {
        let lines = std::mem::take(&mut self.last);
        let surplus = lines.len().saturating_sub(LAST_LINES);
        lines.into_iter().skip(surplus).map(|line| line.trim().to_owned()).collect()
    }

    /// More of them, as they stand.
    pub(crate) fn words(&self) -> String {
        self.last.iter().map(|line| format!("{line}\n")).collect()
    }
}

fn shorten(line: &[u8]) -> String {
    let start = line.get(..4 * LAST_CHARS).unwrap_or(line);
    let text = String::from_utf8_lossy(start);
    text.chars().filter(|char| !char.is_control()).take(LAST_CHARS).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(texts: &[&[u8]]) -> (Vec<Vec<u8>>, Output) {
        let (mut output, writing) = Output::pipe("web/0", 1 << 20).unwrap();
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
    fn what_is_more_than_allowed_is_dropped_and_owned_up_to() {
        let start = Instant::now();
        let mut allowance = Allowance::new(1000);
        let logged = (0..100).filter(|_| allowance.take(100, start)).count() as u64;
        assert_eq!(logged, 10 * BURST_SECS);
        assert_eq!(allowance.owns_up(start, false), Some((100 - logged, (100 - logged) * 100)));
        assert!(!allowance.take(100, start));
        assert_eq!(allowance.owns_up(start, false), None, "not again at once");
        assert_eq!(allowance.owns_up(start, true), Some((1, 100)), "but at the end");
        // A steady stream gets its rate, however short the times between are.
        let steady =
            (1..=10_000).filter(|step| allowance.take(10, start + Duration::from_micros(500) * *step));
        assert_eq!(steady.count(), 500);
    }

    #[test]
    fn the_last_lines_are_kept_short() {
        let long = [b'x'; 5000];
        let (_, mut output) = written(&[b"one\ntwo\n  th\x1bree\n\n", &long, b"\nfour"]);
        output.finish(&mut [0; LINE_BYTES_MAX]);
        assert_eq!(output.last_lines(), ["three".to_owned(), "x".repeat(LAST_CHARS), "four".to_owned()]);
        assert!(output.last_lines().is_empty());
    }

    #[test]
    fn more_lines_are_there_in_words_as_they_stand() {
        let lines: Vec<String> = (0..50).map(|number| format!("  line {number}\n")).collect();
        let (_, mut output) = written(&[lines.concat().as_bytes()]);
        assert_eq!(output.words(), lines[50 - KEPT_LINES..].concat());
        assert_eq!(output.last_lines(), ["line 47", "line 48", "line 49"]);
    }

    #[test]
    fn a_line_without_an_end_is_logged_in_pieces() {
        let (lines, output) = written(&[&[b'a'; 3 * LINE_BYTES_MAX]]);
        assert!(lines.iter().all(|line| line.len() == LINE_BYTES_MAX));
        assert_eq!((lines.len(), output.begun.len()), (3, 0));
    }
}
