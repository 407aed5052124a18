//! How long requests take, where the time goes, and how many of them fail: by route and by pool, over the last minutes, and for
//! pools over the hour before.
//!
//! Each thread counts in rows of its own ([`Timing`]). Once a second, the control thread adds what has come since to the
//! [`history`](super::history), which all worker processes share. A window is what is known there, and what is not there yet.

use std::time::Duration;

use serde_json::{Value, json};

use super::histogram::{BOUNDS_US, Histogram, HistogramFacts};
use super::scoreboard::Cell;

/// How long a window is.
pub(crate) const WINDOW: Duration = Duration::from_secs(300);
/// Numbers of [`TimingFacts`].
pub(crate) const TIMING_NUMBERS: usize = BOUNDS_US.len() + 1 + 4;

/// Where the time of one request went, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Took {
    /// From its first byte to the end of its response.
    pub whole_us: u64,
    /// While it waited for a process or a server.
    pub queue_us: u64,
    /// At the process or the server.
    pub answer_us: u64,
    /// Whether the request was answered with a status of 500 or more.
    pub failed: bool,
}

/// What one thread has counted of a route or a pool.
#[derive(Debug, Default)]
pub struct Timing {
    took: Histogram,
    queue_us: Cell,
    answer_us: Cell,
    failed: Cell,
}

impl Timing {
    /// One request more. Only its one writer may call this.
    #[inline]
    pub fn add(&self, took: &Took) {
        self.took.add(took.whole_us);
        if took.queue_us | took.answer_us > 0 {
            self.queue_us.add(took.queue_us);
            self.answer_us.add(took.answer_us);
        }
        if took.failed {
            self.failed.add(1);
        }
    }

    /// Adds what is counted here to the sum over all threads.
    pub fn add_to(&self, facts: &mut TimingFacts) {
        self.took.add_to(&mut facts.took);
        facts.queue_us = facts.queue_us.wrapping_add(self.queue_us.get());
        facts.answer_us = facts.answer_us.wrapping_add(self.answer_us.get());
        facts.failed = facts.failed.wrapping_add(self.failed.get());
    }
}

/// What all threads have counted of a route or a pool, or the part of it that came within a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimingFacts {
    /// How long requests took.
    pub took: HistogramFacts,
    /// How long they waited together, in microseconds.
    pub queue_us: u64,
    /// How long processes and servers took for them together.
    pub answer_us: u64,
    /// How many were answered with a status of 500 or more.
    pub failed: u64,
}

impl TimingFacts {
    /// All of them, for the history.
    pub(crate) fn numbers(&self) -> [u64; TIMING_NUMBERS] {
        let rest = [self.took.sum_us, self.queue_us, self.answer_us, self.failed];
        let mut numbers = [0; TIMING_NUMBERS];
        let all = self.took.buckets.iter().chain(&rest);
        numbers.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        numbers
    }

    /// The reverse.
    pub(crate) fn from_numbers(numbers: [u64; TIMING_NUMBERS]) -> TimingFacts {
        let [buckets @ .., sum_us, queue_us, answer_us, failed] = numbers;
        TimingFacts { took: HistogramFacts { buckets, sum_us }, queue_us, answer_us, failed }
    }

    /// The same with what came at another time.
    pub(crate) fn with(&self, more: &TimingFacts) -> TimingFacts {
        let mut numbers = self.numbers();
        for (sum, more) in numbers.iter_mut().zip(more.numbers()) {
            *sum = sum.wrapping_add(more);
        }
        TimingFacts::from_numbers(numbers)
    }

    /// What came after `before`.
    pub(crate) fn since(&self, before: &TimingFacts) -> TimingFacts {
        TimingFacts {
            took: self.took.since(&before.took),
            queue_us: self.queue_us.wrapping_sub(before.queue_us),
            answer_us: self.answer_us.wrapping_sub(before.answer_us),
            failed: self.failed.wrapping_sub(before.failed),
        }
    }

    /// Share of requests that failed, in percent; `None` without requests.
    pub(crate) fn failed_percent(&self) -> Option<f64> {
        let count = self.took.count();
        (count > 0).then(|| self.failed as f64 * 100.0 / count as f64)
    }

    /// The part in which requests spend most of their time.
    pub(crate) fn mostly(&self) -> &'static str {
        let sending = self.took.sum_us.saturating_sub(self.queue_us.saturating_add(self.answer_us));
        if self.answer_us >= self.queue_us && self.answer_us >= sending {
            "in the application"
        } else if self.queue_us >= sending {
            "waiting for a process"
        } else {
            "receiving requests and sending responses"
        }
    }

    /// As in JSON; `null` where there were no requests.
    pub(crate) fn json(&self) -> Value {
        let count = self.took.count();
        let mean = |sum: u64| sum.checked_div(count);
        json!({
            "requests": count,
            "failed": self.failed,
            "failed_percent": self.failed_percent().map(|share| (share * 10.0).round() / 10.0),
            "p50_us": self.took.percentile(50),
            "p90_us": self.took.percentile(90),
            "p99_us": self.took.percentile(99),
            "mean_us": mean(self.took.sum_us),
            "mean_queue_us": mean(self.queue_us),
            "mean_answer_us": mean(self.answer_us),
        })
    }
}

/// A pool now, and in the hour before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PoolWindow {
    /// The last minutes.
    pub recent: TimingFacts,
    /// The hour before these; empty where the server has not been there for so long.
    pub before: TimingFacts,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(requests: &[(u64, bool)]) -> TimingFacts {
        let timing = Timing::default();
        for (whole_us, failed) in requests {
            let (queue_us, answer_us) = (whole_us / 10, whole_us / 2);
            timing.add(&Took { whole_us: *whole_us, queue_us, answer_us, failed: *failed });
        }
        let mut facts = TimingFacts::default();
        timing.add_to(&mut facts);
        facts
    }

    #[test]
    fn numbers_are_the_facts() {
        let facts = counted(&[(2_000, false), (70_000, true), (20_000_000, false)]);
        assert_eq!(TimingFacts::from_numbers(facts.numbers()), facts);
        let twice = facts.with(&facts);
        assert_eq!((twice.took.count(), twice.failed, twice.queue_us), (6, 2, 2 * facts.queue_us));
        assert_eq!(twice.since(&facts), facts);
    }

    #[test]
    fn the_part_that_takes_most_is_named() {
        let facts = |queue_us, answer_us, sum_us| TimingFacts {
            queue_us,
            answer_us,
            took: HistogramFacts { sum_us, ..HistogramFacts::default() },
            failed: 0,
        };
        assert_eq!(facts(1, 5, 8).mostly(), "in the application");
        assert_eq!(facts(5, 1, 8).mostly(), "waiting for a process");
        assert_eq!(facts(1, 1, 8).mostly(), "receiving requests and sending responses");
    }
}
