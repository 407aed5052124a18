//! Clients that send or take too slowly: minimal rates, and bounds on the whole time.
//!
//! What a client **sends** has a deadline that its bytes put off: a head `head_timeout`, and a second more for each
//! `head_bytes_per_second_min` bytes, up to `head_timeout_max`; a body `body_rate_grace` likewise. The cost is one sum for each
//! piece that comes, and nothing while none does.
//!
//! What a client **takes** is looked at four times in `response_rate_window`. A client that has had something unsent at each
//! look, for all that time, must have taken `response_bytes_per_second_min` bytes a second. Nothing is counted where bytes are
//! sent: the kernel counts what was acknowledged (tcp(7), `tcpi_bytes_acked`), also of bytes that TLS or an application wrote.
//! What HTTP/2 holds back, because the client opens no window, is counted by the session as it makes frames.
//!
//! | what | has something unsent if | what counts |
//! |---|---|---|
//! | a response that Maitred sends | its state is `Writing` or `Upstream` | what was acknowledged |
//! | one that an application writes to the client's socket | the kernel holds bytes that may not leave yet | the same |
//! | the end of the last response | the kernel holds bytes | the same |
//! | an HTTP/2 connection | its frames do not leave | the same |
//! | | its window is used up, and a stream waits | content in frames |
//! | a stream | its own window is used up | its content in frames |
//!
//! An event stream with nothing to send is in none of these rows. A response that waits for a disk is not counted against the
//! client.

use std::os::fd::AsFd as _;

use maitred_sys::delivery::{self, Progress};

use super::Clients;
use crate::connection::rates::{HeldBy, Seen, body_deadline, head_deadline};
use crate::connection::wire::Wire;
use crate::connection::{Exchange, State};
use crate::keys::ConnKey;

impl Clients {
    /// Whether something of a response waits for the client.
    pub(crate) fn waits_for_client(&self, index: ConnKey) -> bool {
        let exchange = self.connections.get(index).and_then(|connection| connection.exchange.as_deref());
        let waits = |exchange: &Exchange| {
            !exchange.outgoing.awaits_disk
                && (self.has_output(index) || !exchange.outgoing.segments.is_empty())
        };
        exchange.is_some_and(waits)
    }

    /// What a client has taken so far that has something to take; `None` for any other, and where nothing is known.
    pub(crate) fn seen(&self, index: ConnKey) -> Option<Seen> {
        let connection = self.connections.get(index)?;
        let exchange = connection.exchange.as_deref();
        let socket = || delivery::progress(connection.socket.as_ref()?.as_fd());
        let waits = match connection.state {
            // What TLS holds back is not in the buffers.
            State::Writing => exchange.is_some_and(|exchange| !exchange.outgoing.awaits_disk),
            State::Upstream(_) => self.waits_for_client(index),
            State::HandedOff { .. } => return socket().filter(|found| found.unsent).map(Seen::by_socket),
            State::Linger => delivery::is_under_way(connection.socket.as_ref()?.as_fd()),
            State::Multiplexed { session } => {
                let (held_by, framed) = self.sessions.get(session)?.held()?;
                return Some(Seen { held_by, socket: socket()?, framed });
            }
            _ => false,
        };
        if !waits {
            return None;
        }
        match connection.wire {
            Wire::Stream { session, stream } => {
                let framed = self.sessions.get(session)?.held_stream(stream)?;
                Some(Seen { held_by: HeldBy::Window, socket: Progress::default(), framed })
            }
            Wire::Clear | Wire::Tls { .. } => socket().map(Seen::by_socket),
            Wire::Quic => None,
        }
    }

    /// Sets the deadline of a head of which this many bytes are there.
    pub(crate) fn arm_head(&mut self, index: ConnKey, bytes: usize) {
        let began = self.connections[index].began;
        let until = head_deadline(&self.shared.start.config.limits, began, bytes as u64);
        self.wheel.arm(index, until);
    }

    /// A body begins.
    pub(crate) fn begin_pace(&mut self, index: ConnKey) {
        self.exchange(index).body.incoming.begin_pace();
        self.arm_body(index);
    }

    /// Sets the deadline of a body.
    pub(crate) fn arm_body(&mut self, index: ConnKey) {
        let (now, limits) = (self.clock.now, &self.shared.start.config.limits);
        let own = self.overrides(index).map(|overrides| overrides.limits).unwrap_or_default();
        let began = self.connections[index].began;
        let Some(coming) = self.exchange(index).body.incoming.coming_mut() else { return };
        let pace = coming.pace(now);
        pace.go_on(now);
        let until = body_deadline((limits, &own), began, pace, now);
        self.wheel.arm(index, until);
    }

    /// Nothing of a body is read for now.
    pub(crate) fn pause_body(&mut self, index: ConnKey) {
        let now = self.clock.now;
        if let Some(coming) = self.exchange(index).body.incoming.coming_mut() {
            coming.pace(now).pause(now);
        }
        self.wheel.disarm(index);
    }
}
