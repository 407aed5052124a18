//! One worker process.
//!
//! | worker process | Ready | exits | deadline | told to drain | told to hurry⁵ | told to die |
//! |---|---|---|---|---|---|---|
//! | Starting¹ | → Running | → Gone | kill² → Killed | kill → Killed³ | cannot be | kill → Killed |
//! | Running | ignored | → Gone | none | `Drain` → Draining | cannot be | kill → Killed |
//! | Draining⁴ | ignored | → Gone | kill → Killed | ignored | `Hurry`, if that is sooner | kill → Killed |
//! | Killed | ignored | → Gone | none | ignored | ignored | ignored |
//! | Gone | ignored | ignored | none | ignored | ignored | ignored |
//!
//! ¹ Until the start deadline. ² Decided by [`super::Master`]. ³ It has nothing to finish. ⁴ After a stop until `grace` and a
//! margin are over; after a reload until the longer of `grace` and `grace_streams`, which may be without end. ⁵ Because the
//! server stops, or there are more than `old_workers_max`.
//!
//! What becomes of its application processes is decided in [`super::pool`].

use std::rc::Rc;
use std::time::{Duration, Instant};

use tracing::Level;

use super::events::{Action, Counts, Plan};
use maitred_control::{DrainTime, ToWorker};

/// How long a worker process may take until it is ready.
pub(crate) const WORKER_START_TIMEOUT: Duration = Duration::from_secs(30);
/// The same for one that is to take over from another, which serves meanwhile: only the command that asked for the
/// reload waits for it, and a machine on which many application processes start at the same time may leave it little.
pub(crate) const NEXT_START_TIMEOUT: Duration = Duration::from_secs(120);
/// What a draining worker process gets beyond its grace, before it is killed.
pub(crate) const DRAIN_MARGIN: Duration = Duration::from_secs(2);
/// How long a worker process that is to stop at once may take to write its last log lines.
const HALT_TIMEOUT: Duration = Duration::from_millis(500);

/// What a worker process is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerPhase {
    /// Started, not ready.
    Starting {
        /// When it must be ready.
        deadline: Instant,
    },
    /// Ready.
    Running,
    /// Finishing.
    Draining {
        /// When it is killed; `None` for not before it is asked to hurry.
        kill_at: Option<Instant>,
        /// Since when it has been draining.
        since: Instant,
    },
    /// Sent `SIGKILL`.
    Killed,
    /// Exited.
    Gone,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Generation {
    /// Counted from 1.
    pub number: u64,
    /// The generation's configuration.
    pub plan: Rc<Plan>,
    /// What its worker process is doing.
    pub worker: WorkerPhase,
    /// When that was started.
    pub started: Instant,
}

/// What a generation writes to while it changes.
pub(crate) struct Out<'a> {
    /// What to do.
    pub actions: &'a mut Vec<Action>,
    /// What to count.
    pub counts: &'a mut Counts,
    /// The last epoch that was given out.
    pub epoch_last: &'a mut u64,
}

impl Out<'_> {
    /// Writes to the error log.
    pub(crate) fn log(&mut self, level: Level, text: String) {
        self.actions.push(Action::Log(level, text));
    }

    /// Sends a message to a worker process.
    pub(crate) fn send(&mut self, generation: u64, message: ToWorker) {
        self.actions.push(Action::Send(generation, message));
    }

    /// A name for good for an application process.
    pub(crate) fn epoch(&mut self) -> u64 {
        *self.epoch_last += 1;
        *self.epoch_last
    }
}

impl Generation {
    /// Starts a worker process.
    pub(crate) fn start(now: Instant, number: u64, plan: Rc<Plan>, adopts: bool, out: &mut Out<'_>) -> Self {
        out.actions.push(Action::SpawnWorker { generation: number, plan: plan.number, adopts });
        let worker = WorkerPhase::Starting { deadline: now + WORKER_START_TIMEOUT };
        Generation { number, worker, started: now, plan }
    }

    /// Another one serves until this one is ready.
    pub(crate) fn is_next(&mut self) {
        if let WorkerPhase::Starting { deadline } = &mut self.worker {
            *deadline = self.started + NEXT_START_TIMEOUT;
        }
    }

    /// Whether its worker process reads what it is sent.
    pub(crate) fn listens(&self) -> bool {
        !matches!(self.worker, WorkerPhase::Killed | WorkerPhase::Gone)
    }

    /// Whether nothing of it is left.
    pub(crate) fn is_over(&self) -> bool {
        self.worker == WorkerPhase::Gone
    }

    /// The next time at which something is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self.worker {
            WorkerPhase::Draining { kill_at, .. } => kill_at,
            _ => self.start_deadline(),
        }
    }

    /// When the worker process must be ready, if it is not.
    pub(crate) fn start_deadline(&self) -> Option<Instant> {
        match self.worker {
            WorkerPhase::Starting { deadline } => Some(deadline),
            _ => None,
        }
    }

    /// The worker process is ready. Returns whether that is news.
    pub(crate) fn ready(&mut self) -> bool {
        let news = matches!(self.worker, WorkerPhase::Starting { .. });
        if news {
            self.worker = WorkerPhase::Running;
        }
        news
    }

    /// The worker process is being told to drain, within its own configuration's times, because another one has taken over, or
    /// (`stops`) because the server stops: returns them. `None` when there is nothing to tell it.
    pub(crate) fn drain(&mut self, now: Instant, stops: bool) -> Option<DrainTime> {
        if self.worker != WorkerPhase::Running {
            return None;
        }
        let time = self.plan.drain_time(stops);
        let longest = time.streams_ms.map(|streams| Duration::from_millis(streams.max(time.grace_ms)));
        let kill_at = longest.map(|longest| now + longest + DRAIN_MARGIN);
        self.worker = WorkerPhase::Draining { kill_at, since: now };
        Some(time)
    }

    /// Gives a draining worker process no more than `grace` from now on. Returns that, in milliseconds; `None` if it has less
    /// anyway.
    pub(crate) fn hurry(&mut self, now: Instant) -> Option<u64> {
        let WorkerPhase::Draining { kill_at, .. } = &mut self.worker else { return None };
        let sooner = now + self.plan.grace + DRAIN_MARGIN;
        if kill_at.is_some_and(|at| at <= sooner) {
            return None;
        }
        *kill_at = Some(sooner);
        Some(self.plan.drain_time(true).grace_ms)
    }

    /// Ends the worker process at once. Returns whether it is to be asked to drain within no time, so that it writes what its
    /// access log still holds; otherwise it is to be killed.
    pub(crate) fn halt(&mut self, now: Instant) -> bool {
        let halted = now + HALT_TIMEOUT;
        let (earlier, since) = match self.worker {
            WorkerPhase::Draining { kill_at, since } => (kill_at.unwrap_or(halted), since),
            WorkerPhase::Running => (halted, now),
            WorkerPhase::Starting { .. } | WorkerPhase::Killed | WorkerPhase::Gone => return false,
        };
        self.worker = WorkerPhase::Draining { kill_at: Some(earlier.min(halted)), since };
        true
    }

    /// Kills the worker process.
    pub(crate) fn kill(&mut self, out: &mut Out<'_>) {
        if self.listens() {
            self.worker = WorkerPhase::Killed;
            out.actions.push(Action::KillWorker(self.number));
        }
    }

    /// The worker process has exited. Returns how long it lived.
    pub(crate) fn gone(&mut self, now: Instant) -> Duration {
        self.worker = WorkerPhase::Gone;
        now.saturating_duration_since(self.started)
    }

    /// Whether its worker process is ready, and serves.
    pub(crate) fn is_running(&self) -> bool {
        self.worker == WorkerPhase::Running
    }

    /// Whether its worker process finishes what it has.
    pub(crate) fn is_draining(&self) -> bool {
        matches!(self.worker, WorkerPhase::Draining { .. })
    }

    /// Since when its worker process finishes what it has, if it was asked to.
    pub(crate) fn draining_since(&self) -> Option<Instant> {
        match self.worker {
            WorkerPhase::Draining { since, .. } => Some(since),
            _ => None,
        }
    }

    /// Whether its worker process should have been ready by now.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.start_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Whether it has not finished within its grace.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        matches!(self.worker, WorkerPhase::Draining { kill_at: Some(at), .. } if at <= now)
    }
}
