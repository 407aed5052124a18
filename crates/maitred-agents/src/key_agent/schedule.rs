//! When keys are fetched. Pure: times are since the start of the process, and come with each call.

use std::time::Duration;

/// The shortest time between two fetches of a source: tokens name keys as they like.
pub(crate) const FETCH_EVERY_MIN: Duration = Duration::from_secs(5);
/// The longest time after a failure; the first is [`FETCH_EVERY_MIN`], and each further one twice as long.
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(5 * 60);

/// One source.
#[derive(Debug)]
pub(crate) struct Schedule {
    refresh: Duration,
    /// When it is fetched next; `None` while it is.
    next: Option<Duration>,
    begun: Option<Duration>,
    failures: u32,
    /// Whether the source was asked for while it was fetched.
    wanted: bool,
}

impl Schedule {
    /// The schedule of a source that is fetched at once, and then in this period.
    pub(crate) fn new(refresh: Duration) -> Schedule {
        Schedule { refresh, next: Some(Duration::ZERO), begun: None, failures: 0, wanted: false }
    }

    /// When it is fetched next; `None` while it is.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.next
    }

    /// Whether it is to be fetched now; then that begins.
    pub(crate) fn begins(&mut self, now: Duration) -> bool {
        let due = self.next.is_some_and(|next| next <= now);
        if due {
            (self.next, self.begun, self.wanted) = (None, Some(now), false);
        }
        due
    }

    /// A fetch has ended.
    pub(crate) fn ended(&mut self, now: Duration, well: bool) {
        self.failures = if well { 0 } else { self.failures.saturating_add(1) };
        let factor = 1_u32.checked_shl(self.failures.saturating_sub(1)).unwrap_or(u32::MAX);
        let wait = match well {
            true => self.refresh,
            false => {
                FETCH_EVERY_MIN.saturating_mul(factor).min(RETRY_MAX).min(self.refresh.max(FETCH_EVERY_MIN))
            }
        };
        self.next = Some(now.saturating_add(wait));
        if std::mem::take(&mut self.wanted) {
            self.wanted(now);
        }
    }

    /// A key is wanted that was not there. After failures it has to wait as anything else.
    pub(crate) fn wanted(&mut self, now: Duration) {
        let earliest = self.begun.map_or(now, |begun| begun.saturating_add(FETCH_EVERY_MIN)).max(now);
        match &mut self.next {
            Some(next) if self.failures == 0 => *next = earliest.min(*next),
            Some(_) => {}
            None => self.wanted = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn keys_are_fetched_in_a_period_and_sooner_if_they_are_wanted() {
        let mut schedule = Schedule::new(at(3600));
        assert!(schedule.begins(at(0)) && !schedule.begins(at(0)), "one at a time");
        schedule.ended(at(1), true);
        assert_eq!(schedule.next(), Some(at(3601)));
        schedule.wanted(at(2));
        assert_eq!(schedule.next(), Some(at(5)), "not more often than that");
        assert!(!schedule.begins(at(4)) && schedule.begins(at(5)));
        schedule.wanted(at(6));
        assert_eq!(schedule.next(), None);
        schedule.ended(at(7), true);
        assert_eq!(schedule.next(), Some(at(10)), "what was wanted meanwhile");
        assert!(schedule.begins(at(10)));
        schedule.ended(at(11), true);
        schedule.wanted(at(100));
        assert!(schedule.begins(at(100)));
    }

    #[test]
    fn failures_are_retried_with_growing_delays() {
        let mut schedule = Schedule::new(at(3600));
        let (mut now, mut delays) = (at(0), Vec::new());
        for _ in 0..9 {
            assert!(schedule.begins(now));
            schedule.ended(now, false);
            schedule.wanted(now);
            let next = schedule.next().unwrap();
            delays.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(delays, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert!(schedule.begins(now));
        schedule.ended(now, true);
        assert_eq!(schedule.next(), Some(now + at(3600)));
        let mut short = Schedule::new(at(10));
        for _ in 0..40 {
            assert!(short.begins(at(1000)));
            short.ended(at(0), false);
        }
        assert_eq!(short.next(), Some(at(10)), "not later than without a failure");
    }
}
