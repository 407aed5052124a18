//! The sizing core of the master.

use std::time::{Duration, Instant};

use maitred_base::pool::buckets::{BucketView, Buckets};
use maitred_base::pool::sizing::{Phase, Settings, SlotView};

use super::{Layout, Orders, Policy};
use crate::process::{Process, State, View};
use crate::scenario::Scenario;
use crate::{Micros, SECOND};

/// How often the master reads the scoreboard, while a pool is not settled.
const INTERVAL: Micros = SECOND / 10;

/// `maitred_base::pool`, shown the simulated slots as the master shows it the real ones.
pub struct Core {
    /// What the simulation's time 0 is. The value has no influence.
    epoch: Instant,
    settings: Settings,
    threads: u32,
    buckets: Buckets,
}

impl Core {
    /// A pool with the scenario's limits.
    pub fn new(scenario: &Scenario) -> Core {
        let limits = &scenario.limits;
        let processes = |places: u32| u16::try_from(places.div_ceil(limits.threads)).unwrap_or(u16::MAX);
        let settings = Settings {
            start: processes(limits.start),
            min_spare: processes(limits.min_spare),
            max_spare: processes(limits.max_spare),
            max: processes(limits.max),
            ..Settings::default()
        };
        let epoch = Instant::now();
        let count = u16::try_from(scenario.buckets.len()).unwrap_or(u16::MAX);
        let buckets = Buckets::new(epoch, &settings, count);
        let largest = settings.split(count).first().copied().unwrap_or(settings);
        Core { epoch, settings: largest, threads: limits.threads, buckets }
    }

    fn instant(&self, at: Micros) -> Instant {
        self.epoch + Duration::from_micros(at)
    }

    fn slot(&self, process: &Process) -> SlotView {
        SlotView {
            phase: match process.state {
                State::Empty => Phase::Empty,
                State::Starting => Phase::Starting,
                State::Serving if process.busy == 0 => Phase::Idle,
                State::Serving => Phase::Busy,
                State::Draining => Phase::Draining,
            },
            since: self.instant(process.since),
            started: self.instant(process.started),
            requests: process.handled,
            memory: 0,
            busy: process.busy,
            capacity: self.threads,
        }
    }
}

impl Policy for Core {
    fn name(&self) -> &'static str {
        "maitred"
    }

    fn layout(&self) -> Layout {
        let slots = usize::from(self.settings.slots());
        Layout { threads: self.threads, slots, eager: false, interval: INTERVAL }
    }

    fn decide(&mut self, view: &View<'_>) -> Orders {
        let slots: Vec<Vec<SlotView>> = view
            .buckets
            .iter()
            .map(|slots| slots.iter().map(|process| self.slot(process)).collect())
            .collect();
        let views: Vec<_> = slots
            .iter()
            .zip(view.queued)
            .map(|(slots, queued)| BucketView { slots, queued: *queued })
            .collect();
        let mut orders = Orders::default();
        for (bucket, decision) in self.buckets.decide(self.instant(view.now), &views).into_iter().enumerate()
        {
            orders.start.push((bucket, usize::from(decision.start)));
            orders.drain.extend(decision.retire.map(|retired| (bucket, usize::from(retired.slot))));
        }
        orders
    }

    fn died(&mut self, now: Micros, bucket: usize, lived: Micros, was_ready: bool) {
        let bucket = u16::try_from(bucket).unwrap_or(u16::MAX);
        self.buckets.died(bucket, self.instant(now), Duration::from_micros(lived), was_ready);
    }
}
