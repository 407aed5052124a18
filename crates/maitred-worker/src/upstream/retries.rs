//! How many requests of a pool may be retried: a share of those of the last seconds, and some in any case.
//!
//! A pool whose servers fail gets more requests by retries than clients send, when it can answer least. So a thread retries no
//! more than `retry.budget_percent` of the requests that it has sent to the pool in about the last [`WINDOW`], and [`FREE`]
//! besides, for pools with few requests. What costs a server nothing is not counted: a connection that could not be made, or
//! that the server had closed while it was idle.
//!
//! Requests are counted anyway. What follows from their number is reckoned when one is to be retried, so that a request that is
//! not costs nothing. What was allowed before, and not used, fades over the window.

use std::time::{Duration, Instant};

/// How long what was allowed counts.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);
/// Retries in this time that need no other requests.
pub(crate) const FREE: u64 = 10;
/// What time does is reckoned in steps of this, in milliseconds.
const STEP_MS: u64 = 100;
/// The cost of one retry.
const ONE: u64 = 100;

/// What one thread may still retry at the servers of one pool.
#[derive(Debug, Clone)]
pub(crate) struct RetryBudget {
    /// When that was reckoned, and the number of requests then.
    at: Option<(Instant, u64)>,
    /// Hundredths of a retry.
    left: u64,
}

impl Default for RetryBudget {
    fn default() -> RetryBudget {
        RetryBudget { at: None, left: FREE * ONE }
    }
}

impl RetryBudget {
    /// Takes one, if one may be retried: so many `percent` of the requests may, of which there were `requests` since the start.
    pub(crate) fn take(&mut self, now: Instant, requests: u64, percent: u8) -> bool {
        let allowed = self.allows(now, requests, percent);
        if allowed {
            self.left -= ONE;
        }
        allowed
    }

    /// Whether one more may be retried.
    pub(crate) fn allows(&mut self, now: Instant, requests: u64, percent: u8) -> bool {
        let window = WINDOW.as_millis() as u64;
        let (at, before) = *self.at.get_or_insert((now, requests));
        let gone = now.saturating_duration_since(at).as_millis().try_into().unwrap_or(u64::MAX);
        let new = requests.saturating_sub(before);
        // Of more than a window, as many count as it has had on the average.
        let counted = u128::from(new) * u128::from(window) / u128::from(gone.max(window));
        // Less than that would be rounded away.
        let looked_at = if gone < STEP_MS { at } else { now };
        if gone >= STEP_MS {
            let within = gone.min(window);
            self.left -= self.left * within / window;
            self.left += FREE * ONE * within / window;
        }
        self.left += counted as u64 * u64::from(percent);
        self.at = Some((looked_at, requests));
        percent > 0 && self.left >= ONE
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn some_may_be_retried_in_any_case() {
        let now = Instant::now();
        let mut budget = RetryBudget::default();
        let taken =
            |budget: &mut RetryBudget, now| (0..100).filter(|_| budget.take(now, 0, 20)).count() as u64;
        assert_eq!(taken(&mut budget, now), FREE);
        assert_eq!(taken(&mut budget, now + Duration::from_secs(5)), FREE / 2);
        assert_eq!(taken(&mut budget, now + Duration::from_secs(60)), FREE, "unused ones do not add up");
        assert!(!RetryBudget::default().allows(now, 1000, 0), "0 is none");
    }

    #[test]
    fn a_share_of_the_requests_may_be_retried() {
        let now = Instant::now();
        let mut budget = RetryBudget::default();
        assert!(budget.allows(now, 0, 20));
        let taken = (1..=1000_u64).filter(|requests| budget.take(now, *requests, 20)).count() as u64;
        assert_eq!(taken, FREE + 200);
        // After a long time without failures, the requests of the last seconds count, and not those of the day.
        let mut budget = RetryBudget::default();
        assert!(budget.allows(now, 0, 20));
        let later = now + Duration::from_secs(10_000);
        assert_eq!((0..10_000).filter(|_| budget.take(later, 1_000_000, 20)).count() as u64, FREE + 200);
    }

    proptest! {
        /// In all: no more than the share of all requests, those of the beginning, and those that time brings.
        #[test]
        fn there_are_never_more(
            steps in prop::collection::vec((0..3000_u64, any::<bool>()), 1..300),
            percent in 0..=100_u8,
        ) {
            let start = Instant::now();
            let mut budget = RetryBudget::default();
            let (mut now, mut requests, mut retried) = (start, 0_u64, 0_u64);
            for (millis, asks) in steps {
                now += Duration::from_millis(millis);
                match asks {
                    true => requests += 1,
                    false => retried += u64::from(budget.take(now, requests, percent)),
                }
                let time = (now - start).as_millis() as u64 * FREE / WINDOW.as_millis() as u64;
                prop_assert!(retried <= FREE + time + requests * u64::from(percent) / 100);
                prop_assert!(percent > 0 || retried == 0);
            }
        }
    }
}
