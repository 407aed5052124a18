//! A worker process has died, and what becomes of the application processes whose channels it had.
//!
//! A channel cannot be given to another worker process then: the dead one may have left half a frame in it, in either
//! direction. But the application is loaded, which is what takes long. So a process that said RECOVERS in HELLO gets a new
//! channel (`adapters/PROTOCOL.md`, section 8); the others end. A process that has not said HELLO, as far as was received here,
//! gets a channel if the others of its pool do: if it does not recover, it sees the end of its old channel, and exits.
//!
//! | what died | pool | its slots there |
//! |---|---|---|
//! | the worker process of its home, which is current¹ | waits (*homeless*) | Recovering; a new channel to the next one |
//! | the same, and no process in it recovers | ends; the next worker process has a new one | Ending |
//! | the worker process of its home, which is on its way out or coming up | ends | Ending |
//! | one that had borrowed, or has not given back yet | goes on | Recovering; a new channel to its home at once |
//! | the same, because it was killed for not finishing | goes on | Ending |
//!
//! ¹ And the server goes on.

use std::time::Instant;

use super::super::events::{Action, PoolKind};
use super::super::generation::Out;
use super::{APP_KILL_DELAY, Course, Home, Pool, SlotPhase};

impl Pool {
    /// Whether it waits for a worker process.
    pub(crate) fn is_homeless(&self) -> bool {
        self.homeless
    }

    /// A worker process is gone, and with it its ends of channels. `recover`: the server goes on, and so do the processes
    /// that can.
    pub(crate) fn worker_gone(&mut self, now: Instant, generation: u64, recover: bool, out: &mut Out<'_>) {
        self.former.retain(|home| home.generation != generation);
        self.forget_last_words(generation);
        let recover = recover && self.course == Course::Serving && self.plan.kind == PoolKind::Started;
        if self.home.generation == generation {
            if !recover || !self.slots.iter().any(|slot| slot.recovers(self.recovers)) {
                return self.end(now + APP_KILL_DELAY, out);
            }
            self.homeless = true;
        }
        for slot in &mut self.slots {
            slot.wanted_by = slot.wanted_by.filter(|home| home.generation != generation);
            slot.linked.retain(|linked| *linked != generation);
        }
        for number in 0..self.slots.len() {
            if !self.is_at(number, generation) {
                continue;
            }
            match recover {
                true => self.part_or_park(now, number, out),
                false => self.part(now, number, out),
            }
        }
    }

    /// Takes for its home the worker process that replaces the one that died.
    pub(crate) fn rehome(&mut self, now: Instant, home: Home, out: &mut Out<'_>) {
        let old = std::mem::replace(&mut self.home, home);
        self.homeless = false;
        self.told = None;
        self.stir(now);
        self.recover_from(now, old, out);
    }

    /// Gives new channels to the processes whose worker process was that one.
    pub(super) fn recover_from(&mut self, now: Instant, old: Home, out: &mut Out<'_>) {
        for number in 0..self.slots.len() {
            let waits = |phase| matches!(phase, SlotPhase::Recovering { .. });
            if self.slots.get(number).is_some_and(|slot| waits(slot.phase) && slot.at == old) {
                self.recover(now, number, out);
            }
        }
    }

    /// The channel of this slot is lost, or there is no worker process that could have it.
    pub(super) fn part_or_park(&mut self, now: Instant, number: usize, out: &mut Out<'_>) {
        let (home, places, timeout) = (self.home, self.places(), self.plan.start_timeout);
        let recovers = self.recovers;
        let Some(slot) = self.slots.get_mut(number) else { return };
        if !slot.recovers(recovers) || number >= places {
            return self.part(now, number, out);
        }
        slot.park(now + timeout, out);
        slot.at = home;
        if !self.homeless {
            self.recover(now, number, out);
        }
        self.stir(now);
    }

    fn part(&mut self, now: Instant, number: usize, out: &mut Out<'_>) {
        if let Some(slot) = self.slots.get_mut(number) {
            slot.asked = true;
            slot.terminate(now + APP_KILL_DELAY, out);
        }
    }

    fn recover(&mut self, now: Instant, number: usize, out: &mut Out<'_>) {
        let (home, timeout) = (self.home, self.plan.start_timeout);
        let Some(slot) = self.slots.get_mut(number) else { return };
        let Ok(index) = u16::try_from(number) else { return };
        slot.at = home;
        slot.phase = SlotPhase::Recovering { deadline: now + timeout };
        out.actions.push(Action::RecoverApp { generation: home.generation, slot: slot.id(index) });
    }
}
