//! The executable is replaced while the server runs: what the old image of the master decides before, and what the new one
//! decides about the processes that it finds.
//!
//! The process stays, and with it its children and sockets; exec(2) gives it another program. What that has to know is a
//! [`InheritedState`]. Before, the old image has the new executable check itself and the configuration, and every worker process
//! promise to go on when the conversation with it ends (orphan mode).
//!
//! The old image:
//!
//! | state | upgrade wanted¹ | checked | check failed² | worker promises | exec failed |
//! |---|---|---|---|---|---|
//! | none | `Check` → Checking³ | ignored | ignored | ignored | cannot be |
//! | Checking | joined | `OrphanMode` to all → Handing⁰ | refuse → none | ignored | cannot be |
//! | Handing | joined | ignored | refuse → none | the last: `Replace` → Replacing | cannot be |
//! | Replacing⁴ | joined | ignored | cannot be | ignored | refuse → none |
//!
//! | state | worker exits | stop wanted | reload wanted |
//! |---|---|---|---|
//! | none | as ever | as ever | as ever |
//! | Checking, Replacing | as ever | refuse, then as ever | queued⁵ |
//! | Handing | the one that serves: refuse → none; another: as if it had promised | refuse, then as ever | queued⁵ |
//!
//! ¹ `SIGUSR2`, a command. ² By the check, or because [`CHECK_TIMEOUT`] or [`PROMISE_TIMEOUT`] is over. ³ Refused while a
//! reload is under way, while the server stops, and while no worker process serves that could go on. ⁴ No event comes between,
//! unless exec(2) fails. ⁵ The new image reads the configuration anyway; after a refusal the reload follows. ⁰ Refused while the
//! worker process of the last upgrade is about to be ready ([`YOUNG`]).
//!
//! The new image, about each process that it found:
//!
//! | old worker process | a new one is ready⁶ ⁷ | exits | deadline | stop wanted | stop at once |
//! |---|---|---|---|---|---|
//! | Serving | `Go` → Draining | → gone; none serves until a new one is ready | none | `Go` → Draining | kill → Killed |
//! | Draining⁹ | stays | → gone | kill → Killed | stays | kill → Killed |
//! | Killed | stays | → gone | none | stays | stays |
//!
//! | old application process | its worker process is gone | its successors are ready⁸ | exits | deadline |
//! |---|---|---|---|---|
//! | Living | `SIGTERM` → Ending | its stop signal → Ending | → gone | none |
//! | Ending | stays | stays | → gone | kill, once |
//!
//! When the server stops, those that have no worker process get their stop signal, the others end with theirs; at once, all get
//! `SIGTERM`.
//!
//! ⁶ And each of its pools has a process that is ready, as in a reload, unless the pool had none before. ⁷ If the first processes
//! of a pool end without having been ready, the new worker process ends with all that is its, the old one is told why it serves
//! on, and the next attempt comes later. ⁸ Only listen pools: each bucket has a process that is ready, or no pool has that name.
//! ⁹ Until its grace and a margin are over.
//!
//! While an old worker process serves, the new image keeps trying: it reads the configuration again, or starts another
//! worker process, later and later ([`RETRY`]), and `SIGUSR2` may bring yet another executable. When the old one is gone, it is
//! like any start.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tracing::Level;

use super::events::{Action, Duty, InheritedState, Notice, OldApp, OldWorker, Owner};
use super::generation::{DRAIN_MARGIN, Generation, Out};
use super::listen_pool::ListenPool;
use super::pool::{APP_KILL_DELAY, APP_KILL_DELAY_AT_ONCE, Pool};
use super::{Asker, Master, Phase};
use crate::spoken::rounded;
use maitred_base::backoff::{Backoff, Rules};

/// How long the new executable may take to check itself and the configuration. The check reads files, and binds nothing.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// How long worker processes may take to promise orphan mode; they only have to read a message.
pub(crate) const PROMISE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a worker process that is not ready yet is taken to be about to be: it may have accepted connections already, and is
/// not killed for another upgrade. Starting one takes a small part of this.
pub(crate) const YOUNG: Duration = Duration::from_secs(5);
/// How long a new image waits before it tries again to come up, while an old worker process serves.
pub(crate) const RETRY: Rules =
    Rules { free: 0, first: Duration::from_secs(1), max: Duration::from_secs(10), long_life: Duration::MAX };

/// What stands for no bound where one image of the master leaves a time to the next: later than any worker process lives, and
/// nothing that cannot be added to a time.
const UNBOUNDED: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// An upgrade that the old image is about.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Upgrade {
    step: Step,
    askers: Vec<Asker>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Checking { deadline: Instant },
    Handing { missing: BTreeSet<u64>, deadline: Instant },
    Replacing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerPhase {
    Serving { grace: Duration },
    Draining { kill_at: Instant },
    Killed,
}

#[derive(Debug, Clone)]
struct Worker {
    generation: u64,
    phase: WorkerPhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AppPhase {
    Living,
    Ending { kill_at: Option<Instant> },
}

#[derive(Debug, Clone)]
struct App {
    epoch: u64,
    owner: Owner,
    phase: AppPhase,
}

/// The processes of earlier images that live, as the new one knows them.
#[derive(Debug, Clone, Default)]
pub(super) struct Predecessors {
    workers: Vec<Worker>,
    apps: Vec<App>,
    /// The names of pools that had no process which was ready when the image was replaced.
    down: Vec<String>,
    /// Attempts of the new image to come up that have failed.
    failures: Backoff,
    /// When the next one is due.
    pub(super) retry_at: Option<Instant>,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Predecessors {
    fn adopt(now: Instant, inherited_state: InheritedState) -> Predecessors {
        let worker = |old: OldWorker| Worker {
            generation: old.generation,
            phase: match old.duty {
                Duty::Serving { grace_ms } => WorkerPhase::Serving { grace: Duration::from_millis(grace_ms) },
                Duty::Draining { left_ms } => {
                    WorkerPhase::Draining { kill_at: now + Duration::from_millis(left_ms) }
                }
            },
        };
        let workers: Vec<Worker> = inherited_state.workers.into_iter().map(worker).collect();
        let down = inherited_state.down;
        let has_owner = |owner: &Owner| match owner {
            Owner::Worker(generation) => workers.iter().any(|worker| worker.generation == *generation),
            Owner::Itself { .. } => true,
        };
        let app = |old: OldApp| App {
            epoch: old.epoch,
            phase: match has_owner(&old.owner) {
                true => AppPhase::Living,
                // The process was on its way out already, and may have been told so.
                false => AppPhase::Ending { kill_at: Some(now + APP_KILL_DELAY) },
            },
            owner: old.owner,
        };
        let apps = inherited_state.apps.into_iter().map(app).collect();
        Predecessors { workers, apps, down, ..Predecessors::default() }
    }

    /// The old worker process that serves.
    pub(super) fn serving(&self) -> Option<u64> {
        let serves = |worker: &&Worker| matches!(worker.phase, WorkerPhase::Serving { .. });
        self.workers.iter().find(serves).map(|worker| worker.generation)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.workers.is_empty() && self.apps.is_empty()
    }

    /// Tells the one that serves, if there is one, to let the worker process `to` take over.
    fn go(&mut self, now: Instant, to: Option<u64>, actions: &mut Vec<Action>) {
        for worker in &mut self.workers {
            if let WorkerPhase::Serving { grace } = worker.phase {
                worker.phase = WorkerPhase::Draining { kill_at: now + grace + DRAIN_MARGIN };
                actions.push(Action::Go { from: worker.generation, to });
            }
        }
    }

    /// How many there are that finish what they have.
    pub(super) fn draining(&self) -> usize {
        self.workers.iter().filter(|worker| matches!(worker.phase, WorkerPhase::Draining { .. })).count()
    }

    /// The oldest `count` of them have no more than `grace` from now on. Gives back how many these are.
    pub(super) fn hurry(&mut self, now: Instant, grace: Duration, count: usize) -> usize {
        self.workers.sort_by_key(|worker| worker.generation);
        let mut hurried = 0;
        for worker in self.workers.iter_mut() {
            if let WorkerPhase::Draining { kill_at } = &mut worker.phase
                && hurried < count
            {
                *kill_at = (*kill_at).min(now + grace + DRAIN_MARGIN);
                hurried += 1;
            }
        }
        hurried
    }

    /// A worker process has exited. Gives back whether it was an old one.
    fn worker_exited(&mut self, now: Instant, generation: u64, out: &mut Out<'_>) -> bool {
        let before = self.workers.len();
        self.workers.retain(|worker| worker.generation != generation);
        let known = self.workers.len() < before;
        let theirs = |app: &&mut App| known && app.owner == Owner::Worker(generation);
        for app in self.apps.iter_mut().filter(theirs) {
            app.terminate(now + APP_KILL_DELAY, out);
        }
        known
    }

    fn app_exited(&mut self, epoch: u64) -> bool {
        let before = self.apps.len();
        self.apps.retain(|app| app.epoch != epoch);
        self.apps.len() < before
    }

    /// The listen pools that are there now: those of the same name that are ready, or are not there, end the old ones.
    fn relieve(&mut self, now: Instant, pools: &[ListenPool], out: &mut Out<'_>) {
        for app in &mut self.apps {
            let Owner::Itself { pool, .. } = &app.owner else { continue };
            let mut heirs = pools.iter().filter(|heir| heir.is_serving() && heir.pool_name() == pool);
            if heirs.all(ListenPool::is_ready) {
                app.stop(now, None, out);
            }
        }
    }

    fn tick(&mut self, now: Instant, out: &mut Out<'_>) {
        for worker in &mut self.workers {
            if matches!(worker.phase, WorkerPhase::Draining { kill_at } if kill_at <= now) {
                let number = worker.generation;
                out.log(Level::WARN, format!("worker process {number} did not finish within its grace"));
                worker.kill(out);
            }
        }
        for app in &mut self.apps {
            if let AppPhase::Ending { kill_at: Some(at) } = app.phase
                && at <= now
            {
                app.phase = AppPhase::Ending { kill_at: None };
                out.actions.push(Action::KillApp(app.epoch));
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let workers = self.workers.iter().filter_map(|worker| match worker.phase {
            WorkerPhase::Draining { kill_at } => Some(kill_at),
            WorkerPhase::Serving { .. } | WorkerPhase::Killed => None,
        });
        let apps = self.apps.iter().filter_map(|app| match app.phase {
            AppPhase::Ending { kill_at } => kill_at,
            AppPhase::Living => None,
        });
        workers.chain(apps).chain(self.retry_at).min()
    }

    fn bequeath(&self, now: Instant) -> (Vec<OldWorker>, Vec<OldApp>) {
        let workers = self.workers.iter().map(|worker| OldWorker {
            generation: worker.generation,
            duty: match worker.phase {
                WorkerPhase::Serving { grace } => Duty::Serving { grace_ms: millis(grace) },
                WorkerPhase::Draining { kill_at } => {
                    Duty::Draining { left_ms: millis(kill_at.saturating_duration_since(now)) }
                }
                WorkerPhase::Killed => Duty::Draining { left_ms: 0 },
            },
        });
        let apps = self.apps.iter().map(|app| OldApp { epoch: app.epoch, owner: app.owner.clone() });
        (workers.collect(), apps.collect())
    }
}

impl Worker {
    fn kill(&mut self, out: &mut Out<'_>) {
        if self.phase != WorkerPhase::Killed {
            self.phase = WorkerPhase::Killed;
            out.actions.push(Action::KillWorker(self.generation));
        }
    }
}

impl App {
    fn terminate(&mut self, kill_at: Instant, out: &mut Out<'_>) {
        match &mut self.phase {
            AppPhase::Living => {
                self.phase = AppPhase::Ending { kill_at: Some(kill_at) };
                out.actions.push(Action::TerminateApp(self.epoch));
            }
            AppPhase::Ending { kill_at: Some(earlier) } => *earlier = kill_at.min(*earlier),
            AppPhase::Ending { kill_at: None } => {}
        }
    }

    /// Asks a process that accepts by itself to end, within its own timeout unless another is named.
    fn stop(&mut self, now: Instant, timeout: Option<Duration>, out: &mut Out<'_>) {
        let Owner::Itself { signal, timeout_ms, .. } = &self.owner else { return };
        if self.phase == AppPhase::Living {
            let timeout = timeout.unwrap_or(Duration::from_millis(*timeout_ms));
            out.actions.push(Action::StopApp(self.epoch, *signal));
            self.phase = AppPhase::Ending { kill_at: Some(now + timeout) };
        }
    }
}

impl Master {
    /// A master that goes on where another image of it has left off; [`super::Event::Start`] sets it off.
    pub(crate) fn resume(now: Instant, inherited_state: InheritedState) -> Master {
        let mut counts = inherited_state.counts;
        counts.upgrades += 1;
        let epoch_last = inherited_state.epoch_last;
        let predecessors = Predecessors::adopt(now, inherited_state);
        Master { counts, epoch_last, predecessors, ..Master::new() }
    }

    pub(super) fn want_upgrade(&mut self, now: Instant, asker: Option<Asker>) {
        let why_not = match (&self.phase, &self.upgrade) {
            (Phase::Done, _) => return,
            (Phase::Stopping { .. }, _) => "the server is stopping",
            (_, Some(_)) => {
                self.log(Level::INFO, "the executable is being replaced already");
                if let Some(upgrade) = &mut self.upgrade {
                    upgrade.askers.extend(asker);
                }
                return;
            }
            _ if self.reload.is_some() => "a reload is under way; try again when it is over",
            _ if !self.has_one_who_serves() && self.current_is_running() => {
                "the last upgrade is not over; try again when it is"
            }
            _ if !self.has_one_who_serves() => {
                "no worker process could serve meanwhile; try again when one is ready"
            }
            _ => {
                self.log(Level::INFO, "the executable is to be replaced: it is being checked");
                let step = Step::Checking { deadline: now + CHECK_TIMEOUT };
                self.upgrade = Some(Upgrade { step, askers: asker.into_iter().collect() });
                return self.actions.push(Action::Check);
            }
        };
        self.log(Level::WARN, format!("the executable is not replaced: {why_not}"));
        self.reply(asker.as_slice(), false, why_not);
    }

    /// Whether one worker process serves, and not two: the current one, or the one of the image before while this image has
    /// none.
    fn has_one_who_serves(&self) -> bool {
        self.current_is_running() != self.predecessors.serving().is_some()
    }

    fn current_is_running(&self) -> bool {
        self.generations.iter().any(|one| Some(one.number) == self.current && one.is_running())
    }

    pub(super) fn checked(&mut self, now: Instant, outcome: Result<(), String>) {
        let checking = |upgrade: &Upgrade| matches!(upgrade.step, Step::Checking { .. });
        if !self.upgrade.as_ref().is_some_and(checking) {
            return;
        }
        if let Err(why) = outcome {
            return self.refuse_upgrade(now, &why);
        }
        if !self.has_one_who_serves() {
            return self.refuse_upgrade(now, "the worker process has ended meanwhile");
        }
        let young = |one: &Generation| now.saturating_duration_since(one.started) < YOUNG;
        let about_to_be_ready = |one: &Generation| Some(one.number) == self.current && young(one);
        if self.predecessors.serving().is_some() && self.generations.iter().any(about_to_be_ready) {
            return self.refuse_upgrade(now, "the last upgrade is not over; try again when it is");
        }
        self.actions.push(Action::Notify(Notice::Reloading));
        let mut missing = BTreeSet::new();
        if self.predecessors.serving().is_none() {
            for one in self.generations.iter().filter(|one| one.is_running() || one.is_draining()) {
                let serves = Some(one.number) == self.current;
                let time = serves.then(|| one.plan.drain_time(false));
                self.actions.push(Action::OrphanMode { generation: one.number, time });
                missing.insert(one.number);
            }
        } else if let Some(current) = self.current.take() {
            // The worker process has had its time to be ready.
            self.kill(now, current);
        }
        if let Some(upgrade) = &mut self.upgrade {
            upgrade.step = Step::Handing { missing, deadline: now + PROMISE_TIMEOUT };
        }
        self.replace_if_promised(now);
    }

    /// A worker process has promised orphan mode, or has exited, which is as good.
    pub(super) fn promised(&mut self, now: Instant, number: u64) {
        if let Some(Upgrade { step: Step::Handing { missing, .. }, .. }) = &mut self.upgrade
            && missing.remove(&number)
        {
            self.replace_if_promised(now);
        }
    }

    fn replace_if_promised(&mut self, now: Instant) {
        let Some(Upgrade { step, .. }) = &mut self.upgrade else { return };
        if matches!(step, Step::Handing { missing, .. } if missing.is_empty()) {
            *step = Step::Replacing;
            self.end_restarts("the executable is replaced, and all processes with it");
            let inherited_state = self.inherited_state(now);
            self.actions.push(Action::Replace(Box::new(inherited_state)));
        }
    }

    /// The current worker process has exited: it cannot go on while the executable is replaced.
    pub(super) fn serving_is_gone(&mut self, now: Instant, how: &str) {
        if matches!(&self.upgrade, Some(Upgrade { step: Step::Handing { .. }, .. })) {
            self.refuse_upgrade(now, &format!("the worker process {how}"));
        }
    }

    /// Everything runs on as it was.
    pub(super) fn refuse_upgrade(&mut self, now: Instant, why: &str) {
        let Some(Upgrade { step, askers }) = self.upgrade.take() else { return };
        match step {
            Step::Checking { .. } => self.actions.push(Action::AbandonCheck),
            Step::Handing { .. } | Step::Replacing => {
                self.actions.push(Action::CancelOrphanMode);
                self.actions.push(Action::Notify(Notice::Ready));
            }
        }
        self.log(Level::ERROR, format!("the executable is not replaced, everything runs on: {why}"));
        self.reply(&askers, false, why);
        if self.current.is_none() && self.phase == Phase::Up && self.respawn_at.is_none() {
            self.respawn_at = Some(now);
        }
        self.start_queued_reload();
    }

    fn inherited_state(&self, now: Instant) -> InheritedState {
        let (mut workers, mut apps) = self.predecessors.bequeath(now);
        let left = |at: Instant| millis(at.saturating_duration_since(now));
        for one in &self.generations {
            let duty = match one.worker {
                super::WorkerPhase::Running => {
                    let time = one.plan.drain_time(false);
                    let streams_ms = time.streams_ms.unwrap_or(millis(UNBOUNDED));
                    Duty::Serving { grace_ms: time.grace_ms.max(streams_ms) }
                }
                super::WorkerPhase::Draining { kill_at, .. } => {
                    Duty::Draining { left_ms: kill_at.map_or(millis(UNBOUNDED), left) }
                }
                super::WorkerPhase::Starting { .. } | super::WorkerPhase::Killed => {
                    Duty::Draining { left_ms: 0 }
                }
                super::WorkerPhase::Gone => continue,
            };
            workers.push(OldWorker { generation: one.number, duty });
        }
        let of_workers = self.pools.iter().flat_map(Pool::processes);
        apps.extend(of_workers.map(|(epoch, owner)| OldApp { epoch, owner: Owner::Worker(owner) }));
        for pool in &self.listen_pools {
            let (signal, timeout_ms) = (pool.stop_signal(), left(pool.timeout(now)));
            let owner = Owner::Itself { pool: pool.pool_name().to_owned(), signal, timeout_ms };
            apps.extend(pool.processes().map(|epoch| OldApp { epoch, owner: owner.clone() }));
        }
        let down = match self.predecessors.serving() {
            Some(_) => self.predecessors.down.clone(),
            None => {
                let down = self.pools.iter().filter(|pool| pool.is_serving() && !pool.is_ready());
                down.map(|pool| pool.pool_name().to_owned()).collect()
            }
        };
        InheritedState { counts: self.counts, epoch_last: self.epoch_last, workers, apps, down }
    }

    /// The new image's part, after each event.
    pub(super) fn succeed(&mut self, now: Instant) {
        if self.predecessors.is_empty() || self.phase != Phase::Up {
            return;
        }
        self.predecessors.relieve(now, &self.listen_pools, out!(self));
        let (Some(old), Some(current)) = (self.predecessors.serving(), self.current) else { return };
        if self.current_is_running() && self.pools_of(current).all(Pool::is_tried) {
            let was_up = |pool: &&Pool| !self.predecessors.down.iter().any(|name| name == pool.pool_name());
            let failure = self.pools_of(current).filter(was_up).find_map(Pool::failure);
            if let Some(why) = failure {
                return self.serve_on(now, current, &why);
            }
            self.predecessors.go(now, Some(current), &mut self.actions);
            self.crashes = Backoff::default();
            let text = format!("upgraded: worker process {current} has taken over from {old}");
            self.log(Level::INFO, text);
        }
    }

    /// The configuration cannot be used, but an old worker process serves: the next attempt comes later. What is in the way may
    /// go by itself, such as an address in use, and clients wait on.
    pub(super) fn retry_later(&mut self, now: Instant, why: &str) {
        let at = self.put_off(now, &format!("the configuration cannot be used: {why}"));
        self.predecessors.retry_at = Some(at);
        self.actions.push(Action::Notify(Notice::Ready));
    }

    /// A pool of the new worker process has no process that becomes ready: the old worker process and its application processes
    /// serve on, and all of the new one ends. The next attempt comes later, and those that wait are told.
    fn serve_on(&mut self, now: Instant, current: u64, why: &str) {
        self.current = None;
        self.kill(now, current);
        self.respawn_at = Some(self.put_off(now, why));
        let text = format!(
            "the new executable tries again until it can, and the old worker process serves on: {why}"
        );
        self.actions.push(Action::TellOld(text));
        self.actions.push(Action::Notify(Notice::Refused(why.to_owned())));
    }

    /// An attempt to take over has failed. Gives back when the next one is due.
    fn put_off(&mut self, now: Instant, why: &str) -> Instant {
        let delay = self.predecessors.failures.died(Duration::ZERO, &RETRY);
        self.log(
            Level::ERROR,
            format!("the old worker process serves on; the next attempt is in {}: {why}", rounded(delay)),
        );
        now + delay
    }

    /// Reads the configuration again, if it could not be used before.
    pub(super) fn retry(&mut self) {
        if self.predecessors.retry_at.take().is_some() {
            self.actions.push(Action::Prepare);
        }
    }

    /// A worker process has exited that this image has not started. Gives back whether there was one.
    pub(super) fn predecessor_exited(&mut self, now: Instant, number: u64, how: &str) -> bool {
        let served = self.predecessors.serving() == Some(number);
        if !self.predecessors.worker_exited(now, number, out!(self)) {
            return false;
        }
        let level = if served { Level::ERROR } else { Level::INFO };
        self.log(level, format!("worker process {number}, of the executable before, {how}"));
        if served {
            self.serving_is_gone(now, how);
            // No worker process serves now: if none can start, the service manager or the operator has to know.
            self.retry();
            if self.current.is_none() && self.phase == Phase::Up {
                self.respawn_at = Some(now);
            }
        }
        true
    }

    pub(super) fn predecessor_app_exited(&mut self, epoch: u64) -> bool {
        self.predecessors.app_exited(epoch)
    }

    pub(super) fn tick_upgrade(&mut self, now: Instant) {
        self.predecessors.tick(now, out!(self));
        if self.predecessors.retry_at.is_some_and(|at| at <= now) {
            self.retry();
        }
        if self.upgrade.as_ref().and_then(Upgrade::deadline).is_some_and(|at| at <= now) {
            let why = match self.upgrade.as_ref().map(|upgrade| &upgrade.step) {
                Some(Step::Checking { .. }) => format!("its check was not over within {CHECK_TIMEOUT:?}"),
                _ => format!("a worker process did not answer within {PROMISE_TIMEOUT:?}"),
            };
            self.refuse_upgrade(now, &why);
        }
    }

    pub(super) fn upgrade_deadline(&self) -> Option<Instant> {
        let upgrade = self.upgrade.as_ref().and_then(Upgrade::deadline);
        upgrade.into_iter().chain(self.predecessors.next_deadline()).min()
    }

    pub(super) fn stop_predecessors(&mut self, now: Instant, grace: Duration) {
        self.predecessors.retry_at = None;
        self.predecessors.go(now, None, &mut self.actions);
        // Worker processes that drain without a limit cannot be asked to hurry later.
        self.predecessors.hurry(now, grace, usize::MAX);
        let out = out!(self);
        self.predecessors.apps.iter_mut().for_each(|app| app.stop(now, Some(grace), out));
    }

    pub(super) fn stop_predecessors_at_once(&mut self, now: Instant) {
        self.predecessors.retry_at = None;
        let out = out!(self);
        self.predecessors.workers.iter_mut().for_each(|worker| worker.kill(out));
        let kill_at = now + APP_KILL_DELAY_AT_ONCE;
        self.predecessors.apps.iter_mut().for_each(|app| app.terminate(kill_at, out));
    }
}

impl Upgrade {
    fn deadline(&self) -> Option<Instant> {
        match &self.step {
            Step::Checking { deadline } | Step::Handing { deadline, .. } => Some(*deadline),
            Step::Replacing => None,
        }
    }
}

#[cfg(test)]
mod tests;
