//! Connections that are removed, whatever their state.

use super::Exchanges;
use crate::connection::State;
use crate::entry::Entry;
use crate::foreign;
use crate::keys::ConnKey;

impl Exchanges {
    /// Takes a connection out of everything that refers to it: queue, upstream, counts, timers. The socket closes when the
    /// value is dropped.
    pub(crate) fn remove(&mut self, index: ConnKey) -> Option<Entry> {
        if !self.connections.contains(index) {
            return None;
        }
        if let State::HandedOff { channel, request, .. } = self.connections[index].state {
            self.orphan_request(channel, request);
        }
        if self.connections[index].shared {
            self.forget(index);
            if let Some(socket) = self.socket(index) {
                // The option belongs to the open socket, and an application may have set it: a close with unsent bytes would wait
                // for the time that the option has.
                let _ = rustix::net::sockopt::set_socket_linger(socket, None);
            }
        }
        let gated = self.exchange_of(index).and_then(|exchange| exchange.dispatch.gated.as_deref());
        let asked = gated.and_then(|gated| gated.waits.as_ref()?.question);
        asked.into_iter().for_each(|key| self.drop_question(key));
        self.forget_unsent(index);
        self.leave_queue(index);
        self.leave_upstream(index);
        let connection = &self.connections[index];
        let (session, wire) = (connection.session(), connection.wire);
        self.end_session(session);
        self.release_stream(wire);
        self.take_tls_session(wire);
        self.enter(index, State::Linger);
        self.row.lingering.sub(1);
        self.wheel.disarm(index);
        let mut connection = self.connections.remove(index);
        if connection.counted {
            self.uncount(connection.remote.address);
        }
        if let Some(exchange) = connection.exchange.take() {
            self.recycle(exchange);
        }
        if !connection.is_client() {
            self.streams -= 1;
        } else {
            self.row.connections.sub(1);
            match connection.is_admin() {
                true => self.admins -= 1,
                false => self.shared.yield_place(self.number),
            }
        }
        Some(connection)
    }

    /// Closes a connection. An application process may hold a copy of the socket, so closing alone would not end it.
    pub(crate) fn close(&mut self, index: ConnKey) {
        let Some(mut connection) = self.remove(index) else { return };
        match connection.socket.take() {
            Some(socket) if connection.is_foreign() => foreign::close(socket),
            Some(socket) if connection.shared => {
                let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
            }
            _ => {}
        }
    }
}
