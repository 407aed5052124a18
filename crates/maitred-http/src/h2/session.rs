//! The server's side of one HTTP/2 connection (RFC 9113), without the connection: bytes in, events and bytes out.
//!
//! A request becomes a [`RequestHead`], and a [`ResponseHead`](crate::response::ResponseHead) becomes frames: the values that the
//! rest of the server knows, whatever the protocol. `specs/http2.md` says which rule is held by which test.
//!
//! # States of a stream (9113-5.1)
//!
//! | state | HEADERS | DATA | RST_STREAM | WINDOW_UPDATE |
//! |---|---|---|---|---|
//! | idle | opens it: [`Event::Request`] | connection error PROTOCOL_ERROR | the same | the same |
//! | open, half-closed (local) | [`Event::Trailers`], which end it | [`Event::Data`] | [`Event::Reset`] | opens its window |
//! | half-closed (remote) | stream error STREAM_CLOSED | stream error STREAM_CLOSED | [`Event::Reset`] | opens its window |
//! | closed: both sides ended it | connection error STREAM_CLOSED | connection error STREAM_CLOSED | dropped | dropped |
//! | closed: reset by this side | decoded and dropped | dropped, the window is given back | dropped | dropped |
//! | closed: reset by the peer | stream error STREAM_CLOSED | stream error STREAM_CLOSED | dropped | dropped |
//! | closed: passed over | connection error PROTOCOL_ERROR | connection error STREAM_CLOSED | dropped | dropped |
//!
//! PRIORITY means nothing in any state; CONTINUATION belongs to the HEADERS before it, and is a connection error
//! PROTOCOL_ERROR anywhere else. What is dropped is counted ([`Floods::ignored_max`]).
//!
//! # What the caller does
//!
//! A stream that [`Event::Request`] has named occupies its slot until [`Session::release`], also after [`Event::Reset`]: work
//! that goes on behind a stream that was reset is bounded by `streams_max` as well (CVE-2025-8671). Every function may be
//! called with a key that was released, or with one of a stream that is over, and does nothing then.
//!
//! The caller writes content while [`Session::room`] says so, and asks [`Session::next_writable`] whose turn it is when
//! [`Event::Writable`] came or when `out` was sent. The caller puts a bound on time: a peer that opens no window, or takes no
//! bytes, costs at most what `out` and the slots hold.

mod client;
mod data;
mod parting;
mod receive;
mod respond;
mod send;
mod settings;
mod streams;
#[cfg(test)]
mod tests;

use std::time::Instant;

use super::frame::{self, FrameHeader, HEADER_BYTES, PREFACE, kind};
use super::hpack;
use crate::fields::FieldLines;
use crate::floods::{Ledger, TooMany};
use crate::priority::Early;
use crate::request::RequestHead;
use crate::response::FramedHead;
use client::Far;
use parting::Parting;
use receive::Fragments;
use streams::Streams;

pub use super::frame::Code;
pub use crate::floods::{FORGIVEN_IN, Floods};
pub use crate::framed::StreamKey;
pub use crate::priority::EARLY_PRIORITIES_MAX;
pub use client::{Opening, STREAMS_AT_ONCE_MAX, head_bytes};
pub use settings::{CONTROL_BYTES_MAX, DATA_BYTES_MAX, SENT_AHEAD_BYTES, Settings};

/// What has happened.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'i> {
    /// A request has begun. The caller's head has all of it, and is to be judged: [`RequestHead::judge`].
    Request {
        /// The request's stream, to be released later.
        stream: StreamKey,
        /// Whether the request has no body.
        ended: bool,
    },
    /// A request has come that gets no stream. What could be read of it is in the caller's head:
    /// [`RequestHead::request_line`] if that much was known.
    Refused {
        /// What the session has answered it with; `None` if it was reset as malformed (9113-8.1.1).
        status: Option<u16>,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Bytes of a body, without padding. The bytes are the caller's until it says [`Session::consumed`].
    Data {
        /// The stream.
        stream: StreamKey,
        /// The bytes; none if the stream ends with an empty frame, or with trailers of which none is left.
        bytes: &'i [u8],
        /// The body has ended.
        ended: bool,
    },
    /// Fields behind a body, which has ended.
    Trailers {
        /// The stream.
        stream: StreamKey,
        /// At least one. Fields that mean nothing there ([`NOT_IN_TRAILERS`](crate::fields::NOT_IN_TRAILERS)) were dropped.
        fields: Box<FieldLines>,
    },
    /// The stream is over: the peer has reset it, or the session has because of a stream error. The stream has to be released.
    Reset {
        /// The stream.
        stream: StreamKey,
        /// The caller's mark.
        user: u32,
    },
    /// The head of a response, interim or final; only towards a server ([`Session::towards_server`]).
    Response {
        /// The stream.
        stream: StreamKey,
        /// What came.
        head: Box<FramedHead>,
    },
    /// A window was opened, or settings have changed, while a stream was waiting for room.
    Writable,
    /// The peer has sent GOAWAY: it will make no further requests; or, if it is a server, it takes no further ones.
    PeerLeaves,
}

/// The end of the connection because of an error of the peer. GOAWAY is in `out`: send it, and close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fatal {
    /// The code that was sent.
    pub code: Code,
    /// The rule that was broken, in a few words. The words are sent to the peer, too.
    pub reason: &'static str,
}

impl std::fmt::Display for Fatal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:?})", self.reason, self.code)
    }
}

impl std::error::Error for Fatal {}

impl From<TooMany> for Fatal {
    #[cold]
    fn from(TooMany(reason): TooMany) -> Fatal {
        Fatal { code: Code::EnhanceYourCalm, reason }
    }
}

/// How far the session is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Leaving {
    No,
    /// GOAWAY has announced that no further requests are expected; those on their way are still served.
    Announced,
    /// What comes now is refused.
    Decided,
}

/// A DATA frame of which not everything has come.
#[derive(Debug, Default, Clone, Copy)]
struct Rest {
    /// The frame's stream; 0 if the bytes are dropped.
    stream: u32,
    content: u32,
    padding: u32,
    ends: bool,
}

/// One connection. See the module's documentation.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    decoder: hpack::Decoder,
    encoder: hpack::Encoder,
    out: Vec<u8>,
    streams: Streams,
    ledger: Ledger,
    early: Early,
    /// The start of a header block that goes on.
    fragments: Option<Box<Fragments>>,
    rest: Rest,
    /// Bytes that may be sent on all streams together.
    send_window: i32,
    /// Bytes that the peer may send on all streams together.
    receive_window: i32,
    /// Bytes that were consumed, and not yet announced to the peer.
    due: u32,
    /// The peer's setting of what new streams may send.
    peer_window: i32,
    /// The last stream that was, or is, served.
    last_served: u32,
    leaving: Leaving,
    peer_leaves: bool,
    parting: Parting,
    preface_seen: bool,
    settings_seen: bool,
    settings_acknowledged: bool,
    dead: Option<Fatal>,
    /// What a caller writes to streams that are over.
    sink: Vec<u8>,
    /// Streams that there may be at the moment; what was announced first is `settings.streams_max`.
    streams_now: u32,
    /// The caller holds so much for the streams there are that it accepts no others.
    refusing: bool,
    /// Streams that were refused because of one of these two, since the caller has asked.
    refused: u32,
    /// The peer is a server, and this is what is known of it.
    far: Option<Box<Far>>,
}

impl Session {
    /// A session that waits for the client's preface. The session's own settings are in `out`.
    pub fn new(settings: &Settings, now: Instant) -> Self {
        let mut session = Self::silent(settings, now);
        session.settings.announce(&mut session.out);
        session
    }

    /// A session that has said nothing.
    fn silent(settings: &Settings, now: Instant) -> Self {
        let settings = settings.within_bounds();
        Self {
            decoder: hpack::Decoder::new(settings.header_table_bytes as usize),
            encoder: hpack::Encoder::new(),
            out: Vec::new(),
            streams: Streams::default(),
            ledger: Ledger::new(settings.floods, now),
            early: Early::default(),
            fragments: None,
            rest: Rest::default(),
            send_window: frame::INITIAL_WINDOW as i32,
            receive_window: settings.connection_window as i32,
            due: 0,
            peer_window: frame::INITIAL_WINDOW as i32,
            last_served: 0,
            leaving: Leaving::No,
            peer_leaves: false,
            parting: Parting::default(),
            preface_seen: false,
            settings_seen: false,
            settings_acknowledged: false,
            dead: None,
            sink: Vec::new(),
            streams_now: settings.streams_max,
            refusing: false,
            refused: 0,
            far: None,
            settings,
        }
    }

    /// The next event in `input[*at..]`; advances `at` past what it has used. A request takes the place of what was in `head`;
    /// other events leave it alone.
    ///
    /// `None`: nothing more can be said. Either what is left is part of a frame (of at most 9 + `frame_bytes_max` bytes),
    /// and has to be passed again with more behind it; or [`Session::is_full`], and `out` has to be sent first. The content
    /// of DATA is given in pieces as it comes.
    ///
    /// # Errors
    ///
    /// The connection is over: GOAWAY is in `out`, and nothing is written behind it. So is every later call.
    pub fn next<'i>(
        &mut self,
        now: Instant,
        input: &'i [u8],
        at: &mut usize,
        head: &mut RequestHead,
    ) -> Result<Option<Event<'i>>, Fatal> {
        match self.dead {
            Some(fatal) => Err(fatal),
            None => self.advance(now, input, at, head).inspect_err(|fatal| self.die(*fatal)),
        }
    }

    fn advance<'i>(
        &mut self,
        now: Instant,
        input: &'i [u8],
        at: &mut usize,
        head: &mut RequestHead,
    ) -> Result<Option<Event<'i>>, Fatal> {
        if !self.preface_seen && !self.take_preface(input, at)? {
            return Ok(None);
        }
        while !self.is_full() {
            if self.rest.content > 0 || self.rest.padding > 0 {
                let before = *at;
                let event = self.take_rest(input, at);
                if event.is_some() || *at == before {
                    return Ok(event);
                }
                continue;
            }
            let unread = input.get(*at..).unwrap_or_default();
            let Some(bytes) = unread.first_chunk() else { return Ok(None) };
            let frame = FrameHeader::parse(bytes);
            self.judge_order(&frame)?;
            let behind = unread.get(HEADER_BYTES..).unwrap_or_default();
            let (used, event) = if frame.kind == kind::DATA {
                let Some(used) = data::prefix_bytes(&frame, behind)? else { return Ok(None) };
                (used, self.on_data(now, &frame, behind)?)
            } else {
                let Some(payload) = behind.get(..frame.length as usize) else { return Ok(None) };
                (payload.len(), self.on_frame(now, &frame, payload, head)?)
            };
            *at += HEADER_BYTES + used;
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// Takes the client's preface (9113-3.4), and says whether it is there as a whole.
    #[cold]
    fn take_preface(&mut self, input: &[u8], at: &mut usize) -> Result<bool, Fatal> {
        let unread = input.get(*at..).unwrap_or_default();
        let bytes = unread.len().min(PREFACE.len());
        if unread.get(..bytes) != PREFACE.get(..bytes) {
            return Err(protocol_error("no preface of HTTP/2"));
        }
        self.preface_seen = bytes == PREFACE.len();
        *at += if self.preface_seen { bytes } else { 0 };
        Ok(self.preface_seen)
    }

    /// What a frame's header alone can break: its size, and its place among the others.
    #[inline]
    fn judge_order(&self, frame: &FrameHeader) -> Result<(), Fatal> {
        if frame.length > self.settings.frame_bytes_max {
            return Err(Fatal {
                code: Code::FrameSizeError,
                reason: "frame larger than SETTINGS_MAX_FRAME_SIZE",
            });
        }
        if !self.settings_seen && frame.kind != kind::SETTINGS {
            return Err(protocol_error("the first frame is not SETTINGS"));
        }
        match &self.fragments {
            Some(fragments) if frame.kind != kind::CONTINUATION || frame.stream != fragments.stream => {
                Err(protocol_error("a header block was interrupted"))
            }
            None if frame.kind == kind::CONTINUATION => Err(protocol_error("CONTINUATION without HEADERS")),
            _ => Ok(()),
        }
    }

    /// Ends the session: GOAWAY, and nothing more (9113-5.4.1).
    #[cold]
    fn die(&mut self, fatal: Fatal) {
        self.dead = Some(fatal);
        self.fragments = None;
        self.streams.reset_all();
        frame::put_go_away(&mut self.out, self.last_served, fatal.code, fatal.reason);
    }

    /// The bytes to send. The caller takes them from the front, and keeps what it could not send.
    #[inline]
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// The stream whose header block has begun and not ended: until then nothing else can be said on the connection, so that
    /// the caller has to put a bound on the time.
    #[inline]
    pub fn half_block(&self) -> Option<u32> {
        self.fragments.as_ref().map(|fragments| fragments.stream)
    }

    /// Ends the session because its peer takes too long for something. GOAWAY is in `out`; nothing if it has ended already.
    #[cold]
    pub fn lose_timeout(&mut self, reason: &'static str) {
        if self.dead.is_none() {
            self.die(Fatal { code: Code::EnhanceYourCalm, reason });
        }
    }

    /// Whether `out` holds so much that nothing more is read before some of it was sent.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.out.len() >= SENT_AHEAD_BYTES + CONTROL_BYTES_MAX
    }

    /// Sets the caller's mark on a stream.
    #[inline]
    pub fn mark(&mut self, stream: StreamKey, user: u32) {
        if let Some(stream) = self.streams.get(stream) {
            stream.user = user;
        }
    }

    /// The caller's mark; 0 before there is one, and for streams that were released.
    #[inline]
    pub fn user(&self, stream: StreamKey) -> u32 {
        self.streams.peek(stream).map_or(0, |stream| stream.user)
    }

    /// The stream's identifier on the wire, for logs; 0 if it was released.
    pub fn id(&self, stream: StreamKey) -> u32 {
        self.streams.peek(stream).map_or(0, |stream| stream.id)
    }

    /// Shuts the connection down gracefully (9113-6.8). The first call announces it, so that requests on their way are
    /// still served; when the peer has answered, or at the second call, it is decided which stream was the last, and
    /// later ones are refused.
    pub fn go_away(&mut self) {
        match self.leaving {
            _ if self.dead.is_some() => {}
            Leaving::No => {
                self.leaving = Leaving::Announced;
                frame::put_go_away(&mut self.out, frame::WINDOW_MAX, Code::NoError, "");
                frame::put_ping(&mut self.out, 0, receive::LEAVING_PING);
            }
            Leaving::Announced => {
                self.leaving = Leaving::Decided;
                frame::put_go_away(&mut self.out, self.last_served, Code::NoError, "");
            }
            Leaving::Decided => {}
        }
    }

    /// Whether [`Session::go_away`] was called.
    #[cfg(test)]
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving != Leaving::No
    }

    /// Whether the connection can be closed once `out` was sent: one side has left for good, and no stream is open.
    pub fn is_over(&self) -> bool {
        let left = self.leaving == Leaving::Decided || self.peer_leaves;
        self.dead.is_some() || (left && self.streams.open() == 0)
    }

    /// Serves no more than so many streams at a time from now on, nor than the settings say, and tells the peer (9113-5.1.2).
    /// Open streams go on; others are refused, and the peer may retry. A refusal does not count as an error of the peer.
    pub fn limit_streams(&mut self, max: u32) {
        let max = max.clamp(1, self.settings.streams_max);
        if max != self.streams_now && self.dead.is_none() {
            self.streams_now = max;
            frame::put_settings(&mut self.out, 0, &[(frame::setting::MAX_CONCURRENT_STREAMS, max)]);
        }
    }

    /// Refuses streams, without another word, while there are any.
    #[inline]
    pub fn refuse_streams(&mut self, refuse: bool) {
        self.refusing = refuse;
    }

    /// Streams that were refused for the caller's sake since the last call.
    #[inline]
    pub fn take_refused(&mut self) -> u32 {
        std::mem::take(&mut self.refused)
    }

    /// Whether another stream would be one too many for the caller, though the peer knows of no such bound yet.
    #[inline]
    fn is_short_of_room(&self) -> bool {
        let open = self.streams.open();
        open >= self.streams_now as usize || (self.refusing && open > 0)
    }

    /// Bytes of memory that `out` holds.
    #[inline]
    pub fn out_capacity(&self) -> usize {
        self.out.capacity()
    }

    /// Gives the memory of `out` back, if nothing is in it.
    pub fn shrink_out(&mut self) {
        if self.out.is_empty() {
            self.out = Vec::new();
        }
    }

    /// Streams that were not released.
    #[inline]
    pub fn streams(&self) -> usize {
        self.streams.open()
    }

    /// Gives back what an idle session does not need. Worth a call when the connection is expected to stay idle.
    pub fn shrink(&mut self) {
        self.streams.shrink();
        self.sink = Vec::new();
        if self.out.is_empty() {
            self.out = Vec::new();
        }
    }
}

const fn protocol_error(reason: &'static str) -> Fatal {
    Fatal { code: Code::ProtocolError, reason }
}
