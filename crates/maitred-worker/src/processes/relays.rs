//! Relays on the side of the process: how they are left, lost, and closed.

use super::Processes;
use crate::agenda::Next;
use crate::handoff::Relay;
use crate::keys::{ChannelKey, ConnKey, RelayKey};
use crate::upstream::Attempt;
use crate::upstream::relay::unwatch;

impl Processes {
    /// The process keeps its end of a relay for good. The 101 may come before DETACH, or after it.
    pub(crate) fn detach_relay(&mut self, key: RelayKey) {
        let Some(relay) = self.pools.relays.get_mut(key) else { return };
        // The relay is not used again, and the process gets no FORGET for it.
        (relay.detached, relay.orphan, relay.spoilt) = (true, true, true);
        let Some(index) = relay.index else { return self.drop_relay(key) };
        self.row.detached.add(1);
        self.follow_up(index, Next::Detached);
    }

    /// Whether the process has kept its end of this relay.
    pub(crate) fn is_detached(&self, relay: RelayKey) -> bool {
        self.pools.relays.get(relay).is_some_and(|relay| relay.detached)
    }

    /// Closes a relay: the process gets the message to close its end, too.
    pub(crate) fn drop_relay(&mut self, key: RelayKey) {
        let Some(relay) = self.pools.relays.try_remove(key) else { return };
        let channel = relay.channel;
        unwatch(&self.epoll, &relay);
        if let Some(found) = self.pools.channels.get_mut(channel).filter(|_| !relay.orphan) {
            found.idle_relays.remove(key);
            found.forget_number(key.known_as());
            self.touch(channel);
        }
    }

    /// The connection goes on, or is closed, without what may still come through its relay.
    pub(crate) fn leave_relay(&mut self, relay: RelayKey, attempt: &Attempt) {
        let Some(handed) = attempt.handed() else { return };
        if let Some(found) = self.pools.relays.get_mut(relay) {
            found.index = None;
            found.spoilt = true;
        }
        if handed.done || self.is_detached(relay) {
            return self.drop_relay(relay);
        }
        if !attempt.is_fed() {
            self.end_feed(relay);
        }
        let (channel, request) = handed.request;
        self.orphan_request(channel, request);
    }

    /// DONE for a request that was answered through a relay.
    pub(crate) fn on_relay_done(&mut self, relay: RelayKey, broken: bool) {
        match self.pools.relays.get(relay).map(|relay| relay.index) {
            Some(Some(index)) => {
                if let Some(handed) = self.handed_mut(index) {
                    (handed.done, handed.broken) = (true, broken);
                }
                self.follow_up(index, Next::Pump);
            }
            Some(None) => self.drop_relay(relay),
            None => {}
        }
    }

    /// The process of this channel has exited: what it had written is sent on; a response that is not whole by then is aborted.
    pub(crate) fn lose_relays(&mut self, channel: ChannelKey) {
        let of = |relay: &Relay| relay.channel == channel && !relay.orphan;
        let keys: Vec<(RelayKey, Option<ConnKey>)> = self
            .pools
            .relays
            .iter()
            .filter(|(_, relay)| of(relay))
            .map(|(key, relay)| (key, relay.index))
            .collect();
        for (key, index) in keys {
            if let Some(relay) = self.pools.relays.get_mut(key) {
                relay.orphan = true;
            }
            if let Some(index) = index {
                let row = self.row;
                if let Some(attempt) = self.attempt_mut(index)
                    && let Some(handed) = attempt.handed_mut().filter(|handed| !handed.done)
                {
                    row.handoff_lost.add(1);
                    // Without DONE it is not known whether the response was meant to end here.
                    (handed.broken, handed.lost, handed.done) = (true, true, true);
                    attempt.keep = false;
                }
                if let Some(relay) = self.pools.relays.get_mut(key) {
                    relay.spoilt = true;
                }
                self.follow_up(index, Next::Pump);
            } else if let Some(relay) = self.pools.relays.try_remove(key) {
                unwatch(&self.epoll, &relay);
            }
        }
    }

    /// The rest of the body will not come: a process that reads it must not wait for it.
    pub(crate) fn end_feed(&self, relay: RelayKey) {
        if let Some(relay) = self.pools.relays.get(relay) {
            let _ = rustix::net::shutdown(relay.socket(), rustix::net::Shutdown::Write);
        }
    }
}
