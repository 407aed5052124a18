//! Requests whose answer is complete before their body is.
//!
//! The rest of the body is not needed, and RST_STREAM with NO_ERROR says so (9113-8.1). A client that meets it while it is
//! still sending may forget the response that came before it, though that is whole: curl 7.88 reports an error of the stream. So
//! the client is given the time to read the response first. A PING goes behind it; its answer says that everything that was on
//! its way when the client read the response has come. What comes until then is dropped, and bounded by the window of the
//! stream, which is not opened any more.
//!
//! | stream | ends by |
//! |---|---|
//! | parting | the answer to its PING: RST_STREAM(NO_ERROR) |
//! | | the client ends or resets it: nothing more is to be said |
//! | | more than [`PARTING_MAX`] others, or the end of the connection: RST_STREAM at once |

use super::{Code, Session};
use crate::h2::frame::{self, kind};

/// Streams that part at a time. A client that answers no PING gains nothing by more of them, and one that does has few.
const PARTING_MAX: usize = 16;

/// The first half of a PING for a stream; the other one is its identifier.
const PING_PREFIX: [u8; 4] = *b"part";

/// Streams that were released, and that the peer may still send on.
#[derive(Debug, Default)]
pub(super) struct Parting {
    /// Identifiers, oldest first, and how much the peer may send on each.
    streams: Vec<(u32, i32)>,
}

impl Parting {
    /// No more of this stream. True if it was one.
    pub(super) fn remove(&mut self, id: u32) -> bool {
        let before = self.streams.len();
        self.streams.retain(|(known, _)| *known != id);
        self.streams.len() < before
    }

    /// Whether a stream parts, and the peer may send so many bytes on it, which it has.
    pub(super) fn receive(&mut self, id: u32, bytes: u32) -> bool {
        let found = self.streams.iter_mut().find(|(known, _)| *known == id);
        found.is_some_and(|(_, window)| {
            *window = window.saturating_sub_unsigned(bytes);
            *window >= 0
        })
    }
}

impl Session {
    /// The response on a stream is complete, and its request is not: the peer gets RST_STREAM after it has read
    /// the response. The peer may send `window` bytes until then.
    pub(super) fn part(&mut self, id: u32, window: i32) {
        self.streams.note_reset(id, false);
        if self.parting.streams.len() >= PARTING_MAX {
            let (oldest, _) = self.parting.streams.remove(0);
            self.put_not_needed(oldest);
        }
        self.parting.streams.push((id, window));
        let [a, b, c, d] = id.to_be_bytes();
        let [p, q, r, s] = PING_PREFIX;
        frame::put_ping(&mut self.out, 0, [p, q, r, s, a, b, c, d]);
    }

    /// The peer has answered a PING. True if it was that of a stream that parts.
    pub(super) fn on_parted(&mut self, opaque: [u8; 8]) -> bool {
        let [p, q, r, s, a, b, c, d] = opaque;
        let id = u32::from_be_bytes([a, b, c, d]);
        let parted = [p, q, r, s] == PING_PREFIX && self.parting.remove(id);
        if parted {
            self.put_not_needed(id);
        }
        parted
    }

    fn put_not_needed(&mut self, id: u32) {
        frame::put_number(&mut self.out, kind::RST_STREAM, id, Code::NoError as u32);
    }
}
