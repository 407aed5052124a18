//! The table, and the queues that say which of its entries has to go.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::key::Hash;
use super::queues::{BLOCKS_MAX, Heat, Queue, Queues};
use super::table::{BLOCK_BYTES, MAIN, Record, Table};

/// Entries that go before the lock is left for a moment.
const EVICT_AT_ONCE: usize = 64;
/// Slots that are entered into the queues before that.
const ATTACH_AT_ONCE: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) table: Table,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    queues: Queues,
    /// Blocks of files that are being written, and how many those are.
    reserved: Room,
}

/// What a file takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) blocks: u64,
    pub(super) entries: u32,
}

impl Heat for Table {
    fn frequency(&self, place: u32) -> u32 {
        Table::frequency(self, place)
    }

    fn set_frequency(&self, place: u32, frequency: u32) {
        Table::set_frequency(self, place, frequency);
    }

    fn set_main(&self, place: u32) {
        Table::set_main(self, place);
    }
}

impl Index {
    pub(super) fn new(table: Table, bytes_max: u64, entries_max: u32) -> Index {
        let queues = Queues::new(table.places(), bytes_max / BLOCK_BYTES, entries_max);
        Index { table, state: Mutex::new(State { queues, reserved: Room::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Entries, and blocks of their files.
    pub(super) fn held(&self) -> (u32, u64) {
        let state = self.lock();
        (state.queues.entries(), state.queues.blocks())
    }

    /// Whether a file of so many blocks could be stored at all.
    pub(super) fn could_hold(&self, blocks: u32, bytes_max: u64) -> bool {
        u64::from(blocks) <= bytes_max / BLOCK_BYTES && blocks <= BLOCKS_MAX
    }

    /// Reserves room for something that is to be written. Entries that have to go for that are taken out, and given to `gone`,
    /// which removes their files, without a lock. False if there is no room, because too much is being written.
    pub(super) fn reserve(&self, room: Room, mut gone: impl FnMut(&Record)) -> bool {
        loop {
            let (victims, done) = self.lock().reserve(&self.table, room);
            victims.iter().for_each(&mut gone);
            if let Some(done) = done {
                return done;
            }
        }
    }

    /// Gives room back that was reserved.
    pub(super) fn release(&self, room: Room) {
        let mut state = self.lock();
        state.reserved.blocks = state.reserved.blocks.saturating_sub(room.blocks);
        state.reserved.entries = state.reserved.entries.saturating_sub(room.entries);
    }

    /// Makes room until everything is within the bounds.
    pub(super) fn trim(&self, gone: impl FnMut(&Record)) {
        self.reserve(Room::default(), gone);
    }

    /// Enters a file, for which room was reserved, in place of another one of its key. Gives back its place, and an entry that
    /// had to go because there are too many of similar hashes.
    pub(super) fn insert(&self, record: &Record, room: Room, heat: u32) -> (u32, Option<Record>) {
        let mut state = self.lock();
        state.reserved.blocks = state.reserved.blocks.saturating_sub(room.blocks);
        state.reserved.entries = state.reserved.entries.saturating_sub(room.entries);
        let (place, victim) = state.place_for(&self.table, record.hash);
        if let Some(victim) = victim {
            state.queues.note_gone(victim.hash);
        }
        let queue = if heat & MAIN != 0 { Queue::Main } else { state.queues.queue_for(record.hash) };
        self.table.write(place, record, if queue == Queue::Main { heat | MAIN } else { heat });
        state.queues.push(place, record.blocks, queue);
        (place, victim)
    }

    /// Writes anew what is said about a file.
    pub(super) fn change(&self, record: &Record) {
        let mut state = self.lock();
        if let Some((place, before)) = self.table.find(record.hash)
            && before.file == record.file
        {
            if *record != before {
                self.table.write(place, record, self.table.heat(place));
            }
            state.queues.resize(place, record.blocks);
        }
    }

    /// Takes out the entry of a key, if it has no newer file than this one.
    pub(super) fn forget(&self, hash: Hash, file: u64) {
        let mut state = self.lock();
        if let Some((place, record)) = self.table.find(hash)
            && record.file <= file
        {
            self.table.clear(place);
            state.queues.remove(place);
        }
    }

    /// Notes an entry that another process has entered.
    pub(super) fn adopt(&self, place: u32, record: &Record) {
        self.lock().adopt(&self.table, place, record);
    }

    /// Enters what the table has into the queues, in the order in which it was stored.
    pub(super) fn attach(&self) {
        let of = |place| self.table.read(place).map(|record| (record.file, place));
        let mut found: Vec<(u64, u32)> = (0..self.table.places()).filter_map(of).collect();
        found.sort_unstable();
        for some in found.chunks(ATTACH_AT_ONCE) {
            let mut state = self.lock();
            for (file, place) in some {
                if let Some(record) = self.table.read(*place).filter(|record| record.file == *file) {
                    state.adopt(&self.table, *place, &record);
                }
            }
        }
    }

    /// Bytes of memory that it takes, shared or not.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> u64 {
        self.lock().queues.memory_bytes() + self.table.memory_bytes()
    }
}

impl State {
    /// Some of the entries that have to go, and whether there is room then; `None` if others have to go, too.
    fn reserve(&mut self, table: &Table, room: Room) -> (Vec<Record>, Option<bool>) {
        let mut victims = Vec::new();
        for _ in 0..EVICT_AT_ONCE {
            let blocks = self.reserved.blocks + room.blocks;
            let entries = self.reserved.entries.saturating_add(room.entries);
            if self.queues.has_room(blocks, entries) {
                self.reserved = Room { blocks, entries };
                return (victims, Some(true));
            }
            let was_main = |place| table.is_main(place);
            let Some(place) = self.queues.evict(table) else { return (victims, Some(false)) };
            // Of one that another process has removed, nothing is left to be removed.
            if let Some(record) = table.read(place) {
                if !was_main(place) {
                    self.queues.note_gone(record.hash);
                }
                table.clear(place);
                victims.push(record);
            }
        }
        (victims, None)
    }

    /// Where a key is, or can be: the place that it has, a free one, or that of the entry which is used least.
    fn place_for(&mut self, table: &Table, hash: Hash) -> (u32, Option<Record>) {
        let mut free = None;
        let mut least: Option<(u64, u32, Record)> = None;
        for place in table.places_of(hash) {
            let Some(record) = table.read(place) else {
                self.queues.remove(place);
                free = free.or(Some(place));
                continue;
            };
            if record.hash == hash {
                return (place, None);
            }
            self.adopt(table, place, &record);
            let use_of = u64::from(table.frequency(place)) << 1 | u64::from(table.is_main(place));
            if least.is_none_or(|(least_use, _, before)| (use_of, record.file) < (least_use, before.file)) {
                least = Some((use_of, place, record));
            }
        }
        match (free, least) {
            (Some(place), _) => (place, None),
            (None, Some((_, place, record))) => (place, Some(record)),
            (None, None) => (table.places_of(hash).start, None),
        }
    }

    fn adopt(&mut self, table: &Table, place: u32, record: &Record) {
        if self.queues.contains(place) {
            self.queues.resize(place, record.blocks);
        } else {
            let queue = if table.is_main(place) { Queue::Main } else { Queue::Small };
            self.queues.push(place, record.blocks, queue);
        }
    }
}

#[cfg(test)]
mod tests;
