//! What answering costs by each transport: samples for `handoff::Choice`.

use std::time::Duration;

use maitred_sys::cpu_clock;
use rustix::time::{ClockId, clock_gettime};

use super::Processes;
use super::courtesy::Seen;
use crate::handoff::{CHOICE_PERIOD, Costs, Sample};
use crate::keys::{ChannelKey, ConnKey};
use maitred_config::{Source, Transport};

impl Processes {
    /// Looks at all pools that may choose, ten times a second while something happens.
    pub(crate) fn tune_transports(&mut self) {
        if self.clock.now < self.next_tuning {
            return;
        }
        self.next_tuning = self.clock.now + CHOICE_PERIOD;
        self.tune_courtesy();
        for (pool, settings) in self.shared.start.config.pools.iter().enumerate() {
            let handed_off = matches!(settings.source, Source::Command(_) | Source::Channel(_));
            if settings.transport == Transport::Auto && handed_off && !settings.isolate {
                self.look_at_choice(pool);
            }
        }
    }

    /// Counts what an application process, or a server, has answered a request with.
    pub(crate) fn count_handed_off(&mut self, index: ConnKey, body_bytes: u64) {
        self.row.bytes_handed_off.add(body_bytes);
        let now = self.clock.now;
        let exchange = self.exchange(index);
        let (pool, since) = (exchange.dispatch.pool, exchange.dispatch.handed_off_at);
        if let (Some(pool), Some(since)) = (pool, since)
            && let Some(shared) = self.shared.pools.get(usize::from(pool))
        {
            let took = now.saturating_duration_since(since).as_micros() as u64;
            shared.handed[self.number].took.add(took);
            self.exchange(index).dispatch.answer_us = u32::try_from(took).unwrap_or(u32::MAX);
        }
        if let Some(local) = pool.and_then(|pool| self.pools.pools.get_mut(usize::from(pool))) {
            local.answered_bytes += body_bytes;
        }
    }

    /// Whether this thread mostly hands requests off, so that it is better woken when their processes pause.
    fn tune_courtesy(&mut self) {
        let pools = &self.shared.pools;
        let handed_off =
            pools.iter().filter_map(|pool| pool.handed.get(self.number)).map(|one| one.requests.get());
        let answered = self.row.responses.iter().map(|cell| cell.get());
        let seen = Seen { at: self.clock.now, handed_off: handed_off.sum(), answered: answered.sum() };
        self.courtesy.look(seen, maitred_sys::scheduling::wake_politely);
    }

    fn look_at_choice(&mut self, pool: usize) {
        let shared = self.shared;
        let (Some(sample), now) = (self.sample(pool), self.clock.now) else { return };
        let Some(local) = self.pools.pools.get_mut(pool) else { return };
        if !local.choice.is_due(now) {
            return;
        }
        let changed = local.choice.look(sample);
        let way = if local.choice.relays() { "a relay" } else { "the client's socket" };
        let (pool, thread) = (shared.start.config.pools[pool].name.as_str(), self.clients.base.number);
        match local.choice.take_costs() {
            Some(Costs { direct, relay }) => {
                tracing::info!(
                    pool,
                    thread,
                    ?direct,
                    ?relay,
                    "responses go by {way}, by CPU time per request"
                );
            }
            None if changed => tracing::info!(pool, thread, "responses go by {way} now, by their size"),
            None => {}
        }
    }

    fn sample(&self, pool: usize) -> Option<Sample> {
        let local = self.pools.pools.get(pool).filter(|local| !local.channels.is_empty())?;
        let answered = self.shared.pools.get(pool)?.handed[self.number].requests.get();
        let all: u64 = self.row.responses.iter().map(|cell| cell.get()).sum();
        let (bytes, cpu) = (local.answered_bytes, self.cpu_time(&local.channels));
        Some(Sample { at: self.clock.now, answered, others: all.saturating_sub(answered), bytes, cpu })
    }

    /// CPU time of this thread, and of the processes of these channels.
    fn cpu_time(&self, channels: &[ChannelKey]) -> Option<Duration> {
        let thread = Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).ok()?;
        channels.iter().try_fold(thread, |sum, key| {
            let pid = self.pools.channels.get(*key)?.pid;
            Some(sum + cpu_clock::of_process(pid).ok().filter(|_| pid > 0)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::reactor::Reactor;
    use crate::testing::{reactor, shared};

    const POOL: &str = "[pool.p]\ncommand = [\"a\"]\nworkers = 1\n";

    /// By which policy the kernel gives this thread its CPU: field 41 of proc_pid_stat(5), behind the name.
    fn policy() -> String {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        fields.split(' ').nth(41 - 3).unwrap().to_owned()
    }

    fn hand_off(thread: &mut Reactor, requests: u64) {
        let handed = &thread.shared.pools[0].handed[0];
        handed.requests.add(requests);
        thread.clock.now += CHOICE_PERIOD;
        thread.tune_transports();
    }

    #[test]
    fn a_thread_that_hands_off_much_tells_the_kernel() {
        let mut thread = reactor(shared(POOL, 1), 0);
        let mut after = |requests| {
            hand_off(&mut thread, requests);
            policy()
        };
        let (usual, batch) = ("0", "3");
        assert_eq!([0, 5000, 5000, 0].map(&mut after), [usual, batch, batch, usual]);
    }
}
