//! Types of unidirectional streams (9114-6.2, 9204-4.2).

use super::error::{Code, Error};
use super::frame::Side;
use super::varint;

/// What a unidirectional stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamType {
    /// The control stream: frames.
    Control,
    /// A push: its push ID, and frames.
    Push,
    /// The peer's instructions to the decoder of this side.
    Encoder,
    /// The peer's acknowledgements to the encoder of this side.
    Decoder,
    /// To be read no further: STOP_SENDING with H3_STREAM_CREATION_ERROR, or its bytes are dropped. No error (9114-6.2).
    Unknown(u64),
}

impl StreamType {
    /// The type with this number.
    pub fn of(number: u64) -> StreamType {
        match number {
            0 => StreamType::Control,
            1 => StreamType::Push,
            2 => StreamType::Encoder,
            3 => StreamType::Decoder,
            number => StreamType::Unknown(number),
        }
    }

    /// The number that a stream of this type begins with, as a variable-length integer.
    pub fn number(self) -> u64 {
        match self {
            StreamType::Control => 0,
            StreamType::Push => 1,
            StreamType::Encoder => 2,
            StreamType::Decoder => 3,
            StreamType::Unknown(number) => number,
        }
    }
}

/// An integer that comes in pieces: a stream's type, or a push ID.
#[derive(Debug, Clone, Copy, Default)]
pub struct IntegerReader {
    bytes: [u8; varint::BYTES_MAX],
    count: usize,
}

impl IntegerReader {
    /// Takes the bytes of the integer from `input[*at..]`, advances `at`, and gives the integer when the last byte has come. The
    /// next byte begins another one.
    pub fn next(&mut self, input: &[u8], at: &mut usize) -> Option<u64> {
        for byte in input.get(*at..)? {
            *self.bytes.get_mut(self.count)? = *byte;
            self.count += 1;
            *at += 1;
            if let Some((value, _)) = varint::read(self.bytes.get(..self.count)?) {
                self.count = 0;
                return Some(value);
            }
        }
        None
    }
}

/// Which unidirectional streams a peer has opened.
#[derive(Debug, Clone, Copy)]
pub struct PeerStreams {
    from: Side,
    control: bool,
    encoder: bool,
    decoder: bool,
}

impl PeerStreams {
    /// The streams of a peer that has opened none.
    pub fn new(from: Side) -> PeerStreams {
        PeerStreams { from, control: false, encoder: false, decoder: false }
    }

    /// The peer has opened a stream of this type.
    ///
    /// # Errors
    ///
    /// H3_STREAM_CREATION_ERROR, which ends the connection: there is one control, encoder and decoder stream each, and clients
    /// push nothing.
    pub fn open(&mut self, kind: StreamType) -> Result<(), Error> {
        let opened = match kind {
            StreamType::Control => &mut self.control,
            StreamType::Encoder => &mut self.encoder,
            StreamType::Decoder => &mut self.decoder,
            StreamType::Push if self.from == Side::Client => {
                return Err(Error::new(Code::StreamCreationError, "push stream of a client"));
            }
            StreamType::Push | StreamType::Unknown(_) => return Ok(()),
        };
        if std::mem::replace(opened, true) {
            return Err(Error::new(Code::StreamCreationError, "second stream of a type that has one"));
        }
        Ok(())
    }

    /// A stream of this type has ended, or was reset.
    ///
    /// # Errors
    ///
    /// H3_CLOSED_CRITICAL_STREAM, which ends the connection, for all that it needs (9114-6.2.1, 9204-4.2).
    pub fn closed(kind: StreamType) -> Result<(), Error> {
        match kind {
            StreamType::Control | StreamType::Encoder | StreamType::Decoder => {
                Err(Error::new(Code::ClosedCriticalStream, "end of a stream that the connection needs"))
            }
            StreamType::Push | StreamType::Unknown(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_come_back_in_any_pieces() {
        for kind in [0, 1, 2, 3, 0x21, 0x40, 0x1234_5678, varint::VALUE_MAX] {
            assert_eq!(StreamType::of(kind).number(), kind);
            let mut bytes = Vec::new();
            varint::write(&mut bytes, kind);
            let length = bytes.len();
            varint::write(&mut bytes, 7);
            for split in 0..=bytes.len() {
                let (mut reader, mut at, mut seen) = (IntegerReader::default(), 0, Vec::new());
                for end in [split, bytes.len()] {
                    while let Some(value) = reader.next(&bytes[..end], &mut at) {
                        seen.push((value, at));
                    }
                }
                assert_eq!(seen, [(kind, length), (7, length + 1)]);
            }
        }
    }

    #[test]
    fn streams_that_the_connection_needs_are_there_once_and_do_not_end() {
        use StreamType::{Control, Decoder, Encoder, Push, Unknown};
        let code = |result: Result<(), Error>| result.map_err(|error| error.code);
        for from in [Side::Client, Side::Server] {
            let mut streams = PeerStreams::new(from);
            for kind in [Control, Encoder, Decoder] {
                assert_eq!(code(streams.open(kind)), Ok(()));
                assert_eq!(code(streams.open(kind)), Err(Code::StreamCreationError));
                assert_eq!(code(PeerStreams::closed(kind)), Err(Code::ClosedCriticalStream));
            }
            for kind in [Unknown(0x21), Unknown(0x21)] {
                assert_eq!(code(streams.open(kind)), Ok(()));
            }
            let push = code(streams.open(Push));
            assert_eq!(push, if from == Side::Client { Err(Code::StreamCreationError) } else { Ok(()) });
            assert_eq!(code(PeerStreams::closed(Push)), Ok(()));
            assert_eq!(code(PeerStreams::closed(Unknown(4))), Ok(()));
        }
    }
}
