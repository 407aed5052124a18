//! The latest warnings and errors of this process, for the status.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Lines that are kept: what fits on a page, and enough for what happens around one failure.
pub const LAST_LINES_MAX: usize = 50;
/// Bytes that are kept of a line: all lines together stay below 16 KiB, which each viewer of the status gets once a second.
pub const LINE_BYTES_MAX: usize = 300;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When, in seconds of Unix time.
    pub unix_secs: u64,
    /// `warn` or `error`.
    pub level: &'static str,
    /// Message and fields, without control characters.
    pub text: String,
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

    #[test]
    fn lines_are_bounded_in_number_and_length() {
        let mut ring = Ring(VecDeque::new());
        for number in 0..LAST_LINES_MAX as u64 + 7 {
            ring.put(Line { unix_secs: number, level: "warn", text: "ä".repeat(200) });
        }
        assert_eq!((ring.0.len(), ring.0[0].unix_secs), (LAST_LINES_MAX, 7));
        assert!(ring.0.iter().all(|line| line.text.len() <= LINE_BYTES_MAX && line.text.ends_with("ä…")));
        ring.put(Line { unix_secs: 0, level: "warn", text: "x".repeat(LINE_BYTES_MAX) });
        assert_eq!(ring.0.back().map(|line| line.text.len()), Some(LINE_BYTES_MAX), "what fits is not cut");
    }
}
