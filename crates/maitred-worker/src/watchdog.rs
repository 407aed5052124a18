//! How long a turn of the event loop has taken, and which part of it took longest.

use std::ops::Range;
use std::time::{Duration, Instant};

/// A turn that takes longer is counted and logged. Clients notice a tenth of a second; a normal turn takes some milliseconds.
pub(super) const SLOW: Duration = Duration::from_millis(100);
/// Events between two looks at the clock. One look has about as many instructions as a hundredth of a request.
pub(super) const EVENTS_PER_MARK: usize = 16;

/// A turn while it lasts.
#[derive(Debug)]
pub(super) struct Turn {
    marked: Instant,
    /// Events before the last mark.
    pub(crate) done: usize,
    /// What took longest until then: for how long, and which events.
    pub(crate) slowest: (Duration, Range<usize>),
}

impl Turn {
    pub(super) fn begin(now: Instant) -> Turn {
        Turn { marked: now, done: 0, slowest: (Duration::ZERO, 0..0) }
    }

    /// Counts more events that were handled.
    pub(super) fn mark(&mut self, now: Instant, events: usize) {
        let took = now.saturating_duration_since(self.marked);
        let end = self.done + events;
        if took > self.slowest.0 {
            self.slowest = (took, self.done..end);
        }
        (self.marked, self.done) = (now, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_part_of_a_turn_is_known() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let mut turn = Turn::begin(began);
        turn.mark(at(1), 16);
        turn.mark(at(150), 16);
        turn.mark(at(160), 3);
        assert_eq!(turn.slowest, (Duration::from_millis(149), 16..32));
        assert_eq!((turn.done, turn.marked), (35, at(160)));
    }
}
