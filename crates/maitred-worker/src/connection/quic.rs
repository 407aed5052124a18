//! One QUIC connection below an HTTP/3 session, and what of it QUIC has not taken yet.
//!
//! The connection is one of quinn-proto, which has QUIC's rules and recovery, and does no I/O
//! (`bench/runs/2026-11-27-quic-libraries` says why that library). What it holds until the client has acknowledged it counts as
//! unsent, and is bounded ([`Quic::held_bytes`]). A stream is not read on before what it has brought was acted on
//! (`Stream::stalled`), so that its window stays shut.

mod arrivals;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use maitred_http::framed::StreamKey;
use maitred_http::h3::Unsent;
use quinn_proto::{ConnectionHandle, Event, StreamId, VarInt, WriteError};

use super::paths::Paths;
use maitred_tls::client::Identity;
use maitred_tls::quic::endpoint::{SEND_WINDOW_FIRST, SEND_WINDOW_MAX};

pub(crate) use arrivals::{Arrived, Request};

/// Unidirectional streams of this side: the control stream. Without a dynamic table no stream of QPACK's is needed.
pub(crate) const OWN_STREAMS: usize = 1;

/// How long a client has to hear that a connection is over: three times as long as a packet needs there and back, within these
/// bounds.
const HEARD_MIN: Duration = Duration::from_millis(20);
const HEARD_MAX: Duration = Duration::from_secs(2);

/// How long a client may acknowledge nothing of what is left for it, once its connection is over: several probes of QUIC (RFC
/// 9002 section 6.2).
const SILENT_MAX: Duration = Duration::from_secs(5);

/// One QUIC connection.
pub(crate) struct Quic {
    /// The library's part.
    pub(crate) connection: quinn_proto::Connection,
    /// The name of the connection at the endpoint.
    pub(crate) handle: ConnectionHandle,
    /// Index of the socket that it uses.
    pub(crate) socket: usize,
    /// The addresses of the client.
    pub(crate) paths: Paths,
    /// What the library has reported that was not acted on yet.
    events: VecDeque<Event>,
    /// Requests of which something has come from the candidate ([`Paths`]).
    waiting: Vec<Request>,
    /// Requests that waited, and whose address is proved now.
    pub(crate) released: Vec<Request>,
    /// Requests whose address was not proved.
    pub(crate) refused: Vec<Request>,
    /// The client has answered a challenge, by what may be an answer: what is sent next shows whether it is.
    answered: bool,
    /// The control stream of this side, once the client allows one.
    pub(crate) control: Option<StreamId>,
    /// What is left for it.
    control_left: Vec<u8>,
    /// Streams on which something may have come.
    pub(crate) readable: Vec<StreamId>,
    /// Streams for which QUIC has room again.
    pub(crate) writable: Vec<StreamId>,
    /// Pieces that QUIC has not taken, by the slot of their stream.
    held: Vec<Option<Held>>,
    /// Bytes that the library has, and the client has not acknowledged.
    unacknowledged: Arc<AtomicU64>,
    /// Something was to be sent to the candidate.
    begun: bool,
    /// The handshake is over.
    pub(crate) settled: bool,
    /// The connection is counted as one whose client has not proved its address.
    pub(crate) half_open: bool,
    /// The client has ended the connection, or it was lost: nothing more is sent.
    pub(crate) lost: bool,
    /// The name in the client's certificate.
    pub(crate) identity: Option<Box<Identity>>,
    /// When the connection goes, of which all that there was is over.
    over_at: Option<Instant>,
    /// Of such a connection: bytes that the client has not acknowledged, and since when these are so many.
    silent_since: Option<(u64, Instant)>,
    window: u64,
}

/// A piece of a stream that QUIC has taken a part of.
#[derive(Debug)]
struct Held {
    id: StreamId,
    stream: StreamKey,
    rest: Bytes,
    ended: bool,
}

impl std::fmt::Debug for Quic {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Quic").field("handle", &self.handle).finish_non_exhaustive()
    }
}

/// Bytes that count until the library drops them: when the client has them.
struct Counted {
    bytes: Vec<u8>,
    count: Arc<AtomicU64>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.fetch_sub(self.bytes.capacity() as u64, Relaxed);
    }
}

/// A number as QUIC has it.
fn number(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

/// The stream with this identifier of HTTP/3.
pub(crate) fn stream_id(id: u64) -> StreamId {
    number(id).into()
}

impl Quic {
    /// A connection that has just been accepted.
    pub(crate) fn new(
        connection: quinn_proto::Connection,
        handle: ConnectionHandle,
        socket: usize,
        paths: Paths,
    ) -> Quic {
        let half_open = paths.address().is_none();
        let mut quic = Quic {
            connection,
            handle,
            socket,
            paths,
            events: VecDeque::new(),
            waiting: Vec::new(),
            released: Vec::new(),
            refused: Vec::new(),
            answered: false,
            begun: false,
            control: None,
            control_left: Vec::new(),
            readable: Vec::new(),
            writable: Vec::new(),
            held: Vec::new(),
            unacknowledged: Arc::default(),
            settled: false,
            half_open,
            lost: false,
            identity: None,
            over_at: None,
            silent_since: None,
            window: SEND_WINDOW_FIRST,
        };
        quic.begin();
        quic
    }

    /// Bytes of responses that the library holds.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.unacknowledged.load(Relaxed)
    }

    /// Notes that something may have come on a stream.
    pub(crate) fn note_readable(&mut self, id: StreamId) {
        if !self.readable.contains(&id) {
            self.readable.push(id);
        }
    }

    /// What a session has for its control stream; it leaves as soon as the client allows the stream.
    pub(crate) fn put_control(&mut self, bytes: &[u8]) {
        self.control_left.extend_from_slice(bytes);
        if self.control_left.is_empty() {
            return;
        }
        if self.control.is_none() {
            self.control = self.connection.streams().open(quinn_proto::Dir::Uni);
            if let Some(id) = self.control {
                let _ = self.connection.send_stream(id).set_priority(i32::MAX);
            }
        }
        let Some(id) = self.control else { return };
        let written = self.connection.send_stream(id).write(&self.control_left).unwrap_or(0);
        self.control_left.drain(..written);
    }

    /// Gives QUIC what a stream has to send. Gives back whether it has taken all of it; the rest is kept.
    pub(crate) fn put(&mut self, unsent: Unsent) -> bool {
        let Unsent { stream, id, bytes, ended, priority } = unsent;
        let id = stream_id(id);
        if let Some(priority) = priority {
            let _ = self.connection.send_stream(id).set_priority(priority);
        }
        let rest = self.counted(bytes);
        self.write(Held { id, stream, rest, ended })
    }

    fn counted(&mut self, bytes: Vec<u8>) -> Bytes {
        if bytes.is_empty() {
            return Bytes::new();
        }
        let count = Arc::clone(&self.unacknowledged);
        count.fetch_add(bytes.capacity() as u64, Relaxed);
        Bytes::from_owner(Counted { bytes, count })
    }

    fn write(&mut self, mut piece: Held) -> bool {
        let id = piece.id;
        while !piece.rest.is_empty() {
            let mut chunks = [std::mem::take(&mut piece.rest)];
            let written = self.connection.send_stream(id).write_chunks(&mut chunks);
            let [rest] = chunks;
            piece.rest = rest;
            match written {
                Ok(_) => {}
                Err(WriteError::Blocked) => {
                    let slot = piece.stream.slot();
                    if self.held.len() <= slot {
                        self.held.resize_with(slot + 1, || None);
                    }
                    if let Some(place) = self.held.get_mut(slot) {
                        *place = Some(piece);
                    }
                    return false;
                }
                // The client wants no more of it, which an event says as well.
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return true,
            }
        }
        if piece.ended {
            let _ = self.connection.send_stream(id).finish();
        }
        true
    }

    /// A stream may have room again. Gives back whether nothing of it is left here; `None` if nothing was.
    pub(crate) fn go_on(&mut self, id: StreamId, stream: StreamKey) -> Option<bool> {
        let place = self.held.get_mut(stream.slot())?;
        let piece = place.take_if(|piece| (piece.id, piece.stream) == (id, stream))?;
        Some(self.write(piece))
    }

    /// Nothing more of a stream is to be sent.
    pub(crate) fn reset(&mut self, id: u64, code: u64) {
        let id = stream_id(id);
        for place in &mut self.held {
            place.take_if(|piece| piece.id == id);
        }
        let _ = self.connection.send_stream(id).reset(number(code));
    }

    /// Nothing more of a stream is wanted.
    pub(crate) fn stop(&mut self, id: u64, code: u64) {
        let _ = self.connection.recv_stream(stream_id(id)).stop(number(code));
    }

    /// Ends the connection.
    pub(crate) fn close(&mut self, now: Instant, code: u64, reason: &'static str) {
        if !self.connection.is_closed() {
            self.connection.close(now, number(code), Bytes::from_static(reason.as_bytes()));
        }
    }

    /// Whether the client has everything that was sent.
    pub(crate) fn is_acknowledged(&mut self) -> bool {
        self.connection.streams().send_streams() <= OWN_STREAMS
    }

    /// Lets the library hold twice of what may be under way: as much as it needs to go on without a pause, and not all that a
    /// client will ever take. `scarce`: no more than the least.
    pub(crate) fn adapt_window(&mut self, scarce: bool) {
        let twice = 2 * self.connection.congestion_state().window();
        let window = match scarce {
            true => SEND_WINDOW_FIRST,
            false => twice.clamp(SEND_WINDOW_FIRST, SEND_WINDOW_MAX),
        };
        if window != self.window {
            self.window = window;
            self.connection.set_send_window(window);
        }
    }

    /// When the connection can go, of which nothing is left: the client has all that was sent (or has acknowledged nothing of
    /// it for long, because it is not there any more), and had the time to hear that nothing more is served here. What it has on
    /// its way is refused meanwhile, so that it knows that it can ask elsewhere.
    pub(crate) fn over_at(&mut self, now: Instant) -> Instant {
        if !self.is_acknowledged() {
            let held = self.held_bytes();
            let (before, since) = *self.silent_since.get_or_insert((held, now));
            let since = if held == before { since } else { now };
            self.silent_since = Some((held, since));
            return since + SILENT_MAX;
        }
        let heard = (3 * self.connection.rtt()).clamp(HEARD_MIN, HEARD_MAX);
        *self.over_at.get_or_insert(now + heard)
    }

    /// When the library has something to do if nothing comes. Not before a millisecond has passed: what leaves at a pace then
    /// leaves in batches.
    pub(crate) fn deadline(&mut self, now: Instant) -> Option<Instant> {
        self.connection.poll_timeout().map(|at| at.max(now + Duration::from_millis(1)))
    }

    /// Gives back what an idle connection does not need.
    pub(crate) fn shrink(&mut self) {
        self.held = Vec::new();
        self.readable = Vec::new();
        self.events.shrink_to_fit();
        self.released = Vec::new();
        self.refused = Vec::new();
        self.control_left.shrink_to_fit();
    }
}
