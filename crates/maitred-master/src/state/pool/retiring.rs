//! Processes that get no more requests, until they are gone.
//!
//! What a retired process has may be an event stream or a download, whose length the client decides. So the process stays
//! as long, while another one takes its place; its worker process asks it to end when nothing is under way any more.
//!
//! | it | after | what is done |
//! |---|---|---|
//! | was asked to end, and has not¹ | `request_timeout` and [`APP_KILL_DELAY`] | killed |
//! | has still something under way | the same | it *lingers*; of more than `retired_max`, the oldest is ended |
//! | lingers in a place that another one needs | at once | the oldest is ended |
//! | has still something under way | `grace_streams` | ended |
//!
//! ¹ It may go on with work behind its responses.
//!
//! Ended is: `SIGTERM`, so that it may close its WebSockets, and [`APP_KILL_DELAY`] later `SIGKILL`. Its worker process
//! has cancelled silent requests long before, and treats a process that does not answer as lost ([`Pool::lost`]).

use std::time::Instant;

use tracing::Level;

use super::super::generation::Out;
use super::super::slot::{Death, Parting};
use super::{APP_KILL_DELAY, Pool, PoolKind, Slot, SlotPhase};
use crate::spoken::rounded;
use maitred_control::ToWorker;

impl Pool {
    /// A process has ended that was not asked to: says so, and when the next one is started.
    pub(super) fn died(&mut self, now: Instant, name: &str, death: &Death, out: &mut Out<'_>) {
        let Death { clean, was_ready, lived, how } = death;
        out.counts.slot_crashes += 1;
        self.sizing.died(now, *lived, *was_ready);
        how.clone_into(&mut self.last_words);
        if !was_ready && self.failed_starts == 0 {
            self.failing_since = now;
        }
        self.failed_starts += u32::from(!was_ready);
        let young = if *was_ready { "" } else { " before it was ready" };
        let hint = match *clean && !was_ready && self.plan.kind == PoolKind::Started {
            true => "; a program that runs in the background cannot be reached: keep it in the foreground",
            false => "",
        };
        let next = match self.sizing.trouble() {
            Some(trouble) if trouble.next_try > now => {
                self.said_delay = true;
                format!("; the next one starts in {}", rounded(trouble.next_try - now))
            }
            _ => String::new(),
        };
        // One that is done, with no finding but that it was not asked to end, is no cause for alarm.
        let level = if *clean && *was_ready && next.is_empty() { Level::INFO } else { Level::WARN };
        out.log(level, format!("{name} {how}{young}{next}{hint}"));
    }

    /// Has a process finish, and end.
    pub(super) fn retire(&mut self, now: Instant, number: usize, why: &str, out: &mut Out<'_>) {
        let name = self.name(number);
        let timeout = self.plan.request_timeout + APP_KILL_DELAY;
        let next = now + self.plan.retired_time.map_or(timeout, |most| most.min(timeout));
        let Some(slot) = self.slots.get_mut(number).filter(|slot| slot.phase == SlotPhase::Ready) else {
            return;
        };
        let Ok(index) = u16::try_from(number) else { return };
        let parting = Parting { since: now, dismissed: false, lingers: false, next: Some(next) };
        (slot.phase, slot.asked) = (SlotPhase::Draining(parting), true);
        out.send(slot.at.generation, ToWorker::Retire(slot.id(index)));
        out.log(Level::INFO, format!("{name} is retired: {why}"));
    }

    /// Ends the processes for which its home has no slots: they finish where they are, and never go there.
    pub(super) fn part_with_surplus(&mut self, now: Instant, out: &mut Out<'_>) {
        for number in self.places()..self.slots.len() {
            self.retire(now, number, "there are more than there may be", out);
            let Some(slot) = self.slots.get_mut(number) else { return };
            slot.wanted_by = None;
            if slot.is_starting() {
                slot.asked = true;
                slot.terminate(now + APP_KILL_DELAY, out);
            }
        }
    }

    /// Nothing is under way any more at a process that was retired, and it was asked to end.
    pub(crate) fn dismissed(&mut self, now: Instant, number: usize) {
        let timeout = self.plan.request_timeout + APP_KILL_DELAY;
        if let Some(SlotPhase::Draining(parting)) = self.slots.get_mut(number).map(|slot| &mut slot.phase)
            && !parting.dismissed
        {
            (parting.dismissed, parting.next) = (true, Some(now + timeout));
        }
    }

    /// The time of a process that was retired is over, or the first part of it.
    pub(super) fn look_at_retired(&mut self, now: Instant, number: usize, out: &mut Out<'_>) {
        let (name, most) = (self.name(number), self.plan.retired_time);
        let Some(slot) = self.slots.get_mut(number) else { return };
        let SlotPhase::Draining(parting) = &mut slot.phase else { return };
        let end = most.map(|most| parting.since + most);
        if parting.dismissed {
            out.log(Level::WARN, format!("{name} did not finish in time"));
            slot.kill(out);
        } else if end.is_some_and(|end| end <= now) {
            out.log(
                Level::WARN,
                format!("{name} was retired, and what is under way there is aborted: grace_streams is over"),
            );
            slot.terminate(now + APP_KILL_DELAY, out);
        } else {
            parting.next = end;
            if !std::mem::replace(&mut parting.lingers, true) {
                out.log(
                    Level::INFO,
                    format!("{name} was retired, and stays as long as what is under way there"),
                );
            }
        }
    }

    /// Ends the oldest of the retired processes that linger when they are too many, or when a place is needed (`crowded`).
    pub(super) fn bound_lingering(&mut self, now: Instant, crowded: bool, out: &mut Out<'_>) {
        let most = usize::from(self.plan.workers.lingering_max());
        let lingers = |slot: &Slot| match slot.phase {
            SlotPhase::Draining(parting) if parting.lingers && !parting.dismissed => Some(parting.since),
            _ => None,
        };
        let all = self.slots.iter().enumerate();
        let mut all: Vec<(Instant, usize)> =
            all.filter_map(|(number, slot)| Some((lingers(slot)?, number))).collect();
        all.sort_unstable();
        // One that is on its way out leaves its place.
        let leaves = self.slots.iter().any(|slot| matches!(slot.phase, SlotPhase::Ending { .. }));
        let excess = all.len().saturating_sub(most).max(usize::from(crowded && !leaves));
        for (_, number) in all.into_iter().take(excess) {
            let name = self.name(number);
            let why = format!("more than retired_max ({most}) would stay, or its place is needed");
            out.log(
                Level::WARN,
                format!("{name} was retired, and what is under way there is aborted: {why}"),
            );
            if let Some(slot) = self.slots.get_mut(number) {
                slot.terminate(now + APP_KILL_DELAY, out);
            }
        }
    }

    /// Another configuration may give those that linger another time.
    pub(super) fn plan_partings(&mut self) {
        let most = self.plan.retired_time;
        for slot in &mut self.slots {
            if let SlotPhase::Draining(parting) = &mut slot.phase
                && parting.lingers
                && !parting.dismissed
            {
                parting.next = most.map(|most| parting.since + most);
            }
        }
    }
}
