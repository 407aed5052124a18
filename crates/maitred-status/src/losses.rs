//! What was lost of late: spans that did not reach their collector, and request bodies for which there was no room. Counters say
//! how many there were since the start; an operator wants to know whether it goes on.

use std::time::{Duration, Instant};

/// For so long after the last one an operator is told.
const TOLD_FOR: Duration = Duration::from_secs(10 * 60);

/// A counter of what is lost, and when it grew.
#[derive(Debug, Clone, Copy, Default)]
struct Loss {
    count: u64,
    grew_at: Option<Instant>,
}

impl Loss {
    fn note(&mut self, now: Instant, count: u64) {
        if count > self.count {
            self.grew_at = Some(now);
        }
        self.count = count;
    }

    fn recent(&self, now: Instant) -> Option<Lost> {
        let ago = now.saturating_duration_since(self.grew_at?);
        (ago < TOLD_FOR).then_some(Lost { count: self.count, secs_ago: ago.as_secs() })
    }
}

/// How many were lost since the start, and how long ago the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Since the start.
    pub count: u64,
    /// The last one, in seconds.
    pub secs_ago: u64,
}

/// All of them. Belongs to the control thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Losses {
    spans: Loss,
    bodies: Loss,
}

impl Losses {
    /// So many were lost by now.
    pub(crate) fn note(&mut self, now: Instant, spans: u64, bodies: u64) {
        self.spans.note(now, spans);
        self.bodies.note(now, bodies);
    }

    /// Spans and bodies, where some were lost of late.
    pub(crate) fn recent(&self, now: Instant) -> (Option<Lost>, Option<Lost>) {
        (self.spans.recent(now), self.bodies.recent(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_told_for_a_while() {
        let now = Instant::now();
        let mut losses = Losses::default();
        losses.note(now, 0, 0);
        assert_eq!(losses.recent(now), (None, None));
        losses.note(now, 3, 0);
        let later = now + Duration::from_secs(5);
        losses.note(later, 3, 0);
        assert_eq!(losses.recent(later), (Some(Lost { count: 3, secs_ago: 5 }), None));
        losses.note(later, 3, 1);
        let much_later = later + TOLD_FOR - Duration::from_secs(1);
        assert_eq!(losses.recent(much_later), (None, Some(Lost { count: 1, secs_ago: 599 })));
        assert_eq!(losses.recent(later + TOLD_FOR), (None, None));
    }
}
