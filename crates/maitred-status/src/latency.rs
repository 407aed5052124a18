//! How long requests take, where the time goes, and how many of them fail: by route and by pool, over the last minutes, and for
//! pools over the hour before.
//!
//! Each thread counts in rows of its own ([`Timing`]). The control thread keeps what all of them have counted as of every
//! [`RECENT_EVERY`]; a window is the difference between now and the oldest of these. Together they take less than 2 MB with as
//! many routes as are counted.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::histogram::{Histogram, HistogramFacts};
use super::scoreboard::Cell;

/// How long a window is.
pub(crate) const WINDOW: Duration = Duration::from_secs(300);
/// How often it is moved on.
const RECENT_EVERY: Duration = Duration::from_secs(10);
/// How long the time before it is with which pools are compared, and how often that is moved on.
const BEFORE: Duration = Duration::from_secs(3600);
const BEFORE_EVERY: Duration = Duration::from_secs(60);

/// Where the time of one request went, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Took {
    /// From its first byte to the end of its response.
    pub whole_us: u64,
    /// While it waited for a process or a server.
    pub queue_us: u64,
    /// At the process or the server.
    pub answer_us: u64,
    /// It was answered with a status of 500 or more.
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
    /// The hour before these; empty where the worker process has not been there for so long.
    pub before: TimingFacts,
}

/// What was counted by a moment: of routes, and of pools.
type Counted = (Vec<TimingFacts>, Vec<TimingFacts>);

/// What was counted by several moments. Belongs to the control thread.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    recent: VecDeque<(Instant, Counted)>,
    before: VecDeque<(Instant, Vec<TimingFacts>)>,
}

impl Latencies {
    /// Keeps what was counted by now, if that is due.
    pub(crate) fn tick(&mut self, now: Instant, counted: impl FnOnce() -> Counted) {
        let is_due = |last: Option<Instant>, every: Duration| {
            last.is_none_or(|last| now.saturating_duration_since(last) >= every)
        };
        if !is_due(self.recent.back().map(|(at, _)| *at), RECENT_EVERY) {
            return;
        }
        let counted = counted();
        if is_due(self.before.back().map(|(at, _)| *at), BEFORE_EVERY) {
            self.before.push_back((now, counted.1.clone()));
        }
        self.recent.push_back((now, counted));
        forget(&mut self.recent, now, WINDOW);
        forget(&mut self.before, now, WINDOW + BEFORE);
    }

    /// The last minutes of each route, of which so much is counted now.
    pub(crate) fn routes<'a>(&self, counted: impl Iterator<Item = &'a TimingFacts>) -> Vec<TimingFacts> {
        let start = self.recent.front().map(|(_, (routes, _))| routes.as_slice()).unwrap_or_default();
        differences(counted, start)
    }

    /// The same of pools, with the hour before.
    pub(crate) fn pools(&self, counted: &[TimingFacts]) -> Vec<PoolWindow> {
        let start = self.recent.front().map(|(_, (_, pools))| pools.as_slice()).unwrap_or_default();
        let earliest = self.before.front().map(|(_, pools)| pools.as_slice()).unwrap_or_default();
        let recent = differences(counted.iter(), start);
        let before = differences(start.iter(), earliest).into_iter();
        let before = before.chain(std::iter::repeat_with(TimingFacts::default));
        recent.into_iter().zip(before).map(|(recent, before)| PoolWindow { recent, before }).collect()
    }
}

fn differences<'a>(
    counted: impl Iterator<Item = &'a TimingFacts>,
    before: &[TimingFacts],
) -> Vec<TimingFacts> {
    let nothing = TimingFacts::default();
    let before = before.iter().chain(std::iter::repeat(&nothing));
    counted.zip(before).map(|(now, before)| now.since(before)).collect()
}

/// Drops what is older than `time`, but for the one from which on that time counts.
fn forget<T>(kept: &mut VecDeque<(Instant, T)>, now: Instant, time: Duration) {
    let old = |at: Instant| now.saturating_duration_since(at) >= time;
    while kept.get(1).is_some_and(|(at, _)| old(*at)) {
        kept.pop_front();
    }
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
    fn a_window_has_what_came_within_it_and_the_hour_before_what_came_earlier() {
        let began = Instant::now();
        let mut latencies = Latencies::default();
        let mut requests = vec![(1_000_000, true); 10];
        let mut at = began;
        // An hour with one request each ten seconds; the last five minutes have others.
        while at < began + WINDOW + BEFORE {
            let late = at >= began + BEFORE;
            requests.push(if late { (5_000, false) } else { (50_000, true) });
            let facts = counted(&requests);
            latencies.tick(at, || (vec![facts.clone()], vec![facts.clone()]));
            at += RECENT_EVERY;
        }
        let now = counted(&requests);
        let [route] = &latencies.routes([&now].into_iter())[..] else { panic!("one route") };
        assert!((29..=31).contains(&route.took.count()), "{}", route.took.count());
        assert!(route.failed <= 1 && route.took.percentile(90) <= Some(5_000), "{route:?}");
        let [pool] = &latencies.pools(&[now])[..] else { panic!("one pool") };
        assert_eq!(&pool.recent, route);
        assert!(pool.before.failed_percent() > Some(99.0), "{:?}", pool.before.failed_percent());
        assert!((350..=370).contains(&pool.before.took.count()), "{}", pool.before.took.count());
        assert!(latencies.recent.len() <= 32 && latencies.before.len() <= 67);
    }

    #[test]
    fn without_a_past_everything_is_recent() {
        let now = counted(&[(2_000, false); 4]);
        let latencies = Latencies::default();
        let pools = latencies.pools(std::slice::from_ref(&now));
        assert_eq!(pools, [PoolWindow { recent: now.clone(), before: TimingFacts::default() }]);
        let json = now.json();
        assert_eq!((&json["requests"], &json["failed_percent"]), (&4.into(), &0.0.into()));
        assert_eq!((&json["mean_us"], &json["mean_queue_us"]), (&2_000.into(), &200.into()));
        assert!(TimingFacts::default().json()["p50_us"].is_null());
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
