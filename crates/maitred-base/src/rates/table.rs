//! Keys and their times, in memory that all threads of all worker processes share: of a fixed size, without locks.
//!
//! A set is one cache line: five keys, by 32 bits of their hashes, and a word for each: its time ([`Gcra`]), or how many of its
//! requests are under way ([`under_way`](super::under_way)). A key belongs to one set, by the other bits of its hash; a new
//! one takes the place there that is free for longest: never used, or with a time that is over, for which nothing has to be
//! remembered. If there is none, the key whose time is over soonest is forgotten, which is counted. There are 2.5 places
//! for each key that the table is for, so that this is rare: of that many keys, one in a hundred does not find a place
//! (Poisson, five places, two expected). So a key takes 32 bytes.
//!
//! The hash is keyed ([SipHash-1-3](https://www.aumasson.jp/siphash/siphash.pdf)) with random numbers that are made with the
//! table: a client cannot find keys of one set. Keys themselves are not kept: two of one set with the same 32 bits are one. The
//! probability that another key is taken for one that is there is 5 / 2^32, about one in a thousand million.
//!
//! **Threads.** A place is taken by exchanging its hash; its time is then what the key before has left, which is over, and so as
//! good as none. A key that two threads enter at once may be in its set twice for a moment: the first place counts, and the
//! thread that has taken the other gives it back. A thread that has found a place which another key takes in the same moment
//! counts its request for that one: one request is counted for the wrong key, and nothing else goes wrong.
//!
//! **The file.** First what it is ([`Set`] 0), then which worker processes there are, then the sets of times, then those of
//! requests under way; a limit without a rate has none of the former, one without `concurrent` none of the latter.

use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

use maitred_sys::memfile::SharedSlice;
use rustix::rand::{GetRandomFlags, getrandom};
use siphasher::sip::SipHasher13;

use super::gcra::{Gcra, Next};
use super::key::{AddressKey, Key};

/// Places of a set.
pub(super) const WAYS: usize = 5;
/// Worker processes that are noted ([`processes`](super::processes)).
pub(super) const PROCESSES: usize = 64;
/// Sets of the table in which they are noted.
const PROCESS_SETS: usize = PROCESSES.div_ceil(WAYS);
/// Keys that a table is for, for each of its sets.
const KEYS_PER_SET: u32 = 2;
/// What a table begins with: the format, which worker processes of two executables may share.
const FORMAT: u32 = u32::from_be_bytes(*b"lim\x02");
/// How often a request looks for its key again because other threads have changed the set in between; then it passes,
/// uncounted.
pub(super) const ATTEMPTS_MAX: u32 = 64;
/// Sets that are looked at to say how many keys there are: 512 KiB. The sample is all of a table for 16,384 keys; of a larger
/// one, the number is an estimate, a few per cent off where there are many.
const SAMPLE_MAX: usize = 8192;

maitred_sys::shared! {
    /// Five keys; or, at the start of the table, what it is: its format, the key of its hash, how many sets of times there are,
    /// and its counters.
    #[derive(Debug)]
    #[repr(C, align(64))]
    pub(crate) struct Set {
        pub(super) tags: [AtomicU32; WAYS],
        length: AtomicU32,
        pub(super) times: [AtomicU64; WAYS],
    }
}

/// What a table is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Keys at a time.
    pub keys_max: u32,
    /// Whether the table has times of keys.
    pub rate: bool,
    /// Whether the table has requests under way.
    pub concurrent: bool,
}

impl Layout {
    fn sets(self) -> usize {
        self.keys_max.div_ceil(KEYS_PER_SET).max(1) as usize
    }

    fn sets_of_times(self) -> usize {
        if self.rate { self.sets() } else { 0 }
    }

    /// All that its file consists of.
    fn length(self) -> usize {
        let under_way = if self.concurrent { self.sets() } else { 0 };
        1 + PROCESS_SETS + self.sets_of_times() + under_way
    }
}

/// See the module.
#[derive(Debug)]
pub struct Table {
    sets: SharedSlice<Set>,
    seed: (u64, u64),
    /// Where the sets of times are; those of requests under way are behind them.
    times: Range<usize>,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The request is within the rate.
    Pass,
    /// The request is beyond the rate; one that comes so many nanoseconds later is, if no other one comes before.
    Refuse(u64),
}

/// Numbers about a table since it was made, by all worker processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Requests beyond the rate that were refused.
    pub refused: u64,
    /// Requests that would have been, without `dry_run`.
    pub dry_run: u64,
    /// Keys that were forgotten before their time was over.
    pub evicted: u64,
}

/// Counters, by their place at the start of the table.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counter {
    Refused,
    DryRun,
    Evicted,
    /// Worker processes that have used it.
    Processes,
}

impl Table {
    /// An empty table.
    ///
    /// # Errors
    /// What the system says about memory files, or random numbers.
    pub fn create(layout: Layout) -> io::Result<Table> {
        let sets = SharedSlice::<Set>::create("maitred-limit", layout.length())?;
        let mut random = [0; 16];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let [start, ..] = &*sets else { return Err(io::ErrorKind::InvalidData.into()) };
        for (tag, bytes) in start.tags.iter().skip(1).zip(random.chunks(4)) {
            tag.store(bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)), Relaxed);
        }
        start.length.store(layout.sets_of_times() as u32, Relaxed);
        start.tags[0].store(FORMAT, Relaxed);
        Table::of(sets)
    }

    /// A table that another process has made.
    ///
    /// # Errors
    /// `InvalidData` if it is none, or of another format; otherwise what the system says.
    pub fn open(file: OwnedFd) -> io::Result<Table> {
        Table::of(SharedSlice::open(file)?)
    }

    fn of(sets: SharedSlice<Set>) -> io::Result<Table> {
        let first = 1 + PROCESS_SETS;
        let known = |sets: &[Set]| {
            let start = sets.first()?;
            let times = first..first + start.length.load(Relaxed) as usize;
            if start.tags[0].load(Relaxed) != FORMAT || times.end > sets.len() {
                return None;
            }
            let tag = |at: usize| u64::from(start.tags[at].load(Relaxed));
            Some(((tag(1) << 32 | tag(2), tag(3) << 32 | tag(4)), times))
        };
        let what = || {
            io::Error::new(io::ErrorKind::InvalidData, "this is no table of a limit, or of another version")
        };
        let (seed, times) = known(&sets).ok_or_else(what)?;
        Ok(Table { sets, seed, times })
    }

    /// The memory file of the table, to pass on.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.sets.file()
    }

    /// Whether it is as one that is made for this.
    pub fn is_for(&self, layout: Layout) -> bool {
        self.sets.len() == layout.length() && self.times.len() == layout.sets_of_times()
    }

    /// Counts a request of this key that comes at `now`, in nanoseconds of the monotonic clock, unless it is beyond the rate.
    #[inline]
    pub fn ask(&self, key: Key<'_>, rate: &Gcra, now: u64) -> Verdict {
        self.ask_hash(self.hash(key), rate, now)
    }

    /// Takes back that a request of this key was counted.
    pub fn take_back(&self, key: Key<'_>, rate: &Gcra) {
        let hash = self.hash(key);
        let Some(set) = set_of(self.times(), hash) else { return };
        if let Some(place) = find(set, tag_of(hash)) {
            let _ = set.times[place].fetch_update(Relaxed, Relaxed, |time| Some(rate.before(time)));
        }
    }

    pub(super) fn hash(&self, key: Key<'_>) -> u64 {
        // Each kind has its own hash: the text of a field is no address, whatever it says.
        let hasher = |kind: u64| SipHasher13::new_with_keys(self.seed.0 ^ kind, self.seed.1);
        match key {
            Key::Address(AddressKey::V4(bits)) => hasher(0).hash(&bits.to_ne_bytes()),
            Key::Address(AddressKey::V6(bits)) => hasher(0).hash(&bits.to_ne_bytes()),
            Key::Text(text) => hasher(1).hash(text),
            Key::Route(number) => hasher(2).hash(&number.to_ne_bytes()),
        }
    }

    fn ask_hash(&self, hash: u64, rate: &Gcra, now: u64) -> Verdict {
        let Some(set) = set_of(self.times(), hash) else { return Verdict::Pass };
        let hash = tag_of(hash);
        for _ in 0..ATTEMPTS_MAX {
            let Some(place) = find(set, hash).or_else(|| self.enter(set, hash, now)) else { continue };
            let (tag, time) = (&set.tags[place], &set.times[place]);
            let mut arrival = time.load(Relaxed);
            // Another thread has counted a request of this key, or another key has its place now.
            while tag.load(Relaxed) == hash {
                let (next, verdict) = match rate.next(arrival, now) {
                    Next::Pass(next) => (next, Some(Verdict::Pass)),
                    Next::Refuse(wait) => return Verdict::Refuse(wait),
                    Next::Clamp(most) => (most, None),
                };
                match (time.compare_exchange_weak(arrival, next, Relaxed, Relaxed), verdict) {
                    (Ok(_), Some(verdict)) => return verdict,
                    (Ok(_), None) => arrival = next,
                    (Err(present), _) => arrival = present,
                }
            }
        }
        Verdict::Pass
    }

    fn times(&self) -> &[Set] {
        self.sets.get(self.times.clone()).unwrap_or_default()
    }

    /// The sets of requests under way.
    pub(super) fn under_way(&self) -> &[Set] {
        self.sets.get(self.times.end..).unwrap_or_default()
    }

    /// The sets that say which worker processes there are.
    pub(super) fn processes(&self) -> &[Set] {
        self.sets.get(1..=PROCESS_SETS).unwrap_or_default()
    }

    /// Gives a key a place. `None` if another thread was faster.
    #[cold]
    fn enter(&self, set: &Set, hash: u32, now: u64) -> Option<usize> {
        let of = |place: usize| (set.tags[place].load(SeqCst), set.times[place].load(Relaxed));
        let mut best = (0, of(0));
        for place in 1..WAYS {
            let seen = of(place);
            if seen.1 < best.1.1 {
                best = (place, seen);
            }
        }
        let (place, (tag, time)) = best;
        if time > now {
            // What it owes must not be the new one's.
            set.times[place].compare_exchange(time, 0, SeqCst, SeqCst).ok()?;
            self.count(Counter::Evicted);
        }
        set.tags[place].compare_exchange(tag, hash, SeqCst, SeqCst).ok()?;
        // Of two threads that enter the same key, at least the later one sees the other's place: each writes first.
        let first = find(set, hash)?;
        if first != place {
            let _ = set.tags[place].compare_exchange(hash, 0, SeqCst, SeqCst);
        }
        Some(first)
    }

    /// Counts one more. Gives back how many there were.
    pub(super) fn count(&self, counter: Counter) -> u64 {
        self.sets.first().map_or(0, |start| start.times[counter as usize].fetch_add(1, SeqCst))
    }

    /// Counts a request that was refused, or would have been.
    pub fn note_refused(&self, dry_run: bool) {
        self.count(if dry_run { Counter::DryRun } else { Counter::Refused });
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        let get = |counter: Counter| {
            self.sets.first().map_or(0, |start| start.times[counter as usize].load(Relaxed))
        };
        Counts {
            refused: get(Counter::Refused),
            dry_run: get(Counter::DryRun),
            evicted: get(Counter::Evicted),
        }
    }

    /// How many keys there are at `now` for which something has to be remembered; an estimate for large tables. Keys of
    /// requests under way count where there is no rate.
    pub fn keys(&self, now: u64) -> u64 {
        let times = self.times();
        let (sets, over) = if times.is_empty() { (self.under_way(), 0) } else { (times, now) };
        let sample = &sets[..sets.len().min(SAMPLE_MAX)];
        let used = |set: &Set| set.times.iter().filter(|time| time.load(Relaxed) > over).count() as u64;
        let found: u64 = sample.iter().map(used).sum();
        (u128::from(found) * sets.len() as u128 / sample.len().max(1) as u128) as u64
    }
}

/// The set of a hash. The upper bits of a product choose it, so that their number need not be a power of two (Lemire).
#[inline]
pub(super) fn set_of(sets: &[Set], hash: u64) -> Option<&Set> {
    sets.get(((u128::from(hash) * sets.len() as u128) >> 64) as usize)
}

/// What stands for a key in its set: the bits of its hash that do not choose that.
#[inline]
pub(super) fn tag_of(hash: u64) -> u32 {
    // 0 is a place that was never used.
    (hash as u32).max(1)
}

#[inline]
pub(super) fn find(set: &Set, tag: u32) -> Option<usize> {
    set.tags.iter().position(|found| found.load(SeqCst) == tag)
}

#[cfg(test)]
mod tests;
