//! The server's side of one HTTP/3 connection (RFC 9114), without QUIC: bytes of streams in, events and bytes of streams out.
//!
//! A request becomes a [`RequestHead`](crate::request::RequestHead), and a
//! [`ResponseHead`](crate::response::ResponseHead) becomes frames: the values that the rest of the server knows, whatever the
//! protocol. `specs/http3.md` says which rule is held by which test.
//!
//! # Streams
//!
//! | stream | what comes | what goes |
//! |---|---|---|
//! | request | HEADERS: [`Event::Request`]; DATA: [`Event::Data`]; HEADERS: [`Event::Trailers`] | [`Session::respond`] … |
//! | control | settings, priorities, GOAWAY; anything else by the table of [`frame`] | [`Session::take_control`] |
//! | QPACK's | instructions to a table of no size | nothing: there is no table |
//! | of an unknown type | nothing is read: [`Action::Stop`] | |
//!
//! # What the caller does
//!
//! The caller has the QUIC connection: it says which streams were opened ([`Session::open`]), what came on them
//! ([`Session::receive`], [`Session::receive_unidirectional`]), and that they were reset or stopped ([`Session::lose`]); it
//! sends what [`Session::take_unsent`] gives out, and carries out [`Session::take_action`]. What QUIC does not take of a piece
//! stays with the caller, which says so ([`Session::hold`]): the stream has no room meanwhile.
//!
//! A stream that [`Event::Request`] has named occupies its slot until [`Session::release`], also after [`Event::Reset`]; and
//! beyond that until all of its response was taken. Every function may be called with a key of a stream that is over, and does
//! nothing then.

mod control;
mod receive;
mod respond;
mod send;
mod streams;
#[cfg(test)]
mod tests;

use std::time::Instant;

use super::error::{Code, Error};
use super::frame::{self, Side};
use super::qpack;
use super::streams::PeerStreams;
use super::varint;
use crate::fields::FieldLines;
use crate::floods::{Act, Floods, Ledger, TooMany};
use crate::framed::StreamKey;
use crate::limits::FIELDS_MAX;
use crate::priority::Early;
use control::Unidirectional;
use streams::Streams;

pub use control::UNIDIRECTIONAL_STREAMS_MAX;
pub use send::{STREAM_AHEAD_BYTES, Unsent};
pub use streams::Order;

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Requests at a time; more are refused. The caller grants QUIC streams accordingly.
    pub streams_max: u32,
    /// Bytes of a request's fields, decoded, with 32 for each; larger heads get 431.
    pub header_list_bytes_max: u32,
    /// Fields of a request, besides the pseudo-fields; more get 431.
    pub header_count_max: u32,
    /// Extended CONNECT (RFC 9220) is offered, so that WebSocket can be used.
    pub connect_protocol: bool,
    /// What a client may do only so often.
    pub floods: Floods,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            streams_max: 128,
            header_list_bytes_max: qpack::LIST_BYTES_MAX as u32,
            header_count_max: FIELDS_MAX as u32,
            connect_protocol: true,
            floods: Floods::default(),
        }
    }
}

/// What has happened.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'i> {
    /// A request has begun. The caller's head has all of it, and is to be judged:
    /// [`RequestHead::judge`](crate::request::RequestHead::judge).
    Request {
        /// The request's stream, to be released later.
        stream: StreamKey,
        /// Whether the request has no body.
        ended: bool,
    },
    /// A request has come that does not get to the caller. What could be read of it is in the caller's head:
    /// [`RequestHead::request_line`](crate::request::RequestHead::request_line) if that much was known.
    Refused {
        /// What the session has answered it with; `None` if its stream was reset as malformed (9114-4.1.2).
        status: Option<u16>,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Bytes of a body.
    Data {
        /// The stream.
        stream: StreamKey,
        /// The bytes; none if it is only the end that has come.
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
    /// The stream is over: the client has taken it back, or the session has because of an error. The stream has to be released.
    Reset {
        /// The stream.
        stream: StreamKey,
        /// The caller's mark.
        user: u32,
    },
}

/// What the caller has to do with a stream of QUIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Ask the client to send no more on it: STOP_SENDING.
    Stop {
        /// The stream's identifier.
        id: u64,
        /// Why.
        code: Code,
    },
    /// Give its sending side up: RESET_STREAM. What was not sent is dropped.
    Reset {
        /// The stream's identifier.
        id: u64,
        /// Why.
        code: Code,
    },
}

impl From<TooMany> for Error {
    #[cold]
    fn from(TooMany(reason): TooMany) -> Error {
        Error::new(Code::ExcessiveLoad, reason)
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

/// The largest identifier of a request stream: what a first GOAWAY names (9114-5.2).
const REQUEST_STREAM_MAX: u64 = varint::VALUE_MAX & !3;

/// One connection. See the module's documentation.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    decoder: qpack::Decoder,
    streams: Streams,
    peer_streams: PeerStreams,
    /// The client's unidirectional streams.
    unidirectional: Vec<Unidirectional>,
    ledger: Ledger,
    early: Early,
    /// What is to be sent on the control stream.
    control: Vec<u8>,
    actions: Vec<Action>,
    leaving: Leaving,
    peer_leaves: bool,
    dead: Option<Error>,
    /// What a caller writes to streams that are over.
    sink: Vec<u8>,
    /// Requests that there may be at the moment; what was announced first is `settings.streams_max`.
    streams_now: u32,
    /// The caller holds so much for the streams there are that it accepts no others.
    refusing: bool,
    /// Streams that were refused because of one of these two, since the caller has asked.
    refused: u32,
}

impl Session {
    /// A session of a connection that has just begun. The session's settings are what [`Session::take_control`] begins with.
    pub fn new(settings: &Settings, now: Instant) -> Self {
        let announced = frame::Settings {
            list_bytes_max: Some(u64::from(settings.header_list_bytes_max)),
            connect_protocol: settings.connect_protocol,
            ..frame::Settings::default()
        };
        let mut control = Vec::new();
        varint::write(&mut control, super::streams::StreamType::Control.number());
        announced.write(&mut control);
        Session {
            settings: *settings,
            decoder: qpack::Decoder::new(0, 0),
            streams: Streams::default(),
            peer_streams: PeerStreams::new(Side::Client),
            unidirectional: Vec::new(),
            ledger: Ledger::new(settings.floods, now),
            early: Early::default(),
            control,
            actions: Vec::new(),
            leaving: Leaving::No,
            peer_leaves: false,
            dead: None,
            sink: Vec::new(),
            streams_now: settings.streams_max.max(1),
            refusing: false,
            refused: 0,
        }
    }

    /// The client has opened a request stream; streams come in the order of their identifiers. `None`: it is refused, and the
    /// client may retry (9114-4.1.1).
    pub fn open(&mut self, id: u64) -> Option<StreamKey> {
        self.note_opened(id);
        let early = self.early.take(id);
        let open = self.streams.open();
        let short = open >= self.streams_now as usize || (self.refusing && open > 0);
        if self.dead.is_some() || self.leaving == Leaving::Decided || short {
            if self.dead.is_none() && self.leaving != Leaving::Decided {
                self.refused = self.refused.saturating_add(1);
            }
            self.refuse(id);
            return None;
        }
        Some(self.streams.insert(id, early))
    }

    fn note_opened(&mut self, id: u64) {
        self.streams.highest = self.streams.highest.max(Some(id));
    }

    /// Refuses a request stream that the client has opened, and that is not to be one (9114-4.1.1: the client may retry).
    pub fn refuse_unopened(&mut self, id: u64) {
        self.note_opened(id);
        self.early.take(id);
        if self.dead.is_none() {
            self.refuse(id);
        }
    }

    /// Refuses the request of an open stream, if its head has not come as a whole. False: it has, or the stream is over.
    pub fn refuse_begun(&mut self, id: u64) -> bool {
        let Some(stream) = self.find(id) else { return false };
        if self.streams.peek(stream).is_none_or(|known| known.head_seen) {
            return false;
        }
        self.reset(stream, Code::RequestRejected);
        self.streams.remove(stream);
        true
    }

    fn refuse(&mut self, id: u64) {
        let code = Code::RequestRejected;
        self.actions.extend([Action::Stop { id, code }, Action::Reset { id, code }]);
    }

    /// What is to be sent on this side's control stream, from its type on. Empty if there is nothing.
    pub fn take_control(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.control)
    }

    /// What is to be done with a stream.
    #[inline]
    pub fn take_action(&mut self) -> Option<Action> {
        if self.actions.is_empty() { None } else { Some(self.actions.remove(0)) }
    }

    /// Ends the session because of an error of the client. The first one counts.
    #[cold]
    fn die(&mut self, error: Error) {
        if self.dead.is_none() {
            self.dead = Some(error);
            self.streams.reset_all();
            self.actions = Vec::new();
        }
    }

    /// The error that has ended the session: what the connection is to be closed with.
    #[inline]
    pub fn fatal(&self) -> Option<Error> {
        self.dead
    }

    /// The stream whose head has begun to come and is not whole: the caller has to put a bound on the time.
    #[inline]
    pub fn half_head(&self) -> Option<u32> {
        self.streams.oldest_without_head().map(|id| id as u32)
    }

    /// Ends the session because its client takes too long for something.
    #[cold]
    pub fn lose_timeout(&mut self, reason: &'static str) {
        self.die(Error::new(Code::ExcessiveLoad, reason));
    }

    /// Sets the caller's mark on a stream.
    #[inline]
    pub fn mark(&mut self, stream: StreamKey, user: u32) {
        if let Some(stream) = self.streams.get(stream).filter(|stream| !stream.released) {
            stream.user = user;
        }
    }

    /// The caller's mark; 0 before there is one, and for streams that were released.
    #[inline]
    pub fn user(&self, stream: StreamKey) -> u32 {
        self.streams.peek(stream).map_or(0, |stream| stream.user)
    }

    /// The stream's identifier; `None` if it was released, and all of its response taken.
    #[inline]
    pub fn id(&self, stream: StreamKey) -> Option<u64> {
        self.streams.peek(stream).map(|stream| stream.id)
    }

    /// The stream with this identifier, if there is one.
    #[inline]
    pub fn find(&mut self, id: u64) -> Option<StreamKey> {
        self.streams.find(id)
    }

    /// Shuts the connection down gracefully (9114-5.2). The first call announces it, so that requests on their way are still
    /// served; at the second call it is decided which stream was the last, and later ones are refused.
    pub fn go_away(&mut self) {
        let first_refused = match self.leaving {
            _ if self.dead.is_some() => return,
            Leaving::No => {
                self.leaving = Leaving::Announced;
                REQUEST_STREAM_MAX
            }
            Leaving::Announced => {
                self.leaving = Leaving::Decided;
                self.streams.highest.map_or(0, |highest| highest + 4)
            }
            Leaving::Decided => return,
        };
        frame::put_identifier(&mut self.control, frame::kind::GOAWAY, first_refused);
    }

    /// Whether the connection can be closed once everything was sent: one side has left for good, and no stream is open.
    pub fn is_over(&self) -> bool {
        let left = self.leaving == Leaving::Decided || self.peer_leaves;
        self.dead.is_some() || (left && self.streams.open() == 0)
    }

    /// Serves no more than so many requests at a time from now on, nor than the settings say. Open requests go on; others are
    /// refused, and the client may retry. A refusal does not count as an error of the client.
    pub fn limit_streams(&mut self, max: u32) {
        self.streams_now = max.min(self.settings.streams_max).max(1);
    }

    /// Refuses streams while there are any.
    #[inline]
    pub fn refuse_streams(&mut self, refuse: bool) {
        self.refusing = refuse;
    }

    /// Streams that were refused for the caller's sake since the last call.
    #[inline]
    pub fn take_refused(&mut self) -> u32 {
        std::mem::take(&mut self.refused)
    }

    /// Streams that are there: not released, or with a part of their response that was not taken.
    #[inline]
    pub fn streams(&self) -> usize {
        self.streams.open()
    }

    /// Bytes of frames that were not taken.
    #[inline]
    pub fn queued(&self) -> usize {
        self.streams.queued
    }

    /// Gives back what an idle session does not need.
    pub fn shrink(&mut self) {
        self.streams.shrink();
        self.sink = Vec::new();
        self.actions.shrink_to_fit();
    }

    /// Resets a stream because of what the client did. If the caller has it, it gets an event.
    #[cold]
    fn stream_error(
        &mut self,
        now: Instant,
        key: StreamKey,
        error: Error,
    ) -> Result<Option<Event<'static>>, Error> {
        self.reset(key, error.code);
        let named = self.streams.peek(key).map(|stream| (stream.named, stream.user));
        let event = match named {
            Some((true, user)) => Some(Event::Reset { stream: key, user }),
            Some((false, _)) => {
                self.streams.remove(key);
                Some(Event::Refused { status: None, reason: error.reason })
            }
            None => None,
        };
        self.ledger.charge(Act::StreamError, now)?;
        Ok(event)
    }
}
