//! Lines of a log of any size, in constant memory.

use std::io::{self, BufRead};

use super::{Entry, Malformed, parse};

/// Bytes of a line. Servers bound request heads at 8 to 64 KiB, so a longer line is no line of a log; a file without
/// line ends must not be read into memory whole.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// Malformed lines that are shown.
pub const EXAMPLES_MAX: usize = 5;
/// Characters of a malformed line that are shown.
const EXAMPLE_CHARS_MAX: usize = 80;

/// What was found in a log.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Lines read, blank ones not counted.
    pub lines: u64,
    /// Of these, lines that could not be read.
    pub malformed: u64,
    /// The first of them: number of the line (from 1), what is wrong, and its start.
    pub examples: Vec<Example>,
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Example {
    /// Number of the line, from 1, blank lines counted.
    pub line: u64,
    /// What is wrong with it.
    pub wrong: String,
    /// The start of the line, safe to print.
    pub start: String,
}

/// Reads a log line by line.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    tally: Tally,
}

impl<R: BufRead> Reader<R> {
    /// A reader at the start of `input`.
    pub fn new(input: R) -> Self {
        Reader { input, line: Vec::with_capacity(1024), number: 0, tally: Tally::default() }
    }

    /// What was found so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Gives the next line that can be read to `look`, or returns `None` at the end. Lines that cannot be read are counted.
    ///
    /// # Errors
    /// When the input cannot be read.
    pub fn next<T>(&mut self, mut look: impl FnMut(Entry<'_>) -> T) -> io::Result<Option<T>> {
        loop {
            let wrong = match self.fill()? {
                Filled::End => return Ok(None),
                Filled::TooLong => Malformed::TooLong,
                Filled::Line if self.line.iter().all(u8::is_ascii_whitespace) => continue,
                Filled::Line => match parse(&self.line) {
                    Ok(entry) => {
                        self.tally.lines += 1;
                        return Ok(Some(look(entry)));
                    }
                    Err(wrong) => wrong,
                },
            };
            self.note(wrong);
        }
    }

    fn note(&mut self, wrong: Malformed) {
        self.tally.lines += 1;
        self.tally.malformed += 1;
        if self.tally.examples.len() < EXAMPLES_MAX {
            let start = String::from_utf8_lossy(self.line.get(..EXAMPLE_CHARS_MAX).unwrap_or(&self.line));
            let start = start.chars().flat_map(char::escape_debug).take(EXAMPLE_CHARS_MAX).collect();
            self.tally.examples.push(Example { line: self.number, wrong: wrong.to_string(), start });
        }
    }

    fn fill(&mut self) -> io::Result<Filled> {
        self.line.clear();
        let mut is_too_long = false;
        loop {
            let piece = match self.input.fill_buf() {
                Ok(piece) => piece,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if piece.is_empty() && self.line.is_empty() && !is_too_long {
                return Ok(Filled::End);
            }
            let end = memchr::memchr(b'\n', piece);
            let text = piece.get(..end.unwrap_or(piece.len())).unwrap_or_default();
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
            is_too_long |= text.len() > room;
            self.line.extend_from_slice(text.get(..room).unwrap_or(text));
            let used = text.len() + usize::from(end.is_some());
            let is_end = end.is_some() || piece.is_empty();
            self.input.consume(used);
            if is_end {
                break;
            }
        }
        self.number += 1;
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(if is_too_long { Filled::TooLong } else { Filled::Line })
    }
}

enum Filled {
    Line,
    TooLong,
    End,
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    const LINE: &str = "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 5";

    fn read(text: &[u8]) -> (Vec<Vec<u8>>, Tally) {
        let mut reader = Reader::new(BufReader::with_capacity(7, text));
        let mut targets = Vec::new();
        let target =
            |entry: Entry<'_>| entry.request.map(|request| request.target.into_owned()).unwrap_or_default();
        while let Some(found) = reader.next(target).unwrap() {
            targets.push(found);
        }
        (targets, reader.tally().clone())
    }

    #[test]
    fn malformed_lines_are_counted_and_shown() {
        let text = format!("{LINE}\n\nnonsense\r\n{LINE}\r\n\u{1b}[31m x\n{LINE}");
        let (targets, tally) = read(text.as_bytes());
        assert_eq!(targets.len(), 3);
        assert_eq!((tally.lines, tally.malformed), (5, 2));
        assert_eq!((tally.examples[0].line, tally.examples[0].start.as_str()), (3, "nonsense"));
        assert_eq!(tally.examples[1].start, "\\u{1b}[31m x");
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let text = [vec![b'x'; 10 * LINE_BYTES_MAX], format!("\n{LINE}\n").into_bytes()].concat();
        let mut reader = Reader::new(BufReader::new(&*text));
        assert!(reader.next(|_| ()).unwrap().is_some());
        assert_eq!((reader.tally().lines, reader.tally().malformed), (2, 1));
        assert!(reader.line.capacity() <= 2 * LINE_BYTES_MAX);
    }

    #[test]
    fn an_empty_log_has_no_lines() {
        assert_eq!(read(b"").1, Tally::default());
        assert_eq!(read(b"\n\n").1, Tally::default());
    }
}
