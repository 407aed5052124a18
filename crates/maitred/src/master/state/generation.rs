//! One worker process and the application processes that belong to it.
//!
//! | worker process | Ready | exits | deadline | told to drain | told to die |
//! |---|---|---|---|---|---|
//! | Starting¹ | → Running | → Gone | kill² → Killed | kill → Killed³ | kill → Killed |
//! | Running | ignored | → Gone | none | `Drain` → Draining | kill → Killed |
//! | Draining⁴ | ignored | → Gone | kill → Killed | ignored | kill → Killed |
//! | Killed | ignored | → Gone | none | ignored | ignored |
//! | Gone | ignored | ignored | none | ignored | ignored |
//!
//! ¹ Until the start deadline. ² Decided by [`super::Master`]. ³ It has nothing to finish. ⁴ Until grace and a margin are
//! over.
//!
//! Going Killed or Gone ends the application processes: those that wait for their start are forgotten, the others get
//! `SIGTERM`, and `SIGKILL` later.
//!
//! | application process | ready | lost | exits while the worker process lives⁵ | exits later | deadline |
//! |---|---|---|---|---|---|
//! | Starting⁶ | → Ready | kill → Ending | `SlotExited`, → Waiting | forgotten | kill → Ending |
//! | Ready | ignored | kill → Ending | `SlotExited`, → Waiting | forgotten | none |
//! | Ending⁷ | ignored | ignored | `SlotExited`, → Waiting | forgotten | kill, once |
//! | Waiting⁸ | ignored | ignored | cannot be | cannot be | `SpawnApp` → Starting |
//!
//! ⁵ Starting, Running or Draining. ⁶ Until the pool's start timeout. ⁷ Until it is killed. ⁸ Until its delay is over.
//!
//! While the worker process is Draining, an application process that ends cleanly has been let go and is not replaced.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tracing::Level;

use super::backoff::{APP, Backoff};
use super::events::{Action, Counts, Plan};
use crate::control::{SlotId, ToWorker};

/// How long a worker process may take until it is ready.
pub const WORKER_START_TIMEOUT: Duration = Duration::from_secs(30);
/// What a draining worker process gets beyond its grace, before it is killed.
pub const DRAIN_MARGIN: Duration = Duration::from_secs(2);
/// Between `SIGTERM` and `SIGKILL` of an application process.
pub const APP_KILL_DELAY: Duration = Duration::from_secs(5);
/// How long a worker process that is to stop at once may take to write its last log lines.
const HALT_PATIENCE: Duration = Duration::from_millis(500);
/// How long an application process may take to exit once it has closed its channel.
const APP_EXIT_PATIENCE: Duration = Duration::from_millis(250);
/// The same when everything has to end at once.
const APP_KILL_DELAY_AT_ONCE: Duration = Duration::from_secs(1);

/// What a worker process is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerPhase {
    /// Started, not ready.
    Starting {
        /// When it must be ready.
        deadline: Instant,
    },
    /// Ready.
    Running,
    /// Finishing.
    Draining {
        /// When it is killed.
        kill_at: Instant,
    },
    /// Sent `SIGKILL`.
    Killed,
    /// Exited.
    Gone,
}

/// What an application process is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppPhase {
    /// Started, no HELLO.
    Starting {
        /// When it must have said it.
        deadline: Instant,
    },
    /// Said HELLO.
    Ready,
    /// Sent a signal.
    Ending {
        /// When it is killed; `None` when it has been.
        kill_at: Option<Instant>,
    },
    /// Not there: the next one starts then.
    Waiting {
        /// When.
        until: Instant,
    },
}

/// One place for an application process.
#[derive(Debug, Clone)]
pub struct App {
    /// Its present, or last, occupant.
    pub id: SlotId,
    /// What that is doing.
    pub phase: AppPhase,
    started: Instant,
    backoff: Backoff,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Generation {
    /// Counted from 1.
    pub number: u64,
    /// Its configuration.
    pub plan: Rc<Plan>,
    /// What its worker process is doing.
    pub worker: WorkerPhase,
    /// When that was started.
    pub started: Instant,
    /// Its places for application processes.
    pub apps: Vec<App>,
    /// One per pool: whether an application process of it has been ready, or has failed to become so.
    tried: Vec<bool>,
}

/// What a generation writes to while it changes.
pub struct Out<'a> {
    /// What to do.
    pub actions: &'a mut Vec<Action>,
    /// What to count.
    pub counts: &'a mut Counts,
    /// The last epoch that was given out.
    pub epoch_last: &'a mut u64,
}

impl Out<'_> {
    fn log(&mut self, level: Level, text: String) {
        self.actions.push(Action::Log(level, text));
    }

    fn epoch(&mut self) -> u64 {
        *self.epoch_last += 1;
        *self.epoch_last
    }
}

impl Generation {
    /// Starts a worker process, and the application processes of its pools.
    pub fn start(now: Instant, number: u64, plan: Rc<Plan>, adopts: bool, out: &mut Out<'_>) -> Self {
        out.actions.push(Action::SpawnWorker { generation: number, plan: plan.number, adopts });
        let mut new = Generation {
            number,
            worker: WorkerPhase::Starting { deadline: now + WORKER_START_TIMEOUT },
            started: now,
            apps: Vec::new(),
            tried: plan.pools.iter().map(|pool| pool.workers == 0).collect(),
            plan,
        };
        let plan = Rc::clone(&new.plan);
        for (pool, pool_plan) in (0_u16..).zip(&plan.pools) {
            for slot in 0..pool_plan.workers {
                let id = SlotId { pool, slot, epoch: out.epoch() };
                let phase = AppPhase::Waiting { until: now };
                let mut app = App { id, phase, started: now, backoff: Backoff::default() };
                spawn_app(now, number, &plan, &mut app, out);
                new.apps.push(app);
            }
        }
        new
    }

    /// Whether its worker process reads what it is sent.
    pub fn listens(&self) -> bool {
        !matches!(self.worker, WorkerPhase::Killed | WorkerPhase::Gone)
    }

    /// Whether nothing of it is left.
    pub fn is_over(&self) -> bool {
        self.worker == WorkerPhase::Gone && self.apps.is_empty()
    }

    /// Whether it may take over: its worker process is ready, and every pool has been tried.
    pub fn can_take_over(&self) -> bool {
        self.worker == WorkerPhase::Running && self.tried.iter().all(|tried| *tried)
    }

    /// Places that wait because their occupants keep dying.
    pub fn delayed(&self) -> u64 {
        self.apps.iter().filter(|app| matches!(app.phase, AppPhase::Waiting { .. })).count() as u64
    }

    /// The next time at which [`Generation::tick`] has something to do, for the application processes and for a
    /// draining worker process; the start deadline of a worker process is [`Generation::start_deadline`].
    pub fn next_deadline(&self) -> Option<Instant> {
        let worker = match self.worker {
            WorkerPhase::Draining { kill_at } => Some(kill_at),
            _ => self.start_deadline(),
        };
        self.apps.iter().filter_map(App::deadline).chain(worker).min()
    }

    /// When the worker process must be ready, if it is not.
    pub fn start_deadline(&self) -> Option<Instant> {
        match self.worker {
            WorkerPhase::Starting { deadline } => Some(deadline),
            _ => None,
        }
    }

    /// The worker process is ready. Returns whether that is news.
    pub fn ready(&mut self) -> bool {
        let news = matches!(self.worker, WorkerPhase::Starting { .. });
        if news {
            self.worker = WorkerPhase::Running;
        }
        news
    }

    /// The worker process is being told to drain, within its own configuration's grace: returns that, in milliseconds. `None`
    /// when there is nothing to tell it; one that was not ready is killed.
    pub fn drain(&mut self, now: Instant, out: &mut Out<'_>) -> Option<u64> {
        match self.worker {
            WorkerPhase::Running => {
                self.worker = WorkerPhase::Draining { kill_at: now + self.plan.grace + DRAIN_MARGIN };
                Some(u64::try_from(self.plan.grace.as_millis()).unwrap_or(u64::MAX))
            }
            WorkerPhase::Starting { .. } => {
                self.kill(now, APP_KILL_DELAY, out);
                None
            }
            WorkerPhase::Draining { .. } | WorkerPhase::Killed | WorkerPhase::Gone => None,
        }
    }

    /// Ends everything at once. Returns whether the worker process has to be told to drain within no time, so that it
    /// writes what its access log still holds.
    pub fn halt(&mut self, now: Instant, out: &mut Out<'_>) -> bool {
        match self.worker {
            WorkerPhase::Running | WorkerPhase::Draining { .. } => {
                let earlier = match self.worker {
                    WorkerPhase::Draining { kill_at } => kill_at,
                    _ => now + HALT_PATIENCE,
                };
                self.worker = WorkerPhase::Draining { kill_at: earlier.min(now + HALT_PATIENCE) };
                self.end_apps(now + APP_KILL_DELAY_AT_ONCE, out);
                true
            }
            WorkerPhase::Starting { .. } | WorkerPhase::Killed | WorkerPhase::Gone => {
                self.kill(now, APP_KILL_DELAY_AT_ONCE, out);
                false
            }
        }
    }

    /// Kills the worker process, and ends the application processes within `patience`.
    pub fn kill(&mut self, now: Instant, patience: Duration, out: &mut Out<'_>) {
        if self.listens() {
            self.worker = WorkerPhase::Killed;
            out.actions.push(Action::KillWorker(self.number));
        }
        self.end_apps(now + patience, out);
    }

    /// The worker process has exited. Returns how long it lived.
    pub fn gone(&mut self, now: Instant, out: &mut Out<'_>) -> Duration {
        self.worker = WorkerPhase::Gone;
        self.end_apps(now + APP_KILL_DELAY, out);
        now.saturating_duration_since(self.started)
    }

    fn end_apps(&mut self, kill_at: Instant, out: &mut Out<'_>) {
        self.apps.retain(|app| !matches!(app.phase, AppPhase::Waiting { .. }));
        for app in &mut self.apps {
            match &mut app.phase {
                AppPhase::Ending { kill_at: None } => {}
                AppPhase::Ending { kill_at: Some(earlier) } => *earlier = kill_at.min(*earlier),
                phase => {
                    *phase = AppPhase::Ending { kill_at: Some(kill_at) };
                    out.actions.push(Action::TerminateApp(app.id));
                }
            }
        }
    }

    /// The application process said HELLO.
    pub fn app_ready(&mut self, id: SlotId) {
        let Some(app) = self.apps.iter_mut().find(|app| app.id == id) else { return };
        if matches!(app.phase, AppPhase::Starting { .. }) {
            app.phase = AppPhase::Ready;
            self.mark_tried(id);
        }
    }

    /// The worker process has lost the application process.
    pub fn app_lost(&mut self, id: SlotId, why: &str, out: &mut Out<'_>) {
        let name = self.app_name(id);
        let Some(app) = self.apps.iter_mut().find(|app| app.id == id) else { return };
        if matches!(app.phase, AppPhase::Starting { .. } | AppPhase::Ready) {
            out.log(Level::WARN, format!("{name} is replaced: {why}"));
            app.kill(out);
            self.mark_tried(id);
        }
    }

    /// The application process has closed its channel: it exits, or is made to.
    pub fn app_closed(&mut self, now: Instant, id: SlotId) {
        let Some(app) = self.apps.iter_mut().find(|app| app.id == id) else { return };
        if matches!(app.phase, AppPhase::Starting { .. } | AppPhase::Ready) {
            app.phase = AppPhase::Ending { kill_at: Some(now + APP_EXIT_PATIENCE) };
            self.mark_tried(id);
        }
    }

    /// The application process has exited. Returns whether it was one of this generation.
    pub fn app_exited(
        &mut self,
        now: Instant,
        id: SlotId,
        clean: bool,
        how: &str,
        out: &mut Out<'_>,
    ) -> bool {
        let Some(index) = self.apps.iter().position(|app| app.id == id) else { return false };
        self.mark_tried(id);
        let let_go = clean && matches!(self.worker, WorkerPhase::Draining { .. });
        if self.listens() {
            out.actions.push(Action::Send(self.number, ToWorker::SlotExited(id, how.to_owned())));
        }
        if !self.listens() || let_go {
            self.apps.remove(index);
            return true;
        }
        let name = self.app_name(id);
        let (number, plan) = (self.number, Rc::clone(&self.plan));
        if let Some(app) = self.apps.get_mut(index) {
            out.counts.slot_crashes += 1;
            let delay = app.backoff.died(now.saturating_duration_since(app.started), &APP);
            app.phase = AppPhase::Waiting { until: now + delay };
            let next = if delay.is_zero() { "at once".to_owned() } else { format!("in {delay:?}") };
            out.log(Level::WARN, format!("{name} {how}; another one starts {next}"));
            if delay.is_zero() {
                app.id.epoch = out.epoch();
                spawn_app(now, number, &plan, app, out);
            }
        }
        true
    }

    /// Does what is due, except for a worker process that is not ready in time.
    pub fn tick(&mut self, now: Instant, out: &mut Out<'_>) {
        if let WorkerPhase::Draining { kill_at } = self.worker
            && kill_at <= now
        {
            out.log(Level::WARN, format!("worker process {} did not finish within its grace", self.number));
            self.kill(now, APP_KILL_DELAY, out);
        }
        let (number, plan) = (self.number, Rc::clone(&self.plan));
        let mut late = Vec::new();
        for app in self.apps.iter_mut().filter(|app| app.deadline().is_some_and(|deadline| deadline <= now)) {
            match app.phase {
                AppPhase::Waiting { .. } => {
                    app.id.epoch = out.epoch();
                    spawn_app(now, number, &plan, app, out);
                }
                AppPhase::Starting { .. } => {
                    app.kill(out);
                    late.push(app.id);
                }
                AppPhase::Ending { .. } => app.kill(out),
                AppPhase::Ready => {}
            }
        }
        for id in late {
            let text = format!("{} was not ready within its start timeout", self.app_name(id));
            out.log(Level::WARN, text);
            self.mark_tried(id);
        }
    }

    fn mark_tried(&mut self, id: SlotId) {
        if let Some(tried) = self.tried.get_mut(usize::from(id.pool)) {
            *tried = true;
        }
    }

    fn app_name(&self, id: SlotId) -> String {
        let pool = self.plan.pools.get(usize::from(id.pool)).map_or("?", |pool| &pool.name);
        format!("application process {pool}/{}", id.slot)
    }
}

impl App {
    fn deadline(&self) -> Option<Instant> {
        match self.phase {
            AppPhase::Starting { deadline } => Some(deadline),
            AppPhase::Waiting { until } => Some(until),
            AppPhase::Ending { kill_at } => kill_at,
            AppPhase::Ready => None,
        }
    }

    fn kill(&mut self, out: &mut Out<'_>) {
        self.phase = AppPhase::Ending { kill_at: None };
        out.actions.push(Action::KillApp(self.id));
    }
}

/// Fills a place anew; the caller has given it its epoch.
fn spawn_app(now: Instant, generation: u64, plan: &Plan, app: &mut App, out: &mut Out<'_>) {
    let timeout = plan.pools.get(usize::from(app.id.pool)).map_or(Duration::ZERO, |pool| pool.start_timeout);
    app.started = now;
    app.phase = AppPhase::Starting { deadline: now + timeout };
    out.counts.slots_started += 1;
    out.actions.push(Action::SpawnApp { generation, plan: plan.number, slot: app.id });
}
