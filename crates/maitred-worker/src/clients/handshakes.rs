//! Handshakes on listeners where certificates are made on demand: which of them wait, and for how long
//! ([`hello`](crate::connection::hello)).

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::server::Accepted;

use super::Clients;
use super::tls_session::BUFFERED_BYTES_MAX;
use crate::connection::State;
use crate::connection::hello::{Failed, Hello, WaitingHello};
use crate::connection::table::Phase;
use crate::connection::tls::CIPHERTEXT_BYTES;
use crate::connection::wire::{Received, Wire};
use crate::keys::{ConnId, ConnKey, TlsKey};
use crate::shared::Outgoing;
use maitred_control::FromWorker;

impl Clients {
    /// The next bytes of a client whose first message is not complete yet.
    pub(crate) fn receive_hello(&mut self, index: ConnKey, session: TlsKey, rx: &mut Vec<u8>) -> Received {
        let connection = &self.connections[index];
        let Some(socket) = &connection.socket else { return Received::Broken };
        let (received, more) = match recv(socket, &mut self.buffers.ciphertext[..], RecvFlags::empty()) {
            Ok((_, 0)) => return Received::End,
            Ok((_, received)) => (received, received == CIPHERTEXT_BYTES || connection.hung_up),
            Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
            Err(_) => return Received::Broken,
        };
        let bytes = self.buffers.ciphertext.get(..received).unwrap_or_default().to_vec();
        self.take_hello(index, session, &bytes, more, rx)
    }

    /// The same, of bytes that are here.
    pub(crate) fn take_hello(
        &mut self,
        index: ConnKey,
        session: TlsKey,
        bytes: &[u8],
        more: bool,
        rx: &mut Vec<u8>,
    ) -> Received {
        let Some(secure) = self.tls_sessions.get_mut(session) else { return Received::Broken };
        if secure.begins_in_plain(bytes) {
            rx.extend_from_slice(bytes);
            return self.go_on_in_plain(index, session, more);
        }
        let Some(hello) = secure.hello.as_mut() else { return Received::Broken };
        let (accepted, rest) = match hello.take(bytes) {
            Ok(Some(complete)) => complete,
            Ok(None) => {
                if more {
                    self.look_again(index);
                }
                return Received::Nothing;
            }
            Err(failed) => return self.fail_handshake(index, failed),
        };
        let gone = self.connections[index].hung_up;
        if !gone && self.shared.tls.awaits(self.connections[index].listen, &accepted.client_hello()) {
            self.ask_for_names();
            if let Some(permit) = self.shared.tls.waiting().take(1) {
                let waits = WaitingHello { accepted, rest, permit };
                self.park_handshake(index, session, waits);
                self.connections[index].readable |= more;
                return Received::Nothing;
            }
        }
        self.begin_session(index, session, (accepted, &rest), more, rx)
    }

    /// Names that clients have asked for are on their way to the process that gets certificates.
    pub(crate) fn ask_for_names(&self) {
        for name in self.shared.tls.wanted().take() {
            self.shared.outbox.send(Outgoing::Tell(FromWorker::NameWanted(name)));
        }
    }

    fn park_handshake(&mut self, index: ConnKey, session: TlsKey, waits: WaitingHello) {
        if let Some(secure) = self.tls_sessions.get_mut(session) {
            secure.hello = Some(Hello::Waits(Box::new(waits)));
        }
        let connection = self.id(index);
        if self.handshakes.len() as u64 >= self.shared.tls.waiting().max() {
            // Handshakes that have gone meanwhile make room.
            let mut all = std::mem::take(&mut self.handshakes);
            all.retain(|connection| self.is_waiting_handshake(*connection));
            self.handshakes = all;
        }
        self.handshakes.push(connection);
        self.enter(index, State::Handshake);
        let timeout = self.shared.tls.wait_timeout();
        self.arm_in(index, timeout);
    }

    /// Which handshakes are to go on, because what they have waited for is there, or will not be: all that no certificate is
    /// being ordered for any more.
    pub(crate) fn ready_handshakes(&mut self) -> Vec<ConnKey> {
        let all = std::mem::take(&mut self.handshakes);
        let mut ready = Vec::new();
        for connection in all {
            if !self.is_waiting_handshake(connection) {
                continue;
            }
            let index = connection.key;
            let hello = self.waiting_hello(index).map(|hello| hello.accepted.client_hello());
            let listen = self.connections[index].listen;
            match hello.is_some_and(|hello| self.shared.tls.awaits(listen, &hello)) {
                true => self.handshakes.push(connection),
                false => ready.push(index),
            }
        }
        self.ask_for_names();
        ready
    }

    fn is_waiting_handshake(&self, connection: ConnId) -> bool {
        self.is_current(connection) && self.connections[connection.key].is(Phase::Handshake)
    }

    fn waiting_hello(&self, index: ConnKey) -> Option<&WaitingHello> {
        let Wire::Tls { session } = self.connections.get(index)?.wire else { return None };
        match self.tls_sessions.get(session)?.hello.as_ref()? {
            Hello::Waits(waits) => Some(waits),
            Hello::Reading(_) => None,
        }
    }

    /// Goes on with a handshake that has waited, with the certificates that are there now; without one, it fails.
    pub(crate) fn resume_session(&mut self, index: ConnKey, rx: &mut Vec<u8>) -> Received {
        let Wire::Tls { session } = self.connections[index].wire else { return Received::Broken };
        let hello = self.tls_sessions.get_mut(session).and_then(|secure| secure.hello.take());
        let Some(Hello::Waits(waits)) = hello else { return Received::Broken };
        let WaitingHello { accepted, rest, permit } = *waits;
        drop(permit);
        self.begin_session(index, session, (accepted, &rest), false, rx)
    }

    /// Begins the session of a client whose first message is there.
    fn begin_session(
        &mut self,
        index: ConnKey,
        session: TlsKey,
        (accepted, rest): (Accepted, &[u8]),
        more: bool,
        rx: &mut Vec<u8>,
    ) -> Received {
        let listen = usize::from(self.connections[index].listen);
        let Some(config) = self.shared.tls.config(listen) else { return Received::Broken };
        let Some(secure) = self.tls_sessions.get_mut(session) else { return Received::Broken };
        if let Err((error, mut alert)) = secure.begin(|| accepted.into_connection(config)) {
            let mut bytes = Vec::new();
            let _ = alert.write_all(&mut bytes);
            return self.fail_handshake(index, (error, bytes));
        }
        secure.tls.set_buffer_limit(Some(BUFFERED_BYTES_MAX));
        secure.hello = None;
        let before = rx.len();
        let taken = secure.take_kept(rx).and_then(|()| secure.take(rest, rx));
        self.follow_records(index, session, taken, rx.len() > before, more)
    }

    fn fail_handshake(&mut self, index: ConnKey, (error, alert): Failed) -> Received {
        if let Some(socket) = &self.connections[index].socket {
            // A few bytes, the first that are sent.
            let _ = send(socket, &alert, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
        self.note_tls_failure(index, &error);
        Received::Broken
    }
}
