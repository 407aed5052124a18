//! Streams of HTTP/2 connections, each of which is a connection for the rest of the worker: how they begin, what is received and
//! sent on them, and how they end. [`http2`](crate::connection::multiplexed) is about the connection that carries them.

use std::os::fd::AsFd as _;
use std::rc::Rc;

use maitred_http::framed::StreamKey;
use maitred_sys::file::append_at;
use rustix::io::Errno;

use super::Clients;
use crate::connection::Exchange;
use crate::connection::stream::FREE;
use crate::connection::wire::{Received, Then, Wire};
use crate::keys::{ConnKey, SessionKey};
use maitred_files::ServedFile;

impl Clients {
    /// Whether a body whose end is known only by END_STREAM has ended, and that was not acted on.
    pub(crate) fn is_content_ended(&self, index: ConnKey) -> bool {
        let Some(connection) = self.connections.get(index) else { return false };
        let Wire::Stream { session, stream } = connection.wire else { return false };
        let told =
            connection.exchange.as_deref().is_some_and(|exchange| exchange.body.incoming.ends_when_told());
        let streams = self.sessions.get(session).map(|http2| &http2.streams);
        told && streams
            .and_then(|streams| streams.get(StreamKey(stream).slot()))
            .is_some_and(|found| found.heard)
    }

    /// Lets the client send more, once what it has sent was acted on.
    pub(crate) fn credit(&mut self, key: SessionKey, stream: u32) {
        let Some(http2) = self.sessions.get_mut(key) else { return };
        let Some(found) = http2.streams.get_mut(StreamKey(stream).slot()) else { return };
        let waits = |exchange: &Exchange| !exchange.input.is_empty();
        let connection = self.connections.get(found.index);
        if found.unread > 0 && !connection.and_then(|found| found.exchange.as_deref()).is_some_and(waits) {
            let unread = std::mem::take(&mut found.unread);
            let stalled = std::mem::take(&mut found.stalled);
            http2.session.consumed(StreamKey(stream), unread);
            if stalled {
                http2.read_on(StreamKey(stream));
            }
            self.touch_session(key);
        }
    }

    /// What a stream has received was taken.
    pub(crate) fn credit_stream(&mut self, index: ConnKey) {
        if let Some(Wire::Stream { session, stream }) =
            self.connections.get(index).map(|connection| connection.wire)
        {
            self.credit(session, stream);
        }
    }

    /// What has come on a stream. The end is only reported to a tunnel: the end of a request is known by its framing.
    pub(crate) fn receive_stream(
        &mut self,
        index: ConnKey,
        session: SessionKey,
        stream: u32,
        rx: &mut Vec<u8>,
    ) -> Received {
        let tunnels = self.is_tunnel(index);
        let found = self.sessions.get_mut(session).and_then(|found| found.stream(stream));
        let ended = found.is_none_or(|found| found.heard) && tunnels;
        let connection = &mut self.connections[index];
        let before = rx.len();
        if let Some(exchange) = connection.exchange.as_deref_mut() {
            rx.append(&mut exchange.input);
        }
        if rx.len() > before {
            self.credit(session, stream);
            // The end may have come with these bytes, and no event will announce it.
            return Received::Bytes { more: ended };
        }
        match ended {
            true => Received::End,
            false => Received::Nothing,
        }
    }

    /// Puts a part of a response's content into frames, as far as there is room.
    pub(crate) fn send_stream(
        &mut self,
        key: SessionKey,
        stream: u32,
        bytes: &[u8],
        then: Then,
    ) -> Result<usize, Errno> {
        self.touch_session(key);
        let Some(http2) = self.sessions.get_mut(key) else { return Err(Errno::CONNRESET) };
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
    pub(crate) fn send_stream_file(
        &mut self,
        key: SessionKey,
        stream: u32,
        file: &Rc<ServedFile>,
        offset: &mut u64,
        bytes: u64,
        then: Then,
    ) -> Result<u64, Errno> {
        self.touch_session(key);
        let Some(http2) = self.sessions.get_mut(key) else { return Err(Errno::CONNRESET) };
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
                // The piece was found to be in memory; a file that cannot be read now is treated as one that has become
                // shorter.
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
    pub(crate) fn end_sending(&mut self, session: SessionKey, stream: u32) {
        if let Some(http2) = self.sessions.get_mut(session) {
            http2.session.end(StreamKey(stream));
            self.touch_session(session);
        }
    }

    /// The connection of a stream has gone.
    pub(crate) fn release_stream(&mut self, wire: Wire) {
        let Wire::Stream { session: key, stream } = wire else { return };
        let Some(http2) = self.sessions.get_mut(key) else { return };
        if let Some(found) = http2.stream(stream) {
            *found = FREE;
        }
        http2.session.release(StreamKey(stream));
        self.touch_session(key);
    }
}
