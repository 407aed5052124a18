//! Counters → what happens in a second: over the last ten, and in the last one, of which charts are made.

use std::collections::VecDeque;
use std::time::Instant;

use super::scoreboard::{Scoreboard, ThreadRow};

/// Seconds that rates are the mean of.
const RATE_SECS: usize = 10;
/// Seconds of the charts, which [`history`](super::history) keeps.
pub(crate) const HISTORY_SECS_MAX: usize = 300;
/// Numbers of a [`Second`].
pub(crate) const SECOND_NUMBERS: usize = 5;

/// What happens in a second, over all threads.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PerSecond {
    /// Requests answered.
    pub requests: f64,
    /// Connections accepted.
    pub connections: f64,
    /// Bytes sent, those of application processes included.
    pub bytes: f64,
    /// Per thread.
    pub threads: Vec<ThreadRates>,
    /// Per pool.
    pub pools: Vec<PoolRates>,
}

/// What one thread does in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ThreadRates {
    /// Requests answered.
    pub requests: f64,
    /// Share of one CPU that it uses, from 0 to 1.
    pub cpu: f64,
    /// Share of the time that it was ready to run, but had no CPU.
    pub run_delay: f64,
}

/// What one pool gets in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct PoolRates {
    /// Requests handed to its processes.
    pub requests: f64,
    /// Microseconds that one of these waited, on average; `None` when there was none.
    pub wait_us: Option<f64>,
}

/// What is known of a pool at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolSample {
    /// Requests handed to its processes so far.
    pub requests: u64,
    /// Microseconds that these waited.
    pub wait_us: u64,
}

/// One second of the past.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Second {
    /// Requests answered.
    pub requests: f64,
    /// Bytes sent.
    pub bytes: f64,
    /// Open connections at its end.
    pub connections: u64,
    /// Requests that waited for an application process at its end.
    pub queued: u64,
    /// CPUs in use, of all threads together: 1 is one CPU.
    pub cpu: f64,
}

impl Second {
    /// As they are kept, so that those of several processes can be added up: requests in thousandths, CPUs in millionths.
    pub(crate) fn numbers(&self) -> [u64; SECOND_NUMBERS] {
        let scaled = |rate: f64, by: f64| (rate * by).round() as u64;
        [
            scaled(self.requests, 1e3),
            scaled(self.bytes, 1.0),
            self.connections,
            self.queued,
            scaled(self.cpu, 1e6),
        ]
    }

    /// The reverse.
    pub(crate) fn from_numbers(numbers: [u64; SECOND_NUMBERS]) -> Second {
        let [requests, bytes, connections, queued, cpu] = numbers;
        Second {
            requests: requests as f64 / 1e3,
            bytes: bytes as f64,
            connections,
            queued,
            cpu: cpu as f64 / 1e6,
        }
    }
}

#[derive(Debug, Clone)]
struct Sample {
    at: Instant,
    requests: u64,
    accepted: u64,
    bytes: u64,
    cpu_ns: u64,
    threads: Vec<ThreadSample>,
    pools: Vec<PoolSample>,
}

#[derive(Debug, Clone, Copy)]
struct ThreadSample {
    requests: u64,
    cpu_ns: u64,
    run_delay_ns: u64,
}

/// Keeps the last samples. Belongs to the control thread.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    samples: VecDeque<Sample>,
}

impl Rates {
    /// Nothing is known yet.
    pub(crate) fn new() -> Rates {
        Rates::default()
    }

    /// Takes a sample of the first `threads` rows and of the pools; to be called once a second. Gives back what came since the
    /// one before.
    pub(crate) fn tick(
        &mut self,
        now: Instant,
        board: &Scoreboard,
        threads: usize,
        pools: Vec<PoolSample>,
    ) -> Option<Second> {
        let rows = || board.threads.iter().take(threads);
        let sum = |read: fn(&ThreadRow) -> u64| rows().fold(0_u64, |sum, row| sum.wrapping_add(read(row)));
        let sample = Sample {
            at: now,
            requests: sum(requests),
            accepted: sum(|row| row.accepted.get()),
            bytes: sum(|row| row.bytes_sent.get().wrapping_add(row.bytes_handed_off.get())),
            cpu_ns: sum(|row| row.cpu_ns.get()),
            threads: rows().map(ThreadSample::of).collect(),
            pools,
        };
        let second = self.samples.back().map(|last| {
            let per = Per::between(last, &sample);
            Second {
                requests: per.second(last.requests, sample.requests),
                bytes: per.second(last.bytes, sample.bytes),
                connections: sum(|row| row.connections.get()),
                queued: sum(|row| row.queued.get()),
                cpu: per.second(last.cpu_ns, sample.cpu_ns) / 1e9,
            }
        });
        push(&mut self.samples, RATE_SECS + 1, sample);
        second
    }

    /// The rates between the oldest sample and the newest; zeros before there are two.
    pub(crate) fn per_second(&self) -> PerSecond {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return PerSecond::default();
        };
        let per = Per::between(first, last);
        let threads = first.threads.iter().zip(&last.threads).map(|(first, last)| ThreadRates {
            requests: per.second(first.requests, last.requests),
            cpu: per.second(first.cpu_ns, last.cpu_ns) / 1e9,
            run_delay: per.second(first.run_delay_ns, last.run_delay_ns) / 1e9,
        });
        let pools = first.pools.iter().zip(&last.pools).map(|(first, last)| {
            let requests = last.requests.saturating_sub(first.requests);
            let wait_us = last.wait_us.saturating_sub(first.wait_us);
            PoolRates {
                requests: per.second(first.requests, last.requests),
                wait_us: (requests > 0).then(|| wait_us as f64 / requests as f64),
            }
        });
        PerSecond {
            requests: per.second(first.requests, last.requests),
            connections: per.second(first.accepted, last.accepted),
            bytes: per.second(first.bytes, last.bytes),
            threads: threads.collect(),
            pools: pools.collect(),
        }
    }
}

impl ThreadSample {
    fn of(row: &ThreadRow) -> ThreadSample {
        ThreadSample {
            requests: requests(row),
            cpu_ns: row.cpu_ns.get(),
            run_delay_ns: row.run_delay_ns.get(),
        }
    }
}

/// Differences → rates.
struct Per {
    seconds: f64,
}

impl Per {
    fn between(first: &Sample, last: &Sample) -> Per {
        Per { seconds: last.at.saturating_duration_since(first.at).as_secs_f64() }
    }

    fn second(&self, first: u64, last: u64) -> f64 {
        if self.seconds > 0.0 { last.saturating_sub(first) as f64 / self.seconds } else { 0.0 }
    }
}

fn requests(row: &ThreadRow) -> u64 {
    row.responses.iter().fold(0, |sum: u64, cell| sum.wrapping_add(cell.get()))
}

/// Adds the newest, and drops the oldest once there are `max`.
fn push<T>(queue: &mut VecDeque<T>, max: usize, value: T) {
    if queue.len() == max {
        queue.pop_front();
    }
    queue.push_back(value);
}
