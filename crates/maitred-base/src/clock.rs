//! The time as one turn of an event loop sees it.

/// The clock as one turn of an event loop sees it: read once a turn.
#[derive(Debug, Clone)]
pub struct Clock {
    /// Monotonic time.
    pub now: std::time::Instant,
    /// Wall-clock time in seconds since the Unix epoch.
    pub unix_secs: u64,
    /// Fraction of that second, in microseconds.
    pub unix_micros: u32,
    /// Wall-clock time in microseconds, as it would be if the clock were never set back: what ages are counted by.
    pub steady_us: u64,
    /// `Sun, 06 Nov 1994 08:49:37 GMT` of `unix_secs` (RFC 9110 section 5.6.7).
    pub http_date: [u8; 29],
}

impl Clock {
    /// Seconds since the Unix epoch for ages: a clock that is set back stands still in none of them.
    pub fn steady_secs(&self) -> u64 {
        self.steady_us / 1_000_000
    }

    /// Brings `steady_us` up to date, behind the other times: `before` is what `now` was. `steady_us` goes on by the monotonic
    /// clock, and follows the wall clock where that is ahead: after a correction, or a sleep of the machine, which the other
    /// does not count.
    pub fn advance_steady(&mut self, before: std::time::Instant) {
        let passed = self.now.saturating_duration_since(before).as_micros();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        self.steady_us = self.steady_us.saturating_add(passed).max(self.unix_us());
    }

    /// Wall-clock time in microseconds since the Unix epoch.
    pub fn unix_us(&self) -> u64 {
        self.unix_secs.saturating_mul(1_000_000).saturating_add(self.unix_micros.into())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn ages_go_on_when_the_clock_is_set_back_and_follow_it_ahead() {
        let begin = Instant::now();
        let mut clock = Clock {
            now: begin,
            unix_secs: 1000,
            unix_micros: 5,
            steady_us: 1_000_000_005,
            http_date: [0; 29],
        };
        let mut turn = |passed: u64, unix_secs: u64| {
            let before = clock.now;
            clock.now = begin + Duration::from_secs(passed);
            clock.unix_secs = unix_secs;
            clock.advance_steady(before);
            clock.steady_secs()
        };
        assert_eq!(turn(7, 1007), 1007);
        assert_eq!([turn(10, 10), turn(20, 20), turn(20, 3)], [1010, 1020, 1020], "it was set back");
        assert_eq!(
            [turn(21, 5000), turn(31, 5010)],
            [5000, 5010],
            "it was set ahead, or the machine has slept"
        );
    }
}
