//! HTTP/2 connections: one socket, many streams.
//!
//! Each stream is a `Connection` of its own whose wire is a `Wire::Stream`: its request is written as an HTTP/1.1 head, judged
//! and answered by the same code as any other, and its response is put into frames by [`Reactor::send_stream`]. So whatever
//! holds for a request holds here: the limits, the deadlines, the log, the fields that applications see. What this module
//! and [`streams`](super::streams) add is the way between the socket and the streams; the rules of HTTP/2 are in
//! [`maitred_http::h2`].
//!
//! ```text
//! on_readable ─ take_http2 ──┬ Request ─ open_stream ─ process ─ …
//!                            ├ Data ──── feed_stream ─ process ─ …
//!                            └ Reset ─── abort
//! … ─ send ─ send_stream ─ Session::out ─ flush_sessions (once per turn) ─ one send for all streams
//! ```
//!
//! A stream that finds no room in the windows, or too much unsent, waits in the session, which knows whose turn is next.

use std::time::{Duration, Instant};

use maitred_http::h2::{Event, Session, Settings, StreamKey};
use rustix::io::Errno;

use super::agenda::Next;
use super::connection::{Connection, State};
use super::layers::{Clients, Requests};
use super::rates::head_deadline;
use super::reactor::Reactor;
use super::send::Sent;
use super::streams::{NOBODY, Opened, Stream};
use super::token::Token;
use super::wire::Then;
use crate::budget::Permit;
use crate::config::Limits;

/// Bytes that one stream may put into frames before others of the same urgency get their turn: four frames of the largest
/// size.
pub(super) const SHARE_BYTES: usize = 64 * 1024;
/// Bytes that one connection may send in one turn, so that the others get theirs.
const SENT_PER_TURN: usize = 1024 * 1024;
/// What is left of the output is moved to its beginning if it is at most such a part of what has been sent. Where a socket is
/// often full, moving more would copy each byte once more; left where it is, it counts as unsent all the longer.
const MOVED_PART: usize = 8;
/// How long a client may take to hear of a GOAWAY before streams that it opens are refused (9113-6.8 asks for at least one
/// round trip; refused requests are safe to repeat).
const LEAVE_AFTER: Duration = Duration::from_secs(1);
/// How long a connection without streams keeps its buffers: the next request of a page comes sooner.
const SHRINK_AFTER: Duration = Duration::from_secs(1);

/// One HTTP/2 connection.
#[derive(Debug)]
pub(super) struct Http2Connection {
    /// The rules.
    pub(super) session: Session,
    /// The client's connection.
    index: u32,
    /// What is known of each stream, by its key.
    pub(super) streams: Vec<Stream>,
    /// How much of the session's output has been sent.
    sent: usize,
    /// What its output takes of the budget for what is unsent.
    pub(super) unsent: Permit,
    /// What its streams hold of responses, in bytes.
    pub(super) streams_unsent: u64,
    /// Bytes of content that are in frames so far, of all streams.
    pub(super) framed: u64,
    /// What is left of the present stream's share.
    pub(super) share: usize,
    /// It has its place in the turn's end already.
    dirty: bool,
    /// If it has no stream: when it has waited long enough for one.
    pub(super) idle_until: Option<Instant>,
    /// If something is unsent: when the client has had long enough to take a byte of it.
    write_until: Option<Instant>,
    /// A header block, or another frame, of which a part has come.
    half: Option<Partial>,
    /// When it was told to go away.
    left_at: Option<Instant>,
    /// It was told again, so that what it asks for now is refused.
    left: bool,
}

/// When what has come in part has to be whole.
#[derive(Debug, Clone, Copy)]
struct Partial {
    half: Half,
    since: Instant,
    /// Bytes of it that were looked at in earlier frames.
    bytes: u64,
    until: Instant,
}

/// What has come in part. The content of DATA is not meant: its streams have deadlines of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    /// The header block of a stream.
    Block(u32),
    /// A frame.
    Frame,
}

/// How long a connection may take for what.
struct Timeouts {
    idle: Duration,
    write: Duration,
}

/// What a connection may ask of this server.
pub(super) fn settings(limits: &Limits) -> Settings {
    Settings {
        header_list_bytes_max: limits.head_bytes_max,
        header_count_max: u32::from(limits.header_count_max),
        streams_max: limits.streams_per_connection_max,
        ..Settings::default()
    }
}

impl Http2Connection {
    /// The client's connection.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// If there is nothing to do: until when it may stay.
    pub(super) fn idle_until(&self) -> Option<Instant> {
        let idle = self.session.streams() == 0 && self.half.is_none() && !self.session.is_over();
        self.idle_until.filter(|_| idle && self.write_until.is_none())
    }

    /// What is known of a stream.
    pub(super) fn stream(&mut self, stream: u32) -> Option<&mut Stream> {
        self.streams.get_mut(StreamKey(stream).slot())
    }

    /// When something has to be done if nothing happens: the first of what the connection itself waits for.
    fn deadline(&mut self, now: Instant, unsent: bool, timeouts: &Timeouts) -> Option<Instant> {
        let turn = if unsent {
            Some(*self.write_until.get_or_insert(now + timeouts.write))
        } else {
            self.write_until = None;
            if self.session.streams() > 0 {
                self.idle_until = None;
                None
            } else {
                // Since its last stream ended: frames that ask for nothing do not count.
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
    pub(super) fn hurry(&mut self, idle: Instant, write: Instant) {
        self.idle_until = self.idle_until.map(|until| until.min(idle));
        self.write_until = self.write_until.map(|until| until.min(write));
        self.session.shrink_out();
    }

    /// How many bytes of content a stream may put into a frame now; if that is none, it waits.
    pub(super) fn room(&mut self, stream: StreamKey) -> usize {
        let room = self.session.room(stream).min(self.share);
        if self.share == 0 {
            self.session.wait(stream);
        }
        room
    }

    /// Starts a frame of so many bytes, which the caller appends.
    pub(super) fn data(&mut self, stream: StreamKey, bytes: usize, ended: bool) -> &mut Vec<u8> {
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
    pub(super) fn is_unsent(&self) -> bool {
        self.write_until.is_some()
    }

    /// Writes a frame with what `append` appends, no more than there is room for. See [`Session::fill`].
    pub(super) fn fill(
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

impl Clients {
    /// The connection speaks HTTP/2 from here on. The client's preface may have come, or be on its way.
    pub(super) fn begin_http2(&mut self, index: u32) -> u32 {
        let session = Session::new(&self.http2, self.clock.now);
        let http2 = Http2Connection {
            session,
            index,
            streams: Vec::new(),
            sent: 0,
            unsent: self.shared.unsent.begin(),
            streams_unsent: 0,
            framed: 0,
            share: SHARE_BYTES,
            dirty: false,
            idle_until: None,
            write_until: None,
            half: None,
            left_at: None,
            left: false,
        };
        let key = self.sessions.insert(Box::new(http2)) as u32;
        self.enter(index, State::Http2 { session: key });
        let streams_max = self.streams_max();
        self.sessions[key as usize].session.limit_streams(streams_max);
        self.row.http2_connections.add(1);
        self.touch_session(key);
        key
    }

    /// Whether what the client asks for now is refused.
    pub(super) fn refuses(&self, key: u32) -> bool {
        self.sessions.get(key as usize).is_some_and(|http2| http2.left)
    }

    /// Gives a session a place in the turn's end, once.
    pub(super) fn touch_session(&mut self, key: u32) {
        if let Some(http2) = self.sessions.get_mut(key as usize)
            && !std::mem::replace(&mut http2.dirty, true)
        {
            self.unsent_sessions.push(key);
        }
    }

    /// Whether so much waits to be sent that nothing more is read.
    pub(super) fn is_backed_up(&self, key: u32) -> bool {
        self.sessions.get(key as usize).is_some_and(|http2| http2.session.is_full())
    }

    /// Notes since when a part of something is there: bytes of whole frames that were taken, and those that were not.
    fn note_half(&mut self, key: u32, taken: usize, left: usize) {
        let (now, limits) = (self.clock.now, &self.shared.start.config.limits);
        let Some(http2) = self.sessions.get_mut(key as usize) else { return };
        let block = http2.session.half_block().map(Half::Block);
        let half = block.or((left > 0).then_some(Half::Frame));
        // A block goes on over many frames, but a frame behind others is a new one.
        let before = http2.half.filter(|before| Some(before.half) == half && (block.is_some() || taken == 0));
        http2.half = half.map(|half| {
            let (since, bytes) =
                before.map_or((now, 0), |before| (before.since, before.bytes + taken as u64));
            Partial { half, since, bytes, until: head_deadline(limits, since, bytes + left as u64) }
        });
    }

    fn note_broken_session(&mut self, index: u32, why: &str) {
        self.row.malformed.add(1);
        let remote = self.connections[index as usize].remote;
        self.log_limited(|| {
            tracing::info!(peer = remote.text(), "HTTP/2 connection ended: {why}");
        });
    }

    /// An HTTP/2 connection goes away, and its streams with it.
    pub(super) fn end_session(&mut self, state: State) {
        let State::Http2 { session } = state else { return };
        let Some(http2) = self.sessions.try_remove(session as usize) else { return };
        let streams = http2.streams.iter().map(|stream| stream.index).filter(|index| *index != NOBODY);
        for index in streams.collect::<Vec<_>>() {
            self.follow_up(index, Next::Abort);
        }
    }

    fn send_frames(&mut self, index: u32, key: u32, left: &mut usize) -> Sent {
        let Some(http2) = self.sessions.get_mut(key as usize) else { return Sent::Broken };
        let mut out = std::mem::take(http2.session.out());
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
        let Some(http2) = self.sessions.get_mut(key as usize) else { return Sent::Broken };
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
        *http2.session.out() = out;
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

    /// Asks the client to take its next requests elsewhere. Called again, it refuses new ones, after a while.
    pub(super) fn leave(&mut self, key: u32) {
        let now = self.clock.now;
        let Some(http2) = self.sessions.get_mut(key as usize) else { return };
        let waits = |at| now.saturating_duration_since(at) < LEAVE_AFTER;
        if http2.left_at.is_some_and(waits) || http2.left {
            return;
        }
        http2.left = http2.left_at.replace(now).is_some();
        http2.session.go_away();
        self.touch_session(key);
    }
}

impl Requests {
    /// Acts on all frames in `rx`, and keeps what is left.
    pub(super) fn take_http2(&mut self, index: u32, key: u32, rx: Vec<u8>, more: bool) {
        let now = self.clock.now;
        let mut at = 0;
        let mut head = std::mem::take(&mut self.buffers.head);
        while let Some(http2) = self.sessions.get_mut(key as usize) {
            head.clear();
            match http2.session.next(now, &rx, &mut at, &mut head) {
                Ok(Some(Event::Request { stream, ended })) => {
                    self.open_stream(index, key, Opened { stream, ended }, &mut head);
                }
                Ok(Some(Event::Refused { status, reason })) => {
                    self.log_refused_stream(index, status, reason, &head);
                }
                Ok(Some(Event::Data { stream, bytes, ended })) => {
                    self.feed_stream(key, stream, bytes, ended);
                }
                Ok(Some(Event::Trailers { stream, .. })) => self.feed_stream(key, stream, &[], true),
                Ok(Some(Event::Reset { user, .. })) => self.lose_stream(key, user),
                Ok(Some(Event::Writable | Event::PeerLeaves)) => {}
                Ok(None) => break,
                Err(fatal) => {
                    // What is there to send is the last.
                    at = rx.len();
                    self.note_broken_session(index, &fatal.to_string());
                    break;
                }
            }
        }
        head.clear();
        self.buffers.head = head;
        self.count_refused_streams(key);
        if self.sessions.contains(key as usize) {
            let rest = rx.get(at..).unwrap_or_default();
            if !rest.is_empty() {
                self.exchange(index).input.extend_from_slice(rest);
            }
            self.note_half(key, at, rest.len());
            // When too much is unsent, whole frames may be left over: no event will tell of them.
            let left = self.is_backed_up(key);
            self.connections[index as usize].readable |= more || left;
            // At the end of the turn it is seen whether there is room to look again.
            self.touch_session(key);
        }
        self.buffers.rx.put_back(rx);
    }

    /// Sends what is there, then lets those streams go on that had to wait for it.
    fn flush_session(&mut self, index: u32, key: u32) -> Sent {
        let mut left = SENT_PER_TURN;
        loop {
            match self.send_frames(index, key, &mut left) {
                Sent::All => {}
                other => return other,
            }
            let mut any = false;
            while let Some(http2) = self.sessions.get_mut(key as usize)
                && let Some(stream) = http2.session.next_writable()
            {
                any = true;
                http2.share = SHARE_BYTES;
                let index = http2.session.user(stream);
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
    fn go_on_sending(&mut self, index: u32) {
        match self.connections.get(index as usize).map(|connection| connection.state) {
            Some(State::Writing) => self.on_writable(index),
            Some(State::Upstream(_)) => self.move_upstream(index),
            _ => {}
        }
    }

    /// Everything was sent that can be: how long the connection may stay as it is.
    fn settle_session(&mut self, index: u32, key: u32, sent: Sent) {
        let now = self.clock.now;
        let shared = self.shared;
        let unsent = sent != Sent::All;
        if !unsent
            && self.is_short_of_memory()
            && let Some(http2) = self.sessions.get_mut(key as usize)
        {
            // The next response needs the buffer again; but there may be thousands of connections that have nothing to send.
            http2.session.shrink_out();
        }
        self.count_session(index, key);
        let Some(http2) = self.exchanges.processes.clients.sessions.get_mut(key as usize) else { return };
        if !unsent && http2.session.is_over() {
            return self.linger(index);
        }
        let Connection { requests, ended, .. } = self.exchanges.processes.clients.connections[index as usize];
        let head = shared.start.config.limits.head_timeout;
        let idle =
            if requests == 0 { head } else { self.exchanges.processes.clients.load.keep_alive_timeout };
        let timeouts = Timeouts { idle, write: self.exchanges.processes.clients.load.write_timeout };
        match http2.deadline(now, unsent, &timeouts) {
            Some(until) => self.wheel.arm(index, until),
            None => self.wheel.disarm(index),
        }
        if ended && !unsent {
            // Nobody reads the rest (a client that speaks HTTP/2 does not close half of its connection).
            return self.close_cleanly(index);
        }
        if !self.register(index) {
            return self.close(index);
        }
        // With too much unsent nothing is read: room in the socket is what comes next, and tells so.
        if self.connections[index as usize].readable && !self.is_backed_up(key) {
            self.look_again(index);
        }
    }

    /// A deadline of the connection itself has passed. What it was set for may be over: in the same turn, and before this, a
    /// request may have come, or room in the socket. Whatever is due by then is looked for; all else is set anew when the
    /// turn ends.
    pub(super) fn on_multiplexed_timeout(&mut self, index: u32, key: u32) {
        let now = self.clock.now;
        // What TLS holds back counts, too: a peer that takes nothing would be told to go for ever.
        let flushed = self.is_flushed(index) == Ok(true);
        let Some(http2) = self.sessions.get_mut(key as usize) else { return };
        if http2.half.take_if(|part| part.until <= now).is_some() {
            // Its streams end with it: whatever the client said next would be a part of what is missing.
            http2.session.lose_timeout("a frame or a header block took too long");
            return self.touch_session(key);
        }
        if http2.write_until.is_some_and(|until| until <= now) {
            return self.abort(index);
        }
        let is_idle = flushed && http2.session.streams() == 0 && http2.session.out().is_empty();
        match http2.idle_until.filter(|_| is_idle) {
            Some(until) if until > now => {
                http2.session.shrink();
                http2.streams = Vec::new();
                http2.unsent.set(0);
                let half = http2.half.map(|part| part.until);
                self.wheel.arm(index, half.map_or(until, |half| half.min(until)));
            }
            Some(_) => self.dismiss_session(index, key, true),
            None => self.touch_session(key),
        }
    }

    /// Ends a connection that has no stream. The client has `linger_timeout` to hear of it, or with `hears` false no time at all.
    pub(super) fn dismiss_session(&mut self, index: u32, key: u32, hears: bool) {
        let Some(http2) = self.sessions.get_mut(key as usize) else { return };
        // At once, and for good: there is no request that it could cross.
        http2.session.go_away();
        http2.session.go_away();
        self.touch_session(key);
        if !hears {
            self.flush_session(index, key);
            self.close_at_once(index);
        }
    }
}

impl Reactor {
    /// Once per turn: sends what the turn has put into frames.
    pub(super) fn flush_sessions(&mut self) {
        while let Some(key) = self.unsent_sessions.pop() {
            let Some(http2) = self.sessions.get_mut(key as usize) else { continue };
            http2.dirty = false;
            let index = http2.index;
            let Some(serial) = self.connections.get(index as usize).map(|connection| connection.serial)
            else {
                continue;
            };
            self.guarded(Token::Connection { index, serial }, |thread| {
                match thread.flush_session(index, key) {
                    Sent::Broken => thread.close(index),
                    sent => thread.settle_session(index, key, sent),
                }
            });
        }
    }
}
