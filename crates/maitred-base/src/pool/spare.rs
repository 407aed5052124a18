//! The least number of spare workers in a sliding window of time.

use std::time::{Duration, Instant};

/// Parts of the window. The window is longer than asked for by up to one part.
const PARTS: usize = 16;

/// The least spare workers of the last while. What has not been seen counts as none.
#[derive(Debug, Clone)]
pub(super) struct LeastSpare {
    /// The least of each part: whole ones, and the one that is under way.
    parts: [u32; PARTS + 1],
    current: usize,
    /// When the current part began.
    began: Instant,
    part: Duration,
    /// What was seen last, and so holds until something else is seen.
    last: u32,
}

impl LeastSpare {
    pub(super) fn new(now: Instant, window: Duration) -> LeastSpare {
        let part = window / u32::try_from(PARTS).unwrap_or(1);
        LeastSpare { parts: [0; PARTS + 1], current: 0, began: now, part, last: 0 }
    }

    /// How long a part is.
    pub(super) fn part(&self) -> Duration {
        self.part
    }

    /// So many are spare from `now` on.
    pub(super) fn see(&mut self, now: Instant, spare: u32) {
        self.pass(now);
        self.last = spare;
        if let Some(part) = self.parts.get_mut(self.current) {
            *part = (*part).min(spare);
        }
    }

    /// The least that were spare, at any time in the window.
    pub(super) fn least(&self) -> u32 {
        if self.part.is_zero() {
            return self.last;
        }
        self.parts.iter().copied().min().unwrap_or(0)
    }

    /// One worker fewer from now on: as if it had not been there before, either.
    pub(super) fn retired(&mut self) {
        for part in &mut self.parts {
            *part = part.saturating_sub(1);
        }
        self.last = self.last.saturating_sub(1);
    }

    /// Begins the parts that have begun since.
    fn pass(&mut self, now: Instant) {
        if self.part.is_zero() {
            return;
        }
        for _ in 0..=PARTS {
            if now.saturating_duration_since(self.began) < self.part {
                return;
            }
            self.began += self.part;
            self.current = (self.current + 1) % self.parts.len();
            if let Some(part) = self.parts.get_mut(self.current) {
                *part = self.last;
            }
        }
        // More than a window has passed since; every part is what was seen last, and the next one begins now.
        self.began = self.began.max(now);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WINDOW: Duration = Duration::from_secs(16);

    #[test]
    fn nothing_is_spare_until_it_has_been_so_for_the_whole_window() {
        let start = Instant::now();
        let mut spare = LeastSpare::new(start, WINDOW);
        spare.see(start, 5);
        spare.see(start + Duration::from_secs(15), 5);
        assert_eq!(spare.least(), 0);
        spare.see(start + Duration::from_secs(17), 7);
        assert_eq!(spare.least(), 5);
        spare.retired();
        assert_eq!(spare.least(), 4);
    }

    #[test]
    fn a_dip_is_remembered_for_the_window_and_then_forgotten() {
        let start = Instant::now();
        let mut spare = LeastSpare::new(start, WINDOW);
        spare.see(start, 9);
        spare.see(start + Duration::from_secs(40), 2);
        spare.see(start + Duration::from_secs(41), 9);
        assert_eq!(spare.least(), 2);
        spare.see(start + Duration::from_secs(56), 9);
        assert_eq!(spare.least(), 2);
        spare.see(start + Duration::from_secs(59), 9);
        assert_eq!(spare.least(), 9);
    }

    #[test]
    fn a_window_of_nothing_is_the_present() {
        let start = Instant::now();
        let mut spare = LeastSpare::new(start, Duration::ZERO);
        spare.see(start, 9);
        assert_eq!(spare.least(), 9);
        spare.see(start, 3);
        assert_eq!(spare.least(), 3);
    }

    proptest! {
        /// Never more than what was really the least; and not less than the least of a window that is one part longer.
        #[test]
        fn it_is_the_least_of_the_window(steps in proptest::collection::vec((0_u64..9_000, 0_u32..50), 1..60)) {
            let start = Instant::now();
            let mut spare = LeastSpare::new(start, WINDOW);
            let mut seen: Vec<(Duration, u32)> = vec![(Duration::ZERO, 0)];
            let mut now = Duration::ZERO;
            for (pass_ms, value) in steps {
                now += Duration::from_millis(pass_ms);
                spare.see(start + now, value);
                seen.push((now, value));
                let least_of = |window: Duration| {
                    let Some(from) = now.checked_sub(window) else { return 0 };
                    let until = seen.iter().skip(1).map(|(at, _)| *at).chain([now]);
                    seen.iter().zip(until).filter(|(_, until)| *until >= from).map(|((_, value), _)| *value).min().unwrap()
                };
                prop_assert!(spare.least() <= least_of(WINDOW));
                prop_assert!(spare.least() >= least_of(WINDOW + WINDOW / 16 * 2));
            }
        }
    }
}
