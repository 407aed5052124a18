//! What follows a look at a request, and at what was received.

use maitred_http::fastcgi::script::Script;
use maitred_http::request::RequestHead;

use super::connection::After;
use maitred_files::exchange::Routed;

/// Responses to pipelined requests are joined until there are this many bytes of them.
pub(super) const JOINED_BYTES: usize = 128 * 1024;

/// How the look at the received bytes ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// More bytes are needed.
    Starved,
    /// Responses have to leave before more is read.
    Flush,
    /// The connection waits for something, or has its last response.
    Settled(Option<After>),
    /// What comes is HTTP/2.
    Http2,
    /// What comes is TLS.
    TlsSession,
    /// The connection is to move to this thread, with all that was received, for this pool.
    Moves(u16, usize),
    /// The target of the next request has text that is not encoded.
    NotEncoded,
    /// The connection is gone.
    Gone,
}

/// What `Requests::answer` made of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Answered, whole, in `tx`; the connection is kept.
    Next,
    /// Answered, whole, in `tx`; no other request will be.
    Last(After),
    /// The connection waits; its state is for what.
    Waits,
    /// The body of the request, of which nothing was read, has to be whole first: it is read now.
    ReadsBody,
    /// Nothing was done: what is in `tx` has to leave first.
    FlushFirst,
    /// The connection, which keeps its request for this pool, is to move to this thread.
    Moves(u16, usize),
    /// The connection is closed.
    Gone,
}

/// A request's bytes, what was decided about it, and how it came to be answered now.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestInput<'a> {
    /// The head as received.
    pub head: &'a [u8],
    /// The body, decoded.
    pub body: &'a [u8],
    /// What was decided.
    pub routed: Routed,
    /// The path that routes and files go by.
    pub path: &'a [u8],
    /// The request was answered with `Served::Blocked` before, and a disk helper has read the file.
    pub warmed: bool,
    /// The connection cannot be kept, even if the request allows it.
    pub last: bool,
    /// Bytes came after it that were not looked at.
    pub followed: bool,
    /// The head, if the request waited in the connection's buffers.
    pub kept: Option<&'a RequestHead>,
    /// The script that it is for, of a FastCGI application that has any.
    pub script: Option<&'a Script<'a>>,
}
