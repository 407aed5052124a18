//! A UDP socket with ECN marks, and room to receive into.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};

/// Buffers that are filled by one system call. Each can have many datagrams in it, because the kernel joins those of a sender.
const BUFFERS: usize = 8;
/// The most that the kernel joins.
const BUFFER_BYTES: usize = 64 * 1024;
/// What the kernel keeps until it is read: a few hundredths of a second at 100 MB/s.
const RECEIVE_BYTES: usize = 8 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Socket {
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Socket> {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // More than the system's limit takes a privilege.
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES).is_err() {
            state.set_recv_buffer_size(UdpSockRef::from(&socket), RECEIVE_BYTES)?;
        }
        Ok(Socket { socket, state })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends one datagram; false if the kernel did not take it.
    pub(crate) fn send(&self, destination: SocketAddr, contents: &[u8], ecn: Option<EcnCodepoint>) -> bool {
        let transmit = Transmit { destination, ecn, contents, segment_size: None, src_ip: None };
        self.state.try_send(UdpSockRef::from(&self.socket), &transmit).is_ok()
    }

    /// Receives what is there into the room; false if there was nothing.
    pub(crate) fn receive(&self, room: &mut Room) -> io::Result<bool> {
        let mut rest = room.bytes.chunks_exact_mut(BUFFER_BYTES);
        let mut slices: [IoSliceMut<'_>; BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or_default()));
        match self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut room.metas) {
            Ok(filled) => room.filled = filled,
            // A refusal is about a datagram that was sent.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {
                room.filled = 0;
            }
            Err(error) => return Err(error),
        }
        Ok(room.filled > 0)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What one receive brings.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: Vec<u8>,
    metas: [RecvMeta; BUFFERS],
    filled: usize,
}

impl Room {
    pub(crate) fn new() -> Room {
        Room { bytes: vec![0; BUFFERS * BUFFER_BYTES], metas: [RecvMeta::default(); BUFFERS], filled: 0 }
    }

    /// The datagrams, each by itself: sender, bytes, mark.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = (SocketAddr, &[u8], Option<EcnCodepoint>)> {
        let buffers = self.bytes.chunks_exact(BUFFER_BYTES).zip(&self.metas).take(self.filled);
        buffers.flat_map(|(bytes, meta)| {
            let bytes = bytes.get(..meta.len).unwrap_or_default();
            // An empty datagram is none for QUIC.
            bytes.chunks(meta.stride.max(1)).map(|bytes| (meta.addr, bytes, meta.ecn))
        })
    }
}
