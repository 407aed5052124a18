//! A UDP socket with what QUIC wants of the kernel: segmentation, coalescing and ECN.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::BytesMut;
use quinn_proto::Transmit;
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Coalesced datagrams that one receive may bring.
const RECEIVE_SLOTS: usize = 4;
/// Bytes of a coalesced datagram: as many as UDP allows.
const SLOT_BYTES: usize = 64 << 10;
/// What the kernel is asked to hold of what was not read: it grants as much as `net.core.rmem_max` lets it.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// How long a full socket is waited for: a datagram that cannot be sent then is lost, and sent again as lost ones are.
const SEND_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Memory for datagrams, which all connections of a thread share.
#[derive(Debug)]
pub struct Buffers {
    rx: Vec<u8>,
    pub(super) tx: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Self {
        Buffers { rx: vec![0; RECEIVE_SLOTS * SLOT_BYTES], tx: Vec::new() }
    }
}

/// What has come from where.
pub(super) struct Received {
    pub(super) from: SocketAddr,
    pub(super) ecn: Option<quinn_proto::EcnCodepoint>,
    pub(super) datagram: BytesMut,
}

/// A socket that talks to one address.
#[derive(Debug)]
pub(super) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Socket {
    /// A socket at this address, connected, so that the kernel reports when no process listens there.
    pub(super) fn new(local: SocketAddr, remote: SocketAddr) -> io::Result<Socket> {
        let socket = UdpSocket::bind(local)?;
        socket.connect(remote)?;
        let state = UdpSocketState::new((&socket).into())?;
        // Less is slower, and works.
        let _ = state.set_recv_buffer_size((&socket).into(), RECEIVE_BUFFER_BYTES);
        Ok(Socket { socket, state })
    }

    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub(super) fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    /// Datagrams of one connection that may be sent together.
    pub(super) fn segments_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Gives the datagrams that have come to `take`, one by one; whether there may be more.
    ///
    /// # Errors
    /// When the kernel says that no process listens there, and the like.
    pub(super) fn receive(&self, rx: &mut [u8], mut take: impl FnMut(Received)) -> io::Result<bool> {
        let mut room = rx.chunks_exact_mut(SLOT_BYTES);
        let mut slots: [_; RECEIVE_SLOTS] =
            std::array::from_fn(|_| IoSliceMut::new(room.next().unwrap_or_default()));
        let mut metas = [RecvMeta::default(); RECEIVE_SLOTS];
        let count = match self.state.recv((&self.socket).into(), &mut slots, &mut metas) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        for (slot, meta) in slots.iter().zip(&metas).take(count) {
            // One allocation for all that was coalesced; what connections keep of it are slices.
            let mut all = BytesMut::from(slot.get(..meta.len).unwrap_or_default());
            let ecn = meta.ecn.and_then(|ecn| quinn_proto::EcnCodepoint::from_bits(ecn as u8));
            while !all.is_empty() {
                let datagram = all.split_to(meta.stride.clamp(1, all.len()));
                take(Received { from: meta.addr, ecn, datagram });
            }
        }
        Ok(count == RECEIVE_SLOTS)
    }

    /// Sends one datagram, or several of the same size, within the beginning of `contents`.
    pub(super) fn send(&self, transmit: &Transmit, contents: &[u8]) {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
            contents: contents.get(..transmit.size).unwrap_or_default(),
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        let is_full =
            |sent: io::Result<()>| sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        if is_full(self.state.try_send((&self.socket).into(), &transmit)) {
            let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&SEND_WAIT));
            let _ = self.state.try_send((&self.socket).into(), &transmit);
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Buffers {
    /// The room for what comes, and that for what goes.
    pub(super) fn rx(&mut self) -> (&mut [u8], &mut Vec<u8>) {
        (&mut self.rx, &mut self.tx)
    }
}
