//! What came of a simulated pool.

use crate::{Micros, SECOND, seconds};

/// The pool at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// When.
    pub at: Micros,
    /// Places with a request.
    pub busy: u32,
    /// Places that exist, and have none.
    pub idle: u32,
    /// Places of workers that are not ready yet.
    pub starting: u32,
    /// Requests that no worker has.
    pub queued: u32,
    /// Processes, whatever they do.
    pub processes: u32,
    /// Of these, the ones that drain.
    pub draining: u32,
}

/// Times, sorted into classes that are 5 % wide, so that an hour of them takes little room.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: f64,
}

/// The ratio of one class to the one before.
const CLASS: f64 = 1.05;

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; 600], total: 0, sum: 0.0 }
    }
}

impl Histogram {
    /// Adds one.
    pub fn add(&mut self, time: Micros) {
        let class = if time == 0 { 0 } else { 1 + (libm::log(time as f64) / libm::log(CLASS)) as usize };
        let last = self.counts.len() - 1;
        self.counts[class.min(last)] += 1;
        self.total += 1;
        self.sum += time as f64;
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The mean, in seconds.
    pub fn mean(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum / self.total as f64 / SECOND as f64 }
    }

    /// The time that this share of all did not exceed, in seconds, up to 5 % too high.
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.total as f64).ceil() as u64;
        let mut seen = 0;
        for (class, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return if class == 0 { 0.0 } else { libm::pow(CLASS, class as f64) / SECOND as f64 };
            }
        }
        0.0
    }
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The policy's name.
    pub policy: &'static str,
    /// How long it was simulated.
    pub length: Micros,
    /// Processes started.
    pub starts: u64,
    /// Processes told to end.
    pub kills: u64,
    /// Processes that died by themselves.
    pub deaths: u64,
    /// Requests answered.
    pub done: u64,
    /// Requests whose client did not wait any longer.
    pub refused: u64,
    /// Requests lost with their process.
    pub lost: u64,
    /// From the arrival of a request until a worker began with it.
    pub waits: Histogram,
    /// Place-seconds that existed, ready or not.
    pub held: f64,
    /// Place-seconds that were busy.
    pub used: f64,
    /// The most places at a time.
    pub peak: u32,
    /// Over time.
    pub samples: Vec<Sample>,
}

impl Outcome {
    /// Requests answered per second.
    pub fn rate(&self) -> f64 {
        self.done as f64 / seconds(self.length)
    }

    /// The last sample at or before a time.
    pub fn at(&self, time: Micros) -> Sample {
        self.samples.iter().take_while(|sample| sample.at <= time).last().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_within_a_class() {
        let mut times = Histogram::default();
        (1..=10_000).for_each(|ms| times.add(ms * 1_000));
        for share in [0.01, 0.5, 0.99, 1.0] {
            let found = times.quantile(share);
            assert!(
                found >= share * 10.0 - 1e-9 && found <= share * 10.0 * CLASS * 1.001,
                "{share}: {found}"
            );
        }
        assert!((times.mean() - 5.0005).abs() < 1e-6);
        assert_eq!(Histogram::default().quantile(0.99), 0.0);
    }
}
