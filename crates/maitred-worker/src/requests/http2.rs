//! HTTP/2 connections: one socket, many streams.
//!
//! Each stream is a `Connection` of its own whose wire is a `Wire::Stream`, made when its HEADERS have come: its request is a
//! `RequestHead`, held to the same rules as a head of HTTP/1 and without text of HTTP/1 in between, it is answered by the same
//! code as any other, and its response is put into frames by `Clients::send_stream`. So all that applies to a request applies
//! here: the limits, the deadlines, the log, the fields that applications get. The present file, `streams`, and the files of
//! the same names in `clients` add the path between the socket and the streams; the rules of HTTP/2 are in
//! [`maitred_http::h2`].
//!
//! ```text
//! on_readable ─ take_http2 ──┬ Request ─ open_stream ─ process ─ …
//!                            ├ Data ──── feed_stream ─ process ─ …
//!                            └ Reset ─── abort
//! … ─ send ─ send_stream ─ Session::out ─ flush_sessions (once per turn) ─ one send for all streams
//! ```
//!
//! A stream that finds no room in the windows, or too much unsent, waits in the session, which decides which stream is next.

use maitred_http::h2::Event;

use super::Requests;
use crate::connection::Connection;
use crate::connection::multiplexed::{SHARE_BYTES, Timeouts};
use crate::connection::quic::Quic;
use crate::connection::stream::Opened;
use crate::connection::table::Phase;
use crate::connection::wire::{Sent, Wire};
use crate::keys::{ConnKey, SessionKey};

/// Bytes that one connection may send in one turn, so that the others get their turn.
const SENT_PER_TURN: usize = 1024 * 1024;

impl Requests {
    /// Acts on all frames in `rx`, and keeps what is left.
    pub(crate) fn take_http2(&mut self, index: ConnKey, key: SessionKey, rx: Vec<u8>, more: bool) {
        let now = self.clock.now;
        let mut at = 0;
        let mut head = std::mem::take(&mut self.buffers.head);
        while let Some(session) = self.sessions.get_mut(key).and_then(|http2| http2.session.http2()) {
            head.clear();
            match session.next(now, &rx, &mut at, &mut head) {
                Ok(Some(Event::Request { stream, ended })) => {
                    self.open_stream(index, key, Opened { stream, ended }, &mut head);
                }
                Ok(Some(Event::Refused { status, reason })) => {
                    self.log_refused_stream(index, status, reason, &head);
                }
                Ok(Some(Event::Data { stream, bytes, ended })) => {
                    self.feed_stream(key, stream, bytes, ended);
                }
                Ok(Some(Event::Trailers { stream, fields })) => self.end_by_trailers(key, stream, fields),
                Ok(Some(Event::Reset { user, .. })) => {
                    self.lose_stream(key, ConnKey::from_number(user));
                    self.count_reset(index, key);
                }
                // The last is only for the other side of a session.
                Ok(Some(Event::Writable | Event::PeerLeaves | Event::Response { .. })) => {}
                Ok(None) => break,
                Err(fatal) => {
                    // What is left to send is the last: GOAWAY with the error.
                    at = rx.len();
                    self.note_broken_session(index, &fatal.to_string());
                    break;
                }
            }
        }
        head.clear();
        self.buffers.head = head;
        self.count_refused_streams(key);
        if self.sessions.contains(key) {
            let rest = rx.get(at..).unwrap_or_default();
            if !rest.is_empty() {
                self.exchange(index).input.extend_from_slice(rest);
            }
            self.note_half(key, at, rest.len());
            // When too much is unsent, whole frames may be left over: no event will announce them.
            let left = self.is_backed_up(key);
            self.connections[index].readable |= more || left;
            // At the end of the turn it is seen whether there is room to look again.
            self.touch_session(key);
        }
        self.buffers.rx.put_back(rx);
    }

    /// Counts a stream that the client has reset, or was reset for what it did, for its address; and ends the connection if these
    /// are too many over all connections of the address. Each connection has a limit of its own, too.
    pub(super) fn count_reset(&mut self, index: ConnKey, key: SessionKey) {
        let address = self.connections[index].remote.address;
        if self.admit_reset(address) {
            return;
        }
        if let Some(http2) = self.sessions.get_mut(key) {
            // The next look at what was received finds the session ended.
            http2.session.lose_timeout("its address resets too many streams");
        }
    }

    /// Sends what is there, then continues the streams that had to wait for room.
    pub(crate) fn flush_session(&mut self, index: ConnKey, key: SessionKey) -> Sent {
        if self.connections[index].wire == Wire::Quic {
            return self.flush_quic(index, key);
        }
        let mut left = SENT_PER_TURN;
        loop {
            match self.send_frames(index, key, &mut left) {
                Sent::All => {}
                other => return other,
            }
            let mut any = false;
            while let Some(http2) = self.sessions.get_mut(key)
                && let Some(stream) = http2.session.next_writable()
            {
                any = true;
                http2.share = SHARE_BYTES;
                let index = ConnKey::from_number(http2.session.user(stream));
                self.go_on_sending(index);
            }
            if !any {
                return Sent::All;
            }
            if left == 0 {
                self.look_again(index);
                return Sent::Share;
            }
        }
    }

    /// Has a stream send what it could not send before.
    pub(super) fn go_on_sending(&mut self, index: ConnKey) {
        match self.connections.get(index).map(|connection| connection.state.phase()) {
            Some(Phase::Writing) => self.on_writable(index),
            Some(Phase::Upstream) => self.move_upstream(index),
            _ => {}
        }
    }

    /// Everything was sent that can be: how long the connection may stay as it is.
    pub(crate) fn settle_session(&mut self, index: ConnKey, key: SessionKey, sent: Sent) {
        let (now, head) = (self.clock.now, self.limits().head_timeout);
        let quic = self.connections[index].wire == Wire::Quic;
        // What QUIC has not sent is no business of the client: windows are looked at for each stream.
        let unsent = sent != Sent::All && !quic;
        if !unsent
            && self.is_short_of_memory()
            && let Some(http2) = self.sessions.get_mut(key)
        {
            // The next response needs the buffer again; but there may be thousands of connections that have nothing to send.
            http2.session.shrink_out();
        }
        self.count_session(index, key);
        let Connection { requests, ended, .. } = *self.connections[index];
        let idle = if requests == 0 { head } else { self.idle_timeout(index) };
        let timeouts = Timeouts { idle, write: self.load.write_timeout };
        let Some(http2) = self.sessions.get_mut(key) else { return };
        let until = http2.deadline(now, unsent, &timeouts);
        let due = http2.quic.as_deref_mut().and_then(|quic| quic.deadline(now));
        let over_at = match (http2.session.is_over() && !unsent, http2.quic.as_deref_mut()) {
            (false, _) => None,
            (true, None) => return self.linger(index),
            (true, Some(quic)) => Some(quic.over_at(now)),
        };
        if over_at.is_some_and(|at| at <= now) {
            return self.linger(index);
        }
        match until.into_iter().chain(due).chain(over_at).min() {
            Some(until) => self.wheel.arm(index, until),
            None => self.wheel.disarm(index),
        }
        if ended && !unsent {
            // The client does not read the rest: with HTTP/2, clients do not close half of a connection.
            return self.close_cleanly(index);
        }
        if !self.register(index) {
            return self.close(index);
        }
        // With too much unsent nothing is read: room in the socket comes next, with an event.
        if self.connections[index].readable && !self.is_backed_up(key) {
            self.look_again(index);
        }
    }

    /// A deadline of the connection itself has passed. What it was set for may be over: in the same turn, and before this, a
    /// request may have come, or room in the socket. What is due now is handled here; other deadlines are set anew when the turn
    /// ends.
    pub(crate) fn on_multiplexed_timeout(&mut self, index: ConnKey, key: SessionKey) {
        let now = self.clock.now;
        // What TLS holds back counts, too: a client that takes nothing would be sent GOAWAY for ever.
        let flushed = self.is_flushed(index) == Ok(true);
        let Some(http2) = self.sessions.get_mut(key) else { return };
        if http2.half.take_if(|part| part.until <= now).is_some() {
            // The streams end with the connection: all that the client sent next would be a part of what is missing.
            http2.session.lose_timeout("a frame or a header block took too long");
            return self.touch_session(key);
        }
        if http2.write_until.is_some_and(|until| until <= now) {
            return self.abort(index);
        }
        let is_idle = flushed && http2.session.streams() == 0 && http2.session.is_sent();
        if http2.session.is_over() {
            return self.touch_session(key);
        }
        match http2.idle_until.filter(|_| is_idle) {
            Some(until) if until > now => {
                http2.session.shrink();
                http2.quic.as_deref_mut().into_iter().for_each(Quic::shrink);
                http2.streams = Vec::new();
                http2.unsent.set(0);
                let half = http2.half.map(|part| part.until);
                // What the client has not acknowledged is sent again, also to one that is idle.
                let due = http2.quic.as_deref_mut().and_then(|quic| quic.deadline(now));
                self.wheel.arm(index, half.into_iter().chain(due).fold(until, std::cmp::min));
            }
            Some(_) => self.dismiss_session(index, key, true),
            None => self.touch_session(key),
        }
    }

    /// Ends a connection that has no stream. The client has `linger_timeout` to receive GOAWAY, or with `hears` false no time at
    /// all.
    pub(crate) fn dismiss_session(&mut self, index: ConnKey, key: SessionKey, hears: bool) {
        let Some(http2) = self.sessions.get_mut(key) else { return };
        // Twice, for both steps of GOAWAY: there is no request that it could cross.
        http2.session.go_away();
        http2.session.go_away();
        self.touch_session(key);
        if !hears {
            self.flush_session(index, key);
            self.close_at_once(index);
        }
    }
}
