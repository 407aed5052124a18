//! Lines in the order of their times. Servers write a line when a request ends, and some of them (httpd with `%t`) give it
//! the time at which the request began; several processes write as they please. So real logs are nearly sorted, and no more.

use std::collections::BinaryHeap;
use std::time::Duration;

/// How far out of order lines may be if nothing else is asked for: as long as the usual timeouts let a request take (60 s in
/// httpd's `Timeout` and nginx's `proxy_read_timeout`).
pub const REORDER_DEFAULT: Duration = Duration::from_secs(60);
/// The longest window: no server logs a request of more than an hour in the middle of others.
pub const REORDER_MAX: Duration = Duration::from_secs(3600);
/// Requests that wait for earlier ones, at most; in a busier log the window is shorter. Bounds memory to some 40 MB.
pub(super) const WAITING_MAX: usize = 100_000;
/// So many lines in a row that come too late are no stragglers: the log's clock was set back.
const STEP_LINES: u32 = 100;

/// What was found while sorting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Lines older than one before them that were put in their place.
    pub(super) reordered: u64,
    /// Lines so old that what followed them is under way already; they count as simultaneous with that.
    pub(super) late: u64,
    /// How often the log's clock was set back.
    pub(super) clock_steps: u64,
}

/// Holds lines back until no earlier one can come any more.
#[derive(Debug)]
pub(super) struct Reorder<T> {
    window_us: u64,
    waiting: BinaryHeap<Waiting<T>>,
    /// The latest time that has come.
    newest_us: u64,
    /// The latest time that was given out.
    given_us: u64,
    /// What to add to the log's times, after its clock was set back.
    shift_us: u64,
    late_in_a_row: u32,
    number: u64,
    counts: Counts,
}

#[derive(Debug)]
struct Waiting<T> {
    time_us: u64,
    /// Lines of the same time keep their order.
    number: u64,
    item: T,
}

impl<T> Waiting<T> {
    fn key(&self) -> (u64, u64) {
        (self.time_us, self.number)
    }
}

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Waiting<T> {}

impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Waiting<T> {
    /// The earliest is the greatest, since that is what a heap gives first.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.key().cmp(&self.key())
    }
}

impl<T> Reorder<T> {
    pub(super) fn new(window: Duration) -> Self {
        Reorder {
            window_us: u64::try_from(window.as_micros()).unwrap_or(u64::MAX),
            waiting: BinaryHeap::new(),
            newest_us: 0,
            given_us: 0,
            shift_us: 0,
            late_in_a_row: 0,
            number: 0,
            counts: Counts::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// A line of the log, with its time in microseconds.
    pub(super) fn push(&mut self, time_us: u64, item: T) {
        let mut time_us = time_us.saturating_add(self.shift_us);
        if time_us < self.given_us {
            self.counts.late += 1;
            self.late_in_a_row += 1;
            if self.late_in_a_row == STEP_LINES {
                // From here on the log goes on where it was, at its own pace.
                self.counts.clock_steps += 1;
                self.late_in_a_row = 0;
                self.shift_us = self.shift_us.saturating_add(self.newest_us - time_us);
            }
            time_us = self.given_us;
        } else {
            self.late_in_a_row = 0;
            self.counts.reordered += u64::from(time_us < self.newest_us);
        }
        self.newest_us = self.newest_us.max(time_us);
        self.number += 1;
        self.waiting.push(Waiting { time_us, number: self.number, item });
    }

    /// The earliest line, if it has waited long enough, or too many wait. Times never run backwards.
    pub(super) fn next(&mut self) -> Option<(u64, T)> {
        let first = self.waiting.peek()?;
        let is_settled = first.time_us <= self.newest_us.saturating_sub(self.window_us);
        if is_settled || self.waiting.len() > WAITING_MAX { self.rest() } else { None }
    }

    /// The earliest line, when no more are to come.
    pub(super) fn rest(&mut self) -> Option<(u64, T)> {
        let Waiting { time_us, item, .. } = self.waiting.pop()?;
        self.given_us = time_us;
        Some((time_us, item))
    }

    /// The log starts again: what comes next is older, and rightly so. Everything must have been taken out.
    pub(super) fn restart(&mut self) {
        (self.newest_us, self.given_us, self.shift_us, self.late_in_a_row) = (0, 0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000;

    fn sorted(window: u64, times: impl IntoIterator<Item = u64>) -> (Vec<(u64, usize)>, Counts) {
        let mut reorder = Reorder::new(Duration::from_secs(window));
        let mut out = Vec::new();
        for (number, time) in times.into_iter().enumerate() {
            reorder.push(time * SECOND, number);
            while let Some((time, number)) = reorder.next() {
                out.push((time / SECOND, number));
            }
        }
        while let Some((time, number)) = reorder.rest() {
            out.push((time / SECOND, number));
        }
        (out, reorder.counts())
    }

    #[test]
    fn lines_within_the_window_are_put_in_order() {
        let (order, counts) = sorted(60, [10, 12, 11, 12, 70, 11, 75, 10]);
        let numbers: Vec<usize> = order.iter().map(|(_, number)| *number).collect();
        // 75 gives 10 to 15 out; the last line is older than the latest of them.
        assert_eq!(numbers, [0, 2, 5, 1, 3, 7, 4, 6]);
        assert_eq!(counts, Counts { reordered: 2, late: 1, clock_steps: 0 });
        assert!(order.is_sorted_by_key(|(time, _)| *time));
    }

    #[test]
    fn without_a_window_lines_keep_their_order() {
        let (order, counts) = sorted(0, [10, 12, 11, 13]);
        assert_eq!(order, [(10, 0), (12, 1), (12, 2), (13, 3)]);
        assert_eq!((counts.reordered, counts.late), (0, 1));
    }

    #[test]
    fn a_clock_that_was_set_back_goes_on_at_its_pace() {
        // An hour's log at one line a second, set back by an hour in the middle.
        let times = (10_000..11_000).chain(7_400..8_400);
        let (order, counts) = sorted(60, times);
        assert_eq!((order.len(), counts.clock_steps), (2000, 1));
        assert_eq!(counts.late, u64::from(STEP_LINES));
        let last = order.last().map(|(time, _)| *time);
        // A hundred lines were late; the others took as long as they had taken.
        assert_eq!(last, Some(10_999 + 8_399 - 7_499));
    }

    #[test]
    fn a_straggler_is_no_clock_step() {
        let (order, counts) = sorted(1, [10, 20, 30, 5, 40, 50]);
        assert_eq!(order.iter().map(|(time, _)| *time).collect::<Vec<_>>(), [10, 20, 20, 30, 40, 50]);
        assert_eq!((counts.late, counts.clock_steps), (1, 0));
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut reorder = Reorder::new(REORDER_MAX);
        let mut given = 0;
        for number in 0..WAITING_MAX + 500 {
            reorder.push(SECOND, number);
            while reorder.next().is_some() {
                given += 1;
            }
            assert!(reorder.waiting.len() <= WAITING_MAX);
        }
        assert_eq!(given, 500);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_time_never_runs_backwards(
            window in 0_u64..100, times in prop::collection::vec(0_u64..1000, 0..300)
        ) {
            let count = times.len();
            let (order, counts) = sorted(window, times.clone());
            prop_assert!(order.is_sorted_by_key(|(time, _)| *time));
            let mut numbers: Vec<usize> = order.iter().map(|(_, number)| *number).collect();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..count).collect::<Vec<_>>());
            if counts.late == 0 {
                let mut wanted = times;
                wanted.sort_unstable();
                prop_assert_eq!(order.into_iter().map(|(time, _)| time).collect::<Vec<_>>(), wanted);
            }
        }

        /// Lines that are out of order by no more than the window come out sorted.
        #[test]
        fn a_log_that_is_nearly_sorted_is_sorted(jitter in prop::collection::vec(0_u64..60, 1..300)) {
            let times = jitter.iter().enumerate().map(|(at, jitter)| 1000 + at as u64 - jitter.min(&(at as u64)));
            let (_, counts) = sorted(60, times);
            prop_assert_eq!(counts.late, 0);
        }
    }
}
