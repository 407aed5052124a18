//! What answering costs by each transport: samples for `handoff::Choice`.

use std::time::Duration;

use maitred_sys::cpu_clock;
use rustix::time::{ClockId, clock_gettime};

use super::event_loop::Thread;
use crate::config::{Source, Transport};
use crate::handoff::{CHOICE_PERIOD, Sample};

impl Thread {
    /// Looks at all pools that may choose, ten times a second while something happens.
    pub(super) fn look_at_choices(&mut self) {
        if self.clock.now < self.next_choice {
            return;
        }
        self.next_choice = self.clock.now + CHOICE_PERIOD;
        for (pool, settings) in self.shared.start.config.pools.iter().enumerate() {
            let handed_off = matches!(settings.source, Source::Command(_) | Source::Channel(_));
            if settings.transport == Transport::Auto && handed_off && !settings.isolate {
                self.look_at_choice(pool);
            }
        }
    }

    fn look_at_choice(&mut self, pool: usize) {
        // Where the time of the processes is not known, nothing can be found out.
        let (Some(sample), now) = (self.sample(pool), self.clock.now) else { return };
        let Some(local) = self.pools.pools.get_mut(pool) else { return };
        if local.choice.is_due(now) && local.choice.look(sample) {
            let way = if local.choice.relays() { "a relay" } else { "the client's socket" };
            let pool = self.shared.start.config.pools[pool].name.as_str();
            tracing::info!(
                pool,
                thread = self.number,
                "responses go by {way} now: that was found to cost less"
            );
        }
    }

    fn sample(&self, pool: usize) -> Option<Sample> {
        let channels = &self.pools.pools.get(pool)?.channels;
        if channels.is_empty() {
            return None;
        }
        let mut cpu = Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).ok()?;
        for key in channels {
            let pid = self.pools.channels.get(*key)?.pid;
            cpu += cpu_clock::of_process(pid).ok().filter(|_| pid > 0)?;
        }
        let answered = self.shared.pools.get(pool)?.handed[self.number].requests.get();
        let all: u64 = self.row.responses.iter().map(|cell| cell.get()).sum();
        Some(Sample { at: self.clock.now, answered, others: all.saturating_sub(answered), cpu })
    }
}
