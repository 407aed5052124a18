//! When a request at a process is due, and orphaned requests.

use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown};

use super::Processes;
use crate::handoff::RELAY_BIT;
use crate::keys::{ConnKey, RelayKey};

impl Processes {
    /// When `request_total_timeout` of a request passes, if its pool has one.
    pub(crate) fn total_due(&self, index: ConnKey) -> Option<Instant> {
        let exchange = self.connections.get(index)?.exchange.as_deref()?;
        let (pool, since) = (exchange.dispatch.pool?, exchange.dispatch.handed_off_at?);
        let settings = self.shared.start.config.pools.get(usize::from(pool))?;
        let own = self.overrides(index).and_then(|overrides| overrides.limits.request_total_timeout);
        Some(since + own.or(settings.request_total_timeout)?)
    }

    /// The first deadline of a request that a process, or a server, has got now.
    pub(crate) fn first_due(&self, index: ConnKey, pool: u16) -> Instant {
        let silent = self.clock.now + self.request_timeout(index, pool);
        self.total_due(index).map_or(silent, |total| total.min(silent))
    }

    /// Shuts down a relay that is not read any more, whose process may still write to it.
    pub(crate) fn shut_down_relay(&self, number: u32) {
        if let Some(relay) = RelayKey::of_known(number).and_then(|relay| self.pools.relays.get(relay)) {
            let _ = shutdown(relay.socket(), Shutdown::Both);
        }
    }

    /// Looks at the orphaned requests: relays are shut down, and processes that do not answer, or have no room left, are failed.
    pub(crate) fn check_orphans(&mut self) {
        let now = self.clock.now;
        let (mut cuts, mut ended) = (Vec::new(), Vec::new());
        for (key, channel) in self.pools.channels.iter_mut() {
            let has_relays = |number: &u32| number & RELAY_BIT != 0;
            cuts.extend(channel.take_cuts(now).into_iter().filter(has_relays));
            if channel.is_mute(now) {
                ended.push((key, "a request was silent, and it does not answer"));
            } else if channel.is_stuck(now) {
                ended.push((key, "it has no room for requests but cancelled ones, which do not end"));
            }
        }
        cuts.into_iter().for_each(|number| self.shut_down_relay(number));
        ended.into_iter().for_each(|(key, why)| self.fail_worker(key, why));
    }

    /// How long an upstream may be silent at the request of this connection.
    pub(crate) fn request_timeout(&self, index: ConnKey, pool: u16) -> Duration {
        let own = self.overrides(index).and_then(|overrides| overrides.limits.request_timeout);
        own.unwrap_or_else(|| self.silence_max(pool))
    }

    /// How long an upstream of this pool may be silent, unless a route says otherwise.
    pub(crate) fn silence_max(&self, pool: u16) -> Duration {
        self.shared.start.config.pools[usize::from(pool)].request_timeout
    }
}
