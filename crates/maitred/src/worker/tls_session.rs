//! TLS connections: rustls, driven by this event loop.
//!
//! rustls does no I/O. What the socket brings goes through it into the thread's receive buffer, like the bytes of any other
//! connection, and what is sent goes through it into one sendmsg(2). What the socket does not take stays in the session, at
//! most [`BUFFERED_BYTES_MAX`], and nothing more is accepted meanwhile.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use rustls::{CipherSuite, HandshakeKind, ProtocolVersion, ServerConnection};

use slab::Slab;

use super::connection::{Connection, State};
use super::http2::Http2Connection;
use super::layers::{Clients, received_bytes_max};
use super::wire::{Received, Wire};
use crate::tls::client::{self, Identity};
use crate::tls::resolver::ACME_TLS;

/// Bytes that one session keeps for a socket that is full: four records, so that one sendmsg(2) is worth its while.
pub(super) const BUFFERED_BYTES_MAX: usize = 64 * 1024;
/// Bytes that are read from a socket at a time, to be decrypted: two records of the largest size, and no more, because
/// what comes of them has to fit into the receive buffer.
pub(super) const CIPHERTEXT_BYTES: usize = 34 * 1024;

/// Which version of TLS the client uses: `TLSv1.3`, `TLSv1.2`.
const PROTOCOL_FIELD: &str = "x-ssl-protocol";
/// The cipher suite, as the IANA's registry names it.
const CIPHER_FIELD: &str = "x-ssl-cipher";

/// The registry's name of a suite. rustls has a prefix of its own for those of TLS 1.3.
fn cipher(suite: CipherSuite) -> Option<&'static str> {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some("TLS_AES_128_GCM_SHA256"),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Some("TLS_AES_256_GCM_SHA384"),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some("TLS_CHACHA20_POLY1305_SHA256"),
        other => other.as_str(),
    }
}

/// One TLS session.
#[derive(Debug)]
pub struct TlsSession {
    tls: ServerConnection,
    /// It is known which protocol follows, because the handshake is over, or early data has come.
    begun: bool,
    /// The handshake is over. What came before may have been said by somebody else, who has heard it (RFC 8446 section 8).
    settled: bool,
    /// The client has said `close_notify`: nothing that comes behind it is looked at (RFC 8446 section 6.1).
    closed: bool,
    /// About how many bytes were encrypted and have not been sent.
    unsent: usize,
    /// Whom the client's certificate names.
    identity: Option<Box<Identity>>,
}

/// Writes to a socket, never waits, and never makes a signal.
struct Socket<'a>(BorrowedFd<'a>);

impl io::Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(sendmsg(self.0, pieces, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsSession {
    /// Sends what waits. True if nothing is left.
    fn flush(&mut self, socket: BorrowedFd<'_>) -> Result<bool, Errno> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Socket(socket)) {
                Ok(sent) => self.unsent = self.unsent.saturating_sub(sent),
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) => return Ok(false),
                    Some(Errno::INTR) => {}
                    errno => return Err(errno.unwrap_or(Errno::CONNRESET)),
                },
            }
        }
        self.unsent = 0;
        Ok(true)
    }

    /// About how many bytes wait for the socket.
    pub(super) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Takes received bytes, and appends to `rx` what they say.
    fn take(&mut self, mut ciphertext: &[u8], rx: &mut Vec<u8>) -> Result<(), rustls::Error> {
        while !ciphertext.is_empty() && !self.closed {
            // A slice has no errors of its own: this one is about bytes behind the end.
            if self.tls.read_tls(&mut ciphertext).is_err() {
                break;
            }
            let state = self.tls.process_new_packets()?;
            self.closed = state.peer_has_closed();
            self.take_early(rx);
            self.drain(state.plaintext_bytes_to_read(), rx);
        }
        Ok(())
    }

    /// What a client says before the handshake is over; only where the configuration lets it.
    fn take_early(&mut self, rx: &mut Vec<u8>) {
        if let Some(mut early) = self.tls.early_data() {
            // From memory, and bounded by `max_early_data_size`.
            let _ = early.read_to_end(rx);
        }
    }

    fn drain(&mut self, bytes: usize, rx: &mut Vec<u8>) {
        let before = rx.len();
        rx.resize(before + bytes, 0);
        let read = self.tls.reader().read(rx.get_mut(before..).unwrap_or_default()).unwrap_or(0);
        rx.truncate(before + read);
    }
}

/// Where the TLS session of a connection, or of a stream, is found.
#[derive(Debug, Clone, Copy)]
pub(super) struct TlsLookup<'a> {
    tls_sessions: &'a Slab<Box<TlsSession>>,
    sessions: &'a Slab<Box<Http2Connection>>,
    connections: &'a Slab<Connection>,
}

impl<'a> TlsLookup<'a> {
    /// The tables of a thread.
    pub(super) fn new(
        tls_sessions: &'a Slab<Box<TlsSession>>,
        sessions: &'a Slab<Box<Http2Connection>>,
        connections: &'a Slab<Connection>,
    ) -> Self {
        TlsLookup { tls_sessions, sessions, connections }
    }

    fn secure(self, wire: Wire) -> Option<&'a TlsSession> {
        let wire = match wire {
            Wire::Stream { session, .. } => {
                let parent = self.sessions.get(session as usize)?.index();
                self.connections.get(parent as usize)?.wire
            }
            wire => wire,
        };
        match wire {
            Wire::Tls { session } => self.tls_sessions.get(session as usize).map(Box::as_ref),
            _ => None,
        }
    }

    /// What an application is told of the client's TLS: fields of its request.
    pub(super) fn fields(self, wire: Wire, mut field: impl FnMut(&str, &[u8])) {
        let Some(secure) = self.secure(wire) else { return };
        if let Some(version) = secure.tls.protocol_version() {
            field(PROTOCOL_FIELD, if version == ProtocolVersion::TLSv1_3 { b"TLSv1.3" } else { b"TLSv1.2" });
        }
        if let Some(name) = secure.tls.negotiated_cipher_suite().and_then(|suite| cipher(suite.suite())) {
            field(CIPHER_FIELD, name.as_bytes());
        }
        if !secure.settled {
            field("early-data", b"1");
        }
        if let Some(identity) = &secure.identity {
            for (name, value) in client::FIELDS.iter().zip(identity.fields()) {
                field(name, value.as_bytes());
            }
        }
    }
}

impl Clients {
    /// Makes a connection a TLS one, if its listener says so. False if that fails.
    pub(super) fn secure(&mut self, index: u32) -> bool {
        let shared = self.shared;
        let connection = &mut self.connections[index as usize];
        let Some(config) = shared.tls.config(usize::from(connection.listen)) else { return true };
        if connection.admin {
            return true;
        }
        let Ok(mut tls) = ServerConnection::new(config) else { return false };
        tls.set_buffer_limit(Some(BUFFERED_BYTES_MAX));
        let secure =
            TlsSession { tls, begun: false, settled: false, closed: false, unsent: 0, identity: None };
        let session = self.tls_sessions.insert(Box::new(secure)) as u32;
        connection.wire = Wire::Tls { session };
        connection.secure = true;
        true
    }

    /// The session of a connection that moves on to another thread.
    pub(super) fn take_tls_session(&mut self, wire: Wire) -> Option<Box<TlsSession>> {
        match wire {
            Wire::Tls { session } => self.tls_sessions.try_remove(session as usize),
            _ => None,
        }
    }

    /// A connection has come from another thread with its session.
    pub(super) fn put_secure(&mut self, secure: Box<TlsSession>) -> Wire {
        Wire::Tls { session: self.tls_sessions.insert(secure) as u32 }
    }

    pub(super) fn receive_secure(&mut self, index: u32, session: u32, rx: &mut Vec<u8>) -> Received {
        let connection = &self.connections[index as usize];
        let (Some(socket), Some(secure)) = (&connection.socket, self.tls_sessions.get_mut(session as usize))
        else {
            return Received::Broken;
        };
        if secure.closed {
            return Received::End;
        }
        if rx.len() + CIPHERTEXT_BYTES > received_bytes_max(&self.head_limits) {
            // Requests come faster than they are answered: first those that are here. No head fills as much alone.
            return Received::Bytes { more: true };
        }
        let (received, more) = match recv(socket, &mut self.buffers.ciphertext[..], RecvFlags::empty()) {
            Ok((_, 0)) => return Received::End,
            Ok((_, received)) => (received, received == CIPHERTEXT_BYTES || connection.hung_up),
            Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
            Err(_) => return Received::Broken,
        };
        let before = rx.len();
        let taken = secure.take(self.buffers.ciphertext.get(..received).unwrap_or_default(), rx);
        self.follow_records(index, session, taken, rx.len() > before, more)
    }

    /// A connection becomes a TLS one with these bytes: what came before was not encrypted. They are part of what one receive
    /// buffer holds, and so is what they say.
    pub(super) fn begin_secure(
        &mut self,
        index: u32,
        received: &[u8],
        more: bool,
        rx: &mut Vec<u8>,
    ) -> Received {
        rx.clear();
        let secure = match (self.secure(index), self.connections[index as usize].wire) {
            (true, Wire::Tls { session }) => {
                self.tls_sessions.get_mut(session as usize).map(|secure| (session, secure))
            }
            _ => None,
        };
        let Some((session, secure)) = secure else { return Received::Broken };
        let taken = secure.take(received, rx);
        self.follow_records(index, session, taken, !rx.is_empty(), more)
    }

    /// Does what records ask for. `bytes`: they had some for those above.
    fn follow_records(
        &mut self,
        index: u32,
        session: u32,
        taken: Result<(), rustls::Error>,
        bytes: bool,
        more: bool,
    ) -> Received {
        let connection = &self.connections[index as usize];
        let (Some(socket), Some(secure)) = (&connection.socket, self.tls_sessions.get_mut(session as usize))
        else {
            return Received::Broken;
        };
        // Handshake messages, tickets and alerts.
        let flushed = secure.flush(socket.as_fd());
        let settles = !secure.settled && !secure.tls.is_handshaking();
        let begins = !secure.begun && (settles || bytes);
        let closed = secure.closed;
        if let Err(error) = taken {
            self.note_tls_failure(index, &error);
            return Received::Broken;
        }
        if flushed.is_err() {
            return Received::Broken;
        }
        if closed && !bytes {
            return Received::End;
        }
        if begins {
            self.begin_protocol(index, session);
        }
        if settles {
            self.settle_handshake(session);
            if self.connections[index as usize].state == State::Writing {
                // What could not be encrypted before goes on now.
                self.look_again(index);
            }
            if self.is_challenge(session) {
                return Received::Broken;
            }
        }
        match bytes {
            // The end is for the next look, as it is where FIN comes with data.
            true => Received::Bytes { more: more || closed },
            false if more => {
                self.look_again(index);
                Received::Nothing
            }
            false => Received::Nothing,
        }
    }

    /// The client and this server have agreed on a protocol (ALPN, RFC 7301).
    fn begin_protocol(&mut self, index: u32, session: u32) {
        let Some(secure) = self.tls_sessions.get_mut(session as usize) else { return };
        secure.begun = true;
        if secure.tls.alpn_protocol() == Some(b"h2".as_slice()) {
            self.begin_http2(index);
        }
    }

    /// The handshake is over.
    fn settle_handshake(&mut self, session: u32) {
        let row = self.row;
        let Some(secure) = self.tls_sessions.get_mut(session as usize) else { return };
        secure.settled = true;
        secure.identity = Identity::of(&secure.tls).map(Box::new);
        row.tls_handshakes.add(1);
        let resumed = secure.tls.handshake_kind() == Some(HandshakeKind::Resumed);
        self.row.tls_resumed.add(u64::from(resumed));
    }

    /// Whether the handshake was all that a certificate authority wanted (RFC 8737 section 3): no data is exchanged.
    fn is_challenge(&self, session: u32) -> bool {
        let secure = self.tls_sessions.get(session as usize);
        secure.is_some_and(|secure| secure.tls.alpn_protocol() == Some(ACME_TLS))
    }

    /// Whether what comes now may have been heard and said again by somebody else.
    pub(super) fn is_early(&self, index: u32) -> bool {
        let Some(connection) = self.connections.get(index as usize).filter(|found| found.secure) else {
            return false;
        };
        let lookup = TlsLookup::new(&self.tls_sessions, &self.sessions, &self.connections);
        lookup.secure(connection.wire).is_some_and(|secure| !secure.settled)
    }

    fn note_tls_failure(&mut self, index: u32, error: &rustls::Error) {
        self.row.tls_failures.add(1);
        let remote = self.connections[index as usize].remote;
        self.log_limited(|| {
            tracing::info!(peer = remote.text(), "TLS failed: {error}");
        });
    }

    /// Encrypts and sends; what it takes is bounded by what the session may keep.
    pub(super) fn send_secure(&mut self, index: u32, session: u32, bytes: &[u8]) -> Result<usize, Errno> {
        let connection = &self.connections[index as usize];
        let (Some(socket), Some(secure)) = (&connection.socket, self.tls_sessions.get_mut(session as usize))
        else {
            return Err(Errno::CONNRESET);
        };
        let socket = socket.as_fd();
        let mut taken = 0;
        while secure.flush(socket)? && taken < bytes.len() {
            let rest = bytes.get(taken..).unwrap_or_default();
            // It writes into memory, and cannot fail.
            match secure.tls.writer().write(rest).unwrap_or(0) {
                // It is full of what cannot be encrypted yet.
                0 => break,
                written => {
                    taken += written;
                    secure.unsent += written;
                }
            }
        }
        if taken == 0 && !bytes.is_empty() { Err(Errno::AGAIN) } else { Ok(taken) }
    }

    pub(super) fn flush_secure(&mut self, index: u32, session: u32) -> Result<bool, Errno> {
        let socket = self.connections.get(index as usize).and_then(|connection| connection.socket.as_ref());
        let (Some(socket), Some(secure)) = (socket, self.tls_sessions.get_mut(session as usize)) else {
            return Err(Errno::CONNRESET);
        };
        secure.flush(socket.as_fd())
    }

    /// Tells the client that nothing was cut off.
    pub(super) fn notify_close(&mut self, index: u32, session: u32) {
        if let Some(secure) = self.tls_sessions.get_mut(session as usize) {
            secure.tls.send_close_notify();
        }
        // What the socket does not take now is of no use later.
        let _ = self.flush_secure(index, session);
    }
}
