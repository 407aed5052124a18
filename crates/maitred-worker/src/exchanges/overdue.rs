//! Requests that take too long: a process, or an HTTP server, is silent for `request_timeout`, or not done within
//! `request_total_timeout`. Such a request ends, and the others of the process do not.
//!
//! | when | what |
//! |---|---|
//! | it is due, and the process has not read the request | the process is ended (`Processes::fail_worker`) |
//! | it is due at a process of capacity 1 | the same |
//! | it is due at any other process | CANCEL for the request, and PING |
//! | … by a relay, and nothing was written | 504; the request is an orphan |
//! | … by a relay, and the response has begun | it may be ended, and what comes is passed on, for `CANCEL_TIMEOUT` |
//! | … on the client's own socket | 504 at DONE with status 0 |
//! | `CANCEL_TIMEOUT` later | what is written to is shut down; 504 if nothing has left by the client's own socket |
//! | no PONG by then | the process is ended |
//! | orphans that do not end hold the capacity | the same |
//! | it is due at an HTTP server | 504, or aborted, and the connection to the server is closed |
//!
//! An orphan is a request for whose response no client waits, also because the client has gone. An orphan counts as stuck
//! [`STUCK_AFTER`] after its CANCEL; if its client has gone, `request_timeout` after that, if that is longer. An aborted request
//! is in the access log as [`TIMED_OUT`](crate::log_line::TIMED_OUT).
//!
//! Whether a request is due is checked when the deadline of the connection passes. Each byte extends that without a change of the
//! timer: [`Exchanges::is_put_off`] sets the timer anew.

use std::time::Instant;

use maitred_sys::delivery::{self, Sending};

use super::Exchanges;
use crate::connection::State;
use crate::keys::{ChannelKey, ConnKey};
use crate::origin;
use crate::processes::lost::Sent;
use crate::processes::reasons::{CANCEL_TIMEOUT, STUCK_AFTER};
use crate::upstream::Attempt;
use crate::upstream::failure::Cause;

impl Exchanges {
    /// Whether `request_total_timeout` is over.
    pub(crate) fn is_past_total(&self, index: ConnKey) -> bool {
        self.total_due(index).is_some_and(|due| due <= self.clock.now)
    }

    /// Whether the time that a call of gRPC has is over.
    pub(crate) fn is_past_deadline(&self, index: ConnKey) -> bool {
        self.attempt_of(index).and_then(Attempt::deadline).is_some_and(|due| due <= self.clock.now)
    }

    /// Whether the deadline of a request was put off since it was set: something has come, or could not be taken. Then it is set
    /// anew.
    pub(crate) fn is_put_off(&mut self, index: ConnKey) -> bool {
        let now = self.clock.now;
        let due = match self.connections[index].state {
            State::HandedOff { .. } => self.direct_due(index),
            State::Upstream(_) => self.upstream_due(index).filter(|_| !self.is_held_by_client(index)),
            _ => None,
        };
        let Some(due) = due.filter(|due| *due > now) else { return false };
        self.wheel.arm(index, due);
        true
    }

    /// Whether something of the response waits for the client.
    pub(crate) fn is_held_by_client(&self, index: ConnKey) -> bool {
        self.has_output(index)
            || self.exchange_of(index).is_some_and(|exchange| !exchange.outgoing.segments.is_empty())
    }

    /// When the process that writes to the client's own socket has been silent for too long, by the times that the kernel keeps;
    /// `None` if that time is over already.
    fn direct_due(&self, index: ConnKey) -> Option<Instant> {
        let now = self.clock.now;
        let connection = self.connections.get(index)?;
        let exchange = connection.exchange.as_deref()?;
        if exchange.dispatch.overdue {
            return None;
        }
        let period = self.request_timeout(index, exchange.dispatch.pool?);
        let silent = match (connection.internal, exchange.dispatch.across.as_deref(), &connection.socket) {
            // The thread that has the client notes when it received something last.
            (true, Some(across), Some(socket)) => {
                match delivery::is_under_way(std::os::fd::AsFd::as_fd(socket)) {
                    true => now + period,
                    false => across.last_heard()? + period,
                }
            }
            (_, _, Some(socket)) => {
                let socket = std::os::fd::AsFd::as_fd(socket);
                if delivery::sending(socket, period) != Sending::Moves {
                    return None;
                }
                let ago = delivery::last_left(socket).unwrap_or_default();
                now + period.saturating_sub(ago)
            }
            _ => return None,
        };
        Some(self.total_due(index).map_or(silent, |total| total.min(silent)))
    }

    /// The deadline of a request whose process writes to the client's own socket.
    pub(crate) fn on_request_timeout(&mut self, index: ConnKey, key: ChannelKey, request: u32) {
        if self.exchange(index).dispatch.overdue {
            return self.end_direct(index);
        }
        let period = self
            .exchange(index)
            .dispatch
            .pool
            .map_or(CANCEL_TIMEOUT, |pool| self.request_timeout(index, pool));
        let stuck = |socket| delivery::sending(socket, period) == Sending::Stuck;
        if !self.is_past_total(index) && self.socket(index).is_some_and(stuck) {
            // The process has written more than the client takes, and waits for it.
            return self.abort_unanswered(index);
        }
        if self.is_unread(key, request) {
            return;
        }
        self.give_notice(index, key, (request, index.number()));
        // A process that is ended should have exited by then. If it has not, it still has the socket.
        self.arm_in(index, CANCEL_TIMEOUT);
    }

    /// Whether the process has not read its channel since this request was sent to it. Then it is ended, and requests that it has
    /// not read go to another process.
    pub(crate) fn is_unread(&mut self, key: ChannelKey, request: u32) -> bool {
        let unread = self.pools.channels.get(key).is_some_and(|channel| channel.is_unsent(request));
        if unread {
            self.fail_worker(key, "it does not read its channel");
        }
        unread
    }

    /// A request is overdue: its process gets CANCEL, or is ended if it has a capacity of 1. True if the process goes on.
    pub(crate) fn give_notice(
        &mut self,
        index: ConnKey,
        key: ChannelKey,
        (request, number): (u32, u32),
    ) -> bool {
        let shared = self.shared;
        let (now, total) = (self.clock.now, self.is_past_total(index));
        let why =
            if total { "took longer than request_total_timeout" } else { "was silent for request_timeout" };
        self.row.request_timeouts.add(1);
        let exchange = self.exchange(index);
        exchange.dispatch.overdue = true;
        let cancelled = std::mem::replace(&mut exchange.dispatch.cancelled, true);
        let id = exchange.dispatch.request_id();
        let Some(channel) = self.processes.pools.channels.get_mut(key) else { return false };
        let (pool, slot, single) =
            (shared.pool_name(channel.id.pool), channel.id.slot, channel.capacity <= 1);
        self.processes.clients.base.limiter.log(now, || {
            let request_id = id.map(origin::hexadecimal).unwrap_or([b'-'; 32]);
            let request_id = String::from_utf8_lossy(&request_id);
            tracing::warn!(pool, slot, %request_id, "request ended: the process {why}");
        });
        if single {
            self.fail_worker(key, &format!("it {why}"));
            return false;
        }
        if !cancelled {
            channel.cancel(request, number);
        }
        channel.give_up(request, now, STUCK_AFTER, None);
        channel.probe(now + CANCEL_TIMEOUT);
        self.touch(key);
        true
    }

    /// The process has not come to an end with an overdue request on the client's own socket. If nothing has left by that socket,
    /// the client gets an answer from here, and the next write of the process finds the socket shut down. If the process writes
    /// at this very moment, although it had CANCEL for [`CANCEL_TIMEOUT`], only this client gets a broken response.
    fn end_direct(&mut self, index: ConnKey) {
        let State::HandedOff { channel, request, .. } = self.connections[index].state else {
            return;
        };
        let written = !self.is_untouched(index);
        if !written {
            self.orphan_request(channel, request);
        }
        self.fail_direct(index, Cause::Late, Sent { seen: true, written });
    }

    /// The same through a relay, which is shut down at once.
    pub(crate) fn end_relayed(&mut self, index: ConnKey) {
        if let Some(relay) = self.relay_of(index) {
            self.shut_down_relay(relay.known_as());
        }
        self.abort(index);
    }
}
