//! How processes go from one worker process to another, and which ones use them over links.
//!
//! A pool that a reload leaves as it is goes to the new worker process:
//!
//! | the pool has | the old worker process | one without a channel, in which requests wait |
//! |---|---|---|
//! | several processes | gives each channel back when nothing is under way on it¹ | borrows a process ([`Pool::lend`]) |
//! | one | hands its channel over between two frames², and goes on over a link | gets a link, too (`Pool::share`) |
//!
//! ¹ `DrainMode::WhenQueueEmpty` of the worker. ² Whatever is under way: `Processes::try_hand_over`.
//!
//! `maitred_worker::handoff::link` has what follows on both sides of a link. At the next reload the links go along, so that no
//! worker process stays for the streams of another.

use std::time::Instant;

use super::super::events::Action;
use super::super::generation::Out;
use super::{APP_KILL_DELAY, Home, Pool, Slot, SlotPhase};
use maitred_control::{Greeting, SlotId, ToWorker};

/// A process that has exited while its channel was on its way to another worker process. What it said last may still be in there:
/// if the one that had it has handed it over by then, the next one reads it.
#[derive(Debug, Clone)]
pub(super) struct LastWords {
    /// The process's name where its channel was.
    pub(super) id: SlotId,
    /// The generation that has to hand it over.
    pub(super) from: u64,
    /// The worker process that is to have it.
    pub(super) to: Home,
    pub(super) greeting: Option<Greeting>,
    /// How it has ended.
    pub(super) how: String,
}

/// A worker process has given the channel of a process back, or its link to that has ended.
pub(crate) fn released(
    pools: &mut [Pool],
    now: Instant,
    (epoch, from): (u64, u64),
    linked: bool,
    out: &mut Out<'_>,
) {
    for pool in pools {
        let slot = pool.slot_of(epoch).filter(|slot| pool.is_used_by(*slot, from));
        if let Some(slot) = slot {
            return pool.released(now, slot, from, linked, out);
        }
        pool.released_late(epoch, from, linked, out);
    }
}

impl Pool {
    /// The worker process of a generation has given the channel of this slot back; `linked`: it still uses it, over a link.
    pub(crate) fn released(
        &mut self,
        now: Instant,
        number: usize,
        from: u64,
        linked: bool,
        out: &mut Out<'_>,
    ) {
        let places = self.places();
        let Some(slot) = self.slots.get_mut(number) else { return };
        if slot.at.generation != from {
            // The link has ended.
            return slot.linked.retain(|user| *user != from);
        }
        slot.handed_on = false;
        if matches!(slot.phase, SlotPhase::Empty | SlotPhase::Ending { .. }) {
            return;
        }
        let to = slot.wanted_by.take().unwrap_or(self.home);
        if to == self.home && self.homeless {
            // No worker process could take it.
            return self.part_or_park(now, number, out);
        }
        if to == self.home && number >= places {
            // The process has nothing to finish, and no slot there.
            slot.asked = true;
            return slot.terminate(now + APP_KILL_DELAY, out);
        }
        slot.count_anew();
        (slot.at, slot.borrowed) = (to, to != self.home);
        if linked {
            slot.linked.push(from);
        }
        let Ok(index) = u16::try_from(number) else { return };
        let (id, greeting, borrowed) = (slot.id(index), slot.greeting.clone(), slot.borrowed);
        out.actions.push(Action::MoveApp { generation: to.generation, slot: id, greeting, borrowed, linked });
        if matches!(slot.phase, SlotPhase::Draining(_)) {
            out.send(to.generation, ToWorker::Retire(id));
        }
    }

    /// The process in this slot has exited: if its channel is on its way, what it said last may not have been read.
    pub(super) fn note_unread(&mut self, number: usize, how: &str) {
        let Some(slot) = self.slots.get(number).filter(|slot| slot.handed_on) else { return };
        let Ok(index) = u16::try_from(number) else { return };
        self.unread.push(LastWords {
            id: slot.id(index),
            from: slot.at.generation,
            to: slot.wanted_by.unwrap_or(self.home),
            greeting: slot.greeting.clone(),
            how: how.to_owned(),
        });
    }

    /// The channel of a process was given back that has exited.
    fn released_late(&mut self, epoch: u64, from: u64, linked: bool, out: &mut Out<'_>) {
        let is_it = |last: &LastWords| (last.id.epoch, last.from) == (epoch, from);
        let Some(at) = self.unread.iter().position(is_it) else { return };
        let LastWords { id, to, greeting, how, .. } = self.unread.swap_remove(at);
        if linked {
            let (generation, slot) = (to.generation, SlotId { pool: to.index, ..id });
            out.actions.push(Action::MoveApp { generation, slot, greeting, borrowed: false, linked });
            out.send(generation, ToWorker::SlotExited(slot, how));
        }
    }

    /// A worker process is gone, and with it what it was to hand over, or to be handed.
    pub(super) fn forget_last_words(&mut self, generation: u64) {
        self.unread.retain(|last| last.from != generation && last.to.generation != generation);
    }

    /// Requests of this pool wait in a generation that is not its home: one process goes there for as long as it is needed.
    pub(crate) fn lend(&mut self, generation: u64, out: &mut Out<'_>) {
        let borrower = self.former.iter().copied().find(|home| home.generation == generation);
        let Some(borrower) = borrower.filter(|_| !self.homeless) else { return };
        // A process that is there and busy does not serve others: its request may take any time. Nor does a process that has
        // died on its way there.
        let serves = |slot: &Slot| {
            if slot.phase == SlotPhase::Ready && slot.linked.contains(&generation) {
                return true;
            }
            let there = slot.at == borrower && slot.has_room();
            slot.is_up() && (there || slot.wanted_by == Some(borrower))
        };
        if self.slots.iter().any(serves) {
            return;
        }
        if self.is_single() {
            return self.share(borrower, out);
        }
        let home = self.home;
        let ready = self.slots.iter_mut().enumerate().filter(|(_, slot)| {
            slot.phase == SlotPhase::Ready
                && slot.at == home
                && slot.wanted_by.is_none()
                && slot.linked.is_empty()
        });
        if let Some((number, slot)) = ready.min_by_key(|(_, slot)| slot.busy)
            && let Ok(number) = u16::try_from(number)
        {
            slot.wanted_by = Some(borrower);
            out.send(home.generation, ToWorker::Release(slot.id(number), true));
        }
    }

    /// Lets a worker process use the only process over a link. What others have under way there stays as it is.
    fn share(&mut self, borrower: Home, out: &mut Out<'_>) {
        let home = self.home;
        let ready = |slot: &&mut Slot| {
            slot.phase == SlotPhase::Ready && slot.at == home && slot.wanted_by.is_none() && !slot.handed_on
        };
        for (number, slot) in (0..).zip(&mut self.slots).filter(|(_, slot)| ready(slot)) {
            slot.linked.push(borrower.generation);
            let (slot, greeting) = (slot.id(number), slot.greeting.clone());
            let (guest, name) = (borrower.generation, SlotId { pool: borrower.index, ..slot });
            out.actions.push(Action::Share { generation: home.generation, slot, guest, name, greeting });
        }
    }

    /// Whether it has one process, so that a link is made where there would be no other.
    pub(super) fn is_single(&self) -> bool {
        self.plan.workers.max <= 1
    }
}
