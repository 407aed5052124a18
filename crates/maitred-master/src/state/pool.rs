//! One pool of application processes, as the master decides about it: which slots are filled, which worker processes own
//! their channels, and how each process ends. How many there shall be is decided by [`Sizing`].
//!
//! A pool belongs to the generation whose configuration it stands in, its *home*. When a reload leaves what concerns its
//! processes as it is, the pool, with all of them, gets the new generation for its home.
//!
//! | slot | HELLO | lost | closed its channel | exits | its worker process is gone | deadline |
//! |---|---|---|---|---|---|---|
//! | Empty | cannot be | cannot be | cannot be | cannot be | stays | none: [`Sizing`] says when it is filled |
//! | Starting⁵ | → Ready | kill → Ending | → Ending | → Empty, a death | → Recovering⁸ | kill → Ending |
//! | Ready | ignored | kill → Ending | → Ending | → Empty, a death | → Recovering⁸ | none |
//! | Recovering⁵ | → Ready | kill → Ending | → Ending | → Empty | stays⁸ | kill → Ending |
//! | Draining⁶ | ignored | kill → Ending | → Ending | → Empty | → Ending | → Ending |
//! | Ending⁷ | ignored | ignored | ignored | → Empty, a death unless it was asked to go | stays | kill, once |
//!
//! ⁵ Until the pool's start timeout. ⁶ Until what it had is answered, and it was asked to end; [`retiring`] has what bounds
//! that.
//! ⁷ Sent a signal, or about to exit by itself. ⁸ If it recovers, and the pool goes on ([`recovery`]); otherwise → Ending.

mod moving;
mod recovery;
mod retiring;

use std::rc::Rc;
use std::time::{Duration, Instant};

use tracing::Level;

pub(crate) use self::moving::released;
use super::events::{Action, PoolKind, PoolPlan, Seen};
use super::generation::Out;
use super::restart::{Restart, not_ready};
use super::slot::{Death, Slot};
pub(crate) use super::slot::{Home, SlotPhase};
use maitred_base::backoff::{APP, CONNECT};
use maitred_base::pool::settings::Settings;
use maitred_base::pool::sizing::{Sizing, SlotView, Why};
use maitred_control::{Greeting, SlotId, ToWorker};

/// Between `SIGTERM` and `SIGKILL` of an application process.
pub(crate) const APP_KILL_DELAY: Duration = Duration::from_secs(5);
/// The same when everything has to end at once.
pub(crate) const APP_KILL_DELAY_AT_ONCE: Duration = Duration::from_millis(250);
/// So many processes in a row that are never ready mean that the pool cannot start: then no request waits for it any more.
/// A single one may be an accident.
pub(crate) const FAILED_STARTS: u32 = 2;
/// An external server is being restarted, until it has refused all channels for so long: then it is taken to be away.
/// Requests wait meanwhile, for as long as their queue allows. The bound is a time, because all channels fail together.
const AWAY_AFTER: Duration = Duration::from_secs(10);
/// Why a process is retired that an operator wants replaced.
pub(super) const REPLACED: &str = "it is replaced";
/// What is said of a process that is never ready.
const LATE: &str = "was not ready within its start timeout";
/// How often a pool that changes is looked at.
const OBSERVE_OFTEN: Duration = Duration::from_millis(100);
/// How often one is looked at in which nothing has happened for [`CALM_AFTER`].
const OBSERVE_SELDOM: Duration = Duration::from_secs(1);
/// After this, a pool counts as idle.
const CALM_AFTER: Duration = Duration::from_secs(3);

/// What becomes of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// The pool's home serves.
    Serving,
    /// The pool's home finishes: what crashes is replaced, what exits cleanly was released.
    LetGo,
    /// All its processes end.
    Ending,
}

/// The outcome of the first processes of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
enum First {
    /// None of them has been ready yet.
    Awaited,
    /// A process has been ready, or none was to be started.
    Ready,
    /// None was ready, and the last of them ended so.
    Failed(String),
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    plan: Rc<PoolPlan>,
    home: Home,
    /// The generation that is to be its home after the reload under way.
    next: Option<Home>,
    /// Generations that may still have requests for it.
    former: Vec<Home>,
    course: Course,
    /// The worker process of its home has died, and the next one is not there yet.
    homeless: bool,
    slots: Vec<Slot>,
    /// Processes that have exited on their way to another worker process.
    unread: Vec<moving::LastWords>,
    sizing: Sizing,
    first: First,
    /// The last lines of the process that has exited last.
    said: Vec<String>,
    queued: u32,
    look_again: Option<Instant>,
    next_observation: Option<Instant>,
    /// When something last happened.
    stirred: Instant,
    next_replacement: Instant,
    /// Processes that there were at the command to replace all.
    floor: usize,
    /// A command to replace all processes that is not over.
    restart: Option<Restart>,
    /// What was reported to the worker process of the pool's trouble.
    told: Option<String>,
    /// The log says that its next start is put off, and not yet that its processes are up again.
    said_delay: bool,
    /// Processes in a row that have ended before they were ready.
    failed_starts: u32,
    /// When the first of them did.
    failing_since: Instant,
    /// How the last process ended.
    last_words: String,
    /// Whether its processes take another channel, as far as is known: what the last one has said that was ready.
    recovers: bool,
}

impl Pool {
    /// A pool without processes; [`Pool::decide`] starts the first.
    pub(crate) fn new(now: Instant, home: Home, plan: Rc<PoolPlan>) -> Pool {
        let mut pool = Pool {
            home,
            next: None,
            former: Vec::new(),
            course: Course::Serving,
            homeless: false,
            slots: Vec::new(),
            unread: Vec::new(),
            sizing: Sizing::new(now, plan.workers).with_delays(match plan.kind {
                PoolKind::Connected => CONNECT,
                PoolKind::Started | PoolKind::Absent => APP,
            }),
            first: if plan.workers.start == 0 { First::Ready } else { First::Awaited },
            said: Vec::new(),
            queued: 0,
            look_again: None,
            next_observation: None,
            stirred: now,
            next_replacement: now,
            floor: 0,
            restart: None,
            told: None,
            said_delay: false,
            failed_starts: 0,
            failing_since: now,
            last_words: String::new(),
            recovers: true,
            plan,
        };
        pool.fit(now);
        pool
    }

    /// The generation that it belongs to.
    pub(crate) fn home(&self) -> Home {
        self.home
    }

    /// Whether every process of it is gone, and none will be started.
    pub(crate) fn is_over(&self) -> bool {
        self.course == Course::Ending && self.slots.iter().all(|slot| slot.phase == SlotPhase::Empty)
    }

    /// Whether one of its processes has been ready, or has failed to become so.
    pub(crate) fn is_tried(&self) -> bool {
        self.first != First::Awaited
    }

    /// Why none of its first processes has become ready; `None` if one has, or may yet. An external server that is away is no
    /// fault of the configuration.
    pub(crate) fn failure(&self) -> Option<String> {
        let First::Failed(how) = &self.first else { return None };
        if self.plan.kind == PoolKind::Connected {
            return None;
        }
        Some(not_ready(&self.plan.name, how, &self.said))
    }

    /// The worker process that they report to was not ready before: those that were late could not be otherwise.
    pub(crate) fn can_report(&mut self) {
        if matches!(&self.first, First::Failed(how) if how == LATE) {
            self.first = First::Awaited;
        }
    }

    /// A process that exits now has said this last.
    pub(crate) fn said(&mut self, lines: Vec<String>) {
        self.said = lines;
    }

    /// Processes that are missing because the last ones died.
    pub(crate) fn delayed(&self) -> u64 {
        if self.course == Course::Ending || self.sizing.trouble().is_none() {
            return 0;
        }
        let wanted = self.plan.workers.start.max(self.plan.workers.min_spare).max(1);
        u64::from(wanted).saturating_sub(self.slots.iter().filter(|slot| slot.is_up()).count() as u64)
    }

    /// Until when, and after how many deaths in a row, the next start is put off; with the slot to show it at.
    pub(crate) fn delay(&self) -> Option<(u16, Instant, u32)> {
        let trouble = self.sizing.trouble()?;
        let empty = self.slots.iter().position(|slot| slot.phase == SlotPhase::Empty)?;
        Some((u16::try_from(empty).ok()?, trouble.next_try, trouble.deaths))
    }

    /// Whether it could go on under that configuration, with the processes that it has. Where there will be fewer slots, as many
    /// processes as there may be then have to be in those that stay: the others end.
    pub(crate) fn survives(&self, plan: &PoolPlan) -> bool {
        let up = |slots: usize| self.slots.iter().take(slots).filter(|slot| slot.is_up()).count();
        self.course == Course::Serving
            && self.next.is_none()
            && self.plan.process == plan.process
            && self.plan.name == plan.name
            && up(usize::from(plan.workers.slots()))
                >= up(self.slots.len()).min(usize::from(plan.workers.max))
    }

    /// Promises the pool this home if the reload under way succeeds; `None` takes the promise back.
    pub(crate) fn promise(&mut self, next: Option<Home>) {
        self.next = next;
    }

    /// The home that it was promised.
    pub(crate) fn promised(&self) -> Option<Home> {
        self.next
    }

    /// The pool's index in the configuration of a generation that it belongs to, or that may still have requests for it.
    pub(crate) fn index_at(&self, generation: u64) -> Option<u16> {
        let homes = self.former.iter().chain([&self.home]);
        homes.filter(|home| home.generation == generation).map(|home| home.index).next()
    }

    /// Goes to the home that it was promised: the old one is asked for all channels.
    pub(crate) fn move_home(&mut self, now: Instant, plan: Rc<PoolPlan>, out: &mut Out<'_>) {
        let Some(next) = self.next.take() else { return };
        let homeless = std::mem::take(&mut self.homeless);
        if !homeless {
            self.former.push(self.home);
        }
        let old = std::mem::replace(&mut self.home, next);
        self.stir(now);
        self.sizing.resize(now, plan.workers);
        self.plan = plan;
        self.fit(now);
        self.told = None;
        self.part_with_surplus(now, out);
        self.plan_partings();
        if homeless {
            self.recover_from(now, old, out);
        }
        // A link loses what it carries when the worker process at either of its ends dies, so that it is made only where there
        // would be no other process. Of several, one that is busy stays, and comes when it has nothing more to do.
        let single = self.is_single();
        for (number, slot) in (0..).zip(&mut self.slots) {
            if slot.is_up() && slot.at != next {
                slot.wanted_by = Some(next);
                match single {
                    // The link that there is goes to the worker process that needs it then.
                    true if slot.handed_on => {}
                    true => {
                        slot.handed_on = true;
                        let (generation, slot) = (slot.at.generation, slot.id(number));
                        out.actions.push(Action::HandOn { generation, slot });
                    }
                    false => out.send(slot.at.generation, ToWorker::Release(slot.id(number), false)),
                }
            }
        }
    }

    /// Has the pool's home finish what it has: with the processes that are there.
    pub(crate) fn let_go(&mut self, now: Instant) {
        if self.course == Course::Serving {
            self.course = Course::LetGo;
            let up = self.slots.iter().filter(|slot| slot.is_up()).count();
            self.freeze(now, up.max(1));
        }
    }

    fn freeze(&mut self, now: Instant, workers: usize) {
        self.sizing.resize(now, Settings::fixed(u16::try_from(workers).unwrap_or(u16::MAX)));
    }

    /// All its processes end, and no other is started.
    pub(crate) fn end(&mut self, kill_at: Instant, out: &mut Out<'_>) {
        self.course = Course::Ending;
        self.next = None;
        self.slots.iter_mut().for_each(|slot| slot.terminate(kill_at, out));
    }

    /// The process in this slot said how many files it may have open, which the next owner of its channel has to know.
    pub(crate) fn limited(&mut self, number: usize, open_files: u32) {
        let greeting = self.slots.get_mut(number).and_then(|slot| slot.greeting.as_mut());
        if let Some(greeting) = greeting {
            greeting.open_files = Some(open_files);
        }
    }

    /// The process in this slot said that it takes bodies while they come, which the next owner has to know as well.
    pub(crate) fn takes_streams(&mut self, number: usize) {
        if let Some(greeting) = self.slots.get_mut(number).and_then(|slot| slot.greeting.as_mut()) {
            greeting.streams = true;
        }
    }

    /// The process in this slot said HELLO.
    pub(crate) fn ready(&mut self, now: Instant, number: usize, greeting: Greeting) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        if slot.is_starting() {
            self.recovers = greeting.recovers;
            if matches!(slot.phase, SlotPhase::Recovering { .. }) {
                slot.asked = false;
            }
            (slot.phase, slot.since, slot.greeting) = (SlotPhase::Ready, now, Some(greeting));
            self.first = First::Ready;
            self.failed_starts = 0;
            self.stir(now);
        }
    }

    /// The worker process has lost the process in this slot.
    pub(crate) fn lost(&mut self, now: Instant, number: usize, why: &str, out: &mut Out<'_>) {
        let name = self.name(number);
        let Some(slot) = self.slots.get_mut(number) else { return };
        if slot.is_up() || matches!(slot.phase, SlotPhase::Draining(_)) {
            out.log(Level::WARN, format!("{name} is replaced: {why}"));
            slot.kill(out);
            self.stir(now);
        }
    }

    /// The process in this slot has closed its channel: it exits, or is made to. An external server may do that at any
    /// time.
    pub(crate) fn closed(&mut self, now: Instant, number: usize, out: &mut Out<'_>) {
        let Some(slot) = self.slots.get_mut(number) else { return };
        if self.plan.kind == PoolKind::Connected {
            if slot.is_up() || matches!(slot.phase, SlotPhase::Draining(_)) {
                slot.asked |= slot.greeting.is_some();
                slot.kill(out);
                self.stir(now);
            }
            return;
        }
        let timeout = match slot.phase {
            SlotPhase::Draining(_) => APP_KILL_DELAY,
            _ => self.plan.exit_grace,
        };
        if slot.is_up() || matches!(slot.phase, SlotPhase::Draining(_)) {
            slot.phase = SlotPhase::Ending { kill_at: Some(now + timeout) };
        }
    }

    /// The process in this slot has exited. `listening`: the worker process that had its channel needs the message.
    pub(crate) fn exited(
        &mut self,
        now: Instant,
        number: usize,
        clean: bool,
        how: &str,
        listening: bool,
        out: &mut Out<'_>,
    ) {
        let name = self.name(number);
        self.note_unread(number, how);
        let Some(slot) = self.slots.get_mut(number) else { return };
        let Ok(index) = u16::try_from(number) else { return };
        if listening {
            out.send(slot.at.generation, ToWorker::SlotExited(slot.id(index), how.to_owned()));
        }
        let (epoch, linked) = (slot.epoch, std::mem::take(&mut slot.linked));
        self.tell_users(&linked, index, epoch, how, out);
        let Some(slot) = self.slots.get_mut(number) else { return };
        let (was_ready, late, overdue) = (slot.greeting.is_some(), slot.late, slot.overdue);
        let let_go = self.course == Course::LetGo && clean && was_ready;
        let (asked, lived) = (slot.asked || let_go, now.saturating_duration_since(slot.started));
        let (epoch, old) = (slot.epoch, slot.stale.is_some());
        slot.phase = SlotPhase::Empty;
        self.stir(now);
        let grace = self.plan.exit_grace;
        let how = match (late, overdue) {
            (true, _) => LATE.to_owned(),
            (_, true) => format!(
                "closed its channel, and was killed because it had not exited {grace:?} later (exit_grace)"
            ),
            (false, false) => how.to_owned(),
        };
        if self.first == First::Awaited && !self.slots.iter().any(Slot::is_undecided) {
            self.first = First::Failed(how.clone());
        }
        if let_go {
            let left = self.slots.iter().filter(|slot| slot.phase != SlotPhase::Empty).count();
            match left {
                0 => self.course = Course::Ending,
                left => self.freeze(now, left),
            }
        }
        if asked || self.course == Course::Ending {
            return;
        }
        if !old {
            self.fail_restart(epoch, was_ready, &how);
        }
        self.died(now, &name, &Death { clean, was_ready, lived, how }, out);
    }

    /// Sends to worker processes that reach a process over a link that it has exited.
    fn tell_users(&self, users: &[u64], slot: u16, epoch: u64, how: &str, out: &mut Out<'_>) {
        for generation in users {
            if let Some(pool) = self.index_at(*generation) {
                out.send(*generation, ToWorker::SlotExited(SlotId { pool, slot, epoch }, how.to_owned()));
            }
        }
    }

    /// Takes in what the scoreboard says.
    pub(crate) fn see(&mut self, now: Instant, generation: u64, queued: u32, seen: &[Seen]) {
        if generation == self.home.generation {
            if queued != self.queued {
                self.stir(now);
            }
            self.queued = queued;
        }
        let mut stirred = false;
        for slot in self.slots.iter_mut().filter(|slot| slot.at.generation == generation) {
            let Some(found) = seen.iter().find(|found| found.epoch == slot.epoch) else { continue };
            let worked = found.work.requests != slot.work.requests || found.busy != slot.busy;
            if worked {
                slot.since = now;
                stirred = true;
            }
            (slot.busy, slot.work, slot.memory) = (found.busy, found.work, found.memory);
        }
        if stirred {
            self.stir(now);
        }
    }

    /// Starts and retires processes as [`Sizing`] says.
    pub(crate) fn decide(&mut self, now: Instant, out: &mut Out<'_>) {
        if self.course == Course::Ending || self.homeless {
            return;
        }
        self.fit(now);
        let views: Vec<SlotView> = self.slots.iter().map(Slot::view).collect();
        let decision = self.sizing.decide(now, &views, self.queued);
        self.look_again = decision.look_again;
        for _ in 0..decision.start {
            self.fill(now, out);
        }
        let serving = self.course == Course::Serving;
        self.watch_trial(now, out);
        if let Some(retirement) = decision.retire.filter(|_| serving) {
            let number = usize::from(retirement.slot);
            match retirement.why {
                Why::Spare => self.retire(now, number, "it is not needed", out),
                Why::OverMax => self.retire(now, number, "there are more than there may be", out),
                Why::Requests => self.recycle(now, number, "it has had its number of requests", out),
                Why::Age => self.recycle(now, number, "it is old enough", out),
                Why::Memory => self.recycle(now, number, "it takes too much memory", out),
            }
            if self.slots.get(number).is_some_and(Slot::is_replaceable) {
                // The process counts for nothing now, so that its successor is started.
                return self.decide(now, out);
            }
        }
        if serving {
            self.bound_lingering(now, decision.crowded, out);
        }
        match serving && decision.start == 0 {
            true => self.replace_stale(now, decision.missing, out),
            false => self.next_replacement = now + OBSERVE_OFTEN,
        }
        self.tell_trouble(now, out);
        self.plan_observation(now);
    }

    /// Whether one of its processes is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready_count() > 0
    }

    fn ready_count(&self) -> usize {
        self.slots.iter().filter(|slot| slot.phase == SlotPhase::Ready).count()
    }

    /// Starts a process in the first empty slot.
    fn fill(&mut self, now: Instant, out: &mut Out<'_>) {
        let mut slots = self.slots.iter().take(self.places());
        let Some(number) = slots.position(|slot| slot.phase == SlotPhase::Empty) else { return };
        let Ok(index) = u16::try_from(number) else { return };
        let mut slot = Slot::empty(now, self.home);
        slot.epoch = out.epoch();
        slot.phase = SlotPhase::Starting { deadline: now + self.plan.start_timeout };
        out.counts.slots_started += 1;
        let id = slot.id(index);
        if let Some(place) = self.slots.get_mut(number) {
            *place = slot;
        }
        self.stir(now);
        out.actions.push(Action::SpawnApp {
            generation: self.home.generation,
            plan: self.home.plan,
            slot: id,
        });
    }

    /// Lets the worker process know whether waiting is for nothing.
    fn tell_trouble(&mut self, now: Instant, out: &mut Out<'_>) {
        let is_up = self.slots.iter().any(|slot| slot.phase == SlotPhase::Ready);
        if self.said_delay && is_up && self.sizing.trouble().is_none() {
            self.said_delay = false;
            out.log(Level::INFO, format!("pool \"{}\" has recovered", self.plan.name));
        }
        // Processes that are ready are no help if the worker process has none of them yet, as after a reload. But it will.
        let hopeless = !is_up
            && match self.plan.kind {
                PoolKind::Connected => {
                    self.failed_starts > 0 && now.saturating_duration_since(self.failing_since) >= AWAY_AFTER
                }
                PoolKind::Started | PoolKind::Absent => self.failed_starts >= FAILED_STARTS,
            };
        let trouble = hopeless.then(|| {
            let (name, how, starts) = (&self.plan.name, &self.last_words, self.failed_starts);
            if self.plan.kind == PoolKind::Connected {
                return format!("pool \"{name}\" cannot be reached: {how}");
            }
            format!("pool \"{name}\" cannot start: {starts} processes in a row have ended before they were ready, the last one {how}")
        });
        if trouble != self.told {
            self.told.clone_from(&trouble);
            out.send(self.home.generation, ToWorker::Trouble(self.home.index, trouble));
        }
    }

    /// Does not wait any longer because processes have died young.
    pub(crate) fn try_now(&mut self, now: Instant) {
        self.sizing.try_now(now);
    }

    /// Handles the command to drain the process of a slot.
    ///
    /// # Errors
    /// When there is none that could.
    pub(crate) fn drain_slot(
        &mut self,
        now: Instant,
        number: u16,
        out: &mut Out<'_>,
    ) -> Result<String, String> {
        let name = self.name(usize::from(number));
        match self.slots.get(usize::from(number)).map(|slot| slot.phase) {
            Some(SlotPhase::Ready) => {
                self.retire(now, usize::from(number), "on request of its operator", out);
                Ok(format!("{name} finishes what it has, and ends"))
            }
            Some(SlotPhase::Starting { .. } | SlotPhase::Recovering { .. }) => {
                Err(format!("{name} is still starting; there is nothing to finish yet"))
            }
            Some(SlotPhase::Draining(_) | SlotPhase::Ending { .. }) => {
                Err(format!("{name} is ending already"))
            }
            Some(SlotPhase::Empty) => Err(format!(
                "slot {number} of pool {} is empty; filled are: {}",
                self.plan.name,
                self.filled()
            )),
            None => Err(format!(
                "pool {} has no slot {number}: they are numbered from 0 to {}",
                self.plan.name,
                self.slots.len() - 1
            )),
        }
    }

    /// The slots where there is a process, for a message.
    fn filled(&self) -> String {
        let filled = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_up());
        let numbers: Vec<String> = filled.map(|(number, _)| number.to_string()).collect();
        if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") }
    }

    /// Handles the command for a fixed number of processes.
    ///
    /// # Errors
    /// When there are no slots for so many.
    pub(crate) fn scale(&mut self, now: Instant, workers: u16) -> Result<String, String> {
        let max = self.plan.workers.max.max(1);
        if workers == 0 || workers > max {
            return Err(format!(
                "pool {} can have 1 to {max} processes until its configuration says more",
                self.plan.name
            ));
        }
        let limits = self.plan.workers;
        self.sizing.resize(
            now,
            Settings {
                max_requests: limits.max_requests,
                max_age: limits.max_age,
                max_memory: limits.max_memory,
                spawn_max: limits.spawn_max,
                retire_after: Duration::from_secs(1),
                ..Settings::fixed(workers)
            },
        );
        self.stir(now);
        Ok(format!("pool {} keeps {workers} processes until the next reload", self.plan.name))
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Instant, out: &mut Out<'_>) {
        let (mut late, mut parting) = (Vec::new(), Vec::new());
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if slot.deadline().is_none_or(|deadline| deadline > now) {
                continue;
            }
            match slot.phase {
                SlotPhase::Starting { .. } => {
                    slot.late = true;
                    late.push((number, LATE));
                }
                SlotPhase::Recovering { .. } => late.push((number, "was not ready again in time")),
                SlotPhase::Ending { .. } if !slot.asked => slot.overdue = true,
                SlotPhase::Draining(_) => {
                    parting.push(number);
                    continue;
                }
                _ => {}
            }
            slot.kill(out);
        }
        parting.into_iter().for_each(|number| self.look_at_retired(now, number, out));
        for (number, what) in late {
            out.log(Level::WARN, format!("{} {what}", self.name(number)));
        }
        self.plan_observation(now);
    }

    /// The next time at which [`Pool::tick`] or [`Pool::decide`] has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let replacement = self.slots.iter().any(Slot::is_replaceable) && !self.is_on_trial();
        let more = [self.look_again, self.next_observation, replacement.then_some(self.next_replacement)];
        let sizes = self.course != Course::Ending && !self.homeless;
        let sizing = more.into_iter().flatten().filter(|_| sizes);
        let told = self.restart.as_ref().map(Restart::deadline);
        self.slots.iter().filter_map(Slot::deadline).chain(sizing).chain(told).min()
    }

    /// When the scoreboard is to be looked at next, if the pool's size depends on what it says.
    fn plan_observation(&mut self, now: Instant) {
        let workers = &self.plan.workers;
        let recycles = workers.max_requests.is_some() || workers.max_memory.is_some();
        let away = !self.former.is_empty() || self.slots.iter().any(|slot| slot.stale.is_some());
        if workers.is_fixed() && !recycles && !away || self.course == Course::Ending {
            self.next_observation = None;
            return;
        }
        let calm = now.saturating_duration_since(self.stirred) >= CALM_AFTER;
        let interval = if calm { OBSERVE_SELDOM } else { OBSERVE_OFTEN };
        let latest = now + interval;
        let due = self.next_observation.filter(|at| *at > now && *at <= latest);
        self.next_observation = Some(due.unwrap_or(latest));
    }

    /// The slot of a process.
    pub(crate) fn slot_of(&self, epoch: u64) -> Option<usize> {
        self.slots.iter().position(|slot| slot.epoch == epoch && slot.phase != SlotPhase::Empty)
    }

    /// Whether the channel of this slot is at the worker process of a generation.
    pub(crate) fn is_at(&self, number: usize, generation: u64) -> bool {
        self.slots.get(number).is_some_and(|slot| slot.at.generation == generation)
    }

    /// Whether the worker process of a generation has the channel of this slot, or reaches it over a link.
    pub(crate) fn is_used_by(&self, number: usize, generation: u64) -> bool {
        let linked = |slot: &Slot| slot.linked.contains(&generation);
        self.is_at(number, generation) || self.slots.get(number).is_some_and(linked)
    }

    /// The generation that has the channel of this slot.
    pub(crate) fn owner_of(&self, number: usize) -> Option<u64> {
        self.slots.get(number).map(|slot| slot.at.generation)
    }

    /// The pool's processes, each with the generation whose worker process has its channel.
    pub(crate) fn processes(&self) -> impl Iterator<Item = (u64, u64)> {
        let living = self.slots.iter().filter(|slot| slot.phase != SlotPhase::Empty);
        living.map(|slot| (slot.epoch, slot.at.generation))
    }

    /// The pool's name.
    pub(crate) fn pool_name(&self) -> &str {
        &self.plan.name
    }

    /// Whether its home serves.
    pub(crate) fn is_serving(&self) -> bool {
        self.course == Course::Serving
    }

    fn name(&self, number: usize) -> String {
        let what = match self.plan.kind {
            PoolKind::Connected => "channel",
            PoolKind::Started | PoolKind::Absent => "application process",
        };
        format!("{what} {}/{number}", self.plan.name)
    }

    fn stir(&mut self, now: Instant) {
        self.stirred = now;
    }

    /// The slots that its home has.
    fn places(&self) -> usize {
        usize::from(self.plan.workers.slots())
    }

    /// As many slots as its home has; more while there are processes in them that were started under another configuration.
    fn fit(&mut self, now: Instant) {
        let filled = self.slots.iter().rposition(|slot| slot.phase != SlotPhase::Empty);
        let slots = self.places().max(filled.map_or(0, |last| last + 1));
        self.slots.resize(slots, Slot::empty(now, self.home));
    }
}
