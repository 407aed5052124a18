//! Carries out what the table of a connection's states decides ([`connection::table`](crate::connection::table)).

use rustix::event::epoll;

use super::Requests;
use crate::connection::State;
use crate::connection::table::{Event, Reaction, reaction};
use crate::connection::wire::Wire;
use crate::keys::{ConnId, ConnKey, SessionKey};

impl Requests {
    /// An event of epoll on a connection's socket.
    pub(crate) fn on_connection(&mut self, index: ConnKey, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        let Some(connection) = self.connections.get_mut(index) else { return };
        let phase = connection.state.phase();
        let id = ConnId { key: index, serial: connection.serial };
        connection.hung_up |= flags.intersects(F::RDHUP | F::HUP | F::ERR);
        if let (Wire::Tls { session }, true) = (connection.wire, flags.contains(F::OUT)) {
            // What is left of a handshake; anything else is tried again below, where an error is reported again.
            let _ = self.flush_secure(index, session);
        }
        let input = match flags {
            // A socket that is shut down both ways and has no error may still have something to be read.
            _ if flags.intersects(F::HUP | F::ERR) => Some(Event::Gone),
            _ if flags.contains(F::RDHUP) => Some(Event::Ended),
            _ => flags.contains(F::IN).then_some(Event::Arrived),
        };
        let broken = flags.contains(F::ERR);
        let room = (flags.contains(F::OUT) && !broken).then_some(Event::Room);
        // A connection that had nothing to send did not wait for room, and what it does about its input is not to be looked at
        // once more in the same turn: the response of a relay is read when DONE reports it.
        let waits = reaction(phase, Event::Room) != Reaction::Nothing;
        for event in input.into_iter().chain(room.filter(|_| waits)) {
            if self.is_current(id) {
                self.react(index, event, broken);
            }
        }
    }

    /// The turn has come in which a connection was to be looked at again.
    pub(crate) fn on_again(&mut self, connection: ConnId) {
        if self.is_current(connection) {
            self.connections[connection.key].again = false;
            self.react(connection.key, Event::Again, false);
        }
    }

    /// A deadline has passed; the table in `connection` has the deadlines of each state.
    pub(crate) fn on_deadline(&mut self, index: ConnKey) {
        if self.end_delay(index) || self.end_quic_wait(index) {
            return;
        }
        if !self.is_taken_slowly(index) && !self.is_put_off(index) {
            self.row.timeouts.add(1);
            self.react(index, Event::Deadline, false);
        }
    }

    /// Does what QUIC is to do now, if that is what the deadline was for.
    fn end_quic_wait(&mut self, index: ConnKey) -> bool {
        let connection = self.connections.get(index).filter(|found| found.wire == Wire::Quic);
        connection.and_then(|found| found.session()).is_some_and(|key| self.on_quic_timeout(key))
    }

    /// Ends a connection, or a stream, in any state: a waiting request leaves its queue, and a request without an answer is
    /// logged as such.
    pub(crate) fn abort_any(&mut self, index: ConnKey) {
        self.react(index, Event::Aborted, false);
    }

    /// `broken`: the connection has an error, not only its end.
    fn react(&mut self, index: ConnKey, event: Event, broken: bool) {
        let connection = &mut self.connections[index];
        let (reaction, session) = (reaction(connection.state.phase(), event), connection.session());
        let arrived = matches!(event, Event::Arrived | Event::Ended | Event::Gone);
        // A reaction that reads at once needs no note.
        let reads =
            matches!(reaction, Reaction::Read | Reaction::DropInput | Reaction::Nothing | Reaction::Drop);
        connection.readable |= arrived && !reads;
        match reaction {
            Reaction::Nothing | Reaction::Note => {}
            Reaction::Read => self.on_readable(index),
            Reaction::ReadFrames => self.read_frames(index),
            Reaction::ReadFramesAndSend => {
                if self.connections[index].readable {
                    self.read_frames(index);
                }
                self.touch_multiplexed(session);
            }
            Reaction::SendFrames => self.touch_multiplexed(session),
            Reaction::Send => self.on_writable(index),
            Reaction::DropInput => self.on_lingering(index),
            Reaction::Move => self.move_upstream(index),
            Reaction::MoveFromClient => self.move_from_client(index),
            Reaction::TellEnded => self.on_client_ended(index),
            Reaction::TellEndedAndMove => {
                self.on_client_ended(index);
                self.move_from_client(index);
            }
            Reaction::AbortUnlessTunnel if broken || !self.is_tunnel(index) => self.abort_upstream(index),
            Reaction::AbortUnlessTunnel => {
                self.on_client_ended(index);
                self.move_upstream(index);
            }
            Reaction::NoteGatedEnd => self.shorten_delay(index),
            Reaction::LeaveQueue => self.give_up(index),
            Reaction::SendStatus => self.on_watcher(index),
            Reaction::Drop => self.close(index),
            Reaction::DropUnanswered => {
                self.log_unanswered(index);
                self.close(index);
            }
            Reaction::DropHandedOff => self.abort_unanswered(index),
            Reaction::Abort => self.abort(index),
            late => self.on_late(index, late),
        }
    }

    /// A deadline has passed.
    fn on_late(&mut self, index: ConnKey, late: Reaction) {
        let connection = &self.connections[index];
        let awaits_proxy = connection.awaits_proxy;
        match (late, &connection.state) {
            (Reaction::IdleTooLong | Reaction::RequestTooSlow, _) if awaits_proxy => {
                self.refuse_unproxied(index, "no PROXY header in time");
            }
            (Reaction::IdleTooLong, _) => self.close_cleanly(index),
            (Reaction::RequestTooSlow, State::Body) if self.is_answered_early(index) => {
                self.close_cleanly(index)
            }
            (Reaction::RequestTooSlow, _) => self.answer_timeout(index),
            (Reaction::HandshakeTooLong, _) => self.resume_handshake(index),
            (Reaction::GatedTooLong, _) => self.on_gate_timeout(index),
            (Reaction::QueuedTooLong, State::Queued { pool, .. }) => {
                self.on_queue_timeout(index, usize::from(*pool))
            }
            (Reaction::HandedOffTooLong, State::HandedOff { channel, request, .. }) => {
                let (key, request) = (*channel, *request);
                self.on_request_timeout(index, key, request);
            }
            (Reaction::UpstreamTooLong, _) => self.on_upstream_timeout(index),
            (Reaction::CommandTooLong, _) => {
                self.end_command(index, 504, "the master did not answer in time")
            }
            (Reaction::Stalled, _) => self.abort_stalled(index),
            (Reaction::MultiplexedTooLong, State::Multiplexed { session }) => {
                self.on_multiplexed_timeout(index, *session)
            }
            (Reaction::Lingered, _) => self.on_lingered(index),
            _ => {}
        }
    }

    fn read_frames(&mut self, index: ConnKey) {
        if let State::Multiplexed { session } = self.connections[index].state
            && !self.is_backed_up(session)
        {
            self.on_readable(index);
        }
    }

    fn touch_multiplexed(&mut self, session: Option<SessionKey>) {
        if let Some(session) = session {
            self.touch_session(session);
        }
    }
}
