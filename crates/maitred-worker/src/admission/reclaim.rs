//! At the limit of connections: the longest idle one is closed for a new one. Otherwise one client that keeps as many connections
//! as there are places, and sends nothing, would keep all others waiting for `keep_alive_timeout`, and for good if it sends a
//! request now and then.
//!
//! Since when a connection is idle is known without a list of its own: it follows from its deadline in the wheel, which every
//! request has moved anyway. The longest idle ones are looked for only when all places are taken: one scan over all connections
//! finds as many candidates as the next `CANDIDATES` new connections need, in order. So a request pays nothing, and a new
//! connection at the limit its part of a scan (8192 connections: 2.5 KB of memory looked at for each).

use rustix::io::ioctl_fionread;

use super::Admission;
use crate::admission::candidates::{Candidate, SCAN_AGAIN_AFTER};
use crate::connection::wire::Wire;
use crate::connection::{Connection, State};
use crate::entry::Entry;
use crate::keys::{ConnId, ConnKey};

/// Which part of all places may be taken up by HTTP/2 connections to which GOAWAY was sent, while the client has time to receive
/// it.
const LEAVING_PART: usize = 16;

impl Admission {
    /// Whether a connection can be closed for a new one.
    pub(crate) fn can_reclaim(&mut self) -> bool {
        while let Some(candidate) = self.reclaim.candidates.last().copied() {
            if self.is_reclaimable(candidate) {
                return true;
            }
            self.reclaim.candidates.pop();
        }
        if self.row.idle.get() + self.row.multiplexed.get() == 0 || !self.reclaim.may_scan(self.clock.now) {
            return false;
        }
        let idle = |(index, connection): (ConnKey, &Entry)| {
            let Entry { serial, connection: Connection { began, requests, .. }, .. } = *connection;
            self.idle_since(index).map(|since| Candidate {
                id: ConnId { key: index, serial },
                since,
                began,
                requests,
            })
        };
        let found = self.connections.iter().filter_map(idle).collect();
        self.reclaim.fill(found, self.clock.now);
        // Only for candidates is the kernel asked whether bytes have come.
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
    pub(crate) fn reclaim(&mut self) {
        let over = self.clients().saturating_sub(self.admins + self.shared.connections_max);
        if over == 0 || !self.can_reclaim() {
            return;
        }
        let Some(Candidate { id: ConnId { key: index, .. }, .. }) = self.reclaim.candidates.pop() else {
            return;
        };
        self.row.reclaimed.add(1);
        if self.reclaim.tells(self.clock.now) {
            let (thread, connections) = (self.number, self.shared.connections_max);
            tracing::warn!(
                thread,
                connections,
                "connections_per_thread_max is reached; the longest idle connections are closed for new ones"
            );
        }
        match self.connections[index].state {
            State::Multiplexed { session } => {
                let leaving_max = (self.shared.connections_max / LEAVING_PART).max(1);
                self.dismiss_session(index, session, over <= leaving_max);
            }
            // Between two requests, so that there is nothing that the client could lose.
            _ => self.close_at_once(index),
        }
    }

    /// Whether a candidate is still there, has been idle ever since, and nothing of a request has come on it.
    fn is_reclaimable(&self, candidate: Candidate) -> bool {
        let Candidate { id: ConnId { key: index, serial }, since, requests, .. } = candidate;
        let current = self.connections.get(index);
        current.is_some_and(|found| (found.serial, found.requests) == (serial, requests))
            && self.idle_since(index) == Some(since)
            && self.has_received_nothing(index)
    }

    /// What has come of a QUIC connection was looked at in the turn in which it came.
    fn has_received_nothing(&self, index: ConnKey) -> bool {
        let quic = self.connections.get(index).is_some_and(|found| found.wire == Wire::Quic);
        let empty = |socket| ioctl_fionread(socket).is_ok_and(|bytes| bytes == 0);
        quic || self.socket(index).is_some_and(empty)
    }
}
