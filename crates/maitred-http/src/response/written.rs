//! Where the final head is in what a [`Filter`](super::Filter) has written.

use std::ops::Range;

/// The head of a final response among written bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenHead {
    /// Behind its status line, where a field can be inserted.
    pub behind_status: usize,
    /// Behind its last field line.
    end: usize,
}

impl WrittenHead {
    /// Its field lines.
    pub fn fields(self) -> Range<usize> {
        self.behind_status..self.end
    }
}

/// The head of the final response in bytes that begin, at `start`, with a head: interim responses before it (1xx but for 101) are
/// skipped. `None` if it is not there as a whole.
pub fn final_head(written: &[u8], start: usize) -> Option<WrittenHead> {
    let mut start = start;
    loop {
        let rest = written.get(start..)?;
        let end = memchr::memmem::find(rest, b"\r\n\r\n")?;
        let head = rest.get(..end + 2)?;
        let interim = head.get(9) == Some(&b'1') && head.get(9..12) != Some(b"101");
        if !interim {
            let line = memchr::memmem::find(head, b"\r\n")?;
            return Some(WrittenHead { behind_status: start + line + 2, end: start + end + 2 });
        }
        start += end + 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(written: &str) -> Option<&str> {
        final_head(written.as_bytes(), 0).map(|head| &written[head.fields()])
    }

    #[test]
    fn interim_responses_are_skipped() {
        assert_eq!(fields("HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody\r\n\r\n"), Some("A: b\r\n"));
        assert_eq!(fields("HTTP/1.1 204 No Content\r\n\r\n"), Some(""));
        assert_eq!(
            fields("HTTP/1.1 103 Early Hints\r\nL: x\r\n\r\nHTTP/1.1 404 \r\nA: b\r\n\r\n"),
            Some("A: b\r\n")
        );
        assert_eq!(fields("HTTP/1.1 101 Switching Protocols\r\nA: b\r\n\r\n"), Some("A: b\r\n"));
        for incomplete in ["", "HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n"] {
            assert_eq!(fields(incomplete), None, "{incomplete}");
        }
    }
}
