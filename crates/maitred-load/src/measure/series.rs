//! What happened when, in a bounded number of points.

use super::Nanos;

/// Points that are kept; a run with more seconds gets wider points. A point takes 48 bytes, and no plot shows more.
pub const SERIES_POINTS_MAX: usize = 1200;
/// Width of a point at first.
const WIDTH_FIRST: Nanos = 250_000_000;

/// A stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Point {
    /// Complete responses.
    pub responses: u64,
    /// Requests without a complete response.
    pub failures: u64,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Sum of the latencies, in nanoseconds.
    pub latency_sum: u64,
    /// The longest latency, in nanoseconds.
    pub latency_max: Nanos,
}

impl Point {
    fn add(&mut self, other: &Point) {
        self.responses += other.responses;
        self.failures += other.failures;
        self.body_bytes += other.body_bytes;
        self.latency_sum = self.latency_sum.saturating_add(other.latency_sum);
        self.latency_max = self.latency_max.max(other.latency_max);
    }
}

/// Points of equal width from the start on.
#[derive(Debug, Clone)]
pub struct Series {
    width: Nanos,
    points: Vec<Point>,
}

impl Default for Series {
    fn default() -> Self {
        Series { width: WIDTH_FIRST, points: Vec::new() }
    }
}

impl Series {
    /// Width of a point, in nanoseconds.
    pub fn width(&self) -> Nanos {
        self.width
    }

    /// The points, from the start of the run.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    #[inline]
    pub(super) fn response(&mut self, now: Nanos, body_bytes: u64, latency: Nanos) {
        let point = self.at(now);
        point.responses += 1;
        point.body_bytes += body_bytes;
        point.latency_sum = point.latency_sum.saturating_add(latency);
        point.latency_max = point.latency_max.max(latency);
    }

    pub(super) fn failure(&mut self, now: Nanos) {
        self.at(now).failures += 1;
    }

    #[inline]
    fn at(&mut self, now: Nanos) -> &mut Point {
        while now / self.width >= SERIES_POINTS_MAX as u64 {
            self.widen();
        }
        let index = (now / self.width) as usize;
        if self.points.len() <= index {
            self.points.resize(index + 1, Point::default());
        }
        &mut self.points[index]
    }

    fn widen(&mut self) {
        self.width = self.width.saturating_mul(2);
        self.points = self
            .points
            .chunks(2)
            .map(|pair| {
                let mut sum = Point::default();
                pair.iter().for_each(|point| sum.add(point));
                sum
            })
            .collect();
    }

    pub(super) fn add(&mut self, other: &Series) {
        let mut other = other.clone();
        while other.width < self.width {
            other.widen();
        }
        while self.width < other.width {
            self.widen();
        }
        if self.points.len() < other.points.len() {
            self.points.resize(other.points.len(), Point::default());
        }
        for (sum, point) in self.points.iter_mut().zip(&other.points) {
            sum.add(point);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_is_lost_and_the_number_of_points_is_bounded(
            times in prop::collection::vec(0_u64..=u64::MAX / 2, 0..60), split in 0_usize..60
        ) {
            let (mut one, mut two) = (Series::default(), Series::default());
            for (at, now) in times.iter().enumerate() {
                let series = if at < split { &mut one } else { &mut two };
                series.response(*now, 3, 5);
                series.failure(*now);
            }
            one.add(&two);
            prop_assert!(one.points().len() <= SERIES_POINTS_MAX);
            let count = times.len() as u64;
            prop_assert_eq!(one.points().iter().map(|point| point.responses).sum::<u64>(), count);
            prop_assert_eq!(one.points().iter().map(|point| point.failures).sum::<u64>(), count);
            prop_assert_eq!(one.points().iter().map(|point| point.body_bytes).sum::<u64>(), 3 * count);
        }
    }
}
