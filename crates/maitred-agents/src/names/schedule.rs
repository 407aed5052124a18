//! When a name is resolved. Pure: times are since the start of the process, and come with each call.

use std::time::Duration;

/// The least time between two questions about a name: records may say that they are good for no time at all.
pub(crate) const TTL_MIN: Duration = Duration::from_secs(1);
/// The greatest: a record of a year would never be seen to change.
pub(crate) const TTL_MAX: Duration = Duration::from_secs(60 * 60);
/// The longest time after a failure; the first is [`TTL_MIN`], and each further one twice as long.
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(30);

/// One name.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// When it is resolved next; `None` while it is.
    next: Option<Duration>,
    failures: u32,
}

impl Schedule {
    /// The schedule of a name that is resolved at once.
    pub(crate) fn new() -> Schedule {
        Schedule { next: Some(Duration::ZERO), failures: 0 }
    }

    /// When it is resolved next; `None` while it is.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.next
    }

    /// Whether it is to be resolved now; then that begins.
    pub(crate) fn begins(&mut self, now: Duration) -> bool {
        self.next.take_if(|next| *next <= now).is_some()
    }

    /// Notes the end of a resolution: what was found is good for `ttl`. Without `ttl`, the resolution has failed.
    pub(crate) fn ended(&mut self, now: Duration, ttl: Option<Duration>) {
        let wait = match ttl {
            Some(ttl) => {
                self.failures = 0;
                ttl.clamp(TTL_MIN, TTL_MAX)
            }
            None => {
                let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
                self.failures = self.failures.saturating_add(1);
                TTL_MIN.saturating_mul(factor).min(RETRY_MAX)
            }
        };
        self.next = Some(now + wait);
    }

    /// Whether the last attempt was the first one to fail.
    pub(crate) fn has_just_failed(&self) -> bool {
        self.failures == 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_resolved_when_its_records_end_and_later_and_later_while_that_fails() {
        let (mut schedule, mut now) = (Schedule::new(), Duration::ZERO);
        let mut waits = Vec::new();
        let secs = |secs| Some(Duration::from_secs(secs));
        for ttl in
            [secs(0), secs(300), secs(1 << 31), None, None, None, None, None, None, None, secs(5), None]
        {
            now = schedule.next().unwrap();
            assert!(schedule.begins(now) && !schedule.begins(now), "once at a time");
            schedule.ended(now, ttl);
            waits.push((schedule.next().unwrap() - now).as_secs());
        }
        assert_eq!(waits, [1, 300, 3600, 1, 2, 4, 8, 16, 30, 30, 5, 1]);
        assert!(!schedule.begins(now), "not before it is due");
    }

    proptest! {
        #[test]
        fn no_answers_make_it_a_loop(ttls in prop::collection::vec(proptest::option::of(0_u64..1 << 33), 1..200)) {
            let (mut schedule, attempts) = (Schedule::new(), ttls.len() as u32);
            for ttl in ttls {
                let now = schedule.next().unwrap();
                prop_assert!(schedule.begins(now));
                schedule.ended(now, ttl.map(Duration::from_secs));
            }
            prop_assert!(schedule.next().unwrap() >= TTL_MIN * attempts);
        }
    }
}
