//! Processes that are replaced, and those that get no more requests, until they are gone.
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
//! An ended process gets `SIGTERM`, so that it may close its WebSockets, and [`APP_KILL_DELAY`] later `SIGKILL`. The process's
//! worker process has cancelled silent requests long before, and treats a process that does not answer as lost
//! ([`Pool::lost`]).

use std::time::Instant;

use tracing::Level;

use super::super::events::Asker;
use super::super::generation::Out;
use super::super::restart::{Report, Restart, Trial};
use super::super::slot::{Death, Parting};
use super::{APP_KILL_DELAY, Course, OBSERVE_OFTEN, Pool, PoolKind, REPLACED, Slot, SlotPhase};
use crate::spoken::rounded;
use maitred_base::pool::canary::{self, Verdict, Work};
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
        // A process that is done, with no finding but that it was not asked to end, is no cause for alarm.
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

    /// Replaces a process that has reached a limit, one after the other. Without a slot for its successor, which processes that
    /// finish hold, it goes at once if others stay.
    pub(super) fn recycle(&mut self, now: Instant, number: usize, why: &'static str, out: &mut Out<'_>) {
        if self.slots.iter().any(|slot| slot.stale.is_some() && slot.is_up()) {
            return;
        }
        let vacant = self.slots.iter().take(self.places()).any(|slot| slot.phase == SlotPhase::Empty);
        let ready = self.ready_count();
        match self.slots.get_mut(number) {
            Some(slot) if vacant => {
                slot.stale = Some(why);
                self.floor = ready;
                self.stir(now);
            }
            _ if ready > 1 => self.retire(now, number, why, out),
            _ => {}
        }
    }

    /// Retires one of the processes that are to be replaced, when those that take their place are there; or, while some of
    /// them are `missing` because there is no slot for them, when there are still as many as there were.
    pub(super) fn replace_stale(&mut self, now: Instant, missing: u16, out: &mut Out<'_>) {
        let stale = self.slots.iter().position(Slot::is_replaceable);
        let Some(number) = stale.filter(|_| now >= self.next_replacement && !self.is_on_trial()) else {
            return;
        };
        self.next_replacement = now + OBSERVE_OFTEN;
        let enough = missing == 0 || self.ready_count() > self.floor;
        if enough && self.sizing.trouble().is_none() && !self.slots.iter().any(Slot::is_undecided) {
            self.stir(now);
            let why = self.slots.get(number).and_then(|slot| slot.stale).unwrap_or(REPLACED);
            self.retire(now, number, why, out);
        }
    }

    /// Handles the command to replace all processes, or to try the new release with so many `canaries` first.
    ///
    /// # Errors
    /// When canaries have no place, or cannot be judged.
    pub(crate) fn restart(
        &mut self,
        now: Instant,
        asker: Option<Asker>,
        canaries: Option<u16>,
        last_epoch: u64,
    ) -> Result<(), String> {
        let trial = canaries.map(|canaries| self.trial(canaries, last_epoch)).transpose()?;
        let marked = trial.as_ref().map_or(usize::MAX, |trial| trial.canaries);
        let total = self.slots.iter().filter(|slot| slot.is_up()).count();
        let up = self.slots.iter_mut().filter(|slot| slot.is_up());
        up.take(marked).for_each(|slot| slot.stale = Some(REPLACED));
        self.floor = total;
        if total == 0 {
            // What they died of may be mended.
            self.try_now(now);
        }
        self.stir(now);
        match (&mut self.restart, asker) {
            (Some(restart), asker) => {
                (restart.total, restart.failed, restart.trial) = (total, None, trial);
                restart.askers.extend(asker);
            }
            (None, Some(asker)) => self.restart = Some(Restart::new(now, asker, total, trial)),
            (None, None) => {}
        }
        Ok(())
    }

    fn trial(&self, canaries: u16, last_old: u64) -> Result<Trial, String> {
        let (name, canaries) = (&self.plan.name, usize::from(canaries));
        if self.plan.kind != PoolKind::Started {
            return Err(format!(
                "pool {name} has no processes of this server, so that none can be tried first"
            ));
        }
        if self.restart.is_some() {
            return Err(format!("the processes of pool {name} are being replaced already"));
        }
        let up = self.ready_count();
        if canaries == 0 || canaries > up {
            return Err(format!(
                "pool {name} has {up} processes that are ready: so many can be tried at most, and one at least"
            ));
        }
        let vacant =
            self.slots.iter().take(self.places()).filter(|slot| slot.phase == SlotPhase::Empty).count();
        if canaries > vacant {
            return Err(format!(
                "pool {name} has {vacant} places beside the processes that stay meanwhile: try so many, or set `retired_max` of its `workers`"
            ));
        }
        Ok(Trial { canaries, last_old, watched: None })
    }

    pub(super) fn is_on_trial(&self) -> bool {
        self.restart.as_ref().is_some_and(|restart| restart.trial.is_some())
    }

    /// A process that was started since has ended without having been asked to: then a command to replace all is over, unless it
    /// was ready and is no canary.
    pub(super) fn fail_restart(&mut self, epoch: u64, was_ready: bool, how: &str) {
        let Some(restart) = &mut self.restart else { return };
        let canary = restart.trial.as_ref().is_some_and(|trial| epoch > trial.last_old);
        if !was_ready || canary {
            let when = if was_ready { "while it was tried" } else { "before it was ready" };
            restart.failed.get_or_insert_with(|| format!("a new process {how} {when}"));
        }
    }

    /// What processes have answered, up to the process `last_old` or after it.
    fn work_of(&self, last_old: u64, canaries: bool) -> Work {
        let slots = self.slots.iter().filter(|slot| slot.phase != SlotPhase::Empty);
        let chosen = slots.filter(|slot| (slot.epoch > last_old) == canaries);
        chosen.fold(Work::default(), |sum, slot| sum.plus(slot.all_work()))
    }

    /// Judges canaries, and goes on or back.
    pub(super) fn watch_trial(&mut self, now: Instant, out: &mut Out<'_>) {
        let Some(trial) = self.restart.as_ref().and_then(|restart| restart.trial.clone()) else { return };
        let Trial { canaries, last_old, watched } = trial;
        let Some((since, before)) = watched else {
            let ready = |slot: &&Slot| slot.epoch > last_old && slot.phase == SlotPhase::Ready;
            if self.slots.iter().filter(ready).count() >= canaries {
                let others = self.work_of(last_old, false);
                let trial = self.restart.as_mut().and_then(|restart| restart.trial.as_mut());
                trial.into_iter().for_each(|trial| trial.watched = Some((now, others)));
            }
            return;
        };
        let (theirs, others) = (self.work_of(last_old, true), self.work_of(last_old, false).since(before));
        let verdict = canary::judge(&self.plan.canary, now.saturating_duration_since(since), theirs, others);
        let figures = format!("{theirs}; the others {others}");
        match verdict {
            Verdict::Wait => {}
            Verdict::GoOn => {
                let name = &self.plan.name;
                out.log(
                    Level::INFO,
                    format!("pool \"{name}\": the new release is good, and goes on: {figures}"),
                );
                self.restart.iter_mut().for_each(|restart| restart.trial = None);
                let old = self.slots.iter_mut().filter(|slot| slot.epoch <= last_old && slot.is_up());
                old.for_each(|slot| slot.stale = Some(REPLACED));
                self.stir(now);
            }
            Verdict::Back(cause) => {
                let why = format!("{}: {figures}", cause.text());
                self.restart.iter_mut().for_each(|restart| restart.failed = Some(why.clone()));
            }
        }
    }

    /// A command to replace all has failed: what was not replaced stays, and canaries go.
    fn go_back(&mut self, now: Instant, out: &mut Out<'_>) {
        let last_old =
            self.restart.as_ref().and_then(|restart| restart.trial.as_ref()).map(|trial| trial.last_old);
        self.slots.iter_mut().filter(|slot| slot.stale == Some(REPLACED)).for_each(|slot| slot.stale = None);
        let Some(last_old) = last_old else { return };
        for number in 0..self.slots.len() {
            if self.slots.get(number).is_some_and(|slot| slot.epoch > last_old) {
                self.retire(now, number, "the new release is not good enough", out);
            }
        }
        let starting = self.slots.iter_mut().filter(|slot| slot.epoch > last_old && slot.is_starting());
        for slot in starting {
            slot.asked = true;
            slot.terminate(now + APP_KILL_DELAY, out);
        }
    }

    /// What those are to hear that wait for a command to replace all.
    pub(crate) fn report(&mut self, now: Instant, out: &mut Out<'_>) -> Option<(Vec<Asker>, Report)> {
        let serves = self.course == Course::Serving;
        let down = self.sizing.trouble().is_some();
        let left = self.slots.iter().filter(|slot| slot.stale == Some(REPLACED) && slot.is_up()).count();
        let restart = self.restart.as_mut()?;
        let due = restart.is_due(now);
        if let Some((well, text)) = restart.outcome(&self.plan.name, left, (serves, down), &self.said) {
            if !well {
                self.go_back(now, out);
            }
            out.log(if well { Level::INFO } else { Level::ERROR }, text.clone());
            return self.restart.take().map(|restart| (restart.askers, Report::Over(well, text)));
        }
        let restart = self.restart.as_ref().filter(|_| due)?;
        let text = match &restart.trial {
            Some(trial) => self.told_of(trial),
            None => restart.progress(&self.plan.name, left),
        };
        Some((restart.askers.clone(), Report::Waits(text)))
    }

    fn told_of(&self, trial: &Trial) -> String {
        let Trial { canaries, last_old, watched } = trial;
        let name = &self.plan.name;
        let Some((_, before)) = watched else {
            return format!("{canaries} of the processes of pool {name} are started anew, to be tried");
        };
        let (theirs, others) = (self.work_of(*last_old, true), self.work_of(*last_old, false).since(*before));
        let (requests, wanted) = (theirs.requests, self.plan.canary.requests);
        format!(
            "pool {name} tries the new release with {canaries}: {requests} requests of {wanted}, {theirs}; the others {others}"
        )
    }

    /// A command to replace all is over because the server stops, or all processes are replaced anyway.
    pub(crate) fn end_restart(&mut self) -> Vec<Asker> {
        self.restart.take().map(|restart| restart.askers).unwrap_or_default()
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
        // A process that is on its way out leaves its place.
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
