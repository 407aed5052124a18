//! Content that is sent out of a file: the records around its pieces.

use super::encode::{put_stdin_end, stdin_record};

/// What follows of content that is sent out of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes that are around the content.
    Frame(&'a [u8]),
    /// The same; nothing follows them.
    End(&'a [u8]),
    /// So much content.
    Content(u64),
    /// Nothing: all of it has been sent.
    Nothing,
}

/// Records around the content of a body that is sent out of a file.
#[derive(Debug, Default)]
pub struct Stdin {
    /// What is before the content, or behind it; sent up to `sent`.
    frame: Vec<u8>,
    sent: usize,
    /// Content that is missing in the present record, and what pads that.
    content_left: u64,
    padding: &'static [u8],
    /// The empty record that ends the content has been made.
    ended: bool,
}

impl Stdin {
    /// What follows, of content of which so many bytes are left.
    pub fn next_piece(&mut self, left: u64) -> Piece<'_> {
        if self.sent == self.frame.len() && self.content_left == 0 && !self.ended {
            self.frame.clear();
            self.sent = 0;
            self.frame.extend_from_slice(std::mem::take(&mut self.padding));
            match stdin_record(left) {
                Some(record) => {
                    self.frame.extend_from_slice(&record.header);
                    (self.content_left, self.padding) = (record.content_bytes as u64, record.padding);
                }
                None => {
                    put_stdin_end(&mut self.frame);
                    self.ended = true;
                }
            }
        }
        match self.frame.get(self.sent..) {
            Some(rest @ [_, ..]) if self.ended => Piece::End(rest),
            Some(rest @ [_, ..]) => Piece::Frame(rest),
            _ if self.content_left > 0 => Piece::Content(self.content_left),
            _ => Piece::Nothing,
        }
    }

    /// So much of the piece has been sent.
    pub fn note_sent(&mut self, bytes: usize) {
        match self.sent < self.frame.len() {
            true => self.sent += bytes,
            false => self.content_left = self.content_left.saturating_sub(bytes as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fastcgi::encode::put_stdin;

    /// A body that is sent out of a file, however little the socket takes at a time, is what one in memory would be.
    #[test]
    fn a_spooled_body_is_framed_as_one_in_memory() {
        for (bytes, at_a_time) in
            [(0, 8), (1, 1), (7, 3), (8, 100), (65_528, 1000), (65_529, 4096), (200_001, 65_536)]
        {
            let content: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            let mut expected = Vec::new();
            put_stdin(&mut expected, &content);
            put_stdin_end(&mut expected);
            let (mut stdin, mut sent, mut left) = (Stdin::default(), Vec::new(), content.as_slice());
            loop {
                let moved = match stdin.next_piece(left.len() as u64) {
                    Piece::Frame(frame) | Piece::End(frame) => {
                        let part = &frame[..frame.len().min(at_a_time)];
                        sent.extend_from_slice(part);
                        part.len()
                    }
                    Piece::Content(most) => {
                        let (part, rest) = left.split_at((most as usize).min(at_a_time));
                        sent.extend_from_slice(part);
                        left = rest;
                        part.len()
                    }
                    Piece::Nothing => break,
                };
                stdin.note_sent(moved);
            }
            assert!(sent == expected, "{bytes} bytes, {at_a_time} at a time");
        }
    }
}
