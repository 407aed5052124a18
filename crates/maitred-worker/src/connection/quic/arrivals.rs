//! What comes from an address that is not proved, and what is sent to one.
//!
//! The library reports requests without saying from where they have come, sends to an address that it has not validated more than
//! RFC 9000 section 8.1 allows, and does not say when it has validated one. So its events are taken after each datagram that
//! comes from such an address, and what it wants to send is looked at before it leaves:
//!
//! - While a path is not validated, each packet to it has a challenge (`populate_packet` in the library): before it stand frames
//!   of seven hundred bytes at most, whatever the client does (64 ranges of ACK). So a packet without a challenge says that the
//!   path is validated. After what may be the answer of the client, the library is asked for a packet (PING).
//! - The library is not asked for anything while a whole datagram would be too many bytes for the address, but for a first one:
//!   its timer for what is lost expects that something was sent on each path. What is too much (that one, probes of the MTU,
//!   answers to challenges from other addresses) is dropped, as if it were lost on the way.
//!
//! `docs/upstream-notes.md` has changes to the library with which this could go.

use std::net::SocketAddr;
use std::time::Instant;

use quinn_proto::{
    ConnectionEvent, ConnectionStats, Dir, Event, FrameStats, StreamEvent, StreamId, Transmit,
};

use super::Quic;

/// Datagrams that are dropped in one look because they are too much for an address: the library has no more than 16 answers to
/// challenges at a time.
const DROPS_MAX: usize = 32;

/// A datagram of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    /// Where it says that it comes from.
    pub(crate) from: SocketAddr,
    pub(crate) bytes: usize,
    /// The datagram has nothing but packets of the handshake, which only a client can make that has read the answer to its
    /// first packet.
    pub(crate) handshake: bool,
}

/// A stream of a request of which something has come from an address that was not proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) id: StreamId,
    /// The session does not know the stream yet.
    pub(crate) new: bool,
}

impl Quic {
    /// What has come with the first datagram.
    pub(super) fn begin(&mut self) {
        if let Some(address) = self.paths.candidate() {
            self.sort_events(Some(address));
        }
    }

    /// Takes a datagram.
    pub(crate) fn take(&mut self, datagram: Arrived, event: ConnectionEvent, now: Instant) {
        if self.paths.is_usual(datagram.from) {
            return self.connection.handle_event(event);
        }
        self.take_unusual(datagram, event, now);
    }

    #[cold]
    fn take_unusual(&mut self, datagram: Arrived, event: ConnectionEvent, now: Instant) {
        let Arrived { from, bytes, handshake } = datagram;
        self.follow();
        // What has come before has not come from there.
        self.sort_events(None);
        if !self.paths.arrive(from, bytes, now) {
            return;
        }
        let before = self.connection.stats().frame_rx;
        self.connection.handle_event(event);
        self.follow();
        let after = self.connection.stats().frame_rx;
        if handshake && !self.settled && frames(&after) != frames(&before) {
            self.prove();
        }
        if after.path_response != before.path_response && self.paths.candidate() == Some(from) {
            self.answered = true;
            self.connection.ping();
        }
        self.sort_events((!self.paths.was_proved(from)).then_some(from));
    }

    /// Notes which address the library uses: it goes back to the one before if a new one was not validated in three times the
    /// time that it waits for an answer (RFC 9000 section 8.2.4).
    pub(crate) fn follow(&mut self) {
        let before = self.paths.candidate();
        if self.paths.follow(self.connection.remote_address()) {
            self.answered = false;
            self.refused.append(&mut self.waiting);
            // The client may have moved: it is asked. The library's timer for what is lost, which was set for the other path,
            // expects something that was sent on this one as well.
            self.connection.ping();
        }
        self.begun &= self.paths.candidate() == before;
    }

    fn prove(&mut self) {
        self.paths.prove();
        self.answered = false;
        self.released.append(&mut self.waiting);
    }

    /// Takes the events of the library. `from`: what they are about has come from this address.
    fn sort_events(&mut self, from: Option<SocketAddr>) {
        while let Some(event) = self.connection.poll() {
            let from = from.filter(|from| !self.paths.is_proved(*from));
            match (event, from) {
                (Event::Stream(StreamEvent::Opened { dir: Dir::Bi }), Some(from)) => {
                    while let Some(id) = self.connection.streams().accept(Dir::Bi) {
                        self.hold(Request { id, new: true }, from);
                    }
                }
                (Event::Stream(StreamEvent::Readable { id }), Some(from)) if id.dir() == Dir::Bi => {
                    self.hold(Request { id, new: false }, from);
                }
                (event, _) => {
                    // Only a client that has what was sent to its address ends a handshake.
                    if from.is_some() && matches!(event, Event::Connected) {
                        self.prove();
                    }
                    self.events.push_back(event);
                }
            }
        }
    }

    fn hold(&mut self, request: Request, from: SocketAddr) {
        let list = match self.paths.candidate() == Some(from) {
            true => &mut self.waiting,
            false => &mut self.refused,
        };
        if !list.iter().any(|known| known.id == request.id) {
            list.push(request);
        }
    }

    /// What the library reports next.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front().or_else(|| self.connection.poll())
    }

    /// What is to be sent next, as at most so many datagrams.
    pub(crate) fn next_transmit(
        &mut self,
        now: Instant,
        datagrams: usize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        for _ in 0..DROPS_MAX {
            buffer.clear();
            let transmit = match self.paths.candidate() {
                None => self.connection.poll_transmit(now, datagrams, buffer)?,
                Some(candidate) => self.transmit_to(candidate, now, buffer)?,
            };
            if self.paths.send(transmit.destination, transmit.size) {
                return Some(transmit);
            }
        }
        None
    }

    fn transmit_to(&mut self, candidate: SocketAddr, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let answered = std::mem::take(&mut self.answered);
        // What a connection ends with is short.
        let asks = answered || !self.begun || self.connection.is_closed();
        if !asks && !self.paths.has_room(self.connection.current_mtu().into()) {
            return None;
        }
        let before = self.connection.stats();
        let transmit = self.connection.poll_transmit(now, 1, buffer)?;
        // Before it there may be a challenge to the address that was used before.
        self.begun |= transmit.destination == candidate;
        let is_packet = self.settled && !self.connection.is_closed() && transmit.destination == candidate;
        if is_packet && has_no_challenge(&before, &self.connection.stats()) {
            self.prove();
        }
        Some(transmit)
    }
}

/// Whether what was sent since then was a packet, and none with a challenge. Probes of the MTU have no place for one.
fn has_no_challenge(before: &ConnectionStats, now: &ConnectionStats) -> bool {
    now.frame_tx.path_challenge == before.frame_tx.path_challenge
        && now.path.sent_plpmtud_probes == before.path.sent_plpmtud_probes
}

/// Frames that may come in packets of the handshake.
fn frames(stats: &FrameStats) -> u64 {
    stats.acks + stats.crypto + stats.ping + stats.connection_close
}
