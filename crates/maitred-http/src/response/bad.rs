//! What applications do wrong.

use std::fmt;

use crate::limits::{INTERIM_HEAD_BYTES_MAX, INTERIM_RESPONSES_MAX};

/// How an application broke the rules of a response. A broken rule is always an error of the application, never of the client:
/// the client gets 502, or has its connection cut if the head has been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bad {
    /// The response ended before the head of a final response began.
    NoResponse,
    /// The response ended inside a head.
    HeadIncomplete,
    /// A head over so many bytes.
    HeadTooBig(u32),
    /// More fields than this.
    TooManyFields(u16),
    /// More options of `Connection` than [`CONNECTION_OPTIONS_MAX`](crate::limits::CONNECTION_OPTIONS_MAX).
    TooManyOptions,
    /// A head that is not well-formed (9112-4, 9112-5), in words.
    Syntax(&'static str),
    /// A status below 100, or where there are no interim responses (CGI) below 200.
    Status(u16),
    /// 101: nothing was asked for that could be switched to, or it names another protocol than the one that was.
    SwitchingProtocols,
    /// 101 that is no answer to the handshake of a WebSocket (6455-4.1), in words.
    Handshake(&'static str),
    /// A success to an extended CONNECT that is no 101: the client would take it for one (8441-5).
    NotSwitched,
    /// More interim responses than
    /// [`INTERIM_RESPONSES_MAX`].
    TooManyInterim,
    /// An interim response over [`INTERIM_HEAD_BYTES_MAX`].
    InterimTooBig,
    /// `Content-Length` or `Transfer-Encoding` that do not say where the body ends (9112-6), in words.
    Framing(&'static str),
    /// A chunked body that is not well-formed (9112-7.1), in words.
    Chunked(&'static str),
    /// The stream ended before the response's body did.
    BodyIncomplete,
    /// The body could not be coded: memory is short. The one thing here that is not the application's fault.
    Coding,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoResponse => f.write_str("no response"),
            Self::HeadIncomplete => f.write_str("response ends inside its head"),
            Self::HeadTooBig(most) => write!(f, "response head over {most} bytes"),
            Self::TooManyFields(most) => write!(f, "more than {most} fields in a response head"),
            Self::TooManyOptions => f.write_str("too many options of Connection in a response head"),
            Self::Syntax(reason) => write!(f, "response head: {reason}"),
            Self::Status(status) => write!(f, "response with status {status:03}"),
            Self::SwitchingProtocols => f.write_str("101 to a protocol that was not asked for"),
            Self::Handshake(reason) => f.write_str(reason),
            Self::NotSwitched => f.write_str("a success without 101 to an extended CONNECT"),
            Self::TooManyInterim => write!(f, "more than {INTERIM_RESPONSES_MAX} interim responses"),
            Self::InterimTooBig => write!(f, "interim response over {INTERIM_HEAD_BYTES_MAX} bytes"),
            Self::Framing(reason) => write!(f, "response framing: {reason}"),
            Self::Chunked(reason) => write!(f, "chunked response: {reason}"),
            Self::BodyIncomplete => f.write_str("response ends inside its body"),
            Self::Coding => f.write_str("the body cannot be compressed: memory is short"),
        }
    }
}

impl std::error::Error for Bad {}
