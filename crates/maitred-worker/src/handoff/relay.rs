//! A relay: a socketpair that an application process writes a response into, and that Maitred reads it from.
//!
//! Making a pair and passing one end costs more than answering a small request, so a pair belongs to one application
//! process for good, and is used for one response after the other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::keys::{ChannelKey, ConnKey, RelayKey};
use maitred_base::budget::Permit;
use maitred_base::passed::{Lane, Passed};

/// Set in the numbers of relays, so that they differ from those of connections.
pub(crate) const RELAY_BIT: u32 = 1 << 31;

/// What a process can write at once, in bytes; the kernel counts its own overhead to it, and doubles it for that (socket(7)).
/// The rest of a larger response goes by the channel, through a file in memory, which costs more: 1 MB from a process in Python
/// 937 µs with the usual 208 KiB, 803 with 416 KiB, 547 with room for all (`bench/runs/2026-11-28-adapters`). Where
/// `net.core.wmem_max` is smaller, that is the bound.
const RESPONSE_BYTES: usize = 512 << 10;

impl RelayKey {
    /// The number that a process knows the relay by.
    pub(crate) const fn known_as(self) -> u32 {
        RELAY_BIT | self.number()
    }

    /// The relay that a process knows by this number; `None` if the number is that of a connection.
    pub(crate) fn of_known(number: u32) -> Option<RelayKey> {
        (number & RELAY_BIT != 0).then_some(RelayKey::from_number(number & !RELAY_BIT))
    }
}

/// One relay, seen from Maitred's end.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Key of the channel of the process that has the far end.
    pub channel: ChannelKey,
    /// Index of the connection whose response comes through it; `None` while it is free, or when the client has gone.
    pub index: Option<ConnKey>,
    /// Responses that came through it, the present one included; wraps around.
    pub uses: u32,
    /// The relay is in the epoll set: its response is slow enough, or long enough, to be sent on before it is whole.
    pub watched: bool,
    /// Something may be in it that belongs to no response any more: it is not used again.
    pub spoilt: bool,
    /// The process is not this thread's any more; what it has written is still on its way to the client.
    pub orphan: bool,
    /// The process has taken it over for good, to speak another protocol with the client.
    pub detached: bool,
    /// Epoll said that the process has finished sending.
    pub hung_up: bool,
    /// Epoll said that the process has closed it.
    pub gone: bool,
    /// Closed by helpers: what the process has sent and what was not received is closed with it.
    socket: Passed,
}

impl Relay {
    /// A new pair: the relay, and its far end. Ours does not block; the far end does neither, as a client's socket. `lane` is
    /// that of the process that gets the far end.
    ///
    /// # Errors
    /// What socketpair(2) says.
    pub(crate) fn new(channel: ChannelKey, held: Permit, lane: Lane) -> io::Result<(Relay, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, far_end) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // As much as the kernel allows; less works as well.
        let _ = set_socket_send_buffer_size(&far_end, RESPONSE_BYTES);
        let relay = Relay {
            channel,
            index: None,
            uses: 0,
            watched: false,
            spoilt: false,
            orphan: false,
            detached: false,
            hung_up: false,
            gone: false,
            socket: Passed::own(socket, Some(held), lane),
        };
        Ok((relay, far_end))
    }

    /// The way to the helpers for what comes from the process.
    pub(crate) fn lane(&self) -> &Lane {
        self.socket.lane()
    }

    /// Our end.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Relays of one process that are free. The one that was used last is used next, so that those that are not needed stay at the
/// front, and the fewest that were free at a time are what could have been done without.
#[derive(Debug, Default)]
pub(crate) struct IdleRelays {
    free: Vec<RelayKey>,
    /// The fewest that were free in this period.
    fewest: usize,
    /// Relays of the period before that are still to go.
    surplus: usize,
}

impl IdleRelays {
    /// Takes a relay for the next request.
    pub(crate) fn pop(&mut self) -> Option<RelayKey> {
        let key = self.free.pop();
        self.fewest = self.fewest.min(self.free.len());
        key
    }

    /// Adds a relay that is free from now on.
    pub(crate) fn push(&mut self, key: RelayKey) {
        self.free.push(key);
    }

    /// The relay that has been free longest.
    pub(crate) fn first(&self) -> Option<RelayKey> {
        self.free.first().copied()
    }

    /// Removes a relay that is not there any more.
    pub(crate) fn remove(&mut self, key: RelayKey) {
        self.free.retain(|idle| *idle != key);
        self.fewest = self.fewest.min(self.free.len());
    }

    /// None is there any more.
    pub(crate) fn clear(&mut self) {
        *self = IdleRelays::default();
    }

    /// A period has passed: what was not needed in it is to go.
    pub(crate) fn end_period(&mut self) {
        self.surplus = self.fewest;
        self.fewest = self.free.len() - self.surplus.min(self.free.len());
    }

    /// Descriptors are short: all that are free are to go.
    pub(crate) fn give_up(&mut self) {
        (self.surplus, self.fewest) = (self.free.len(), 0);
    }

    /// Takes out some of those that are to go.
    pub(crate) fn take_surplus(&mut self, max: usize) -> Vec<RelayKey> {
        let taken = self.surplus.min(max).min(self.free.len());
        // Requests may have come meanwhile, and taken from the back what was to stay.
        self.surplus = if taken < max { 0 } else { self.surplus - taken };
        self.free.drain(..taken).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Key as _;

    fn keys(places: impl IntoIterator<Item = usize>) -> Vec<RelayKey> {
        places.into_iter().map(RelayKey::of).collect()
    }

    #[test]
    fn a_process_knows_relays_by_other_numbers_than_connections() {
        let relay = RelayKey::of(7);
        assert_eq!(RelayKey::of_known(relay.known_as()), Some(relay));
        assert_eq!(RelayKey::of_known(crate::keys::conn(7).number()), None);
    }

    #[test]
    fn what_nobody_needed_for_a_period_goes() {
        let mut idle = IdleRelays::default();
        keys(0..100).into_iter().for_each(|key| idle.push(key));
        idle.end_period();
        assert!(idle.take_surplus(64).is_empty(), "they were busy in that period");
        // Three at a time are needed in the next one.
        let busy: Vec<RelayKey> = (0..3).filter_map(|_| idle.pop()).collect();
        assert_eq!(busy, keys([99, 98, 97]));
        busy.into_iter().for_each(|key| idle.push(key));
        idle.end_period();
        assert_eq!(idle.take_surplus(64), keys(0..64));
        assert_eq!(idle.take_surplus(64), keys(64..97));
        assert!(idle.take_surplus(64).is_empty());
        idle.end_period();
        assert_eq!(idle.take_surplus(64).len(), 3, "none is needed");
        assert_eq!(idle.pop(), None);
    }

    #[test]
    fn where_descriptors_are_short_all_that_are_free_go() {
        let mut idle = IdleRelays::default();
        keys(0..10).into_iter().for_each(|key| idle.push(key));
        idle.give_up();
        assert_eq!(idle.pop(), Some(RelayKey::of(9)), "until then they are used");
        assert_eq!(idle.take_surplus(4), keys(0..4));
        assert_eq!(idle.take_surplus(64), keys(4..9));
        idle.push(RelayKey::of(9));
        assert!(idle.take_surplus(64).is_empty());
    }

    #[test]
    fn what_is_gone_or_busy_is_not_given_back() {
        let mut idle = IdleRelays::default();
        keys(0..10).into_iter().for_each(|key| idle.push(key));
        idle.end_period();
        idle.remove(RelayKey::of(0));
        idle.end_period();
        (0..5).for_each(|_| assert!(idle.pop().is_some()));
        assert_eq!(idle.take_surplus(64), keys(1..5));
        idle.clear();
        idle.end_period();
        assert!(idle.take_surplus(64).is_empty());
    }
}
