//! The longest idle connections, which are closed for new ones.

use crate::keys::ConnId;
use std::time::{Duration, Instant};

/// Connections that one scan finds.
const CANDIDATES: usize = 64;

/// Time between two scans of which the first has found nothing: scans take time that busy connections need.
pub(crate) const SCAN_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Time between two messages about it.
const TELL_AFTER: Duration = Duration::from_secs(10);

/// A connection that was idle at the last scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) id: ConnId,
    /// Since when, in milliseconds on the wheel's clock, which counts in ticks.
    pub(crate) since: i64,
    /// When its last request began: decides within a tick.
    pub(crate) began: Instant,
    /// How many requests it has had: one more, and it has not been idle. Decides where the clock does not.
    pub(crate) requests: u32,
}

impl Candidate {
    fn order(&self) -> (i64, Instant, u32) {
        (self.since, self.began, self.requests)
    }
}

/// Which connections may be closed for a new one.
#[derive(Debug, Default)]
pub(crate) struct Reclaim {
    /// The longest idle one is the last.
    pub(crate) candidates: Vec<Candidate>,
    /// When to scan next, if the last scan has found nothing.
    pub(crate) scan_at: Option<Instant>,
    /// A scan was wanted before that time.
    wanted: bool,
    /// When it was last logged.
    told_at: Option<Instant>,
}

impl Reclaim {
    /// When to look again, if that was wanted earlier.
    pub(crate) fn next_scan(&self) -> Option<Instant> {
        self.scan_at.filter(|_| self.wanted)
    }

    /// The longest idle of `found` become the candidates.
    pub(crate) fn fill(&mut self, mut found: Vec<Candidate>, now: Instant) {
        if found.len() > CANDIDATES {
            found.select_nth_unstable_by_key(CANDIDATES, Candidate::order);
            found.truncate(CANDIDATES);
        }
        found.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.order()));
        self.scan_at = found.is_empty().then(|| now + SCAN_AGAIN_AFTER);
        self.candidates = found;
    }

    /// Whether a scan is due; noted, if it is not.
    pub(crate) fn may_scan(&mut self, now: Instant) -> bool {
        let due = self.scan_at.is_none_or(|at| at <= now);
        self.wanted = !due;
        due
    }

    pub(crate) fn tells(&mut self, now: Instant) -> bool {
        let due = self.told_at.is_none_or(|at| now.saturating_duration_since(at) >= TELL_AFTER);
        if due {
            self.told_at = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(times: impl IntoIterator<Item = i64>) -> Vec<Candidate> {
        let began = Instant::now();
        let candidate =
            |(index, since)| Candidate { id: ConnId::of(index as u32, 0), since, began, requests: 1 };
        times.into_iter().enumerate().map(candidate).collect()
    }

    #[test]
    fn the_longest_idle_come_first_and_are_no_more_than_needed() {
        let mut reclaim = Reclaim::default();
        // 0, 7, 14 … in another order.
        reclaim.fill(idle((0..1000).map(|number| number * 7 % 1000)), Instant::now());
        let order: Vec<i64> =
            std::iter::from_fn(|| reclaim.candidates.pop()).map(|found| found.since).collect();
        assert_eq!(order, (0..CANDIDATES as i64).collect::<Vec<_>>());
        reclaim.fill(idle([5, 3, 9]), Instant::now());
        assert_eq!(reclaim.candidates.pop().map(|found| found.id), Some(ConnId::of(1, 0)));
    }

    #[test]
    fn a_scan_in_vain_is_not_repeated_at_once() {
        let (now, mut reclaim) = (Instant::now(), Reclaim::default());
        assert!(reclaim.may_scan(now));
        reclaim.fill(Vec::new(), now);
        assert_eq!(reclaim.next_scan(), None, "nothing wakes a thread that nobody wants something of");
        assert!(!reclaim.may_scan(now));
        assert_eq!(reclaim.next_scan(), Some(now + SCAN_AGAIN_AFTER));
        assert!(reclaim.may_scan(now + SCAN_AGAIN_AFTER));
        assert_eq!(reclaim.next_scan(), None);
        reclaim.fill(idle([1]), now);
        assert!(reclaim.may_scan(now));
    }

    #[test]
    fn the_log_is_told_now_and_then() {
        let (now, mut reclaim) = (Instant::now(), Reclaim::default());
        assert!(reclaim.tells(now) && !reclaim.tells(now + Duration::from_secs(1)));
        assert!(reclaim.tells(now + TELL_AFTER));
    }
}
