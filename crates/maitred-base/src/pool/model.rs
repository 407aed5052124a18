//! A pool that is made up: workers that start, serve, drain and die as a test says. The model carries out every decision, and
//! checks after each one what must hold whatever the pool and its load.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::sizing::{Decision, Phase, RETIRE_INTERVAL, Retirement, Settings, Sizing, SlotView, Why};

/// What becomes of a worker.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    /// The worker becomes ready after so long, and serves.
    Serves(Duration),
    /// The worker becomes ready after the first time, and dies after the second; both count from its start.
    Dies(Duration, Duration),
    /// The worker dies after so long without ever having been ready.
    Fails(Duration),
}

/// A pool under a load.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) settings: Settings,
    pub(super) sizing: Sizing,
    pub(super) slots: Vec<SlotView>,
    pub(super) fate: Box<dyn Fn(u64) -> Fate>,
    /// Requests that a worker takes at a time.
    pub(super) capacity: u32,
    /// How long a worker drains.
    pub(super) drains: Duration,
    /// Requests that each busy worker finishes in one step.
    pub(super) requests_per_step: u64,
    pub(super) queued: u32,
    /// Whether the worker that has been idle longest gets the next request; otherwise the first one.
    pub(super) rotates: bool,
    fates: Vec<Fate>,
    began: Instant,
    serial: u64,
    /// Every burst: when, and how many.
    pub(super) starts: Vec<(Duration, u16)>,
    /// Every retirement.
    pub(super) retirements: Vec<(Duration, Retirement)>,
    pub(super) deaths: u64,
    /// Whether a worker has been ready, and so has announced its capacity.
    known: bool,
    /// Spare workers, each with the time until which that held.
    spare: VecDeque<(Instant, u64)>,
}

impl World {
    pub(super) fn new(settings: Settings, startup: Duration) -> World {
        let now = Instant::now();
        let slots = usize::from(settings.slots());
        World {
            now,
            settings,
            sizing: Sizing::new(now, settings),
            slots: vec![SlotView::empty(now); slots],
            fate: Box::new(move |_| Fate::Serves(startup)),
            capacity: 1,
            drains: Duration::from_millis(50),
            requests_per_step: 1,
            queued: 0,
            rotates: false,
            fates: vec![Fate::Serves(startup); slots],
            began: now,
            serial: 0,
            starts: Vec::new(),
            retirements: Vec::new(),
            deaths: 0,
            known: false,
            spare: VecDeque::new(),
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.now - self.began
    }

    pub(super) fn count(&self, phases: &[Phase]) -> usize {
        self.slots.iter().filter(|slot| phases.contains(&slot.phase)).count()
    }

    pub(super) fn live(&self) -> usize {
        self.count(&[Phase::Starting, Phase::Idle, Phase::Busy])
    }

    pub(super) fn started(&self) -> u64 {
        self.serial
    }

    /// Lets `step` pass, with `load` requests under way or waiting throughout.
    pub(super) fn step(&mut self, step: Duration, load: u32) {
        self.now += step;
        self.age();
        self.serve(load);
        let queued = self.queued;
        let decision = self.sizing.decide(self.now, &self.slots, queued);
        self.check(&decision);
        self.carry_out(&decision);
    }

    pub(super) fn run(&mut self, time: Duration, step: Duration, load: impl Fn(Duration) -> u32) {
        let end = self.now + time;
        while self.now < end {
            let load = load(self.elapsed());
            self.step(step, load);
        }
    }

    /// Workers become ready, die, or have drained.
    fn age(&mut self) {
        let now = self.now;
        for (slot, fate) in self.slots.iter_mut().zip(&self.fates) {
            let lived = now - slot.started;
            let (ready, dies) = match *fate {
                Fate::Serves(ready) => (Some(ready), None),
                Fate::Dies(ready, dies) => (Some(ready), Some(dies)),
                Fate::Fails(dies) => (None, Some(dies)),
            };
            match slot.phase {
                Phase::Draining if now - slot.since >= self.drains => slot.phase = Phase::Empty,
                Phase::Starting | Phase::Idle | Phase::Busy if dies.is_some_and(|dies| lived >= dies) => {
                    let was_ready = slot.phase != Phase::Starting;
                    self.sizing.died(now, lived, was_ready);
                    self.deaths += 1;
                    *slot = SlotView { phase: Phase::Delayed, ..SlotView::empty(now) };
                }
                Phase::Starting if ready.is_some_and(|ready| lived >= ready) => {
                    (slot.phase, slot.since) = (Phase::Idle, now);
                }
                _ => {}
            }
        }
    }

    /// Gives the load to the workers that are ready.
    fn serve(&mut self, mut load: u32) {
        let mut ready: Vec<usize> = (0..self.slots.len())
            .filter(|index| matches!(self.slots[*index].phase, Phase::Idle | Phase::Busy))
            .collect();
        if self.rotates {
            ready.sort_by_key(|index| (self.slots[*index].phase == Phase::Busy, self.slots[*index].since));
        }
        self.known |= !ready.is_empty();
        for index in ready {
            let slot = &mut self.slots[index];
            slot.capacity = self.capacity;
            slot.busy = load.min(self.capacity);
            load -= slot.busy;
            let phase = if slot.busy == 0 { Phase::Idle } else { Phase::Busy };
            if slot.busy > 0 {
                slot.requests += self.requests_per_step;
            }
            if phase != slot.phase {
                (slot.phase, slot.since) = (phase, self.now);
            }
        }
        self.queued = load;
        self.spare.push_back((self.now, self.spare_workers()));
        while self.spare.front().is_some_and(|(at, _)| self.now - *at > self.settings.retire_after) {
            self.spare.pop_front();
        }
    }

    fn free(&self) -> u64 {
        let ready = self.slots.iter().filter(|slot| matches!(slot.phase, Phase::Idle | Phase::Busy));
        ready.map(|slot| u64::from(self.capacity - slot.busy)).sum()
    }

    fn spare_workers(&self) -> u64 {
        self.free().saturating_sub(u64::from(self.queued)) / u64::from(self.capacity)
    }

    /// Properties 1, 4 and the limits, which hold for every decision.
    fn check(&self, decision: &Decision) {
        let starting = self.count(&[Phase::Starting]) as u64;
        if decision.start > 0 && self.sizing_knows_capacity() {
            self.check_that_more_are_needed(decision.start, starting);
        }
        // More than `max` there are only after it was lowered.
        let live = self.live() + usize::from(decision.start);
        assert!(decision.start == 0 || live <= usize::from(self.settings.max));
        assert!(usize::from(decision.start) <= self.count(&[Phase::Empty, Phase::Delayed]));
        let Some(Retirement { slot, why }) = decision.retire else { return };
        let retired = self.slots[usize::from(slot)];
        assert!(matches!(retired.phase, Phase::Idle | Phase::Busy), "a worker that is not ready was retired");
        assert_eq!(starting + u64::from(decision.start), 0, "retired while a worker starts");
        if why != Why::Spare {
            return;
        }
        assert_eq!(self.queued, 0, "retired while a request is queued");
        let since = self.now - self.spare.front().unwrap().0;
        let step = Duration::from_secs(1);
        assert!(since + step >= self.settings.retire_after.min(self.elapsed()));
        let least = self.spare.iter().map(|(_, spare)| *spare).min().unwrap();
        assert!(least > u64::from(self.settings.max_spare), "only {least} were spare all the time");
        let longest = self.slots.iter().filter(|slot| slot.phase == Phase::Idle).map(|slot| slot.since).min();
        if let Some(longest) = longest {
            assert_eq!((retired.phase, retired.since), (Phase::Idle, longest), "not the longest idle");
        }
        let earlier = self.retirements.iter().rev().find(|(_, retirement)| retirement.why == Why::Spare);
        assert!(earlier.is_none_or(|(at, _)| self.elapsed() - *at >= RETIRE_INTERVAL));
    }

    fn sizing_knows_capacity(&self) -> bool {
        !self.starts.is_empty() && (self.capacity == 1 || self.known)
    }

    /// One fewer would not have met the need: those that are starting already were counted.
    fn check_that_more_are_needed(&self, start: u16, starting: u64) {
        let recycles = [
            self.settings.max_age.is_some(),
            self.settings.max_requests.is_some(),
            self.settings.max_memory.is_some(),
        ];
        let capacity = u64::from(self.capacity);
        let leaving = if recycles.contains(&true) { capacity } else { 0 };
        let fewer = self.free() + (starting + u64::from(start) - 1) * capacity;
        let wanted = u64::from(self.queued) + u64::from(self.settings.min_spare) * capacity + leaving;
        assert!(
            fewer < wanted,
            "{start} started, {starting} were starting, and {fewer} of {wanted} were enough"
        );
    }

    fn carry_out(&mut self, decision: &Decision) {
        let (now, elapsed) = (self.now, self.elapsed());
        if decision.start > 0 {
            self.starts.push((elapsed, decision.start));
        }
        for _ in 0..decision.start {
            let free = |slot: &SlotView| matches!(slot.phase, Phase::Empty | Phase::Delayed);
            let index = self.slots.iter().position(free).unwrap();
            self.slots[index] = SlotView { phase: Phase::Starting, ..SlotView::empty(now) };
            self.fates[index] = (self.fate)(self.serial);
            self.serial += 1;
        }
        if let Some(retirement) = decision.retire {
            let slot = &mut self.slots[usize::from(retirement.slot)];
            (slot.phase, slot.since) = (Phase::Draining, now);
            self.retirements.push((elapsed, retirement));
        }
    }
}
