//! Apache httpd: the prefork MPM, and the worker MPM as it was in April 2002. Written from what the documentation and the
//! discussion of that time say about them.

use super::{Layout, Orders, Policy};
use crate::process::{Process, State, View};
use crate::scenario::Scenario;
use crate::{Micros, SECOND};

/// The most processes that are started in one second.
const SPAWN_MAX: usize = 32;

/// How long the parent keeps taking the threads of a process that it has asked to end for idle ones. Fitted to the report of
/// 2002, in which it asked nearly all processes to end before it saw that there were too few left.
const BLIND: Micros = 5 * SECOND;

/// Once a second: too few idle, start 1, 2, 4 … 32; too many, end one.
#[derive(Debug, Clone)]
pub(super) struct Maintenance {
    rate: usize,
    min_spare: u32,
    max_spare: u32,
}

/// The result of the maintenance.
pub(super) enum Wanted {
    Start(usize),
    Drain,
    Nothing,
}

impl Maintenance {
    pub(super) fn new(min_spare: u32, max_spare: u32) -> Maintenance {
        Maintenance { rate: 1, min_spare, max_spare }
    }

    pub(super) fn decide(&mut self, idle: u32, room: usize) -> Wanted {
        if idle > self.max_spare {
            self.rate = 1;
            return Wanted::Drain;
        }
        if idle >= self.min_spare || room == 0 {
            self.rate = 1;
            return Wanted::Nothing;
        }
        let start = self.rate.min(room);
        self.rate = (self.rate * 2).min(SPAWN_MAX);
        Wanted::Start(start)
    }
}

/// The bucket with the fewest processes: httpd spreads them evenly.
pub(super) fn emptiest(view: &View<'_>) -> usize {
    let count = |slots: &[Process]| slots.iter().filter(|process| process.state != State::Empty).count();
    let counts = view.buckets.iter().map(|slots| count(slots));
    counts.enumerate().min_by_key(|(_, count)| *count).map_or(0, |(bucket, _)| bucket)
}

/// Carries out the result of the maintenance: starts are spread over the buckets, the last idle process ends.
pub(super) fn orders(view: &View<'_>, wanted: &Wanted) -> Orders {
    let mut orders = Orders::default();
    match wanted {
        Wanted::Nothing => {}
        Wanted::Start(count) => {
            let first = emptiest(view);
            let buckets = view.buckets.len();
            orders.start = (0..*count).map(|number| ((first + number) % buckets, 1)).collect();
        }
        Wanted::Drain => orders.drain.extend(view.find_last(|process| process.is_idle())),
    }
    orders
}

/// Prefork: one place per process; one that starts counts as idle.
pub struct Prefork {
    start: usize,
    slots: usize,
    maintenance: Maintenance,
}

impl Prefork {
    /// With the scenario's limits.
    pub fn new(scenario: &Scenario) -> Prefork {
        let limits = &scenario.limits;
        Prefork {
            start: limits.start as usize,
            slots: limits.max as usize / scenario.buckets.len(),
            maintenance: Maintenance::new(limits.min_spare, limits.max_spare),
        }
    }
}

impl Policy for Prefork {
    fn name(&self) -> &'static str {
        "prefork"
    }

    fn layout(&self) -> Layout {
        Layout { threads: 1, slots: self.slots, eager: false, interval: SECOND }
    }

    fn decide(&mut self, view: &View<'_>) -> Orders {
        if view.now == 0 {
            return orders(view, &Wanted::Start(self.start));
        }
        let idle = view.count(|process| process.is_idle() || process.state == State::Starting);
        let room = view.count(|process| process.state == State::Empty);
        orders(view, &self.maintenance.decide(idle, room as usize))
    }
}

/// The worker MPM of April 2002. A process accepts from its first thread on; threads that do not exist yet, and what was
/// accepted for them, are on no scoreboard; those of processes on their way out are on it for too long.
pub struct Worker2002 {
    threads: u32,
    slots: usize,
    start: usize,
    maintenance: Maintenance,
}

impl Worker2002 {
    /// With the scenario's limits.
    pub fn new(scenario: &Scenario) -> Worker2002 {
        let limits = &scenario.limits;
        Worker2002 {
            threads: limits.threads,
            slots: (limits.max / limits.threads) as usize,
            start: limits.start.div_ceil(limits.threads) as usize,
            maintenance: Maintenance::new(limits.min_spare, limits.max_spare),
        }
    }

    /// Idle threads as the parent sees them.
    fn idle(&self, now: Micros, process: &Process) -> u32 {
        match process.state {
            State::Starting | State::Serving => process.ready - process.busy.min(process.ready),
            State::Draining if now - process.since < BLIND => self.threads - process.busy.min(self.threads),
            State::Draining | State::Empty => 0,
        }
    }
}

impl Policy for Worker2002 {
    fn name(&self) -> &'static str {
        "worker 2002"
    }

    fn layout(&self) -> Layout {
        Layout { threads: self.threads, slots: self.slots, eager: true, interval: SECOND }
    }

    fn decide(&mut self, view: &View<'_>) -> Orders {
        if view.now == 0 {
            return orders(view, &Wanted::Start(self.start));
        }
        let idle = view.processes().map(|process| self.idle(view.now, process)).sum();
        let room = view.count(|process| process.state == State::Empty);
        match self.maintenance.decide(idle, room as usize) {
            // Whichever process happens to read the request to end.
            Wanted::Drain => {
                let last =
                    view.find_last(|process| matches!(process.state, State::Starting | State::Serving));
                Orders { drain: last.into_iter().collect(), ..Orders::default() }
            }
            other => orders(view, &other),
        }
    }
}
