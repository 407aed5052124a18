//! TYPES of answer.rs

use maitred_http::fastcgi::script::Script;
use maitred_http::request::RequestHead;

use super::connection::{After, Connection};
use super::shared::Shared;
use crate::clock::Clock;
use crate::exchange::Routed;
use crate::log::access::{Line, RequestLine};
use crate::serve::Summary;

/// What [`Reactor::answer`] made of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Answered, whole, in `tx`; the connection is kept.
    Next,
    /// Answered, whole, in `tx`; no other request will be.
    Last(After),
    /// The connection waits for something; its state says for what.
    Waits,
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
    /// It was answered with [`Served::Blocked`] before, and the disk has been asked.
    pub warmed: bool,
    /// The connection cannot be kept, whatever the request says.
    pub last: bool,
    /// Bytes came behind it, which nobody has looked at.
    pub followed: bool,
    /// The head, if the request waited in the connection's buffers.
    pub kept: Option<&'a RequestHead>,
    /// The script that it is for, of a FastCGI application that has any.
    pub script: Option<&'a Script<'a>>,
}

/// The parts of a log line that the connection knows.
pub(super) fn line<'a>(
    shared: &'a Shared,
    clock: &'a Clock,
    connection: &'a Connection,
    request: RequestLine<'a>,
    summary: Summary,
) -> Line<'a> {
    let exchange = connection.exchange.as_deref();
    let pool = exchange.and_then(|exchange| exchange.pool);
    Line {
        clock,
        remote: connection.remote.text(),
        request,
        host: b"",
        status: summary.status,
        body_bytes: summary.body_bytes,
        referer: None,
        user_agent: None,
        request_id: None,
        duration_us: clock.now.saturating_duration_since(connection.began).as_micros() as u64,
        pool: pool
            .and_then(|pool| shared.start.config.pools.get(usize::from(pool)))
            .map(|pool| pool.name.as_str()),
        queue_us: exchange.map_or(0, |exchange| exchange.queue_us),
    }
}
