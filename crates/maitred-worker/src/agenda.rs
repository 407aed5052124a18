//! What one part of a thread leaves to a part above it.
//!
//! Calls go down: a process that reports a request as done is below the connection whose next request may begin then, and what is
//! below cannot call what is above. The lower part enters into the agenda what has to follow, and the event loop does that as
//! soon as the present step has returned, in the order of the entries, before it looks at another event. So no layer is called
//! again from below in the middle of what it does. Within a layer, methods may still call one another in a circle: the heads of
//! [`requests`](super::requests) and of `exchanges::send` name such ones, `xtask/tidy/tests/order/circles.txt` counts files.
//!
//! An entry about a connection that has gone by its turn is void, like an event of epoll.

use std::collections::VecDeque;

use super::connection::After;
use crate::keys::{ChannelKey, ConnId};

/// What has to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Todo {
    /// Something about a connection.
    Connection {
        /// The connection.
        connection: ConnId,
        /// What.
        next: Next,
    },
    /// A process may have room for requests that wait for its pool, or has nothing more to do.
    Room {
        /// The pool.
        pool: u16,
        /// Key of the channel of the process.
        channel: ChannelKey,
    },
}

/// What has to follow on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The request that is kept is answered: with its refusal if it has one, or by another process.
    Resume,
    /// The response has left: the next request, if there is one, or the end.
    Settle,
    /// The same while the body of its request is still to be read.
    GoOnReading,
    /// An application process has returned the connection, and its response is out.
    Reclaim(After),
    /// What is left of a response is sent.
    Send,
    /// What has come from an upstream is moved to the client.
    Pump,
    /// The rest of a response that comes through a relay has no room.
    NoRoom,
    /// An application process keeps its end of the relay.
    Detached,
    /// The worker process drains: a connection that has become idle is passed on, or closed.
    Dismiss,
    /// The connection is aborted, in any state.
    Abort,
    /// The connection is closed: what there was to log is logged.
    Close,
    /// The connection is dropped here, because an application process has taken it over.
    Drop,
}

/// What has to follow, in order.
#[derive(Debug, Default)]
pub(super) struct Agenda(VecDeque<Todo>);

impl Agenda {
    /// Something has to follow on a connection.
    pub(super) fn connection(&mut self, connection: ConnId, next: Next) {
        self.0.push_back(Todo::Connection { connection, next });
    }

    /// A process may have room, or nothing more to do.
    pub(super) fn room(&mut self, pool: u16, channel: ChannelKey) {
        let todo = Todo::Room { pool, channel };
        // A message of a process often has many frames.
        if self.0.back() != Some(&todo) {
            self.0.push_back(todo);
        }
    }

    /// Whether nothing has to follow.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first entry.
    pub(super) fn next(&mut self) -> Option<Todo> {
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Key as _;

    #[test]
    fn entries_come_in_order_and_a_process_is_looked_at_once() {
        let mut agenda = Agenda::default();
        agenda.room(1, ChannelKey::of(7));
        agenda.room(1, ChannelKey::of(7));
        agenda.connection(ConnId::of(3, 9), Next::Resume);
        agenda.room(1, ChannelKey::of(7));
        let room = Todo::Room { pool: 1, channel: ChannelKey::of(7) };
        let resume = Todo::Connection { connection: ConnId::of(3, 9), next: Next::Resume };
        let all: Vec<Todo> = std::iter::from_fn(|| agenda.next()).collect();
        assert_eq!(all, [room, resume, room]);
    }
}
