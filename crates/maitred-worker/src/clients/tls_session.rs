//! TLS connections: rustls, driven by this event loop.
//!
//! rustls does no I/O. Bytes from the socket go through it into the thread's receive buffer, like the bytes of any other
//! connection, and what is sent goes through it into one sendmsg(2). What the socket does not take stays in the session, at most
//! [`BUFFERED_BYTES_MAX`], and nothing more is accepted meanwhile: a response has ended when that is empty, too
//! (`Clients::is_flushed`).

use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::{HandshakeKind, ServerConnection};

use super::tls_kernel::is_worn_out;
use super::{Clients, received_bytes_max};
use crate::connection::hello::Hello;
use crate::connection::table::Phase;
use crate::connection::tls::{CIPHERTEXT_BYTES, Sender, TlsLookup, TlsSession};
use crate::connection::wire::{Received, Then, Wire};
use crate::kernel_writer::KernelWriter;
use crate::keys::{ConnKey, TlsKey};
use crate::socket_writer::SocketWriter;
use maitred_tls::client::Identity;
use maitred_tls::resolver::ACME_TLS;

/// Bytes that one session keeps for a socket that is full: four records, so that one sendmsg(2) is worth its while.
pub(crate) const BUFFERED_BYTES_MAX: usize = 64 * 1024;

/// Sends what a session has to say. True if nothing is left.
///
/// # Errors
/// What sendmsg(2) says, or setsockopt(2) about other keys.
pub(super) fn flush(session: &mut TlsSession, socket: BorrowedFd<'_>) -> Result<bool, Errno> {
    let sent = match &mut session.sender {
        Sender::Kernel { record, next } => {
            let (mut record, mut next) = (*record, std::mem::take(next));
            let sent = session.flush(&mut KernelWriter { socket, record: &mut record, next: &mut next });
            session.sender = Sender::Kernel { record, next };
            sent
        }
        _ => session.flush(&mut SocketWriter(socket)),
    };
    sent.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::CONNRESET))
}

impl Clients {
    /// Makes a connection a TLS one, if its listener has TLS. False if that fails.
    pub(crate) fn secure(&mut self, index: ConnKey) -> bool {
        let shared = self.shared;
        let connection = &self.connections[index];
        let Some(config) = shared.tls.config(usize::from(connection.listen)) else { return true };
        if connection.is_admin() {
            return true;
        }
        let address = connection.remote.address;
        if !self.admit_handshake(address) {
            return false;
        }
        let connection = &mut self.connections[index];
        let Ok(mut tls) = ServerConnection::new(config) else { return false };
        tls.set_buffer_limit(Some(BUFFERED_BYTES_MAX));
        let looked_at = shared.tls.looks_first();
        let hello = looked_at.then(|| Hello::Reading(Box::default()));
        let noted = shared.tls.by_kernel(usize::from(connection.listen));
        let secure = TlsSession::new(tls, hello, noted);
        let session = self.tls_sessions.insert(Box::new(secure));
        connection.wire = Wire::Tls { session };
        connection.secure = true;
        true
    }

    /// The session of a connection that moves on to another thread.
    pub(crate) fn take_tls_session(&mut self, wire: Wire) -> Option<Box<TlsSession>> {
        match wire {
            Wire::Tls { session } => self.tls_sessions.try_remove(session),
            _ => None,
        }
    }

    /// A connection has come from another thread with its session.
    pub(crate) fn put_secure(&mut self, secure: Box<TlsSession>) -> Wire {
        Wire::Tls { session: self.tls_sessions.insert(secure) }
    }

    pub(crate) fn receive_secure(&mut self, index: ConnKey, session: TlsKey, rx: &mut Vec<u8>) -> Received {
        let connection = &self.connections[index];
        let (Some(socket), Some(secure)) = (&connection.socket, self.tls_sessions.get_mut(session)) else {
            return Received::Broken;
        };
        if secure.closed {
            return Received::End;
        }
        if secure.hello.is_some() {
            return self.receive_hello(index, session, rx);
        }
        if rx.len() + CIPHERTEXT_BYTES > received_bytes_max(&self.head_limits) {
            // Requests come faster than they are answered: first those that are here. No head fills as much alone.
            return Received::Bytes { more: true };
        }
        if secure.is_by_kernel() && is_worn_out(socket.as_fd()) {
            return Received::End;
        }
        // An application that had the socket may have had its calls wait.
        let (received, more) = match recv(socket, &mut self.buffers.ciphertext[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Received::End,
            Ok((_, received)) => (received, received == CIPHERTEXT_BYTES || connection.hung_up),
            Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
            Err(_) => return Received::Broken,
        };
        let ciphertext = self.buffers.ciphertext.get(..received).unwrap_or_default();
        if secure.begins_in_plain(ciphertext) {
            rx.extend_from_slice(ciphertext);
            return self.go_on_in_plain(index, session, more);
        }
        let before = rx.len();
        let taken = secure.take(self.buffers.ciphertext.get(..received).unwrap_or_default(), rx);
        self.follow_records(index, session, taken, rx.len() > before, more)
    }

    /// Begins TLS on a connection with these bytes: what came before them was not encrypted. The bytes are part of what one
    /// receive buffer holds, so they fit into one when decrypted.
    pub(crate) fn begin_secure(
        &mut self,
        index: ConnKey,
        received: &[u8],
        more: bool,
        rx: &mut Vec<u8>,
    ) -> Received {
        rx.clear();
        let secure = match (self.secure(index), self.connections[index].wire) {
            (true, Wire::Tls { session }) => {
                self.tls_sessions.get_mut(session).map(|secure| (session, secure))
            }
            _ => None,
        };
        let Some((session, secure)) = secure else { return Received::Broken };
        if secure.hello.is_some() {
            return self.take_hello(index, session, received, more, rx);
        }
        if secure.begins_in_plain(received) {
            rx.extend_from_slice(received);
            return self.go_on_in_plain(index, session, more);
        }
        let taken = secure.take(received, rx);
        self.follow_records(index, session, taken, !rx.is_empty(), more)
    }

    /// A client speaks HTTP where TLS is spoken. The client has its request read and refused in what it speaks, since an alert
    /// of TLS would tell it, and its user, nothing.
    #[cold]
    pub(super) fn go_on_in_plain(&mut self, index: ConnKey, session: TlsKey, more: bool) -> Received {
        let _ = self.tls_sessions.try_remove(session);
        let connection = &mut self.connections[index];
        (connection.wire, connection.secure) = (Wire::Clear, false);
        self.row.tls_failures.add(1);
        Received::Bytes { more }
    }

    /// Acts on received records. `bytes`: they had content for the layer above.
    pub(super) fn follow_records(
        &mut self,
        index: ConnKey,
        session: TlsKey,
        taken: Result<(), rustls::Error>,
        bytes: bool,
        more: bool,
    ) -> Received {
        let connection = &self.connections[index];
        let (Some(socket), Some(secure)) = (&connection.socket, self.tls_sessions.get_mut(session)) else {
            return Received::Broken;
        };
        // Handshake messages, tickets and alerts.
        let flushed = flush(secure, socket.as_fd());
        let settles = !secure.settled && !secure.tls.is_handshaking();
        let begins = !secure.begun && (settles || bytes);
        let closed = secure.closed;
        if let Err(error) = taken {
            secure.broken = true;
            self.note_tls_failure(index, &error);
            self.ask_for_names();
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
            self.settle_handshake(index, session);
            if self.connections[index].is(Phase::Writing) {
                // A response that could not be encrypted before continues now.
                self.look_again(index);
            }
            if self.is_challenge(session) {
                return Received::Broken;
            }
        }
        match bytes {
            // The end is for the next call, as it is where FIN comes with data.
            true => Received::Bytes { more: more || closed },
            false if more => {
                self.look_again(index);
                Received::Nothing
            }
            false => Received::Nothing,
        }
    }

    /// The client and this server have agreed on a protocol (ALPN, RFC 7301).
    fn begin_protocol(&mut self, index: ConnKey, session: TlsKey) {
        let Some(secure) = self.tls_sessions.get_mut(session) else { return };
        secure.begun = true;
        if secure.tls.alpn_protocol() == Some(b"h2".as_slice()) {
            self.begin_http2(index);
        }
    }

    /// The handshake is over.
    fn settle_handshake(&mut self, index: ConnKey, session: TlsKey) {
        let row = self.row;
        let Some(secure) = self.tls_sessions.get_mut(session) else { return };
        secure.settled = true;
        secure.identity = Identity::of(&secure.tls).map(Box::new);
        row.tls_handshakes.add(1);
        let resumed = secure.tls.handshake_kind() == Some(HandshakeKind::Resumed);
        self.row.tls_resumed.add(u64::from(resumed));
        if resumed {
            self.take_back_handshake(self.connections[index].remote.address);
        }
    }

    /// Whether the handshake was all that a certificate authority wanted (RFC 8737 section 3): no data is exchanged.
    fn is_challenge(&self, session: TlsKey) -> bool {
        let secure = self.tls_sessions.get(session);
        secure.is_some_and(|secure| secure.tls.alpn_protocol() == Some(ACME_TLS))
    }

    /// Whether what comes now is early data, which an attacker may have recorded and sent again.
    pub(crate) fn is_early(&self, index: ConnKey) -> bool {
        let Some(connection) = self.connections.get(index).filter(|found| found.secure) else {
            return false;
        };
        let lookup = TlsLookup::new(&self.tls_sessions, &self.sessions, &self.connections);
        lookup.secure(connection.wire).is_some_and(|secure| !secure.settled)
            || lookup.quic(connection.wire).is_some_and(|quic| !quic.settled)
    }

    pub(super) fn note_tls_failure(&mut self, index: ConnKey, error: &rustls::Error) {
        self.row.tls_failures.add(1);
        let remote = self.connections[index].remote;
        self.log_limited(|| {
            tracing::info!(peer = remote.text(), "TLS failed: {error}");
        });
    }

    /// Encrypts and sends; what it takes is bounded by what the session may keep.
    pub(crate) fn send_secure(
        &mut self,
        index: ConnKey,
        session: TlsKey,
        bytes: &[u8],
        then: Then,
    ) -> Result<usize, Errno> {
        let connection = &self.connections[index];
        let (Some(socket), Some(secure)) = (&connection.socket, self.tls_sessions.get_mut(session)) else {
            return Err(Errno::CONNRESET);
        };
        let socket = socket.as_fd();
        if secure.is_by_kernel() {
            if !flush(secure, socket)? {
                return Err(Errno::AGAIN);
            }
            let more = if then == Then::More { SendFlags::MORE } else { SendFlags::empty() };
            return send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT | more);
        }
        let mut taken = 0;
        while flush(secure, socket)? && taken < bytes.len() {
            let rest = bytes.get(taken..).unwrap_or_default();
            match secure.encrypt(rest) {
                // The session is full of what cannot be encrypted yet.
                0 => break,
                written => taken += written,
            }
        }
        if taken == 0 && !bytes.is_empty() { Err(Errno::AGAIN) } else { Ok(taken) }
    }

    pub(crate) fn flush_secure(&mut self, index: ConnKey, session: TlsKey) -> Result<bool, Errno> {
        let socket = self.connections.get(index).and_then(|connection| connection.socket.as_ref());
        let (Some(socket), Some(secure)) = (socket, self.tls_sessions.get_mut(session)) else {
            return Err(Errno::CONNRESET);
        };
        flush(secure, socket.as_fd())
    }

    /// Sends `close_notify`, so that the client knows that nothing is missing; not where the session has broken off, because a
    /// response that only the end of the connection delimits would look whole.
    pub(crate) fn notify_close(&mut self, index: ConnKey, session: TlsKey) {
        if let Some(secure) = self.tls_sessions.get_mut(session).filter(|secure| !secure.broken) {
            secure.tls.send_close_notify();
        }
        // What the socket does not take now is not sent later.
        let _ = self.flush_secure(index, session);
    }
}
