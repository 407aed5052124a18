//! php-fpm, a fixed pool, and one that knows the future.

use super::httpd::{Maintenance, Wanted, orders};
use super::{Layout, Orders, Policy};
use crate::process::{State, View};
use crate::scenario::{Clients, Scenario};
use crate::{Micros, SECOND, seconds};

/// php-fpm with `pm = dynamic`: as prefork, but a process that starts is not idle, and `pm.max_children` counts it.
pub struct PhpFpm {
    start: usize,
    slots: usize,
    maintenance: Maintenance,
}

impl PhpFpm {
    /// With the scenario's limits.
    pub fn new(scenario: &Scenario) -> PhpFpm {
        let limits = &scenario.limits;
        PhpFpm {
            start: limits.start as usize,
            slots: limits.max as usize / scenario.buckets.len(),
            maintenance: Maintenance::new(limits.min_spare, limits.max_spare),
        }
    }
}

impl Policy for PhpFpm {
    fn name(&self) -> &'static str {
        "php-fpm"
    }

    fn layout(&self) -> Layout {
        Layout { threads: 1, slots: self.slots, eager: false, interval: SECOND }
    }

    fn decide(&mut self, view: &View<'_>) -> Orders {
        if view.now == 0 {
            return orders(view, &Wanted::Start(self.start));
        }
        let room = view.count(|process| process.state == State::Empty);
        orders(view, &self.maintenance.decide(view.count(|process| process.is_idle()), room as usize))
    }
}

/// Always as many as may be. A process that dies is replaced at once.
pub struct Fixed {
    processes: usize,
    threads: u32,
}

impl Fixed {
    /// With the scenario's limits.
    pub fn new(scenario: &Scenario) -> Fixed {
        let limits = &scenario.limits;
        Fixed {
            processes: (limits.max / limits.threads) as usize / scenario.buckets.len(),
            threads: limits.threads,
        }
    }
}

impl Policy for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn layout(&self) -> Layout {
        Layout { threads: self.threads, slots: self.processes, eager: false, interval: SECOND }
    }

    fn decide(&mut self, view: &View<'_>) -> Orders {
        let empty = |slots: &[crate::process::Process]| {
            slots.iter().filter(|process| process.state == State::Empty).count()
        };
        let start = view.buckets.iter().enumerate().map(|(bucket, slots)| (bucket, empty(slots)));
        Orders { start: start.collect(), ..Orders::default() }
    }
}

/// Knows how much will come while a worker starts, and has what that takes: the mean, and three times its square root.
pub struct Oracle {
    scenario: Scenario,
}

/// How far beyond a worker's start the oracle looks, so that it does not end one that is about to be needed.
const FORESIGHT: Micros = 30 * SECOND;

impl Oracle {
    /// For this scenario.
    pub fn new(scenario: &Scenario) -> Oracle {
        Oracle { scenario: scenario.clone() }
    }

    /// Places that are needed at some time from now until workers started then would be ready.
    fn places(&self, now: Micros) -> u32 {
        let mean = self.scenario.service.mean();
        let until = self.scenario.startup + FORESIGHT;
        let times = (0..=until / SECOND).map(|later| seconds(now) + later as f64);
        let load = match self.scenario.clients {
            Clients::Closed { count, away } => f64::from(count) * mean / (mean + away),
            Clients::Open(rate) => times.map(|at| rate(at) * mean).fold(0.0, f64::max),
        };
        (load + 3.0 * load.sqrt()).ceil() as u32
    }
}

impl Policy for Oracle {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn layout(&self) -> Layout {
        let limits = &self.scenario.limits;
        let slots = (limits.max / limits.threads) as usize;
        Layout { threads: limits.threads, slots, eager: false, interval: SECOND }
    }

    fn decide(&mut self, view: &View<'_>) -> Orders {
        let threads = self.scenario.limits.threads;
        let whole: f64 = self.scenario.buckets.iter().sum();
        let mut orders = Orders::default();
        for (bucket, (slots, weight)) in view.buckets.iter().zip(self.scenario.buckets).enumerate() {
            let share = f64::from(self.places(view.now)) * weight / whole;
            let wanted = ((share / f64::from(threads)).ceil() as usize).max(1);
            let live = |state: State| matches!(state, State::Starting | State::Serving);
            let live = slots.iter().filter(|process| live(process.state)).count();
            orders.start.push((bucket, wanted.saturating_sub(live)));
            let idle = (0..slots.len()).rev().filter(|slot| slots[*slot].is_idle());
            orders.drain.extend(idle.take(live.saturating_sub(wanted)).map(|slot| (bucket, slot)));
        }
        orders
    }
}
