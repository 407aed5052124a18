//! The table of connections: how they come into it, change their state, and go.

use std::os::fd::AsFd;

use rustix::event::epoll;

use super::Clients;
use crate::agenda::Next;
use crate::connection::table::Phase;
use crate::connection::{Exchange, State};
use crate::entry::Entry;
use crate::keys::{ConnId, ConnKey};
use crate::token::{SERIAL_MASK, Token};
use crate::upstream::Attempt;

impl Clients {
    /// Has something follow on a connection once the present step has returned.
    pub(crate) fn follow_up(&mut self, index: ConnKey, next: Next) {
        if let Some(connection) = self.id_of(index) {
            self.base.agenda.connection(connection, next);
        }
    }

    /// Gives a connection a place in the next turn, once.
    pub(crate) fn look_again(&mut self, index: ConnKey) {
        let connection = &mut self.connections[index];
        if !std::mem::replace(&mut connection.again, true) {
            let connection = ConnId { key: index, serial: connection.serial };
            self.again.push(connection);
        }
    }

    /// The id of the connection at `index`, if there is one.
    pub(crate) fn id_of(&self, index: ConnKey) -> Option<ConnId> {
        let connection = self.connections.get(index)?;
        Some(ConnId { key: index, serial: connection.serial })
    }

    /// The same of one that is there.
    pub(crate) fn id(&self, index: ConnKey) -> ConnId {
        ConnId { key: index, serial: self.connections[index].serial }
    }

    /// Whether a connection is still there: another one may have its place.
    pub(crate) fn is_current(&self, connection: ConnId) -> bool {
        self.connections.get(connection.key).is_some_and(|found| found.serial == connection.serial)
    }

    /// Puts a connection into the epoll set, once for its whole life: edge-triggered, so that it never has to be
    /// changed, and both ways, so that no call is needed to wait for room.
    pub(crate) fn register(&mut self, index: ConnKey) -> bool {
        use epoll::EventFlags as F;
        let connection = &mut self.connections[index];
        if connection.registered {
            return true;
        }
        let token = Token::Connection(ConnId { key: index, serial: connection.serial }).pack();
        let Some(socket) = &connection.socket else { return true };
        match epoll::add(&self.base.epoll, socket, token, F::IN | F::OUT | F::RDHUP | F::ET) {
            Ok(()) => connection.registered = true,
            Err(error) => {
                self.base.log_limited(|| tracing::error!(%error, "cannot watch a connection"));
            }
        }
        connection.registered
    }

    /// Moves a connection to a state, and keeps the scoreboard's gauges in step. Gives back the state in which it was, with all
    /// that belonged to that.
    pub(crate) fn enter(&mut self, index: ConnKey, state: State) -> State {
        let row = self.row;
        let gauge = |phase: Phase| match phase {
            Phase::Idle => &row.idle,
            Phase::Multiplexed => &row.multiplexed,
            Phase::HandedOff | Phase::Upstream => &row.handed_off,
            Phase::Writing | Phase::Watching => &row.writing,
            Phase::Queued => &row.queued,
            Phase::Head | Phase::Body | Phase::Spooling => &row.reading,
            Phase::Handshake | Phase::Disk | Phase::Gate | Phase::Command => &row.waiting,
            Phase::Linger => &row.lingering,
        };
        let next = state.phase();
        let was = std::mem::replace(&mut self.connections[index].state, state);
        if was.phase() != next {
            gauge(was.phase()).sub(1);
            gauge(next).add(1);
        }
        was
    }

    /// An upstream has the request now.
    pub(crate) fn enter_upstream(&mut self, index: ConnKey, attempt: Box<Attempt>) {
        self.enter(index, State::Upstream(attempt));
    }

    /// The upstream has nothing to do with the request any more: its attempt, if there was one.
    pub(crate) fn take_attempt(&mut self, index: ConnKey) -> Option<Box<Attempt>> {
        self.attempt_of(index)?;
        match self.enter(index, State::Head) {
            State::Upstream(attempt) => Some(attempt),
            _ => None,
        }
    }

    /// Adds a connection, idle.
    pub(crate) fn insert(&mut self, mut connection: Entry) -> ConnKey {
        self.serial = (self.serial + 1) & SERIAL_MASK;
        connection.serial = self.serial;
        debug_assert!(connection.is(Phase::Idle));
        let (stream, admin) = (!connection.is_client(), connection.is_admin());
        let index = self.connections.insert(connection);
        self.row.idle.add(1);
        if stream {
            self.streams += 1;
        } else {
            self.row.connections.add(1);
            match admin {
                true => self.admins += 1,
                false => self.shared.force_claim(self.number),
            }
        }
        index
    }

    /// Connections of clients; streams are parts of them.
    pub(crate) fn clients(&self) -> usize {
        self.connections.len() - self.streams
    }

    /// The buffers of a connection, from the spare ones on first use.
    pub(crate) fn exchange(&mut self, index: ConnKey) -> &mut Exchange {
        let spare = &mut self.spare;
        let exchange = &mut self.connections[index].exchange;
        exchange.get_or_insert_with(|| spare.pop().unwrap_or_default())
    }

    /// The same, if there are any.
    pub(crate) fn exchange_of(&self, index: ConnKey) -> Option<&Exchange> {
        self.connections.get(index)?.exchange.as_deref()
    }

    /// The socket of a connection that has one.
    pub(crate) fn socket(&self, index: ConnKey) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.connections.get(index)?.socket.as_ref().map(AsFd::as_fd)
    }

    /// Takes a connection out of the epoll set, because its socket goes on being used by another thread or process.
    pub(crate) fn unwatch(&mut self, index: ConnKey) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if let (true, Some(socket)) = (connection.registered, &connection.socket) {
            let _ = epoll::delete(&self.base.epoll, socket);
        }
    }
}
