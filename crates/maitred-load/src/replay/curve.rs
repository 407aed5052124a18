//! A rate curve: requests per second over time, in straight lines between points.

use crate::measure::Nanos;

/// Points of a curve; a day in steps of ten seconds has 8640.
const POINTS_MAX: usize = 100_000;

/// A curve; it ends with its last point.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Seconds, requests per second; at least two, times rise.
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// Reads lines of two numbers: seconds since the start, requests per second. `#` starts a comment.
    ///
    /// # Errors
    /// What is wrong, with the number of the line.
    pub fn parse(text: &str) -> Result<Curve, String> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let mut words = line.split_whitespace().map(str::parse::<f64>);
            let (Some(Ok(time)), Some(Ok(rate)), None) = (words.next(), words.next(), words.next()) else {
                return Err(format!("line {number}: wanted seconds and requests per second, found {line:?}"));
            };
            if !(0.0..=1e9).contains(&time) || !(0.0..=1e9).contains(&rate) {
                return Err(format!("line {number}: numbers go from 0 to 1000000000"));
            }
            if points.last().is_some_and(|(last, _)| *last >= time) {
                return Err(format!("line {number}: times must rise"));
            }
            if points.len() == POINTS_MAX {
                return Err(format!("line {number}: more than {POINTS_MAX} points"));
            }
            points.push((time, rate));
        }
        match points.first() {
            None => Err("no points".to_owned()),
            Some(_) if points.len() == 1 => Err("one point is no curve: its end is missing".to_owned()),
            Some((time, _)) if *time > 0.0 => Err("the first point must be at 0 seconds".to_owned()),
            Some(_) => Ok(Curve { points }),
        }
    }

    /// The intended times, in order.
    pub fn times(&self) -> Times {
        Times { points: self.points.clone(), at: 0, before: 0.0, next: 0 }
    }

    /// When it ends.
    pub fn end(&self) -> Nanos {
        self.points.last().map_or(0, |(time, _)| (time * 1e9) as Nanos)
    }
}

/// Intended times of a curve's requests: request *k* is sent when the area below the curve is *k* + ½.
#[derive(Debug, Clone)]
pub struct Times {
    points: Vec<(f64, f64)>,
    at: usize,
    /// Area before point `at`.
    before: f64,
    next: u64,
}

impl Iterator for Times {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        let wanted = self.next as f64 + 0.5;
        loop {
            let ((from, low), (to, high)) = (*self.points.get(self.at)?, *self.points.get(self.at + 1)?);
            let width = to - from;
            let area = (low + high) / 2.0 * width;
            if self.before + area < wanted {
                self.before += area;
                self.at += 1;
                continue;
            }
            self.next += 1;
            // low·x + slope·x²/2 = rest, in the form that also holds for a slope of 0.
            let (rest, slope) = (wanted - self.before, (high - low) / width);
            let root = (low * low + 2.0 * slope * rest).max(0.0).sqrt();
            let x = if low + root > 0.0 { 2.0 * rest / (low + root) } else { width };
            return Some(((from + x.min(width)) * 1e9) as Nanos);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_is_evenly_spaced() {
        let curve = Curve::parse("# warm\n0 10\n 2 10\n").unwrap();
        let times: Vec<_> = curve.times().collect();
        assert_eq!(times.len(), 20);
        assert!(
            times.windows(2).all(|pair| (99_999_000..100_001_000).contains(&(pair[1] - pair[0]))),
            "{times:?}"
        );
        assert_eq!(curve.end(), 2_000_000_000);
    }

    #[test]
    fn a_ramp_has_the_area_of_a_triangle() {
        let times: Vec<_> = Curve::parse("0 0\n10 100").unwrap().times().collect();
        assert_eq!(times.len(), 500);
        let by = |seconds: u64| times.iter().filter(|time| **time < seconds * 1_000_000_000).count();
        assert_eq!((by(1), by(5), by(10)), (5, 125, 500));
        assert!(times.is_sorted());
    }

    #[test]
    fn pauses_are_kept() {
        let times: Vec<_> =
            Curve::parse("0 10\n1 10\n1.000001 0\n5 0\n5.000001 10\n6 10").unwrap().times().collect();
        assert!(times.iter().all(|time| !(1_010_000_000..5_000_000_000).contains(time)), "{times:?}");
        assert!((19..=20).contains(&times.len()));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, wrong) in [
            ("", "no points"),
            ("0 5", "end is missing"),
            ("1 5\n2 5", "at 0 seconds"),
            ("0 5\n0 6", "line 2: times must rise"),
            ("0 five", "line 1: wanted"),
            ("0 5 6", "line 1: wanted"),
            ("0 -1\n1 1", "line 1: numbers"),
            ("0 NaN\n1 1", "line 1: numbers"),
        ] {
            let error = Curve::parse(text).unwrap_err();
            assert!(error.contains(wrong), "{text:?}: {error}");
        }
    }
}
