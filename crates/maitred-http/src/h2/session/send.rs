//! Content that goes out, and the end of streams.

use super::{Code, DATA_BYTES_MAX, SENT_AHEAD_BYTES, Session, StreamKey};
use crate::h2::frame::{self, flag, kind};

impl Session {
    /// How many bytes of content may be written now, in one frame. 0: the stream is noted as waiting, and
    /// [`Session::next_writable`] will name it; or it is over.
    #[inline]
    pub fn room(&mut self, stream: StreamKey) -> usize {
        let full = self.out.len() >= SENT_AHEAD_BYTES;
        let Some(known) = self.streams.get(stream) else { return 0 };
        if known.reset || known.local_ended || !known.head_sent {
            return 0;
        }
        let window = known.send_window.min(self.send_window);
        if full || window <= 0 {
            self.streams.set_waiting(stream, true);
            return 0;
        }
        (window as usize).min(DATA_BYTES_MAX)
    }

    /// Writes the header of one DATA frame of exactly so many bytes, no more than [`Session::room`] has just said, and gives
    /// the buffer that the caller appends these bytes to.
    #[inline]
    pub fn data(&mut self, stream: StreamKey, bytes: usize, ended: bool) -> &mut Vec<u8> {
        let known =
            self.streams.get(stream).filter(|known| !known.reset && !known.local_ended && known.head_sent);
        let Some(known) = known else {
            self.sink = Vec::new();
            return &mut self.sink;
        };
        frame::put_header(
            &mut self.out,
            bytes,
            kind::DATA,
            if ended { flag::END_STREAM } else { 0 },
            known.id,
        );
        self.count_data(stream, bytes, ended);
        &mut self.out
    }

    /// Writes one DATA frame whose content `append` appends: no more than [`Session::room`] has just said. The frame's size is
    /// what was appended; of that, `ended` says whether it ends the response. Gives back the size; with nothing there is no
    /// frame.
    #[inline]
    pub fn fill(
        &mut self,
        stream: StreamKey,
        ended: impl FnOnce(usize) -> bool,
        append: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        let known =
            self.streams.get(stream).filter(|known| !known.reset && !known.local_ended && known.head_sent);
        let Some(id) = known.map(|known| known.id) else { return 0 };
        let (at, content) = (self.out.len(), self.out.len() + frame::HEADER_BYTES);
        self.out.extend_from_slice(&[0; frame::HEADER_BYTES]);
        append(&mut self.out);
        let bytes = self.out.len().saturating_sub(content);
        if bytes == 0 {
            self.out.truncate(at);
            return 0;
        }
        let ended = ended(bytes);
        let header = frame::data_header(bytes, if ended { flag::END_STREAM } else { 0 }, id);
        if let Some(place) = self.out.get_mut(at..content) {
            place.copy_from_slice(&header);
        }
        self.count_data(stream, bytes, ended);
        bytes
    }

    /// So much content was written.
    #[inline]
    fn count_data(&mut self, stream: StreamKey, bytes: usize, ended: bool) {
        let Some(known) = self.streams.get(stream) else { return };
        debug_assert!(bytes == 0 || bytes as i64 <= i64::from(known.send_window.min(self.send_window)));
        let count = i32::try_from(bytes).unwrap_or(i32::MAX);
        known.send_window = known.send_window.saturating_sub(count);
        self.send_window = self.send_window.saturating_sub(count);
        self.ledger.data_sent();
        if ended {
            self.end_locally(stream);
        }
    }

    /// Ends a response whose content is out. Nothing if it has ended.
    pub fn end(&mut self, stream: StreamKey) {
        match self.streams.peek(stream) {
            Some(known) if known.reset || known.local_ended => {}
            Some(known) if known.head_sent => {
                self.data(stream, 0, true);
            }
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
    }

    /// Gives a stream up. Nothing if the stream is over. The stream has to be released all the same.
    pub fn reset(&mut self, stream: StreamKey, code: Code) {
        let Some(known) = self.streams.get(stream).filter(|known| !known.reset) else { return };
        if known.remote_ended && known.local_ended {
            return;
        }
        known.reset = true;
        let (id, held) = (known.id, std::mem::take(&mut known.unconsumed));
        self.streams.set_waiting(stream, false);
        self.streams.note_reset(id, false);
        self.give_back(held);
        frame::put_number(&mut self.out, kind::RST_STREAM, id, code as u32);
    }

    /// The caller is done with a stream: its slot can be used again. If the body of the request has not ended, the peer is
    /// told that the rest is not needed, once the response has been read ([`parting`](super::parting)); a response that has
    /// not ended is aborted (INTERNAL_ERROR).
    #[inline]
    pub fn release(&mut self, stream: StreamKey) {
        let Some(known) = self.streams.peek(stream) else { return };
        if !known.local_ended {
            self.reset(stream, Code::InternalError);
        } else if !known.reset {
            let (id, held, window) = (known.id, known.unconsumed, known.receive_window);
            let remote_ended = known.remote_ended;
            self.give_back(held);
            if !remote_ended {
                self.part(id, window);
            }
        }
        self.streams.remove(stream);
    }

    /// The stream that should write next: it waits, and has room. The stream waits no more then; a caller that leaves something
    /// unwritten calls [`Session::wait`].
    pub fn next_writable(&mut self) -> Option<StreamKey> {
        if self.streams.waiting() == 0 || self.send_window <= 0 || self.out.len() >= SENT_AHEAD_BYTES {
            return None;
        }
        self.streams.next_waiting()
    }

    /// Whether a stream has more to write than the peer has opened its window for.
    pub fn waits_for_window(&self, stream: StreamKey) -> bool {
        self.streams.peek(stream).is_some_and(|known| known.waiting && known.send_window <= 0)
    }

    /// Whether some stream has more to write than the peer has opened the window of the connection for.
    pub fn waits_for_connection(&self) -> bool {
        self.streams.waiting() > 0 && self.send_window <= 0
    }

    /// Notes that a stream has more to write, so that [`Session::next_writable`] returns it when it is scheduled.
    #[inline]
    pub fn wait(&mut self, stream: StreamKey) {
        let waits = self.streams.peek(stream).is_some_and(|known| !known.reset && !known.local_ended);
        self.streams.set_waiting(stream, waits);
    }
}
