//! The slab of request streams.

use crate::framed::StreamKey;
use crate::h3::frame::{Place, Side};
use crate::h3::reader::Reader;
use crate::priority::Priority;

/// Streams that the slab keeps room for when it is empty.
const KEPT_STREAMS: usize = 8;

/// `content_left` of a request that did not say its length.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// Bytes of a field section as it is sent. No well-behaved encoding is longer than the list that it stands for.
pub(super) const SECTION_BYTES_MAX: u32 = 64 << 10;

/// One request stream.
#[derive(Debug)]
pub(super) struct Stream {
    /// The stream's identifier.
    pub(super) id: u64,
    /// The caller's mark.
    pub(super) user: u32,
    /// The caller has the stream.
    pub(super) named: bool,
    /// The number of this stream among those of its slot.
    pub(super) generation: u16,
    pub(super) reader: Reader,
    /// The head of the request has come as a whole.
    pub(super) head_seen: bool,
    /// Bytes of the stated content that are still to come, or [`UNKNOWN`].
    pub(super) content_left: u64,
    /// When it was scheduled last among incremental streams.
    pub(super) turn: u32,
    pub(super) priority: Priority,
    /// A priority that has come in a frame, which counts before one in the head.
    pub(super) prioritised: bool,
    /// QUIC has not been told of the priority.
    pub(super) priority_due: bool,
    /// Trailers have come: of the message nothing follows, though the stream may go on.
    pub(super) complete: bool,
    /// The client has ended it.
    pub(super) remote_ended: bool,
    /// The response has ended.
    pub(super) local_ended: bool,
    /// Whether the end of the response was given out.
    pub(super) end_taken: bool,
    /// The head of the final response is out.
    pub(super) head_sent: bool,
    /// Whether the stream was reset, by either side.
    pub(super) reset: bool,
    /// By extended CONNECT: 101 is 200 here.
    pub(super) tunnel: bool,
    /// Noted as waiting for room.
    pub(super) waiting: bool,
    /// The caller still has a piece that QUIC has not taken.
    pub(super) held: bool,
    /// Whether the stream is among those with something to be given out.
    pub(super) listed: bool,
    /// The caller is done with it.
    pub(super) released: bool,
    /// Frames that were not given out.
    pub(super) out: Vec<u8>,
}

/// Which of two streams comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    urgency: u8,
    incremental: bool,
    turn: u64,
    id: u64,
}

impl Order {
    /// What counts beside turns: streams that are incremental share.
    fn class(self) -> (u8, bool, u64) {
        (self.urgency, self.incremental, if self.incremental { 0 } else { self.id })
    }
}

impl Stream {
    pub(super) fn order(&self) -> Order {
        let Priority { urgency, incremental } = self.priority;
        let turn = if incremental { u64::from(self.turn) } else { self.id };
        Order { urgency, incremental, turn, id: self.id }
    }
}

/// All request streams of a session.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Identifiers by slot, [`FREE`] for a free one.
    ids: Vec<u64>,
    slab: Vec<Option<Box<Stream>>>,
    open: usize,
    pub(super) waiting: usize,
    turns: u32,
    generations: u16,
    /// Slot of the last stream that was looked up.
    recent: usize,
    /// The last identifier that was opened.
    pub(super) highest: Option<u64>,
    /// Streams of whose head a part is missing.
    headless: usize,
    /// Slots of streams with something to be given out.
    listed: Vec<u16>,
    /// Bytes of frames in all of them.
    pub(super) queued: usize,
}

/// No identifier of a request stream.
const FREE: u64 = u64::MAX;

impl Streams {
    #[inline]
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// The connection is over: nothing more is written on any stream.
    pub(super) fn reset_all(&mut self) {
        (self.waiting, self.queued, self.headless) = (0, 0, 0);
        self.listed = Vec::new();
        for (id, place) in self.ids.iter_mut().zip(&mut self.slab) {
            if place.take_if(|stream| stream.released).is_some() {
                *id = FREE;
                self.open -= 1;
            }
            let Some(stream) = place else { continue };
            (stream.reset, stream.waiting, stream.listed, stream.head_seen) = (true, false, false, true);
            (stream.held, stream.out) = (false, Vec::new());
        }
    }

    pub(super) fn insert(&mut self, id: u64, priority: Option<Priority>) -> StreamKey {
        self.generations = self.generations.wrapping_add(1);
        let stream = Box::new(Stream {
            id,
            user: 0,
            named: false,
            generation: self.generations,
            reader: Reader::new(Place::Request, Side::Client, SECTION_BYTES_MAX),
            head_seen: false,
            content_left: UNKNOWN,
            turn: 0,
            priority: priority.unwrap_or_default(),
            prioritised: priority.is_some(),
            priority_due: true,
            complete: false,
            remote_ended: false,
            local_ended: false,
            end_taken: false,
            head_sent: false,
            reset: false,
            tunnel: false,
            waiting: false,
            held: false,
            listed: false,
            released: false,
            out: Vec::new(),
        });
        let free =
            if self.open == self.ids.len() { None } else { self.ids.iter().position(|id| *id == FREE) };
        let slot = free.unwrap_or(self.ids.len());
        self.open += 1;
        self.headless += 1;
        match (self.slab.get_mut(slot), self.ids.get_mut(slot)) {
            (Some(place), Some(known)) => (*place, *known) = (Some(stream), id),
            _ => {
                self.slab.push(Some(stream));
                self.ids.push(id);
            }
        }
        self.recent = slot;
        self.key(slot)
    }

    fn key(&self, slot: usize) -> StreamKey {
        let generation = self.slab.get(slot).and_then(Option::as_deref).map_or(0, |stream| stream.generation);
        StreamKey(u32::from(generation) << 16 | slot as u32)
    }

    #[inline]
    pub(super) fn get(&mut self, key: StreamKey) -> Option<&mut Stream> {
        let stream = self.slab.get_mut(key.slot())?.as_deref_mut()?;
        Some(stream).filter(|stream| u32::from(stream.generation) == key.0 >> 16)
    }

    #[inline]
    pub(super) fn peek(&self, key: StreamKey) -> Option<&Stream> {
        let stream = self.slab.get(key.slot())?.as_deref()?;
        Some(stream).filter(|stream| u32::from(stream.generation) == key.0 >> 16)
    }

    /// The stream with this identifier.
    #[inline]
    pub(super) fn find(&mut self, id: u64) -> Option<StreamKey> {
        if self.ids.get(self.recent) != Some(&id) {
            self.recent = self.ids.iter().position(|known| *known == id)?;
        }
        Some(self.key(self.recent))
    }

    /// The head of a stream's request has come, or will not.
    pub(super) fn note_head(&mut self, key: StreamKey) {
        let Some(stream) = self.get(key) else { return };
        if !std::mem::replace(&mut stream.head_seen, true) {
            self.headless -= 1;
        }
    }

    /// The first of those whose head has not come.
    #[inline]
    pub(super) fn oldest_without_head(&self) -> Option<u64> {
        if self.headless == 0 {
            return None;
        }
        self.slab.iter().flatten().filter(|stream| !stream.head_seen).map(|stream| stream.id).min()
    }

    /// Takes a stream out of its slot.
    #[inline]
    pub(super) fn remove(&mut self, key: StreamKey) {
        if self.peek(key).is_none() {
            return;
        }
        self.note_head(key);
        self.set_waiting(key, false);
        if let (Some(id), Some(place)) = (self.ids.get_mut(key.slot()), self.slab.get_mut(key.slot())) {
            let bytes = place.take().map_or(0, |stream| stream.out.len());
            *id = FREE;
            self.queued -= bytes;
            self.open -= 1;
        }
        if self.open == 0 && self.slab.len() > KEPT_STREAMS {
            self.shrink();
        }
    }

    /// Gives the room of an empty slab back.
    pub(super) fn shrink(&mut self) {
        if self.open == 0 {
            (self.ids, self.slab, self.listed) = (Vec::new(), Vec::new(), Vec::new());
        }
    }

    /// Notes whether a stream waits for room.
    #[inline]
    pub(super) fn set_waiting(&mut self, key: StreamKey, waiting: bool) {
        let Some(stream) = self.get(key) else { return };
        let before = std::mem::replace(&mut stream.waiting, waiting);
        self.waiting = self.waiting + usize::from(waiting) - usize::from(before);
    }

    /// A stream has something to be given out.
    #[inline]
    pub(super) fn list(&mut self, key: StreamKey) {
        let Some(stream) = self.get(key) else { return };
        if !std::mem::replace(&mut stream.listed, true) {
            self.listed.push(key.slot() as u16);
        }
    }

    /// The next of those that have, in the order in which they were written.
    pub(super) fn next_listed(&mut self) -> Option<StreamKey> {
        while !self.listed.is_empty() {
            let slot = usize::from(self.listed.remove(0));
            if let Some(stream) = self.slab.get_mut(slot).and_then(Option::as_deref_mut)
                && std::mem::take(&mut stream.listed)
                && !stream.held
                && !stream.reset
            {
                return Some(self.key(slot));
            }
        }
        None
    }

    /// The waiting stream with room that should be next (9218-10): by urgency; within one, those that are not incremental in
    /// the order of their identifiers, then the others in turn. The stream counts as scheduled then, and does not wait any
    /// more. With `before`, only if the stream comes before that, or together with it.
    pub(super) fn next_waiting(&mut self, ahead: usize, before: Option<Order>) -> Option<StreamKey> {
        let all = self.slab.iter().enumerate().filter_map(|(slot, stream)| Some((slot, stream.as_deref()?)));
        let ready = all.filter(|(_, stream)| stream.waiting && !stream.held && stream.out.len() < ahead);
        let next = ready.map(|(slot, stream)| (stream.order(), slot)).min();
        let (_, slot) =
            next.filter(|(order, _)| before.is_none_or(|before| order.class() <= before.class()))?;
        let key = self.key(slot);
        self.turns = self.turns.wrapping_add(1);
        let turn = self.turns;
        if let Some(stream) = self.get(key) {
            stream.turn = turn;
        }
        self.set_waiting(key, false);
        Some(key)
    }
}

#[cfg(test)]
impl Streams {
    /// The numbers are those of the streams, and what has to be given out is listed.
    pub(super) fn check(&self) {
        let all = || self.slab.iter().flatten();
        assert_eq!(self.queued, all().map(|stream| stream.out.len()).sum::<usize>());
        assert_eq!(self.waiting, all().filter(|stream| stream.waiting).count());
        assert_eq!(self.headless, all().filter(|stream| !stream.head_seen).count());
        assert_eq!((self.open, self.ids.len()), (all().count(), self.slab.len()));
        for (slot, (id, stream)) in self.ids.iter().zip(&self.slab).enumerate() {
            assert_eq!(stream.as_ref().map_or(FREE, |stream| stream.id), *id);
            let Some(stream) = stream else { continue };
            let due = !stream.out.is_empty() || (stream.local_ended && !stream.end_taken);
            if due && !stream.reset && !stream.held {
                assert!(stream.listed && self.listed.contains(&(slot as u16)), "stream {id} is forgotten");
            }
            assert!(!(stream.reset && (stream.waiting || stream.held || !stream.out.is_empty())));
            let over = stream.released && !stream.held && (stream.reset || stream.end_taken);
            assert!(!over, "stream {id} is over, and has its slot");
        }
    }
}
