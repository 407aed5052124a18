//! Growing delays for processes that keep dying.

use std::time::Duration;

/// How delays grow.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Early deaths in a row that cost no delay.
    pub free: u32,
    /// The first delay; each further one doubles it.
    pub first: Duration,
    /// The longest.
    pub max: Duration,
    /// A process that lived this long did not die early: the count begins anew.
    pub long_life: Duration,
}

/// A worker process is replaced at once, unless the one before it died early too.
pub const WORKER: Rules = Rules {
    free: 1,
    first: Duration::from_millis(100),
    max: Duration::from_secs(5),
    long_life: Duration::from_secs(10),
};

/// An application process is replaced at once only if it lived.
pub const APP: Rules = Rules {
    free: 0,
    first: Duration::from_millis(100),
    max: Duration::from_secs(10),
    long_life: Duration::from_secs(30),
};

/// An external server is tried again and again: that costs little, and it may be back at any time.
pub const CONNECT: Rules = Rules { max: Duration::from_secs(1), ..APP };

/// Early deaths in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backoff {
    deaths: u32,
}

impl Backoff {
    /// Counts a death after a life of `lived`, and says how long to wait before the next start.
    pub fn died(&mut self, lived: Duration, rules: &Rules) -> Duration {
        self.deaths = if lived >= rules.long_life { 0 } else { self.deaths.saturating_add(1) };
        match self.deaths.checked_sub(rules.free) {
            None | Some(0) => Duration::ZERO,
            Some(counted) => {
                let factor = 1_u32.checked_shl(counted - 1).unwrap_or(u32::MAX);
                rules.first.saturating_mul(factor).min(rules.max)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn delays(rules: &Rules, lives_ms: &[u64]) -> Vec<u64> {
        let mut backoff = Backoff::default();
        let delay = |life: &u64| backoff.died(Duration::from_millis(*life), rules).as_millis() as u64;
        lives_ms.iter().map(delay).collect()
    }

    #[test]
    fn a_worker_is_replaced_at_once_then_later_and_later() {
        assert_eq!(delays(&WORKER, &[1; 9]), [0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(delays(&WORKER, &[1, 1, 10_000, 1, 1]), [0, 100, 0, 0, 100]);
    }

    #[test]
    fn an_app_is_replaced_at_once_only_if_it_lived() {
        assert_eq!(delays(&APP, &[1; 9]), [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(delays(&APP, &[1, 1, 30_000, 1]), [100, 200, 0, 100]);
    }

    proptest! {
        #[test]
        fn delays_grow_and_are_bounded(lives in proptest::collection::vec(0_u64..9_999, 0..100)) {
            for rules in [WORKER, APP] {
                let delays = delays(&rules, &lives);
                prop_assert!(delays.is_sorted());
                prop_assert!(delays.iter().all(|delay| u128::from(*delay) <= rules.max.as_millis()));
            }
        }
    }
}
