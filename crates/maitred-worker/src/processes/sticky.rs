//! Pools with `sticky`: requests that one process has to answer, and the cookie that names it.
//!
//! | the client comes with | goes to | the response |
//! |---|---|---|
//! | a cookie, whose slot has a process | that slot; waits if it is busy | as any other |
//! | a cookie, whose slot has no process | the first of its ranking that has one | by a relay, sets the cookie anew |
//! | none, `"cookie"` | any process that has room | by a relay, sets the cookie |
//! | `"address"` | the first of its ranking that has one | as any other |
//!
//! A slot has its home thread. A request for it goes there at once, and is looked at anew there, so that changes meanwhile are
//! seen.

use std::sync::atomic::Ordering::Relaxed;

use maitred_http::fields::FieldLines;
use maitred_http::request::Request;

use super::Processes;
use crate::connection::State;
use crate::handoff::{Ticket, client_of, rendezvous};
use crate::keys::{ChannelKey, ConnKey};
use crate::origin::Client;
use maitred_config::Sticky;
use maitred_control::SlotId;

impl Processes {
    /// The slot whose process has to answer a request, and the home thread of that process. `None` where any may.
    pub(crate) fn pinned(
        &self,
        index: ConnKey,
        pool: usize,
        request: &Request<'_, '_>,
    ) -> Option<(u16, usize)> {
        let config = &self.shared.start.config;
        let slot = match config.pools.get(pool)?.sticky.as_ref()? {
            Sticky::Cookie(name) => {
                let ticket = Ticket::of(request, name)?;
                match self.weight(pool, ticket.slot) {
                    0 => self.ranked(pool, ticket.client)?,
                    _ => ticket.slot,
                }
            }
            Sticky::Address => {
                let peer = self.connections[index].peer();
                let client = Client::of(request, &peer, &config.server.trusted_proxies);
                self.ranked(pool, client_of(client.remote.address?.ip()))?
            }
        };
        Some((slot, self.shared.home_of(SlotId { pool: pool as u16, slot, epoch: 0 })))
    }

    /// Requests that the process of a slot works on at a time; 0 if it takes none.
    fn weight(&self, pool: usize, slot: u16) -> u32 {
        let slots = self.shared.pools.get(pool).map(|pool| &pool.slots);
        slots.and_then(|slots| slots.get(usize::from(slot))).map_or(0, |weight| weight.load(Relaxed))
    }

    fn ranked(&self, pool: usize, client: u64) -> Option<u16> {
        let slots = &self.shared.pools.get(pool)?.slots;
        let weights = slots.iter().map(|weight| weight.load(Relaxed));
        rendezvous(client, (0..).zip(weights))
    }

    /// Publishes which processes of a pool with `sticky` take requests here. Each thread publishes its own slots.
    pub(crate) fn publish_slots(&self, pool: usize) {
        let Some(known) = self.shared.pools.get(pool).filter(|known| !known.slots.is_empty()) else { return };
        let here = self.pools.pools.get(pool).map_or(&[][..], |pool| &pool.channels);
        for (slot, weight) in (0..).zip(&known.slots) {
            if self.shared.home_of(SlotId { pool: pool as u16, slot, epoch: 0 }) != self.number {
                continue;
            }
            let channels = here.iter().filter_map(|key| self.pools.channels.get(*key));
            let mut live = channels.filter(|channel| channel.id.slot == slot && channel.is_live());
            weight.store(live.next().map_or(0, |channel| channel.capacity), Relaxed);
        }
    }

    /// The field that sets the cookie, if the client does not have it for this process.
    pub(crate) fn cookie_for(
        &mut self,
        index: ConnKey,
        key: ChannelKey,
        request: &Request<'_, '_>,
    ) -> Option<Box<FieldLines>> {
        let id = self.pools.channels.get(key)?.id;
        let config = &{ self.shared }.start.config;
        let settings = config.pools.get(usize::from(id.pool))?;
        let Some(Sticky::Cookie(name)) = &settings.sticky else { return None };
        let ticket = Ticket::of(request, name);
        if ticket.is_some_and(|ticket| ticket.slot == id.slot) {
            return None;
        }
        // Ids of requests are random enough to rank slots by.
        let client = ticket.map_or_else(|| self.forwarded.next_id() as u64, |ticket| ticket.client);
        let peer = self.connections[index].peer();
        let secure = Client::of(request, &peer, &config.server.trusted_proxies).https;
        let value = Ticket { slot: id.slot, client }.cookie(name, &settings.mount, secure);
        let mut field = FieldLines::default();
        field.push(b"Set-Cookie", value.as_bytes());
        Some(Box::new(field))
    }

    /// Of the requests that wait for a pool, the position of the first that a process here could take now.
    pub(crate) fn next_served(&self, pool: usize) -> Option<usize> {
        let waiting = &self.pools.pools.get(pool)?.queue;
        let sticky = self.shared.start.config.pools.get(pool)?.sticky.is_some();
        let any = !waiting.is_empty() && self.pools.choose(pool, self.clock.now).is_some();
        if !sticky {
            return any.then_some(0);
        }
        waiting.iter().position(|index| match self.pin_of(*index) {
            None => any,
            // A request whose process has gone may go to another one.
            Some(slot) => {
                self.weight(pool, slot) == 0 || self.pools.choose_slot(pool, slot, self.clock.now).is_some()
            }
        })
    }

    /// The slot that a waiting request waits for.
    pub(crate) fn pin_of(&self, index: ConnKey) -> Option<u16> {
        match self.connections.get(index)?.state {
            State::Queued { pin, .. } => pin,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
