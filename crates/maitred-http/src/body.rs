//! Bodies (9112-6 and 9112-7.1): bytes as they arrive go in, content comes out.

use crate::fields::{FieldLines, is_for_trailers};
use crate::limits::{
    CHUNK_EXTENSION_BYTES_MAX, CHUNK_SIZE_BLANKS_MAX, CHUNK_SIZE_DIGITS_MAX, TRAILER_BYTES_MAX, TRAILERS_MAX,
};
use crate::request::{Framing, Reject, is_token_byte};

/// Takes one body out of its framing. Trailer fields are checked; [`Decoder::decode_parts`] gives their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoder {
    state: State,
    /// Content bytes still to come: of the body for a stated length, of the chunk for `Chunked`. While a
    /// chunk size is being read: its value so far.
    remaining: u64,
    /// Content bytes that later chunks may still hold.
    allowance: u64,
    /// Bytes of chunk extensions so far.
    extension_bytes: u32,
    /// Bytes of the trailer section so far.
    trailer_bytes: u32,
    /// The body of a response: blanks may stand between a chunk size and the end of its line.
    of_response: bool,
}

/// How far one call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// How many bytes of the input belonged to the body; all of them unless it is complete.
    pub consumed: usize,
    /// Whether the body is complete. Bytes that were not consumed belong to the next request.
    pub complete: bool,
}

/// Where the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a body of stated length.
    Length,
    /// In a body that has frames of its own around it: it ends when that is said.
    Frames,
    /// In a chunk size of which so many digits were read.
    Size { digits: u8 },
    /// In white space behind a chunk size, so many bytes. Only an extension may follow; in a response also the end of the line.
    SizeEnd { blanks: u8 },
    /// In chunk extensions.
    Extension,
    /// At the LF that ends the line of the chunk size.
    SizeLineFeed,
    /// In the content of a chunk.
    Data,
    /// At the CR behind the content of a chunk.
    DataEnd,
    /// At the LF behind it.
    DataLineFeed,
    /// At the start of a line behind the last chunk.
    TrailerStart,
    /// In the name of a trailer field.
    TrailerName,
    /// In the value of a trailer field.
    TrailerValue,
    /// At the LF that ends a trailer field.
    TrailerLineFeed,
    /// At the LF of the empty line that ends the body.
    LastLineFeed,
    /// Behind the body.
    Complete,
}

const _: () = assert!(size_of::<Decoder>() <= 32, "one of them is in each connection");

impl Decoder {
    /// A decoder for a body of at most `body_bytes_max` bytes of content.
    pub fn new(framing: Framing, body_bytes_max: u64) -> Self {
        let (state, remaining) = match framing {
            Framing::None | Framing::Length(0) => (State::Complete, 0),
            Framing::Length(length) => (State::Length, length),
            Framing::Chunked => (State::Size { digits: 0 }, 0),
        };
        let (extension_bytes, trailer_bytes, of_response) = (0, 0, false);
        Self { state, remaining, allowance: body_bytes_max, extension_bytes, trailer_bytes, of_response }
    }

    /// A decoder for the chunks of a response. The content is framed anew for the client, and nothing that a client sends
    /// decides how its server writes chunk sizes, so that blanks behind them are no way to have two parties see different
    /// messages: blanks are dropped, as by other proxies. In a request they are refused.
    pub fn of_response() -> Self {
        Self { of_response: true, ..Decoder::new(Framing::Chunked, u64::MAX) }
    }

    /// A decoder for a body that comes in frames of HTTP/2: all input is content, until [`Decoder::end`] is called. So it is if
    /// a length is stated, since trailers may follow; that the content has this length is a rule of HTTP/2 (9113-8.1.1).
    pub fn framed(framing: Framing, body_bytes_max: u64) -> Self {
        let decoder = Decoder::new(framing, body_bytes_max);
        match framing {
            Framing::None | Framing::Length(0) => decoder,
            Framing::Length(_) | Framing::Chunked => Self { state: State::Frames, ..decoder },
        }
    }

    /// Whether the body ends when that is said, and not by itself.
    pub fn ends_when_told(&self) -> bool {
        self.state == State::Frames
    }

    /// Nothing more comes of a body whose end has to be said.
    pub fn end(&mut self) {
        if self.state == State::Frames {
            self.state = State::Complete;
        }
    }

    /// Appends to `out` the content that `input` holds. However the bytes of a body are split among calls,
    /// the content and the last answer are the same.
    ///
    /// # Errors
    ///
    /// 400 for broken framing and for too many chunk extensions, 413 for content over the limit, 431 for a
    /// trailer section that is too big. The decoder is of no use after that.
    pub fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Progress, Reject> {
        self.decode_with(input, |content| out.extend_from_slice(content))
    }

    /// As [`decode`](Self::decode), but gives the content piece by piece: a piece is what lies together in the
    /// input, and is never empty.
    ///
    /// # Errors
    ///
    /// The errors of [`decode`](Self::decode).
    #[inline]
    pub fn decode_with(&mut self, input: &[u8], sink: impl FnMut(&[u8])) -> Result<Progress, Reject> {
        self.decode_parts(input, sink, |_| {})
    }

    /// The same, and gives each byte of the trailer section (9112-7.1.2), which [`trailers`] reads once it is whole.
    ///
    /// # Errors
    ///
    /// The errors of [`decode`](Self::decode).
    #[inline]
    pub fn decode_parts(
        &mut self,
        input: &[u8],
        mut sink: impl FnMut(&[u8]),
        mut trailer: impl FnMut(u8),
    ) -> Result<Progress, Reject> {
        let mut rest = input;
        loop {
            match self.state {
                State::Complete => break,
                State::Frames => {
                    if rest.len() as u64 > self.allowance {
                        return Err(Reject { status: 413, reason: "body over the limit" });
                    }
                    if !rest.is_empty() {
                        sink(rest);
                    }
                    self.allowance -= rest.len() as u64;
                    rest = &[];
                    break;
                }
                State::Length | State::Data => {
                    if self.remaining > self.allowance {
                        return Err(Reject { status: 413, reason: "body over the limit" });
                    }
                    let content_bytes = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(rest.len());
                    let (content, after) = rest.split_at(content_bytes);
                    if !content.is_empty() {
                        sink(content);
                    }
                    rest = after;
                    self.took(content_bytes);
                    if self.remaining > 0 {
                        break;
                    }
                    self.state = if self.state == State::Data { State::DataEnd } else { State::Complete };
                }
                _ => {
                    let Some((byte, after)) = rest.split_first() else { break };
                    self.state = self.step(*byte)?;
                    if self.trailer_bytes > 0 {
                        trailer(*byte);
                    }
                    rest = after;
                }
            }
        }
        Ok(Progress { consumed: input.len() - rest.len(), complete: self.state == State::Complete })
    }

    fn took(&mut self, content_bytes: usize) {
        let content_bytes = u64::try_from(content_bytes).unwrap_or(u64::MAX);
        self.remaining = self.remaining.saturating_sub(content_bytes);
        self.allowance = self.allowance.saturating_sub(content_bytes);
    }

    /// The state behind one byte of chunked framing.
    fn step(&mut self, byte: u8) -> Result<State, Reject> {
        match (self.state, byte) {
            (State::Size { digits }, _) if byte.is_ascii_hexdigit() => self.size_digit(digits, byte),
            (State::Size { digits: 1.. } | State::Extension, b'\r') => Ok(State::SizeLineFeed),
            (State::Size { digits: 1.. }, b' ' | b'\t') => self.blank(0),
            (State::SizeEnd { blanks }, b' ' | b'\t') => self.blank(blanks),
            (State::SizeEnd { .. }, b'\r') if self.of_response => Ok(State::SizeLineFeed),
            (State::Size { digits: 1.. } | State::SizeEnd { .. }, b';') => {
                self.extension_byte()?;
                Ok(State::Extension)
            }
            (State::Size { .. } | State::SizeEnd { .. }, _) => Err(broken("invalid chunk size")),
            (State::Extension, _) if is_field_byte(byte) => {
                self.extension_byte()?;
                Ok(State::Extension)
            }
            (State::Extension, _) => Err(broken("invalid byte in a chunk extension")),
            (State::SizeLineFeed, b'\n') if self.remaining == 0 => Ok(State::TrailerStart),
            (State::SizeLineFeed, b'\n') => Ok(State::Data),
            (State::DataEnd, b'\r') => Ok(State::DataLineFeed),
            (State::DataLineFeed, b'\n') => Ok(State::Size { digits: 0 }),
            (State::SizeLineFeed | State::DataEnd | State::DataLineFeed, _) => {
                Err(broken("chunk does not end where its size says, or in a line end"))
            }
            (state, _) => self.trailer_step(state, byte),
        }
    }

    fn size_digit(&mut self, digits: u8, digit: u8) -> Result<State, Reject> {
        if digits == CHUNK_SIZE_DIGITS_MAX {
            return Err(broken("chunk size with too many digits"));
        }
        let value = char::from(digit).to_digit(16).map_or(0, u64::from);
        // Sixteen digits of four bits cannot overflow.
        self.remaining = self.remaining << 4 | value;
        Ok(State::Size { digits: digits + 1 })
    }

    /// A blank behind a chunk size, and behind so many others. Of a response, a body may have any number of them, since each line
    /// may have some; otherwise they count as a part of an extension.
    fn blank(&mut self, before: u8) -> Result<State, Reject> {
        if !self.of_response {
            self.extension_byte()?;
        } else if before >= CHUNK_SIZE_BLANKS_MAX {
            return Err(broken("too many blanks behind a chunk size"));
        }
        Ok(State::SizeEnd { blanks: before.saturating_add(1) })
    }

    fn extension_byte(&mut self) -> Result<(), Reject> {
        self.extension_bytes += 1;
        if self.extension_bytes > CHUNK_EXTENSION_BYTES_MAX {
            return Err(broken("too many bytes of chunk extensions"));
        }
        Ok(())
    }

    /// The state behind one byte of the trailer section, which has the syntax of header fields.
    fn trailer_step(&mut self, state: State, byte: u8) -> Result<State, Reject> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > TRAILER_BYTES_MAX {
            return Err(Reject { status: 431, reason: "trailer section too big" });
        }
        match (state, byte) {
            (State::TrailerStart, b'\r') => Ok(State::LastLineFeed),
            (State::TrailerStart | State::TrailerName, _) if is_token_byte(&byte) => Ok(State::TrailerName),
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerValue, b'\r') => Ok(State::TrailerLineFeed),
            (State::TrailerValue, _) if is_field_byte(byte) => Ok(State::TrailerValue),
            (State::TrailerLineFeed, b'\n') => Ok(State::TrailerStart),
            (State::LastLineFeed, b'\n') => Ok(State::Complete),
            _ => Err(broken("invalid byte in the trailer section")),
        }
    }
}

/// The fields of a whole trailer section, without those that may not stand there (9110-6.5.1).
#[cold]
pub fn trailers(section: &[u8]) -> FieldLines {
    let mut room = [httparse::EMPTY_HEADER; TRAILERS_MAX];
    let mut lines = FieldLines::default();
    // What is no section, or has more fields, has none that could be passed on.
    if let Ok(httparse::Status::Complete((_, fields))) = httparse::parse_headers(section, &mut room) {
        let fields = fields.iter().filter(|field| is_for_trailers(field.name.as_bytes()));
        fields.for_each(|field| lines.push(field.name.as_bytes(), field.value));
    }
    lines
}

/// The fields that a request announces for its trailer section (9110-6.6.2), without values, and without those that may not stand
/// there. `None` if it announces none, or more than [`TRAILERS_MAX`].
pub fn announced(fields: &[httparse::Header<'_>]) -> Option<FieldLines> {
    let mut lines = FieldLines::default();
    for field in fields.iter().filter(|field| field.name.eq_ignore_ascii_case("trailer")) {
        for name in field.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if !name.is_empty() && name.iter().all(is_token_byte) && is_for_trailers(name) {
                lines.push(name, b"");
            }
            if lines.len() > TRAILERS_MAX {
                return None;
            }
        }
    }
    (!lines.is_empty()).then_some(lines)
}

const fn broken(reason: &'static str) -> Reject {
    Reject { status: 400, reason }
}

/// `field-vchar`, space and tab of 9110-5.5.
fn is_field_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

#[cfg(test)]
mod tests;
