//! What is held for clients that do not take it, and for HTTP servers and applications that do not take what clients have sent.
//! All that is held counts in one budget of the process (`Shared::unsent`), by which the overload manager
//! ([`maitred_base::overload`]) decides; what of it belongs to one HTTP/2 connection has a bound of its own. Each connection,
//! each session and each evicted file has a `Permit` of the budget; so has what a process has not read of its channel.
//!
//! Nothing is counted while clients take what they are sent: the first look is when something is left over.

use super::Clients;
use crate::connection::State;
use crate::connection::quic::Quic;
use crate::connection::wire::Wire;
use crate::keys::{ConnId, ConnKey, SessionKey};
use maitred_base::overload::Level;

impl Clients {
    /// Counts what a connection holds for the client or an upstream; to be called where something is left over, and where all has
    /// left.
    pub(crate) fn count_unsent(&mut self, index: ConnKey) {
        let encrypted = self.encrypted(index);
        let Some(connection) = self.connections.get_mut(index) else { return };
        let (wire, id) = (connection.wire, ConnId { key: index, serial: connection.serial });
        let Some(exchange) = connection.exchange.as_deref() else { return };
        if !connection.holds_something() && encrypted == 0 {
            return self.forget_unsent(index);
        }
        if exchange.outgoing.unsent.is_none() {
            self.trim_head(index);
        }
        let unsent = &self.shared.unsent;
        let connection = &mut self.connections[index];
        let bytes = (connection.unsent_bytes() + encrypted) as u64;
        let Some(exchange) = connection.exchange.as_deref_mut() else { return };
        let before = exchange.counted();
        if bytes == before {
            return;
        }
        let permit = exchange.outgoing.unsent.get_or_insert_with(|| unsent.begin());
        if bytes < before || !permit.grow(bytes - before) {
            permit.set(bytes);
            if bytes > before {
                // Not here: the caller may have more to do with the connection.
                self.load.without_room.push(id);
            }
        }
        if let Wire::Stream { session, .. } = wire {
            self.count_stream(session, before, bytes);
        }
    }

    /// A part of what was held has left: counts what is there still, if anything was counted.
    pub(crate) fn recount_unsent(&mut self, index: ConnKey) {
        let exchange = self.connections.get(index).and_then(|connection| connection.exchange.as_deref());
        if exchange.is_some_and(|exchange| exchange.outgoing.unsent.is_some()) {
            self.count_unsent(index);
        }
    }

    /// Nothing more of a response is held.
    pub(crate) fn forget_unsent(&mut self, index: ConnKey) {
        let connection = &mut self.connections[index];
        let wire = connection.wire;
        let permit = connection
            .exchange
            .as_deref_mut()
            .and_then(|exchange| exchange.outgoing.existing()?.unsent.take());
        if let (Some(permit), Wire::Stream { session, .. }) = (permit, wire) {
            self.count_stream(session, permit.taken(), 0);
        }
    }

    /// A stream of this connection holds another amount than before.
    fn count_stream(&mut self, session: SessionKey, before: u64, bytes: u64) {
        let Some(http2) = self.sessions.get_mut(session) else { return };
        http2.streams_unsent = (http2.streams_unsent + bytes).saturating_sub(before);
        self.judge_session(session);
    }

    /// About how many bytes TLS has encrypted that the socket has not taken: they are in no buffer of the response any more.
    pub(crate) fn encrypted(&self, index: ConnKey) -> usize {
        match self.connections.get(index).map(|connection| connection.wire) {
            Some(Wire::Tls { session }) => self.tls_sessions.get(session).map_or(0, |secure| secure.unsent()),
            _ => 0,
        }
    }

    /// Counts what waits for an HTTP/2 connection as a whole: frames, and what TLS has made of them.
    pub(crate) fn count_session(&mut self, index: ConnKey, key: SessionKey) {
        let encrypted = self.encrypted(index);
        let Some(http2) = self.sessions.get_mut(key) else { return };
        let held = http2.quic.as_deref().map_or(0, Quic::held_bytes);
        let bytes = (http2.session.out_capacity() + encrypted) as u64 + held;
        if bytes != http2.unsent.taken() {
            http2.unsent.set(bytes);
            self.judge_session(key);
        }
    }

    /// Refuses further streams of a connection that holds too much.
    fn judge_session(&mut self, key: SessionKey) {
        let max = self.shared.start.config.limits.unsent_connection_bytes_max;
        let Some(http2) = self.sessions.get_mut(key) else { return };
        http2.session.refuse_streams(http2.streams_unsent + http2.unsent.taken() > max);
    }

    /// Once a response has begun, only the log needs the head of its request.
    fn trim_head(&mut self, index: ConnKey) {
        let Some(connection) = self.connections.get(index) else { return };
        let Some(exchange) = connection.exchange.as_deref() else { return };
        let begun = match &connection.state {
            State::Upstream(attempt) => attempt.filter.head_written(),
            State::Writing => exchange.body.incoming.is_nothing(),
            _ => false,
        };
        if !begun || exchange.head.is_empty() {
            return;
        }
        let mut head = std::mem::take(&mut self.exchange(index).head);
        let (wanted, proxied) = (self.logged_fields(index), self.is_trusted_proxy(index));
        head.trim_for_log(|name| wanted.is_wanted(name, proxied));
        let exchange = self.exchange(index);
        exchange.head = head;
        // A body was kept until now, for an upstream that would answer.
        exchange.body.content = Vec::new();
    }

    /// Whether nothing of an upstream's response was written for the client yet.
    pub(crate) fn is_unanswered(&self, index: ConnKey) -> bool {
        self.attempt_of(index).is_some_and(|attempt| !attempt.filter.head_written())
    }

    /// Memory or descriptors have become short: empty buffers are freed, and clients that hold something have less time from now
    /// on.
    pub(crate) fn hurry_clients(&mut self) {
        let short = self.is_short_of_memory();
        self.spare = Vec::new();
        let now = self.clock.now;
        let (idle, write) = (now + self.load.keep_alive_timeout, now + self.load.write_timeout);
        let levels = self.load.overload.levels();
        let mut sessions = Vec::new();
        for (index, connection) in self.connections.iter() {
            let exchange = connection.exchange.as_deref();
            // The time that an HTTP server has for a request stays the same.
            let idle = connection.idle.get().map_or(idle, |own| now + levels.idle_timeout(own));
            let hurries = || self.waits_for_client(index) || self.is_tunnel(index);
            match connection.state {
                State::Idle if short && connection.requests > 0 && connection.is_idle() => {
                    self.base.wheel.arm(index, idle)
                }
                State::Multiplexed { session } => sessions.push((session, idle)),
                State::Writing | State::Upstream(_)
                    if exchange.is_some_and(|exchange| {
                        exchange.outgoing.unsent.is_some() && !exchange.outgoing.awaits_disk
                    }) && hurries() =>
                {
                    self.base.wheel.arm(index, write);
                }
                _ => {}
            }
        }
        for (key, idle) in sessions {
            if let Some(http2) = self.sessions.get_mut(key) {
                http2.hurry(idle, write);
                self.touch_session(key);
            }
        }
    }

    /// Streams that an HTTP/2 connection may have now.
    pub(crate) fn streams_max(&self) -> u32 {
        self.load.overload.levels().streams_max(self.shared.start.config.limits.streams_per_connection_max)
    }

    /// Counts streams that a session has refused for want of room.
    pub(crate) fn count_refused_streams(&mut self, key: SessionKey) {
        let refused = self.sessions.get_mut(key).map_or(0, |found| found.session.take_refused());
        if refused > 0 {
            self.row.streams_refused.add(refused.into());
        }
    }

    /// Whether empty buffers are freed at once.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        self.load.overload.levels().memory > Level::Normal
    }

    /// Whether no connections are accepted.
    pub(crate) fn is_critical(&self) -> bool {
        !self.load.overload.levels().accepts()
    }
}
