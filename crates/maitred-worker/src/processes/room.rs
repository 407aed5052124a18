//! Room: how many requests processes here can take, how many wait for them, what is published of both for other threads; and
//! frames that leave.
//!
//! A thread with room for more offers that to the thread where most requests wait.

use std::io;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::fence;

use super::Processes;
use super::crowded::Waiting;
use crate::connection::State;
use crate::handoff::Flushed;
use crate::inbox::Message;
use crate::keys::{ChannelKey, ConnKey};
use maitred_control::SlotId;

impl Processes {
    /// From here on a request waits, wherever that is.
    pub(crate) fn note_waiting(&mut self, index: ConnKey) {
        let now = self.clock.now;
        self.exchange(index).dispatch.waits_since.get_or_insert(now);
    }

    /// How long a request has waited, in microseconds.
    pub(crate) fn waited_us(&self, index: ConnKey) -> u64 {
        let since = self.exchange_of(index).and_then(|exchange| exchange.dispatch.waits_since);
        let waited = since.map(|since| self.clock.now.saturating_duration_since(since));
        waited.unwrap_or_default().as_micros() as u64
    }

    /// Another thread that can take a request of this pool now; or one that is the home of some of its processes, if this one is
    /// not.
    pub(crate) fn better_home(&self, pool: usize) -> Option<usize> {
        if let Some(thread) = self.roomy_thread(pool) {
            return Some(thread);
        }
        let others = || (0..self.shared.inboxes.len()).filter(|thread| *thread != self.number);
        let known = &self.shared.pools[pool];
        let here = known.live[self.number].load(Relaxed) > 0;
        if here {
            return None;
        }
        let live = others().find(|thread| known.live[*thread].load(Relaxed) > 0);
        live.or_else(|| {
            let slots = self.shared.start.config.pools[pool].workers.slots();
            let mut homes =
                (0..slots).map(|slot| self.shared.home_of(SlotId { pool: pool as u16, slot, epoch: 0 }));
            if homes.clone().any(|home| home == self.number) { None } else { homes.next() }
        })
    }

    /// Another thread with room for a request of this pool, as far as is known.
    pub(crate) fn roomy_thread(&self, pool: usize) -> Option<usize> {
        let room = &self.shared.pools[pool].room;
        let others = (0..room.len()).filter(|thread| *thread != self.number);
        let roomy = others.map(|thread| (room[thread].load(Relaxed), thread)).filter(|(room, _)| *room > 0);
        let (_, thread) = roomy.max()?;
        // A guess at what is left there, until that thread publishes its own count.
        let _ = room[thread].fetch_update(Relaxed, Relaxed, |room| room.checked_sub(1));
        Some(thread)
    }

    /// Whether a pool is unavailable: no process runs, and the last ones failed to start, so that waiting is of no use.
    pub(crate) fn is_unavailable(&self, pool: usize) -> bool {
        let lives = self.shared.pools[pool].live.iter().any(|live| live.load(Relaxed) > 0);
        !lives && self.shared.trouble(pool).is_some()
    }

    /// Takes a connection out of the queue that it waits in, if it does.
    pub(crate) fn leave_queue(&mut self, index: ConnKey) {
        if let State::Queued { pool, pin } = self.connections[index].state {
            self.shared.quit_queue(usize::from(pool));
            if let Some(table) = self.shared.servers(pool) {
                table.line.leave(self.number);
            }
            let local = &mut self.pools.pools[usize::from(pool)];
            if let Some(at) = local.queue.iter().position(|waiting| *waiting == index) {
                local.queue.remove(at);
                local.pinned -= usize::from(pin.is_some());
            }
            self.publish_waiting(usize::from(pool));
            self.enter(index, State::Head);
        }
    }

    /// A connection is closed: processes that keep its descriptor drop it, before its number is used again.
    pub(crate) fn forget(&mut self, index: ConnKey) {
        let (mut dirty, mut stuck) = (Vec::new(), Vec::new());
        for (key, channel) in self.pools.channels.iter_mut() {
            if channel.is_passing(index) {
                // The frame has not left yet, and needs the descriptor: it is sent now, before the descriptor is closed.
                let _ = channel.flush(&self.clients.connections, |_| ());
            }
            if channel.is_passing(index) {
                stuck.push(key);
            } else if channel.forget(index) {
                dirty.push(key);
            }
        }
        dirty.into_iter().for_each(|key| self.touch(key));
        stuck.into_iter().for_each(|key| self.fail_worker(key, "it does not read its channel"));
    }

    /// Notes that a channel has something to send at the end of the turn.
    pub(crate) fn touch(&mut self, key: ChannelKey) {
        if let Some(channel) = self.pools.channels.get_mut(key)
            && !channel.dirty
        {
            channel.dirty = true;
            self.dirty.push(key);
        }
    }

    /// Sends what the turn has written to the channels: one message for each.
    pub(crate) fn flush_channels(&mut self) {
        let shared = self.shared;
        while let Some(key) = self.dirty.pop() {
            let Some(channel) = self.pools.channels.get_mut(key) else { continue };
            channel.dirty = false;
            let row = self.clients.base.row;
            let result = channel.flush(&self.clients.connections, |descriptors| {
                row.handoff_batches.add(1);
                row.descriptors_passed.add(descriptors as u64);
            });
            let pool = usize::from(channel.id.pool);
            if channel.count_unsent(&shared.unsent) {
                self.agenda.room(pool as u16, key);
            }
            match result {
                // When the socket is full, epoll reports when it takes more.
                Ok(Flushed::All) => {
                    self.publish_room(pool);
                    self.settle_process(key);
                }
                Ok(Flushed::Blocked) => self.publish_room(pool),
                Ok(Flushed::Crowded) => {
                    let now = self.clock.now;
                    self.publish_room(pool);
                    self.crowded.add(Waiting::Channel(key), now);
                }
                // What is left in a link is read to its end, which comes when the process, or its owner, has exited.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe || self.is_linked(key) => {
                    self.let_leave(key);
                }
                Err(error) => self.fail_worker(key, &format!("its channel failed: {error}")),
            }
        }
    }

    /// Publishes how many more requests the processes here can take.
    pub(crate) fn publish_room(&self, pool: usize) {
        self.publish_slots(pool);
        let (room, live) = self.pools.room(pool);
        let waiting = self.publish_waiting(pool);
        if let Some(known) = self.shared.pools.get(pool) {
            known.room[self.number].store(room.saturating_sub(waiting), Relaxed);
            known.live[self.number].store(live, Relaxed);
            // One thread publishes its room, and then reads whether requests wait at another; the other publishes that requests
            // wait, and then reads whether there is room. With a fence between the two steps of each, at least one of them sees
            // the other.
            fence(SeqCst);
            if room > 0 && waiting == 0 && self.shared.queued(pool) > 0 {
                self.offer(pool, self.number);
            }
        }
    }

    /// Publishes how many requests wait here that another thread could take.
    fn publish_waiting(&self, pool: usize) -> u32 {
        let waiting = self.pools.pools.get(pool).map_or(0, |pool| pool.queue.len() - pool.pinned) as u32;
        if let Some(known) = self.shared.pools.get(pool) {
            known.waiting[self.number].store(waiting, Relaxed);
        }
        waiting
    }

    /// Sends a thread where requests wait the message that another one has room.
    pub(crate) fn offer(&self, pool: usize, room_at: usize) {
        let waiting = &self.shared.pools[pool].waiting;
        let longest = (0..waiting.len())
            .filter(|thread| *thread != self.number && *thread != room_at)
            .max_by_key(|thread| waiting[*thread].load(Relaxed));
        if let Some(thread) = longest.filter(|thread| waiting[*thread].load(Relaxed) > 0) {
            self.shared.inboxes[thread].send(Message::Offer { pool, thread: room_at });
        }
    }
}

#[cfg(test)]
mod tests;
