//! Who goes first where this thread and application processes share a CPU.
//!
//! A client's next request wakes this thread up, and by default the kernel takes the CPU away from the process that is answering
//! others then: each request is read, handed off and reported by itself, with two changes of context, and the process begins anew
//! with cold caches. In `SCHED_BATCH` the thread waits until the process pauses, finds all that has come, and hands it off at
//! once. It has as much of the CPU as before. Measured on one CPU with 32 connections, WSGI on the clients' own sockets: 20.2 µs
//! per request by default, 15.8 so; with 4 connections 31.5 and 26.3 (`bench/runs/2026-11-28-adapters`).
//!
//! Files and proxied requests gain nothing, and would wait behind others' work. So it is only for a thread that mostly hands
//! requests off, and under load.

use std::io;
use std::time::{Duration, Instant};

/// Requests per second that are handed off, at least: below, batches hold one request either way.
const PER_SECOND_MIN: u64 = 1000;
/// Of four requests that the thread answers, so many are handed off.
const QUARTERS_MIN: u64 = 3;

/// What a thread has done so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    /// Requests that were handed off, and responses of all kinds.
    pub(crate) handed_off: u64,
    pub(crate) answered: u64,
}

/// Whether the thread lets application processes go first.
#[derive(Debug, Default)]
pub(crate) struct Courtesy {
    last: Option<Seen>,
    is_polite: bool,
    /// Whether the kernel has refused: a sandbox around the server may.
    is_refused: bool,
}

impl Courtesy {
    /// Looks at what was done since the last time; `wake_politely` tells the kernel.
    pub(crate) fn look(&mut self, seen: Seen, wake_politely: impl FnOnce(bool) -> io::Result<()>) {
        let Some(last) = self.last.replace(seen) else { return };
        let wanted = is_busy(last, seen);
        if wanted != self.is_polite && !self.is_refused {
            self.is_refused = wake_politely(wanted).is_err();
            self.is_polite = wanted && !self.is_refused;
        }
    }
}

/// Whether most of what was done between the two was handing off, and much.
fn is_busy(last: Seen, seen: Seen) -> bool {
    let handed_off = seen.handed_off.saturating_sub(last.handed_off);
    let answered = seen.answered.saturating_sub(last.answered);
    let period = seen.at.saturating_duration_since(last.at).max(Duration::from_millis(1));
    let least = u128::from(PER_SECOND_MIN) * period.as_millis() / 1000;
    u128::from(handed_off) >= least.max(1) && handed_off * 4 >= answered * QUARTERS_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel was told, while a thread hands off and answers so many in each tenth of a second.
    fn told(periods: &[(u64, u64)], refuses: bool) -> Vec<bool> {
        let (mut courtesy, mut told) = (Courtesy::default(), Vec::new());
        let mut seen = Seen { at: Instant::now(), handed_off: 5, answered: 7 };
        courtesy.look(seen, |_| unreachable!("nothing is known yet"));
        for (handed_off, others) in periods {
            seen.at += Duration::from_millis(100);
            seen.handed_off += handed_off;
            seen.answered += handed_off + others;
            courtesy.look(seen, |polite| {
                told.push(polite);
                if refuses { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
            });
        }
        told
    }

    #[test]
    fn a_thread_that_hands_off_much_lets_processes_go_first() {
        assert_eq!(told(&[(99, 0), (100, 0), (5000, 0), (20, 0), (0, 0)], false), [true, false]);
    }

    #[test]
    fn other_work_is_not_delayed() {
        assert!(told(&[(1000, 400), (0, 9000)], false).is_empty());
        assert_eq!(told(&[(1000, 0), (1000, 9000)], false), [true, false]);
    }

    #[test]
    fn a_kernel_that_refuses_is_asked_once() {
        assert_eq!(told(&[(5000, 0), (5000, 0), (0, 0), (5000, 0)], true), [true]);
    }
}
