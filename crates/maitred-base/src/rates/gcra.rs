//! The generic cell rate algorithm (ITU-T I.371, annex A.2: virtual scheduling): one time per key says all.
//!
//! The time of a key is the *theoretical arrival time* of the next request, had all come evenly. A request that comes earlier
//! than that by no more than the tolerance is within the rate, and moves the time by one interval.

use std::time::Duration;

/// The parameters of a rate, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gcra {
    interval: u64,
    tolerance: u64,
}

/// What the rule says about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The request is within the rate; the number is the key's time from now on.
    Pass(u64),
    /// The request is beyond the rate; one that comes so many nanoseconds later is.
    Refuse(u64),
    /// The key's time is further ahead than this rate ever sets it: it is of another rate (the configuration has changed). To be
    /// replaced by this one, and looked at again.
    Clamp(u64),
}

impl Gcra {
    /// The longest tolerance: far from where sums of times overflow (584 years).
    pub const TOLERANCE_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

    /// So many in each `period`, evenly; and `burst` more at once. What is longer than [`Gcra::TOLERANCE_MAX`] is taken as that.
    pub fn new(count: u32, period: Duration, burst: u32) -> Gcra {
        let max = Gcra::TOLERANCE_MAX.as_nanos() as u64;
        let period = u64::try_from(period.as_nanos()).unwrap_or(max).min(max);
        let interval = (period / u64::from(count.max(1))).max(1);
        Gcra { interval, tolerance: interval.saturating_mul(burst.into()).min(max) }
    }

    /// What becomes of a request that comes at `now`, for a key with the time `arrival`; 0 is a key that was never seen.
    #[inline]
    pub(crate) fn next(&self, arrival: u64, now: u64) -> Next {
        let ahead = arrival.saturating_sub(now);
        if ahead <= self.tolerance {
            return Next::Pass(arrival.max(now).saturating_add(self.interval));
        }
        let most = self.tolerance + self.interval;
        if ahead > most {
            return Next::Clamp(now.saturating_add(most));
        }
        Next::Refuse(ahead - self.tolerance)
    }

    /// The time of a key without its last request.
    pub(crate) fn before(&self, arrival: u64) -> u64 {
        arrival.saturating_sub(self.interval)
    }

    /// The longest that a key has to be remembered.
    #[cfg(test)]
    pub(crate) fn horizon(&self) -> Duration {
        Duration::from_nanos(self.tolerance + self.interval)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Passes a request at `now`, or says how long it would have to wait.
    fn ask(gcra: &Gcra, arrival: &mut u64, now: u64) -> Result<(), u64> {
        match gcra.next(*arrival, now) {
            Next::Pass(next) => {
                *arrival = next;
                Ok(())
            }
            Next::Refuse(wait) => Err(wait),
            Next::Clamp(to) => {
                *arrival = to;
                ask(gcra, arrival, now)
            }
        }
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let gcra = Gcra::new(10, Duration::from_secs(60), 4);
        let (mut arrival, start) = (0, 1_000 * SECOND);
        assert!((0..5).all(|_| ask(&gcra, &mut arrival, start).is_ok()));
        assert_eq!(ask(&gcra, &mut arrival, start), Err(6 * SECOND));
        assert_eq!(ask(&gcra, &mut arrival, start + 5 * SECOND), Err(SECOND));
        assert_eq!(ask(&gcra, &mut arrival, start + 6 * SECOND), Ok(()));
        assert!(ask(&gcra, &mut arrival, start + 6 * SECOND).is_err());
        // After a pause the burst is there again, and no more than that.
        let later = start + 3600 * SECOND;
        assert_eq!((0..20).filter(|_| ask(&gcra, &mut arrival, later).is_ok()).count(), 5);
    }

    #[test]
    fn without_a_burst_they_come_evenly() {
        let gcra = Gcra::new(2, Duration::from_secs(1), 0);
        let mut arrival = 0;
        assert_eq!(ask(&gcra, &mut arrival, SECOND), Ok(()));
        assert_eq!(ask(&gcra, &mut arrival, SECOND + 1), Err(SECOND / 2 - 1));
        assert_eq!(ask(&gcra, &mut arrival, SECOND + SECOND / 2), Ok(()));
    }

    #[test]
    fn the_time_of_a_slower_rate_does_not_stay_for_long() {
        let slow = Gcra::new(1, Duration::from_secs(24 * 60 * 60), 20);
        let mut arrival = 0;
        assert!((0..21).all(|_| ask(&slow, &mut arrival, SECOND).is_ok()));
        let fast = Gcra::new(10, Duration::from_secs(1), 0);
        assert_eq!(ask(&fast, &mut arrival, SECOND), Err(SECOND / 10));
        assert_eq!(ask(&fast, &mut arrival, SECOND + SECOND / 10), Ok(()));
    }

    #[test]
    fn no_parameter_overflows() {
        let gcra = Gcra::new(1, Duration::MAX, u32::MAX);
        for (arrival, now) in [(0, 0), (u64::MAX, 0), (u64::MAX, u64::MAX), (0, u64::MAX)] {
            let _ = gcra.next(arrival, now);
        }
        assert_eq!(Gcra::new(0, Duration::ZERO, 0).next(0, 0), Next::Pass(1));
        assert!(Gcra::new(1, Duration::MAX, u32::MAX).horizon() <= 2 * Gcra::TOLERANCE_MAX);
    }

    proptest! {
        #[test]
        fn never_more_than_the_burst_and_the_rate(
            count in 1_u32..200,
            burst in 0_u32..50,
            steps in prop::collection::vec(0_u64..SECOND / 20, 1..300),
        ) {
            let gcra = Gcra::new(count, Duration::from_secs(1), burst);
            let interval = SECOND / u64::from(count);
            let (mut arrival, mut now, mut passed) = (0, SECOND, Vec::new());
            for step in steps {
                now += step;
                match ask(&gcra, &mut arrival, now) {
                    Ok(()) => passed.push(now),
                    Err(wait) => {
                        // What it says is exact.
                        let mut copy = arrival;
                        prop_assert!(ask(&gcra, &mut copy, now + wait - 1).is_err());
                        prop_assert!(ask(&gcra, &mut copy, now + wait).is_ok());
                    }
                }
            }
            for (at, first) in passed.iter().enumerate() {
                for (further, last) in passed[at..].iter().enumerate() {
                    let most = u64::from(burst) + 1 + (last - first) / interval;
                    prop_assert!((further as u64) < most, "{} in {} ns", further + 1, last - first);
                }
            }
        }
    }
}
