//! Which entry has to go: S3-FIFO ([Yang et al., SOSP 2023](https://doi.org/10.1145/3600006.3613147)), by bytes and by number.
//!
//! New entries go to a small queue, of a tenth of the room. Entries that were asked for meanwhile move to the main queue when
//! they come to its end; the others go, and their hashes are kept for a while: one that comes again so soon goes to the main
//! queue at once. There, each hit that is counted is another round.
//!
//! The queues are lists through an array that has a node for each slot of the table. The lists belong to one process; the next
//! one makes them from the table.

use super::key::Hash;

/// Steps until an entry goes that would stay otherwise: no thread waits for a walk through all of a queue.
const STEPS_MAX: u32 = 256;
/// The share of the small queue, in percent.
const SMALL_PERCENT: u64 = 10;
/// Places of a set of hashes that have gone.
const GHOST_WAYS: usize = 8;

/// A queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    Small,
    Main,
}

/// Of one slot. Places count from 1; 0 is none.
#[derive(Debug, Clone, Copy, Default)]
struct Node {
    before: u32,
    after: u32,
    /// In blocks, and above that the queue: 0 for none.
    size: u32,
}

const SIZE_BITS: u32 = 30;
/// Blocks of an entry at most.
pub(super) const BLOCKS_MAX: u32 = (1 << SIZE_BITS) - 1;

impl Node {
    fn queue(self) -> Option<Queue> {
        match self.size >> SIZE_BITS {
            1 => Some(Queue::Small),
            2 => Some(Queue::Main),
            _ => None,
        }
    }

    fn blocks(self) -> u64 {
        u64::from(self.size & BLOCKS_MAX)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct List {
    first: u32,
    last: u32,
    blocks: u64,
    entries: u32,
}

/// What the queues are told of entries.
pub(super) trait Heat {
    /// Hits that were counted of the entry of this place.
    fn frequency(&self, place: u32) -> u32;
    /// Sets that.
    fn set_frequency(&self, place: u32, frequency: u32);
    /// Notes that the entry is in the main queue from now on.
    fn set_main(&self, place: u32);
}

/// See the module.
#[derive(Debug)]
pub(super) struct Queues {
    nodes: Vec<Node>,
    small: List,
    main: List,
    ghosts: Vec<Ghost>,
    /// Hashes that were entered there.
    gone: u32,
    blocks_max: u64,
    entries_max: u32,
}

/// A hash that has gone, and when.
#[derive(Debug, Clone, Copy, Default)]
struct Ghost {
    hash: u32,
    at: u32,
}

impl Queues {
    pub(super) fn new(places: u32, blocks_max: u64, entries_max: u32) -> Queues {
        // A quarter more than are kept, so that few sets are full of younger ones.
        let ghosts =
            (entries_max as usize + entries_max as usize / 4).div_ceil(GHOST_WAYS).max(1) * GHOST_WAYS;
        Queues {
            nodes: vec![Node::default(); places as usize],
            small: List::default(),
            main: List::default(),
            ghosts: vec![Ghost::default(); ghosts],
            gone: 0,
            blocks_max,
            entries_max,
        }
    }

    pub(super) fn entries(&self) -> u32 {
        self.small.entries + self.main.entries
    }

    pub(super) fn blocks(&self) -> u64 {
        self.small.blocks + self.main.blocks
    }

    /// Whether so much more is within the bounds.
    pub(super) fn has_room(&self, blocks: u64, entries: u32) -> bool {
        self.blocks() + blocks <= self.blocks_max
            && u64::from(self.entries()) + u64::from(entries) <= u64::from(self.entries_max)
    }

    pub(super) fn contains(&self, place: u32) -> bool {
        self.nodes.get(place as usize).is_some_and(|node| node.queue().is_some())
    }

    /// The queue that a new entry goes to.
    pub(super) fn queue_for(&self, hash: Hash) -> Queue {
        let (start, tag) = self.ghosts_of(hash);
        let kept = u64::from(self.entries_max) * (100 - SMALL_PERCENT) / 100;
        let set = self.ghosts.get(start..start + GHOST_WAYS).unwrap_or_default();
        let is = |ghost: &Ghost| ghost.hash == tag && u64::from(self.gone.wrapping_sub(ghost.at)) <= kept;
        if set.iter().any(is) { Queue::Main } else { Queue::Small }
    }

    /// Appends the entry of a place.
    pub(super) fn push(&mut self, place: u32, blocks: u32, queue: Queue) {
        self.remove(place);
        let number = place + 1;
        let list = self.list(queue);
        let before = list.last;
        list.last = number;
        if list.first == 0 {
            list.first = number;
        }
        let blocks = blocks.min(BLOCKS_MAX);
        list.blocks += u64::from(blocks);
        list.entries += 1;
        if let Some(node) = self.node(before) {
            node.after = number;
        }
        let bits = if queue == Queue::Small { 1 } else { 2 } << SIZE_BITS;
        if let Some(node) = self.node(number) {
            *node = Node { before, after: 0, size: blocks | bits };
        }
    }

    /// Takes the entry of a place out, if it is in a queue.
    pub(super) fn remove(&mut self, place: u32) {
        let Some(node) = self.node(place + 1).map(std::mem::take) else { return };
        let Some(queue) = node.queue() else { return };
        if let Some(before) = self.node(node.before) {
            before.after = node.after;
        }
        if let Some(after) = self.node(node.after) {
            after.before = node.before;
        }
        let list = self.list(queue);
        if node.before == 0 {
            list.first = node.after;
        }
        if node.after == 0 {
            list.last = node.before;
        }
        list.blocks -= node.blocks();
        list.entries -= 1;
    }

    /// Notes that an entry is larger, or smaller, now.
    pub(super) fn resize(&mut self, place: u32, blocks: u32) {
        let Some(node) = self.node(place + 1) else { return };
        let before = node.blocks();
        let Some(queue) = node.queue() else { return };
        let blocks = blocks.min(BLOCKS_MAX);
        node.size = node.size & !BLOCKS_MAX | blocks;
        let list = self.list(queue);
        list.blocks = list.blocks - before + u64::from(blocks);
    }

    /// Takes the place of the entry out that is to go. `None` if there is none.
    pub(super) fn evict(&mut self, heat: &impl Heat) -> Option<u32> {
        for step in 0.. {
            let small_is_large = self.small.blocks * 100 > self.blocks_max * SMALL_PERCENT
                || u64::from(self.small.entries) * 100 > u64::from(self.entries_max) * SMALL_PERCENT;
            let is_small = self.small.entries > 0 && (small_is_large || self.main.entries == 0);
            let first = if is_small { self.small.first } else { self.main.first };
            let place = first.checked_sub(1)?;
            let frequency = heat.frequency(place);
            if step >= STEPS_MAX || frequency == 0 {
                self.remove(place);
                return Some(place);
            }
            let blocks = self.node(first).map_or(0, |node| node.blocks() as u32);
            if is_small {
                heat.set_main(place);
            }
            heat.set_frequency(place, if is_small { 0 } else { frequency - 1 });
            self.push(place, blocks, Queue::Main);
        }
        None
    }

    /// Keeps the hash of an entry that has gone from the small queue.
    pub(super) fn note_gone(&mut self, hash: Hash) {
        let (start, tag) = self.ghosts_of(hash);
        self.gone = self.gone.wrapping_add(1);
        let now = self.gone;
        let set = self.ghosts.get_mut(start..start + GHOST_WAYS).unwrap_or_default();
        let age = |ghost: &Ghost| if ghost.hash == tag { u32::MAX } else { now.wrapping_sub(ghost.at) };
        if let Some(oldest) = set.iter_mut().max_by_key(|ghost| age(ghost)) {
            *oldest = Ghost { hash: tag, at: now };
        }
    }

    /// Where the hash may be, and what stands for it there.
    fn ghosts_of(&self, hash: Hash) -> (usize, u32) {
        let sets = self.ghosts.len() / GHOST_WAYS;
        let set = ((u128::from(hash.lo) * sets as u128) >> 64) as usize;
        (set * GHOST_WAYS, (hash.lo as u32).max(1))
    }

    fn list(&mut self, queue: Queue) -> &mut List {
        match queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }

    /// The node of a number; none for 0.
    fn node(&mut self, number: u32) -> Option<&mut Node> {
        self.nodes.get_mut((number as usize).checked_sub(1)?)
    }

    /// Bytes of memory that it takes.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.nodes.capacity() * size_of::<Node>() + self.ghosts.capacity() * size_of::<Ghost>()) as u64
    }
}

#[cfg(test)]
mod tests;
