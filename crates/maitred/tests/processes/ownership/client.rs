//! A client whose socket never blocks: every byte that it sends or takes is a decision of the test.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// One connection of a client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: Option<TcpStream>,
    /// The client's own address, by which a descriptor of the connection is recognised at the other end.
    pub(crate) local: SocketAddr,
    /// Everything that it means to send.
    out: Vec<u8>,
    sent: usize,
    /// Everything that it has received.
    pub(crate) received: Vec<u8>,
    /// The server has ended the connection.
    pub(crate) ended: bool,
    /// How it did so, if not by an end of the stream.
    pub(crate) error: Option<ErrorKind>,
    /// The server did so before the client had finished sending.
    pub(crate) early: bool,
    pub(crate) half_closed: bool,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr, out: Vec<u8>) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        let local = stream.local_addr().unwrap();
        Client {
            stream: Some(stream),
            local,
            out,
            sent: 0,
            received: Vec::new(),
            ended: false,
            error: None,
            early: false,
            half_closed: false,
        }
    }

    /// Sets the size of the receive buffer: a small one, so that responses do not fit into the kernel, or one that lets them
    /// through in no time.
    pub(crate) fn set_room(&self, bytes: usize) {
        if let Some(stream) = &self.stream {
            rustix::net::sockopt::set_socket_recv_buffer_size(stream, bytes).unwrap();
        }
    }

    /// How many bytes have left.
    pub(crate) fn sent(&self) -> usize {
        self.sent
    }

    /// Whether anything is left to send, and can be sent.
    pub(crate) fn may_send(&self) -> bool {
        self.stream.is_some() && !self.half_closed && !self.ended && self.sent < self.out.len()
    }

    /// Sends at most so many bytes.
    pub(crate) fn send(&mut self, at_most: usize) {
        let Some(stream) = &mut self.stream else { return };
        let end = self.out.len().min(self.sent.saturating_add(at_most));
        // The server may have closed; reading says how.
        if let Ok(sent) = stream.write(&self.out[self.sent..end]) {
            self.sent += sent;
        }
    }

    /// Appends something to send.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// The bytes that have left.
    pub(crate) fn bytes_sent(&self) -> &[u8] {
        &self.out[..self.sent]
    }

    /// Reads at most so many bytes, until nothing is there. Whether anything came.
    pub(crate) fn read(&mut self, at_most: usize) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        let (mut piece, mut left) = ([0; 65536], at_most);
        while left > 0 && !self.ended {
            let room = left.min(piece.len());
            match stream.read(&mut piece[..room]) {
                Ok(0) => self.ended = true,
                Ok(bytes) => {
                    self.received.extend_from_slice(&piece[..bytes]);
                    left -= bytes;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A reset.
                Err(error) => (self.ended, self.error) = (true, Some(error.kind())),
            }
        }
        self.early |= self.ended && !self.half_closed;
        left < at_most || self.ended
    }

    /// Says that it has no more to send.
    pub(crate) fn half_close(&mut self) {
        self.half_closed = true;
        if let Some(stream) = &self.stream {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    /// Closes, with a reset or without.
    pub(crate) fn leave(&mut self, reset: bool) {
        if let Some(stream) = self.stream.take()
            && reset
        {
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        }
    }
}
