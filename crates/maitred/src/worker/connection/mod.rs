//! A client connection: what it consists of, and its states.
//!
//! | state | what is going on | reads the socket | deadline |
//! |---|---|---|---|
//! | `Idle` | nothing received since the last response | yes | first `head_timeout`, later `keep_alive_timeout` |
//! | `Head` | part of a head is there | yes | `head_timeout` from its first byte, and more as it comes (`rates`) |
//! | `Body` | the head was judged, its body is coming | yes | `body_timeout` since the last piece, and its rate (`rates`) |
//! | `Spooling` | a helper thread writes a piece of the body | no | none: the disk answers |
//! | `Disk` | a helper thread fetches what the answer needs | no | none: the disk answers |
//! | `Queued` | waits for an application process | no | the pool's `queue_timeout` |
//! | `HandedOff` | an application process owns the connection | no | the pool's timeouts, see `overdue` |
//! | `Upstream` | an upstream answers, through this process | after an upgrade | the pool's timeouts, or `write_timeout` |
//! | `Command` | waits for the master to carry out an admin request | no | `COMMAND_TIMEOUT` since the last message |
//! | `Watching` | gets the status every second | no | `WATCHER_TIMEOUT` since it last took something |
//! | `Http2` | HTTP/2: its streams are connections (`http2`) | yes | `keep_alive_timeout`, `write_timeout` |
//! | `Writing` | a response is on its way out | no | `write_timeout` since the last progress |
//! | `Linger` | the last response is on its way | yes, and drops | `linger_timeout`, anew while the client reads |
//!
//! Where something waits for the client, its rate is looked at as well (`rates`), and the time of the whole if that has a bound.
//!
//! A connection that does not read leaves the bytes in the kernel: that is the back-pressure. What epoll reports
//! meanwhile is kept in [`Connection::readable`], since an edge comes only once.

pub mod http2;
pub mod incoming;
pub mod outgoing;
pub mod rates;
pub mod refusal;
pub mod remote;
pub mod retry;
pub mod spool;
pub mod stream;
pub mod table;
pub mod tls;
pub mod tunnel;
pub mod unsent;
pub mod wire;

use std::collections::VecDeque;
use std::time::Instant;

use maitred_http::fields::FieldLines;
use maitred_http::request::RequestHead;

use self::incoming::Incoming;
use self::outgoing::Outgoing;
use self::remote::Remote;
use self::retry::RetryState;
use self::spool::Spool;
use super::origin::Peer;
use super::upstream::remote_thread::RemoteRequest;
use super::upstream::{Attempt, Source};
use crate::budget::Permit;
use crate::control::SlotId;
use crate::exchange::Routed;
use crate::serve::{Segment, Summary};
use crate::worker::connection::refusal::Refusal;
use crate::worker::connection::tunnel::Tunnel;
use crate::worker::connection::wire::Wire;

/// What a connection is doing. The table at the top of the file has their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Between requests.
    Idle,
    /// Part of a head.
    Head,
    /// Part of a body.
    Body,
    /// A piece of its body is on the way to the disk.
    Spooling,
    /// At the disk.
    Disk,
    /// Waiting for an application process of this pool.
    Queued {
        /// Index of the pool.
        pool: u16,
    },
    /// Owned by an application process.
    HandedOff {
        /// Key of its channel.
        channel: u32,
        /// Number of the request on that channel.
        request: u32,
    },
    /// An upstream answers; the response comes through this process.
    Upstream(Source),
    /// At the master.
    Command,
    /// Gets the status every second.
    Watching,
    /// HTTP/2: its streams answer.
    Http2 {
        /// Key of the HTTP/2 session.
        session: u32,
    },
    /// Response on its way.
    Writing,
    /// Response out; drains.
    Linger,
}

/// What becomes of the connection after the present response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The next request.
    Keep,
    /// Close: everything the client sent was read.
    Close,
    /// Stop sending, drop what still comes, then close, so that no reset overtakes the response (9112-9.6).
    Linger,
}

/// One client connection: its state, and what belongs to it. Its descriptor is the [`Entry`](super::entry::Entry)'s.
#[derive(Debug)]
pub struct Connection {
    /// What carries its bytes.
    pub wire: Wire,
    /// What it is doing.
    pub state: State,
    /// There may be more to read: epoll reported it while the connection did not read, or the last read filled its buffer.
    pub readable: bool,
    /// The client has finished sending (end of file seen).
    pub ended: bool,
    /// A PROXY header has to come before anything else.
    pub awaits_proxy: bool,
    /// The client's side is encrypted.
    pub secure: bool,
    /// Its other end is another thread's, which has the client, and logs and counts what becomes of the request.
    pub internal: bool,
    /// Requests answered.
    pub requests: u32,
    /// When the present request's first byte was seen.
    pub began: Instant,
    /// The client's address.
    pub remote: Remote,
    /// Buffers of the request at hand; none while idle.
    pub exchange: Option<Box<Exchange>>,
}

/// What a connection needs only while a request is under way and could not be answered at once.
#[derive(Debug, Default)]
pub struct Exchange {
    /// Received, not yet acted on.
    pub input: Vec<u8>,
    /// Head of the request at hand. Empty when there is none.
    pub head: RequestHead,
    /// What was decided about it.
    pub routed: Option<Routed>,
    /// Its path as routes and files go by it, if that is another one than it has sent.
    pub path: Option<Box<[u8]>>,
    /// Its body, decoded.
    pub body: Vec<u8>,
    /// What is still to come of it.
    pub incoming: Incoming,
    /// A body that is too large to be sent in a frame.
    pub spool: Option<Spool>,
    /// The error that the request is to be answered with, whatever its route is.
    pub refusal: Option<Refusal>,
    /// Nothing can be read after this request: its body was announced, and is not asked for by a 100 (Continue).
    pub last: bool,
    /// What of its response is still to be sent.
    pub outgoing: Outgoing,
    /// What it holds of the budget for what is unsent, if a part of a response was left over.
    pub unsent: Option<Permit>,
    /// What follows the content, where that has frames of its own.
    pub trailers: Option<Box<FieldLines>>,
    /// What the access log will say once the response has ended; `None` when it was said.
    pub summary: Option<Summary>,
    /// What comes after the response.
    pub after: Option<After>,
    /// Since when the request, all of which is there, waits for an application process.
    pub waits_since: Option<Instant>,
    /// How long it has waited, in microseconds.
    pub queue_us: u64,
    /// The slot whose process it waits for; `None` for any.
    pub pin: Option<u16>,
    /// A `Set-Cookie` field for the response that comes through a relay.
    pub set_cookie: Option<Box<FieldLines>>,
    /// What the application process returned to be sent after what it wrote itself.
    pub tail: VecDeque<Segment>,
    /// Bytes in memory that `tail` holds.
    pub tail_bytes: usize,
    /// The application process that returned the files in `segments`.
    pub returned_by: Option<SlotId>,
    /// What the thread that has the client has sent about the request, besides the request itself.
    pub across: Option<Box<RemoteRequest>>,
    /// The request at an upstream, and the response that comes of it.
    pub attempt: Option<Box<Attempt>>,
    /// After an upgrade: the bytes from the client to the upstream, and which side has ended.
    pub tunnel: Option<Box<Tunnel>>,
    /// When the request was handed to an application process.
    pub handed_off_at: Option<Instant>,
    /// The process may keep the connection for another protocol.
    pub may_detach: bool,
    /// The process was sent CANCEL: no client waits for the response.
    pub cancelled: bool,
    /// The process, or the server, was silent for longer than its pool allows, or has taken longer for the request.
    pub overdue: bool,
    /// The process that had the client's own socket has ended before the response had.
    pub lost: bool,
    /// The id that the request got when it was handed off.
    pub request_id: Option<u128>,
    /// The pool that answers, for the access log.
    pub pool: Option<u16>,
    /// Whether the request may be sent to another process, should this one die before the client has received anything.
    pub retry: RetryState,
}

impl Exchange {
    /// Empties everything, and keeps the memory of the buffers.
    pub fn reset(&mut self) {
        let (mut input, mut head) = (std::mem::take(&mut self.input), std::mem::take(&mut self.head));
        let (mut body, mut output) =
            (std::mem::take(&mut self.body), std::mem::take(&mut self.outgoing.bytes));
        [&mut input, &mut body, &mut output].into_iter().for_each(Vec::clear);
        head.clear();
        let outgoing = Outgoing { bytes: output, ..Outgoing::default() };
        *self = Exchange { input, head, body, outgoing, ..Exchange::default() };
    }

    /// The request to a pool has its line in the log; the next one may be for no pool.
    pub fn forget_pool(&mut self) {
        (self.pool, self.request_id, self.returned_by, self.set_cookie) = (None, None, None, None);
        (self.queue_us, self.waits_since) = (0, None);
    }

    /// Bytes of memory that the buffers hold.
    pub fn capacity(&self) -> usize {
        self.input.capacity() + self.head.capacity() + self.body.capacity() + self.outgoing.bytes.capacity()
    }

    /// If an upstream was answering through here: whether the client was given another protocol, and the bytes that it got.
    pub(in crate::worker) fn answered_so_far(&self) -> Option<(bool, u64)> {
        self.attempt.as_deref().map(|attempt| (attempt.filter.switched(), attempt.filter.body_bytes()))
    }

    /// Whether nothing is left in any buffer.
    pub fn is_empty(&self) -> bool {
        self.input.is_empty()
            && self.head.is_empty()
            && self.outgoing.bytes.is_empty()
            && self.outgoing.segments.is_empty()
    }
}

impl Connection {
    /// A connection on which nothing has happened yet.
    pub fn new(wire: Wire, remote: Remote, secure: bool, now: Instant) -> Self {
        Connection {
            wire,
            state: State::Idle,
            readable: false,
            ended: false,
            awaits_proxy: false,
            secure,
            internal: false,
            requests: 0,
            began: now,
            remote,
            exchange: None,
        }
    }

    /// The peer of the connection, for `forward`.
    pub(super) fn peer(&self) -> Peer {
        Peer { remote: self.remote, secure: self.secure }
    }

    /// Whether it is a client's: neither a part of another connection, nor one within this process.
    pub fn is_client(&self) -> bool {
        !self.is_stream() && !self.internal
    }

    /// Whether it is a stream of an HTTP/2 connection.
    pub fn is_stream(&self) -> bool {
        matches!(self.wire, Wire::Stream { .. })
    }

    /// The buffers, made on first use.
    pub fn exchange(&mut self) -> &mut Exchange {
        self.exchange.get_or_insert_default()
    }

    /// Whether nothing is under way, so that the connection may be closed or given away.
    pub fn is_idle(&self) -> bool {
        self.state == State::Idle && self.exchange.as_ref().is_none_or(|exchange| exchange.input.is_empty())
    }
}

#[cfg(test)]
mod tests;
