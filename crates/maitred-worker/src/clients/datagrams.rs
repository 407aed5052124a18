//! The UDP sockets of a thread, and the connections over them: datagrams that leave, and how connections end.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::keys::{Key, SessionKey};
use maitred_http::h3::Code;
use quinn_proto::{ConnectionHandle, Endpoint, EndpointEvent, ServerConfig};
use quinn_udp::{UdpSockRef, UdpSocketState};
use rustix::event::epoll;

use super::Clients;
use crate::connection::quic::Quic;
use crate::token::Token;

/// Datagrams that one send may consist of: as many as the kernel takes (`UDP_MAX_SEGMENTS` has been 64 and 128).
const SEGMENTS_MAX: usize = 64;

/// Bytes of one send at most: a datagram of IP, as which the segments travel through the kernel.
const SEND_BYTES_MAX: usize = 65_000;

/// Sends of one connection in a turn, so that the others get their turn.
const SENDS_PER_TURN: usize = 32;

/// Times the bytes of a datagram of no connection that its answer may have.
const AMPLIFICATION_MAX: usize = 3;

/// Answers to datagrams of no connection that wait for room in a socket.
const ANSWERS_MAX: usize = 64;

/// How long the pace of a connection may hold its end back.
const CLOSE_PACE: Duration = Duration::from_secs(1);

/// No session: the connection has gone.
const NO_SESSION: SessionKey = SessionKey::NONE;

/// One UDP socket, and the QUIC endpoint behind it.
pub(crate) struct DatagramSocket {
    pub(crate) socket: OwnedFd,
    pub(crate) state: UdpSocketState,
    pub(crate) endpoint: Endpoint,
    /// What new connections begin with.
    pub(crate) server: Arc<ServerConfig>,
    /// Where it is bound.
    pub(crate) local: SocketAddr,
    /// Index of the listen entry.
    pub(crate) listen: u16,
    /// The number of the socket in the group of the address.
    pub(crate) number: u16,
    /// Whether this process reads the socket.
    pub(crate) reading: bool,
    /// Keys of sessions, by the endpoint's names of connections.
    sessions: Vec<SessionKey>,
    /// What the socket had no room for.
    blocked: VecDeque<Datagram>,
    /// Sessions that have more to send when it has.
    waiting: Vec<SessionKey>,
}

/// Datagrams to one client, of one size but for the last.
pub(crate) struct Datagram {
    pub(crate) transmit: quinn_proto::Transmit,
    pub(crate) bytes: Vec<u8>,
}

impl DatagramSocket {
    pub(crate) fn new(
        socket: OwnedFd,
        state: UdpSocketState,
        (endpoint, server): (Endpoint, Arc<ServerConfig>),
        (local, listen, number): (SocketAddr, u16, u16),
    ) -> DatagramSocket {
        DatagramSocket {
            socket,
            state,
            endpoint,
            server,
            local,
            listen,
            number,
            reading: false,
            sessions: Vec::new(),
            blocked: VecDeque::new(),
            waiting: Vec::new(),
        }
    }

    /// The session of a connection, if there is one.
    pub(crate) fn session(&self, handle: ConnectionHandle) -> Option<SessionKey> {
        self.sessions.get(handle.0).copied().filter(|session| *session != NO_SESSION)
    }

    pub(crate) fn set_session(&mut self, handle: ConnectionHandle, session: Option<SessionKey>) {
        if self.sessions.len() <= handle.0 {
            self.sessions.resize(handle.0 + 1, NO_SESSION);
        }
        if let Some(place) = self.sessions.get_mut(handle.0) {
            *place = session.unwrap_or(NO_SESSION);
        }
    }

    /// Sends at once. False: there is no room, and nothing was sent. What the network refuses counts as lost on the way.
    fn send(&self, transmit: &quinn_proto::Transmit, bytes: &[u8]) -> bool {
        let whole = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: bytes.get(..transmit.size).unwrap_or(bytes),
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        let sent = self.state.try_send(UdpSockRef::from(&self.socket), &whole);
        !matches!(sent, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }
}

impl Clients {
    /// How a datagram socket is watched: for datagrams, if this process reads it, and for room, if something waits for that.
    pub(crate) fn watch_datagrams(&self, which: usize) {
        use epoll::EventFlags as F;
        let Some(found) = self.datagrams.get(which) else { return };
        let input = if found.reading { F::IN } else { F::empty() };
        let output = if found.blocked.is_empty() { F::empty() } else { F::OUT };
        let token = Token::Datagrams(which as u32).pack();
        let _ = epoll::modify(&self.epoll, &found.socket, token, input | output);
    }

    /// Sends an answer to a datagram of no connection, of so many bytes. The sender is where it says that it is, or another
    /// host is: an answer that is much longer is not sent (RFC 9000 section 8.1; the library makes none).
    pub(crate) fn answer_datagram(
        &mut self,
        which: usize,
        asked_bytes: usize,
        transmit: quinn_proto::Transmit,
        bytes: &[u8],
    ) {
        let Some(found) = self.datagrams.get_mut(which) else { return };
        if transmit.size > asked_bytes.saturating_mul(AMPLIFICATION_MAX) {
            return;
        }
        if found.blocked.is_empty() && found.send(&transmit, bytes) {
            return;
        }
        if found.blocked.len() < ANSWERS_MAX {
            found.blocked.push_back(Datagram { transmit, bytes: bytes.to_vec() });
            self.watch_datagrams(which);
        }
    }

    /// Notes room in a datagram socket. Gives back the sessions that waited for it.
    pub(crate) fn on_datagram_room(&mut self, which: usize) -> Vec<SessionKey> {
        let Some(found) = self.datagrams.get_mut(which) else { return Vec::new() };
        while let Some(next) = found.blocked.front() {
            if !found.send(&next.transmit, &next.bytes) {
                return Vec::new();
            }
            found.blocked.pop_front();
        }
        let waiting = std::mem::take(&mut found.waiting);
        self.watch_datagrams(which);
        waiting
    }

    /// Sends what a connection has. Gives back whether that is all for now.
    pub(crate) fn transmit(&mut self, key: SessionKey) -> bool {
        let now = self.clock.now;
        let Some(quic) = self.sessions.get_mut(key).and_then(|found| found.quic.as_deref_mut()) else {
            return true;
        };
        let which = quic.socket;
        let Some(found) = self.datagrams.get_mut(which) else { return true };
        if !found.blocked.is_empty() {
            if !found.waiting.contains(&key) {
                found.waiting.push(key);
            }
            return true;
        }
        let segments = found.state.max_gso_segments().min(SEGMENTS_MAX);
        let mut buffer = std::mem::take(&mut self.buffers.datagrams);
        let (mut blocked, mut sends) = (false, 0);
        while sends < SENDS_PER_TURN && !blocked {
            let mtu = usize::from(quic.connection.current_mtu()).max(1);
            let most = segments.min(SEND_BYTES_MAX / mtu).max(1);
            let Some(transmit) = quic.next_transmit(now, most, &mut buffer) else { break };
            sends += 1;
            if !found.send(&transmit, &buffer) {
                found.blocked.push_back(Datagram { transmit, bytes: std::mem::take(&mut buffer) });
                found.waiting.push(key);
                blocked = true;
            }
        }
        self.buffers.datagrams = buffer;
        self.row.datagram_sends.add(sends as u64);
        if blocked {
            self.watch_datagrams(which);
        }
        blocked || sends < SENDS_PER_TURN
    }

    /// Passes on what a connection and its endpoint have to tell each other.
    pub(crate) fn settle_endpoint(&mut self, key: SessionKey) {
        let Some(quic) = self.sessions.get_mut(key).and_then(|found| found.quic.as_deref_mut()) else {
            return;
        };
        let Some(found) = self.datagrams.get_mut(quic.socket) else { return };
        while let Some(event) = quic.connection.poll_endpoint_events() {
            // The end of it is said once, when its session goes.
            if event.is_drained() {
                continue;
            }
            if let Some(event) = found.endpoint.handle_event(quic.handle, event) {
                quic.connection.handle_event(event);
            }
        }
    }

    /// A connection is over: the client is told, unless it knows, and the endpoint forgets it.
    pub(crate) fn end_quic(&mut self, mut quic: Quic, code: u64, reason: &'static str) {
        let now = self.clock.now;
        // The library has found an error itself, and says so.
        let found_error = quic.connection.is_closed();
        quic.close(now, code, reason);
        let Some(found) = self.datagrams.get_mut(quic.socket) else { return };
        let mut buffer = std::mem::take(&mut self.buffers.datagrams);
        // An address that was not proved gets no more than it has asked for.
        let tells = !quic.lost && (quic.settled || found_error || code != Code::NoError.number());
        // The pace, too, has room a moment later, for which this connection does not wait.
        for now in [now, now + CLOSE_PACE].into_iter().filter(|_| tells) {
            if let Some(transmit) = quic.next_transmit(now, 1, &mut buffer) {
                // If it is lost, what the client sends next is answered with a stateless reset.
                found.send(&transmit, &buffer);
                break;
            }
        }
        self.buffers.datagrams = buffer;
        found.set_session(quic.handle, None);
        let _ = found.endpoint.handle_event(quic.handle, EndpointEvent::drained());
        if quic.half_open {
            self.shared.unproved.leave(false, self.clock.now);
        }
    }
}
