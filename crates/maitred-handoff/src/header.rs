//! The 16 bytes that every frame begins with.

use crate::{FRAME_DESCRIPTORS_MAX, HEADER_BYTES, ProtocolError, Rule, Side};

/// Numbers of the kinds of frame. Maitred's are below 64.
pub mod kind {
    /// A request to answer.
    pub const REQUEST: u8 = 1;
    /// Close the cached descriptor of a connection.
    pub const FORGET: u8 = 2;
    /// The client does not wait for a request any more.
    pub const CANCEL: u8 = 3;
    /// Answer with PONG.
    pub const PING: u8 = 4;
    /// Finish what was received, then exit.
    pub const SHUTDOWN: u8 = 5;
    /// Answer to HELLO.
    pub const WELCOME: u8 = 6;
    /// What the client has sent behind the body of the REQUEST that follows.
    pub const TRAILERS: u8 = 7;
    /// First frame of an application.
    pub const HELLO: u8 = 65;
    /// A request is answered.
    pub const DONE: u8 = 66;
    /// What follows the bytes that the application has written itself.
    pub const TAIL: u8 = 67;
    /// Answer to PING.
    pub const PONG: u8 = 68;
    /// Takes a connection over (upgrades).
    pub const DETACH: u8 = 69;
    /// What the process may have open.
    pub const LIMITS: u8 = 70;
    /// Bodies may come while the process works on their requests.
    pub const STREAMS: u8 = 71;
}

/// Flag of any frame: a receiver that does not know the kind skips the frame.
pub const OPTIONAL: u8 = 1 << 7;

/// Flags of a REQUEST.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestFlags {
    /// The connection will be kept if the response is framed by length or chunks.
    pub keep: bool,
    /// The client speaks HTTP/1.0: no chunks, and a kept connection is said so in `Connection`.
    pub http10: bool,
    /// The method is HEAD: no body may be written.
    pub head: bool,
    /// The body is in a file, whose descriptor is the last that comes along.
    pub body_fd: bool,
    /// The client asks for an upgrade, and the application may take the connection over. Body bytes are early bytes of
    /// the new protocol.
    pub may_detach: bool,
    /// The body follows on the response descriptor, to be read from there: as long as `content-length` says, or in chunks if
    /// the head has none. Only for an application that takes sockets only, or that has said STREAMS, and never with one of the
    /// two above.
    pub body_stream: bool,
}

impl RequestFlags {
    const KEEP: u8 = 1 << 0;
    const HTTP10: u8 = 1 << 1;
    const HEAD: u8 = 1 << 2;
    const BODY_FD: u8 = 1 << 3;
    const MAY_DETACH: u8 = 1 << 4;
    const BODY_STREAM: u8 = 1 << 5;
    const ALL: u8 =
        Self::KEEP | Self::HTTP10 | Self::HEAD | Self::BODY_FD | Self::MAY_DETACH | Self::BODY_STREAM;

    /// As bits of [`Header::flags`].
    pub fn bits(self) -> u8 {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        bit(self.keep, Self::KEEP)
            | bit(self.http10, Self::HTTP10)
            | bit(self.head, Self::HEAD)
            | bit(self.body_fd, Self::BODY_FD)
            | bit(self.may_detach, Self::MAY_DETACH)
            | bit(self.body_stream, Self::BODY_STREAM)
    }

    /// From bits; `None` if there are others than those named here, or two of BODY_FD, BODY_STREAM and MAY_DETACH: a body
    /// comes in one way, and a request with an upgrade has none of its own.
    pub fn from_bits(bits: u8) -> Option<Self> {
        const EXCLUSIVE: u8 = RequestFlags::BODY_FD | RequestFlags::MAY_DETACH | RequestFlags::BODY_STREAM;
        if bits & !Self::ALL != 0 || (bits & EXCLUSIVE).count_ones() > 1 {
            return None;
        }
        Some(Self {
            keep: bits & Self::KEEP != 0,
            http10: bits & Self::HTTP10 != 0,
            head: bits & Self::HEAD != 0,
            body_fd: bits & Self::BODY_FD != 0,
            may_detach: bits & Self::MAY_DETACH != 0,
            body_stream: bits & Self::BODY_STREAM != 0,
        })
    }
}

/// A frame split off a buffer: header, payload, bytes in all.
type Split<'a> = (Header, &'a [u8], usize);

/// Header of a frame; little endian on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Bytes that follow the header.
    pub payload_bytes: u32,
    /// A constant of [`kind`].
    pub kind: u8,
    /// Meaning depends on the kind; bit 7 is OPTIONAL in all of them.
    pub flags: u8,
    /// How many descriptors this frame takes from the queue.
    pub descriptors: u16,
    /// Number of the client's connection, or 0.
    pub connection: u32,
    /// Number of the request, or 0.
    pub request: u32,
}

impl Header {
    /// On the wire.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[4] = self.kind;
        bytes[5] = self.flags;
        bytes[6..8].copy_from_slice(&self.descriptors.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.connection.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.request.to_le_bytes());
        bytes
    }

    /// From the wire.
    #[inline]
    pub fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Self {
        let [p0, p1, p2, p3, kind, flags, d0, d1, c0, c1, c2, c3, r0, r1, r2, r3] = bytes;
        Self {
            payload_bytes: u32::from_le_bytes([p0, p1, p2, p3]),
            kind,
            flags,
            descriptors: u16::from_le_bytes([d0, d1]),
            connection: u32::from_le_bytes([c0, c1, c2, c3]),
            request: u32::from_le_bytes([r0, r1, r2, r3]),
        }
    }

    /// Splits the first frame off `bytes`: its header, its payload, and how many bytes it has in all. `None` if it is
    /// not complete yet. A payload over `payload_bytes_max` is refused as soon as its header is there.
    ///
    /// # Errors
    /// If the payload is over the limit, or more descriptors are announced than any kind has.
    #[inline]
    pub(crate) fn split(
        bytes: &[u8],
        payload_bytes_max: u32,
        by: Side,
    ) -> Result<Option<Split<'_>>, ProtocolError> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let header = Self::from_bytes(*head);
        let Self { kind, payload_bytes, descriptors, .. } = header;
        if payload_bytes > payload_bytes_max {
            return Err(ProtocolError { by, rule: Rule::PayloadLength { kind, bytes: payload_bytes } });
        }
        if descriptors > FRAME_DESCRIPTORS_MAX {
            return Err(ProtocolError { by, rule: Rule::Descriptors { kind, descriptors } });
        }
        let payload_bytes = payload_bytes as usize;
        Ok(rest.get(..payload_bytes).map(|payload| (header, payload, HEADER_BYTES + payload_bytes)))
    }

    /// Checks a frame of a known kind that takes no descriptors, knows no flags and has a payload of exactly `bytes`.
    #[inline]
    pub(crate) fn expect_plain(&self, bytes: u32, by: Side) -> Result<(), ProtocolError> {
        self.expect_flags(0, by)?;
        self.expect_descriptors(0, by)?;
        self.expect_payload(bytes, by)
    }

    #[inline]
    pub(crate) fn expect_flags(&self, known: u8, by: Side) -> Result<(), ProtocolError> {
        // OPTIONAL says nothing about a kind that is known.
        if self.flags & !(known | OPTIONAL) == 0 {
            return Ok(());
        }
        Err(ProtocolError { by, rule: Rule::Flags { kind: self.kind, flags: self.flags } })
    }

    #[inline]
    pub(crate) fn expect_descriptors(&self, most: u16, by: Side) -> Result<(), ProtocolError> {
        if self.descriptors <= most {
            return Ok(());
        }
        let rule = Rule::Descriptors { kind: self.kind, descriptors: self.descriptors };
        Err(ProtocolError { by, rule })
    }

    /// Checks that exactly `wanted` descriptors come along.
    #[inline]
    pub(crate) fn expect_descriptors_exactly(&self, wanted: u16, by: Side) -> Result<(), ProtocolError> {
        if self.descriptors == wanted {
            return Ok(());
        }
        let rule = Rule::Descriptors { kind: self.kind, descriptors: self.descriptors };
        Err(ProtocolError { by, rule })
    }

    #[inline]
    pub(crate) fn expect_payload(&self, bytes: u32, by: Side) -> Result<(), ProtocolError> {
        if self.payload_bytes == bytes {
            return Ok(());
        }
        let rule = Rule::PayloadLength { kind: self.kind, bytes: self.payload_bytes };
        Err(ProtocolError { by, rule })
    }

    /// What to do with a kind that is not known: skip it if the sender said that this is all right.
    #[inline]
    pub(crate) fn skip_or_refuse(&self, by: Side) -> Result<(), ProtocolError> {
        if self.flags & OPTIONAL != 0 {
            return Ok(());
        }
        Err(ProtocolError { by, rule: Rule::Kind(self.kind) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_that_of_the_specification() {
        let header = Header {
            payload_bytes: 0x0403_0201,
            kind: 5,
            flags: 6,
            descriptors: 0x0807,
            connection: 0x0c0b_0a09,
            request: 0x100f_0e0d,
        };
        let bytes: Vec<u8> = (1..=16).collect();
        assert_eq!(header.to_bytes().as_slice(), bytes);
        assert_eq!(Header::from_bytes(header.to_bytes()), header);
    }

    #[test]
    fn request_flags_have_six_bits_of_which_three_exclude_each_other() {
        for bits in 0..=u8::MAX {
            let flags = RequestFlags::from_bits(bits);
            assert_eq!(flags.is_some(), matches!(bits >> 3, 0 | 1 | 2 | 4), "{bits:#x}");
            if let Some(flags) = flags {
                assert_eq!(flags.bits(), bits);
            }
        }
    }

    #[test]
    fn a_header_alone_is_enough_to_refuse_a_payload_that_is_too_long() {
        let header = Header { payload_bytes: 100, kind: kind::PING, ..Header::default() };
        let bytes = header.to_bytes();
        assert_eq!(Header::split(&bytes, 100, Side::App), Ok(None));
        let error = Header::split(&bytes, 99, Side::App).unwrap_err();
        assert_eq!(error.rule, Rule::PayloadLength { kind: kind::PING, bytes: 100 });
        assert_eq!(Header::split(&bytes[..15], 99, Side::App), Ok(None));
    }

    #[test]
    fn more_descriptors_than_any_kind_has_are_refused() {
        let header = Header { kind: kind::PING, descriptors: 3, ..Header::default() };
        let error = Header::split(&header.to_bytes(), 0, Side::Server).unwrap_err();
        let rule = Rule::Descriptors { kind: kind::PING, descriptors: 3 };
        assert_eq!(error, ProtocolError { by: Side::Server, rule });
    }
}
