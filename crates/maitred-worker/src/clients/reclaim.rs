//! Whether a connection is idle, and since when.

use super::Clients;
use crate::connection::State;
use crate::keys::ConnKey;

impl Clients {
    /// Since when a client's connection is idle; `None` if it is not.
    pub(crate) fn idle_since(&self, index: ConnKey) -> Option<i64> {
        let connection = self.connections.get(index)?;
        if connection.is_admin() || !connection.is_client() || connection.readable || connection.again {
            return None;
        }
        let limits = &self.shared.start.config.limits;
        let timeout = match (connection.requests, connection.idle.get()) {
            (0, _) => limits.head_timeout,
            (_, Some(own)) => own,
            (_, None) => limits.keep_alive_timeout,
        };
        let until = match connection.state {
            State::Idle if connection.is_idle() => self.wheel.deadline(index)?,
            State::Multiplexed { session } => self.wheel.millis(self.sessions.get(session)?.idle_until()?),
            _ => return None,
        };
        Some(until - timeout.as_millis() as i64)
    }
}
