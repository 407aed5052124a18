//! Handshakes that have waited for a certificate on demand, and go on.

use super::Requests;
use crate::connection::State;
use crate::connection::table::Phase;
use crate::keys::ConnKey;

impl Requests {
    /// Certificates have changed, or it is known that some will not be made: what has waited for that goes on.
    pub(crate) fn on_certificates(&mut self) {
        for index in self.ready_handshakes() {
            self.resume_handshake(index);
        }
    }

    /// Goes on with a handshake; it fails if there is no certificate for it.
    pub(crate) fn resume_handshake(&mut self, index: ConnKey) {
        if self.connections.get(index).is_none_or(|found| !found.is(Phase::Handshake)) {
            return;
        }
        self.enter(index, State::Idle);
        let timeout = self.limits().head_timeout;
        self.arm_in(index, timeout);
        let mut rx = self.buffers.rx.take();
        let received = self.resume_session(index, &mut rx);
        self.on_received(index, rx, received);
    }
}

#[cfg(test)]
mod tests;
