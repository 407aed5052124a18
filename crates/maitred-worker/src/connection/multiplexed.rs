//! One HTTP/2 or HTTP/3 connection: the session, its streams, and what it waits for.

use std::time::{Duration, Instant};

use maitred_http::framed::{Session, StreamKey};
use maitred_http::h2::Settings;
use maitred_http::h3;

use crate::connection::quic::{Quic, stream_id};
use crate::connection::stream::Stream;
use crate::keys::ConnKey;
use maitred_base::budget::Permit;
use maitred_config::Limits;

/// Bytes that one stream may put into frames before others of the same urgency get their turn: four frames of the largest
/// size.
pub(crate) const SHARE_BYTES: usize = 64 * 1024;

/// How long a connection without streams keeps its buffers: the next request of a page comes sooner.
const SHRINK_AFTER: Duration = Duration::from_secs(1);

/// One HTTP/2 or HTTP/3 connection.
#[derive(Debug)]
pub(crate) struct Multiplexed {
    /// The rules.
    pub(crate) session: Session,
    /// What carries a session of HTTP/3.
    pub(crate) quic: Option<Box<Quic>>,
    /// The client's connection.
    pub(crate) index: ConnKey,
    /// What is known of each stream, by its key.
    pub(crate) streams: Vec<Stream>,
    /// How much of the session's output has been sent.
    pub(crate) sent: usize,
    /// What its output takes of the budget for what is unsent.
    pub(crate) unsent: Permit,
    /// What its streams hold of responses, in bytes.
    pub(crate) streams_unsent: u64,
    /// Bytes of content that are in frames so far, of all streams.
    pub(crate) framed: u64,
    /// What is left of the present stream's share.
    pub(crate) share: usize,
    /// The connection is to be looked at when the turn ends already.
    pub(crate) dirty: bool,
    /// If it has no stream: when it has waited long enough for one.
    pub(crate) idle_until: Option<Instant>,
    /// If something is unsent: when the timeout for the client to take a byte of it ends.
    pub(crate) write_until: Option<Instant>,
    /// A header block, or another frame, of which a part has come.
    pub(crate) half: Option<Partial>,
    /// When the first GOAWAY was sent.
    pub(crate) left_at: Option<Instant>,
    /// The second GOAWAY was sent: new streams are refused.
    pub(crate) left: bool,
}

/// A deadline for what has come in part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Partial {
    pub(crate) half: Half,
    pub(crate) since: Instant,
    /// Bytes of it that were looked at in earlier frames.
    pub(crate) bytes: u64,
    pub(crate) until: Instant,
}

/// What has come in part. The content of DATA is not meant: streams have deadlines of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// The header block of a stream.
    Block(u32),
    /// A frame.
    Frame,
}

/// The timeouts of a connection.
pub(crate) struct Timeouts {
    pub(crate) idle: Duration,
    pub(crate) write: Duration,
}

/// The same over HTTP/3.
pub(crate) fn http3_settings(limits: &Limits) -> h3::Settings {
    h3::Settings {
        header_list_bytes_max: limits.head_bytes_max,
        header_count_max: u32::from(limits.header_count_max),
        streams_max: limits.streams_per_connection_max,
        ..h3::Settings::default()
    }
}

/// What clients may ask of this server on one connection.
pub(crate) fn settings(limits: &Limits) -> Settings {
    Settings {
        header_list_bytes_max: limits.head_bytes_max,
        header_count_max: u32::from(limits.header_count_max),
        streams_max: limits.streams_per_connection_max,
        ..Settings::default()
    }
}

impl Multiplexed {
    /// A connection that has just begun to use one of both; `index` is its place in the table of connections.
    pub(crate) fn new(session: Session, index: ConnKey, unsent: Permit) -> Multiplexed {
        Multiplexed {
            session,
            quic: None,
            index,
            streams: Vec::new(),
            sent: 0,
            unsent,
            streams_unsent: 0,
            framed: 0,
            share: SHARE_BYTES,
            dirty: false,
            idle_until: None,
            write_until: None,
            half: None,
            left_at: None,
            left: false,
        }
    }

    /// The client's connection.
    pub(crate) fn index(&self) -> ConnKey {
        self.index
    }

    /// If there is nothing to do: until when it may stay.
    pub(crate) fn idle_until(&self) -> Option<Instant> {
        let idle = self.session.streams() == 0 && self.half.is_none() && !self.session.is_over();
        self.idle_until.filter(|_| idle && self.write_until.is_none())
    }

    /// What a stream over QUIC has received meanwhile is read when the turn ends.
    pub(crate) fn read_on(&mut self, stream: StreamKey) {
        let id = self.session.http3().and_then(|session| session.id(stream));
        if let (Some(id), Some(quic)) = (id, self.quic.as_deref_mut()) {
            quic.note_readable(stream_id(id));
        }
    }

    /// What is known of a stream.
    pub(crate) fn stream(&mut self, stream: u32) -> Option<&mut Stream> {
        self.streams.get_mut(StreamKey(stream).slot())
    }

    /// When something has to be done if nothing happens: the first of what the connection itself waits for.
    pub(crate) fn deadline(&mut self, now: Instant, unsent: bool, timeouts: &Timeouts) -> Option<Instant> {
        let turn = if unsent {
            Some(*self.write_until.get_or_insert(now + timeouts.write))
        } else {
            self.write_until = None;
            if self.session.streams() > 0 {
                self.idle_until = None;
                None
            } else {
                // Since its last stream ended: frames that open no stream do not count.
                let until = *self.idle_until.get_or_insert(now + timeouts.idle);
                Some(until.min(now + SHRINK_AFTER))
            }
        };
        if self.session.is_full() {
            // Nothing is read meanwhile, so that the client cannot go on.
            self.half = None;
        }
        let half = self.half.map(|part| part.until);
        turn.into_iter().chain(half).min()
    }

    /// Brings its deadlines forward.
    pub(crate) fn hurry(&mut self, idle: Instant, write: Instant) {
        self.idle_until = self.idle_until.map(|until| until.min(idle));
        self.write_until = self.write_until.map(|until| until.min(write));
        self.session.shrink_out();
    }

    /// How many bytes of content a stream may put into a frame now; if that is none, it waits.
    pub(crate) fn room(&mut self, stream: StreamKey) -> usize {
        let room = self.session.room(stream).min(self.share);
        if self.share == 0 {
            self.session.wait(stream);
        }
        room
    }

    /// Starts a frame of this many bytes, which the caller appends.
    pub(crate) fn data(&mut self, stream: StreamKey, bytes: usize, ended: bool) -> &mut Vec<u8> {
        self.count_framed(stream, bytes);
        self.session.data(stream, bytes, ended)
    }

    fn count_framed(&mut self, stream: StreamKey, bytes: usize) {
        self.share -= bytes.min(self.share);
        self.framed += bytes as u64;
        if let Some(found) = self.streams.get_mut(stream.slot()) {
            found.framed += bytes as u64;
        }
    }

    /// Whether frames wait for room in the socket.
    pub(crate) fn is_unsent(&self) -> bool {
        self.write_until.is_some()
    }

    /// Writes a frame with what `append` appends, no more than there is room for. See [`Session::fill`].
    pub(crate) fn fill(
        &mut self,
        stream: StreamKey,
        ended: impl FnOnce(usize) -> bool,
        append: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        let bytes = self.session.fill(stream, ended, append);
        self.count_framed(stream, bytes);
        bytes
    }
}

#[cfg(test)]
pub(crate) mod tests;
