//! Streams of HTTP/2 connections, each of which is a connection to everybody else: how they begin, what is received and sent on
//! them, and how they end. [`http2`](super::http2) is about the connection that carries them.

use std::os::fd::AsFd as _;
use std::rc::Rc;

use maitred_http::h2::{Code, StreamKey};
use maitred_http::request::{HeadRoom, RequestHead};
use maitred_sys::file::append_at;
use rustix::io::Errno;

use super::connection::{After, Connection, Exchange, State};
use super::http2::SHARE_BYTES;
use super::layers::{Clients, Exchanges, Requests};
use super::receive::Stop;
use super::wire::{Received, Then, Wire};
use crate::serve::ServedFile;

/// No connection: the stream is free, or its connection has gone.
pub(super) const NOBODY: u32 = u32::MAX;

/// One stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    /// Its connection.
    pub(super) index: u32,
    /// Nothing more comes from the client.
    heard: bool,
    /// Bytes of the body that nobody has acted on, and for which the client gets no new room.
    unread: usize,
    /// Bytes of the response's content that are in frames so far.
    pub(super) framed: u64,
}

/// What the session says of a request that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened {
    pub(super) stream: StreamKey,
    /// There is no body.
    pub(super) ended: bool,
}

const FREE: Stream = Stream { index: NOBODY, heard: false, unread: 0, framed: 0 };

impl Requests {
    /// A request, whose head has yet to be judged.
    pub(super) fn open_stream(&mut self, index: u32, key: u32, opened: Opened, head: &mut RequestHead) {
        let now = self.clock.now;
        let shared = self.shared;
        let Opened { stream, ended } = opened;
        let parent = &mut self.connections[index as usize];
        parent.requests = parent.requests.saturating_add(1);
        let last = parent.requests >= shared.start.config.limits.requests_per_connection_max;
        let wire = Wire::Stream { session: key, stream: stream.0 };
        let connection = Connection::stream(parent, wire, now);
        let new = self.insert(connection);
        self.row.http2_streams.add(1);
        let Some(http2) = self.sessions.get_mut(key as usize) else { return };
        let at = stream.slot();
        http2.share = SHARE_BYTES;
        http2.idle_until = None;
        if http2.streams.len() <= at {
            http2.streams.resize(at + 1, FREE);
        }
        http2.streams[at] = Stream { index: new, heard: ended, ..FREE };
        http2.session.mark(stream, new);
        if last {
            self.leave(key);
        }
        let stop = match head.judge(&self.head_limits) {
            Ok(()) => self.take_stream(new, head),
            Err(reject) => {
                self.note_refusal(new, reject);
                self.answer_refused(new, head, reject);
                Stop::Settled(Some(After::Linger))
            }
        };
        self.act_on(new, stop);
    }

    /// Answers the request of a stream.
    fn take_stream(&mut self, index: u32, head: &RequestHead) -> Stop {
        let mut room = HeadRoom::default();
        let Some(request) = head.view(&mut room) else { return Stop::Settled(Some(After::Linger)) };
        let (bytes, mut at) = (head.bytes(), 0);
        // Of content nothing has come yet.
        let stop = self.take_request(index, &request, bytes, &[], &mut at);
        // No other request follows it.
        stop.unwrap_or(Stop::Starved)
    }

    /// A piece of a body, or its end.
    pub(super) fn feed_stream(&mut self, key: u32, stream: StreamKey, bytes: &[u8], ended: bool) {
        let Some(found) = self.sessions.get_mut(key as usize).and_then(|found| found.stream(stream.0)) else {
            return;
        };
        found.unread += bytes.len();
        found.heard |= ended;
        let index = found.index;
        let Some(connection) = self.connections.get_mut(index as usize).filter(|_| index != NOBODY) else {
            return;
        };
        let state = connection.state;
        let exchange = connection.exchange();
        match state {
            State::Idle | State::Head | State::Body if exchange.input.is_empty() => {
                self.take_content(index, bytes);
            }
            State::Upstream(_) => {
                exchange.input.extend_from_slice(bytes);
                connection.readable = true;
                self.move_upstream(index);
            }
            _ => exchange.input.extend_from_slice(bytes),
        }
    }

    /// The client wants no answer to a request any more.
    pub(super) fn lose_stream(&mut self, key: u32, index: u32) {
        let is_its = |wire| matches!(wire, Wire::Stream { session, .. } if session == key);
        if self.connections.get(index as usize).is_some_and(|found| is_its(found.wire)) {
            self.abort_any(index);
        }
    }
}

impl Clients {
    /// Whether a body whose end has to be said has ended, and that was not acted on.
    pub(super) fn is_content_ended(&self, index: u32) -> bool {
        let Some(connection) = self.connections.get(index as usize) else { return false };
        let Wire::Stream { session, stream } = connection.wire else { return false };
        let told = connection
            .exchange
            .as_deref()
            .and_then(|exchange| exchange.decoder)
            .is_some_and(|body| body.ends_when_told());
        let streams = self.sessions.get(session as usize).map(|http2| &http2.streams);
        told && streams
            .and_then(|streams| streams.get(StreamKey(stream).slot()))
            .is_some_and(|found| found.heard)
    }

    /// Lets the client send more, once what it has sent was acted on.
    pub(super) fn credit(&mut self, key: u32, stream: u32) {
        let Some(http2) = self.sessions.get_mut(key as usize) else { return };
        let Some(found) = http2.streams.get_mut(StreamKey(stream).slot()) else { return };
        let waits = |exchange: &Exchange| !exchange.input.is_empty();
        let connection = self.connections.get(found.index as usize);
        if found.unread > 0 && !connection.and_then(|found| found.exchange.as_deref()).is_some_and(waits) {
            let unread = std::mem::take(&mut found.unread);
            http2.session.consumed(StreamKey(stream), unread);
            self.touch_session(key);
        }
    }

    /// What a stream has received was taken.
    pub(super) fn credit_stream(&mut self, index: u32) {
        if let Some(Wire::Stream { session, stream }) =
            self.connections.get(index as usize).map(|connection| connection.wire)
        {
            self.credit(session, stream);
        }
    }

    /// What has come on a stream. That no more will is only said to a tunnel: the end of a request is known by its framing.
    pub(super) fn receive_stream(
        &mut self,
        index: u32,
        session: u32,
        stream: u32,
        rx: &mut Vec<u8>,
    ) -> Received {
        let tunnels = self.is_tunnel(index);
        let found = self.sessions.get_mut(session as usize).and_then(|found| found.stream(stream));
        let ended = found.is_none_or(|found| found.heard) && tunnels;
        let connection = &mut self.connections[index as usize];
        let before = rx.len();
        if let Some(exchange) = connection.exchange.as_deref_mut() {
            rx.append(&mut exchange.input);
        }
        if rx.len() > before {
            self.credit(session, stream);
            // The end may have come with these bytes, and nothing else will tell of it.
            return Received::Bytes { more: ended };
        }
        match ended {
            true => Received::End,
            false => Received::Nothing,
        }
    }

    /// Puts a part of a response's content into frames, as far as there is room.
    pub(super) fn send_stream(
        &mut self,
        key: u32,
        stream: u32,
        bytes: &[u8],
        then: Then,
    ) -> Result<usize, Errno> {
        self.touch_session(key);
        let Some(http2) = self.sessions.get_mut(key as usize) else { return Err(Errno::CONNRESET) };
        let stream_key = StreamKey(stream);
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            let room = http2.room(stream_key).min(rest.len());
            let Some(content) = rest.get(..room).filter(|content| !content.is_empty()) else { break };
            let ended = then == Then::End && content.len() == rest.len();
            http2.data(stream_key, content.len(), ended).extend_from_slice(content);
            taken += content.len();
        }
        if taken == 0 && !bytes.is_empty() { Err(Errno::AGAIN) } else { Ok(taken) }
    }

    /// The same with a piece of a file, which is read straight into the frame.
    pub(super) fn send_stream_file(
        &mut self,
        key: u32,
        stream: u32,
        file: &Rc<ServedFile>,
        offset: &mut u64,
        bytes: u64,
        then: Then,
    ) -> Result<u64, Errno> {
        self.touch_session(key);
        let Some(http2) = self.sessions.get_mut(key as usize) else { return Err(Errno::CONNRESET) };
        let stream_key = StreamKey(stream);
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut taken = 0;
        while taken < wanted {
            let room = http2.room(stream_key).min(wanted - taken);
            if room == 0 {
                if taken == 0 {
                    return Err(Errno::AGAIN);
                }
                break;
            }
            let at = *offset + taken as u64;
            let ended = |read| then == Then::End && (taken + read) as u64 == bytes;
            let read = http2.fill(stream_key, ended, |out| {
                // It was found to be in memory; one that cannot be read now is as one that has become shorter.
                let _ = append_at(file.as_fd(), out, room, at);
            });
            if read == 0 {
                break;
            }
            taken += read;
        }
        *offset += taken as u64;
        Ok(taken as u64)
    }

    /// Nothing more will be sent on a stream.
    pub(super) fn end_sending(&mut self, session: u32, stream: u32) {
        if let Some(http2) = self.sessions.get_mut(session as usize) {
            http2.session.end(StreamKey(stream));
            self.touch_session(session);
        }
    }

    /// The connection of a stream has gone.
    pub(super) fn release_stream(&mut self, wire: Wire) {
        let Wire::Stream { session: key, stream } = wire else { return };
        let Some(http2) = self.sessions.get_mut(key as usize) else { return };
        if let Some(found) = http2.stream(stream) {
            *found = FREE;
        }
        http2.session.release(StreamKey(stream));
        self.touch_session(key);
    }
}

impl Exchanges {
    /// The client has not taken in time what it asked for. A stream is given up with CANCEL (9113-7): its response is not wanted
    /// any more, and INTERNAL_ERROR would say that something is wrong here.
    pub(super) fn abort_stalled(&mut self, index: u32) {
        if let Some(Wire::Stream { session, stream }) =
            self.connections.get(index as usize).map(|connection| connection.wire)
            && let Some(http2) = self.sessions.get_mut(session as usize)
        {
            http2.session.reset(StreamKey(stream), Code::Cancel);
        }
        self.abort(index);
    }

    /// The response of a stream is complete.
    pub(super) fn end_stream(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if let Wire::Stream { session, stream } = connection.wire {
            let trailers = connection.exchange.as_deref_mut().and_then(|exchange| exchange.trailers.take());
            if let (Some(trailers), Some(http2)) = (trailers, self.sessions.get_mut(session as usize)) {
                http2.session.trailers(StreamKey(stream), trailers.all());
            }
            self.end_sending(session, stream);
        }
        self.close(index);
    }
}
