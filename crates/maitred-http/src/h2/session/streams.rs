//! The slab of streams, and what is kept of those that have left it.

use super::StreamKey;
use crate::priority::Priority;

/// Streams that were reset and are kept one by one; of older ones only the highest number is.
const RESET_REMEMBERED: usize = 16;

/// Streams that the slab keeps room for when it is empty.
const KEPT_STREAMS: usize = 8;

/// `content_left` of a request that did not say its length.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// One stream that was passed to the caller and that the caller has not released.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The stream's identifier.
    pub(super) id: u32,
    /// The caller's mark.
    pub(super) user: u32,
    /// Bytes that may be sent; negative after a change of the settings (9113-6.9.2).
    pub(super) send_window: i32,
    /// Bytes that the peer may send.
    pub(super) receive_window: i32,
    /// Bytes that the caller was given, and has not consumed.
    pub(super) unconsumed: u32,
    /// Bytes that were consumed, and not yet announced to the peer.
    pub(super) due: u32,
    /// Bytes of the stated content that are still to come, or [`UNKNOWN`].
    pub(super) content_left: u64,
    /// When it was scheduled last among incremental streams.
    pub(super) turn: u32,
    /// The number of this stream among those of its slot.
    pub(super) generation: u16,
    /// The priority that the client has requested.
    pub(super) priority: Priority,
    /// The peer has ended it.
    pub(super) remote_ended: bool,
    /// The response has ended.
    pub(super) local_ended: bool,
    /// The head of the final response is out.
    pub(super) head_sent: bool,
    /// Whether the stream was reset, by either side.
    pub(super) reset: bool,
    /// By extended CONNECT: 101 is 200 here.
    pub(super) tunnel: bool,
    /// Noted as waiting for room.
    pub(super) waiting: bool,
    /// The head of the final response has yet to come, from a server.
    pub(super) head_due: bool,
    /// The request was HEAD, to a server.
    pub(super) headless: bool,
    /// Interim responses of a server.
    pub(super) interim: u8,
}

/// What a stream identifier stands for: the states of 9113-5.1, as the session's table has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not opened yet.
    Idle,
    /// Passed over: a later one was opened.
    Skipped,
    /// The peer may go on sending: open, or half-closed (local).
    Open(StreamKey),
    /// Half-closed (remote).
    RemoteEnded(StreamKey),
    /// Both sides have ended the stream.
    Ended,
    /// The stream was reset by this side: what was on its way is dropped.
    Reset,
    /// The peer has reset it, and knows better than to go on.
    PeerReset,
}

/// All streams of a session.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Identifiers by slot, 0 for a free one: looked through for each frame that belongs to a stream.
    ids: Vec<u32>,
    slab: Vec<Stream>,
    open: usize,
    waiting: usize,
    turns: u32,
    /// Slot of the last stream that was looked up: frames of one stream come in groups.
    recent: usize,
    /// The highest identifier that was opened.
    pub(super) highest: u32,
    /// The last range of identifiers that were passed over, both ends not in it.
    gap: (u32, u32),
    closed: Closed,
}

impl Streams {
    /// Streams that have not been released.
    #[inline]
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Streams that wait for room.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The connection is over: nothing more is written on any stream.
    pub(super) fn reset_all(&mut self) {
        self.waiting = 0;
        for stream in &mut self.slab {
            (stream.reset, stream.waiting) = (true, false);
        }
    }

    /// Notes that this identifier, higher than all before, is used.
    #[inline]
    pub(super) fn advance(&mut self, id: u32) {
        if id > self.highest + 2 || (self.highest == 0 && id > 1) {
            self.gap = (self.highest, id);
        }
        self.highest = id;
    }

    /// Puts a stream into a slot.
    #[inline]
    pub(super) fn insert(&mut self, stream: Stream) -> StreamKey {
        let free = if self.open == self.slab.len() { None } else { self.ids.iter().position(|id| *id == 0) };
        self.open += 1;
        let slot = free.unwrap_or(self.slab.len());
        match (self.slab.get_mut(slot), self.ids.get_mut(slot)) {
            (Some(place), Some(id)) => {
                let generation = place.generation.wrapping_add(1);
                *id = stream.id;
                *place = Stream { generation, ..stream };
            }
            _ => {
                self.ids.push(stream.id);
                // Another than that of the streams before the slab was last shrunk, mostly.
                let generation = (self.highest >> 1) as u16;
                self.slab.push(Stream { generation, ..stream });
            }
        }
        self.recent = slot;
        self.key(slot)
    }

    fn key(&self, slot: usize) -> StreamKey {
        let generation = self.slab.get(slot).map_or(0, |stream| stream.generation);
        StreamKey(u32::from(generation) << 16 | slot as u32)
    }

    /// The stream of a key, unless it was released.
    #[inline]
    pub(super) fn get(&mut self, key: StreamKey) -> Option<&mut Stream> {
        let slot = key.slot();
        let taken = self.ids.get(slot).is_some_and(|id| *id != 0);
        self.slab.get_mut(slot).filter(|stream| taken && u32::from(stream.generation) == key.0 >> 16)
    }

    /// The same, to look only.
    #[inline]
    pub(super) fn peek(&self, key: StreamKey) -> Option<&Stream> {
        let slot = key.slot();
        let taken = self.ids.get(slot).is_some_and(|id| *id != 0);
        self.slab.get(slot).filter(|stream| taken && u32::from(stream.generation) == key.0 >> 16)
    }

    /// All streams, to adjust their windows.
    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slab.iter_mut().zip(&self.ids).filter(|(_, id)| **id != 0).map(|(stream, _)| stream)
    }

    /// The keys of all streams.
    pub(super) fn keys(&self) -> Vec<StreamKey> {
        let taken = self.ids.iter().enumerate().filter(|(_, id)| **id != 0);
        taken.map(|(slot, _)| self.key(slot)).collect()
    }

    /// Takes a stream out of its slot.
    #[inline]
    pub(super) fn remove(&mut self, key: StreamKey) {
        self.set_waiting(key, false);
        if let Some(id) = self.ids.get_mut(key.slot()) {
            *id = 0;
            self.open -= 1;
        }
        if self.open == 0 && self.slab.len() > KEPT_STREAMS {
            self.shrink();
        }
    }

    /// Gives the room of an empty slab back.
    pub(super) fn shrink(&mut self) {
        if self.open == 0 {
            (self.ids, self.slab) = (Vec::new(), Vec::new());
        }
    }

    /// Bytes of memory that it holds.
    #[cfg(test)]
    pub(super) fn room_bytes(&self) -> usize {
        self.ids.capacity() * size_of::<u32>() + self.slab.capacity() * size_of::<Stream>()
    }

    /// Notes whether a stream waits for room.
    #[inline]
    pub(super) fn set_waiting(&mut self, key: StreamKey, waiting: bool) {
        let Some(stream) = self.get(key) else { return };
        let before = std::mem::replace(&mut stream.waiting, waiting);
        self.waiting = self.waiting + usize::from(waiting) - usize::from(before);
    }

    /// The waiting stream with room that should be next (9218-10): by urgency; within one, those that are not
    /// incremental in the order of their identifiers, then the others in turn. The stream counts as scheduled then, and
    /// does not wait any more.
    pub(super) fn next_waiting(&mut self) -> Option<StreamKey> {
        let waiting =
            self.slab.iter().enumerate().filter(|(_, stream)| stream.waiting && stream.send_window > 0);
        let order = |stream: &Stream| {
            let Priority { urgency, incremental } = stream.priority;
            (urgency, incremental, if incremental { stream.turn } else { stream.id }, stream.id)
        };
        let slot = waiting.min_by_key(|(_, stream)| order(stream)).map(|(slot, _)| slot)?;
        let key = self.key(slot);
        self.turns = self.turns.wrapping_add(1);
        let turn = self.turns;
        if let Some(stream) = self.get(key) {
            stream.turn = turn;
        }
        self.set_waiting(key, false);
        Some(key)
    }

    /// The key of an identifier that is in the slab.
    #[inline]
    pub(super) fn find(&mut self, id: u32) -> Option<StreamKey> {
        if self.ids.get(self.recent) != Some(&id) {
            self.recent = self.ids.iter().position(|known| *known == id)?;
        }
        Some(self.key(self.recent))
    }

    /// What an identifier stands for. Never 0.
    pub(super) fn standing(&mut self, id: u32) -> Standing {
        if id > self.highest || id.is_multiple_of(2) {
            return Standing::Idle;
        }
        let Some(key) = self.find(id) else { return self.departed(id) };
        match self.peek(key) {
            Some(stream) if stream.reset => self.closed.look_up(id),
            Some(stream) if !stream.remote_ended => Standing::Open(key),
            Some(stream) if !stream.local_ended => Standing::RemoteEnded(key),
            _ => Standing::Ended,
        }
    }

    #[cold]
    fn departed(&self, id: u32) -> Standing {
        if id > self.gap.0 && id < self.gap.1 {
            return Standing::Skipped;
        }
        self.closed.look_up(id)
    }

    /// Notes that a stream was reset.
    pub(super) fn note_reset(&mut self, id: u32, by_peer: bool) {
        self.closed.note(id, by_peer);
    }
}

/// The last streams that were reset. Everything else that is no longer in the slab was ended by both sides.
#[derive(Debug, Default)]
struct Closed {
    /// Identifiers; the highest bit says that the peer did it.
    ring: [u32; RESET_REMEMBERED],
    at: usize,
    /// The highest identifier that had to leave the ring: up to here nothing is known for sure.
    forgotten: u32,
}

const BY_PEER: u32 = 1 << 31;

impl Closed {
    fn note(&mut self, id: u32, by_peer: bool) {
        let entry = if by_peer { id | BY_PEER } else { id };
        if let Some(known) = self.ring.iter_mut().find(|known| **known & !BY_PEER == id) {
            *known = entry;
            return;
        }
        if let Some(place) = self.ring.get_mut(self.at) {
            self.forgotten = self.forgotten.max(*place & !BY_PEER);
            *place = entry;
        }
        self.at = (self.at + 1) % RESET_REMEMBERED;
    }

    fn look_up(&self, id: u32) -> Standing {
        match self.ring.iter().find(|known| **known & !BY_PEER == id) {
            Some(known) if known & BY_PEER != 0 => Standing::PeerReset,
            Some(_) => Standing::Reset,
            // The stream may have been reset long ago, and what still comes is not held against the peer.
            None if id <= self.forgotten => Standing::Reset,
            None => Standing::Ended,
        }
    }
}
