//! Datagrams as they come, and new connections of QUIC.
//!
//! | a datagram | |
//! |---|---|
//! | of a connection of this process | goes there |
//! | of a connection of an earlier worker process, with a link | goes on to that one ([`datagram_link`](crate::datagram_link)) |
//! | the same, without a link | is dropped in the first two seconds, in which links come; later its id is unknown |
//! | of a connection of a later worker process | is dropped: it is sent again, and that process reads it |
//! | that begins a connection | is accepted, asked to prove its address, or refused ([`Admission::welcome_quic`]) |
//! | with an id that was given once, and is unknown now | is answered with a stateless reset |
//! | anything else | is dropped |
//!
//! The newest worker process reads. For a moment two may, while one takes over, so each looks at the generation in the id first
//! ([`maitred_tls::quic::ids`]). A datagram with a long header may have an id that its client has made up, and is dropped neither
//! for its generation nor because a link is missing.

use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use quinn_proto::{DatagramEvent, EcnCodepoint, Incoming};
use quinn_udp::{RecvMeta, UdpSockRef};
use rustix::event::epoll;

use super::Admission;
use crate::clients::datagrams::DatagramSocket;
use crate::connection::paths::Paths;
use crate::connection::quic::{Arrived, Quic};
use crate::connection::remote::Remote;
use crate::datagram_link::{Batch, Word};
use crate::entry::Entry;
use crate::inbox::ForwardedDatagrams;
use crate::keys::ConnKey;
use crate::token::Token;
use maitred_tls::quic::ids::{LONG_HEADER, destination};
use maitred_tls::quic::packets::is_handshake;

/// Buffers that are filled in one system call: each has room for what the kernel puts together (UDP_GRO).
const BUFFERS: usize = 8;
const BUFFER_BYTES: usize = 65_536;

/// System calls in one turn, so that the connections get their turn.
const READS_PER_TURN: usize = 8;

/// Generations count up, modulo 256: one that would be further back than this is a later one.
const LATER: u8 = 128;

/// How long after the take-over it may take until links to all earlier worker processes are there.
const LINKS_WITHIN: Duration = Duration::from_secs(2);

/// What receiving needs; made when the first datagram comes.
pub(crate) struct Receiving {
    room: Vec<u8>,
    answer: Vec<u8>,
}

impl Default for Receiving {
    fn default() -> Receiving {
        Receiving { room: vec![0; BUFFERS * BUFFER_BYTES], answer: Vec::new() }
    }
}

impl Admission {
    /// Something has happened at a datagram socket.
    pub(crate) fn on_datagrams(&mut self, which: usize, flags: epoll::EventFlags) {
        if flags.contains(epoll::EventFlags::OUT) {
            for key in self.on_datagram_room(which) {
                self.touch_session(key);
            }
        }
        if !self.datagrams.get(which).is_some_and(|found| found.reading) {
            return;
        }
        self.renew_server(which);
        let mut receiving = self.receiving.take().unwrap_or_default();
        for _ in 0..READS_PER_TURN {
            if !self.read_datagrams(which, &mut receiving) {
                break;
            }
        }
        self.receiving = Some(receiving);
    }

    /// New connections begin with the present certificates.
    fn renew_server(&mut self, which: usize) {
        let shared = self.shared;
        let Some(found) = self.datagrams.get_mut(which) else { return };
        if let Some(server) = shared.tls.over_quic(usize::from(found.listen))
            && !std::sync::Arc::ptr_eq(&server, &found.server)
        {
            found.endpoint.set_server_config(Some(std::sync::Arc::clone(&server)));
            found.server = server;
        }
    }

    /// Makes one system call. Gives back whether there may be more.
    fn read_datagrams(&mut self, which: usize, receiving: &mut Box<Receiving>) -> bool {
        let Receiving { room, answer } = &mut **receiving;
        let mut metas = [RecvMeta::default(); BUFFERS];
        let read = {
            let mut parts = room.chunks_mut(BUFFER_BYTES);
            let mut buffers: [IoSliceMut<'_>; BUFFERS] =
                std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
            let Some(found) = self.datagrams.get(which) else { return false };
            found.state.recv(UdpSockRef::from(&found.socket), &mut buffers, &mut metas)
        };
        // What else there may be than that nothing is there is told of single datagrams, which are lost then.
        let Ok(read) = read else { return false };
        let Some(found) = self.datagrams.get(which) else { return false };
        let (local, number) = (found.local, found.number);
        for (meta, bytes) in metas.iter().zip(room.chunks(BUFFER_BYTES)).take(read) {
            let batch = Batch {
                local,
                socket: number as u8,
                remote: meta.addr,
                destination: meta.dst_ip,
                ecn: meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
                stride: meta.stride.max(1),
                bytes: bytes.get(..meta.len).unwrap_or_default(),
            };
            self.take_batch(which, &batch, true, answer);
        }
        read == BUFFERS
    }

    /// Datagrams of one client. `forwards`: those of earlier processes are passed on.
    fn take_batch(&mut self, which: usize, batch: &Batch<'_>, forwards: bool, answer: &mut Vec<u8>) {
        let mut left = BytesMut::from(batch.bytes);
        self.row.datagrams_received.add(batch.bytes.len().div_ceil(batch.stride) as u64);
        while !left.is_empty() {
            let datagram = left.split_to(batch.stride.min(left.len()));
            if forwards && self.forward_datagram(batch, &datagram) {
                continue;
            }
            self.take_datagram(which, batch, datagram, answer);
        }
    }

    /// Passes a datagram on, if it is for a connection of an earlier worker process. While it is not known yet which of those
    /// there are, it is dropped: a reset would end a connection that lives.
    fn forward_datagram(&mut self, batch: &Batch<'_>, datagram: &[u8]) -> bool {
        let shared = self.shared;
        let Some(keys) = shared.tls.quic() else { return false };
        let Some(place) = destination(datagram).and_then(|id| keys.mask.place(id)) else { return false };
        // What a client has made up itself may look like an id as well.
        let long = datagram.first().is_some_and(|first| first & LONG_HEADER != 0);
        let ago = shared.quic_generation().wrapping_sub(place.generation);
        if ago == 0 {
            return false;
        }
        if ago > LATER {
            // The process of the datagram has begun to read, and this one has not heard of it yet: the datagram is sent again,
            // to the right one.
            return !long;
        }
        let word = Word::Datagrams(Batch { bytes: datagram, stride: datagram.len(), ..*batch });
        let links = shared.quic_links.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some((_, link)) = links.iter().find(|(generation, _)| *generation == place.generation) else {
            return !long && self.receiving_since.is_some_and(|since| self.clock.now < since + LINKS_WITHIN);
        };
        word.say(std::os::fd::AsFd::as_fd(&**link));
        self.row.datagrams_forwarded.add(1);
        true
    }

    fn take_datagram(&mut self, which: usize, batch: &Batch<'_>, datagram: BytesMut, answer: &mut Vec<u8>) {
        let now = self.clock.now;
        let Some(found) = self.datagrams.get_mut(which) else { return };
        answer.clear();
        let from = batch.remote;
        let arrived = Arrived { from, bytes: datagram.len(), handshake: is_handshake(&datagram) };
        let event = found.endpoint.handle(now, from, batch.destination, batch.ecn, datagram, answer);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(key) = found.session(handle) else { return };
                let quic = self.sessions.get_mut(key).and_then(|http3| http3.quic.as_deref_mut());
                if let Some(quic) = quic {
                    quic.take(arrived, event, now);
                    self.touch_session(key);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.welcome_quic(which, incoming, arrived.bytes, answer);
            }
            Some(DatagramEvent::Response(transmit)) => {
                self.answer_datagram(which, arrived.bytes, transmit, answer);
            }
            None => {}
        }
    }

    /// A client begins a connection by so many bytes: it is accepted, if there is room for it. If its address is proved, that
    /// must have no more than its share; if not, nothing counts for it until it is.
    pub(crate) fn welcome_quic(
        &mut self,
        which: usize,
        incoming: Incoming,
        bytes: usize,
        answer: &mut Vec<u8>,
    ) {
        let (now, leaves) = (self.clock.now, self.drain.is_some());
        let Some(found) = self.datagrams.get_mut(which) else { return };
        answer.clear();
        if leaves && found.reading {
            // Either the process that takes over reads this socket in a moment, and gets it when the client sends it again; or
            // none does, because there is no HTTP/3 here any more, and the client goes on over TCP.
            return found.endpoint.ignore(incoming);
        }
        let proved = incoming.remote_address_validated();
        if self.is_critical() {
            return self.refuse_quic(which, incoming, bytes, answer);
        }
        if proved && !self.has_quic_place() {
            return self.refuse_quic(which, incoming, bytes, answer);
        }
        if !proved && !self.has_unproved_place(incoming.remote_address()) {
            return self.ask_for_proof(which, incoming, bytes, answer);
        }
        self.row.accepted.add(1);
        match proved {
            true => self.accept_proved(which, incoming, bytes, answer),
            false if self.accept_quic(which, incoming, bytes, answer).is_none() => {
                self.shared.unproved.leave(false, now);
            }
            false => {}
        }
        self.shared.end_accept(self.number);
        self.reclaim();
    }

    fn accept_proved(&mut self, which: usize, incoming: Incoming, bytes: usize, answer: &mut Vec<u8>) {
        let remote = Some(incoming.remote_address());
        if !self.admit(remote) {
            return self.refuse_quic(which, incoming, bytes, answer);
        }
        let handshake = self.admit_handshake(remote);
        if !handshake {
            self.uncount(remote);
            return self.refuse_quic(which, incoming, bytes, answer);
        }
        let Some(index) = self.accept_quic(which, incoming, bytes, answer) else {
            return self.uncount(remote);
        };
        let connection = &mut self.connections[index];
        (connection.remote, connection.counted) = (Remote::new(remote), true);
    }

    /// Claims a place for a client that has not proved its address. The client gets none for which another connection would
    /// have to go, and none if the address that it says has all that it may have: if it is there, it proves that, and is
    /// refused then.
    fn has_unproved_place(&mut self, remote: SocketAddr) -> bool {
        if self.shared.addresses.is_full(remote) || !self.shared.begin_accept(self.number) {
            return false;
        }
        let fits = self.shared.unproved.enter(self.clock.now);
        if !fits {
            self.shared.end_accept(self.number);
        }
        fits
    }

    fn ask_for_proof(&mut self, which: usize, incoming: Incoming, bytes: usize, answer: &mut Vec<u8>) {
        self.row.quic_retries.add(1);
        let Some(found) = self.datagrams.get_mut(which) else { return };
        match found.endpoint.retry(incoming, answer) {
            Ok(transmit) => self.answer_datagram(which, bytes, transmit, answer),
            // The client was asked once already.
            Err(error) => found.endpoint.ignore(error.into_incoming()),
        }
    }

    /// Claims a place for a new connection, if there is one, or one can be made.
    fn has_quic_place(&mut self) -> bool {
        if self.shared.begin_accept(self.number) {
            return true;
        }
        let may = self.may_reclaim();
        if may {
            self.shared.force_accept(self.number);
        }
        may
    }

    fn refuse_quic(&mut self, which: usize, incoming: Incoming, bytes: usize, answer: &mut Vec<u8>) {
        self.row.quic_refused.add(1);
        let Some(found) = self.datagrams.get_mut(which) else { return };
        let transmit = found.endpoint.refuse(incoming, answer);
        self.answer_datagram(which, bytes, transmit, answer);
    }

    /// Gives back the index of the connection.
    fn accept_quic(
        &mut self,
        which: usize,
        incoming: Incoming,
        bytes: usize,
        answer: &mut Vec<u8>,
    ) -> Option<ConnKey> {
        let now = self.clock.now;
        let found = self.datagrams.get_mut(which)?;
        let (listen, remote) = (found.listen, incoming.remote_address());
        let paths = match incoming.remote_address_validated() {
            true => Paths::proved(remote),
            false => Paths::unproved(remote, bytes),
        };
        match found.endpoint.accept(incoming, now, answer, None) {
            Ok((handle, connection)) => {
                let index = self.insert(Entry::quic(listen, now));
                let timeout = self.limits().head_timeout;
                self.arm_in(index, timeout);
                self.begin_http3(index, Quic::new(connection, handle, which, paths));
                Some(index)
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.answer_datagram(which, bytes, transmit, answer);
                }
                None
            }
        }
    }

    /// Adds a datagram socket, which is not read yet.
    ///
    /// # Errors
    /// What epoll_ctl(2) says.
    pub(crate) fn add_datagrams(&mut self, socket: DatagramSocket) -> Result<(), String> {
        let token = Token::Datagrams(self.datagrams.len() as u32).pack();
        let added = epoll::add(&self.epoll, &socket.socket, token, epoll::EventFlags::empty());
        added.map_err(|error| error.to_string())?;
        self.datagrams.push(socket);
        Ok(())
    }

    /// Begins to read the datagram sockets in this process.
    pub(crate) fn read_datagram_sockets(&mut self) {
        self.receiving_since = self.shared.start.adopts.then_some(self.clock.now);
        for which in 0..self.datagrams.len() {
            if let Some(found) = self.datagrams.get_mut(which) {
                found.reading = true;
            }
            self.watch_datagrams(which);
        }
    }

    /// Another process reads the sockets of this address.
    pub(crate) fn leave_datagram_sockets(&mut self, local: SocketAddr) {
        for which in 0..self.datagrams.len() {
            if let Some(found) = self.datagrams.get_mut(which).filter(|found| found.local == local) {
                found.reading = false;
            }
            self.watch_datagrams(which);
        }
    }

    /// Datagrams that a later process has read.
    pub(crate) fn on_forwarded(&mut self, forwarded: &ForwardedDatagrams) {
        let Some(Word::Datagrams(batch)) = Word::read(&forwarded.word) else { return };
        let of =
            |found: &DatagramSocket| found.local == batch.local && found.number == u16::from(batch.socket);
        let Some(which) = self.datagrams.iter().position(of) else { return };
        let mut receiving = self.receiving.take().unwrap_or_default();
        let batch = Batch { remote: batch.seen_remote(), ..batch };
        self.take_batch(which, &batch, false, &mut receiving.answer);
        self.receiving = Some(receiving);
    }
}
