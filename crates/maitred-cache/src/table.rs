//! The index: where entries are, in memory that all threads of all worker processes share. The index belongs to the master, so
//! that it stays when they are replaced.
//!
//! **A table of hints.** What a file says is true; a slot only says that there may be a file of this hash. So a slot may be torn,
//! out of date or missing: that costs a miss. Slots are read and written without locks. Each has a check word of all that it
//! says: one of which two processes have written halves, or that was not finished by one that was killed, says nothing and is
//! free.
//!
//! **Sets.** A key belongs to one set, by its hash. The set begins with 32 bits of the hash of each slot, so that looking for a
//! key reads two cache lines, and a third if it is there. There are 32 slots for 22 entries. Where a set is full the least used
//! one has to go; of as many entries as the table is for, that befalls one in 500.
//!
//! **Generations.** When a key is purged or removed, the generation of its part of all keys grows, in all processes at once. What
//! was taken from the disk before, or is being written, is of an older generation then, and not served or published any more.
//!
//! **The file**: one set with numbers ([`Word`]), sets with the generations, sets with keys that are not stored
//! ([`Table::pass`]), and the sets of slots.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use maitred_sys::memfile::SharedSlice;
use rustix::rand::{GetRandomFlags, getrandom};

use super::key::Hash;

/// Slots of a set.
const WAYS: usize = 32;
/// Entries that a set is for.
const ENTRIES_PER_SET: u32 = 22;
/// Words that a slot has.
const WORDS: usize = 4;
/// Words of a set that is used for numbers.
const WORDS_PER_SET: usize = WAYS * WORDS;
/// What a table begins with: the format, which worker processes of two executables may share.
const FORMAT: u64 = u64::from_be_bytes(*b"cache\0\0\x01");
/// Parts of all keys that have a generation each.
const GENERATIONS: usize = 4096;
/// Places for keys that are not stored, of a group of them.
const PASSES_PER_GROUP: usize = 4;
/// Groups of them at least.
const PASS_GROUPS_MIN: usize = 256;
/// How often a slot that is being written is read again.
const ATTEMPTS_MAX: u32 = 4;
/// Hits that are counted of an entry.
const FREQUENCY_MAX: u32 = 3;
/// Bits of [`Slot::heat`] beside the hits.
pub(super) const MAIN: u32 = 0x100;
pub(super) const VERIFIED: u32 = 0x200;
pub(super) const CONFIRMED: u32 = 0x400;

maitred_sys::shared! {
    /// What is known of one entry: its hash, the number of its file, and its size with the time until when it is of use.
    #[derive(Debug)]
    #[repr(C)]
    struct Slot {
        words: [AtomicU64; WORDS],
        /// Of the words.
        check: AtomicU32,
        /// Hits, and which queue it is in.
        heat: AtomicU32,
    }

    /// Some slots, with a part of the hash of each; 0 is a free one.
    #[derive(Debug)]
    #[repr(C, align(64))]
    struct Set {
        tags: [AtomicU32; WAYS],
        slots: [Slot; WAYS],
    }
}

/// Numbers at the start of the table.
#[derive(Debug, Clone, Copy)]
enum Word {
    Format,
    EntriesMax,
    /// Which directory it is of; 0 if of none yet.
    Seed,
    /// How far it was filled from the directory: that many of 256, and one more if it is complete.
    Progress,
    /// The next number of a file or head.
    Number,
    /// The system's start that it was made in.
    Boot,
    /// How often the rules of purges have changed.
    Rules,
}

/// What a slot says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) hash: Hash,
    pub(super) file: u64,
    /// The size of the file, in blocks of [`BLOCK_BYTES`].
    pub(super) blocks: u32,
    /// Seconds since 1970.
    pub(super) keep_until: u32,
}

/// What sizes of files are counted in.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// How many blocks a file of this size takes.
pub(super) fn blocks(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(BLOCK_BYTES)).unwrap_or(u32::MAX)
}

/// See the module.
#[derive(Debug)]
pub struct Table {
    sets: SharedSlice<Set>,
    layout: Layout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    /// Sets before the passes.
    passes: usize,
    pass_groups: usize,
    /// Sets before the slots.
    slots: usize,
    all: usize,
}

impl Layout {
    fn of(entries_max: u32) -> Layout {
        let passes = 1 + GENERATIONS.div_ceil(WORDS_PER_SET);
        let pass_groups = (entries_max as usize / 32).max(PASS_GROUPS_MIN);
        let slots = passes + (pass_groups * PASSES_PER_GROUP * 2).div_ceil(WORDS_PER_SET);
        Layout {
            passes,
            pass_groups,
            slots,
            all: slots + entries_max.div_ceil(ENTRIES_PER_SET).max(1) as usize,
        }
    }
}

impl Table {
    /// An empty table for so many entries. `boot` is a number that another start of the system has another one of, 0 if there is
    /// none: what was written since then is in the memory of the kernel as it was written, whatever has happened to processes.
    ///
    /// # Errors
    /// What the system says about memory files, or random numbers.
    pub fn create(entries_max: u32, boot: u64) -> io::Result<Table> {
        let layout = Layout::of(entries_max);
        let table = Table { sets: SharedSlice::create("maitred-cache", layout.all)?, layout };
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let boot = if boot == 0 { u64::from_ne_bytes(random) } else { boot };
        let set = |word, value| table.word(word).map(|place| place.store(value, Relaxed));
        let written = [
            set(Word::EntriesMax, u64::from(entries_max)),
            set(Word::Boot, boot),
            set(Word::Number, 1),
            set(Word::Format, FORMAT),
        ];
        debug_assert!(written.iter().all(Option::is_some), "the first set has room for the numbers");
        Ok(table)
    }

    /// A table that another process has made.
    ///
    /// # Errors
    /// `InvalidData` if it is none, or of another format; otherwise what the system says.
    pub fn open(file: OwnedFd) -> io::Result<Table> {
        let sets = SharedSlice::<Set>::open(file)?;
        let mut table = Table { sets, layout: Layout { passes: 0, pass_groups: 0, slots: 0, all: 0 } };
        let layout = u32::try_from(table.get(Word::EntriesMax)).map(Layout::of).ok();
        match layout.filter(|layout| table.get(Word::Format) == FORMAT && layout.all == table.sets.len()) {
            Some(layout) => table.layout = layout,
            None => {
                let text = "this is no table of a cache, or of another version";
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        Ok(table)
    }

    /// The memory file of the table, to pass on.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.sets.file()
    }

    /// Whether it is as one that is made for so many entries.
    pub fn is_for(&self, entries_max: u32) -> bool {
        self.get(Word::EntriesMax) == u64::from(entries_max)
    }

    fn word(&self, word: Word) -> Option<&AtomicU64> {
        self.number_at(0, word as usize)
    }

    fn get(&self, word: Word) -> u64 {
        self.word(word).map_or(0, |place| place.load(Acquire))
    }

    /// The word of this place in the sets from `base` on.
    #[inline]
    fn number_at(&self, base: usize, at: usize) -> Option<&AtomicU64> {
        let set = self.sets.get(base + at / WORDS_PER_SET)?;
        let at = at % WORDS_PER_SET;
        set.slots.get(at / WORDS)?.words.get(at % WORDS)
    }

    /// The system's start that it was made in.
    pub(super) fn boot(&self) -> u64 {
        self.get(Word::Boot)
    }

    /// Numbers from this one on are used from now on, if they are not already.
    pub(super) fn begin_numbers_at(&self, number: u64) {
        if let Some(place) = self.word(Word::Number) {
            place.fetch_max(number, SeqCst);
        }
    }

    /// A number that is greater than all before.
    pub(super) fn next_number(&self) -> u64 {
        self.word(Word::Number).map_or(0, |place| place.fetch_add(1, SeqCst))
    }

    /// Whether it is of the directory with this mark.
    pub(super) fn is_of(&self, seed: u64) -> bool {
        self.get(Word::Seed) == seed
    }

    /// Empties it: it is of another directory from now on.
    pub(super) fn reset(&self, seed: u64) {
        if let Some(place) = self.word(Word::Progress) {
            place.store(0, Release);
        }
        for set in self.sets.get(self.layout.slots..).unwrap_or_default() {
            set.tags.iter().for_each(|tag| tag.store(0, Relaxed));
        }
        if let Some(place) = self.word(Word::Seed) {
            place.store(seed, Release);
        }
    }

    /// How many of the 256 directories were read; 257 once it is complete.
    pub(super) fn progress(&self) -> u64 {
        self.get(Word::Progress)
    }

    /// Notes that at least so many were read.
    pub(super) fn note_progress(&self, progress: u64) {
        if let Some(place) = self.word(Word::Progress) {
            place.fetch_max(progress, SeqCst);
        }
    }

    /// How often the rules of purges have changed.
    #[inline]
    pub(super) fn rules(&self) -> u64 {
        self.get(Word::Rules)
    }

    /// Notes that the rules have changed. Gives back how often that was before.
    pub(super) fn note_rules(&self) -> u64 {
        self.word(Word::Rules).map_or(0, |place| place.fetch_add(1, SeqCst))
    }

    #[inline]
    fn generation_cell(&self, hash: Hash) -> Option<&AtomicU64> {
        self.number_at(1, hash.lo as usize % GENERATIONS)
    }

    /// The generation of this key, and of others.
    #[inline]
    pub(super) fn generation(&self, hash: Hash) -> u64 {
        self.generation_cell(hash).map_or(0, |cell| cell.load(SeqCst))
    }

    fn next_generation(&self, hash: Hash) {
        if let Some(cell) = self.generation_cell(hash) {
            cell.fetch_add(1, SeqCst);
        }
    }

    /// The places that may hold a key that is not stored: its hash, and until when.
    fn passes(&self, hash: Hash) -> impl Iterator<Item = (&AtomicU64, &AtomicU64)> {
        let group = ((u128::from(hash.hi) * self.layout.pass_groups as u128) >> 64) as usize;
        (0..PASSES_PER_GROUP).filter_map(move |way| {
            let at = (group * PASSES_PER_GROUP + way) * 2;
            let base = self.layout.passes;
            Some((self.number_at(base, at)?, self.number_at(base, at + 1)?))
        })
    }

    /// Notes that a key is not to be stored until then. The note that ends soonest makes room for it. Two threads that write at
    /// once may leave the hash of one beside the time of the other: a key more, or less, is not stored for a while.
    pub(super) fn pass(&self, hash: Hash, until: u64) {
        let known = self.passes(hash).find(|(key, _)| key.load(Relaxed) == hash.lo);
        let place = known.or_else(|| self.passes(hash).min_by_key(|(_, until)| until.load(Relaxed)));
        if let Some((key, end)) = place {
            end.store(until, Relaxed);
            key.store(hash.lo, Release);
        }
    }

    /// Whether it is not to be stored.
    pub(super) fn is_passed(&self, hash: Hash, now: u64) -> bool {
        self.passes(hash).any(|(key, until)| key.load(Acquire) == hash.lo && until.load(Relaxed) > now)
    }

    #[inline]
    fn set_of(&self, hash: Hash) -> usize {
        // The upper bits of a product choose it, so that their number need not be a power of two (Lemire).
        let sets = self.layout.all - self.layout.slots;
        ((u128::from(hash.hi) * sets as u128) >> 64) as usize
    }

    #[inline]
    fn set(&self, set: usize) -> Option<&Set> {
        self.sets.get(self.layout.slots + set)
    }

    #[inline]
    fn slot(&self, place: u32) -> Option<(&Slot, &AtomicU32)> {
        let (set, way) = (place as usize / WAYS, place as usize % WAYS);
        let set = self.set(set)?;
        Some((set.slots.get(way)?, set.tags.get(way)?))
    }

    /// How many slots there are.
    pub(super) fn places(&self) -> u32 {
        ((self.layout.all - self.layout.slots) * WAYS) as u32
    }

    /// The places where a key may be.
    pub(super) fn places_of(&self, hash: Hash) -> std::ops::Range<u32> {
        let first = (self.set_of(hash) * WAYS) as u32;
        first..first + WAYS as u32
    }

    /// Where a key is, and what is said about it.
    #[inline]
    pub(super) fn find(&self, hash: Hash) -> Option<(u32, Record)> {
        let (index, tag) = (self.set_of(hash), tag_of(hash));
        let set = self.set(index)?;
        let ways = set.tags.iter().enumerate().filter(|(_, found)| found.load(Acquire) == tag);
        ways.map(|(way, _)| (index * WAYS + way) as u32).find_map(|place| {
            self.read(place).filter(|record| record.hash == hash).map(|record| (place, record))
        })
    }

    /// What the slot says, if it says something.
    pub(super) fn read(&self, place: u32) -> Option<Record> {
        let (slot, tag) = self.slot(place)?;
        for _ in 0..ATTEMPTS_MAX {
            if tag.load(Acquire) == 0 {
                return None;
            }
            let check = slot.check.load(Acquire);
            let words = [0, 1, 2, 3].map(|at: usize| slot.words.get(at).map_or(0, |word| word.load(Relaxed)));
            fence(Acquire);
            let record = Record::of(words);
            if check == check_of(words) && tag.load(Relaxed) == tag_of(record.hash) {
                return Some(record);
            }
        }
        None
    }

    /// Writes a slot, whatever is in it.
    pub(super) fn write(&self, place: u32, record: &Record, heat: u32) {
        let Some((slot, tag)) = self.slot(place) else { return };
        tag.store(0, Release);
        fence(AcqRel);
        let words = record.words();
        slot.words.iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
        slot.check.store(check_of(words), Release);
        slot.heat.store(heat, Relaxed);
        tag.store(tag_of(record.hash), Release);
    }

    /// Frees a slot.
    pub(super) fn clear(&self, place: u32) {
        if let Some((_, tag)) = self.slot(place) {
            tag.store(0, Release);
        }
    }

    /// What there is of a key is not to be found any more, in any process: what was taken from the disk before is of an older
    /// generation, and so is what was while the slot was freed. What is being published is of an older one, too, and finds that
    /// before it is confirmed. The lock of those who write is not taken: if another key gets the slot in the same moment, that
    /// may be lost.
    pub(super) fn withdraw(&self, hash: Hash) {
        self.next_generation(hash);
        self.clear_hash(hash);
        self.next_generation(hash);
    }

    fn clear_hash(&self, hash: Hash) {
        if let Some((place, _)) = self.find(hash)
            && let Some((_, tag)) = self.slot(place)
        {
            let _ = tag.compare_exchange(tag_of(hash), 0, SeqCst, Relaxed);
        }
    }

    /// Hits, and [`MAIN`], [`VERIFIED`] and [`CONFIRMED`].
    pub(super) fn heat(&self, place: u32) -> u32 {
        self.slot(place).map_or(0, |(slot, _)| slot.heat.load(Relaxed))
    }

    fn change_heat(&self, place: u32, clear: u32, set: u32) {
        if let Some((slot, _)) = self.slot(place) {
            let _ = slot.heat.fetch_update(Relaxed, Relaxed, |heat| Some(heat & !clear | set));
        }
    }

    /// Counts a hit. Most hits of what is hot find it counted enough, and write nothing.
    #[inline]
    pub(super) fn touch(&self, place: u32) {
        if let Some((slot, _)) = self.slot(place) {
            let heat = slot.heat.load(Relaxed);
            if heat & 0xff < FREQUENCY_MAX {
                // Of two threads, one may be lost: it is an estimate.
                let _ = slot.heat.compare_exchange(heat, heat + 1, Relaxed, Relaxed);
            }
        }
    }

    /// Hits that are counted.
    pub(super) fn frequency(&self, place: u32) -> u32 {
        self.heat(place) & 0xff
    }

    pub(super) fn set_frequency(&self, place: u32, frequency: u32) {
        self.change_heat(place, 0xff, frequency.min(FREQUENCY_MAX));
    }

    pub(super) fn is_main(&self, place: u32) -> bool {
        self.heat(place) & MAIN != 0
    }

    pub(super) fn set_main(&self, place: u32) {
        self.change_heat(place, 0, MAIN);
    }

    /// Whether the body of this file is known to be as it was written.
    pub(super) fn is_verified(&self, place: u32) -> bool {
        self.heat(place) & VERIFIED != 0
    }

    pub(super) fn set_verified(&self, place: u32) {
        self.change_heat(place, 0, VERIFIED);
    }

    /// Whether it was not purged while the file got its name: until that is known no thread reads it.
    pub(super) fn is_confirmed(&self, place: u32) -> bool {
        self.heat(place) & CONFIRMED != 0
    }

    pub(super) fn set_confirmed(&self, place: u32) {
        self.change_heat(place, 0, CONFIRMED);
    }

    /// As another process may leave a slot.
    #[cfg(test)]
    pub(super) fn scribble(&self, place: u32, word: usize, value: u64) {
        let (slot, tag) = self.slot(place).unwrap();
        match word {
            0..WORDS => slot.words[word].store(value, Relaxed),
            WORDS => slot.check.store(value as u32, Relaxed),
            _ => tag.store(0, Relaxed),
        }
    }

    /// Bytes of memory that it takes.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.sets) as u64
    }
}

impl Record {
    fn words(&self) -> [u64; WORDS] {
        let size = u64::from(self.blocks) << 32 | u64::from(self.keep_until);
        [self.hash.hi, self.hash.lo, self.file, size]
    }

    fn of([hi, lo, file, size]: [u64; WORDS]) -> Record {
        Record { hash: Hash { hi, lo }, file, blocks: (size >> 32) as u32, keep_until: size as u32 }
    }
}

/// What stands for a key in its set: bits of its hash that do not choose that. 0 is a free slot.
#[inline]
fn tag_of(hash: Hash) -> u32 {
    (hash.hi as u32).max(1)
}

/// Of words of which some are older than the others, another one.
#[inline]
fn check_of(words: [u64; WORDS]) -> u32 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let sum = words.into_iter().fold(0x2545_f491_4f6c_dd1d, mix);
    (sum ^ sum >> 32) as u32
}

#[cfg(test)]
mod tests;
