//! The latest warnings and errors of this process, for the status.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Lines that are kept: what fits on a page, and enough for what happens around one failure.
pub(crate) const LAST_LINES_MAX: usize = 50;
/// Bytes that are kept of a line: all lines together stay below 16 KiB, which each viewer of the status gets once a second.
pub(crate) const LINE_BYTES_MAX: usize = 300;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When, in seconds of Unix time.
    pub unix_secs: u64,
    /// `warn` or `error`.
    pub level: &'static str,
    /// Message and fields, without control characters.
    pub text: String,
    /// How often it was written; the time is that of the last one.
    pub times: u64,
}

/// The last lines, the oldest first.
#[derive(Debug)]
struct Ring(VecDeque<Line>);

static LAST: Mutex<Ring> = Mutex::new(Ring(VecDeque::new()));

impl Ring {
    fn put(&mut self, mut line: Line) {
        if line.text.len() > LINE_BYTES_MAX {
            line.text.truncate(line.text.floor_char_boundary(LINE_BYTES_MAX - '…'.len_utf8()));
            line.text.push('…');
        }
        let same = |known: &Line| (known.level, &known.text) == (line.level, &line.text);
        if let Some(known) = self.0.iter().position(same).and_then(|at| self.0.remove(at)) {
            line.times = line.times.saturating_add(known.times);
        }
        if self.0.len() == LAST_LINES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(line);
    }
}

/// Keeps a line.
pub(super) fn note(line: Line) {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).put(line);
}

/// The lines that are kept, the newest first.
pub fn last() -> Vec<Line> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).0.iter().rev().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(unix_secs: u64, text: impl Into<String>) -> Line {
        Line { unix_secs, level: "warn", text: text.into(), times: 1 }
    }

    #[test]
    fn a_line_that_is_repeated_is_one_with_a_count() {
        let mut ring = Ring(VecDeque::new());
        for (number, text) in [(1, "no room"), (2, "other"), (3, "no room"), (4, "no room")] {
            ring.put(line(number, text));
        }
        ring.put(Line { level: "error", ..line(5, "no room") });
        let seen: Vec<_> =
            ring.0.iter().map(|line| (line.unix_secs, line.level, &*line.text, line.times)).collect();
        assert_eq!(seen, [(2, "warn", "other", 1), (4, "warn", "no room", 3), (5, "error", "no room", 1)]);
    }

    #[test]
    fn lines_are_bounded_in_number_and_length() {
        let mut ring = Ring(VecDeque::new());
        for number in 0..LAST_LINES_MAX as u64 + 7 {
            ring.put(line(number, format!("{number} {}", "ä".repeat(200))));
        }
        assert_eq!((ring.0.len(), ring.0[0].unix_secs), (LAST_LINES_MAX, 7));
        assert!(ring.0.iter().all(|line| line.text.len() <= LINE_BYTES_MAX && line.text.ends_with("ä…")));
        ring.put(line(0, "x".repeat(LINE_BYTES_MAX)));
        assert_eq!(ring.0.back().map(|line| line.text.len()), Some(LINE_BYTES_MAX), "what fits is not cut");
    }
}
