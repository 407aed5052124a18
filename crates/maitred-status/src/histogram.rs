//! How long answers take, as a histogram: each request counts in one bucket by its duration.

use super::scoreboard::Cell;

/// The upper bounds of the buckets, in microseconds, ascending; what is longer is in one more. 1, 2.5 and 5 of each power of
/// ten, from a millisecond, which few applications are below, to the ten seconds that few clients wait: those of Prometheus'
/// client libraries, and one more at the lower end.
pub(crate) const BOUNDS_US: [u64; 13] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000,
];

/// How many requests took how long, written by one thread.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Cell; BOUNDS_US.len() + 1],
    sum_us: Cell,
}

/// What several threads have counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistogramFacts {
    /// Requests of each bucket, and of the one above the last bound; not cumulated.
    pub buckets: [u64; BOUNDS_US.len() + 1],
    /// How long all of them took together, in microseconds.
    pub sum_us: u64,
}

impl Histogram {
    /// Counts a request that took so long. Only its one writer may call this.
    pub fn add(&self, took_us: u64) {
        let bucket = BOUNDS_US.partition_point(|bound| *bound < took_us);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.add(1);
        }
        self.sum_us.add(took_us);
    }

    /// Adds what is counted here to the sum over all threads.
    pub fn add_to(&self, facts: &mut HistogramFacts) {
        for (sum, bucket) in facts.buckets.iter_mut().zip(&self.buckets) {
            *sum = sum.wrapping_add(bucket.get());
        }
        facts.sum_us = facts.sum_us.wrapping_add(self.sum_us.get());
    }
}

impl HistogramFacts {
    /// Requests in all.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, bucket| sum.wrapping_add(*bucket))
    }

    /// What came after `before`.
    pub(crate) fn since(&self, before: &HistogramFacts) -> HistogramFacts {
        let mut buckets = self.buckets;
        for (bucket, before) in buckets.iter_mut().zip(before.buckets) {
            *bucket = bucket.wrapping_sub(before);
        }
        HistogramFacts { buckets, sum_us: self.sum_us.wrapping_sub(before.sum_us) }
    }

    /// The time in microseconds within which so many of a hundred requests were answered: as if they were spread evenly over
    /// their bucket. What is beyond the last bound counts as that. `None` without requests.
    pub(crate) fn percentile(&self, percent: u64) -> Option<u64> {
        let wanted = (self.count() as f64) * percent as f64 / 100.0;
        let (mut below, mut lower) = (0.0, 0);
        for (bound, bucket) in BOUNDS_US.iter().zip(&self.buckets) {
            let count = *bucket as f64;
            if count > 0.0 && below + count >= wanted {
                let part = ((wanted - below) / count).clamp(0.0, 1.0);
                return Some(lower + ((bound - lower) as f64 * part).round() as u64);
            }
            below += count;
            lower = *bound;
        }
        (self.count() > 0).then_some(lower)
    }

    /// For each bound, requests that took no longer.
    pub(crate) fn cumulated(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut below = 0_u64;
        BOUNDS_US.iter().zip(&self.buckets).map(move |(bound, bucket)| {
            below = below.wrapping_add(*bucket);
            (*bound, below)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_their_bucket() {
        let facts = |requests: &[u64]| {
            let (histogram, mut facts) = (Histogram::default(), HistogramFacts::default());
            requests.iter().for_each(|took| histogram.add(*took));
            histogram.add_to(&mut facts);
            facts
        };
        let of = |requests: &[u64]| [50, 90, 99].map(|percent| facts(requests).percentile(percent));
        assert_eq!(of(&[]), [None; 3]);
        assert_eq!(of(&[700; 10]), [Some(500), Some(900), Some(990)]);
        let mixed = [[2_000; 90].as_slice(), &[900_000; 10]].concat();
        assert_eq!(of(&mixed), [Some(1_833), Some(2_500), Some(950_000)]);
        assert_eq!(of(&[60_000_000]), [Some(10_000_000); 3]);
        let (before, now) = (facts(&[700; 10]), facts(&[[700; 10].as_slice(), &[20_000; 2]].concat()));
        assert_eq!((now.since(&before).count(), now.since(&before).sum_us), (2, 40_000));
    }

    #[test]
    fn a_request_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let histogram = Histogram::default();
        let took = [0, 1_000, 1_001, 9_999_999, 10_000_000, 10_000_001, u64::from(u32::MAX)];
        took.iter().for_each(|took| histogram.add(*took));
        let mut facts = HistogramFacts::default();
        histogram.add_to(&mut facts);
        histogram.add_to(&mut facts);
        assert_eq!(facts.buckets, [4, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4]);
        assert_eq!(facts.count(), 14);
        assert_eq!(facts.sum_us, 2 * took.iter().sum::<u64>());
        let below: Vec<_> = facts.cumulated().collect();
        assert_eq!((below[0], below[11], below[12]), ((1_000, 4), (5_000_000, 6), (10_000_000, 10)));
    }
}
