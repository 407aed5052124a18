//! The pools as one event-loop thread sees them: its home slots, and the requests that wait for one.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Instant;

use super::link::Link;
use super::{Channel, Choice, Relay};
use crate::keys::{ChannelKey, ConnKey, LinkKey, RelayKey, Table};

/// All pools on one thread.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    /// Channels of the home slots of all pools.
    pub channels: Table<ChannelKey, Channel>,
    /// Relays of all channels.
    pub relays: Table<RelayKey, Relay>,
    /// Links to worker processes that use these channels too.
    pub links: Table<LinkKey, Link>,
    /// Links of channels that are about to come, by the processes' epochs.
    pub coming: Vec<(u64, OwnedFd)>,
    /// The pools of the configuration, one for each.
    pub pools: Vec<LocalPool>,
}

/// One pool on one thread.
#[derive(Debug, Default)]
pub(crate) struct LocalPool {
    /// Keys of its channels.
    pub channels: Vec<ChannelKey>,
    /// Indices of the connections that wait, oldest first. A connection that goes away is taken out.
    pub queue: VecDeque<ConnKey>,
    /// How many of them wait for the process of one slot.
    pub pinned: usize,
    /// When the master was last told that requests wait.
    pub pressure_at: Option<Instant>,
    /// Bytes of content that its processes have answered with.
    pub answered_bytes: u64,
    /// Which way of answering costs less.
    pub choice: Choice,
}

impl Pools {
    /// Room for `count` pools.
    pub(crate) fn new(count: usize) -> Self {
        Pools {
            channels: Table::new(),
            relays: Table::new(),
            links: Table::new(),
            coming: Vec::new(),
            pools: std::iter::repeat_with(LocalPool::default).take(count).collect(),
        }
    }

    /// The channel that takes the next request of a pool: the one with most room; when all are busy, the one in which
    /// the request is expected to wait least, if that is short enough to be worth a batch.
    pub(crate) fn choose(&self, pool: usize, now: Instant) -> Option<ChannelKey> {
        let pool = self.pools.get(pool)?;
        let channels = || pool.channels.iter().filter_map(|key| Some((*key, self.channels.get(*key)?)));
        let roomy = channels().filter(|(_, channel)| channel.room() > 0);
        if let Some((key, _)) = roomy.max_by_key(|(_, channel)| channel.room()) {
            return Some(key);
        }
        let waits = channels().filter_map(|(key, channel)| Some((channel.prefetch_wait(now)?, key)));
        waits.min().map(|(_, key)| key)
    }

    /// The channel of a slot, if its process takes another request now.
    pub(crate) fn choose_slot(&self, pool: usize, slot: u16, now: Instant) -> Option<ChannelKey> {
        let keys = &self.pools.get(pool)?.channels;
        let mut found = keys.iter().filter_map(|key| Some((*key, self.channels.get(*key)?)));
        let (key, channel) = found.find(|(_, channel)| channel.id.slot == slot && channel.is_live())?;
        (channel.room() > 0 || channel.prefetch_wait(now).is_some()).then_some(key)
    }

    /// How many requests the pool's processes here can start on at once, and how many processes are live.
    pub(crate) fn room(&self, pool: usize) -> (u32, u32) {
        let Some(pool) = self.pools.get(pool) else { return (0, 0) };
        let channels = pool.channels.iter().filter_map(|key| self.channels.get(*key));
        channels.fold((0, 0), |(room, live), channel| {
            (room + channel.room(), live + u32::from(channel.is_live()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handoff::Phase;
    use crate::keys::conn;
    use maitred_base::passed::Helpers;
    use maitred_control::SlotId;

    fn pools(capacities: &[u32]) -> Pools {
        let mut pools = Pools::new(1);
        for (slot, capacity) in capacities.iter().enumerate() {
            let socket = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
            let id = SlotId { pool: 0, slot: slot as u16, epoch: 0 };
            let mut channel = Channel::new(id, 0, None, socket, Helpers::new(0).lane(0));
            channel.phase = if *capacity > 0 { Phase::Live } else { Phase::Starting };
            channel.capacity = *capacity;
            let key = pools.channels.insert(channel);
            pools.pools[0].channels.push(key);
        }
        pools
    }

    #[test]
    fn an_idle_process_comes_before_a_busy_one() {
        let now = Instant::now();
        let mut pools = pools(&[1, 1]);
        let first = pools.choose(0, now).unwrap();
        pools.channels[first].enter_direct(conn(0), now);
        pools.channels[first].learn(10, now);
        let second = pools.choose(0, now).unwrap();
        assert_ne!(first, second);
        pools.channels[second].enter_direct(conn(1), now);
        assert_eq!(pools.choose(0, now), Some(first), "both are busy, and the first is known to be quick");
    }

    #[test]
    fn a_process_that_has_not_said_hello_gets_nothing() {
        let now = Instant::now();
        assert_eq!(pools(&[0]).choose(0, now), None);
        assert_eq!(pools(&[0, 3]).room(0), (3, 1));
        assert_eq!(pools(&[]).choose(7, now), None);
    }
}
