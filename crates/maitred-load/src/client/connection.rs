//! Connections, and which of them have been idle for how long.

use std::os::fd::OwnedFd;

use slab::Slab;

use super::Request;
use super::response::Body;
use super::tls::Session;
use crate::measure::Nanos;

/// No connection.
const NONE: u32 = u32::MAX;

/// Where a connection stands; the table is in [`super`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Connecting,
    Handshake,
    Idle,
    Head,
    Body(Body),
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) tls: Option<Box<Session>>,
    /// Distinguishes it from earlier ones in the same place.
    pub(super) serial: u32,
    pub(super) group: u32,
    pub(super) state: State,
    /// Present but in `Idle`.
    pub(super) request: Option<Box<Request>>,
    /// Bytes of the request that are sent.
    pub(super) sent: usize,
    pub(super) sent_at: Nanos,
    /// When a busy connection has timed out, or an idle one is to be closed.
    pub(super) deadline: Nanos,
    /// Responses that it has brought.
    pub(super) served: u32,
    /// Whether a byte of the present response has come.
    pub(super) has_begun: bool,
    pub(super) keeps: bool,
    pub(super) status: u16,
    pub(super) body_bytes: u64,
    /// A head that did not come in one piece.
    pub(super) partial: Vec<u8>,
    older: u32,
    newer: u32,
}

impl Connection {
    pub(super) fn new(
        socket: OwnedFd,
        tls: Option<Box<Session>>,
        serial: u32,
        group: u32,
        request: Box<Request>,
        deadline: Nanos,
    ) -> Self {
        Connection {
            socket,
            tls,
            serial,
            group,
            state: State::Connecting,
            request: Some(request),
            sent: 0,
            sent_at: 0,
            deadline,
            served: 0,
            has_begun: false,
            keeps: true,
            status: 0,
            body_bytes: 0,
            partial: Vec::new(),
            older: NONE,
            newer: NONE,
        }
    }
}

/// All connections of a thread; the idle ones in the order in which they became so.
#[derive(Debug)]
pub(super) struct Connections {
    pub(super) slab: Slab<Connection>,
    oldest: u32,
    newest: u32,
}

impl Connections {
    pub(super) fn new() -> Self {
        Connections { slab: Slab::new(), oldest: NONE, newest: NONE }
    }

    pub(super) fn get(&mut self, index: u32) -> Option<&mut Connection> {
        self.slab.get_mut(index as usize)
    }

    /// The connection that has been idle longest.
    pub(super) fn idle_longest(&self) -> Option<u32> {
        Some(self.oldest).filter(|index| *index != NONE)
    }

    /// Puts it at the end of the idle ones.
    pub(super) fn set_idle(&mut self, index: u32) {
        let newest = std::mem::replace(&mut self.newest, index);
        if let Some(connection) = self.get(index) {
            connection.state = State::Idle;
            (connection.older, connection.newer) = (newest, NONE);
        }
        match self.get(newest) {
            Some(before) => before.newer = index,
            None => self.oldest = index,
        }
    }

    /// Takes it out of the idle ones.
    pub(super) fn set_busy(&mut self, index: u32) {
        let Some(connection) = self.get(index) else { return };
        let (older, newer) = (connection.older, connection.newer);
        (connection.older, connection.newer) = (NONE, NONE);
        match self.get(older) {
            Some(before) => before.newer = newer,
            None => self.oldest = newer,
        }
        match self.get(newer) {
            Some(after) => after.older = older,
            None => self.newest = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_order_of_idle_connections_is_kept(steps in prop::collection::vec(0_u32..6, 0..80)) {
            let mut connections = Connections::new();
            for _ in 0..6 {
                let socket = OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap());
                connections.slab.insert(Connection::new(socket, None, 0, 0, Box::default(), 0));
            }
            let mut model: Vec<u32> = Vec::new();
            for index in steps {
                if model.contains(&index) {
                    connections.set_busy(index);
                    model.retain(|other| *other != index);
                } else {
                    connections.set_idle(index);
                    model.push(index);
                }
                prop_assert_eq!(connections.idle_longest(), model.first().copied());
            }
            for index in model {
                prop_assert_eq!(connections.idle_longest(), Some(index));
                connections.set_busy(index);
            }
            prop_assert_eq!(connections.idle_longest(), None);
        }
    }
}
