//! Clients of QUIC that have not proved their addresses, over all threads of the worker process. What such a client says of its
//! address may be false: it counts for no address, and for nothing but this one bound. At the bound, clients have to prove their
//! address before anything is done for them (Retry, RFC 9000 section 8.1.2), which costs no memory and no signature.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections that may be there without a proof: each has taken a signature, and holds some tens of kilobytes until
/// `head_timeout`.
const UNPROVED_MAX: usize = 256;

/// The part of a thread's places that they may take: the others are for clients whose address is known.
const PLACES_PART: usize = 4;

/// How long one counts that has ended without a proof. Otherwise a client that ends its connections at once could have as many
/// signatures as it likes.
const COUNTS_FOR: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Unproved {
    max: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    open: usize,
    /// When those go that have ended without a proof.
    ended: VecDeque<Instant>,
}

impl Unproved {
    /// No connection is unproved yet. Each thread may have so many connections.
    pub(crate) fn new(connections_max: usize) -> Unproved {
        Unproved { max: UNPROVED_MAX.min(connections_max / PLACES_PART), counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more. False, and nothing is counted, if there are as many as may be.
    pub(crate) fn enter(&self, now: Instant) -> bool {
        let mut counts = self.counts();
        while counts.ended.front().is_some_and(|until| *until <= now) {
            counts.ended.pop_front();
        }
        let fits = counts.open + counts.ended.len() < self.max;
        counts.open += usize::from(fits);
        fits
    }

    /// Takes out a connection that has proved its address, or has ended without a proof.
    pub(crate) fn leave(&self, proved: bool, now: Instant) {
        let mut counts = self.counts();
        counts.open = counts.open.saturating_sub(1);
        if !proved {
            counts.ended.push_back(now + COUNTS_FOR);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_than_may_be() {
        let now = Instant::now();
        let unproved = Unproved::new(100_000);
        assert_eq!((0..1000).filter(|_| unproved.enter(now)).count(), UNPROVED_MAX);
        (0..10).for_each(|_| unproved.leave(true, now));
        assert_eq!(
            (0..1000).filter(|_| unproved.enter(now)).count(),
            10,
            "those that have proved theirs are free"
        );
        (0..10).for_each(|_| unproved.leave(false, now));
        assert!(!unproved.enter(now) && !unproved.enter(now + COUNTS_FOR / 2), "the others for a while");
        assert_eq!((0..1000).filter(|_| unproved.enter(now + COUNTS_FOR)).count(), 10);
    }

    #[test]
    fn they_take_a_part_of_the_places() {
        let now = Instant::now();
        let entered = |places| {
            let unproved = Unproved::new(places);
            (0..1000).filter(|_| unproved.enter(now)).count()
        };
        assert_eq!([entered(0), entered(3), entered(40)], [0, 0, 10]);
    }
}
