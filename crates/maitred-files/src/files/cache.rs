//! Hot files: request path → [`Entry`], within a budget of bytes and descriptors.
//!
//! A hit is one hash, one probe and a comparison of the path: no allocation, no system call. Entries to evict
//! are chosen by CLOCK: a hit only sets a bit, and eviction takes the first entry that the hand finds without
//! it.

use std::hash::{BuildHasher, Hasher};

use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::entry::Entry;
use crate::ServedFile;
use maitred_base::budget::{Budget, Permit};

/// How long an entry is served without asking the filesystem.
pub(super) const FRESH_FOR: Duration = Duration::from_secs(1);

/// How often the descriptors of evicted files are looked at for closed ones: a descriptor does not say so itself.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Which set, and how the path is meant: two paths that read the same may be found in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Space(u32);

impl Space {
    /// Paths of requests.
    pub(super) fn requests(set: usize) -> Space {
        Space((set as u32) << 1)
    }

    /// Paths that the operator chose: fixed items of `try`, error pages.
    pub(super) fn fixed(set: usize) -> Space {
        Space((set as u32) << 1 | 1)
    }
}

#[derive(Debug)]
pub(super) struct Cache {
    table: HashTable<u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    hand: usize,
    hasher: DefaultHashBuilder,
    bytes: u64,
    files: u32,
    bytes_max: u64,
    files_max: u32,
    /// What counts the memory of evicted entries that are still needed.
    unsent: Arc<Budget>,
    /// What counts their descriptors.
    descriptors: Arc<Budget>,
    /// Files of evicted entries, until they are found to be closed.
    pinned: Vec<(Weak<ServedFile>, Permit)>,
    next_sweep: Option<Instant>,
}

/// The budgets that evicted entries count in, for as long as there are responses that still need them.
#[derive(Debug, Clone)]
pub struct GivenUp {
    /// Memory.
    pub unsent: Arc<Budget>,
    /// Descriptors.
    pub descriptors: Arc<Budget>,
}

#[derive(Debug)]
struct Slot {
    hash: u64,
    entry: Rc<Entry>,
    checked: Instant,
    space: Space,
    used: bool,
}

impl Slot {
    fn is(&self, hash: u64, space: Space, path: &[u8]) -> bool {
        self.hash == hash && self.space == space && *self.entry.key == *path
    }

    fn cost_bytes(&self) -> u64 {
        cost_bytes(&self.entry)
    }
}

fn cost_bytes(entry: &Entry) -> u64 {
    // The table is at most 7/8 full, but may just have doubled.
    (size_of::<Option<Slot>>() + 4 * size_of::<u32>()) as u64 + entry.cost_bytes()
}

impl Cache {
    pub(super) fn new(bytes_max: u64, files_max: u32, given_up: GivenUp) -> Cache {
        Cache {
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            hasher: DefaultHashBuilder::default(),
            bytes: 0,
            files: 0,
            bytes_max,
            files_max,
            unsent: given_up.unsent,
            descriptors: given_up.descriptors,
            pinned: Vec::new(),
            next_sweep: None,
        }
    }

    /// The entry, if it was checked at most [`FRESH_FOR`] ago.
    pub(super) fn fresh(&mut self, space: Space, path: &[u8], now: Instant) -> Option<&Rc<Entry>> {
        let slot = self.slot_mut(space, path)?;
        if now.saturating_duration_since(slot.checked) > FRESH_FOR {
            return None;
        }
        slot.used = true;
        Some(&slot.entry)
    }

    /// The entry, however old.
    pub(super) fn any(&mut self, space: Space, path: &[u8]) -> Option<&Rc<Entry>> {
        self.slot_mut(space, path).map(|slot| &slot.entry)
    }

    /// Notes that the entry was found unchanged.
    pub(super) fn confirm(&mut self, space: Space, path: &[u8], now: Instant) {
        if let Some(slot) = self.slot_mut(space, path) {
            slot.checked = now;
            slot.used = true;
        }
    }

    /// Keeps an entry in place of an older one of its path. An entry larger than the whole budget is not kept.
    pub(super) fn insert(&mut self, space: Space, entry: Rc<Entry>, now: Instant) {
        self.remove(space, &entry.key);
        let (bytes, files) = (cost_bytes(&entry), entry.cost_files());
        if bytes > self.bytes_max || files > self.files_max {
            return self.note_unkept(&entry);
        }
        while self.bytes + bytes > self.bytes_max || self.files + files > self.files_max {
            self.evict_one();
        }
        self.bytes += bytes;
        self.files += files;
        let hash = hash(&self.hasher, space, &entry.key);
        // A newcomer has to prove itself: it gets its bit with the first hit.
        let slot = Some(Slot { hash, entry, checked: now, space, used: false });
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(None);
                self.slots.len() as u32 - 1
            }
        };
        if let Some(place) = self.slots.get_mut(index as usize) {
            *place = slot;
        }
        let slots = &self.slots;
        self.table.insert_unique(hash, index, |index| {
            slots.get(*index as usize).and_then(Option::as_ref).map_or(0, |slot| slot.hash)
        });
    }

    /// Has an entry changed in such a way that it takes more memory; others may have to go.
    pub(super) fn grow(&mut self, space: Space, path: &[u8], change: impl FnOnce()) {
        let Some(slot) = self.slot_mut(space, path) else { return };
        let before = slot.cost_bytes();
        change();
        let after = slot.cost_bytes();
        self.bytes = self.bytes + after - before;
        while self.bytes > self.bytes_max {
            self.evict_one();
        }
    }

    /// Forgets a path.
    pub(super) fn remove(&mut self, space: Space, path: &[u8]) {
        if let Some(index) = self.index(space, path) {
            self.drop_slot(index);
        }
    }

    /// Gives back what counted descriptors that are closed by now: [`SWEEP_EVERY`].
    pub(super) fn sweep(&mut self, now: Instant) {
        if !self.pinned.is_empty() && self.next_sweep.is_none_or(|at| at <= now) {
            self.pinned.retain(|(file, _)| file.strong_count() > 0);
            self.next_sweep = Some(now + SWEEP_EVERY);
        }
    }

    /// An entry is not kept: the response that it was made for holds it alone.
    pub(super) fn note_unkept(&self, entry: &Entry) {
        entry.charge(&self.unsent);
    }

    /// Bytes, descriptors and entries that are held.
    pub(super) fn held(&self) -> (u64, u32, usize) {
        (self.bytes, self.files, self.table.len())
    }

    fn index(&self, space: Space, path: &[u8]) -> Option<u32> {
        let hash = hash(&self.hasher, space, path);
        let is = |index: &u32| {
            self.slots
                .get(*index as usize)
                .and_then(Option::as_ref)
                .is_some_and(|slot| slot.is(hash, space, path))
        };
        self.table.find(hash, is).copied()
    }

    fn slot_mut(&mut self, space: Space, path: &[u8]) -> Option<&mut Slot> {
        let index = self.index(space, path)?;
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// Moves the hand until it has thrown one entry out. Ends within two rounds, as each step clears a bit; an empty
    /// cache is within any budget, so there is an entry.
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
        if let Ok(found) = self.table.find_entry(slot.hash, |other| *other == index) {
            found.remove();
        }
        self.free.push(index);
        self.bytes -= slot.cost_bytes();
        self.files -= slot.entry.cost_files();
        if Rc::strong_count(&slot.entry) > 1 {
            slot.entry.charge(&self.unsent);
        }
        for file in slot.entry.files().filter(|file| Rc::strong_count(file) > 1) {
            self.pinned.push((Rc::downgrade(file), self.descriptors.charge(1)));
        }
    }
}

#[inline]
fn hash(hasher: &DefaultHashBuilder, space: Space, path: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write_u32(space.0);
    hasher.write(path);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use maitred_http::fields::FieldLines;
    use proptest::prelude::*;

    use super::super::entry::Representation;
    use super::super::prepare::Places;
    use super::*;
    use maitred_base::residency::OpenFile;

    const SPACE: Space = Space(0);
    const PLACES: Places = Places { type_at: 0, coding_at: 0, common_at: 0 };

    fn given_up() -> GivenUp {
        GivenUp { unsent: Budget::new(0), descriptors: Budget::new(0) }
    }

    fn entry(path: &str, body_bytes: usize) -> Rc<Entry> {
        let page = Representation::of_page((FieldLines::default(), PLACES), &vec![0; body_bytes]);
        Rc::new(Entry::of_page(path.as_bytes(), page, None))
    }

    #[test]
    fn entries_are_fresh_for_a_second_and_again_once_confirmed() {
        let mut cache = Cache::new(1 << 20, 10, given_up());
        let start = Instant::now();
        cache.insert(SPACE, entry("/a", 1), start);
        assert!(cache.fresh(SPACE, b"/a", start + FRESH_FOR).is_some());
        let late = start + FRESH_FOR + Duration::from_millis(1);
        assert!(cache.fresh(SPACE, b"/a", late).is_none());
        assert!(cache.any(SPACE, b"/a").is_some());
        cache.confirm(SPACE, b"/a", late);
        assert!(cache.fresh(SPACE, b"/a", late).is_some());
        assert!(cache.fresh(Space::fixed(0), b"/a", late).is_none(), "spaces are apart");
        assert!(cache.fresh(Space::requests(1), b"/a", late).is_none(), "sets are apart");
    }

    #[test]
    fn the_budget_holds_and_what_is_used_survives() {
        let one = cost_bytes(&entry("/000", 1000));
        let mut cache = Cache::new(10 * one, 10, given_up());
        let now = Instant::now();
        cache.insert(SPACE, entry("/hot", 1000), now);
        for nth in 0..100 {
            assert!(cache.fresh(SPACE, b"/hot", now).is_some(), "evicted at {nth}");
            cache.insert(SPACE, entry(&format!("/{nth:03}"), 1000), now);
            let (bytes, _, count) = cache.held();
            assert!(bytes <= 10 * one && count <= 10);
        }
        assert_eq!(cache.held().2, 10);
        assert_eq!(cache.slots.len(), 10, "slots are used again");
    }

    #[test]
    fn too_large_an_entry_is_not_kept_and_costs_nobody_a_place() {
        let mut cache = Cache::new(2 * cost_bytes(&entry("/a", 0)), 10, given_up());
        let now = Instant::now();
        cache.insert(SPACE, entry("/a", 0), now);
        cache.insert(SPACE, entry("/b", 10_000), now);
        assert!(cache.fresh(SPACE, b"/a", now).is_some());
        assert!(cache.fresh(SPACE, b"/b", now).is_none());
    }

    #[test]
    fn replacing_and_removing_give_the_budget_back() {
        let mut cache = Cache::new(1 << 20, 10, given_up());
        let now = Instant::now();
        for size in [0, 5000, 10] {
            cache.insert(SPACE, entry("/a", size), now);
        }
        assert_eq!(cache.held(), (cost_bytes(&entry("/a", 10)), 0, 1));
        cache.remove(SPACE, b"/a");
        assert_eq!(cache.held(), (0, 0, 0));
    }

    #[test]
    fn what_was_evicted_and_is_still_needed_counts_as_unsent() {
        let unsent = Budget::new(0);
        let one = entry("/a", 1000);
        let mut cache = Cache::new(
            cost_bytes(&one),
            10,
            GivenUp { unsent: Arc::clone(&unsent), descriptors: Budget::new(0) },
        );
        let now = Instant::now();
        cache.insert(SPACE, Rc::clone(&one), now);
        let sending = [Rc::clone(&one), one];
        assert_eq!(unsent.used(), 0, "the cache counts it");
        cache.insert(SPACE, entry("/b", 1000), now);
        assert_eq!(unsent.used(), sending[0].cost_bytes(), "once, however many responses need it");
        cache.insert(SPACE, entry("/c", 1000), now);
        assert_eq!(unsent.used(), sending[0].cost_bytes(), "the other one is not needed");
        drop(sending);
        assert_eq!(unsent.used(), 0);
        let large = entry("/large", 10_000);
        cache.insert(SPACE, Rc::clone(&large), now);
        assert_eq!(unsent.used(), large.cost_bytes(), "it was never kept");
        drop(large);
        assert_eq!(unsent.used(), 0);
    }

    #[test]
    fn a_file_that_was_evicted_and_is_still_sent_counts_among_the_descriptors() {
        let descriptors = Budget::new(0);
        let given_up = GivenUp { unsent: Budget::new(0), descriptors: Arc::clone(&descriptors) };
        let mut cache = Cache::new(1 << 20, 1, given_up);
        let mut now = Instant::now();
        let file = |path: &str| {
            let mut entry = Entry::of_page(
                path.as_bytes(),
                Representation::of_page((FieldLines::default(), PLACES), b""),
                None,
            );
            let file = ServedFile::Own(OpenFile::new(tempfile::tempfile().unwrap().into()));
            entry.plain.keep_open(Rc::new(file));
            Rc::new(entry)
        };
        let one = file("/a");
        let sending = one.files().next().map(Rc::clone);
        cache.insert(SPACE, one, now);
        assert_eq!(descriptors.used(), 0, "it is one of the cache's");
        cache.insert(SPACE, file("/b"), now);
        assert_eq!(descriptors.used(), 1);
        cache.insert(SPACE, file("/c"), now);
        cache.sweep(now);
        assert_eq!(descriptors.used(), 1, "no response sends the other one");
        drop(sending);
        cache.sweep(now);
        assert_eq!(descriptors.used(), 1, "not yet");
        now += SWEEP_EVERY;
        cache.sweep(now);
        assert_eq!(descriptors.used(), 0);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u8, usize),
        Remove(u8),
        Look(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0_u8..20, 0_usize..3000).prop_map(|(key, size)| Step::Insert(key, size)),
            (0_u8..20).prop_map(Step::Remove),
            (0_u8..20).prop_map(Step::Look),
        ]
    }

    proptest! {
        #[test]
        fn whatever_happens_the_sums_are_right_and_what_is_found_is_the_newest(
            steps in proptest::collection::vec(step(), 0..200),
        ) {
            let mut cache = Cache::new(8000, 10, given_up());
            let mut newest = std::collections::HashMap::new();
            let now = Instant::now();
            for step in steps {
                match step {
                    Step::Insert(key, size) => {
                        let entry = entry(&format!("/{key}"), size);
                        cache.insert(SPACE, Rc::clone(&entry), now);
                        newest.insert(key, entry);
                    }
                    Step::Remove(key) => {
                        cache.remove(SPACE, format!("/{key}").as_bytes());
                        newest.remove(&key);
                    }
                    Step::Look(key) => {
                        if let Some(found) = cache.fresh(SPACE, format!("/{key}").as_bytes(), now) {
                            prop_assert!(newest.get(&key).is_some_and(|entry| Rc::ptr_eq(entry, found)));
                        }
                    }
                }
                let slots = cache.slots.iter().flatten();
                let bytes: u64 = slots.clone().map(|slot| slot.cost_bytes()).sum();
                prop_assert_eq!(cache.held(), (bytes, 0, slots.count()));
                prop_assert!(bytes <= 8000);
            }
        }
    }
}
