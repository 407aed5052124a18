//! What went wrong on a channel, and which side caused it.

use std::fmt;

/// The two ends of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Maitred.
    Server,
    /// The application process.
    App,
}

/// A rule of the protocol that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A kind that this version does not know, without the OPTIONAL flag.
    Kind(u8),
    /// Flags that this version does not know, or that exclude one another.
    Flags {
        /// The kind of the frame.
        kind: u8,
        /// All of its flags.
        flags: u8,
    },
    /// More descriptors than the kind can have.
    Descriptors {
        /// The kind of the frame.
        kind: u8,
        /// How many were announced.
        descriptors: u16,
    },
    /// A payload over the limit, or not of the size that the kind has.
    PayloadLength {
        /// The kind of the frame.
        kind: u8,
        /// Bytes that were announced.
        bytes: u32,
    },
    /// The lengths of a REQUEST's parts do not add up to its payload, or the meta part is over its limit.
    PartLengths,
    /// The meta part is not lines of `key=value`.
    Meta,
    /// The head does not end with an empty line, or is not text.
    Head,
    /// TRAILERS: no fields, too many, or something else than fields.
    Trailers,
    /// HELLO: the lowest version is 0 or above the highest.
    VersionRange,
    /// HELLO: the capacity is 0 or over the limit.
    Capacity,
    /// HELLO: the name is not UTF-8 or holds control characters.
    Name,
    /// DONE and DETACH: the reserved field is not 0.
    Reserved,
    /// DONE: a status that is neither 0 nor 100 to 999, or 0 for a response that is said to be complete. DETACH: another
    /// status than 101.
    Status(u16),
    /// REQUEST: a body in the frame and in a file.
    TwoBodies,
    /// TAIL: no bytes, or a part of a file that no file can have.
    Range,
}

/// A broken rule, and the side that broke it. The channel is of no use any more: where the next frame begins is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtocolError {
    /// The side that sent what must not be sent.
    pub by: Side,
    /// Which rule it breaks.
    pub rule: Rule,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.by {
            Side::Server => "the server sent ",
            Side::App => "the application sent ",
        })?;
        match self.rule {
            Rule::Kind(kind) => write!(f, "a frame of unknown kind {kind}"),
            Rule::Flags { kind, flags } => write!(f, "a frame of kind {kind} with bad flags {flags:#04x}"),
            Rule::Descriptors { kind, descriptors } => {
                write!(f, "a frame of kind {kind} with {descriptors} descriptors")
            }
            Rule::PayloadLength { kind, bytes } => {
                write!(f, "a frame of kind {kind} with a payload of {bytes} bytes")
            }
            Rule::PartLengths => f.write_str("a REQUEST whose parts do not add up"),
            Rule::Meta => f.write_str("a REQUEST whose meta part is not lines of key=value"),
            Rule::Head => f.write_str("a REQUEST whose head is not text that ends with an empty line"),
            Rule::Trailers => f.write_str("a TRAILERS frame that is not 1 to 32 lines of fields"),
            Rule::VersionRange => f.write_str("a HELLO without a possible version"),
            Rule::Capacity => f.write_str("a HELLO with an impossible capacity"),
            Rule::Name => f.write_str("a HELLO whose name is not printable UTF-8"),
            Rule::Reserved => f.write_str("a frame whose reserved field is not 0"),
            Rule::Status(status) => write!(f, "a report with the impossible status {status}"),
            Rule::TwoBodies => f.write_str("a REQUEST with a body both in the frame and in a file"),
            Rule::Range => f.write_str("a TAIL without bytes, or with an impossible part of a file"),
        }
    }
}

impl std::error::Error for ProtocolError {}
