//! At the limit of connections: the longest idle one makes room for a new one. Otherwise one client that keeps as many
//! connections as there are places, and says nothing, would keep all others waiting for `keep_alive_timeout`, and for good
//! if it asks for something now and then.
//!
//! Since when a connection is idle is known without a list of its own: its deadline in the wheel says so, which every request
//! has moved anyway. Who has been idle longest is looked for only when all places are taken: one scan over all connections
//! finds as many candidates as the next [`CANDIDATES`] new connections need, in order. So a request pays nothing, and a new
//! connection at the limit its part of a scan (8192 connections: 2.5 KB of memory looked at for each).

use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;

use super::connection::{Connection, State};
use super::layers::{Admission, Clients};

/// Connections that one scan finds.
const CANDIDATES: usize = 64;
/// Time between two scans of which the first has found nothing: a thread that is full of busy connections has other things to do.
const SCAN_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Time between two messages about it.
const TELL_AFTER: Duration = Duration::from_secs(10);
/// Which part of all places may be taken up by HTTP/2 connections that were told to go, and still have the time to hear of it.
const LEAVING_PART: usize = 16;

/// A connection that was idle at the last scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    index: u32,
    serial: u32,
    /// Since when, in milliseconds on the wheel's clock, which counts in ticks.
    since: i64,
    /// When its last request began: decides within a tick.
    began: Instant,
    /// How many requests it has had: one more, and it has not been idle. Decides where the clock does not.
    requests: u32,
}

impl Candidate {
    fn order(&self) -> (i64, Instant, u32) {
        (self.since, self.began, self.requests)
    }
}

/// Who may be closed for a new connection.
#[derive(Debug, Default)]
pub(super) struct Reclaim {
    /// The longest idle one is the last.
    candidates: Vec<Candidate>,
    /// When to scan next, if the last scan has found nothing.
    scan_at: Option<Instant>,
    /// A scan was wanted before that time.
    wanted: bool,
    /// When the log was last told.
    told_at: Option<Instant>,
}

impl Reclaim {
    /// When to look again, if that was wanted earlier.
    pub(super) fn next_scan(&self) -> Option<Instant> {
        self.scan_at.filter(|_| self.wanted)
    }

    /// The longest idle of `found` become the candidates.
    fn fill(&mut self, mut found: Vec<Candidate>, now: Instant) {
        if found.len() > CANDIDATES {
            found.select_nth_unstable_by_key(CANDIDATES, Candidate::order);
            found.truncate(CANDIDATES);
        }
        found.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.order()));
        self.scan_at = found.is_empty().then(|| now + SCAN_AGAIN_AFTER);
        self.candidates = found;
    }

    /// Whether a scan is due; noted, if it is not.
    fn may_scan(&mut self, now: Instant) -> bool {
        let due = self.scan_at.is_none_or(|at| at <= now);
        self.wanted = !due;
        due
    }

    fn tells(&mut self, now: Instant) -> bool {
        let due = self.told_at.is_none_or(|at| now.saturating_duration_since(at) >= TELL_AFTER);
        if due {
            self.told_at = Some(now);
        }
        due
    }
}

impl Admission {
    /// Whether a connection can be closed for a new one.
    pub(super) fn can_reclaim(&mut self) -> bool {
        while let Some(candidate) = self.reclaim.candidates.last().copied() {
            if self.is_reclaimable(candidate) {
                return true;
            }
            self.reclaim.candidates.pop();
        }
        if self.row.idle.get() + self.row.multiplexed.get() == 0 || !self.reclaim.may_scan(self.clock.now) {
            return false;
        }
        let idle = |(index, connection): (usize, &Connection)| {
            let (index, &Connection { serial, began, requests, .. }) = (index as u32, connection);
            self.idle_since(index).map(|since| Candidate { index, serial, since, began, requests })
        };
        let found = self.connections.iter().filter_map(idle).collect();
        self.reclaim.fill(found, self.clock.now);
        // What the kernel has is asked of the candidates alone.
        while let Some(candidate) = self.reclaim.candidates.last().copied() {
            if self.is_reclaimable(candidate) {
                return true;
            }
            self.reclaim.candidates.pop();
        }
        self.reclaim.scan_at = Some(self.clock.now + SCAN_AGAIN_AFTER);
        false
    }

    /// Closes the longest idle connection, if there are more than there are places.
    pub(super) fn reclaim(&mut self) {
        let over = self.clients().saturating_sub(self.admins + self.shared.connections_max);
        if over == 0 || !self.can_reclaim() {
            return;
        }
        let Some(Candidate { index, .. }) = self.reclaim.candidates.pop() else { return };
        self.row.reclaimed.add(1);
        if self.reclaim.tells(self.clock.now) {
            let (thread, connections) = (self.number, self.shared.connections_max);
            tracing::warn!(
                thread,
                connections,
                "connections_per_thread_max is reached; the longest idle connections are closed for new ones"
            );
        }
        match self.connections[index as usize].state {
            State::Http2 { session } => {
                let leaving_max = (self.shared.connections_max / LEAVING_PART).max(1);
                self.dismiss_session(index, session, over <= leaving_max);
            }
            // Between two requests, so that there is nothing that the client could lose.
            _ => self.close_at_once(index),
        }
    }
}

impl Clients {
    /// Since when a client's connection is idle; `None` if it is not.
    pub(super) fn idle_since(&self, index: u32) -> Option<i64> {
        let connection = self.connections.get(index as usize)?;
        if connection.admin || !connection.is_client() || connection.readable || connection.again {
            return None;
        }
        let limits = &self.shared.start.config.limits;
        let timeout = if connection.requests == 0 { limits.head_timeout } else { limits.keep_alive_timeout };
        let until = match connection.state {
            State::Idle if connection.is_idle() => self.wheel.deadline(index)?,
            State::Http2 { session } => self.wheel.millis(self.sessions.get(session as usize)?.idle_until()?),
            _ => return None,
        };
        Some(until - timeout.as_millis() as i64)
    }

    /// Whether a candidate is still there, has been idle ever since, and no request of it has come.
    fn is_reclaimable(&self, candidate: Candidate) -> bool {
        let Candidate { index, serial, since, requests, .. } = candidate;
        let current = self.connections.get(index as usize);
        current.is_some_and(|found| (found.serial, found.requests) == (serial, requests))
            && self.idle_since(index) == Some(since)
            && self.socket(index).is_some_and(|socket| ioctl_fionread(socket).is_ok_and(|bytes| bytes == 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(times: impl IntoIterator<Item = i64>) -> Vec<Candidate> {
        let began = Instant::now();
        let candidate =
            |(index, since)| Candidate { index: index as u32, serial: 0, since, began, requests: 1 };
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
        assert_eq!(reclaim.candidates.pop().map(|found| found.index), Some(1));
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
