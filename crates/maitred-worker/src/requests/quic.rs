//! HTTP/3 connections: what QUIC reports becomes requests, and what responses have written goes to QUIC.
//!
//! Each stream is a `Connection` of its own, as with HTTP/2; the rules of HTTP/3 are in [`maitred_http::h3`], those of QUIC in
//! the library. Nothing of a connection is looked at before the turn ends: datagrams only mark it as one with something to do.
//!
//! ```text
//! on_datagrams ─ touch_session … flush_session ─ flush_quic ─┬ take_quic ─┬ Request ─ open_stream ─ …
//!                                                            │            └ Data ──── feed_stream ─ …
//!                                                            ├ streams with room go on
//!                                                            └ send_quic ─ transmit (one send for all streams)
//! ```

use maitred_http::framed::StreamKey;
use maitred_http::h3::{Action, Code, Error, Event, Order};
use quinn_proto::{ConnectionError, Dir, ReadError, StreamEvent, StreamId};

use super::Requests;
use crate::connection::multiplexed::SHARE_BYTES;
use crate::connection::quic::{Quic, Request};
use crate::connection::remote::Remote;
use crate::connection::stream::Opened;
use crate::connection::wire::Sent;
use crate::keys::{ConnKey, SessionKey};
use maitred_tls::client::Identity;

/// Bytes that are read of a stream at a time.
const READ_BYTES: usize = 64 * 1024;

/// Rounds of reading, writing and sending in one turn, so that the other connections get their turn.
const ROUNDS: usize = 8;

/// What has come of a stream in one look.
struct Look {
    /// Nothing comes behind it.
    ended: bool,
    /// More may be there to read.
    more: bool,
    /// The client has taken it back.
    reset: bool,
}

impl Requests {
    /// Does everything for a connection that there is to do in this turn.
    pub(crate) fn flush_quic(&mut self, index: ConnKey, key: SessionKey) -> Sent {
        for _ in 0..ROUNDS {
            if !self.take_quic(index, key) {
                return Sent::Broken;
            }
            let mut any = false;
            for (order, id) in self.writable_in_order(key) {
                any |= self.write_streams(key, Some(order));
                self.go_on_quic(key, id);
            }
            any |= self.write_streams(key, None);
            self.send_quic(key);
            let all = self.transmit(key);
            self.settle_endpoint(key);
            let Some(quic) = self.quic(key) else { return Sent::Broken };
            // What was sent may have shown that an address is proved, for which requests wait.
            if all && !any && quic.readable.is_empty() && quic.released.is_empty() {
                return Sent::All;
            }
        }
        self.look_again(index);
        Sent::Share
    }

    /// Has streams with room go on, those only that come before `before`. Gives back whether there was one.
    fn write_streams(&mut self, key: SessionKey, before: Option<Order>) -> bool {
        let mut any = false;
        while let Some(http3) = self.sessions.get_mut(key)
            && let Some(stream) =
                http3.session.http3().and_then(|session| session.next_writable_before(before))
        {
            any = true;
            http3.share = SHARE_BYTES;
            let of = ConnKey::from_number(http3.session.user(stream));
            self.go_on_sending(of);
            self.send_quic(key);
        }
        any
    }

    /// Streams for which QUIC has room again, the most urgent first: what one of them takes is not there for the others.
    fn writable_in_order(&mut self, key: SessionKey) -> Vec<(Order, StreamId)> {
        let Some(http3) = self.sessions.get_mut(key) else { return Vec::new() };
        let (Some(quic), Some(session)) = (http3.quic.as_deref_mut(), http3.session.http3()) else {
            return Vec::new();
        };
        let mut all: Vec<_> = std::mem::take(&mut quic.writable)
            .into_iter()
            .filter_map(|id| {
                let stream = session.find(u64::from(id))?;
                Some((session.order(stream)?, id))
            })
            .collect();
        all.sort_unstable_by_key(|(order, _)| *order);
        all
    }

    /// The QUIC connection of a session.
    fn quic(&mut self, key: SessionKey) -> Option<&mut Quic> {
        self.sessions.get_mut(key)?.quic.as_deref_mut()
    }

    /// Acts on what QUIC reports. False if the connection is over.
    fn take_quic(&mut self, index: ConnKey, key: SessionKey) -> bool {
        self.settle_endpoint(key);
        self.settle_path(key);
        while let Some(event) = self.quic(key).and_then(Quic::next_event) {
            match event {
                quinn_proto::Event::Connected => self.settle_quic(key),
                quinn_proto::Event::ConnectionLost { reason } => {
                    self.note_lost(index, key, &reason);
                    return false;
                }
                quinn_proto::Event::Stream(event) => self.on_stream_event(index, key, event),
                quinn_proto::Event::HandshakeDataReady
                | quinn_proto::Event::DatagramReceived
                | quinn_proto::Event::DatagramsUnblocked => {}
            }
        }
        if !self.note_address(index, key) {
            self.turn_away(key);
        }
        let readable = self.quic(key).map(|quic| std::mem::take(&mut quic.readable)).unwrap_or_default();
        for id in readable {
            self.read_quic(index, key, id);
        }
        self.count_refused_streams(key);
        self.note_half(key, 0, 0);
        let fatal = self.sessions.get_mut(key).and_then(|found| found.session.http3()?.fatal());
        if let Some(error) = fatal {
            self.note_broken_session(index, &error.to_string());
            return false;
        }
        self.sessions.contains(key)
    }

    /// The handshake is over.
    fn settle_quic(&mut self, key: SessionKey) {
        let row = self.row;
        let Some(quic) = self.quic(key) else { return };
        quic.settled = true;
        let certificates = quic.connection.crypto_session().peer_identity();
        quic.identity = certificates.and_then(|found| Identity::of_chain(&*found)).map(Box::new);
        row.tls_handshakes.add(1);
    }

    /// Requests that have come by an address which was not proved are read when it is; if it is not proved in time, they are
    /// refused, and the client may send them again. Of a request that was judged before, the content is read in either case: who
    /// sends it has the keys of the connection.
    fn settle_path(&mut self, key: SessionKey) {
        let Some(http3) = self.sessions.get_mut(key) else { return };
        let (Some(quic), Some(session)) = (http3.quic.as_deref_mut(), http3.session.http3()) else { return };
        quic.follow();
        if quic.refused.is_empty() && quic.released.is_empty() {
            return;
        }
        for Request { id, new } in std::mem::take(&mut quic.refused) {
            match new {
                true => session.refuse_unopened(u64::from(id)),
                false if session.refuse_begun(u64::from(id)) => {}
                false => quic.note_readable(id),
            }
        }
        for Request { id, new } in std::mem::take(&mut quic.released) {
            if !new || session.open(u64::from(id)).is_some() {
                quic.note_readable(id);
            }
        }
        self.carry_out_actions(key);
    }

    /// The client may have proved another address by now (RFC 9000 section 9): its next requests are from there, and it counts
    /// there. False if its first one has too many connections already.
    fn note_address(&mut self, index: ConnKey, key: SessionKey) -> bool {
        let Some(address) = self.quic(key).and_then(|quic| quic.paths.address()) else { return true };
        let connection = &mut self.connections[index];
        let before = connection.remote.address;
        if before == Some(address) {
            return true;
        }
        connection.remote = Remote::new(Some(address));
        if before.is_none() {
            return self.admit_quic(index, key);
        }
        if connection.counted {
            self.shared.addresses.enter_up_to(Some(address), u32::MAX);
            self.uncount(before);
        }
        true
    }

    /// The client has proved its address: it counts from now on.
    fn admit_quic(&mut self, index: ConnKey, key: SessionKey) -> bool {
        let now = self.clock.now;
        if let Some(quic) = self.quic(key)
            && std::mem::take(&mut quic.half_open)
        {
            self.shared.unproved.leave(true, now);
        }
        let address = self.connections[index].remote.address;
        let counted = self.admit(address);
        self.connections[index].counted = counted;
        counted && self.admit_handshake(address)
    }

    /// Refuses a client that there is no place for.
    fn turn_away(&mut self, key: SessionKey) {
        self.row.quic_refused.add(1);
        if let Some(session) = self.sessions.get_mut(key).and_then(|found| found.session.http3()) {
            session.lose_timeout("its address has too many connections, or begins too many");
        }
    }

    fn note_lost(&mut self, index: ConnKey, key: SessionKey, reason: &ConnectionError) {
        let why = match reason {
            // The client says that it is done, or does not say anything any more.
            ConnectionError::ApplicationClosed(close) if is_usual(close.error_code.into_inner()) => None,
            ConnectionError::TimedOut | ConnectionError::Reset | ConnectionError::LocallyClosed => None,
            ConnectionError::ConnectionClosed(close) if u64::from(close.error_code) == 0 => None,
            other => Some(other.to_string()),
        };
        if let Some(quic) = self.quic(key) {
            // An error that was found here has to be told to the client.
            quic.lost = !matches!(reason, ConnectionError::TransportError(_));
            if !quic.settled && why.is_some() {
                self.row.tls_failures.add(1);
            }
        }
        if let Some(why) = why {
            let remote = self.connections[index].remote;
            self.log_limited(|| tracing::info!(peer = remote.text(), "HTTP/3 connection ended: {why}"));
        }
    }

    fn on_stream_event(&mut self, index: ConnKey, key: SessionKey, event: StreamEvent) {
        let now = self.clock.now;
        match event {
            StreamEvent::Opened { dir } => self.accept_streams(key, dir),
            StreamEvent::Readable { id } => {
                if let Some(quic) = self.quic(key) {
                    quic.note_readable(id);
                }
            }
            StreamEvent::Writable { id } => {
                if let Some(quic) = self.quic(key) {
                    match quic.control == Some(id) {
                        true => quic.put_control(&[]),
                        false => quic.writable.push(id),
                    }
                }
            }
            StreamEvent::Stopped { id, .. } => {
                let Some(http3) = self.sessions.get_mut(key) else { return };
                let own = http3.quic.as_deref().and_then(|quic| quic.control);
                let Some(session) = http3.session.http3() else { return };
                if own == Some(id) {
                    return session.control_stopped();
                }
                let stream = session.find(u64::from(id));
                if let Some(lost) = stream.map(|stream| session.lose(now, stream)) {
                    self.on_lost_stream(index, key, lost);
                }
            }
            StreamEvent::Finished { .. } | StreamEvent::Available { .. } => {}
        }
    }

    /// Streams that the client has opened.
    fn accept_streams(&mut self, key: SessionKey, dir: Dir) {
        let Some(http3) = self.sessions.get_mut(key) else { return };
        let (Some(quic), Some(session)) = (http3.quic.as_deref_mut(), http3.session.http3()) else { return };
        while let Some(id) = quic.connection.streams().accept(dir) {
            if dir == Dir::Uni || session.open(u64::from(id)).is_some() {
                quic.note_readable(id);
            }
        }
        self.carry_out_actions(key);
    }

    /// Reads what has come on a stream, as far as it is wanted.
    fn read_quic(&mut self, index: ConnKey, key: SessionKey, id: StreamId) {
        if id.dir() == Dir::Uni {
            return self.read_unidirectional(key, id);
        }
        let Some(http3) = self.sessions.get_mut(key) else { return };
        let Some(stream) = http3.session.http3().and_then(|session| session.find(u64::from(id))) else {
            // The stream is over here. What the client has sent of it is dropped, so that it gets the place of the stream back.
            if let Some(quic) = http3.quic.as_deref_mut() {
                quic.stop(u64::from(id), Code::NoError.number());
            }
            return;
        };
        if let Some(found) = http3.stream(stream.0).filter(|found| found.unread > 0) {
            // What has come before was not acted on: it is read when that was, and the client has no more room until then.
            found.stalled = true;
            return;
        }
        let mut rx = self.buffers.rx.take();
        let Some(look) = self.look_at(key, id, &mut rx) else { return self.buffers.rx.put_back(rx) };
        if look.reset {
            let now = self.clock.now;
            let http3 = self.sessions.get_mut(key);
            if let Some(lost) = http3.and_then(|found| Some(found.session.http3()?.lose(now, stream))) {
                self.on_lost_stream(index, key, lost);
            }
        } else {
            self.take_http3((index, key), stream, &rx, look.ended);
        }
        self.buffers.rx.put_back(rx);
        self.carry_out_actions(key);
        if look.more
            && let Some(quic) = self.quic(key)
        {
            quic.note_readable(id);
        }
    }

    /// Takes what the library has of a stream.
    fn look_at(&mut self, key: SessionKey, id: StreamId, rx: &mut Vec<u8>) -> Option<Look> {
        let quic = self.quic(key)?;
        let mut stream = quic.connection.recv_stream(id);
        let mut chunks = stream.read(true).ok()?;
        let mut look = Look { ended: false, more: false, reset: false };
        while !(look.ended || look.reset || look.more) {
            let room = READ_BYTES.saturating_sub(rx.len());
            if room == 0 {
                look.more = true;
                break;
            }
            match chunks.next(room) {
                Ok(Some(chunk)) => rx.extend_from_slice(&chunk.bytes),
                Ok(None) => look.ended = true,
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(_)) => look.reset = true,
            }
        }
        // What it has to say of windows leaves with the next datagrams.
        let _ = chunks.finalize();
        Some(look)
    }

    fn read_unidirectional(&mut self, key: SessionKey, id: StreamId) {
        let now = self.clock.now;
        let mut rx = self.buffers.rx.take();
        if let Some(look) = self.look_at(key, id, &mut rx)
            && let Some(http3) = self.sessions.get_mut(key)
            && let Some(session) = http3.session.http3()
        {
            // An error is kept by the session, and looked at when all was read.
            let _ = match look.reset {
                true => session.lose_unidirectional(u64::from(id)),
                false => session.receive_unidirectional(now, u64::from(id), &rx, look.ended),
            };
            if look.more
                && let Some(quic) = http3.quic.as_deref_mut()
            {
                quic.note_readable(id);
            }
        }
        self.buffers.rx.put_back(rx);
        self.carry_out_actions(key);
    }

    /// Acts on what has come on the stream of a request.
    fn take_http3(&mut self, (index, key): (ConnKey, SessionKey), stream: StreamKey, rx: &[u8], ended: bool) {
        let now = self.clock.now;
        let mut at = 0;
        let mut head = std::mem::take(&mut self.buffers.head);
        while let Some(session) = self.sessions.get_mut(key).and_then(|found| found.session.http3()) {
            match session.receive(now, stream, (rx, &mut at), ended, &mut head) {
                Ok(Some(Event::Request { stream, ended })) => {
                    self.open_stream(index, key, Opened { stream, ended }, &mut head);
                }
                Ok(Some(Event::Refused { status, reason })) => {
                    self.log_refused_stream(index, status, reason, &head);
                }
                Ok(Some(Event::Data { stream, bytes, ended })) => self.feed_stream(key, stream, bytes, ended),
                Ok(Some(Event::Trailers { stream, fields })) => self.end_by_trailers(key, stream, fields),
                Ok(Some(Event::Reset { user, .. })) => {
                    self.lose_stream(key, ConnKey::from_number(user));
                    self.count_reset(index, key);
                }
                Ok(None) | Err(_) => break,
            }
        }
        head.clear();
        self.buffers.head = head;
    }

    /// A stream was taken back by its client.
    fn on_lost_stream(
        &mut self,
        index: ConnKey,
        key: SessionKey,
        lost: Result<Option<Event<'static>>, Error>,
    ) {
        if let Ok(Some(Event::Reset { user, .. })) = lost {
            self.lose_stream(key, ConnKey::from_number(user));
        }
        self.count_reset(index, key);
        self.carry_out_actions(key);
    }

    /// Does with streams what the session says.
    fn carry_out_actions(&mut self, key: SessionKey) {
        let Some(http3) = self.sessions.get_mut(key) else { return };
        let (Some(quic), Some(session)) = (http3.quic.as_deref_mut(), http3.session.http3()) else { return };
        while let Some(action) = session.take_action() {
            match action {
                Action::Stop { id, code } => quic.stop(id, code.number()),
                Action::Reset { id, code } => quic.reset(id, code.number()),
            }
        }
    }

    /// A stream has room again for what QUIC has not taken.
    fn go_on_quic(&mut self, key: SessionKey, id: StreamId) {
        let Some(http3) = self.sessions.get_mut(key) else { return };
        let (Some(quic), Some(session)) = (http3.quic.as_deref_mut(), http3.session.http3()) else { return };
        let Some(stream) = session.find(u64::from(id)) else { return };
        if quic.go_on(id, stream) == Some(true) {
            session.hold(stream, false);
        }
    }

    /// Gives QUIC what responses have written.
    fn send_quic(&mut self, key: SessionKey) {
        self.carry_out_actions(key);
        let scarce = self.is_short_of_memory();
        let Some(http3) = self.sessions.get_mut(key) else { return };
        let (Some(quic), Some(session)) = (http3.quic.as_deref_mut(), http3.session.http3()) else { return };
        quic.adapt_window(scarce);
        quic.put_control(&session.take_control());
        while let Some(unsent) = session.take_unsent() {
            let stream = unsent.stream;
            let all = quic.put(unsent);
            session.hold(stream, !all);
        }
    }

    /// A deadline of the library has passed, if it has.
    pub(crate) fn on_quic_timeout(&mut self, key: SessionKey) -> bool {
        let now = self.clock.now;
        let Some(quic) = self.quic(key) else { return false };
        let due = quic.connection.poll_timeout().is_some_and(|at| at <= now);
        if due {
            quic.connection.handle_timeout(now);
            self.touch_session(key);
        }
        due
    }
}

/// Whether a client has said that nothing is wrong.
fn is_usual(code: u64) -> bool {
    code == 0 || code == Code::NoError.number() || code == Code::RequestCancelled.number()
}
