//! A client connection: what it consists of, and its states.
//!
//! | state | what is going on | reads the socket | deadline |
//! |---|---|---|---|
//! | `Idle` | nothing received since the last response | yes | first `head_timeout`, later `keep_alive_timeout` |
//! | `Handshake` | waits for a certificate that is being ordered (`hello`) | no | `wait_timeout` of on_demand |
//! | `Head` | part of a head is there | yes | `head_timeout` from its first byte, and more as it comes (`rates`) |
//! | `Body` | the head was judged, its body is coming | yes | `body_timeout` since the last piece, and its rate (`rates`) |
//! | `Spooling` | a helper thread writes a piece of the body | no | none: the disk answers |
//! | `Disk` | a helper thread fetches what the answer needs | no | none: the disk answers |
//! | `Gate` | waits for what a gate of its route says | no | that of the gate |
//! | `Queued` | waits for an application process | no | the pool's `queue_timeout` |
//! | `HandedOff` | an application process owns the connection | no | the pool's timeouts, see `overdue` |
//! | `Upstream` | an upstream answers, through this process | after an upgrade | the pool's timeouts, or `write_timeout` |
//! | `Command` | waits for the master to carry out an admin request | no | `COMMAND_TIMEOUT` since the last message |
//! | `Watching` | gets the status every second | no | `WATCHER_TIMEOUT` since it last took something |
//! | `Multiplexed` | HTTP/2, HTTP/3: its streams are connections (`multiplexed`) | yes | `keep_alive_timeout`, `write_timeout` |
//! | `Writing` | a response is on its way out | no | `write_timeout` since the last progress |
//! | `Linger` | the last response is on its way | yes, and drops | `linger_timeout`, anew while the client reads |
//!
//! Where something waits for the client, its rate is looked at as well (`rates`), and the time of the whole if that has a bound.
//!
//! A connection that does not read leaves the bytes in the kernel: that is the back-pressure. What epoll reports
//! meanwhile is kept in [`Connection::readable`], since an edge comes only once.
//!
//! What has to wait is kept in an [`Exchange`], which exists only meanwhile: an idle connection costs its
//! [`Entry`](crate::entry::Entry), whose size a test bounds, and an entry of the timers.

#[cfg(test)]
mod belongings;
pub(crate) mod body;
pub(crate) mod cached;
pub(crate) mod dispatch;
pub(crate) mod gated;
pub(crate) mod hello;
pub(crate) mod incoming;
pub(crate) mod multiplexed;
pub(crate) mod outgoing;
pub(crate) mod paths;
pub(crate) mod quic;
pub(crate) mod rates;
pub(crate) mod refusal;
pub(crate) mod remote;
pub(crate) mod retry;
pub(crate) mod spool;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod throttle;
pub(crate) mod tls;
pub(crate) mod transfer;
pub(crate) mod tunnel;
pub(crate) mod unsent;
pub(crate) mod wire;

use std::time::Instant;

use crate::keys::{ChannelKey, SessionKey};
use maitred_http::request::RequestHead;

use self::body::RequestBody;
use self::cached::Cached;
use self::dispatch::Dispatch;
use self::outgoing::Pending;
use self::remote::Remote;
use self::table::Phase;
use super::origin::Peer;
use super::upstream::{Attempt, Source};
use crate::connection::refusal::Refusal;
use crate::connection::wire::Wire;
use maitred_files::Summary;
use maitred_files::exchange::Routed;
use maitred_policy::plan::IdleTime;

/// What a connection is doing. The table at the top of the file has their meaning.
#[derive(Debug)]
pub(crate) enum State {
    /// Between requests.
    Idle,
    /// Waiting for a certificate.
    Handshake,
    /// Part of a head.
    Head,
    /// Part of a body.
    Body,
    /// A piece of its body is on the way to the disk.
    Spooling,
    /// At the disk.
    Disk,
    /// Waiting for what a gate of its route says.
    Gate,
    /// Waiting for an application process of this pool.
    Queued {
        /// Index of the pool.
        pool: u16,
        /// The slot whose process it waits for; `None` for any.
        pin: Option<u16>,
    },
    /// Owned by an application process.
    HandedOff {
        /// Key of its channel.
        channel: ChannelKey,
        /// Number of the request on that channel.
        request: u32,
        /// The process may keep the connection for another protocol.
        may_detach: bool,
    },
    /// An upstream answers; the response comes through this process.
    Upstream(Box<Attempt>),
    /// At the master.
    Command,
    /// Gets the status every second.
    Watching,
    /// HTTP/2 or HTTP/3: its streams answer.
    Multiplexed {
        /// Key of the session.
        session: SessionKey,
    },
    /// Response on its way.
    Writing,
    /// Response out; drains.
    Linger,
}

/// What becomes of the connection after the present response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The next request.
    Keep,
    /// Close: everything the client sent was read.
    Close,
    /// Stop sending, drop what still comes, then close, so that no reset overtakes the response (9112-9.6).
    Linger,
}

/// One client connection: its state, and what belongs to it. The descriptor is the [`Entry`](super::entry::Entry)'s.
#[derive(Debug)]
pub(crate) struct Connection {
    /// What carries its bytes.
    pub wire: Wire,
    /// What it is doing.
    pub state: State,
    /// More may be there to read: epoll reported it while the connection did not read, or the last read filled its buffer.
    pub readable: bool,
    /// The client has finished sending (end of file seen).
    pub ended: bool,
    /// A PROXY header has to come before anything else.
    pub awaits_proxy: bool,
    /// The client's side is encrypted.
    pub secure: bool,
    /// The other end is another thread's, which has the client, and logs and counts what becomes of the request.
    pub internal: bool,
    /// How long it may be idle, by the last request that began on it.
    pub idle: IdleTime,
    /// What the cache of responses did about the present request.
    pub cached: Cached,
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
pub(crate) struct Exchange {
    /// Received, not yet acted on.
    pub input: Vec<u8>,
    /// Head of the request at hand. Empty when there is none.
    pub head: RequestHead,
    /// What was decided about it.
    pub routed: Option<Routed>,
    /// The path of the request as routes and files go by it, if that is another one than the request has sent.
    pub path: Option<Box<[u8]>>,
    /// The body of the request at hand.
    pub body: RequestBody,
    /// The error that the request is to be answered with, whatever its route is.
    pub refusal: Option<Box<Refusal>>,
    /// Nothing can be read after this request: its body was announced, and is not asked for by a 100 (Continue).
    pub last: bool,
    /// What of its response is still to be sent.
    pub outgoing: Pending,
    /// What the access log will say once the response has ended; `None` when it was said.
    pub summary: Option<Summary>,
    /// What comes after the response.
    pub after: Option<After>,
    /// What is known of it as a request to a pool.
    pub dispatch: Dispatch,
}

impl Exchange {
    /// Empties everything, and keeps the memory of the buffers. Field by field: requests that are handed off do it twice, and to
    /// put a new exchange in place of this one takes four times as many instructions.
    pub(crate) fn reset(&mut self) {
        self.input.clear();
        self.head.clear();
        self.body.reset();
        self.outgoing.reset();
        self.dispatch.reset();
        (self.routed, self.path, self.refusal, self.last) = (None, None, None, false);
        (self.summary, self.after) = (None, None);
    }

    /// Bytes of memory that the buffers hold.
    pub(crate) fn capacity(&self) -> usize {
        self.input.capacity()
            + self.head.capacity()
            + self.body.content.capacity()
            + self.outgoing.bytes.capacity()
    }

    /// Whether nothing is left in any buffer.
    pub(crate) fn is_empty(&self) -> bool {
        self.input.is_empty()
            && self.head.is_empty()
            && self.outgoing.bytes.is_empty()
            && self.outgoing.segments.is_empty()
    }
}

impl Connection {
    /// A connection on which nothing has happened yet.
    pub(crate) fn new(wire: Wire, remote: Remote, secure: bool, now: Instant) -> Self {
        Connection {
            wire,
            state: State::Idle,
            readable: false,
            ended: false,
            awaits_proxy: false,
            secure,
            internal: false,
            idle: IdleTime::default(),
            cached: Cached::default(),
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
    pub(crate) fn is_client(&self) -> bool {
        !self.is_stream() && !self.internal
    }

    /// Whether it is a stream of an HTTP/2 or HTTP/3 connection.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.wire, Wire::Stream { .. })
    }

    /// The buffers, made on first use.
    pub(crate) fn exchange(&mut self) -> &mut Exchange {
        self.exchange.get_or_insert_default()
    }

    /// Whether this is what it is doing.
    pub(crate) fn is(&self, phase: Phase) -> bool {
        self.state.phase() == phase
    }

    /// Whether a process has its socket, for the request with this number on the channel with this key.
    pub(crate) fn is_handed_off_as(&self, of: (ChannelKey, u32)) -> bool {
        matches!(self.state, State::HandedOff { channel, request, .. } if (channel, request) == of)
    }

    /// Whether the process that answers may keep the connection for another protocol.
    pub(crate) fn may_detach(&self) -> bool {
        match &self.state {
            State::HandedOff { may_detach, .. } => *may_detach,
            State::Upstream(attempt) => attempt.handed().is_some_and(|handed| handed.may_detach),
            _ => false,
        }
    }

    /// Where the response comes from, if it comes through this process.
    pub(crate) fn source(&self) -> Option<Source> {
        self.attempt().map(Attempt::source)
    }

    /// The request at an upstream, and the response that comes of it.
    pub(crate) fn attempt(&self) -> Option<&Attempt> {
        match &self.state {
            State::Upstream(attempt) => Some(attempt),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(crate) fn attempt_mut(&mut self) -> Option<&mut Attempt> {
        match &mut self.state {
            State::Upstream(attempt) => Some(attempt),
            _ => None,
        }
    }

    /// Takes the attempt out of the state, which is put back at once when the attempt has written something.
    pub(super) fn lend_attempt(&mut self) -> Option<Box<Attempt>> {
        match std::mem::replace(&mut self.state, State::Head) {
            State::Upstream(attempt) => Some(attempt),
            state => {
                self.state = state;
                None
            }
        }
    }

    /// The session whose frames it carries, if it is an HTTP/2 or HTTP/3 connection.
    pub(crate) fn session(&self) -> Option<SessionKey> {
        match self.state {
            State::Multiplexed { session } => Some(session),
            _ => None,
        }
    }

    /// Whether nothing is under way, so that the connection may be closed or given away.
    pub(crate) fn is_idle(&self) -> bool {
        self.is(Phase::Idle) && self.exchange.as_ref().is_none_or(|exchange| exchange.input.is_empty())
    }
}

#[cfg(test)]
mod tests;
