//! The table of connections: how they come into it, change their state, and go.

use std::os::fd::AsFd;

use rustix::event::epoll;

use super::Clients;
use crate::worker::agenda::Next;
use crate::worker::connection::{Exchange, State};
use crate::worker::entry::Entry;
use crate::worker::token::{SERIAL_MASK, Token};

impl Clients {
    /// Has something follow on a connection once the present step has returned.
    pub(in crate::worker) fn follow_up(&mut self, index: u32, next: Next) {
        if let Some(connection) = self.connections.get(index as usize) {
            self.base.agenda.connection(index, connection.serial, next);
        }
    }

    /// Gives a connection a place in the next turn, once.
    pub(in crate::worker) fn look_again(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if !std::mem::replace(&mut connection.again, true) {
            let serial = connection.serial;
            self.again.push((index, serial));
        }
    }

    /// Whether the connection at `index` is still the one that was meant.
    pub(in crate::worker) fn is_current(&self, index: u32, serial: u32) -> bool {
        self.connections.get(index as usize).is_some_and(|found| found.serial == serial)
    }

    /// Puts a connection into the epoll set, once for its whole life: edge-triggered, so that it never has to be
    /// changed, and both ways, so that no call is needed to wait for room.
    pub(in crate::worker) fn register(&mut self, index: u32) -> bool {
        use epoll::EventFlags as F;
        let connection = &mut self.connections[index as usize];
        if connection.registered {
            return true;
        }
        let token = Token::Connection { index, serial: connection.serial }.pack();
        let Some(socket) = &connection.socket else { return true };
        match epoll::add(&self.base.epoll, socket, token, F::IN | F::OUT | F::RDHUP | F::ET) {
            Ok(()) => connection.registered = true,
            Err(error) => {
                self.base.log_limited(|| tracing::error!(%error, "cannot watch a connection"));
            }
        }
        connection.registered
    }

    /// Moves a connection to a state, and keeps the scoreboard's gauges in step.
    pub(in crate::worker) fn enter(&mut self, index: u32, state: State) {
        let row = self.row;
        let gauge = |state: State| match state {
            State::Idle => &row.idle,
            State::Http2 { .. } => &row.multiplexed,
            State::HandedOff { .. } | State::Upstream(_) => &row.handed_off,
            State::Writing | State::Watching => &row.writing,
            State::Queued { .. } => &row.queued,
            State::Head | State::Body | State::Spooling => &row.reading,
            State::Disk | State::Command => &row.waiting,
            State::Linger => &row.lingering,
        };
        let connection = &mut self.connections[index as usize];
        if connection.state == state {
            return;
        }
        gauge(connection.state).sub(1);
        gauge(state).add(1);
        connection.state = state;
    }

    /// Adds a connection, idle.
    pub(in crate::worker) fn insert(&mut self, mut connection: Entry) -> u32 {
        self.serial = (self.serial + 1) & SERIAL_MASK;
        connection.serial = self.serial;
        debug_assert_eq!(connection.state, State::Idle);
        let (stream, admin) = (!connection.is_client(), connection.admin);
        let index = self.connections.insert(connection) as u32;
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
    pub(in crate::worker) fn clients(&self) -> usize {
        self.connections.len() - self.streams
    }

    /// The buffers of a connection, from the spare ones on first use.
    pub(in crate::worker) fn exchange(&mut self, index: u32) -> &mut Exchange {
        let spare = &mut self.spare;
        let exchange = &mut self.connections[index as usize].exchange;
        exchange.get_or_insert_with(|| spare.pop().unwrap_or_default())
    }

    /// The same, if there are any.
    pub(in crate::worker) fn exchange_of(&self, index: u32) -> Option<&Exchange> {
        self.connections.get(index as usize)?.exchange.as_deref()
    }

    /// The socket of a connection that has one.
    pub(in crate::worker) fn socket(&self, index: u32) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.connections.get(index as usize)?.socket.as_ref().map(AsFd::as_fd)
    }

    /// Takes a connection out of the epoll set, because its socket goes on being used by another thread or process.
    pub(in crate::worker) fn unwatch(&mut self, index: u32) {
        let Some(connection) = self.connections.get_mut(index as usize) else { return };
        if let (true, Some(socket)) = (connection.registered, &connection.socket) {
            let _ = epoll::delete(&self.base.epoll, socket);
        }
    }
}
