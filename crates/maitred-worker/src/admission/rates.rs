//! Looks at the rates of clients, and ends those that take too little.

use std::time::{Duration, Instant};

use super::Admission;
use crate::connection::State;
use crate::connection::rates::look_every;
use crate::keys::{ConnId, ConnKey, Key};

/// Connections that are looked at in one turn: each may take a system call.
const LOOKS_PER_TURN: usize = 512;

impl Admission {
    /// When to look again.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        let row = self.row;
        let some =
            [&row.writing, &row.handed_off, &row.multiplexed, &row.lingering, &row.queued, &row.waiting];
        self.rates.next.filter(|_| some.iter().any(|gauge| gauge.get() > 0))
    }

    /// Once per turn: ends those that take too little, or whose response takes too long in total.
    pub(crate) fn look_at_rates(&mut self) {
        let now = self.clock.now;
        if self.rates.next.is_some_and(|at| now < at) {
            return;
        }
        let Some(every) = look_every(&self.shared.start.config.limits) else { return };
        let all = self.connections.places();
        let end = (self.rates.cursor + LOOKS_PER_TURN).min(all);
        for index in self.rates.cursor..end {
            self.look_at(ConnKey::of(index));
        }
        self.rates.cursor = end;
        // With more to look at, the next turn goes on.
        let done = end == all;
        self.rates.next = Some(if done { now + every } else { now });
        if done {
            self.rates.end_pass();
        }
    }

    fn look_at(&mut self, index: ConnKey) {
        let Some(connection) = self.connections.get(index) else { return };
        if connection.is_admin() || connection.internal {
            return;
        }
        let (now, limits) = (self.clock.now, &self.shared.start.config.limits);
        let (id, began) = (ConnId { key: index, serial: connection.serial }, connection.began);
        let answers = !matches!(
            connection.state,
            State::Idle
                | State::Head
                | State::Body
                | State::Spooling
                | State::Multiplexed { .. }
                | State::Linger
        );
        let over = |total: Duration| now.saturating_duration_since(began) >= total;
        if answers && limits.response_total_timeout.is_some_and(over) && !self.is_tunnel(index) {
            return self.end_slow(index, "its response is not out within response_total_timeout");
        }
        if limits.response_bytes_per_second_min > 0
            && let Some(seen) = self.seen(index)
            && self.rates.is_slow(id, seen, now, limits)
        {
            self.end_slow(index, "it takes less than response_bytes_per_second_min");
        }
    }

    fn end_slow(&mut self, index: ConnKey, why: &'static str) {
        self.row.timeouts.add(1);
        self.row.slow.add(1);
        let peer = self.connections[index].remote;
        self.log_limited(|| {
            tracing::info!(peer = peer.text(), "client connection aborted: {why}");
        });
        match self.connections[index].state {
            State::Linger => self.close(index),
            State::Writing | State::Upstream(_) => self.abort_stalled(index),
            _ => self.abort_any(index),
        }
    }
}
