//! Error codes of HTTP/3 (9114-8.1) and QPACK (9204-6), and errors that have one.

use std::fmt;

/// Error codes, as they are sent in `CONNECTION_CLOSE`, `RESET_STREAM` and `STOP_SENDING` of QUIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Code {
    /// Nothing is wrong (`H3_NO_ERROR`).
    NoError = 0x100,
    /// A rule was broken that has no code of its own (`H3_GENERAL_PROTOCOL_ERROR`).
    GeneralProtocolError = 0x101,
    /// An error of this side itself (`H3_INTERNAL_ERROR`).
    InternalError = 0x102,
    /// A stream that the peer must not open (`H3_STREAM_CREATION_ERROR`).
    StreamCreationError = 0x103,
    /// A stream has ended that the connection needs (`H3_CLOSED_CRITICAL_STREAM`).
    ClosedCriticalStream = 0x104,
    /// A frame that is not allowed in this state, or on this stream (`H3_FRAME_UNEXPECTED`).
    FrameUnexpected = 0x105,
    /// A frame with a wrong layout, or a wrong size (`H3_FRAME_ERROR`).
    FrameError = 0x106,
    /// The peer does something too often, or too much of it (`H3_EXCESSIVE_LOAD`).
    ExcessiveLoad = 0x107,
    /// An identifier that cannot be used, is too large or smaller than one before (`H3_ID_ERROR`).
    IdError = 0x108,
    /// A SETTINGS frame with a wrong content (`H3_SETTINGS_ERROR`).
    SettingsError = 0x109,
    /// The control stream does not begin with SETTINGS (`H3_MISSING_SETTINGS`).
    MissingSettings = 0x10a,
    /// The request was not processed at all; it may be sent again (`H3_REQUEST_REJECTED`).
    RequestRejected = 0x10b,
    /// The request, or its response, is not needed any more (`H3_REQUEST_CANCELLED`).
    RequestCancelled = 0x10c,
    /// The client's stream ended before the request was complete (`H3_REQUEST_INCOMPLETE`).
    RequestIncomplete = 0x10d,
    /// A malformed message (`H3_MESSAGE_ERROR`).
    MessageError = 0x10e,
    /// The connection behind a CONNECT was lost (`H3_CONNECT_ERROR`).
    ConnectError = 0x10f,
    /// The request has to be made by HTTP/1.1 (`H3_VERSION_FALLBACK`).
    VersionFallback = 0x110,
    /// A field section could not be decoded (`QPACK_DECOMPRESSION_FAILED`).
    DecompressionFailed = 0x200,
    /// An instruction on the encoder stream could not be carried out (`QPACK_ENCODER_STREAM_ERROR`).
    EncoderStreamError = 0x201,
    /// An instruction on the decoder stream makes no sense (`QPACK_DECODER_STREAM_ERROR`).
    DecoderStreamError = 0x202,
}

impl Code {
    /// The number that is sent.
    #[inline]
    pub fn number(self) -> u64 {
        self as u64
    }
}

/// An error of the peer. Whether it ends the connection or one stream is said where it is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    /// The code to close with.
    pub code: Code,
    /// The rule that was broken, in a few words.
    pub reason: &'static str,
}

impl Error {
    pub(super) const fn new(code: Code, reason: &'static str) -> Error {
        Error { code, reason }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.reason, self.code)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_registries() {
        assert_eq!(Code::NoError.number(), 0x100);
        assert_eq!(Code::FrameUnexpected.number(), 0x105);
        assert_eq!(Code::MissingSettings.number(), 0x10a);
        assert_eq!(Code::VersionFallback.number(), 0x110);
        assert_eq!(Code::DecompressionFailed.number(), 0x200);
        assert_eq!(Code::DecoderStreamError.number(), 0x202);
    }

    #[test]
    fn errors_say_what_and_which() {
        let error = Error::new(Code::IdError, "GOAWAY goes up");
        assert_eq!(error.to_string(), "GOAWAY goes up (IdError)");
    }
}
