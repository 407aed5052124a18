//! Counters → what happens in a second, over the last ten.

use std::collections::VecDeque;
use std::time::Instant;

use super::scoreboard::{Scoreboard, ThreadRow};

/// Samples that are kept; one a second makes ten intervals.
const SAMPLES_MAX: usize = 11;

/// What happens in a second, over all threads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PerSecond {
    /// Requests answered.
    pub requests: f64,
    /// Connections accepted.
    pub connections: f64,
    /// Bytes sent, those of application processes included.
    pub bytes: f64,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    requests: u64,
    connections: u64,
    bytes: u64,
}

/// Remembers the last samples. Belongs to the control thread.
#[derive(Debug, Default)]
pub struct Rates {
    samples: VecDeque<Sample>,
}

impl Rates {
    /// Nothing is known yet.
    pub fn new() -> Rates {
        Rates::default()
    }

    /// Takes a sample of the first `threads` rows; to be called once a second.
    pub fn tick(&mut self, now: Instant, board: &Scoreboard, threads: usize) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        let sum = |read: fn(&ThreadRow) -> u64| {
            board.threads.iter().take(threads).fold(0_u64, |sum, row| sum.wrapping_add(read(row)))
        };
        self.samples.push_back(Sample {
            at: now,
            requests: sum(|row| row.responses.iter().fold(0, |sum: u64, cell| sum.wrapping_add(cell.get()))),
            connections: sum(|row| row.accepted.get()),
            bytes: sum(|row| row.bytes_sent.get().wrapping_add(row.bytes_handed_off.get())),
        });
    }

    /// The rates between the oldest sample and the newest; zeros before there are two.
    pub fn per_second(&self) -> PerSecond {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return PerSecond::default();
        };
        let seconds = last.at.saturating_duration_since(first.at).as_secs_f64();
        if seconds <= 0.0 {
            return PerSecond::default();
        }
        let rate = |last: u64, first: u64| last.saturating_sub(first) as f64 / seconds;
        PerSecond {
            requests: rate(last.requests, first.requests),
            connections: rate(last.connections, first.connections),
            bytes: rate(last.bytes, first.bytes),
        }
    }
}
