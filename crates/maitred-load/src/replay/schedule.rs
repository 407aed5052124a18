//! From the log's clock to the run's.

use crate::measure::Nanos;

/// A second, in nanoseconds.
const SECOND: Nanos = 1_000_000_000;

/// Turns times of the log into intended times. Time never runs backwards: a line that is older than one before it counts
/// as simultaneous with it. [`super::reorder`] sees to it that few are.
#[derive(Debug, Clone)]
pub(super) struct LogClock {
    speed: f64,
    ramp: Nanos,
    first_us: Option<u64>,
    /// The latest time so far, in nanoseconds since the first line.
    latest: Nanos,
    /// What earlier passes through the log took.
    passed: Nanos,
}

impl LogClock {
    pub(super) fn new(speed: f64, ramp: Nanos) -> Self {
        LogClock { speed, ramp, first_us: None, latest: 0, passed: 0 }
    }

    /// Time since the start of the log, in nanoseconds of the log.
    pub(super) fn read(&mut self, time_us: u64) -> Nanos {
        let first = *self.first_us.get_or_insert(time_us);
        let since = time_us.saturating_sub(first).saturating_mul(1000).saturating_add(self.passed);
        self.latest = self.latest.max(since);
        self.latest
    }

    /// The log starts again, one second after its end.
    pub(super) fn restart(&mut self) {
        self.first_us = None;
        self.passed = self.latest.saturating_add(SECOND);
        self.latest = self.passed;
    }

    /// When something of this log time is to be sent.
    pub(super) fn intended(&self, log: Nanos) -> Nanos {
        let time = log as f64 / self.speed;
        let ramp = self.ramp as f64;
        // The pace rises evenly from 0 to full within the ramp, so half of the ramp is lost.
        let warped = if time < ramp / 2.0 { (2.0 * ramp * time).sqrt() } else { time + ramp / 2.0 };
        warped as Nanos
    }
}

/// Log times of `count` requests that were logged with the same whole second: evenly over it.
pub(super) fn spread(second: Nanos, count: usize) -> impl Iterator<Item = Nanos> {
    let step = SECOND / (count.max(1) as u64);
    (0..count as u64).map(move |at| second.saturating_add(at * step))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_pace_of_the_log_is_kept() {
        let mut clock = LogClock::new(10.0, 0);
        assert_eq!(clock.read(5_000_000), 0);
        let log = clock.read(25_000_000);
        assert_eq!(clock.intended(log), 2 * SECOND);
    }

    #[test]
    fn a_log_that_steps_back_does_not_wait_and_does_not_rush() {
        let mut clock = LogClock::new(1.0, 0);
        let times: Vec<_> =
            [10, 12, 11, 5, 13].into_iter().map(|second| clock.read(second * 1_000_000) / SECOND).collect();
        assert_eq!(times, [0, 2, 2, 2, 3]);
        clock.restart();
        assert_eq!(clock.read(10_000_000), 4 * SECOND);
        assert_eq!(clock.read(12_000_000), 6 * SECOND);
    }

    #[test]
    fn a_second_is_filled_evenly() {
        assert_eq!(
            spread(SECOND, 4).collect::<Vec<_>>(),
            [1_000_000_000, 1_250_000_000, 1_500_000_000, 1_750_000_000]
        );
        assert_eq!(spread(0, 0).count(), 0);
    }

    proptest! {
        #[test]
        fn the_ramp_rises_and_loses_half_its_time(ramp in 0_u64..20, first in 0_u64..100_000, step in 1_u64..100_000) {
            let clock = LogClock::new(1.0, ramp * SECOND);
            let at = |millis: u64| clock.intended(millis * 1_000_000);
            prop_assert!(at(first) <= at(first + step));
            if first >= ramp * 500 {
                prop_assert_eq!(at(first) / 1000, (first * 1_000_000 + ramp * SECOND / 2) / 1000);
            }
        }
    }
}
