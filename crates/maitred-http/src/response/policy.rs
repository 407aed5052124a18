//! The request's side of a response: what it may be.

use crate::limits::ResponseBounds;

/// What the request, and the server, require of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponsePolicy {
    /// The request was HEAD: no content goes out.
    pub head_request: bool,
    /// The client speaks HTTP/1.0: neither chunks nor interim responses.
    pub http10: bool,
    /// The client gets interim responses (1xx) but 100; otherwise they are dropped.
    pub informational: bool,
    /// The client waits for a 100 (Continue) of the application before it sends its content (9110-10.1.1), and gets it.
    pub continues: bool,
    /// The client's connection has frames of its own (HTTP/2), so that content needs no chunks, and no end.
    pub framed: bool,
    /// The client's connection may be kept.
    pub keep: bool,
    /// The client takes trailers (9110-6.5): it has said so, or has frames of its own.
    pub trailers: bool,
    /// The one protocol that the request asks for, and that the client gets if the application agrees (101).
    pub switch: Option<&'static str>,
    /// What its head may have.
    pub bounds: ResponseBounds,
}
