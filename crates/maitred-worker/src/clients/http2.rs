//! HTTP/2 connections: how they begin and end, frames that leave, and GOAWAY.

use std::time::Duration;

use maitred_http::framed::Session;
use maitred_http::{h2, h3};
use rustix::io::Errno;

use super::Clients;
use crate::agenda::Next;
use crate::connection::multiplexed::{Half, Multiplexed, Partial};
use crate::connection::quic::Quic;
use crate::connection::rates::head_deadline;
use crate::connection::stream::NO_CONNECTION;
use crate::connection::wire::{Sent, Then, Wire};
use crate::connection::{Connection, State};
use crate::keys::{ConnKey, SessionKey};

/// What is left of the output is moved to its beginning if it is at most such a part of what has been sent. Where a socket is
/// often full, moving more would copy each byte once more; left where it is, it counts as unsent all the longer.
const MOVED_PART: usize = 8;

/// How long a client has to receive a GOAWAY before streams that it opens are refused (9113-6.8 requires at least one round trip;
/// refused requests are safe to repeat).
const LEAVE_AFTER: Duration = Duration::from_secs(1);

impl Clients {
    /// The connection uses HTTP/2 from here on. The client's preface may have come, or be on its way.
    pub(crate) fn begin_http2(&mut self, index: ConnKey) -> SessionKey {
        let session = Session::Http2(h2::Session::new(&self.http2, self.clock.now));
        let http2 = Multiplexed::new(session, index, self.shared.unsent.begin());
        let key = self.sessions.insert(Box::new(http2));
        self.enter(index, State::Multiplexed { session: key });
        let streams_max = self.streams_max();
        self.sessions[key].session.limit_streams(streams_max);
        self.row.http2_connections.add(1);
        self.touch_session(key);
        key
    }

    /// A QUIC connection was accepted: it is one of HTTP/3, by the only protocol that is offered.
    pub(crate) fn begin_http3(&mut self, index: ConnKey, quic: Quic) -> SessionKey {
        let session = Session::begin_http3(&self.http3, self.clock.now);
        let mut http3 = Multiplexed::new(session, index, self.shared.unsent.begin());
        http3.session.limit_streams(self.streams_max());
        let (socket, handle) = (quic.socket, quic.handle);
        http3.quic = Some(Box::new(quic));
        let key = self.sessions.insert(Box::new(http3));
        if let Some(found) = self.datagrams.get_mut(socket) {
            found.set_session(handle, Some(key));
        }
        self.enter(index, State::Multiplexed { session: key });
        self.row.http3_connections.add(1);
        self.touch_session(key);
        key
    }

    /// Whether new streams of the client are refused.
    pub(crate) fn refuses(&self, key: SessionKey) -> bool {
        self.sessions.get(key).is_some_and(|http2| http2.left)
    }

    /// Has a session looked at when the turn ends, once.
    pub(crate) fn touch_session(&mut self, key: SessionKey) {
        if let Some(http2) = self.sessions.get_mut(key)
            && !std::mem::replace(&mut http2.dirty, true)
        {
            self.unsent_sessions.push(key);
        }
    }

    /// Whether so much waits to be sent that nothing more is read.
    pub(crate) fn is_backed_up(&self, key: SessionKey) -> bool {
        self.sessions.get(key).is_some_and(|http2| http2.session.is_full())
    }

    /// Notes since when a part of something is there: bytes of whole frames that were taken, and those that were not.
    pub(crate) fn note_half(&mut self, key: SessionKey, taken: usize, left: usize) {
        let (now, limits) = (self.clock.now, &self.shared.start.config.limits);
        let Some(http2) = self.sessions.get_mut(key) else { return };
        let block = http2.session.half_head().map(Half::Block);
        let half = block.or((left > 0).then_some(Half::Frame));
        // A block may continue over many frames, but a frame after others is a new one.
        let before = http2.half.filter(|before| Some(before.half) == half && (block.is_some() || taken == 0));
        http2.half = half.map(|half| {
            let (since, bytes) =
                before.map_or((now, 0), |before| (before.since, before.bytes + taken as u64));
            Partial { half, since, bytes, until: head_deadline(limits, since, bytes + left as u64) }
        });
    }

    pub(crate) fn note_broken_session(&mut self, index: ConnKey, why: &str) {
        self.row.malformed.add(1);
        let Connection { remote, wire, .. } = *self.connections[index];
        let protocol = if wire == Wire::Quic { "HTTP/3" } else { "HTTP/2" };
        self.log_limited(|| {
            tracing::info!(peer = remote.text(), "{protocol} connection ended: {why}");
        });
    }

    /// An HTTP/2 or HTTP/3 connection goes away, and its streams with it.
    pub(crate) fn end_session(&mut self, session: Option<SessionKey>) {
        let Some(session) = session else { return };
        let Some(http2) = self.sessions.try_remove(session) else { return };
        let mut http2 = http2;
        let fatal = http2.session.http3().and_then(|session| session.fatal());
        let streams = http2.streams.iter().map(|stream| stream.index).filter(|index| *index != NO_CONNECTION);
        let streams = streams.collect::<Vec<_>>();
        if let Some(quic) = http2.quic.take() {
            let (code, reason) = fatal.map_or((h3::Code::NoError, ""), |fatal| (fatal.code, fatal.reason));
            self.end_quic(*quic, code.number(), reason);
        }
        for index in streams {
            self.follow_up(index, Next::Abort);
        }
    }

    pub(crate) fn send_frames(&mut self, index: ConnKey, key: SessionKey, left: &mut usize) -> Sent {
        let Some(http2) = self.sessions.get_mut(key) else { return Sent::Broken };
        let Some(session) = http2.session.http2() else { return Sent::Broken };
        let mut out = std::mem::take(session.out());
        let mut at = http2.sent;
        let mut blocked = false;
        while at < out.len() && !blocked {
            match self.send(index, out.get(at..).unwrap_or_default(), Then::Perhaps) {
                Ok(sent) => at += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => blocked = true,
                Err(_) => return Sent::Broken,
            }
        }
        let Some(http2) = self.sessions.get_mut(key) else { return Sent::Broken };
        let sent = at - http2.sent;
        *left = left.saturating_sub(sent);
        let rest = out.len() - at;
        if rest == 0 {
            out.clear();
            at = 0;
        } else if rest <= at / MOVED_PART {
            out.drain(..at);
            at = 0;
        }
        http2.sent = at;
        if let Some(session) = http2.session.http2() {
            *session.out() = out;
        }
        if sent > 0 {
            http2.write_until = None;
        }
        match self.is_flushed(index) {
            _ if blocked => Sent::Waits,
            Ok(true) => Sent::All,
            Ok(false) | Err(Errno::AGAIN) => Sent::Waits,
            Err(_) => Sent::Broken,
        }
    }

    /// Sends GOAWAY, so that the client opens a new connection for its next requests. Called again after a while, it refuses new
    /// streams.
    pub(crate) fn leave(&mut self, key: SessionKey) {
        let now = self.clock.now;
        let Some(http2) = self.sessions.get_mut(key) else { return };
        let waits = |at| now.saturating_duration_since(at) < LEAVE_AFTER;
        if http2.left_at.is_some_and(waits) || http2.left {
            return;
        }
        http2.left = http2.left_at.replace(now).is_some();
        http2.session.go_away();
        self.touch_session(key);
    }
}
