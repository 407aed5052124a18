//! Judges processes with a new release, the canaries, by what they answer beside the processes with the release before.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When a canary is good enough: the keys of `canary` in `[pool.NAME]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// `time`: the least time to watch.
    pub time: Duration,
    /// `timeout`: the longest; then there were too few requests to tell.
    pub timeout: Duration,
    /// `requests`: the least number of requests of the canaries.
    pub requests: u64,
    /// `errors`: percentage points by which their share of responses with a status of 500 and more may exceed that of the others.
    pub errors: u8,
    /// `latency`: the mean time of their responses, in percent of that of the others, that is not exceeded.
    pub latency: u16,
}

/// What processes have answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Requests.
    pub requests: u64,
    /// Of these, responses with a status of 500 and more, and requests that were aborted.
    pub errors: u64,
    /// Microseconds that the application took for all of them.
    pub time_us: u64,
}

impl Work {
    /// What both have answered.
    #[must_use]
    pub fn plus(self, other: Work) -> Work {
        Work {
            requests: self.requests.saturating_add(other.requests),
            errors: self.errors.saturating_add(other.errors),
            time_us: self.time_us.saturating_add(other.time_us),
        }
    }

    /// What was answered after `before`.
    #[must_use]
    pub fn since(self, before: Work) -> Work {
        Work {
            requests: self.requests.saturating_sub(before.requests),
            errors: self.errors.saturating_sub(before.errors),
            time_us: self.time_us.saturating_sub(before.time_us),
        }
    }

    /// Share of errors, in percent; 0 without requests.
    pub fn error_percent(self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.errors as f64 * 100.0 / self.requests as f64 }
    }

    /// Mean time of a request, in microseconds; `None` without requests.
    pub fn mean_us(self) -> Option<u64> {
        self.time_us.checked_div(self.requests)
    }
}

impl std::fmt::Display for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mean = self.mean_us().unwrap_or_default() as f64 / 1000.0;
        write!(f, "{:.1} % errors and {mean:.1} ms on average", self.error_percent())
    }
}

/// What becomes of a canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Too little is known to judge by.
    Wait,
    /// The others get the new release as well.
    GoOn,
    /// The canaries go; this is worse than it may be.
    Back(Cause),
}

/// Why a canary goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The canary answers with errors.
    Errors,
    /// The canary is slow.
    Latency,
    /// The canary got too few requests within `timeout`.
    TooFew,
}

impl Cause {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Cause::Errors => "they answer with more errors than `errors` of `canary` allows",
            Cause::Latency => "they are slower than `latency` of `canary` allows",
            Cause::TooFew => "they got fewer requests than `requests` of `canary` within its `timeout`",
        }
    }
}

/// Judges canaries that were watched so long, by what they and the others have answered in that time.
///
/// Too many errors end it at once: as many as would be too many among `requests` requests. Everything else has its time.
pub fn judge(rules: &Rules, watched: Duration, canaries: Work, others: Work) -> Verdict {
    let allowed = others.error_percent() + f64::from(rules.errors);
    let requests = canaries.requests.max(rules.requests).max(1);
    if canaries.errors as f64 * 100.0 / requests as f64 > allowed {
        return Verdict::Back(Cause::Errors);
    }
    if canaries.requests < rules.requests {
        return if watched >= rules.timeout { Verdict::Back(Cause::TooFew) } else { Verdict::Wait };
    }
    if watched < rules.time {
        return Verdict::Wait;
    }
    match (canaries.mean_us(), others.mean_us()) {
        (Some(theirs), Some(usual))
            if u128::from(theirs) * 100 > u128::from(usual.max(1)) * u128::from(rules.latency) =>
        {
            Verdict::Back(Cause::Latency)
        }
        _ => Verdict::GoOn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        time: Duration::from_secs(60),
        timeout: Duration::from_secs(600),
        requests: 100,
        errors: 5,
        latency: 200,
    };

    fn work(requests: u64, errors: u64, mean_us: u64) -> Work {
        Work { requests, errors, time_us: mean_us.saturating_mul(requests) }
    }

    #[track_caller]
    fn judged(secs: u64, canaries: Work, others: Work, verdict: Verdict) {
        assert_eq!(judge(&RULES, Duration::from_secs(secs), canaries, others), verdict);
    }

    #[test]
    fn a_canary_is_judged_by_the_others_beside_it() {
        let usual = work(10_000, 100, 2_000);
        judged(60, work(100, 6, 4_000), usual, Verdict::GoOn);
        judged(59, work(100, 6, 4_000), usual, Verdict::Wait);
        judged(3_000, work(100, 7, 4_000), usual, Verdict::Back(Cause::Errors));
        judged(60, work(100, 0, 4_001), usual, Verdict::Back(Cause::Latency));
        judged(59, work(100, 0, 4_001), usual, Verdict::Wait);
        judged(60, work(100, 52, 2_000), work(100, 50, 2_000), Verdict::GoOn);
    }

    #[test]
    fn many_errors_end_it_early_and_too_few_requests_at_last() {
        judged(1, work(5, 5, 1_000), work(50, 0, 1_000), Verdict::Wait);
        judged(1, work(6, 6, 1_000), work(50, 0, 1_000), Verdict::Back(Cause::Errors));
        judged(599, work(99, 0, 1_000), work(50, 0, 1_000), Verdict::Wait);
        judged(600, work(99, 0, 1_000), work(50, 0, 1_000), Verdict::Back(Cause::TooFew));
        judged(600, Work::default(), Work::default(), Verdict::Back(Cause::TooFew));
    }

    #[test]
    fn without_others_there_is_no_latency_to_compare_with() {
        judged(60, work(100, 0, 9_000_000), Work::default(), Verdict::GoOn);
        judged(60, work(u64::MAX, u64::MAX, 1), work(1, 0, u64::MAX), Verdict::Back(Cause::Errors));
    }
}
