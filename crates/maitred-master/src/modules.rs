//! Crashes of the worker process that happened in a module. A module that has crashed too often is turned off: its routes
//! answer 503 until the configuration is read again.
//!
//! The number of the module stands in the scoreboard: a signal handler of the worker process puts it there in a crash, and so
//! does its control thread where a module holds an event loop for too long, which has the master kill the process.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// So many crashes in [`WITHIN`] turn a module off: a bug that each request for it brings about would keep all others from being
/// answered, and one in a while does less harm than the routes without their module.
const CRASHES_MAX: usize = 3;
/// How long a crash counts.
const WITHIN: Duration = Duration::from_secs(60);

/// What is known of the modules of one configuration.
#[derive(Debug, Default)]
pub(super) struct Crashes {
    /// The number of the configuration.
    plan: u64,
    /// When, and in which module.
    recent: VecDeque<(Instant, usize)>,
    off: Vec<usize>,
    total: u64,
}

impl Crashes {
    /// A worker process with this configuration has crashed in this module. True if the module is turned off from now on.
    pub(super) fn note(&mut self, plan: u64, module: usize, now: Instant) -> bool {
        self.total += 1;
        if plan < self.plan {
            // Of a configuration that is in force no more.
            return false;
        }
        self.enter(plan);
        self.recent.retain(|(at, _)| now.saturating_duration_since(*at) < WITHIN);
        self.recent.push_back((now, module));
        let many = self.recent.iter().filter(|(_, of)| *of == module).count() >= CRASHES_MAX;
        if many && !self.off.contains(&module) {
            self.off.push(module);
            return true;
        }
        false
    }

    /// The modules of this configuration that are turned off.
    pub(super) fn off(&self, plan: u64) -> Vec<usize> {
        if plan != self.plan { Vec::new() } else { self.off.clone() }
    }

    /// Crashes in modules since the start of the master.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Another configuration begins without any crash.
    fn enter(&mut self, plan: u64) {
        if plan > self.plan {
            (self.plan, self.recent, self.off) = (plan, VecDeque::new(), Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_crashes_in_a_minute_turn_a_module_off_until_the_next_configuration() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut crashes = Crashes::default();
        assert!(!crashes.note(1, 5, at(0)) && !crashes.note(1, 5, at(50)));
        assert!(!crashes.note(1, 5, at(61)), "the first does not count any more");
        assert!(!crashes.note(1, 4, at(62)), "another module");
        assert!(crashes.note(1, 5, at(70)));
        assert_eq!((crashes.off(1), crashes.off(2)), (vec![5], vec![]));
        assert!(!crashes.note(1, 5, at(71)), "it is off already");
        assert!(!crashes.note(2, 5, at(72)));
        assert_eq!((crashes.off(2), crashes.total()), (vec![], 7));
        assert!(!crashes.note(1, 5, at(73)), "a worker process of the configuration before");
        assert!(crashes.off(2).is_empty());
    }
}
