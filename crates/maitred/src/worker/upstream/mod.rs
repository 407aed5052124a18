//! Upstreams: whoever answers a request, when it is not this server by itself.
//!
//! | upstream | file | the request goes | the response comes | [`Source`] |
//! |---|---|---|---|---|
//! | process, direct | [`hand_off`](super::hand_off) | in a frame, with the client's socket | not through here | `HandedOff`¹ |
//! | process, by relay | [`relay`] | in a frame, with one end of a socketpair | by the other, as HTTP/1 | `Relay` |
//! | server | [`server`]; its dialect: [`http1`], [`fastcgi`] | by a connection to it | by the same | `Server` |
//! | another thread | [`remote_thread`] | by its inbox, with one end of a socketpair | by the other, as HTTP/1 | `Thread` |
//!
//! ¹ A state of its own: the process writes to the client's socket.
//!
//! What they have in common is here: one [`Attempt`] is one request at an upstream, from the moment in which it was given there
//! to the end of its response.
//!
//! | step | process by relay | server | another thread | common |
//! |---|---|---|---|---|
//! | begin | `start_relay` | `proxy`, `attempt` | `send_to_thread` | |
//! | ready: the rest of the request | `feed_relay` | `send_request` | | [`Reactor::move_upstream`] |
//! | read | `receive_from_relay` | `receive_from_server` | the same | [`pump`]: judged, sent, waited for |
//! | nothing more for now | `end_relay`: DONE, tail | | | `wait_for_upstream` |
//! | its end | a wait for DONE | `end_of_stream` | the same | |
//! | the response is out | `free_relay` | `keep_upstream` | | `settle_upstream` |
//! | it has failed | `orphan_request` | `drop_upstream` | the same | [`failure`]: retried, refused or aborted |
//! | the client has gone | CANCEL | a second, then closed | told | `leave_upstream` |

pub(super) mod connections;
pub(super) mod failure;
mod fastcgi;
mod feed;
mod http1;
mod pump;
pub(super) mod relay;
pub(super) mod remote_thread;
mod server;

use std::time::{Duration, Instant};

use maitred_http::response::Filter;

use self::failure::{Cause, Reached, Verdict, judge};
use self::relay::Handed;
use self::remote_thread::Remote;
use self::server::{Call, Dialect};
use crate::exchange::ResponseWriter;
use crate::worker::connection::Spool;
use crate::worker::connection::{Exchange, RetryState, State};
use crate::worker::errors::fields_of;
use crate::worker::layers::{Clients, Exchanges};

/// How long the response may take to begin, or to go on, once the client has stopped sending, where nothing tells the upstream.
const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(1);

/// Where the response of a connection comes from: a key of the tables of relays, or of connections to servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A relay: an application process has its far end.
    Relay(u32),
    /// A connection to a server.
    Server(u32),
    /// A connection to another thread, which has the process. It is among those to servers.
    Thread(u32),
}

/// One request at an upstream, and the response that comes of it.
#[derive(Debug)]
pub struct Attempt {
    /// What becomes of the upstream's bytes.
    pub filter: Filter,
    /// The client's connection is kept afterwards, if the response allows it.
    pub keep: bool,
    /// Something of a response has come.
    pub begun: bool,
    /// The last read has left nothing in the socket.
    pub drained: bool,
    /// When something last came from the upstream, or went there, or it could go on after the client had kept it waiting.
    pub heard_at: Instant,
    /// What the upstream has still to get of the request's body, if that is spooled.
    pub feed: Option<Feed>,
    /// What only one kind of them has.
    pub by: By,
}

/// What only one kind of upstream has.
#[derive(Debug)]
pub enum By {
    /// An application process, through a relay.
    Process(Handed),
    /// A server.
    Server(Call),
    /// Another thread.
    Thread(Remote),
}

/// A spooled body on its way to an upstream.
#[derive(Debug)]
pub struct Feed {
    /// The body.
    pub spool: Spool,
    /// Bytes of it that the socket has.
    pub sent: u64,
}

impl Attempt {
    /// A request that an upstream has now.
    pub fn new(filter: Filter, keep: bool, feed: Option<Feed>, by: By, now: Instant) -> Attempt {
        Attempt { filter, keep, begun: false, drained: false, heard_at: now, feed, by }
    }

    /// Something of the response has come.
    fn note_heard(&mut self, now: Instant) {
        if matches!(&self.by, By::Server(Call { half_closed: true, .. })) && !self.begun {
            // The client may have gone: the server has no more than the time that began then.
            return;
        }
        self.heard_at = now;
        if let By::Thread(remote) = &self.by {
            remote.note_heard(now);
        }
    }

    /// Has bytes of the upstream judged, and written for the client. `log` gets what the application says besides.
    fn feed(
        &mut self,
        input: &[u8],
        writer: &mut ResponseWriter<'_>,
        log: &mut dyn FnMut(&[u8]),
    ) -> Result<(), (Cause, String)> {
        match &mut self.by {
            By::Server(Call { dialect: Dialect::FastCgi(spoken), .. }) => {
                let fed = spoken.reply.feed(input, &mut self.filter, writer, log);
                fed.map_err(|failed| (failed.cause(), failed.to_string()))
            }
            By::Server(Call { dialect: Dialect::Http1, .. }) | By::Process(_) | By::Thread(_) => {
                let fed = self.filter.feed(input, writer);
                fed.map(drop).map_err(|bad| (Cause::Bad, bad.to_string()))
            }
        }
    }

    /// Nothing follows.
    fn end(
        &mut self,
        writer: &mut ResponseWriter<'_>,
        log: &mut dyn FnMut(&[u8]),
    ) -> Result<(), (Cause, String)> {
        match &mut self.by {
            By::Server(Call { dialect: Dialect::FastCgi(spoken), .. }) => {
                spoken.reply.end(log).map_err(|failed| (Cause::Lost, failed.to_string()))
            }
            By::Server(Call { dialect: Dialect::Http1, .. }) | By::Process(_) | By::Thread(_) => {
                self.filter.end(writer).map_err(|bad| (Cause::Bad, bad.to_string()))
            }
        }
    }

    /// Whether nothing more belongs to the response. A process may have written more than it has announced, which has to be seen
    /// before its relay is used again.
    fn is_answered(&self) -> bool {
        match &self.by {
            By::Process(_) => self.filter.complete() && self.drained,
            By::Server(Call { dialect: Dialect::FastCgi(spoken), .. }) => spoken.reply.is_complete(),
            By::Server(Call { dialect: Dialect::Http1, .. }) | By::Thread(_) => self.filter.complete(),
        }
    }

    /// Whether the upstream has all of a body that is spooled.
    fn is_fed(&self) -> bool {
        self.feed.as_ref().is_none_or(|feed| feed.sent == feed.spool.bytes)
    }

    /// Whether the upstream is done with the request, too.
    fn is_done(&self) -> bool {
        !matches!(self.by, By::Process(Handed { done: false, .. }))
    }

    /// Memory of the request that the upstream has yet to take.
    pub fn unsent_bytes(&self) -> usize {
        match &self.by {
            By::Server(call) => call.unsent_bytes(),
            By::Process(_) | By::Thread(_) => 0,
        }
    }

    /// What there is of a process that answers through a relay.
    pub fn handed(&self) -> Option<&Handed> {
        match &self.by {
            By::Process(handed) => Some(handed),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn handed_mut(&mut self) -> Option<&mut Handed> {
        match &mut self.by {
            By::Process(handed) => Some(handed),
            _ => None,
        }
    }

    fn call_mut(&mut self) -> Option<&mut Call> {
        match &mut self.by {
            By::Server(call) => Some(call),
            _ => None,
        }
    }

    fn reached(&self, retry: RetryState) -> Reached {
        let (filter, once) = (&self.filter, retry == RetryState::Once);
        let (seen, safe, begun) = match &self.by {
            // As on its own socket, a client that has got anything notices that another process begins anew.
            By::Process(_) => (true, once, filter.informed()),
            By::Server(call) => (call.any_sent, call.safe, self.begun),
            By::Thread(_) => (true, once, self.begun),
        };
        Reached { seen, safe, begun, head_written: filter.head_written() }
    }
}

impl Clients {
    /// Where the response of a connection comes from.
    pub(super) fn source_of(&self, index: u32) -> Option<Source> {
        match self.connections.get(index as usize)?.state {
            State::Upstream(source) => Some(source),
            _ => None,
        }
    }

    /// The attempt that a connection waits for.
    pub(super) fn attempt_of(&self, index: u32) -> Option<&Attempt> {
        self.exchange_of(index)?.attempt.as_deref()
    }
}

impl Exchanges {
    /// Moves what can be moved, in both directions.
    pub(super) fn move_upstream(&mut self, index: u32) {
        match self.source_of(index) {
            Some(Source::Relay(relay)) => self.feed_relay(index, relay),
            Some(Source::Server(_)) => self.send_request(index),
            Some(Source::Thread(_)) | None => {}
        }
        self.pump_from_client(index);
        self.pump_to_client(index);
    }

    /// The client has gone, or its connection has broken.
    pub(super) fn abort_upstream(&mut self, index: u32) {
        // Of a process it is counted when that is told.
        let counts = !self.is_tunnel(index) && self.relay_of(index).is_none();
        self.row.cancelled.add(u64::from(counts));
        self.abort(index);
    }

    /// The client has finished sending. That is how most clients go away, but it may still wait for the answer.
    pub(super) fn on_client_ended(&mut self, index: u32) {
        match self.connections[index as usize].state {
            State::HandedOff { .. } | State::Upstream(Source::Relay(_)) => self.cancel(index),
            // The end goes behind what a tunnel has still to move.
            State::Upstream(Source::Thread(_)) if self.is_tunnel(index) => {}
            State::Upstream(Source::Thread(key)) => {
                self.exchange(index).cancelled = true;
                self.half_close_remote_thread(key);
            }
            State::Upstream(Source::Server(_)) => self.expect_client_to_leave(index),
            _ => {}
        }
    }

    /// When an upstream has been silent for too long, or has taken too long for all of it; `None` if nothing of that is due.
    pub(super) fn upstream_due(&self, index: u32) -> Option<Instant> {
        let (exchange, source) = (self.exchange_of(index)?, self.source_of(index)?);
        let attempt = exchange.attempt.as_deref().filter(|attempt| !attempt.filter.switched())?;
        let timeout = self.request_timeout(exchange.pool?);
        let silent = match (&attempt.by, source) {
            (By::Process(handed), _) if handed.done => return None,
            // Once it was told to cancel the request: when that has to have ended.
            (By::Process(handed), _) if exchange.overdue => return handed.ends_at,
            (By::Process(_), _) => attempt.heard_at + timeout,
            (By::Server(call), Source::Server(key)) => {
                let connected = self.upstreams.is_connected(key);
                let period = if connected { timeout } else { self.connect_timeout(exchange.pool?) };
                attempt.heard_at + if call.half_closed { period.min(HALF_CLOSED_TIMEOUT) } else { period }
            }
            // It ends the request by itself, also when all of the time is over.
            _ => {
                let queue = if attempt.begun { Duration::ZERO } else { self.queue_timeout(exchange.pool?) };
                return Some(attempt.heard_at + queue + timeout + remote_thread::TIMEOUT);
            }
        };
        Some(self.total_due(index).map_or(silent, |total| total.min(silent)))
    }

    /// Either the client takes nothing, or the upstream gives nothing, or has had all of its time.
    pub(super) fn on_upstream_timeout(&mut self, index: u32) {
        match self.source_of(index) {
            Some(Source::Relay(relay)) => self.on_relay_timeout(index, relay),
            Some(Source::Server(key)) => self.on_server_timeout(index, key),
            Some(Source::Thread(_)) if self.has_output(index) => self.abort_stalled(index),
            Some(Source::Thread(_)) if self.is_tunnel(index) => self.abort(index),
            Some(Source::Thread(_)) => {
                self.fail_upstream(index, Cause::Late, "the other thread does not answer")
            }
            None => {}
        }
    }

    /// The upstream gives no answer, or none to its end: another one is asked, or the client gets an error, or a part of a
    /// response.
    pub(super) fn fail_upstream(&mut self, index: u32, cause: Cause, why: &str) {
        let Some(source) = self.source_of(index) else { return };
        let Some(attempt) = self.attempt_of(index) else { return };
        let retry = self.exchange_of(index).map_or(RetryState::Never, |exchange| exchange.retry);
        let reached = attempt.reached(retry);
        let cause = match source {
            Source::Relay(_) => self.note_failed_relay(index, cause, why),
            Source::Server(key) => self.note_failed_server(index, key, cause, why),
            Source::Thread(_) => match self.note_failed_thread(index, cause, why) {
                Some(cause) => cause,
                // Its process was told that the client has gone, and has given it up.
                None => return self.abort(index),
            },
        };
        match judge(cause, reached) {
            Verdict::Abort => self.abort(index),
            Verdict::Retry(status) => self.retry_upstream(index, source, status),
            Verdict::Refuse(status) => self.refuse_upstream(index, status),
        }
    }

    /// Gives the request to another one, if that is possible.
    fn retry_upstream(&mut self, index: u32, source: Source, status: u16) {
        match source {
            Source::Server(key) => self.retry_server(index, key),
            Source::Relay(_) | Source::Thread(_) => {
                self.leave_upstream(index);
                if !self.retry(index) {
                    self.refuse_kept(index, status, fields_of(status));
                }
            }
        }
    }

    /// The client gets an error instead of what the upstream may still have to say.
    pub(super) fn refuse_upstream(&mut self, index: u32, status: u16) {
        self.leave_upstream(index);
        self.refuse_kept(index, status, fields_of(status));
    }

    /// The connection goes on, or away, without what the upstream may still have to say, which is told.
    pub(super) fn leave_upstream(&mut self, index: u32) {
        let Some(source) = self.source_of(index) else { return };
        self.enter(index, State::Head);
        let attempt = self.exchange(index).attempt.take();
        match source {
            Source::Relay(relay) => self.leave_relay(relay, attempt),
            Source::Server(key) | Source::Thread(key) => {
                self.note_last_words(index, attempt);
                self.leave_server(key);
            }
        }
    }
}

impl Exchange {
    /// If an upstream was answering through here: whether the client was given another protocol, and the bytes that it got.
    pub(super) fn answered_so_far(&self) -> Option<(bool, u64)> {
        self.attempt.as_deref().map(|attempt| (attempt.filter.switched(), attempt.filter.body_bytes()))
    }
}
