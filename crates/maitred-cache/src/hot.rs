//! Hot entries, in the memory of the process: shared by all its threads, within bounds of bytes and descriptors.
//!
//! A hit is one lock of one of several parts, one probe, and a comparison of the key. Entries to evict are chosen by CLOCK: a hit
//! only sets a bit, and eviction takes the first entry that the hand finds without it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;

use super::entry::Entry;
use super::key::{Hash, Key};

/// Parts at most. Threads meet at a lock as often as two of them look for keys of one part in the same moment.
const PARTS_MAX: u64 = 64;
/// Largest entries, and files, that a part has to have room for; fewer parts are made where there is less.
const LARGEST_PER_PART: u64 = 8;
const FILES_PER_PART: u64 = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Hot {
    parts: Box<[Mutex<Part>]>,
}

/// What is held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) bytes: u64,
    pub(super) files: u32,
    pub(super) entries: usize,
}

#[derive(Debug, Default)]
struct Part {
    table: HashTable<u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    hand: usize,
    held: Held,
    bytes_max: u64,
    files_max: u32,
}

#[derive(Debug)]
struct Slot {
    entry: Arc<Entry>,
    cost: u64,
    used: bool,
}

impl Hot {
    /// Room for so many bytes and descriptors; one entry has at most about `largest` bytes.
    pub(super) fn new(bytes_max: u64, files_max: u32, largest: u64) -> Hot {
        let by_bytes = bytes_max / (largest.max(1) * LARGEST_PER_PART);
        let parts = by_bytes.min(u64::from(files_max) / FILES_PER_PART).clamp(1, PARTS_MAX);
        let part =
            || Part { bytes_max: bytes_max / parts, files_max: files_max / parts as u32, ..Part::default() };
        Hot { parts: (0..parts).map(|_| Mutex::new(part())).collect() }
    }

    #[inline]
    pub(super) fn find(&self, key: &Key) -> Option<Arc<Entry>> {
        self.part(key.hash)?.find(key.hash, &key.text)
    }

    /// Keeps an entry in place of an older one of its key. False if a newer one is there, or if it is too large.
    pub(super) fn insert(&self, entry: &Arc<Entry>) -> bool {
        self.part(entry.marks.hash).is_some_and(|mut part| part.insert(entry))
    }

    /// Forgets the entry of this key if it has this file, or any file.
    pub(super) fn remove(&self, hash: Hash, file: Option<u64>) {
        if let Some(mut part) = self.part(hash)
            && let Some(index) = part.index(hash)
            && (file.is_none() || part.slot(index).map(|slot| slot.entry.marks.file) == file)
        {
            part.drop_slot(index);
        }
    }

    /// Forgets the entry of this key if it was asked for before this number.
    pub(super) fn remove_older(&self, hash: Hash, number: u64) {
        if let Some(mut part) = self.part(hash)
            && let Some(index) = part.index(hash)
            && part.slot(index).is_some_and(|slot| slot.entry.marks.stamp < number)
        {
            part.drop_slot(index);
        }
    }

    pub(super) fn held(&self) -> Held {
        self.parts.iter().fold(Held::default(), |sum, part| {
            let held = part.lock().unwrap_or_else(PoisonError::into_inner).held;
            Held {
                bytes: sum.bytes + held.bytes,
                files: sum.files + held.files,
                entries: sum.entries + held.entries,
            }
        })
    }

    #[inline]
    fn part(&self, hash: Hash) -> Option<MutexGuard<'_, Part>> {
        let at = (u128::from(hash.lo) * self.parts.len() as u128) >> 64;
        // Nothing that can panic leaves a part half changed, as far as it is looked at: a miss more is the worst.
        self.parts.get(at as usize).map(|part| part.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Part {
    #[inline]
    fn index(&self, hash: Hash) -> Option<u32> {
        let is = |index: &u32| self.slot(*index).is_some_and(|slot| slot.entry.marks.hash == hash);
        self.table.find(hash.hi, is).copied()
    }

    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot> {
        self.slots.get(index as usize)?.as_ref()
    }

    #[inline]
    fn find(&mut self, hash: Hash, text: &[u8]) -> Option<Arc<Entry>> {
        let index = self.index(hash)?;
        let slot = self.slots.get_mut(index as usize)?.as_mut().filter(|slot| *slot.entry.key == *text)?;
        slot.used = true;
        Some(Arc::clone(&slot.entry))
    }

    fn insert(&mut self, entry: &Arc<Entry>) -> bool {
        let hash = entry.marks.hash;
        let before = self.index(hash);
        if let Some(slot) = before.and_then(|index| self.slot(index))
            && slot.entry.marks.age() > entry.marks.age()
        {
            return false;
        }
        if let Some(index) = before {
            self.drop_slot(index);
        }
        let cost = entry.cost_bytes() + (size_of::<Option<Slot>>() + 4 * size_of::<u32>()) as u64;
        let files = entry.cost_files();
        if cost > self.bytes_max || files > self.files_max {
            return false;
        }
        while self.held.bytes + cost > self.bytes_max || self.held.files + files > self.files_max {
            self.evict_one();
        }
        self.held.bytes += cost;
        self.held.files += files;
        self.held.entries += 1;
        // A newcomer has to prove itself: it gets its bit with the first hit.
        let slot = Some(Slot { entry: Arc::clone(entry), cost, used: false });
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        if let Some(place) = self.slots.get_mut(index as usize) {
            *place = slot;
        }
        let slots = &self.slots;
        self.table.insert_unique(hash.hi, index, |index| {
            slots.get(*index as usize).and_then(Option::as_ref).map_or(0, |slot| slot.entry.marks.hash.hi)
        });
        true
    }

    /// Moves the hand until it has thrown one entry out. Ends within two rounds, as each step clears a bit; an empty part is
    /// within any bound, so there is an entry.
    fn evict_one(&mut self) {
        for _ in 0..=2 * self.slots.len() {
            self.hand = if self.hand + 1 < self.slots.len() { self.hand + 1 } else { 0 };
            match self.slots.get_mut(self.hand) {
                Some(Some(slot)) if slot.used => slot.used = false,
                Some(Some(_)) => return self.drop_slot(self.hand as u32),
                Some(None) | None => {}
            }
        }
    }

    fn drop_slot(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize).and_then(Option::take) else { return };
        if let Ok(found) = self.table.find_entry(slot.entry.marks.hash.hi, |other| *other == index) {
            found.remove();
        }
        self.free.push(index);
        self.held.bytes -= slot.cost;
        self.held.files -= slot.entry.cost_files();
        self.held.entries -= 1;
    }
}
