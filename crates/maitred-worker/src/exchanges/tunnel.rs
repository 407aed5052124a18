//! After an upgrade: bytes of the other protocol between a client and an upstream, in both directions, until one side ends it.
//! The upstream is an HTTP server, or an application process that has kept its end of a relay (DETACH).
//!
//! What comes for the client goes the way of a response (`pump`, `relay`), whose filter passes it on as it is. The present file
//! has the other direction, and the end of both. Each direction keeps the bytes of one read, at most, and reads no more until
//! they are out.
//!
//! | what has finished sending | what is done, once the other side has all of it |
//! |---|---|
//! | the client | shutdown towards the other end, which goes on sending |
//! | a process that still reads | shutdown towards the client, which goes on sending |
//! | a process that has closed its end, or a server | the connection is closed |
//! | both | the same |

use std::sync::atomic::Ordering::{Acquire, Release};

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::Exchanges;
use crate::connection::State;
use crate::connection::tunnel::Tunnel;
use crate::connection::wire::Received;
use crate::keys::{ConnKey, RelayKey};
use crate::upstream::failure::Cause;
use crate::upstream::far_end::FarEnd;
use crate::upstream::{By, Source};

/// Reads of one client in one turn, so that the others get their turn.
const READS_PER_TURN: u32 = 8;

/// Sends what was read. True if that is out, and more may be read.
fn send_to(tunnel: &mut Tunnel, far_end: &mut FarEnd<'_>) -> bool {
    if far_end.flush() != Ok(true) {
        return false;
    }
    while !tunnel.rest().is_empty() {
        match far_end.send(tunnel.rest(), SendFlags::empty()) {
            Ok(sent) => tunnel.advance(sent),
            Err(Errno::INTR) => {}
            // An end that takes nothing any more shows when it is read.
            Err(_) => return false,
        }
    }
    if tunnel.ends_far_end() {
        far_end.finish();
    }
    !tunnel.client_ended
}

impl Exchanges {
    /// The other end has switched to another protocol. What the client has sent already belongs to it.
    pub(crate) fn begin_tunnel(&mut self, index: ConnKey) {
        let out = std::mem::take(&mut self.exchange(index).input);
        if let Some(attempt) = self.attempt_mut(index) {
            attempt.tunnel = Some(Box::new(Tunnel { out, ..Tunnel::default() }));
        }
        self.credit_stream(index);
        // More may be there to read, whose edge was not noted.
        self.connections[index].readable = true;
        self.look_again(index);
    }

    fn far_end(&mut self, index: ConnKey) -> Option<FarEnd<'_>> {
        match self.source_of(index)? {
            Source::Fill => None,
            Source::Server(key) | Source::Thread(key) => self.upstreams.far_end(key),
            Source::Relay(relay) => {
                let relay = self.pools.relays.get(relay);
                relay.map(|relay| FarEnd::Clear(relay.socket()))
            }
        }
    }

    /// Moves what there is from the client to the other end.
    pub(crate) fn pump_from_client(&mut self, index: ConnKey) {
        if !self.is_tunnel(index) {
            return;
        }
        for _ in 0..READS_PER_TURN {
            let sent = self.send_to_far_end(index);
            self.count_far_end(index);
            if !sent || !self.read_client(index) {
                return;
            }
        }
        self.look_again(index);
    }

    fn send_to_far_end(&mut self, index: ConnKey) -> bool {
        let attempt = self.attempt_mut(index);
        let Some(mut tunnel) = attempt.and_then(|attempt| attempt.tunnel.take()) else { return false };
        let goes_on = self.far_end(index).is_some_and(|mut far_end| send_to(&mut tunnel, &mut far_end));
        if let Some(attempt) = self.attempt_mut(index) {
            attempt.tunnel = Some(tunnel);
        }
        goes_on
    }

    /// Counts what the other end has not taken. While memory is short, the other end has the time of a client for that:
    /// `write_timeout`.
    fn count_far_end(&mut self, index: ConnKey) {
        let stalled = self.tunnel(index).is_some_and(|tunnel| tunnel.unsent_bytes() > 0);
        if !stalled {
            return self.recount_unsent(index);
        }
        self.count_unsent(index);
        if self.is_short_of_memory() {
            self.progress(index);
        }
    }

    /// Reads once. True if there is something to send, or the end to be passed on.
    fn read_client(&mut self, index: ConnKey) -> bool {
        if !self.connections[index].readable {
            return false;
        }
        let mut rx = self.buffers.rx.take();
        let received = self.receive(index, &mut rx);
        let connection = &mut self.connections[index];
        let (ended, goes_on) = match received {
            Received::End => (true, true),
            Received::Bytes { more } => {
                connection.readable = more;
                (false, true)
            }
            Received::Nothing => {
                connection.readable = false;
                (false, false)
            }
            Received::Broken => {
                self.buffers.rx.put_back(rx);
                self.abort(index);
                return false;
            }
        };
        connection.ended |= ended;
        if let Some(tunnel) = self.tunnel_mut(index) {
            tunnel.out.extend_from_slice(&rx);
            tunnel.client_ended |= ended;
        }
        self.buffers.rx.put_back(rx);
        if goes_on {
            self.arm_tunnel(index);
        }
        goes_on
    }

    /// Sets `tunnel_idle_timeout`, unless the client has something to take.
    pub(crate) fn arm_tunnel(&mut self, index: ConnKey) {
        if !self.has_output(index) {
            let timeout = self.limits().tunnel_idle_timeout;
            self.arm_in(index, timeout);
        }
    }

    /// A process keeps its end of the relay that answers this connection.
    pub(crate) fn on_detached(&mut self, index: ConnKey) {
        let Some(key) = self.relay_of(index) else { return };
        if !self.watch_both_ways(key) {
            return self.fail_upstream(index, Cause::Bad, "its relay cannot be watched");
        }
        self.look_at_detached(index);
        self.move_upstream(index);
    }

    /// Has epoll report what comes from the process, and when it takes more.
    fn watch_both_ways(&mut self, key: RelayKey) -> bool {
        let Some(relay) = self.processes.pools.relays.get_mut(key) else { return true };
        if std::mem::take(&mut relay.watched) {
            let _ = epoll::delete(&self.processes.clients.base.epoll, relay.socket());
        }
        self.watch(key, true)
    }

    /// While the process ends for good: once nothing but tunnels is left, on any thread, application processes are not needed for
    /// requests any more. The processes get the message to end, so that they can close their tunnels as the protocol requires.
    pub(crate) fn end_tunnels(&mut self) {
        if self.drain.as_ref().is_none_or(|drain| drain.has_successor()) {
            return;
        }
        let shared = self.shared;
        let only = self.connections.iter().all(|(index, connection)| match connection.state {
            State::Multiplexed { session } => self.refuses(session),
            _ => self.is_tunnel(index),
        });
        if let Some(known) = shared.only_tunnels.get(self.number) {
            known.store(only, Release);
        }
        let everywhere = shared.only_tunnels.iter().all(|only| only.load(Acquire));
        let some = shared.loads.iter().any(|load| load.load(Acquire) > 0);
        if everywhere && some && shared.in_transit.load(Acquire) == 0 {
            self.retire_processes();
        }
    }

    /// What a process has written to a relay that it keeps: a 101, after which the other protocol begins; or another response,
    /// which needs no DONE to be complete.
    pub(crate) fn look_at_detached(&mut self, index: ConnKey) {
        if !self.relay_of(index).is_some_and(|relay| self.is_detached(relay)) {
            return;
        }
        let Some(attempt) = self.attempt_mut(index) else { return };
        let (complete, switched) = (attempt.filter.complete(), attempt.filter.switched());
        if let Some(handed) = attempt.handed_mut() {
            handed.done |= complete;
        }
        if switched && !self.is_tunnel(index) {
            self.begin_tunnel(index);
        }
    }

    /// Nothing more will come from the process of a relay.
    pub(crate) fn note_relay_end(&mut self, index: ConnKey, relay: RelayKey) {
        let detached = self.is_detached(relay);
        let Some(attempt) = self.attempt_mut(index) else { return };
        match (attempt.tunnel.as_deref_mut(), &mut attempt.by) {
            (Some(tunnel), _) => tunnel.far_end_ended = true,
            // A relay that was kept gets no DONE.
            (None, By::Process(handed)) => handed.done |= detached,
            (None, By::Server(_) | By::Thread(_) | By::Fill(_)) => {}
        }
    }

    /// Whether everything was read that the process at the other end of a tunnel has to send.
    pub(crate) fn has_far_end_ended(&self, index: ConnKey) -> bool {
        self.tunnel(index).is_some_and(|tunnel| tunnel.far_end_ended)
    }

    /// All that was in the relay of a tunnel has been read. True if there is more to be done.
    pub(crate) fn wait_for_far_end(&mut self, index: ConnKey) -> bool {
        let ended = self.has_far_end_ended(index);
        if !ended {
            self.arm_tunnel(index);
        }
        ended
    }

    /// The process has finished sending, and the client has all of it.
    pub(crate) fn half_close_client(&mut self, index: ConnKey, source: Source) {
        let relay = self.relay_of(index).and_then(|relay| self.pools.relays.get(relay));
        let gone = relay.is_none_or(|relay| relay.gone);
        let Some(tunnel) = self.tunnel_mut(index) else { return };
        if gone || (tunnel.client_ended && tunnel.out.is_empty()) {
            if let Some(handed) = self.handed_mut(index) {
                handed.done = true;
            }
            return self.settle_upstream(index, source);
        }
        if !std::mem::replace(&mut tunnel.client_told, true) {
            self.shut_down_sending(index);
        }
        self.arm_tunnel(index);
    }
}

#[cfg(test)]
mod tests {
    use rustix::buffer::spare_capacity;
    use rustix::event::{Timespec, epoll};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn the_other_end_is_told_once_that_the_client_has_ended() {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, _far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let both = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&poll, &near, epoll::EventData::new_u64(0), both).unwrap();
        let events = || {
            let mut events: Vec<epoll::Event> = Vec::with_capacity(4);
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            epoll::wait(&poll, spare_capacity(&mut events), Some(&now)).unwrap()
        };
        assert_eq!((events(), events()), (1, 0), "there is room");
        let mut tunnel = Tunnel { client_ended: true, ..Tunnel::default() };
        assert!(!send_to(&mut tunnel, &mut FarEnd::Clear(near.as_fd())));
        assert_eq!(events(), 1, "a shutdown makes an event on the socket itself");
        assert!(!send_to(&mut tunnel, &mut FarEnd::Clear(near.as_fd())));
        assert_eq!(events(), 0, "what acts on it must not make another one");
    }
}
