//! One stream of an HTTP/2 or HTTP/3 connection.

use crate::keys::{ConnKey, Key};
use maitred_http::framed::StreamKey;

/// No connection: the stream is free, or its connection has gone.
pub(crate) const NO_CONNECTION: ConnKey = ConnKey::NONE;

/// One stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    /// The connection of the stream.
    pub(crate) index: ConnKey,
    /// Nothing more comes from the client.
    pub(crate) heard: bool,
    /// Bytes of the body that were not acted on, and for which the client gets no new room.
    pub(crate) unread: usize,
    /// More of the body may be there that is not read before those bytes were acted on. With HTTP/3 only.
    pub(crate) stalled: bool,
    /// Bytes of the response's content that are in frames so far.
    pub(crate) framed: u64,
}

/// A request that has begun on a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opened {
    pub(crate) stream: StreamKey,
    /// The request has no body.
    pub(crate) ended: bool,
}

pub(crate) const FREE: Stream =
    Stream { index: NO_CONNECTION, heard: false, unread: 0, stalled: false, framed: 0 };
