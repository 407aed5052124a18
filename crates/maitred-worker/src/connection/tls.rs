//! TLS sessions: rustls, driven by the bytes of a socket.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use rustls::{CipherSuite, PeerMisbehaved, ProtocolVersion, ServerConnection};

use crate::connection::hello::Hello;
use crate::connection::multiplexed::Multiplexed;
use crate::connection::quic::Quic;
use crate::connection::wire::Wire;
use crate::entry::Entry;
use crate::keys::{ConnKey, SessionKey, Table, TlsKey};
use maitred_tls::client::{self, Identity};
use maitred_tls::early::EARLY_DATA_BYTES_MAX;
use maitred_tls::ktls::transmit::{Transmit, noting};

/// Bytes that are read from a socket at a time, to be decrypted: two records of the largest size, and no more, because
/// what comes of them has to fit into the receive buffer.
pub(crate) const CIPHERTEXT_BYTES: usize = 34 * 1024;

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
pub(crate) struct TlsSession {
    pub(crate) tls: ServerConnection,
    /// Something has come.
    touched: bool,
    /// The protocol that follows is known, because the handshake is over, or early data has come.
    pub(crate) begun: bool,
    /// The handshake is over. What came before may be a recording that an attacker has sent again (RFC 8446 section 8).
    pub(crate) settled: bool,
    /// The client has sent `close_notify`: nothing that comes after it is read (RFC 8446 section 6.1).
    pub(crate) closed: bool,
    /// The client has broken the protocol: nothing that was sent has ended in order.
    pub(crate) broken: bool,
    /// About how many bytes were encrypted and have not been sent.
    pub(crate) unsent: usize,
    /// Bytes of early data that were taken.
    early_bytes: usize,
    /// The name in the client's certificate.
    pub(crate) identity: Option<Box<Identity>>,
    /// What precedes the session where a handshake may have to wait; `tls` is not used before.
    pub(crate) hello: Option<Hello>,
    /// Who encrypts what is sent.
    pub(crate) sender: Sender,
}

/// Where in a record that the kernel encrypts the socket has stopped taking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The type of the record (RFC 8446 section 5.1).
    pub(crate) kind: u8,
    /// Bytes of it that are left.
    pub(crate) left: usize,
    /// Other keys follow it.
    pub(crate) last: bool,
}

/// Who encrypts what a session sends.
#[derive(Debug)]
pub(crate) enum Sender {
    /// rustls, always.
    Session,
    /// rustls, until the kernel is to: the keys are noted. `None`: there are none yet, or the session is one of TLS 1.2.
    Noted(Option<Arc<Transmit>>),
    /// The kernel.
    Kernel {
        /// Where in a record of rustls' the socket has stopped taking.
        record: Record,
        /// Keys that follow key updates which have not left yet, in their order. rustls bounds how many a client may ask for.
        next: VecDeque<Arc<Transmit>>,
    },
}

impl TlsSession {
    /// A session before its handshake. `noted`: the kernel may have to encrypt later.
    pub(crate) fn new(tls: ServerConnection, hello: Option<Hello>, noted: bool) -> TlsSession {
        let sender = if noted { Sender::Noted(None) } else { Sender::Session };
        TlsSession {
            tls,
            touched: false,
            begun: false,
            settled: false,
            closed: false,
            broken: false,
            unsent: 0,
            early_bytes: 0,
            identity: None,
            hello,
            sender,
        }
    }

    /// Whether these, the first bytes of a client, are no TLS but what HTTP begins with: no record of TLS, of whatever version,
    /// has a type that is a letter (RFC 8446 section 5.1, RFC 5246 appendix E.2).
    #[inline]
    pub(crate) fn begins_in_plain(&mut self, received: &[u8]) -> bool {
        !std::mem::replace(&mut self.touched, true) && received.first().is_some_and(u8::is_ascii_alphabetic)
    }

    /// Whether the kernel encrypts what is sent.
    pub(crate) fn is_by_kernel(&self) -> bool {
        matches!(self.sender, Sender::Kernel { .. })
    }

    /// Calls rustls, and notes the keys that it sends with from then on. Says whether there are new ones.
    fn noting<T>(&mut self, call: impl FnOnce(&mut ServerConnection) -> T) -> (T, bool) {
        if matches!(self.sender, Sender::Session) {
            return (call(&mut self.tls), false);
        }
        let (result, keys) = noting(self.is_by_kernel(), || call(&mut self.tls));
        let Some(keys) = keys else { return (result, false) };
        match &mut self.sender {
            Sender::Session => {}
            Sender::Noted(noted) => *noted = Some(keys),
            Sender::Kernel { next, .. } => next.push_back(keys),
        }
        (result, true)
    }

    /// Begins with a client whose first message was read already.
    ///
    /// # Errors
    /// What `begin` says.
    pub(crate) fn begin<E>(&mut self, begin: impl FnOnce() -> Result<ServerConnection, E>) -> Result<(), E> {
        self.noting(|tls| begin().map(|begun| *tls = begun)).0
    }

    /// Encrypts bytes, as many as there is room for.
    pub(crate) fn encrypt(&mut self, bytes: &[u8]) -> usize {
        // The writer writes into memory, and cannot fail.
        let written = self.noting(|tls| tls.writer().write(bytes)).0.unwrap_or(0);
        self.unsent += written;
        written
    }

    /// Has `write` take the encrypted bytes that wait, until it takes no more. True if nothing is left.
    ///
    /// # Errors
    /// What `write` says.
    pub(crate) fn flush(&mut self, write: &mut dyn io::Write) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(write) {
                Ok(sent) => self.unsent = self.unsent.saturating_sub(sent),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(false),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
        self.unsent = 0;
        Ok(true)
    }

    /// About how many bytes wait for the socket.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Takes received bytes, and appends to `rx` what they are decrypted to.
    pub(crate) fn take(&mut self, mut ciphertext: &[u8], rx: &mut Vec<u8>) -> Result<(), rustls::Error> {
        while !ciphertext.is_empty() && !self.closed {
            // A slice has no errors of its own: this one is about bytes after the end.
            if self.tls.read_tls(&mut ciphertext).is_err() {
                break;
            }
            self.take_kept(rx)?;
        }
        Ok(())
    }

    /// The same of what rustls has already.
    pub(crate) fn take_kept(&mut self, rx: &mut Vec<u8>) -> Result<(), rustls::Error> {
        let (state, changed) = self.noting(|tls| tls.process_new_packets());
        let state = state?;
        if changed && self.settled {
            // The client has asked for other keys. rustls keeps its answer until something else is sent by it, which may be
            // never if the kernel sends: nothing may be sent with the new keys before the answer (RFC 8446 section 4.6.3).
            self.encrypt(b"");
        }
        self.closed = state.peer_has_closed();
        self.take_early(rx)?;
        self.drain(state.plaintext_bytes_to_read(), rx);
        Ok(())
    }

    /// Early data: what a client sends before the handshake is over, where the configuration allows it.
    /// A client that sends more than its ticket has said breaks the protocol (RFC 8446 section 4.2.10).
    fn take_early(&mut self, rx: &mut Vec<u8>) -> Result<(), rustls::Error> {
        if let Some(mut early) = self.tls.early_data() {
            // From memory, and bounded by what was received at once.
            self.early_bytes += early.read_to_end(rx).unwrap_or(0);
            if self.early_bytes > EARLY_DATA_BYTES_MAX as usize {
                return Err(PeerMisbehaved::TooMuchEarlyDataReceived.into());
            }
        }
        Ok(())
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
pub(crate) struct TlsLookup<'a> {
    tls_sessions: &'a Table<TlsKey, Box<TlsSession>>,
    sessions: &'a Table<SessionKey, Box<Multiplexed>>,
    connections: &'a Table<ConnKey, Entry>,
}

impl<'a> TlsLookup<'a> {
    /// The tables of a thread.
    pub(crate) fn new(
        tls_sessions: &'a Table<TlsKey, Box<TlsSession>>,
        sessions: &'a Table<SessionKey, Box<Multiplexed>>,
        connections: &'a Table<ConnKey, Entry>,
    ) -> Self {
        TlsLookup { tls_sessions, sessions, connections }
    }

    pub(crate) fn secure(self, wire: Wire) -> Option<&'a TlsSession> {
        let wire = match wire {
            Wire::Stream { session, .. } => {
                let parent = self.sessions.get(session)?.index();
                self.connections.get(parent)?.wire
            }
            wire => wire,
        };
        match wire {
            Wire::Tls { session } => self.tls_sessions.get(session).map(Box::as_ref),
            _ => None,
        }
    }

    /// The QUIC connection of a stream.
    pub(crate) fn quic(self, wire: Wire) -> Option<&'a Quic> {
        match wire {
            Wire::Stream { session, .. } => self.sessions.get(session)?.quic.as_deref(),
            _ => None,
        }
    }

    /// The certificate that the client has shown, if it has.
    pub(crate) fn certificate(self, wire: Wire) -> Option<&'a Identity> {
        let secure = self.secure(wire).and_then(|secure| secure.identity.as_deref());
        secure.or_else(|| self.quic(wire)?.identity.as_deref())
    }

    /// Whether the client has shown a certificate, which was verified.
    pub(crate) fn has_certificate(self, wire: Wire) -> bool {
        self.certificate(wire).is_some()
    }

    /// Fields of a request that tell an application about the TLS of the client.
    pub(crate) fn fields(self, wire: Wire, mut field: impl FnMut(&str, &[u8])) {
        if let Some(quic) = self.quic(wire) {
            // QUIC has no other (RFC 9001 section 4.2). Which cipher it is, the library does not say.
            field(PROTOCOL_FIELD, b"TLSv1.3");
            if !quic.settled {
                field("early-data", b"1");
            }
            return self.put_identity(wire, field);
        }
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
        self.put_identity(wire, field);
    }

    fn put_identity(self, wire: Wire, mut field: impl FnMut(&str, &[u8])) {
        if let Some(identity) = self.certificate(wire) {
            for (name, value) in client::FIELDS.iter().zip(identity.fields()) {
                field(name, value.as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests;
