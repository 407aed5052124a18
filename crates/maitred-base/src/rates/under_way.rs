//! How many requests of a key are under way, over all threads of all worker processes.
//!
//! A key's word has room for three worker processes ([`word`](super::word)). What a process that has ended has left counts no
//! more, and its room is taken by the next one. While three old worker processes have requests of a key, those of a fourth one
//! are not counted. A key with requests under way keeps its place; a request for which there is no place passes, uncounted,
//! which is noted with the keys that were forgotten.
//!
//! **Threads.** A request is counted, and then its place is looked at again: if another key has taken that meanwhile, it is
//! taken back. A key that takes a place looks afterwards whether a request was counted there meanwhile, and then gives it back.
//! So one of the two sees the other.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::key::Key;
use super::table::{ATTEMPTS_MAX, Counter, Set, Table, WAYS, find, set_of, tag_of};
use super::word::{Process, total, with_one_less, with_one_more, without};

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    /// The request is counted there, until [`Table::leave`].
    Counted(Place),
    /// The request is not counted: there is no place for its key, or too many worker processes have requests of it.
    Uncounted,
    /// As many are under way as may be.
    Beyond,
}

/// Where the requests of a key are counted while there are any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    hash: u64,
    way: u8,
}

impl Table {
    /// Counts a request of this key, unless `max` are under way. The caller has to [`leave`](Table::leave).
    pub fn enter_up_to(&self, key: Key<'_>, max: u16, process: Process) -> Entered {
        let hash = self.hash(key);
        let (Some(set), tag) = (set_of(self.under_way(), hash), tag_of(hash)) else {
            return Entered::Uncounted;
        };
        for _ in 0..ATTEMPTS_MAX {
            let way = match find(set, tag) {
                Some(way) => way,
                None => match self.take_place(set, tag) {
                    Taken::Place(way) => way,
                    Taken::Lost => continue,
                    Taken::None => break,
                },
            };
            let (word, place) = (&set.times[way], Place { hash, way: way as u8 });
            let mut present = word.load(SeqCst);
            while set.tags[way].load(SeqCst) == tag {
                let live = self.live(present);
                if total(live) >= u32::from(max) {
                    return Entered::Beyond;
                }
                let Some(next) = with_one_more(live, process) else { return self.uncounted() };
                match word.compare_exchange_weak(present, next, SeqCst, SeqCst) {
                    Ok(_) if set.tags[way].load(SeqCst) == tag => return Entered::Counted(place),
                    Ok(_) => {
                        self.leave(place, process);
                        break;
                    }
                    Err(other) => present = other,
                }
            }
        }
        self.uncounted()
    }

    fn uncounted(&self) -> Entered {
        self.count(Counter::Evicted);
        Entered::Uncounted
    }

    /// A request that was counted has ended.
    pub fn leave(&self, place: Place, process: Process) {
        let Some(set) = set_of(self.under_way(), place.hash) else { return };
        if let Some(word) = set.times.get(usize::from(place.way)) {
            let _ = word.fetch_update(SeqCst, SeqCst, |word| Some(with_one_less(word, process)));
        }
    }

    /// The word without what processes have left that are gone.
    #[inline]
    fn live(&self, word: u64) -> u64 {
        match word {
            0 => 0,
            _ => without(word, |process| !self.is_noted(process)),
        }
    }

    /// Gives a key a place that no request under way has.
    #[cold]
    fn take_place(&self, set: &Set, tag: u32) -> Taken {
        let is_free = |way: &usize| self.live(set.times[*way].load(SeqCst)) == 0;
        let unused = |way: &usize| set.tags[*way].load(Relaxed) == 0;
        let way = (0..WAYS).filter(unused).find(is_free).or_else(|| (0..WAYS).find(is_free));
        let Some(way) = way else { return Taken::None };
        let before = set.tags[way].load(SeqCst);
        let exchange = |from, to| set.tags[way].compare_exchange(from, to, SeqCst, SeqCst).is_ok();
        if !exchange(before, tag) {
            return Taken::Lost;
        }
        if !is_free(&way) {
            // A request of the key before was counted in between.
            exchange(tag, before);
            return Taken::Lost;
        }
        match find(set, tag) {
            Some(first) if first == way => Taken::Place(way),
            first => {
                // Another thread has entered the same key.
                exchange(tag, 0);
                first.map_or(Taken::Lost, Taken::Place)
            }
        }
    }
}

/// What came of looking for a place.
enum Taken {
    Place(usize),
    /// Another thread was faster.
    Lost,
    /// All have requests under way.
    None,
}

#[cfg(test)]
mod tests;
