//! Keys and their times, in memory that all threads of all worker processes share: of a fixed size, without locks.
//!
//! A set is two cache lines: the hashes of eight keys, and their times ([`Gcra`]). A key belongs to one set, by its hash; a new
//! one takes the place there that is free for longest: never used, or with a time that is over, for which nothing has to be
//! remembered. If there is none, the key whose time is over soonest is forgotten, which is counted. There are twice as many
//! places as keys that the table is for, so that this is rare: of that many keys, one in a hundred does not find a place
//! (Poisson, eight places, four expected). So a key takes 32 bytes.
//!
//! The hash is keyed ([SipHash-1-3](https://www.aumasson.jp/siphash/siphash.pdf)) with random numbers that are made with the
//! table: a client cannot find keys of one set. Keys themselves are not kept: two with one hash of 64 bits are one.
//!
//! **Threads.** A place is taken by exchanging its hash; its time is then what the key before has left, which is over, and so as
//! good as none. A key that two threads enter at once may be in its set twice for a moment: the first place counts, and the
//! thread that has taken the other gives it back. A thread that has found a place which another key takes in the same moment
//! counts its request for that one: one request is counted for the wrong key, and nothing else goes wrong.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use maitred_sys::memfile::SharedSlice;
use rustix::rand::{GetRandomFlags, getrandom};
use siphasher::sip::SipHasher13;

use super::gcra::{Gcra, Next};
use super::key::{AddressKey, Key};

/// Places of a set.
const WAYS: usize = 8;
/// Places for each key that the table is for.
const PLACES_PER_KEY: u64 = 2;
/// Bytes of memory for each key.
pub const BYTES_PER_KEY: u64 = 16 * PLACES_PER_KEY;
/// What a table begins with: the format, which worker processes of two executables may share.
const FORMAT: u64 = u64::from_be_bytes(*b"rates\0\0\x01");
/// How often a request looks for its key again because other threads have changed the set in between; then it passes,
/// uncounted.
const ATTEMPTS_MAX: u32 = 64;
/// Sets that are looked at to say how many keys there are: 256 KiB. That is all of a table for 16,384 keys; of a larger one, it
/// is an estimate, a few per cent off where there are many.
const SAMPLE_MAX: usize = 4096;

maitred_sys::shared! {
    /// Eight keys; or, at the start of the table, what it is: its format, the key of its hash, and its counters.
    #[derive(Debug)]
    #[repr(C, align(128))]
    pub struct Set {
        tags: [AtomicU64; WAYS],
        times: [AtomicU64; WAYS],
    }
}

/// See the module.
#[derive(Debug)]
pub struct Table {
    sets: SharedSlice<Set>,
    seed: (u64, u64),
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is within the rate.
    Pass,
    /// It is not; one that comes so many nanoseconds later is, if no other one comes before.
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
enum Counter {
    Refused,
    DryRun,
    Evicted,
}

impl Table {
    /// An empty table for so many keys.
    ///
    /// # Errors
    /// What the system says about memory files, or random numbers.
    pub fn create(keys_max: u32) -> io::Result<Table> {
        let sets = SharedSlice::<Set>::create("maitred-limit", Table::sets_for(keys_max) + 1)?;
        let mut random = [0; 16];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let [start, ..] = &*sets else { return Err(io::ErrorKind::InvalidData.into()) };
        let (low, high) = random.split_at(8);
        for (place, half) in [(1, low), (2, high)] {
            start.tags[place].store(half.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), Relaxed);
        }
        start.tags[0].store(FORMAT, Relaxed);
        Table::of(sets)
    }

    /// One that another process has made.
    ///
    /// # Errors
    /// `InvalidData` if it is none, or of another format; otherwise what the system says.
    pub fn open(file: OwnedFd) -> io::Result<Table> {
        Table::of(SharedSlice::open(file)?)
    }

    fn of(sets: SharedSlice<Set>) -> io::Result<Table> {
        let known = |sets: &[Set]| match sets {
            [start, _, ..] if start.tags[0].load(Relaxed) == FORMAT => {
                Some((start.tags[1].load(Relaxed), start.tags[2].load(Relaxed)))
            }
            _ => None,
        };
        let what = || {
            io::Error::new(io::ErrorKind::InvalidData, "this is no table of a limit, or of another version")
        };
        let seed = known(&sets).ok_or_else(what)?;
        Ok(Table { sets, seed })
    }

    /// Its memory file, to pass on.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.sets.file()
    }

    /// Whether it is as large as one for so many keys.
    pub fn is_for(&self, keys_max: u32) -> bool {
        self.sets.len() == Table::sets_for(keys_max) + 1
    }

    fn sets_for(keys_max: u32) -> usize {
        (u64::from(keys_max) * PLACES_PER_KEY).div_ceil(WAYS as u64).max(1) as usize
    }

    /// Counts a request of this key that comes at `now`, in nanoseconds of the monotonic clock, unless it is beyond the rate.
    #[inline]
    pub fn ask(&self, key: Key<'_>, rate: &Gcra, now: u64) -> Verdict {
        self.ask_hash(self.hash(key), rate, now)
    }

    fn hash(&self, key: Key<'_>) -> u64 {
        // Each kind has its own hash: the text of a field is no address, whatever it says.
        let hasher = |kind: u64| SipHasher13::new_with_keys(self.seed.0 ^ kind, self.seed.1);
        let hash = match key {
            Key::Address(AddressKey::V4(bits)) => hasher(0).hash(&bits.to_ne_bytes()),
            Key::Address(AddressKey::V6(bits)) => hasher(0).hash(&bits.to_ne_bytes()),
            Key::Text(text) => hasher(1).hash(text),
            Key::Route(number) => hasher(2).hash(&number.to_ne_bytes()),
        };
        // 0 is a place that was never used.
        hash.max(1)
    }

    fn ask_hash(&self, hash: u64, rate: &Gcra, now: u64) -> Verdict {
        let Some(set) = self.set_of(hash) else { return Verdict::Pass };
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

    /// The set of a hash. The upper bits of a product choose it, so that their number need not be a power of two (Lemire).
    #[inline]
    fn set_of(&self, hash: u64) -> Option<&Set> {
        let sets = self.sets.get(1..)?;
        sets.get(((u128::from(hash) * sets.len() as u128) >> 64) as usize)
    }

    /// Gives a key a place. `None` if another thread was faster.
    #[cold]
    fn enter(&self, set: &Set, hash: u64, now: u64) -> Option<usize> {
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

    fn count(&self, counter: Counter) {
        if let Some(start) = self.sets.first() {
            start.times[counter as usize].fetch_add(1, Relaxed);
        }
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

    /// How many keys there are at `now` for which something has to be remembered; an estimate for large tables.
    pub fn keys(&self, now: u64) -> u64 {
        let Some(sets) = self.sets.get(1..) else { return 0 };
        let sample = &sets[..sets.len().min(SAMPLE_MAX)];
        let used = |set: &Set| set.times.iter().filter(|time| time.load(Relaxed) > now).count() as u64;
        let found: u64 = sample.iter().map(used).sum();
        (u128::from(found) * sets.len() as u128 / sample.len().max(1) as u128) as u64
    }
}

#[inline]
fn find(set: &Set, hash: u64) -> Option<usize> {
    set.tags.iter().position(|tag| tag.load(SeqCst) == hash)
}

#[cfg(test)]
mod tests;
