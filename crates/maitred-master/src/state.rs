//! The master's decisions: events in, actions out. Pure: the clock comes with each event, and what an action led to comes
//! back as an event.
//!
//! The worker and application processes of one generation are decided in [`generation`]; here is what binds
//! generations together. At most one generation is *current*; at most one is *next* (a reload is bringing it up); all
//! others are on their way out.
//!
//! | state | reload wanted¹ | prepared | refused² |
//! |---|---|---|---|
//! | Loading | ignored: the start is one | start current → Up | exit with its code |
//! | Up | `Prepare` → Preparing | abandon it | ignored |
//! | Up, Preparing | queued, once | start next → Bringing up | reload refused → Up |
//! | Up, Bringing up | queued, once | abandon it | kill next, reload refused → Up |
//! | Stopping | told that it is stopping | abandon it | ignored |
//! | Done | ignored | ignored | ignored |
//!
//! | state | worker Ready | worker exits | next can take over |
//! |---|---|---|---|
//! | Loading | cannot be | cannot be | cannot be |
//! | Up, Preparing | current, first time: announce | current: another one, at once or delayed³ | cannot be |
//! | Up, Bringing up | current: as Up; next: watched | next: reload refused → Up; current: as Up | hand over, commit → Up |
//! | Stopping | ignored | the last process of all: exit | cannot be |
//! | Done | ignored | ignored | ignored |
//!
//! | state | stop wanted⁴ | stop at once⁵ |
//! |---|---|---|
//! | Loading | exit 0⁶ | exit 0⁶ |
//! | Up | drain all, close sockets → Stopping | kill all, close sockets → Stopping |
//! | Up, Preparing or Bringing up | reload refused, then as Up | reload refused, then as Up |
//! | Stopping | kill all⁷ | kill all |
//! | Done | ignored | ignored |
//!
//! ¹ `SIGHUP`, a command; a configuration that a client sends is refused instead of queued. ² By
//! [`Event::Prepared`], by the death of the next worker process, or by its being not ready in time. ³ Three times before the
//! first Ready: the server fails, which is a stop at once with exit status 1; so is a first worker process that is not ready
//! in time. ⁴ `SIGTERM`, `SIGQUIT`, a command. ⁵ `SIGINT`. ⁶ The shell prepares before it reads another event, so that this
//! cannot be. ⁷ The second signal means it; a command only repeats the first.
//!
//! `SIGUSR2` replaces the executable: [`upgrade`] has what concerns that, also for the three states above when an old worker
//! process serves meanwhile (Loading is then tried again, and deaths before the first Ready do not count). `SIGCHLD` says nothing
//! that the processes' own descriptors do not.
//!
//! Exit status: 0 after a stop, 1 when the server could not be brought up, 2 when its first configuration was refused as
//! such.

/// A generation together with what it writes to; borrows two fields of the master apart.
macro_rules! out {
    ($master:expr) => {
        &mut Out {
            actions: &mut $master.actions,
            counts: &mut $master.counts,
            epoch_last: &mut $master.epoch_last,
        }
    };
}

mod commands;
pub(crate) mod events;
pub(crate) mod generation;
pub(crate) mod listen_pool;
mod listening;
pub(crate) mod pool;
pub(crate) mod progress;
mod restart;
mod slot;
pub(crate) mod upgrade;

use std::rc::Rc;
use std::time::Instant;

use maitred_sys::signals::Signal;
use tracing::Level;

use self::events::{Action, Asker, Counts, Event, Notice, Plan, PoolKind, PoolPlan, Refusal, Seen};
use self::generation::{Generation, NEXT_START_TIMEOUT, Out, WORKER_START_TIMEOUT, WorkerPhase};
use self::listen_pool::ListenPool;
use self::pool::{APP_KILL_DELAY, APP_KILL_DELAY_AT_ONCE, Home, Pool};
use self::upgrade::{Predecessors, Upgrade};
use maitred_base::backoff::{Backoff, WORKER};
use maitred_control::{DrainTime, FromWorker, ToWorker};

/// Deaths of the worker process before it was ever ready, after which the master exits.
pub(crate) const START_DEATHS_MAX: u32 = 3;

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Loading,
    Up,
    Stopping { exit_code: u8 },
    Done,
}

#[derive(Debug, Clone, PartialEq)]
enum Reload {
    Preparing,
    BringingUp { generation: u64, plan: Rc<Plan> },
}

/// The machine. See the module.
#[derive(Debug, Clone)]
pub(crate) struct Master {
    phase: Phase,
    /// The configuration in force.
    plan: Option<Rc<Plan>>,
    current: Option<u64>,
    /// When the next current worker process starts, if there is none and one is due.
    respawn_at: Option<Instant>,
    reload: Option<(Reload, Vec<Asker>)>,
    /// When to say next what the reload waits for.
    tell_at: Option<Instant>,
    /// A reload that is to follow the present one.
    queued: Option<Vec<Asker>>,
    /// The executable is about to be replaced.
    upgrade: Option<Upgrade>,
    /// Processes that the image before this one has started.
    predecessors: Predecessors,
    /// All that have a process left.
    generations: Vec<Generation>,
    /// The worker process that was the last to say that it cannot run, and why.
    cannot_run: Option<(u64, String)>,
    /// All that have a process left, or may get one.
    pools: Vec<Pool>,
    /// The same of pools that accept connections by themselves.
    listen_pools: Vec<ListenPool>,
    crashes: Backoff,
    was_ready: bool,
    start_deaths: u32,
    epoch_last: u64,
    counts: Counts,
    actions: Vec<Action>,
}

impl Default for Master {
    fn default() -> Self {
        Self::new()
    }
}

impl Master {
    /// A master that has done nothing yet; [`Event::Start`] sets it off.
    pub(crate) fn new() -> Self {
        Master {
            phase: Phase::Loading,
            plan: None,
            current: None,
            respawn_at: None,
            reload: None,
            tell_at: None,
            queued: None,
            upgrade: None,
            predecessors: Predecessors::default(),
            generations: Vec::new(),
            cannot_run: None,
            pools: Vec::new(),
            listen_pools: Vec::new(),
            crashes: Backoff::default(),
            was_ready: false,
            start_deaths: 0,
            epoch_last: 0,
            counts: Counts::default(),
            actions: Vec::new(),
        }
    }

    /// What to do about an event.
    pub(crate) fn handle(&mut self, now: Instant, event: Event) -> Vec<Action> {
        if self.phase == Phase::Done {
            return Vec::new();
        }
        match event {
            Event::Start => self.actions.push(Action::Prepare),
            Event::Prepared(Ok(plan)) => self.prepared(now, plan),
            Event::Prepared(Err(refusal)) => self.refused(now, refusal),
            Event::Signal(signal) => self.signal(now, signal),
            Event::StopWanted => self.stop_once(now),
            Event::Replace => self.replace(),
            Event::SourceChanged(name) => self.source_changed(now, &name),
            Event::Proposed(asker, proposal) => self.want_proposed(asker, proposal),
            Event::Worker(generation, message) => self.worker_says(now, generation, message),
            Event::WorkerExited { generation, how } => self.worker_exited(now, generation, &how),
            Event::AppSaid(slot, lines) => self.app_said(slot.epoch, lines),
            Event::AppExited { slot, clean, how } => self.app_exited(now, slot.epoch, clean, &how),
            Event::Observed { generation, queued, seen } => self.observed(now, generation, &queued, &seen),
            Event::Accepting { queues, seen } => self.accepting(now, &queues, &seen),
            Event::Checked(outcome) => self.checked(now, outcome),
            Event::NotReplaced(why) => self.refuse_upgrade(now, &why),
            Event::Tick => self.tick(now),
        }
        self.take_over(now);
        for pool in &mut self.pools {
            pool.decide(now, out!(self));
        }
        self.decide_listen_pools(now);
        self.report_restarts(now);
        self.succeed(now);
        self.generations.retain(|generation| !generation.is_over());
        self.pools.retain(|pool| !pool.is_over());
        self.finish();
        std::mem::take(&mut self.actions)
    }

    /// When to send [`Event::Tick`].
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let generations = self.generations.iter().filter_map(Generation::next_deadline);
        let pools = self.pools.iter().filter_map(Pool::next_deadline);
        let listen_pools = self.listen_pools.iter().filter_map(ListenPool::next_deadline);
        generations
            .chain(pools)
            .chain(listen_pools)
            .chain(self.respawn_at)
            .chain(self.upgrade_deadline())
            .chain(self.progress_deadline())
            .min()
    }

    /// Numbers to show.
    pub(crate) fn counts(&self) -> Counts {
        let listen_pools = self.listen_pools.iter().map(ListenPool::delayed);
        let slots_delayed = self.pools.iter().map(Pool::delayed).chain(listen_pools).sum();
        Counts { slots_delayed, ..self.counts }
    }

    /// The pools that belong to a generation.
    pub(crate) fn pools_of(&self, generation: u64) -> impl Iterator<Item = &Pool> {
        self.pools.iter().filter(move |pool| pool.home().generation == generation)
    }

    /// The worker processes that were replaced and finish what they have, the oldest first, each with since when.
    pub(crate) fn old_workers(&self) -> impl Iterator<Item = (u64, Instant)> {
        self.generations.iter().filter_map(|one| Some((one.number, one.draining_since()?)))
    }

    /// The number of the current worker process.
    pub(crate) fn current(&self) -> Option<u64> {
        self.current.filter(|_| self.predecessors.serving().is_none())
    }

    fn log(&mut self, level: Level, text: impl Into<String>) {
        self.actions.push(Action::Log(level, text.into()));
    }

    fn generation(&mut self, number: u64) -> Option<&mut Generation> {
        self.generations.iter_mut().find(|generation| generation.number == number)
    }

    fn reply(&mut self, askers: &[Asker], well: bool, text: &str) {
        for (generation, command) in askers {
            if self.generation(*generation).is_some_and(|one| one.listens()) {
                self.actions
                    .push(Action::Send(*generation, ToWorker::CommandDone(*command, well, text.to_owned())));
            }
        }
    }

    fn spawn(&mut self, now: Instant, plan: Rc<Plan>, adopts: bool) -> u64 {
        self.counts.generation += 1;
        let number = self.counts.generation;
        let new = Generation::start(now, number, Rc::clone(&plan), adopts, out!(self));
        self.generations.push(new);
        for (index, pool) in with_slots(&plan) {
            let home = Home { generation: number, index, plan: plan.number };
            let waits = |one: &&mut Pool| {
                let at = one.home();
                one.is_homeless() && (at.index, at.plan) == (index, plan.number)
            };
            if let Some(pool) = self.pools.iter_mut().find(waits) {
                pool.rehome(now, home, out!(self));
                continue;
            }
            let (current, plan) = (self.current, Rc::new(pool.clone()));
            let lives_on = |one: &&mut Pool| {
                let there = one.is_homeless() || Some(one.home().generation) == current;
                adopts && there && one.survives(&plan)
            };
            match self.pools.iter_mut().find(lives_on) {
                Some(pool) => pool.promise(Some(home)),
                None => self.pools.push(Pool::new(now, home, plan)),
            }
        }
        number
    }

    /// Kills a worker process, and ends what is its.
    fn kill(&mut self, now: Instant, number: u64) {
        if let Some(generation) = self.generations.iter_mut().find(|one| one.number == number) {
            generation.kill(out!(self));
        }
        self.part_with_apps(now, number, true);
    }

    /// A worker process is gone. The application processes that it had get another channel if they can and the server goes on,
    /// unless they are what it could not `finish` with.
    fn part_with_apps(&mut self, now: Instant, number: u64, finished: bool) {
        let (goes_on, current) = (self.phase == Phase::Up && finished, self.current == Some(number));
        for pool in &mut self.pools {
            let recover = goes_on && (current || pool.home().generation != number);
            pool.worker_gone(now, number, recover, out!(self));
        }
    }

    fn spawn_current(&mut self, now: Instant) {
        self.respawn_at = None;
        if let Some(plan) = self.plan.clone() {
            let adopts = self.predecessors.serving().is_some();
            self.current = Some(self.spawn(now, plan, adopts));
        }
    }

    fn prepared(&mut self, now: Instant, plan: Plan) {
        match (&self.phase, &mut self.reload) {
            (Phase::Loading, _) => {
                self.phase = Phase::Up;
                let plan = Rc::new(plan);
                self.plan = Some(Rc::clone(&plan));
                self.spawn_current(now);
                self.adopt_listen_pools(now, &plan);
            }
            (Phase::Up, Some((Reload::Preparing, _))) => {
                let plan = Rc::new(plan);
                // Even if there is no predecessor now: one may be there by the time of the take-over.
                let generation = self.spawn(now, Rc::clone(&plan), true);
                self.generations
                    .iter_mut()
                    .filter(|one| one.number == generation)
                    .for_each(Generation::is_next);
                self.tell_later(now);
                if let Some((reload, _)) = &mut self.reload {
                    *reload = Reload::BringingUp { generation, plan };
                }
            }
            _ => self.actions.push(Action::Abandon(plan.number)),
        }
    }

    fn refused(&mut self, now: Instant, refusal: Refusal) {
        match (&self.phase, &self.reload) {
            (Phase::Loading, _) if self.predecessors.serving().is_some() => {
                self.retry_later(now, &refusal.text);
            }
            (Phase::Loading, _) => {
                self.log(Level::ERROR, refusal.text);
                self.phase = Phase::Stopping { exit_code: refusal.exit_code };
            }
            (Phase::Up, Some((Reload::Preparing, _))) => self.refuse_reload(now, &refusal.text),
            _ => {}
        }
    }

    fn signal(&mut self, now: Instant, signal: Signal) {
        match signal {
            Signal::Hangup => self.want_reload(None),
            Signal::Terminate | Signal::Quit => {
                if matches!(self.phase, Phase::Stopping { .. }) {
                    self.stop_at_once(now, 0);
                } else {
                    self.stop(now);
                }
            }
            Signal::Interrupt => self.stop_at_once(now, 0),
            Signal::User2 => self.want_upgrade(now, None),
            // The shell opens logs anew at the first.
            Signal::User1 | Signal::Child => {}
        }
    }

    fn want_reload(&mut self, asker: Option<Asker>) {
        match (&self.phase, &self.reload) {
            (Phase::Up, _) if self.upgrade.is_some() => self.queued.get_or_insert_default().extend(asker),
            (Phase::Up, None) => {
                self.log(Level::INFO, "reload");
                if self.was_ready {
                    self.actions.push(Action::Notify(Notice::Reloading));
                }
                self.actions.push(Action::Prepare);
                self.reload = Some((Reload::Preparing, asker.into_iter().collect()));
            }
            (Phase::Up, Some(_)) => self.queued.get_or_insert_default().extend(asker),
            (Phase::Stopping { .. }, _) => {
                self.reply(asker.as_slice(), false, "the server is stopping");
            }
            (Phase::Loading, _) => self.retry(),
            (Phase::Done, _) => {}
        }
    }

    fn refuse_reload(&mut self, now: Instant, why: &str) {
        let Some((reload, askers)) = self.reload.take() else { return };
        if let Reload::BringingUp { generation, plan } = reload {
            self.kill(now, generation);
            for pool in &mut self.pools {
                pool.promise(None);
            }
            self.end_trials(now);
            self.actions.push(Action::Abandon(plan.number));
        }
        self.counts.reloads_refused += 1;
        // A stop in the middle of a reload is no mistake of the operator or of the configuration.
        if matches!(self.phase, Phase::Stopping { .. }) {
            self.log(Level::INFO, format!("reload given up: {why}"));
        } else {
            self.counts.reload_refused = 1;
            self.log(Level::ERROR, format!("reload refused, the present configuration stays: {why}"));
        }
        self.reply(&askers, false, why);
        self.reload_is_over(Notice::Refused(why.to_owned()));
    }

    fn reload_is_over(&mut self, notice: Notice) {
        if self.phase != Phase::Up {
            return;
        }
        if self.was_ready {
            self.actions.push(Action::Notify(notice));
        }
        self.start_queued_reload();
    }

    fn start_queued_reload(&mut self) {
        if self.phase == Phase::Up
            && let Some(askers) = self.queued.take()
        {
            self.want_reload(None);
            if let Some((_, waiting)) = &mut self.reload {
                waiting.extend(askers);
            }
        }
    }

    /// Bounds the worker processes that were replaced and still run: the oldest in excess have to finish.
    fn bound_old_workers(&mut self, now: Instant, max: usize) {
        let earlier = self.predecessors.draining();
        let unbounded = |one: &&mut Generation| one.is_draining();
        let mut old: Vec<&mut Generation> = self.generations.iter_mut().filter(unbounded).collect();
        old.sort_by_key(|one| one.number);
        let mut surplus = (old.len() + earlier).saturating_sub(max);
        // The worker processes of the image before are the oldest.
        let grace = self.plan.as_ref().map_or(APP_KILL_DELAY, |plan| plan.grace);
        surplus -= self.predecessors.hurry(now, grace, surplus);
        for one in old.into_iter().take(surplus) {
            let number = one.number;
            if let Some(left_ms) = one.hurry(now) {
                let text = format!(
                    "worker process {number} has to finish: there are more than old_workers_max = {max}"
                );
                self.actions.push(Action::Log(Level::WARN, text));
                self.actions.push(Action::Send(number, ToWorker::Hurry(left_ms)));
            }
        }
    }

    /// A pool that was to live on may have ended with its worker process: then the next generation needs one of its own.
    fn complete_pools(&mut self, now: Instant, generation: u64, plan: &Plan) {
        for (index, pool) in with_slots(plan) {
            let home = Home { generation, index, plan: plan.number };
            if !self.pools.iter().any(|one| one.home() == home || one.promised() == Some(home)) {
                self.pools.push(Pool::new(now, home, Rc::new(pool.clone())));
            }
        }
    }

    /// The pools that live on go to the generation that has taken over; the others stay with the old one.
    fn move_pools(&mut self, now: Instant, plan: &Plan, old: Option<u64>) {
        for pool in &mut self.pools {
            let there = pool.promised().and_then(|home| plan.pools.get(usize::from(home.index)));
            match there {
                Some(there) => pool.move_home(now, Rc::new(there.clone()), out!(self)),
                // The pool's worker process has died, and none will come for it.
                None if pool.is_homeless() => pool.end(now + APP_KILL_DELAY, out!(self)),
                None if Some(pool.home().generation) == old => pool.let_go(now),
                None => {}
            }
        }
    }

    fn worker_says(&mut self, now: Instant, number: u64, message: FromWorker) {
        let known = self.generations.iter_mut().find(|one| one.number == number && one.listens());
        let Some(generation) = known else { return };
        match message {
            FromWorker::Ready => {
                if generation.ready() {
                    self.worker_is_ready(number);
                }
            }
            FromWorker::SlotReady(id, greeting) => {
                self.slot(number, id.epoch, |pool, slot, _| pool.ready(now, slot, greeting));
            }
            FromWorker::SlotLimits(id, open_files) => {
                self.slot(number, id.epoch, |pool, slot, _| pool.limited(slot, open_files));
            }
            FromWorker::SlotStreams(id) => {
                self.slot(number, id.epoch, |pool, slot, _| pool.takes_streams(slot));
            }
            FromWorker::SlotLost(id, why) => {
                self.slot_of_user(number, id.epoch, |pool, slot, out| pool.lost(now, slot, &why, out));
            }
            FromWorker::SlotClosed(id) => {
                self.slot(number, id.epoch, |pool, slot, out| pool.closed(now, slot, out));
            }
            FromWorker::SlotReleased(id, linked) => {
                pool::released(&mut self.pools, now, (id.epoch, number), linked, out!(self));
            }
            FromWorker::SlotDismissed(id) => {
                self.slot(number, id.epoch, |pool, slot, _| pool.dismissed(now, slot))
            }
            // The shell reads the scoreboard after this message.
            FromWorker::QueuePressure(_) => {}
            // The worker process ends by itself.
            FromWorker::CannotRun(why) => {
                let why =
                    format!("the new worker process cannot run: {}", why.replace(char::is_control, " "));
                self.cannot_run = Some((number, why));
            }
            FromWorker::ModuleHangs(_) => {
                // A thread that does not come back would keep a process that drains from ending.
                self.log(
                    Level::ERROR,
                    format!("worker process {number} is killed: a module holds an event loop"),
                );
                self.kill(now, number);
            }
            // The shell's.
            FromWorker::Private
            | FromWorker::ChallengeInPlace(_)
            | FromWorker::NameWanted(_)
            | FromWorker::KeyWanted(_)
            | FromWorker::ConfigPiece(_) => {}
            FromWorker::Outlives => self.promised(now, number),
            FromWorker::Command(command, wanted) => self.commanded(now, (number, command), wanted),
        }
    }

    /// Does something with the slot of a process whose channel a generation has.
    fn slot(&mut self, generation: u64, epoch: u64, act: impl FnOnce(&mut Pool, usize, &mut Out<'_>)) {
        for pool in &mut self.pools {
            if let Some(slot) = pool.slot_of(epoch).filter(|slot| pool.is_at(*slot, generation)) {
                return act(pool, slot, out!(self));
            }
        }
    }

    /// The same for a process that a generation may reach over a link.
    fn slot_of_user(
        &mut self,
        generation: u64,
        epoch: u64,
        act: impl FnOnce(&mut Pool, usize, &mut Out<'_>),
    ) {
        for pool in &mut self.pools {
            if let Some(slot) = pool.slot_of(epoch).filter(|slot| pool.is_used_by(*slot, generation)) {
                return act(pool, slot, out!(self));
            }
        }
    }

    fn observed(&mut self, now: Instant, generation: u64, queued: &[u32], seen: &[Seen]) {
        for pool in &mut self.pools {
            let Some(index) = pool.index_at(generation) else { continue };
            let waiting = queued.get(usize::from(index)).copied().unwrap_or(0);
            pool.see(now, generation, waiting, seen);
            if waiting > 0 {
                pool.lend(generation, out!(self));
            }
        }
    }

    pub(super) fn current_is_ready(&mut self, number: u64) {
        self.log(Level::INFO, format!("worker process {number} is ready"));
        if !std::mem::replace(&mut self.was_ready, true) {
            self.actions.push(Action::Notify(Notice::Ready));
        }
    }

    fn worker_exited(&mut self, now: Instant, number: u64, how: &str) {
        let known = self.generations.iter_mut().find(|one| one.number == number);
        let Some(generation) = known else {
            self.predecessor_exited(now, number, how);
            return;
        };
        let lived = generation.gone(now);
        self.part_with_apps(now, number, true);
        let next =
            matches!(&self.reload, Some((Reload::BringingUp { generation, .. }, _)) if *generation == number);
        if next {
            let why = self.cannot_run.take().filter(|(of, _)| *of == number).map(|(_, why)| why);
            let how = || format!("the new worker process {how} before it could take over");
            self.refuse_reload(now, &why.unwrap_or_else(how));
        } else if self.current == Some(number) {
            self.current = None;
            self.counts.worker_crashes += 1;
            self.serving_is_gone(now, how);
            let alone = self.predecessors.serving().is_none();
            self.start_deaths += u32::from(!self.was_ready && alone);
            if self.start_deaths >= START_DEATHS_MAX {
                let text =
                    format!("the worker process {how}, {START_DEATHS_MAX} times before it was ever ready");
                return self.fail(now, text);
            }
            let delay = self.crashes.died(lived, &WORKER);
            let when = if delay.is_zero() {
                "at once".to_owned()
            } else {
                format!("in {}", crate::spoken::rounded(delay))
            };
            self.log(Level::ERROR, format!("worker process {number} {how}; another one starts {when}"));
            self.respawn_at = Some(now + delay);
            if delay.is_zero() {
                self.spawn_current(now);
            }
        } else {
            self.log(Level::INFO, format!("worker process {number} {how}"));
            self.promised(now, number);
        }
    }

    fn app_exited(&mut self, now: Instant, epoch: u64, clean: bool, how: &str) {
        if let Some(pool) = self.listen_pools.iter_mut().find(|pool| pool.has(epoch)) {
            return pool.exited(now, epoch, clean, how, out!(self));
        }
        let found = self.pools.iter().position(|pool| pool.slot_of(epoch).is_some());
        let Some((at, slot)) = found.and_then(|at| Some((at, self.pools.get(at)?.slot_of(epoch)?))) else {
            self.predecessor_app_exited(epoch);
            return;
        };
        let owner = self.pools.get(at).and_then(|pool| pool.owner_of(slot));
        let listening = owner.and_then(|number| self.generation(number)).is_some_and(|one| one.listens());
        if let Some(pool) = self.pools.get_mut(at) {
            pool.exited(now, slot, clean, how, listening, out!(self));
        }
    }

    fn tick(&mut self, now: Instant) {
        if self.respawn_at.is_some_and(|at| at <= now) {
            self.spawn_current(now);
        }
        let numbers = |which: fn(&Generation, Instant) -> bool, all: &[Generation]| -> Vec<u64> {
            all.iter().filter(|one| which(one, now)).map(|one| one.number).collect()
        };
        self.tick_upgrade(now);
        for number in numbers(Generation::is_overdue, &self.generations) {
            self.log(Level::WARN, format!("worker process {number} did not finish within its grace"));
            self.part_with_apps(now, number, false);
            self.kill(now, number);
        }
        for number in numbers(Generation::is_late, &self.generations) {
            self.worker_is_late(now, number);
        }
        self.tell_progress(now);
        for pool in &mut self.pools {
            pool.tick(now, out!(self));
        }
        for pool in &mut self.listen_pools {
            pool.tick(now, out!(self));
        }
    }

    fn worker_is_late(&mut self, now: Instant, number: u64) {
        let text = |most| format!("worker process {number} was not ready within {most:?}");
        if self.current != Some(number) {
            return self.refuse_reload(now, &text(NEXT_START_TIMEOUT));
        }
        let text = text(WORKER_START_TIMEOUT);
        if !self.was_ready && self.predecessors.serving().is_none() {
            return self.fail(now, text);
        }
        self.log(Level::ERROR, text);
        self.kill(now, number);
    }

    /// From Up (or Loading) to Stopping: what both ways of stopping have in common.
    fn leave_up(&mut self, now: Instant, exit_code: u8, why: &str) {
        if matches!(self.phase, Phase::Stopping { .. }) {
            return;
        }
        self.phase = Phase::Stopping { exit_code };
        self.actions.push(Action::Notify(Notice::Stopping));
        if self.reload.is_some() {
            self.refuse_reload(now, why);
        }
        self.refuse_upgrade(now, why);
        let queued = self.queued.take().unwrap_or_default();
        self.reply(&queued, false, why);
        self.end_restarts(why);
        self.current = None;
        self.respawn_at = None;
    }

    /// A command only repeats another.
    fn stop_once(&mut self, now: Instant) {
        if !matches!(self.phase, Phase::Stopping { .. } | Phase::Done) {
            self.stop(now);
        }
    }

    fn stop(&mut self, now: Instant) {
        self.log(Level::INFO, "stopping");
        self.leave_up(now, 0, "the server is stopping");
        for number in self.numbers() {
            let Some(one) = self.generation(number) else { continue };
            if let Some(time) = one.drain(now, true) {
                self.actions.push(Action::Send(number, ToWorker::Drain(time)));
            } else if let Some(left_ms) = one.hurry(now) {
                self.actions.push(Action::Send(number, ToWorker::Hurry(left_ms)));
            } else if matches!(one.worker, WorkerPhase::Starting { .. }) {
                self.kill(now, number);
            }
        }
        for pool in &mut self.pools {
            match pool.is_homeless() {
                true => pool.end(now + APP_KILL_DELAY, out!(self)),
                false => pool.let_go(now),
            }
        }
        let grace = self.plan.as_ref().map_or(APP_KILL_DELAY, |plan| plan.grace);
        self.end_listen_pools(now + grace);
        self.stop_predecessors(now, grace);
        self.actions.push(Action::CloseSockets);
    }

    fn stop_at_once(&mut self, now: Instant, exit_code: u8) {
        self.log(Level::INFO, "stopping at once");
        self.leave_up(now, exit_code, "the server is stopping");
        for number in self.numbers() {
            if self.generation(number).is_some_and(|one| one.halt(now)) {
                self.actions.push(Action::Send(number, ToWorker::Drain(DrainTime::bounded(0))));
            } else {
                self.kill(now, number);
            }
        }
        for pool in &mut self.pools {
            pool.end(now + APP_KILL_DELAY_AT_ONCE, out!(self));
        }
        self.end_listen_pools(now + APP_KILL_DELAY_AT_ONCE);
        self.stop_predecessors_at_once(now);
        self.actions.push(Action::CloseSockets);
    }

    fn numbers(&self) -> Vec<u64> {
        self.generations.iter().map(|one| one.number).collect()
    }

    fn fail(&mut self, now: Instant, text: String) {
        self.log(Level::ERROR, text);
        self.stop_at_once(now, 1);
    }

    /// Ends the master once it is stopping and nothing is left.
    fn finish(&mut self) {
        if let Phase::Stopping { exit_code } = self.phase
            && self.generations.is_empty()
            && self.pools.is_empty()
            && self.listen_pools.is_empty()
            && self.predecessors.is_empty()
        {
            self.phase = Phase::Done;
            self.actions.push(Action::Exit(exit_code));
        }
    }
}

/// The pools of a configuration that have slots to be filled, with their indices.
fn with_slots(plan: &Plan) -> impl Iterator<Item = (u16, &PoolPlan)> {
    (0_u16..).zip(&plan.pools).filter(|(_, pool)| pool.kind != PoolKind::Absent)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
