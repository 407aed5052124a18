//! One place for an application process in a [`super::pool::Pool`], and what its process is doing.

use std::time::{Duration, Instant};

use super::events::Action;
use super::generation::Out;
use maitred_base::pool::canary::Work;
use maitred_base::pool::sizing::{self, SlotView};
use maitred_control::{Greeting, SlotId};

/// Where a pool stands: a generation, and the pool's index in its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home {
    /// Number of the generation.
    pub generation: u64,
    /// Index of the pool.
    pub index: u16,
    /// Number of the configuration.
    pub plan: u64,
}

/// What the process of a slot is doing. The module's table says what each means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotPhase {
    /// The slot has no process.
    Empty,
    /// Started, no HELLO.
    Starting {
        /// When it must have said it.
        deadline: Instant,
    },
    /// Said HELLO.
    Ready,
    /// The worker process died. The application process was ready, and is to say HELLO again, on another channel.
    Recovering {
        /// When it must have said it.
        deadline: Instant,
    },
    /// Gets no more requests.
    Draining(Parting),
    /// Sent a signal, or exiting.
    Ending {
        /// When it is killed; `None` when it has been.
        kill_at: Option<Instant>,
    },
}

/// How a process that gets no more requests comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parting {
    /// When it was retired.
    pub since: Instant,
    /// Nothing is under way there any more, and it was asked to end.
    pub dismissed: bool,
    /// Whether something was still under way after the time that a request may take.
    pub lingers: bool,
    /// When it is looked at next: it is killed if it was asked to end, and ended if it has had all its time.
    pub next: Option<Instant>,
}

/// The end of a process that was not asked to go.
pub(super) struct Death {
    /// Whether the process ended by itself with status 0.
    pub(super) clean: bool,
    pub(super) was_ready: bool,
    pub(super) lived: Duration,
    pub(super) how: String,
}

/// One place for an application process.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) epoch: u64,
    pub(super) phase: SlotPhase,
    /// Whose worker process has its channel.
    pub(super) at: Home,
    /// The home that gets the channel, which was asked back for it.
    pub(super) wanted_by: Option<Home>,
    /// Whether the worker process was asked to hand the channel on over a link, and has not yet: a second request would make
    /// another link, which leads nowhere.
    pub(super) handed_on: bool,
    /// Whether the process is at a generation that will give it back by itself.
    pub(super) borrowed: bool,
    /// Generations that its channel was at, and that reach it over a link.
    pub(super) linked: Vec<u64>,
    /// Whether the process was asked to go, or to recover: its end is no death then.
    pub(super) asked: bool,
    /// The reason why its process is to be replaced, which goes on until there is another in its place.
    pub(super) stale: Option<&'static str>,
    /// Whether the process was killed because it was never ready.
    pub(super) late: bool,
    /// Whether the process closed its channel, and was killed because it did not exit then.
    pub(super) overdue: bool,
    pub(super) greeting: Option<Greeting>,
    pub(super) started: Instant,
    /// When it began to be idle, or busy.
    pub(super) since: Instant,
    pub(super) busy: u32,
    /// What it had answered before its present worker process began to count.
    pub(super) before: Work,
    /// What it has answered since.
    pub(super) work: Work,
    pub(super) memory: u64,
}

impl Slot {
    pub(super) fn empty(now: Instant, at: Home) -> Slot {
        Slot {
            epoch: 0,
            phase: SlotPhase::Empty,
            at,
            wanted_by: None,
            handed_on: false,
            borrowed: false,
            linked: Vec::new(),
            asked: false,
            stale: None,
            late: false,
            overdue: false,
            greeting: None,
            started: now,
            since: now,
            busy: 0,
            before: Work::default(),
            work: Work::default(),
            memory: 0,
        }
    }

    /// The process's name at the generation where its channel is.
    pub(super) fn id(&self, number: u16) -> SlotId {
        SlotId { pool: self.at.index, slot: number, epoch: self.epoch }
    }

    /// Whether there is a process that serves, or will.
    pub(super) fn is_up(&self) -> bool {
        self.is_starting() || self.phase == SlotPhase::Ready
    }

    /// Whether there is one that will serve when it has said HELLO.
    pub(super) fn is_starting(&self) -> bool {
        matches!(self.phase, SlotPhase::Starting { .. } | SlotPhase::Recovering { .. })
    }

    /// Whether its process, which is to be replaced, could be retired.
    pub(super) fn is_replaceable(&self) -> bool {
        self.stale.is_some() && self.phase == SlotPhase::Ready
    }

    /// Whether there is a process of the pool's present state that does not serve yet, or not any more: one that has closed its
    /// channel and not yet exited, too. What it takes the place of cannot go before it is known what becomes of it.
    pub(super) fn is_undecided(&self) -> bool {
        let dying = matches!(self.phase, SlotPhase::Ending { .. }) && !self.asked;
        self.stale.is_none() && (self.is_starting() || dying)
    }

    /// Whether its process takes another channel; `others`: whether others of its pool do.
    pub(super) fn recovers(&self, others: bool) -> bool {
        match self.phase {
            SlotPhase::Recovering { .. } => true,
            // The process may have said HELLO to a worker process that has died before it could say so.
            SlotPhase::Starting { .. } => others && !self.asked,
            SlotPhase::Ready => self.greeting.as_ref().is_some_and(|greeting| greeting.recovers),
            SlotPhase::Empty | SlotPhase::Draining(_) | SlotPhase::Ending { .. } => false,
        }
    }

    /// Has the process drop its channel, which is of no use any more, and wait for another. The process was not asked to go,
    /// but its end now would be the worker process's death, not one of its own.
    pub(super) fn park(&mut self, deadline: Instant, out: &mut Out<'_>) {
        self.phase = SlotPhase::Recovering { deadline };
        self.asked = true;
        (self.greeting, self.wanted_by, self.handed_on, self.borrowed) = (None, None, false, false);
        self.linked.clear();
        self.count_anew();
        self.busy = 0;
        out.actions.push(Action::CloseChannel(self.epoch));
    }

    pub(super) fn view(&self) -> SlotView {
        use sizing::Phase;
        let phase = match self.phase {
            SlotPhase::Empty => Phase::Empty,
            // What is to be replaced counts for nothing, so that what replaces it is started.
            _ if self.stale.is_some() => Phase::Draining,
            SlotPhase::Starting { .. } | SlotPhase::Recovering { .. } => Phase::Starting,
            SlotPhase::Ready if self.busy > 0 => Phase::Busy,
            // The process's end will be a death, which says when the next one may be started. A process that was never ready
            // counts as starting.
            SlotPhase::Ending { .. } if !self.asked && self.greeting.is_some() => Phase::Busy,
            SlotPhase::Ending { .. } if !self.asked => Phase::Starting,
            SlotPhase::Ready => Phase::Idle,
            SlotPhase::Draining(_) | SlotPhase::Ending { .. } => Phase::Draining,
        };
        SlotView {
            phase,
            since: self.since,
            started: self.started,
            requests: self.all_work().requests,
            memory: self.memory,
            busy: if phase == Phase::Busy { self.busy.max(1) } else { self.busy },
            capacity: self.greeting.as_ref().map_or(0, |greeting| greeting.capacity),
        }
    }

    /// Another worker process counts what it answers from now on.
    pub(super) fn count_anew(&mut self) {
        self.before = self.all_work();
        self.work = Work::default();
    }

    /// All that it has answered.
    pub(super) fn all_work(&self) -> Work {
        self.before.plus(self.work)
    }

    /// Whether it could take another request.
    pub(super) fn has_room(&self) -> bool {
        self.busy < self.greeting.as_ref().map_or(1, |greeting| greeting.capacity)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            SlotPhase::Starting { deadline } | SlotPhase::Recovering { deadline } => Some(deadline),
            SlotPhase::Draining(parting) => parting.next,
            SlotPhase::Ending { kill_at } => kill_at,
            SlotPhase::Empty | SlotPhase::Ready => None,
        }
    }

    pub(super) fn kill(&mut self, out: &mut Out<'_>) {
        self.phase = SlotPhase::Ending { kill_at: None };
        out.actions.push(Action::KillApp(self.epoch));
    }

    pub(super) fn terminate(&mut self, kill_at: Instant, out: &mut Out<'_>) {
        match &mut self.phase {
            SlotPhase::Empty | SlotPhase::Ending { kill_at: None } => {}
            SlotPhase::Ending { kill_at: Some(earlier) } => *earlier = kill_at.min(*earlier),
            phase => {
                *phase = SlotPhase::Ending { kill_at: Some(kill_at) };
                out.actions.push(Action::TerminateApp(self.epoch));
            }
        }
    }
}
