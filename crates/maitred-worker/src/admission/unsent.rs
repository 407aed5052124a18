//! What is done when much is unsent, or a thread has too much to do.
//!
//! A response beyond the budget is aborted at the end of the turn, never where it is being written: the caller there may have
//! more to do with its connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Admission;
use crate::connection::table::Phase;
use crate::keys::SessionKey;
use crate::upstream::Source;
use maitred_base::overload::{Level, Levels, Share};

/// How soon a thread with nothing to do looks whether a level has fallen.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Admission {
    /// Ends the responses that there is no memory for.
    pub(crate) fn abort_without_room(&mut self) {
        for connection in std::mem::take(&mut self.load.without_room) {
            if !self.is_current(connection) {
                continue;
            }
            let index = connection.key;
            self.row.unsent_aborted.add(1);
            self.log_limited(|| {
                tracing::warn!("a response was aborted: unsent_memory_bytes_max is reached");
            });
            match self.source_of(index) {
                Some(Source::Server(_) | Source::Thread(_)) if self.is_unanswered(index) => {
                    self.refuse_upstream(index, 503);
                }
                None if self.connections[index].is(Phase::HandedOff) => self.abort_any(index),
                _ => self.abort_stalled(index),
            }
        }
    }

    /// Once per turn: updates the levels of overload, and acts on those that have changed.
    pub(crate) fn manage_overload(&mut self) {
        let now = self.clock.now;
        let before = self.load.overload.levels();
        let share =
            |budget: &Arc<maitred_base::budget::Budget>| Share { used: budget.used(), max: budget.max() };
        let (memory, descriptors) = (share(&self.shared.unsent), share(&self.shared.descriptors));
        let took = self.load.turn_took;
        self.load.overload.update(now, took, memory, descriptors);
        let levels = self.load.overload.levels();
        self.row.loop_delay_us.set(self.load.overload.delay().as_micros() as u64);
        if levels != before {
            self.enter_levels(before, levels);
        }
        if !levels.accepts() {
            self.stop_accepting("the critical level of overload", None);
        }
    }

    /// When to look again though nothing happens.
    pub(crate) fn next_overload_look(&self, now: Instant) -> Option<Instant> {
        (self.load.overload.levels().highest() > Level::Normal).then(|| now + LOOK_EVERY)
    }

    fn enter_levels(&mut self, before: Levels, levels: Levels) {
        let Levels { memory, descriptors, delay } = levels;
        for (cell, level) in self.row.overload.iter().zip([memory, descriptors, delay]) {
            cell.set(level as u64);
        }
        let (used, thread) = (self.shared.unsent.used(), self.number);
        tracing::warn!(
            thread,
            unsent_bytes = used,
            "overload: memory {}, descriptors {}, event loop {}",
            memory.text(),
            descriptors.text(),
            delay.text()
        );
        let limits = &self.shared.start.config.limits;
        self.load.keep_alive_timeout = levels.idle_timeout(limits.keep_alive_timeout);
        self.load.write_timeout = levels.write_timeout(limits.write_timeout);
        let streams_max = levels.streams_max(limits.streams_per_connection_max);
        if streams_max != before.streams_max(limits.streams_per_connection_max) {
            let keys: Vec<SessionKey> = self.sessions.iter().map(|(key, _)| key).collect();
            for key in keys {
                self.sessions[key].session.limit_streams(streams_max);
                self.touch_session(key);
            }
        }
        if memory > before.memory || descriptors > before.descriptors {
            self.hurry_clients();
        }
        if descriptors > before.descriptors {
            self.give_back_idle();
        }
    }

    /// Descriptors have become short: those that no request needs at the moment are closed.
    fn give_back_idle(&mut self) {
        self.close_idle_upstreams();
        for (_, channel) in self.pools.channels.iter_mut() {
            channel.idle_relays.give_up();
        }
        if !self.pools.relays.is_empty() {
            self.relay_sweep = Some((self.clock.now, false));
        }
    }
}
