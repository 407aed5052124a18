//! What of a response is still to be sent.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::time::Instant;

use maitred_handoff::{TAIL_TOTAL_BYTES_MAX, TAILS_MAX};
use maitred_http::fields::FieldLines;

use super::throttle::Throttle;
use maitred_base::budget::Permit;
use maitred_files::{CachedBytes, Segment, ServedFile};

/// What of a response is still to be sent: bytes, and pieces behind them.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// Bytes to send, from `sent` on.
    pub bytes: Vec<u8>,
    /// How much of `bytes` has been sent.
    pub sent: usize,
    /// What follows `bytes`.
    pub segments: VecDeque<Segment>,
    /// End of the part of the present file segment that was found in the page cache.
    pub resident_until: u64,
    /// When it was found there.
    pub resident_at: Option<Instant>,
    /// A helper thread reads the present file segment.
    pub awaits_disk: bool,
    /// What the application process returned to be sent after what it wrote itself: once it has ended.
    pub returned: Option<Box<Returned>>,
    /// What follows the content of the response, where that has frames of its own.
    pub trailers: Option<Box<FieldLines>>,
    /// What it holds of the budget for what is unsent, if a part of a response was left over.
    pub unsent: Option<Permit>,
    /// How fast the response may leave, if its route says that.
    pub throttle: Option<Box<Throttle>>,
    /// What of it goes to the client by way of the disk.
    pub overflow: Option<Box<Overflow>>,
}

/// A file for what of a response is too much for memory; the part of it that is unsent is a segment.
#[derive(Debug)]
pub(crate) struct Overflow {
    /// The file, which has no name.
    pub file: Rc<ServedFile>,
    /// How much was written.
    pub end: u64,
    /// What a helper writes now.
    pub writing: Option<Box<[u8]>>,
    /// The file takes no more.
    pub full: bool,
    /// The bytes of the file in the budget of the disk.
    pub kept: Permit,
    /// The descriptor of the file in the budget of descriptors.
    pub _held: Permit,
}

/// What of a response is still to be sent, made when there is something: most requests, and all that wait for a process, have
/// nothing, and need no room for it.
#[derive(Default)]
pub(crate) struct Pending(Option<Box<Outgoing>>);

impl Pending {
    /// What there is, to be changed, if there is something: to change it otherwise makes room for it.
    pub(crate) fn existing(&mut self) -> Option<&mut Outgoing> {
        self.0.as_deref_mut()
    }

    /// Empties it, and keeps the memory.
    pub(super) fn reset(&mut self) {
        self.existing().into_iter().for_each(Outgoing::reset);
    }

    /// Drops what a process has returned.
    pub(crate) fn drop_returned(&mut self) {
        self.existing().into_iter().for_each(|outgoing| outgoing.returned = None);
    }
}

impl Deref for Pending {
    type Target = Outgoing;

    fn deref(&self) -> &Outgoing {
        const NOTHING: &Outgoing = &Outgoing::new();
        self.0.as_deref().unwrap_or(NOTHING)
    }
}

impl DerefMut for Pending {
    fn deref_mut(&mut self) -> &mut Outgoing {
        self.0.get_or_insert_default()
    }
}

impl From<Outgoing> for Pending {
    fn from(outgoing: Outgoing) -> Pending {
        Pending(Some(Box::new(outgoing)))
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// What an application process has returned, to be sent after what it wrote itself.
#[derive(Debug, Default)]
pub(crate) struct Returned {
    /// The pieces.
    pub pieces: VecDeque<Segment>,
    /// Bytes in memory that they hold.
    pub bytes: usize,
}

impl Returned {
    /// Keeps one more.
    ///
    /// # Errors
    /// What the process has done wrong, if there are too many, or they are too large.
    pub(crate) fn push(&mut self, piece: Segment) -> Result<(), String> {
        if let Segment::Bytes(bytes) = &piece {
            self.bytes += bytes.len();
            if self.bytes > TAIL_TOTAL_BYTES_MAX {
                return Err(format!("it returned more than {TAIL_TOTAL_BYTES_MAX} bytes for one response"));
            }
        }
        if self.pieces.len() >= TAILS_MAX {
            return Err(format!("it returned more than {TAILS_MAX} pieces for one response"));
        }
        self.pieces.push_back(piece);
        Ok(())
    }

    /// Memory that they take.
    pub(crate) fn memory(&self) -> usize {
        self.bytes + self.pieces.len() * size_of::<Segment>()
    }
}

impl Outgoing {
    const fn new() -> Outgoing {
        Outgoing {
            bytes: Vec::new(),
            sent: 0,
            segments: VecDeque::new(),
            resident_until: 0,
            resident_at: None,
            awaits_disk: false,
            returned: None,
            trailers: None,
            unsent: None,
            throttle: None,
            overflow: None,
        }
    }

    /// Empties it, and keeps the memory of the bytes.
    fn reset(&mut self) {
        self.bytes.clear();
        release(&mut self.segments);
        (self.sent, self.resident_until, self.resident_at, self.awaits_disk) = (0, 0, None, false);
        (self.returned, self.trailers, self.unsent, self.throttle) = (None, None, None, None);
        self.overflow = None;
    }

    /// Whether a process has returned something that is still to be sent.
    pub(crate) fn has_returned(&self) -> bool {
        self.returned.as_ref().is_some_and(|returned| !returned.pieces.is_empty())
    }

    /// The next piece that a process has returned.
    pub(crate) fn next_returned(&mut self) -> Option<Segment> {
        self.returned.as_mut()?.pieces.pop_front()
    }

    /// What a process returns, to be added to.
    pub(crate) fn returned(&mut self) -> &mut Returned {
        self.returned.get_or_insert_default()
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_bytes() && self.segments.is_empty()
    }

    /// Whether bytes are left, besides pieces.
    pub(crate) fn has_bytes(&self) -> bool {
        self.sent < self.bytes.len()
    }

    /// The bytes that are left.
    pub(crate) fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// So many of the bytes have been sent.
    pub(crate) fn advance(&mut self, sent: usize) {
        self.sent += sent;
        if !self.has_bytes() {
            self.bytes.clear();
            self.sent = 0;
        }
    }

    /// Further bytes, behind those that are there. The room of those that were sent is used again.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        if self.sent > 0 && self.sent >= self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// So many bytes more are in the file: they are sent behind everything else.
    pub(crate) fn note_spilled(&mut self, bytes: u64) {
        let Some(overflow) = self.overflow.as_deref_mut() else { return };
        let offset = overflow.end;
        overflow.end += bytes;
        match self.segments.back_mut() {
            Some(Segment::File { file, end, .. }) if Rc::ptr_eq(file, &overflow.file) => *end = overflow.end,
            _ => {
                let (file, end) = (Rc::clone(&overflow.file), overflow.end);
                self.segments.push_back(Segment::File { file, offset, end });
            }
        }
    }

    /// The client has everything: the file is not needed any more.
    pub(crate) fn leave_file(&mut self) {
        if self.is_empty() && self.overflow.as_ref().is_some_and(|overflow| overflow.writing.is_none()) {
            self.overflow = None;
        }
    }

    /// Other bytes take the place of those that were there.
    pub(crate) fn replace(&mut self, bytes: Vec<u8>) {
        (self.bytes, self.sent) = (bytes, 0);
    }

    /// Other pieces follow; of their files nothing is known yet.
    pub(crate) fn follow(&mut self, segments: VecDeque<Segment>) {
        (self.segments, self.resident_until) = (segments, 0);
    }

    /// Keeps what could not be sent. Bytes at the end that the cache of files has, or the configuration, are held there and not
    /// copied.
    pub(crate) fn hold(&mut self, rest: &[u8], cached: Option<CachedBytes>) {
        // What was joined behind them, or put into `tx` since, is no part of them.
        let cached = cached.filter(|_| self.segments.is_empty()).filter(|cached| {
            let bytes = cached.bytes();
            rest.ends_with(bytes.get(bytes.len().saturating_sub(rest.len())..).unwrap_or_default())
        });
        let Some(mut cached) = cached else { return self.bytes.extend_from_slice(rest) };
        cached.keep_last(rest.len());
        let own = rest.len() - cached.bytes().len();
        self.bytes.extend_from_slice(rest.get(..own).unwrap_or_default());
        self.segments.push_back(Segment::Cached(cached));
    }

    /// How many pieces come behind the part that is in front: bytes, or with no bytes the first piece.
    pub(crate) fn behind_front(&self) -> usize {
        self.segments.len() - usize::from(self.bytes.is_empty() && !self.segments.is_empty())
    }

    /// How many bytes are left, files included.
    pub(crate) fn left(&self) -> u64 {
        let pieces = self.segments.iter().map(|segment| match segment {
            Segment::Bytes(bytes) => bytes.len() as u64,
            Segment::Cached(cached) => cached.bytes().len() as u64,
            Segment::File { offset, end, .. } => end.saturating_sub(*offset),
        });
        pieces.sum::<u64>() + self.unsent().len() as u64
    }

    /// Memory that the pieces take. Of a file, that is the piece itself; entries of the cache count where they are, and what
    /// stands in the configuration is there anyway.
    pub(crate) fn segment_bytes(&self) -> usize {
        let segment = |segment: &Segment| match segment {
            Segment::Bytes(bytes) => size_of::<Segment>() + bytes.len(),
            Segment::Cached(_) | Segment::File { .. } => size_of::<Segment>(),
        };
        self.segments.iter().map(segment).sum()
    }
}

/// Empties a list of pieces, and gives its memory back. Mostly it has none, which costs nothing then.
pub(super) fn release(segments: &mut VecDeque<Segment>) {
    if segments.capacity() > 0 {
        *segments = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &[u8]) -> Segment {
        Segment::Bytes(text.into())
    }

    #[test]
    fn what_is_sent_leaves_and_the_rest_is_counted() {
        let mut outgoing = Outgoing::default();
        assert!(outgoing.is_empty() && outgoing.left() == 0);
        outgoing.hold(b"head", None);
        outgoing.segments.push_back(bytes(b"content"));
        assert_eq!((outgoing.left(), outgoing.behind_front(), outgoing.unsent()), (11, 1, &b"head"[..]));
        outgoing.advance(3);
        assert_eq!((outgoing.left(), outgoing.has_bytes(), outgoing.unsent()), (8, true, &b"d"[..]));
        outgoing.advance(1);
        // The buffer is empty for what comes next, and the piece is in front now.
        assert_eq!((outgoing.left(), outgoing.has_bytes(), outgoing.behind_front()), (7, false, 0));
        assert!(outgoing.bytes.is_empty() && outgoing.sent == 0 && !outgoing.is_empty());
    }

    #[test]
    fn what_could_not_be_sent_follows_what_waits_already() {
        let mut outgoing = Outgoing::default();
        outgoing.hold(b"one", None);
        outgoing.advance(1);
        outgoing.hold(b"two", None);
        assert_eq!(outgoing.unsent(), b"netwo");
        outgoing.replace(b"three".to_vec());
        assert_eq!((outgoing.unsent(), outgoing.left()), (&b"three"[..], 5));
    }

    #[test]
    fn other_pieces_are_looked_for_in_the_page_cache_anew() {
        let mut outgoing = Outgoing { resident_until: 9, ..Outgoing::default() };
        outgoing.follow(VecDeque::from([bytes(b"a"), bytes(b"bc")]));
        assert_eq!((outgoing.resident_until, outgoing.left(), outgoing.behind_front()), (0, 3, 1));
        assert_eq!(outgoing.segment_bytes(), 2 * size_of::<Segment>() + 3);
    }
}
