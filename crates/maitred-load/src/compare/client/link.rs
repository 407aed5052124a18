//! A connection that waits, but never longer than its deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use rustls::{ClientConnection, StreamOwned};

use super::response::Failure;

/// A socket; no call waits beyond the deadline.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    deadline: Instant,
}

impl Socket {
    /// What is left of the time.
    fn left(&self) -> io::Result<std::time::Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Socket {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(out)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A connection, with TLS or without.
#[derive(Debug)]
pub(super) enum Link {
    /// TCP.
    Plain(Socket),
    /// TLS.
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Link {
    /// Connects, and ends the handshake if there is one.
    pub(super) fn open(
        address: SocketAddr,
        tls: Option<ClientConnection>,
        deadline: Instant,
    ) -> Result<Link, Failure> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::Timeout);
        }
        let stream = TcpStream::connect_timeout(&address, left).map_err(|error| match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Failure::Timeout,
            _ => Failure::Connect,
        })?;
        // A failure costs time only.
        let _ = stream.set_nodelay(true);
        let mut socket = Socket { stream, deadline };
        let Some(mut connection) = tls else { return Ok(Link::Plain(socket)) };
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).map_err(|error| match is_timeout(&error) {
                true => Failure::Timeout,
                false => Failure::Tls,
            })?;
        }
        Ok(Link::Tls(Box::new(StreamOwned::new(connection, socket))))
    }

    /// The protocol that both sides agreed on is HTTP/2.
    pub(super) fn has_agreed_on_http2(&self) -> bool {
        match self {
            Link::Plain(_) => true,
            Link::Tls(stream) => stream.conn.alpn_protocol() == Some(b"h2"),
        }
    }

    /// Until when the following calls may wait.
    pub(super) fn set_deadline(&mut self, deadline: Instant) {
        match self {
            Link::Plain(socket) => socket.deadline = deadline,
            Link::Tls(stream) => stream.sock.deadline = deadline,
        }
    }

    /// Sends all of it. A server may answer without reading everything, so that only a timeout is a failure: the response, or
    /// the lack of one, says the rest.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let sent = match self {
            Link::Plain(socket) => socket.write_all(bytes),
            Link::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        };
        match sent {
            Err(error) if is_timeout(&error) => Err(Failure::Timeout),
            _ => Ok(()),
        }
    }

    /// What has come; nothing at the end.
    pub(super) fn receive(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        loop {
            let read = match self {
                Link::Plain(socket) => socket.read(out),
                Link::Tls(stream) => stream.read(out),
            };
            return match read {
                Ok(count) => Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_timeout(&error) => Err(Failure::Timeout),
                // The end of TCP without the end of TLS: what was framed is judged by its framing.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
                Err(_) => Err(Failure::Closed),
            };
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}
