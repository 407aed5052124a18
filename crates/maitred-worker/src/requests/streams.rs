//! Requests that begin on streams of HTTP/2 and HTTP/3, and their bodies.

use maitred_http::fields::FieldLines;
use maitred_http::framed::StreamKey;
use maitred_http::request::{HeadRoom, RequestHead, Version};

use super::Requests;
use crate::connection::After;
use crate::connection::multiplexed::SHARE_BYTES;
use crate::connection::stream::{FREE, NO_CONNECTION, Opened, Stream};
use crate::connection::table::Phase;
use crate::connection::wire::Wire;
use crate::entry::Entry;
use crate::keys::{ConnKey, SessionKey};
use crate::step::Stop;

impl Requests {
    /// A request, whose head has yet to be checked.
    pub(crate) fn open_stream(
        &mut self,
        index: ConnKey,
        key: SessionKey,
        opened: Opened,
        head: &mut RequestHead,
    ) {
        let now = self.clock.now;
        let shared = self.shared;
        let Opened { stream, ended } = opened;
        let parent = &mut self.connections[index];
        parent.requests = parent.requests.saturating_add(1);
        let last = parent.requests >= shared.start.config.limits.requests_per_connection_max;
        let wire = Wire::Stream { session: key, stream: stream.0 };
        let connection = Entry::stream(parent, wire, now);
        let new = self.insert(connection);
        match head.version() {
            Version::Http3 => self.row.http3_streams.add(1),
            _ => self.row.http2_streams.add(1),
        }
        let Some(http2) = self.sessions.get_mut(key) else { return };
        let at = stream.slot();
        http2.share = SHARE_BYTES;
        http2.idle_until = None;
        if http2.streams.len() <= at {
            http2.streams.resize(at + 1, FREE);
        }
        http2.streams[at] = Stream { index: new, heard: ended, ..FREE };
        http2.session.mark(stream, new.number());
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
        if let Some(idle) =
            self.connections.get(new).filter(|found| found.wire == wire).map(|found| found.idle)
        {
            self.connections[index].idle = idle;
        }
        self.act_on(new, stop);
    }

    /// Answers the request of a stream.
    fn take_stream(&mut self, index: ConnKey, head: &RequestHead) -> Stop {
        let mut room = HeadRoom::default();
        let Some(request) = head.view(&mut room) else { return Stop::Settled(Some(After::Linger)) };
        let (bytes, mut at) = (head.bytes(), 0);
        // Of content nothing has come yet.
        let stop = self.take_request(index, &request, bytes, &[], &mut at);
        // No other request follows it.
        stop.unwrap_or(Stop::Starved)
    }

    /// A piece of a body, or its end.
    pub(crate) fn feed_stream(&mut self, key: SessionKey, stream: StreamKey, bytes: &[u8], ended: bool) {
        let Some(found) = self.sessions.get_mut(key).and_then(|found| found.stream(stream.0)) else {
            return;
        };
        found.unread += bytes.len();
        found.heard |= ended;
        let index = found.index;
        let Some(connection) = self.connections.get_mut(index).filter(|_| index != NO_CONNECTION) else {
            return;
        };
        let phase = connection.state.phase();
        let exchange = connection.exchange();
        match phase {
            Phase::Idle | Phase::Head | Phase::Body if exchange.input.is_empty() => {
                self.take_content(index, bytes);
            }
            Phase::Upstream => {
                exchange.input.extend_from_slice(bytes);
                connection.readable = true;
                self.move_upstream(index);
            }
            _ => exchange.input.extend_from_slice(bytes),
        }
    }

    /// The end of a body, with what comes behind it.
    pub(crate) fn end_by_trailers(&mut self, key: SessionKey, stream: StreamKey, fields: Box<FieldLines>) {
        let found = self.sessions.get_mut(key).and_then(|found| found.stream(stream.0));
        let index = found.map(|found| found.index).filter(|index| *index != NO_CONNECTION);
        if let Some(connection) = index.and_then(|index| self.connections.get_mut(index)) {
            connection.exchange().body.trailers = Some(fields);
        }
        self.feed_stream(key, stream, &[], true);
    }

    /// The client has reset the stream: its response is not needed any more.
    pub(crate) fn lose_stream(&mut self, key: SessionKey, index: ConnKey) {
        let is_its = |wire| matches!(wire, Wire::Stream { session, .. } if session == key);
        if self.connections.get(index).is_some_and(|found| is_its(found.wire)) {
            self.abort_any(index);
        }
    }
}
