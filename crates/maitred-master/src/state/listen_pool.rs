//! One listen pool: processes that accept connections on sockets of the master, and report nothing.
//!
//! The pool belongs to the master, not to a generation: a worker process that dies or is replaced does not concern it. The
//! slots are divided among its buckets (slot *n* is of bucket *n* mod *buckets*), and each bucket is sized by itself
//! ([`Buckets`]) by what the kernel says of it ([`Watch`]).
//!
//! | slot | lived for `start_grace` | exits | is retired, or the pool ends | deadline |
//! |---|---|---|---|---|
//! | Empty | cannot be | cannot be | stays | none |
//! | Starting | → Ready | → Empty, a death before it was ready | signal → Ending | → Ready |
//! | Ready | cannot be | → Empty, a death | signal → Ending | none |
//! | Ending | cannot be | → Empty | stays | `SIGKILL`, once |
//!
//! A reload that changes it *tries* its successor first, which has the same sockets: one whose first process ends before it is
//! ready refuses the reload. Then the pool is *superseded*: its processes accept until each bucket of its successor has a process
//! that is ready. So a successor that cannot start costs no connection.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tracing::Level;

use super::events::{AcceptSeen, Action, Asker, ListenPlan, PoolPlan};
use super::generation::Out;
use super::pool::{APP_KILL_DELAY, FAILED_STARTS, REPLACED};
use super::restart::{Report, Restart, not_ready};
use crate::spoken::rounded;
use maitred_base::pool::buckets::{BucketView, Buckets};
use maitred_base::pool::listen::Watch;
use maitred_base::pool::settings::Settings;
use maitred_base::pool::sizing::{self, SlotView, Trouble, Why};
use maitred_config::StopSignal;
use maitred_control::{SlotId, ToWorker};
use maitred_status::scoreboard::SlotState;

/// How often the queues of a pool are looked at in which something happens.
const LOOK_OFTEN: Duration = Duration::from_millis(100);
/// How often those of a pool in which nothing has happened for [`CALM_AFTER`]. The first connections after a calm time are
/// accepted by the processes that are there; this only delays the start of more.
const LOOK_SELDOM: Duration = Duration::from_millis(500);
/// How often where nothing depends on it but what the status shows.
const LOOK_FIXED: Duration = Duration::from_secs(1);
/// After this, a pool counts as idle.
const CALM_AFTER: Duration = Duration::from_secs(3);
/// CPU time per time below which a process counts as unused: what an idle server spends on looking at the clock.
const IDLE_SHARE: f64 = 0.02;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Empty,
    Starting { ready_at: Instant },
    Ready,
    Ending { kill_at: Option<Instant> },
}

/// One place for a process.
#[derive(Debug, Clone)]
struct Slot {
    epoch: u64,
    phase: Phase,
    /// Whether the process was asked to go: its end is no death then.
    asked: bool,
    /// The reason why its process is to be replaced, which goes on until there is another in its place.
    stale: Option<&'static str>,
    started: Instant,
    /// When it last used the CPU.
    since: Instant,
    share: f64,
    memory: u64,
    /// Processes that this slot has had.
    starts: u64,
}

/// What becomes of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// The course of a pool whose configuration is not in force yet.
    Trying,
    Serving,
    Superseded,
    Ending,
}

/// What a slot looks like from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotFace {
    /// The slot's process; of no meaning when there is none.
    pub epoch: u64,
    /// What it does.
    pub state: SlotState,
    /// Processes that it has had.
    pub starts: u64,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct ListenPool {
    plan: Rc<PoolPlan>,
    listen: ListenPlan,
    /// Index in the configuration of this number.
    index: u16,
    number: u64,
    course: Course,
    slots: Vec<Slot>,
    watches: Vec<Watch>,
    sizing: Buckets,
    look_again: Option<Instant>,
    next_look: Instant,
    stirred: Instant,
    next_replacement: Instant,
    /// A command to replace all processes that is not over.
    restart: Option<Restart>,
    failed_starts: u32,
    last_words: String,
    /// The last lines of a process that exits now.
    said: Vec<String>,
    /// What was reported of the pool's trouble, and to which worker process.
    told: Option<(u64, Option<String>)>,
    /// The log says that its next start is put off, and not yet that its processes are up again.
    said_delay: bool,
}

impl ListenPool {
    /// A pool without processes; [`ListenPool::decide`] starts the first. `None` if the plan is one of channels.
    pub(crate) fn new(now: Instant, number: u64, index: u16, plan: &PoolPlan) -> Option<ListenPool> {
        let listen = plan.listen?;
        let mut pool = ListenPool {
            listen,
            index,
            number,
            course: Course::Serving,
            slots: Vec::new(),
            watches: plan.workers.split(listen.buckets.max(1)).iter().map(Watch::new).collect(),
            sizing: Buckets::new(now, &plan.workers, listen.buckets.max(1)),
            look_again: None,
            next_look: now,
            stirred: now,
            next_replacement: now,
            restart: None,
            failed_starts: 0,
            last_words: String::new(),
            said: Vec::new(),
            told: None,
            said_delay: false,
            plan: Rc::new(plan.clone()),
        };
        pool.fit(now);
        Some(pool)
    }

    /// A pool of a configuration that is in force only when each bucket has a process that is ready.
    pub(crate) fn attempt(now: Instant, number: u64, index: u16, plan: &PoolPlan) -> Option<ListenPool> {
        let pool = ListenPool::new(now, number, index, plan)?;
        Some(ListenPool { course: Course::Trying, ..pool })
    }

    /// Serves from now on: the pool's configuration is in force.
    pub(crate) fn serve(&mut self) {
        self.course = Course::Serving;
    }

    /// Whether its configuration is not in force yet.
    pub(crate) fn is_trying(&self) -> bool {
        self.course == Course::Trying
    }

    /// Whether it is known how its first processes fare.
    pub(crate) fn is_tried(&self) -> bool {
        self.failed_starts > 0 || self.is_ready()
    }

    /// Why none of its first processes has become ready; `None` if one has, or may yet.
    pub(crate) fn failure(&self) -> Option<String> {
        let is_failed = self.failed_starts > 0 && !self.is_ready();
        is_failed.then(|| not_ready(&self.plan.name, &self.last_words, &self.said))
    }

    /// A process that exits now has said this last.
    pub(crate) fn said(&mut self, lines: Vec<String>) {
        self.said = lines;
    }

    fn is_kept_up(&self) -> bool {
        matches!(self.course, Course::Trying | Course::Serving)
    }

    /// As many slots as the settings need, one for each bucket at least; more while there are processes in them that were
    /// started under another configuration.
    fn fit(&mut self, now: Instant) {
        let filled = self.slots.iter().rposition(|slot| slot.phase != Phase::Empty);
        let slots = self.places(&self.plan).max(filled.map_or(0, |last| last + 1));
        self.slots.resize(slots, Slot::empty(now));
    }

    /// The slots that it has under a configuration.
    fn places(&self, plan: &PoolPlan) -> usize {
        usize::from(plan.workers.slots().max(self.listen.buckets))
    }

    /// Whether it goes on under that configuration, with the processes that it has. Where there will be fewer slots, as many as
    /// there may be then have to be in those that stay: the others end.
    pub(crate) fn survives(&self, plan: &PoolPlan) -> bool {
        let up = |slots: usize| self.slots.iter().take(slots).filter(|slot| slot.is_up()).count();
        self.course == Course::Serving
            && self.plan.name == plan.name
            && self.plan.process == plan.process
            && self.plan.listen == plan.listen
            && up(self.places(plan)) >= up(self.slots.len()).min(usize::from(plan.workers.max))
    }

    /// Goes on under that configuration.
    pub(crate) fn go_on(
        &mut self,
        now: Instant,
        number: u64,
        index: u16,
        plan: &PoolPlan,
        out: &mut Out<'_>,
    ) {
        (self.number, self.index) = (number, index);
        self.plan = Rc::new(plan.clone());
        self.resize(now, &plan.workers);
        self.fit(now);
        self.told = None;
        for number in self.places(plan)..self.slots.len() {
            self.retire(now, number, "there are more than there may be", out);
        }
    }

    fn resize(&mut self, now: Instant, settings: &Settings) {
        self.sizing.resize(now, settings);
        for (watch, part) in self.watches.iter_mut().zip(settings.split(self.listen.buckets.max(1))) {
            watch.resize(&part);
        }
        self.stirred = now;
    }

    /// Another pool takes over its sockets.
    pub(crate) fn supersede(&mut self) {
        if self.course == Course::Serving {
            self.course = Course::Superseded;
        }
    }

    /// All its processes are asked to end, and none is started.
    pub(crate) fn end(&mut self, kill_at: Instant, out: &mut Out<'_>) {
        self.course = Course::Ending;
        let signal = self.listen.stop_signal;
        for slot in &mut self.slots {
            match &mut slot.phase {
                Phase::Starting { .. } | Phase::Ready => {
                    (slot.phase, slot.asked) = (Phase::Ending { kill_at: Some(kill_at) }, true);
                    out.actions.push(Action::StopApp(slot.epoch, signal));
                }
                Phase::Ending { kill_at: Some(earlier) } => *earlier = kill_at.min(*earlier),
                Phase::Empty | Phase::Ending { kill_at: None } => {}
            }
        }
    }

    /// When a process that is asked to end now is killed.
    pub(crate) fn timeout(&self, now: Instant) -> Instant {
        now + self.plan.request_timeout + APP_KILL_DELAY
    }

    /// Whether every process of it is gone, and none will be started.
    pub(crate) fn is_over(&self) -> bool {
        !self.is_kept_up() && self.slots.iter().all(|slot| slot.phase == Phase::Empty)
    }

    /// Whether it is the pool of the configuration in force.
    pub(crate) fn is_serving(&self) -> bool {
        self.course == Course::Serving
    }

    /// Whether another pool has its sockets.
    pub(crate) fn is_superseded(&self) -> bool {
        self.course == Course::Superseded
    }

    /// Whether each bucket has a process that is ready.
    pub(crate) fn is_ready(&self) -> bool {
        let buckets = usize::from(self.listen.buckets.max(1));
        (0..buckets).all(|bucket| {
            self.slots.iter().skip(bucket).step_by(buckets).any(|slot| slot.phase == Phase::Ready)
        })
    }

    /// The epochs of the pool's processes.
    pub(crate) fn processes(&self) -> impl Iterator<Item = u64> {
        let living = self.slots.iter().filter(|slot| slot.phase != Phase::Empty);
        living.map(|slot| slot.epoch)
    }

    /// What asks its processes to end.
    pub(crate) fn stop_signal(&self) -> StopSignal {
        self.listen.stop_signal
    }

    /// The pool's name.
    pub(crate) fn pool_name(&self) -> &str {
        &self.plan.name
    }

    /// The configuration that it belongs to.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The pool's index in that configuration.
    pub(crate) fn index(&self) -> u16 {
        self.index
    }

    /// Whether one of its slots has this process.
    pub(crate) fn has(&self, epoch: u64) -> bool {
        self.slot_of(epoch).is_some()
    }

    fn slot_of(&self, epoch: u64) -> Option<usize> {
        self.slots.iter().position(|slot| slot.epoch == epoch && slot.phase != Phase::Empty)
    }

    fn bucket_of(&self, number: usize) -> u16 {
        u16::try_from(number % usize::from(self.listen.buckets.max(1))).unwrap_or(0)
    }

    fn name(&self, number: usize) -> String {
        format!("application process {}/{number}", self.plan.name)
    }

    /// Takes in what the kernel says.
    pub(crate) fn see(&mut self, now: Instant, queues: &[u32], seen: &[AcceptSeen]) {
        for (watch, queue) in self.watches.iter_mut().zip(queues) {
            watch.see(now, *queue);
            if *queue > 0 {
                self.stirred = now;
            }
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.phase != Phase::Empty) {
            let Some(found) = seen.iter().find(|found| found.epoch == slot.epoch) else { continue };
            (slot.share, slot.memory) = (found.share, found.memory);
            if found.share > IDLE_SHARE {
                slot.since = now;
                self.stirred = now;
            }
        }
    }

    /// A process has exited, or could not be started.
    pub(crate) fn exited(&mut self, now: Instant, epoch: u64, clean: bool, how: &str, out: &mut Out<'_>) {
        let Some(number) = self.slot_of(epoch) else { return };
        let (name, bucket) = (self.name(number), self.bucket_of(number));
        let Some(slot) = self.slots.get_mut(number) else { return };
        let (asked, was_ready) = (slot.asked, slot.phase == Phase::Ready);
        let lived = now.saturating_duration_since(slot.started);
        let old = slot.stale.is_some();
        slot.phase = Phase::Empty;
        self.stirred = now;
        if asked || !self.is_kept_up() {
            return;
        }
        out.counts.slot_crashes += 1;
        self.sizing.died(bucket, now, lived, was_ready);
        how.clone_into(&mut self.last_words);
        self.failed_starts += u32::from(!was_ready);
        if let Some(restart) = self.restart.as_mut().filter(|_| !was_ready && !old) {
            restart.failed.get_or_insert_with(|| format!("a new process {how} as soon as it was started"));
        }
        let young = if was_ready { "" } else { " as soon as it was started" };
        let hint = match clean && !was_ready {
            true => "; a program that runs in the background cannot be supervised: keep it in the foreground",
            false => "",
        };
        let next = match self.sizing.trouble(bucket) {
            Some(trouble) if trouble.next_try > now => {
                self.said_delay = true;
                format!("; the next one starts in {}", rounded(trouble.next_try - now))
            }
            _ => String::new(),
        };
        out.log(Level::WARN, format!("{name} {how}{young}{next}{hint}"));
    }

    /// Starts and retires processes. `worker`: the current worker process, which shows the pool's trouble.
    pub(crate) fn decide(&mut self, now: Instant, worker: Option<u64>, out: &mut Out<'_>) {
        if !self.is_kept_up() {
            return;
        }
        self.fit(now);
        let buckets = usize::from(self.listen.buckets.max(1));
        let mut shown: Vec<(Vec<SlotView>, u32)> = Vec::with_capacity(buckets);
        for (bucket, watch) in self.watches.iter().enumerate() {
            let slots = || self.slots.iter().skip(bucket).step_by(buckets);
            let mut views: Vec<SlotView> = slots().map(Slot::view).collect();
            let shares: Vec<f64> = slots().map(|slot| slot.share).collect();
            let queued = watch.present(now, &mut views, &shares);
            shown.push((views, queued));
        }
        let views: Vec<_> =
            shown.iter().map(|(slots, queued)| BucketView { slots, queued: *queued }).collect();
        let decisions = self.sizing.decide(now, &views);
        self.look_again = decisions.iter().filter_map(|decision| decision.look_again).min();
        let mut missing = 0;
        let (mut starting, mut recycled) = (false, false);
        for (bucket, decision) in decisions.iter().enumerate() {
            missing += decision.missing;
            starting |= decision.start > 0;
            for _ in 0..decision.start {
                self.fill(now, bucket, out);
            }
            if let Some(retirement) = decision.retire {
                let number = usize::from(retirement.slot) * buckets + bucket;
                if let (Why::Spare, Some(watch)) = (retirement.why, self.watches.get_mut(bucket)) {
                    watch.retired(now);
                }
                match retirement.why {
                    Why::Spare => self.retire(now, number, "it is not needed", out),
                    Why::OverMax => self.retire(now, number, "there are more than there may be", out),
                    Why::Requests | Why::Age => self.recycle(now, number, "it is old enough"),
                    Why::Memory => self.recycle(now, number, "it takes too much memory"),
                }
                recycled |= self.slots.get(number).is_some_and(|slot| slot.stale.is_some() && slot.is_up());
            }
        }
        if recycled {
            // The recycled processes count for nothing now, so that their successors are started.
            return self.decide(now, worker, out);
        }
        match starting {
            true => self.next_replacement = now + LOOK_OFTEN,
            false => self.replace_stale(now, missing, out),
        }
        self.tell_trouble(worker, out);
    }

    /// Starts a process in the first empty slot of a bucket.
    fn fill(&mut self, now: Instant, bucket: usize, out: &mut Out<'_>) {
        let buckets = usize::from(self.listen.buckets.max(1));
        let places = self.places(&self.plan);
        let mut slots = self.slots.iter_mut().enumerate().take(places).skip(bucket).step_by(buckets);
        let Some((number, slot)) = slots.find(|(_, slot)| slot.phase == Phase::Empty) else { return };
        let (Ok(index), Ok(bucket)) = (u16::try_from(number), u16::try_from(bucket)) else { return };
        let starts = slot.starts + 1;
        *slot = Slot { epoch: out.epoch(), starts, ..Slot::empty(now) };
        slot.phase = Phase::Starting { ready_at: now + self.listen.start_grace };
        let id = SlotId { pool: self.index, slot: index, epoch: slot.epoch };
        out.counts.slots_started += 1;
        self.stirred = now;
        out.actions.push(Action::SpawnAccepting { plan: self.number, slot: id, bucket });
    }

    /// Asks a process to finish and go.
    fn retire(&mut self, now: Instant, number: usize, why: &str, out: &mut Out<'_>) {
        let (name, kill_at, signal) = (self.name(number), self.timeout(now), self.listen.stop_signal);
        let Some(slot) = self.slots.get_mut(number).filter(|slot| slot.is_up()) else { return };
        (slot.phase, slot.asked) = (Phase::Ending { kill_at: Some(kill_at) }, true);
        out.actions.push(Action::StopApp(slot.epoch, signal));
        out.log(Level::INFO, format!("{name} is retired: {why}"));
        self.stirred = now;
    }

    /// Replaces a process that has reached a limit, when there is another in its place.
    fn recycle(&mut self, now: Instant, number: usize, why: &'static str) {
        if self.slots.iter().any(|slot| slot.stale.is_some() && slot.is_up()) {
            return;
        }
        if let Some(slot) = self.slots.get_mut(number) {
            slot.stale = Some(why);
            self.stirred = now;
        }
    }

    /// Retires one of the processes that are to be replaced, when those that take their place are there. Where there is no slot
    /// for one of them, because processes that end hold all, one of its bucket has to be there.
    fn replace_stale(&mut self, now: Instant, missing: u16, out: &mut Out<'_>) {
        let stale = self.slots.iter().position(|slot| slot.stale.is_some() && slot.phase == Phase::Ready);
        let Some(number) = stale.filter(|_| now >= self.next_replacement) else { return };
        self.next_replacement = now + LOOK_OFTEN;
        let starting = |slot: &Slot| matches!(slot.phase, Phase::Starting { .. });
        let buckets = usize::from(self.listen.buckets.max(1));
        let mut alike = self.slots.iter().skip(number % buckets).step_by(buckets);
        let enough = missing == 0
            || alike.clone().filter(|slot| slot.phase == Phase::Ready).count() > 1 && {
                alike.all(|slot| slot.phase != Phase::Empty)
            };
        if enough && self.trouble().is_none() && !self.slots.iter().any(starting) {
            let why = self.slots.get(number).and_then(|slot| slot.stale).unwrap_or(REPLACED);
            self.retire(now, number, why, out);
        }
    }

    /// The worst trouble of its buckets.
    fn trouble(&self) -> Option<Trouble> {
        (0..self.listen.buckets.max(1))
            .filter_map(|bucket| self.sizing.trouble(bucket))
            .max_by_key(|one| one.deaths)
    }

    /// Until when, and after how many deaths in a row, the next start is put off; with the slot to show it at.
    pub(crate) fn delay(&self) -> Option<(u16, Instant, u32)> {
        let trouble = self.trouble().filter(|_| self.is_serving())?;
        let empty = self.slots.iter().position(|slot| slot.phase == Phase::Empty)?;
        Some((u16::try_from(empty).ok()?, trouble.next_try, trouble.deaths))
    }

    /// Processes that are missing because the last ones died.
    pub(crate) fn delayed(&self) -> u64 {
        if self.course != Course::Serving || self.trouble().is_none() {
            return 0;
        }
        let wanted = self.plan.workers.start.max(self.plan.workers.min_spare).max(1);
        let up = self.slots.iter().filter(|slot| slot.is_up()).count() as u64;
        u64::from(wanted).saturating_sub(up)
    }

    /// Lets the worker process know what to show.
    fn tell_trouble(&mut self, worker: Option<u64>, out: &mut Out<'_>) {
        let is_up = self.slots.iter().any(|slot| slot.phase == Phase::Ready);
        if self.said_delay && is_up && self.trouble().is_none() {
            self.said_delay = false;
            out.log(Level::INFO, format!("pool \"{}\" has recovered", self.plan.name));
        }
        let Some(worker) = worker.filter(|_| self.course == Course::Serving) else { return };
        if self.slots.iter().any(|slot| slot.phase == Phase::Ready) {
            self.failed_starts = 0;
        }
        let trouble = (self.failed_starts >= FAILED_STARTS).then(|| {
            let (name, how, starts) = (&self.plan.name, &self.last_words, self.failed_starts);
            let grace = self.listen.start_grace;
            format!("pool \"{name}\" cannot start: {starts} processes in a row have ended within {grace:?}, the last one {how}")
        });
        let told = self.told.as_ref().filter(|(to, _)| *to == worker).and_then(|(_, text)| text.as_ref());
        if trouble.as_ref() != told {
            out.send(worker, ToWorker::Trouble(self.index, trouble.clone()));
        }
        self.told = Some((worker, trouble));
    }

    /// What those are to hear that wait for a command to replace all.
    pub(crate) fn report(&mut self, now: Instant, out: &mut Out<'_>) -> Option<(Vec<Asker>, Report)> {
        let serves = self.course == Course::Serving;
        let left = self.slots.iter().filter(|slot| slot.stale == Some(REPLACED) && slot.is_up()).count();
        let restart = self.restart.as_mut()?;
        let due = restart.is_due(now);
        let Some((well, text)) = restart.outcome(&self.plan.name, left, (serves, false), &self.said) else {
            let text = restart.progress(&self.plan.name, left);
            return due.then(|| (restart.askers.clone(), Report::Waits(text)));
        };
        if !well {
            self.slots
                .iter_mut()
                .filter(|slot| slot.stale == Some(REPLACED))
                .for_each(|slot| slot.stale = None);
        }
        out.log(if well { Level::INFO } else { Level::ERROR }, text.clone());
        self.restart.take().map(|restart| (restart.askers, Report::Over(well, text)))
    }

    /// A command to replace all is over because the server stops, or all processes are replaced anyway.
    pub(crate) fn end_restart(&mut self) -> Vec<Asker> {
        self.restart.take().map(|restart| restart.askers).unwrap_or_default()
    }

    /// Handles the command to replace all processes.
    pub(crate) fn restart(&mut self, now: Instant, asker: Asker) {
        let mut count = 0;
        for slot in self.slots.iter_mut().filter(|slot| slot.is_up()) {
            slot.stale = Some(REPLACED);
            count += 1;
        }
        self.stirred = now;
        match &mut self.restart {
            Some(restart) => {
                (restart.total, restart.failed) = (count, None);
                restart.askers.push(asker);
            }
            None => self.restart = Some(Restart::new(now, asker, count, None)),
        }
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
        if self.slots.get(usize::from(number)).is_none_or(|slot| slot.phase != Phase::Ready) {
            return Err(format!("{name}: there is no process that is ready"));
        }
        self.retire(now, usize::from(number), "on request of its operator", out);
        Ok(format!("{name} finishes what it has, and ends"))
    }

    /// Handles the command for a fixed number of processes.
    ///
    /// # Errors
    /// When there are no slots for so many, or not one for each bucket.
    pub(crate) fn scale(&mut self, now: Instant, workers: u16) -> Result<String, String> {
        let (least, most) = (self.listen.buckets.max(1), self.plan.workers.max);
        if workers < least || workers > most {
            let name = &self.plan.name;
            return Err(format!(
                "pool {name} can have {least} to {most} processes until its configuration says more"
            ));
        }
        let limits = self.plan.workers;
        let fixed = Settings {
            max_age: limits.max_age,
            max_memory: limits.max_memory,
            spawn_max: limits.spawn_max,
            retire_after: Duration::from_secs(1),
            ..Settings::fixed(workers)
        };
        self.resize(now, &fixed);
        Ok(format!("pool {} keeps {workers} processes until the next reload", self.plan.name))
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Instant, out: &mut Out<'_>) {
        let mut late = Vec::new();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            match slot.phase {
                Phase::Starting { ready_at } if ready_at <= now => {
                    (slot.phase, slot.since) = (Phase::Ready, now);
                }
                Phase::Ending { kill_at: Some(at) } if at <= now => {
                    slot.phase = Phase::Ending { kill_at: None };
                    out.actions.push(Action::KillApp(slot.epoch));
                    late.push(number);
                }
                _ => {}
            }
        }
        for number in late {
            out.log(Level::WARN, format!("{} did not finish in time", self.name(number)));
        }
        if self.next_look <= now {
            self.next_look = now + self.look_interval(now);
        }
    }

    fn look_interval(&self, now: Instant) -> Duration {
        let calm = now.saturating_duration_since(self.stirred) >= CALM_AFTER;
        match (self.plan.workers.is_fixed() && self.plan.workers.max_memory.is_none(), calm) {
            (true, _) => LOOK_FIXED,
            (false, true) => LOOK_SELDOM,
            (false, false) => LOOK_OFTEN,
        }
    }

    /// The next time at which [`ListenPool::tick`] or [`ListenPool::decide`] has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let slots = self.slots.iter().filter_map(|slot| match slot.phase {
            Phase::Starting { ready_at } => Some(ready_at),
            Phase::Ending { kill_at } => kill_at,
            Phase::Empty | Phase::Ready => None,
        });
        let is_kept_up = self.is_kept_up();
        let stale = self.slots.iter().any(|slot| slot.stale.is_some() && slot.phase == Phase::Ready);
        let more = [self.look_again, Some(self.next_look), stale.then_some(self.next_replacement)];
        slots.chain(more.into_iter().flatten().filter(|_| is_kept_up)).min()
    }

    /// What its slots look like, in their order.
    pub(crate) fn faces(&self) -> impl Iterator<Item = SlotFace> {
        self.slots.iter().map(|slot| SlotFace { epoch: slot.epoch, state: slot.state(), starts: slot.starts })
    }
}

impl Slot {
    fn empty(now: Instant) -> Slot {
        Slot {
            epoch: 0,
            phase: Phase::Empty,
            asked: false,
            stale: None,
            started: now,
            since: now,
            share: 0.0,
            memory: 0,
            starts: 0,
        }
    }

    fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Starting { .. } | Phase::Ready)
    }

    fn state(&self) -> SlotState {
        match self.phase {
            Phase::Empty => SlotState::Dead,
            Phase::Starting { .. } => SlotState::Starting,
            Phase::Ready if self.share > IDLE_SHARE => SlotState::Busy,
            Phase::Ready => SlotState::Idle,
            Phase::Ending { .. } => SlotState::Draining,
        }
    }

    /// As if it were idle; [`Watch::present`] knows better.
    fn view(&self) -> SlotView {
        let phase = match self.phase {
            Phase::Empty => sizing::Phase::Empty,
            // What is to be replaced counts for nothing, so that what replaces it is started.
            _ if self.stale.is_some() => sizing::Phase::Draining,
            Phase::Starting { .. } => sizing::Phase::Starting,
            Phase::Ready => sizing::Phase::Idle,
            Phase::Ending { .. } => sizing::Phase::Draining,
        };
        SlotView {
            phase,
            since: self.since,
            started: self.started,
            requests: 0,
            memory: self.memory,
            busy: 0,
            capacity: 1,
        }
    }
}

#[cfg(test)]
mod tests;
