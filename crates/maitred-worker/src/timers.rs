//! Deadlines of connections: a hashed wheel in which moving a deadline later costs one store.
//!
//! A busy keep-alive connection moves its deadline with every request. Moving a deadline *later* only stores it; the entry stays
//! in its slot, and is moved to the right slot when that slot is due. Moving it *earlier* relinks at once. So the hot path pays
//! one store, and every deadline is met within one tick.

use std::time::{Duration, Instant};

use crate::keys::{ConnKey, Key};

/// Length of a tick. A deadline is met up to one tick late.
pub(crate) const TICK: Duration = Duration::from_millis(50);
/// Slots of the wheel; a deadline further away than all of them is looked at once per round.
const SLOTS: usize = 1024;
const WORDS: usize = SLOTS / 64;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// When to fire, in ticks since the wheel's start.
    deadline: u64,
    /// The tick whose slot holds the entry; meaningful while `linked`.
    filed_at: u64,
    prev: u32,
    next: u32,
    linked: bool,
    armed: bool,
}

const UNUSED: Entry = Entry { deadline: 0, filed_at: 0, prev: NONE, next: NONE, linked: false, armed: false };

/// The wheel of one event loop. Keys are small dense numbers: indices of connections.
#[derive(Debug)]
pub(crate) struct Wheel {
    start: Instant,
    /// All ticks up to this one have been looked at.
    done: u64,
    entries: Vec<Entry>,
    heads: [u32; SLOTS],
    /// Bits, one for each slot that holds an entry.
    filled: [u64; WORDS],
}

impl Wheel {
    /// An empty wheel that starts at `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Wheel { start: now, done: 0, entries: Vec::new(), heads: [NONE; SLOTS], filled: [0; WORDS] }
    }

    /// Sets the deadline of `key`, in place of any that it had.
    pub(crate) fn arm(&mut self, key: ConnKey, deadline: Instant) {
        let key = key.number();
        let tick = self.tick_after(deadline).max(self.done + 1);
        let index = key as usize;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, UNUSED);
        }
        let entry = &mut self.entries[index];
        entry.deadline = tick;
        entry.armed = true;
        if !entry.linked {
            self.link(key);
        } else if tick < entry.filed_at {
            self.unlink(key);
            self.link(key);
        }
    }

    /// Forgets the deadline of `key`.
    pub(crate) fn disarm(&mut self, key: ConnKey) {
        let key = key.number();
        if let Some(entry) = self.entries.get_mut(key as usize) {
            entry.armed = false;
            if entry.linked {
                self.unlink(key);
            }
        }
    }

    /// Whether `key` has a deadline.
    pub(crate) fn is_armed(&self, key: ConnKey) -> bool {
        self.entries.get(key.place()).is_some_and(|entry| entry.armed)
    }

    /// When `key` fires, in milliseconds since the wheel's start.
    pub(crate) fn deadline(&self, key: ConnKey) -> Option<i64> {
        let entry = self.entries.get(key.place()).filter(|entry| entry.armed)?;
        i64::try_from(entry.deadline * TICK.as_millis() as u64).ok()
    }

    /// An instant on the same scale.
    pub(crate) fn millis(&self, instant: Instant) -> i64 {
        instant.saturating_duration_since(self.start).as_millis() as i64
    }

    /// Takes out every key whose deadline has passed at `now`, and adds it to `fired`.
    pub(crate) fn expire(&mut self, now: Instant, fired: &mut Vec<ConnKey>) {
        let until = now.saturating_duration_since(self.start).as_millis() as u64 / TICK.as_millis() as u64;
        if until <= self.done {
            return;
        }
        // After a long pause each slot needs one look only.
        let first = (self.done + 1).max(until.saturating_sub(SLOTS as u64 - 1));
        self.done = until;
        for tick in first..=until {
            self.empty_slot(tick as usize % SLOTS, until, fired);
        }
    }

    /// When [`Wheel::expire`] has to be called next; `None` while nothing is armed.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let from = (self.done + 1) as usize % SLOTS;
        let ahead = self.distance_to_filled(from)?;
        let tick = self.done + 1 + ahead as u64;
        Some(self.start + Duration::from_millis(tick * TICK.as_millis() as u64))
    }

    fn empty_slot(&mut self, slot: usize, until: u64, fired: &mut Vec<ConnKey>) {
        let mut key = self.heads[slot];
        while key != NONE {
            let entry = self.entries[key as usize];
            self.unlink(key);
            if entry.deadline <= until {
                self.entries[key as usize].armed = false;
                fired.push(ConnKey::from_number(key));
            } else {
                self.link(key);
            }
            key = entry.next;
        }
    }

    /// Slots from `from` (included) to the next filled one, going round once.
    fn distance_to_filled(&self, from: usize) -> Option<usize> {
        let (word, bit) = (from / 64, from % 64);
        let here = self.filled[word] >> bit;
        if here != 0 {
            return Some(here.trailing_zeros() as usize);
        }
        for step in 1..=WORDS {
            let bits = self.filled[(word + step) % WORDS];
            if bits != 0 {
                let distance = step * 64 - bit + bits.trailing_zeros() as usize;
                return (distance < SLOTS).then_some(distance);
            }
        }
        None
    }

    fn tick_after(&self, instant: Instant) -> u64 {
        let millis = instant.saturating_duration_since(self.start).as_millis() as u64;
        millis.div_ceil(TICK.as_millis() as u64)
    }

    fn link(&mut self, key: u32) {
        let entry = &mut self.entries[key as usize];
        let tick = entry.deadline.clamp(self.done + 1, self.done + SLOTS as u64 - 1);
        let slot = tick as usize % SLOTS;
        let head = self.heads[slot];
        entry.filed_at = tick;
        entry.prev = NONE;
        entry.next = head;
        entry.linked = true;
        if head != NONE {
            self.entries[head as usize].prev = key;
        }
        self.heads[slot] = key;
        self.filled[slot / 64] |= 1 << (slot % 64);
    }

    fn unlink(&mut self, key: u32) {
        let entry = self.entries[key as usize];
        let slot = entry.filed_at as usize % SLOTS;
        if entry.prev == NONE {
            self.heads[slot] = entry.next;
        } else {
            self.entries[entry.prev as usize].next = entry.next;
        }
        if entry.next != NONE {
            self.entries[entry.next as usize].prev = entry.prev;
        }
        if self.heads[slot] == NONE {
            self.filled[slot / 64] &= !(1 << (slot % 64));
        }
        self.entries[key as usize].linked = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::conn;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn expired(wheel: &mut Wheel, now: Instant) -> Vec<ConnKey> {
        let mut fired = Vec::new();
        wheel.expire(now, &mut fired);
        fired.sort_unstable();
        fired
    }

    #[test]
    fn a_deadline_fires_once_and_not_early() {
        let start = Instant::now();
        let mut wheel = Wheel::new(start);
        wheel.arm(conn(3), start + Duration::from_secs(1));
        assert!(expired(&mut wheel, start + Duration::from_millis(999)).is_empty());
        assert_eq!(expired(&mut wheel, start + Duration::from_millis(1050)), [conn(3)]);
        assert!(expired(&mut wheel, start + Duration::from_secs(500)).is_empty());
        assert_eq!(wheel.next_wake(), None);
    }

    #[test]
    fn moving_a_deadline_earlier_takes_effect() {
        let start = Instant::now();
        let mut wheel = Wheel::new(start);
        wheel.arm(conn(0), start + Duration::from_secs(75));
        wheel.arm(conn(0), start + Duration::from_secs(1));
        assert_eq!(expired(&mut wheel, start + Duration::from_secs(2)), [conn(0)]);
    }

    #[test]
    fn a_disarmed_key_stays_silent() {
        let start = Instant::now();
        let mut wheel = Wheel::new(start);
        wheel.arm(conn(0), start + Duration::from_secs(1));
        wheel.arm(conn(1), start + Duration::from_secs(1));
        wheel.disarm(conn(0));
        assert_eq!(expired(&mut wheel, start + Duration::from_secs(2)), [conn(1)]);
    }

    proptest! {
        /// Against a map of deadlines: nothing fires early, nothing later than one tick, whatever is moved when.
        #[test]
        fn agrees_with_a_plain_map(steps in prop::collection::vec((0u32..20, 0u64..200_000, 0u64..5_000), 1..200)) {
            let start = Instant::now();
            let mut wheel = Wheel::new(start);
            let mut model: HashMap<ConnKey, u64> = HashMap::new();
            let mut now = 0u64;
            for (key, ahead, pass) in steps {
                let key = conn(key);
                wheel.arm(key, start + Duration::from_millis(now + ahead));
                model.insert(key, now + ahead);
                now += pass;
                let tick = TICK.as_millis() as u64;
                for key in expired(&mut wheel, start + Duration::from_millis(now)) {
                    let deadline = model.remove(&key);
                    prop_assert!(deadline.is_some_and(|deadline| deadline <= now), "{key} fired early");
                }
                for (key, deadline) in &model {
                    prop_assert!(deadline + 2 * tick > now, "{key} is late: {deadline} at {now}");
                }
                if let Some(first) = model.values().min() {
                    let wake = wheel.next_wake().expect("armed keys wake the loop");
                    let wake = wake.duration_since(start).as_millis() as u64;
                    prop_assert!(wake <= (*first).max(now) + 2 * tick);
                }
            }
        }
    }
}
