//! Connections that go to the successor, or are closed, because the worker process drains.

use std::io::{self};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::Requests;
use crate::connection::State;
use crate::connection::wire::Wire;
use crate::drain::{CARRIED_BYTES_MAX, Carried, Note, send_connection};
use crate::keys::ConnKey;

/// How long a connection that has sent nothing yet may take to do so once there is no successor for it.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

impl Requests {
    pub(crate) fn dismiss_idle(&mut self) {
        let all: Vec<ConnKey> = self.connections.iter().map(|(index, _)| index).collect();
        all.into_iter().for_each(|index| self.dismiss(index));
    }

    /// Passes a connection to the successor if it is idle, or closes it.
    pub(crate) fn dismiss(&mut self, index: ConnKey) {
        let Some(drain) = &self.drain else { return };
        let Some(connection) = self.connections.get(index) else { return };
        match connection.state {
            State::Watching => return self.close(index),
            State::Multiplexed { session } => return self.leave(session),
            State::Queued { pool, .. } => return self.give_waiting(index, usize::from(pool)),
            _ => {}
        }
        let (Some(socket), true) = (&connection.socket, connection.is_idle()) else { return };
        let movable = connection.wire == Wire::Clear;
        if !movable && drain.successor.is_some() {
            // The state of a TLS session cannot be passed on. The next response says that it is the last one here.
            return;
        }
        if let Some(successor) = drain.successor.clone()
            && !connection.is_admin()
        {
            return self.give(index, &successor);
        }
        if rustix::io::ioctl_fionread(socket).is_ok_and(|bytes| bytes > 0) {
            // The next request of the client is here already, and is answered with `Connection: close`.
            return self.look_again(index);
        }
        let until = connection.began + FIRST_REQUEST_TIMEOUT;
        if connection.requests > 0 || self.clock.now >= until {
            self.close_cleanly(index);
        }
    }

    /// While the master's executable is replaced, no application processes are started for this worker process: if none is left,
    /// a request goes to the successor with its connection, if it can.
    fn give_waiting(&mut self, index: ConnKey, pool: usize) {
        if !self.shared.alone.load(Relaxed) {
            return;
        }
        let lives = self.shared.pools[pool].live.iter().any(|live| live.load(Relaxed) > 0);
        let connection = &self.connections[index];
        let fits = connection.exchange.as_ref().is_some_and(|exchange| {
            let bytes = exchange.head.bytes().len() + exchange.body.content.len() + exchange.input.len();
            let body = &exchange.body;
            let plain = body.spool.is_none() && body.trailers.is_none() && body.incoming.is_nothing();
            plain && !exchange.last && bytes <= CARRIED_BYTES_MAX
        });
        let movable = connection.wire == Wire::Clear && !connection.internal && fits;
        let successor = self.drain.as_ref().and_then(|drain| drain.successor.clone());
        if let Some(successor) = successor.filter(|_| movable && !lives) {
            self.give(index, &successor);
        }
    }

    fn give(&mut self, index: ConnKey, successor: &OwnedFd) {
        let connection = &self.connections[index];
        let Some(socket) = &connection.socket else { return };
        let note = Note {
            awaits_proxy: connection.awaits_proxy,
            requests: connection.requests,
            idle: connection.idle,
            remote: connection.remote.address,
        };
        let waits = matches!(connection.state, State::Queued { .. });
        let exchange = connection.exchange.as_deref().filter(|_| waits);
        let carried = exchange.map(|exchange| Carried {
            head: exchange.head.bytes(),
            body: &exchange.body.content,
            input: &exchange.input,
        });
        match send_connection(successor.as_fd(), socket.as_fd(), &note, carried.unwrap_or_default()) {
            Ok(()) => {
                // The successor has the socket too, so closing it here would not take it out of the epoll set.
                self.unwatch(index);
                self.row.given.add(1);
                self.remove(index);
            }
            // The successor has no room at the moment: tried again at the next look.
            Err(error) if waits || error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                tracing::warn!(%error, "the new worker process accepts no connections; they are closed after their next request");
                if let Some(drain) = &mut self.drain {
                    drain.successor = None;
                }
            }
        }
    }
}
