//! Upstreams: processes, servers and threads that answer a request instead of this thread.
//!
//! | upstream | file | the request goes | the response comes | `Source` |
//! |---|---|---|---|---|
//! | process, direct | `requests::hand_off` | in a frame, with the client's socket | not through here | `HandedOff`¹ |
//! | process, by relay | `relay` | in a frame, with one end of a socketpair | by the other, as HTTP/1 | `Relay` |
//! | server | `server`; its dialect: `http1`, `fastcgi`, `streams` | by a connection, or its stream | by the same | `Server` |
//! | another thread | `remote_thread` | by its inbox, with one end of a socketpair | by the other, as HTTP/1 | `Thread` |
//! | a fill of the cache | `fill`, `follow` | – | from memory, or a file | `Fill` |
//!
//! ¹ A state of its own: the process writes to the client's socket.
//!
//! What they have in common is here: one `Attempt` is one request at an upstream, from the moment in which it was sent there to
//! the end of its response.
//!
//! | step | process by relay | server | another thread | common |
//! |---|---|---|---|---|
//! | begin | `start_relay` | `proxy`, `attempt` | `send_to_thread` | |
//! | ready: the rest of the request | `feed_relay` | `send_request` | | `move_upstream`, `pass_request` |
//! | read | `receive_from_relay` | `receive_from_server` | the same | `pump`: checked, sent, waited for |
//! | nothing more for now | `end_relay`: DONE, tail | | | `wait_for_upstream` |
//! | its end | a wait for DONE | `end_of_stream` | the same | |
//! | the response is out | `free_relay` | `keep_upstream` | | `settle_upstream` |
//! | it has failed | `orphan_request` | `drop_upstream` | the same | `failure`: retried, refused or aborted |
//! | the client has gone | CANCEL | a second, then closed | shutdown | `leave_upstream` |
//!
//! Servers: which of them gets a request is `proxy::Balancer`'s to say, and over which connection `upstream::connections`'. The
//! balancer and the connections belong to one thread; what is known of a server (`proxy::Server`) is shared by all threads.

use std::time::{Duration, Instant};

use maitred_http::request::{Method, Request, Version};
use maitred_http::response::ResponsePolicy;

use super::Exchanges;
use crate::connection::refusal::fields_of;
use crate::connection::retry::RetryState;
use crate::connection::table::Phase;
use crate::forward::{may_be_informed, protocol, takes_trailers};
use crate::keys::ConnKey;
use crate::upstream::failure::{Cause, Rules, Verdict, judge};
use crate::upstream::remote_thread::TIMEOUT;
use crate::upstream::{By, HALF_CLOSED_TIMEOUT, Source};
use maitred_config::Pool;

impl Exchanges {
    /// Moves what can be moved, in both directions.
    pub(crate) fn move_upstream(&mut self, index: ConnKey) {
        match self.source_of(index) {
            Some(Source::Relay(relay)) if !self.passes_to(index) => self.feed_relay(index, relay),
            Some(Source::Thread(_)) if !self.passes_to(index) => {}
            Some(Source::Relay(_) | Source::Server(_) | Source::Thread(_)) => self.pass_request(index),
            Some(Source::Fill) | None => {}
        }
        self.pump_from_client(index);
        self.pump_to_client(index);
    }

    /// Moves what has come from the client, if that goes on as it comes.
    pub(crate) fn move_from_client(&mut self, index: ConnKey) {
        if self.is_tunnel(index) {
            self.move_upstream(index);
        } else if self.awaits_body(index) {
            self.pass_request(index);
            self.wait_for_upstream(index);
        }
    }

    /// The client has gone, or its connection has broken.
    pub(crate) fn abort_upstream(&mut self, index: ConnKey) {
        // A cancelled request of a process is counted when CANCEL is sent.
        let counts = !self.is_tunnel(index) && self.relay_of(index).is_none();
        self.row.cancelled.add(u64::from(counts));
        self.abort(index);
    }

    /// The client has finished sending. Most clients go away in this way, but the client may still wait for the answer.
    pub(crate) fn on_client_ended(&mut self, index: ConnKey) {
        match self.source_of(index) {
            None if self.connections[index].is(Phase::HandedOff) => self.cancel(index),
            None => {}
            // The end is looked for behind the bytes of the body that are still to be read.
            Some(_) if self.awaits_body(index) => {}
            Some(Source::Relay(_)) => self.cancel(index),
            // The client may still wait; a fill costs its pool nothing more.
            Some(Source::Fill) => {}
            // A tunnel passes the end on after the bytes that it still has to move.
            Some(Source::Thread(_)) if self.is_tunnel(index) => {}
            Some(Source::Thread(key)) => {
                self.exchange(index).dispatch.cancelled = true;
                self.half_close_remote_thread(key);
            }
            Some(Source::Server(_)) => self.expect_client_to_leave(index),
        }
    }

    /// When an upstream has been silent for too long, or has taken too long for all of it; `None` if nothing of that is due.
    pub(crate) fn upstream_due(&self, index: ConnKey) -> Option<Instant> {
        let exchange = self.exchange_of(index)?;
        let attempt = self.attempt_of(index).filter(|attempt| !attempt.filter.switched())?;
        let timeout = self.request_timeout(index, exchange.dispatch.pool?);
        let silent = match &attempt.by {
            By::Process(handed) if handed.done => return None,
            // After CANCEL for an overdue request: the time by which it has to have ended.
            By::Process(handed) if exchange.dispatch.overdue => return handed.ends_at,
            By::Process(_) if self.waits_for_body(index) => self.body_due(index)?,
            By::Process(_) => attempt.heard_at + timeout,
            By::Server(_) if self.waits_for_body(index) => self.body_due(index)?,
            By::Server(call) => {
                let connected = self.upstreams.is_connected(call.upstream);
                let period = if connected { timeout } else { self.connect_timeout(exchange.dispatch.pool?) };
                let period = if call.half_closed { period.min(HALF_CLOSED_TIMEOUT) } else { period };
                let due = attempt.heard_at + period;
                self.try_due(attempt, call).map_or(due, |try_due| try_due.min(due))
            }
            By::Fill(follow) if follow.head.is_none() => return Some(follow.since + follow.timeout),
            By::Fill(_) => return Some(attempt.heard_at + timeout + TIMEOUT),
            By::Thread(_) if self.waits_for_body(index) => return self.body_due(index),
            // The other thread ends the request by itself, also when `request_total_timeout` is over.
            By::Thread(_) => {
                let queue =
                    if attempt.begun { Duration::ZERO } else { self.queue_timeout(exchange.dispatch.pool?) };
                return Some(attempt.heard_at + queue + timeout + TIMEOUT);
            }
        };
        let bounds = [self.total_due(index), attempt.deadline()];
        Some(bounds.into_iter().flatten().fold(silent, Instant::min))
    }

    /// Either the client takes nothing, or the upstream sends nothing, or its time is over.
    pub(crate) fn on_upstream_timeout(&mut self, index: ConnKey) {
        match self.source_of(index) {
            Some(Source::Relay(relay)) => self.on_relay_timeout(index, relay),
            Some(Source::Server(key)) => self.on_server_timeout(index, key),
            Some(Source::Fill) => self.on_fill_timeout(index),
            Some(Source::Thread(_)) if self.has_output(index) => self.abort_stalled(index),
            Some(Source::Thread(_)) if self.is_tunnel(index) => self.abort(index),
            Some(Source::Thread(_)) if self.waits_for_body(index) => self.refuse_upstream(index, 408),
            Some(Source::Thread(_)) => {
                self.fail_upstream(index, Cause::Late, "the other thread does not answer")
            }
            None => {}
        }
    }

    /// The upstream gives no answer, or only a part of one: the request is retried, or the client gets an error, or the response
    /// is aborted.
    pub(crate) fn fail_upstream(&mut self, index: ConnKey, cause: Cause, why: &str) {
        let Some(source) = self.source_of(index) else { return };
        let Some(attempt) = self.attempt_of(index) else { return };
        let retry = self.exchange_of(index).map_or(RetryState::Never, |exchange| exchange.dispatch.retry);
        let reached = attempt.reached(retry);
        let rules = match &attempt.by {
            By::Server(call) => self.retry_of(call.pool).map_or(Rules::DEFAULT, Rules::of),
            By::Process(_) | By::Thread(_) | By::Fill(_) => Rules::DEFAULT,
        };
        let cause = match source {
            Source::Relay(_) => self.note_failed_relay(index, cause, why),
            Source::Fill => cause,
            Source::Server(key) => self.note_failed_server(index, key, cause, why),
            Source::Thread(_) => match self.note_failed_thread(index, cause, why) {
                Some(cause) => cause,
                // The process was told that the client has gone, and has aborted the response.
                None => return self.abort(index),
            },
        };
        match judge(cause, reached, rules) {
            Verdict::Abort => {
                self.exchange(index).dispatch.lost = true;
                self.abort(index);
            }
            Verdict::Retry(status) if cause.costs(reached) && !self.takes_retry(index) => {
                self.refuse_upstream(index, status);
            }
            Verdict::Retry(status) => self.retry_upstream(index, source, status),
            Verdict::Refuse(status) => self.refuse_upstream(index, status),
        }
    }

    /// Retries the request, if that is possible.
    fn retry_upstream(&mut self, index: ConnKey, source: Source, status: u16) {
        match source {
            Source::Server(key) => self.retry_server(index, key),
            Source::Fill => self.go_alone(index),
            Source::Relay(_) | Source::Thread(_) => {
                self.leave_upstream(index);
                if !self.retry(index) {
                    self.refuse_kept(index, status, fields_of(status));
                }
            }
        }
    }

    /// The client gets an error instead of what the upstream may still send.
    pub(crate) fn refuse_upstream(&mut self, index: ConnKey, status: u16) {
        self.leave_upstream(index);
        self.refuse_kept(index, status, fields_of(status));
    }

    /// The connection goes on, or is closed, without the rest of the response; the upstream gets CANCEL, or a close.
    pub(crate) fn leave_upstream(&mut self, index: ConnKey) {
        let Some(mut attempt) = self.take_attempt(index) else { return };
        match attempt.source() {
            Source::Fill => {}
            Source::Relay(relay) => self.leave_relay(relay, &attempt),
            Source::Server(key) if attempt.speaks_http2() => {
                if let Some(at) = self.upstreams.get(key).map(|connection| connection.at) {
                    self.forgive(at);
                }
                self.leave_stream(index, key, &mut attempt);
            }
            Source::Server(key) | Source::Thread(key) => {
                self.note_last_words(index, *attempt);
                self.leave_server(key);
            }
        }
    }

    /// The policy for a response that comes through this process. `keep`: the connection is kept afterwards.
    pub(crate) fn wanted(
        &self,
        index: ConnKey,
        request: &Request<'_, '_>,
        keep: bool,
        pool: &'static Pool,
    ) -> ResponsePolicy {
        let connection = &self.connections[index];
        ResponsePolicy {
            head_request: request.method == Method::Head,
            http10: request.version == Version::Http10,
            informational: may_be_informed(connection, request, pool),
            trailers: takes_trailers(connection, request),
            framed: connection.is_stream(),
            keep,
            continues: request.expects_continue && self.passes_body(index),
            switch: protocol(request, pool),
            bounds: pool.response_bounds(),
        }
    }
}
