//! `Range` (9110-14.2), for the unit `bytes`.

use std::ops::Range;

/// What a `Range` field asks for, of a representation of a known size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// Another unit, malformed, or more ranges than are served: answer as if the field were not there
    /// (9110-14.2 allows it for all three).
    Ignore,
    /// No range overlaps the representation: answer 416.
    Unsatisfiable,
    /// At least one range; all are non-empty, within the size, and neither overlap nor touch. The order is that in which the
    /// ranges were asked for (9110-15.3.7.2); ranges that were merged stand where the first of them stood.
    Some(Vec<Range<u64>>),
}

/// Reads the value of a `Range` field for a representation of `size` bytes, and serves at most `ranges_max`
/// ranges, as counted before merging.
///
/// ```
/// use maitred_http::range::{Ranges, parse};
/// assert_eq!(parse(b"bytes=0-0,-1", 10, 4), Ranges::Some(vec![0..1, 9..10]));
/// assert_eq!(parse(b"bytes=10-", 10, 4), Ranges::Unsatisfiable);
/// ```
pub fn parse(value: &[u8], size: u64, ranges_max: usize) -> Ranges {
    let Some((unit, set)) = value.split_once_at(b'=') else { return Ranges::Ignore };
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return Ranges::Ignore;
    }
    let mut merged: Vec<Range<u64>> = Vec::new();
    let mut count = 0;
    for spec in set.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|spec| !spec.is_empty()) {
        count += 1;
        if count > ranges_max {
            return Ranges::Ignore;
        }
        match parse_one(spec, size) {
            One::Malformed => return Ranges::Ignore,
            One::Unsatisfiable => {}
            One::Range(range) => merge(&mut merged, range),
        }
    }
    match (count, merged.is_empty()) {
        (0, _) => Ranges::Ignore,
        (_, true) => Ranges::Unsatisfiable,
        _ => Ranges::Some(merged),
    }
}

enum One {
    Malformed,
    Unsatisfiable,
    Range(Range<u64>),
}

/// `first-[last]` or `-length`.
fn parse_one(spec: &[u8], size: u64) -> One {
    let Some((first, last)) = spec.split_once_at(b'-') else { return One::Malformed };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if last < first => One::Malformed,
        (Some(first), Some(last)) if first < size => One::Range(first..last.saturating_add(1).min(size)),
        (Some(first), None) if last.is_empty() && first < size => One::Range(first..size),
        (Some(_), Some(_)) => One::Unsatisfiable,
        (Some(_), None) if last.is_empty() => One::Unsatisfiable,
        // The last bytes of nothing are nothing, which is satisfiable (9110-14.1.2) but not by a 206, because
        // Content-Range cannot say it; a whole answer can.
        (None, Some(1..)) if first.is_empty() && size == 0 => One::Malformed,
        (None, Some(length @ 1..)) if first.is_empty() => One::Range(size.saturating_sub(length)..size),
        (None, Some(0)) if first.is_empty() => One::Unsatisfiable,
        _ => One::Malformed,
    }
}

/// Adds a range, as one with all that it overlaps or touches.
fn merge(merged: &mut Vec<Range<u64>>, mut range: Range<u64>) {
    let mut place = merged.len();
    // Only ranges that are already here can touch the new one, and they do not touch one another, so that one
    // pass finds all of them whatever the union grows to.
    let mut at = 0;
    while let Some(other) = merged.get(at) {
        if other.start <= range.end && range.start <= other.end {
            range = other.start.min(range.start)..other.end.max(range.end);
            merged.remove(at);
            place = place.min(at);
        } else {
            at += 1;
        }
    }
    merged.insert(place.min(merged.len()), range);
}

/// Digits, and at least one; numbers beyond 64 bits are as good as the largest.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(
        digits
            .iter()
            .fold(0, |value: u64, digit| value.saturating_mul(10).saturating_add(u64::from(digit - b'0'))),
    )
}

trait SplitOnceAt {
    fn split_once_at(&self, byte: u8) -> Option<(&[u8], &[u8])>;
}

impl SplitOnceAt for [u8] {
    fn split_once_at(&self, byte: u8) -> Option<(&[u8], &[u8])> {
        let at = memchr::memchr(byte, self)?;
        Some((self.get(..at)?, self.get(at + 1..)?))
    }
}

#[cfg(test)]
mod tests;
