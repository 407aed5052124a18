//! Content that goes out, the end of streams, and what the caller gets to send.

use super::streams::Order;
use super::{Action, Code, Session, StreamKey};
use crate::h3::{frame, varint};

/// Bytes of one stream that wait in the session before no more content is written to it.
pub const STREAM_AHEAD_BYTES: usize = 64 << 10;

/// Bytes of all streams that wait in the session before no more content is written.
const SENT_AHEAD_BYTES: usize = 256 << 10;

/// Content of one DATA frame.
const DATA_BYTES_MAX: usize = 64 << 10;

/// Bytes that are left for the header of a frame whose length is not known yet: its type, and a length of up to 30 bits.
const HEADER_BYTES: usize = 5;

/// What a stream has to send.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsent {
    /// The stream.
    pub stream: StreamKey,
    /// The stream's identifier.
    pub id: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether the bytes are the last.
    pub ended: bool,
    /// The priority of the stream, if it has not been said, or has changed: streams with higher numbers are sent first.
    pub priority: Option<i32>,
}

impl Session {
    /// How many bytes of content may be written now, in one frame. 0: the stream is noted as waiting, and
    /// [`Session::next_writable`] will name it; or it is over.
    #[inline]
    pub fn room(&mut self, stream: StreamKey) -> usize {
        let full = self.streams.queued >= SENT_AHEAD_BYTES;
        let Some(known) = self.streams.get(stream) else { return 0 };
        if known.reset || known.local_ended || !known.head_sent {
            return 0;
        }
        if full || known.held || known.out.len() >= STREAM_AHEAD_BYTES {
            self.streams.set_waiting(stream, true);
            return 0;
        }
        DATA_BYTES_MAX
    }

    /// Writes the header of one DATA frame of exactly so many bytes, no more than [`Session::room`] has just said, and gives
    /// the buffer that the caller appends these bytes to.
    #[inline]
    pub fn data(&mut self, stream: StreamKey, bytes: usize, ended: bool) -> &mut Vec<u8> {
        let open = |known: &super::streams::Stream| !known.reset && !known.local_ended && known.head_sent;
        if !self.streams.peek(stream).is_some_and(open) {
            self.sink = Vec::new();
            return &mut self.sink;
        }
        if ended {
            self.end_locally(stream);
        }
        if bytes > 0 {
            self.streams.list(stream);
            self.streams.queued += 1 + varint::length(bytes as u64) + bytes;
        }
        match self.streams.get(stream) {
            Some(known) => {
                if bytes > 0 {
                    known.out.reserve(HEADER_BYTES + bytes);
                    frame::put_header(&mut known.out, frame::kind::DATA, bytes as u64);
                }
                &mut known.out
            }
            None => &mut self.sink,
        }
    }

    /// Writes one DATA frame whose content `append` appends: no more than [`Session::room`] has just said. The frame's size is
    /// what was appended; of that, `ended` says whether it ends the response. Gives back the size; with nothing there is no
    /// frame.
    pub fn fill(
        &mut self,
        stream: StreamKey,
        ended: impl FnOnce(usize) -> bool,
        append: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        let open =
            self.streams.get(stream).filter(|known| !known.reset && !known.local_ended && known.head_sent);
        let Some(known) = open else { return 0 };
        let at = known.out.len();
        known.out.extend_from_slice(&[0; HEADER_BYTES]);
        append(&mut known.out);
        let bytes = known.out.len().saturating_sub(at + HEADER_BYTES);
        if bytes == 0 {
            known.out.truncate(at);
            return 0;
        }
        // A length may be written in more bytes than it needs (RFC 9000 section 16).
        let header = (frame::kind::DATA as u8, (bytes as u32 | 2 << 30).to_be_bytes());
        if let Some([kind, length @ ..]) = known.out.get_mut(at..at + HEADER_BYTES) {
            *kind = header.0;
            length.copy_from_slice(&header.1);
        }
        self.streams.queued += HEADER_BYTES + bytes;
        self.streams.list(stream);
        if ended(bytes) {
            self.end_locally(stream);
        }
        bytes
    }

    /// Ends a response whose content is out. Nothing if it has ended.
    pub fn end(&mut self, stream: StreamKey) {
        match self.streams.peek(stream) {
            Some(known) if known.reset || known.local_ended => {}
            Some(known) if known.head_sent => self.end_locally(stream),
            Some(_) => self.reset(stream, Code::InternalError),
            None => {}
        }
    }

    /// The response has ended.
    #[inline]
    pub(super) fn end_locally(&mut self, stream: StreamKey) {
        self.ledger.answered();
        if let Some(known) = self.streams.get(stream) {
            known.local_ended = true;
        }
        self.streams.set_waiting(stream, false);
        self.streams.list(stream);
    }

    /// Gives a stream up. Nothing if the stream is over. The stream has to be released all the same.
    pub fn reset(&mut self, stream: StreamKey, code: Code) {
        let Some(known) = self.streams.get(stream).filter(|known| !known.reset) else { return };
        let id = known.id;
        let all_taken = known.local_ended && known.end_taken && !known.held;
        known.reset = true;
        if !known.remote_ended {
            self.actions.push(Action::Stop { id, code });
        }
        if !all_taken {
            self.actions.push(Action::Reset { id, code });
        }
        self.drop_rest(stream);
        self.remove_if_over(stream);
    }

    /// Nothing of a stream's response is sent any more.
    pub(super) fn drop_rest(&mut self, stream: StreamKey) {
        self.streams.note_head(stream);
        self.streams.set_waiting(stream, false);
        if let Some(known) = self.streams.get(stream) {
            known.held = false;
            let dropped = std::mem::take(&mut known.out).len();
            self.streams.queued -= dropped;
        }
    }

    /// The caller is done with a stream: its slot can be used again when all of its response was taken. If the body of the
    /// request has not ended, the client is told that the rest is not needed (9114-4.1); a response that has not ended is aborted
    /// (H3_INTERNAL_ERROR).
    #[inline]
    pub fn release(&mut self, stream: StreamKey) {
        let Some(known) = self.streams.get(stream).filter(|known| !known.released) else { return };
        // The mark may be that of another stream from now on.
        (known.released, known.user) = (true, 0);
        if !known.local_ended {
            self.reset(stream, Code::InternalError);
        } else if !known.reset && !std::mem::replace(&mut known.remote_ended, true) {
            let id = known.id;
            self.actions.push(Action::Stop { id, code: Code::NoError });
        }
        self.remove_if_over(stream);
    }

    /// The slot of a stream that is over for both the caller and QUIC is free.
    fn remove_if_over(&mut self, stream: StreamKey) {
        let over = |known: &super::streams::Stream| {
            known.released && !known.held && (known.reset || known.end_taken)
        };
        if self.streams.peek(stream).is_some_and(over) {
            self.streams.remove(stream);
        }
    }

    /// The stream that should write next: it waits, and has room. The stream waits no more then; a caller that leaves something
    /// unwritten calls [`Session::wait`].
    pub fn next_writable(&mut self) -> Option<StreamKey> {
        self.next_writable_before(None)
    }

    /// The same, unless a stream of this order comes first.
    pub fn next_writable_before(&mut self, before: Option<Order>) -> Option<StreamKey> {
        if self.streams.waiting == 0 || self.streams.queued >= SENT_AHEAD_BYTES {
            return None;
        }
        self.streams.next_waiting(STREAM_AHEAD_BYTES, before)
    }

    /// Where a stream stands among the others.
    pub fn order(&self, stream: StreamKey) -> Option<Order> {
        self.streams.peek(stream).map(super::streams::Stream::order)
    }

    /// Notes that a stream has more to write, so that [`Session::next_writable`] returns it when it is scheduled.
    #[inline]
    pub fn wait(&mut self, stream: StreamKey) {
        let waits = self.streams.peek(stream).is_some_and(|known| !known.reset && !known.local_ended);
        self.streams.set_waiting(stream, waits);
    }

    /// Whether a stream has a piece of its response that QUIC has not taken.
    pub fn is_held(&self, stream: StreamKey) -> bool {
        self.streams.peek(stream).is_some_and(|known| known.held)
    }

    /// Whether any stream has more to write than there is room for.
    pub fn is_waiting(&self) -> bool {
        self.streams.waiting > 0
    }

    /// What the next stream has to send: what was written since the last call. The caller says then whether QUIC has taken it
    /// ([`Session::hold`]).
    pub fn take_unsent(&mut self) -> Option<Unsent> {
        let stream = self.streams.next_listed()?;
        let known = self.streams.get(stream)?;
        let bytes = std::mem::take(&mut known.out);
        let ended = known.local_ended && !std::mem::replace(&mut known.end_taken, known.local_ended);
        let (id, priority) = (known.id, known.priority);
        let priority = std::mem::take(&mut known.priority_due).then(|| {
            // Within an urgency: streams that are not incremental one after another, and before the others, which take turns.
            let order =
                if priority.incremental { 0 } else { i32::MAX >> 4 & !((id >> 2) as i32 & (i32::MAX >> 4)) };
            (7 - i32::from(priority.urgency)) << 27 | order
        });
        self.streams.queued -= bytes.len();
        Some(Unsent { stream, id, bytes, ended, priority })
    }

    /// Whether the caller still has a part of what [`Session::take_unsent`] has given out for a stream.
    pub fn hold(&mut self, stream: StreamKey, holds: bool) {
        let Some(known) = self.streams.get(stream) else { return };
        // Of a stream that was reset the caller keeps nothing.
        known.held = holds && !known.reset;
        let due = !known.out.is_empty() || (known.local_ended && !known.end_taken) || known.priority_due;
        if due && !known.held {
            self.streams.list(stream);
        }
        self.remove_if_over(stream);
    }
}
