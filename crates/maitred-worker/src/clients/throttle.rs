//! Responses that may leave only so fast: where bytes are given to the client's socket or stream, no more are taken than may
//! leave now, as if it were full, and a timer says when there is room again.

use rustix::io::Errno;

use super::Clients;
use crate::connection::State;
use crate::connection::throttle::Throttle;
use crate::connection::wire::Then;
use crate::keys::ConnKey;
use crate::timers::Wheel;
use maitred_config::LimitOverrides;

/// How much may leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Bytes.
    pub(crate) bytes: u64,
    /// What leaves has to be noted.
    counts: bool,
}

impl Room {
    /// What is to be said of the bytes that follow: more, if there is no room for all.
    pub(crate) fn then(self, wanted: u64, then: Then) -> Then {
        if self.bytes < wanted { Then::Perhaps } else { then }
    }
}

impl Clients {
    /// How many of so many bytes may leave now.
    ///
    /// # Errors
    /// `AGAIN` if none may: the connection is looked at again when some may.
    #[inline]
    pub(crate) fn room_for(&mut self, index: ConnKey, bytes: u64) -> Result<Room, Errno> {
        let all = Room { bytes, counts: false };
        let Some(exchange) = self.connections.get(index).and_then(|found| found.exchange.as_deref()) else {
            return Ok(all);
        };
        match exchange.routed.map(|routed| routed.plan) {
            Some(plan) if plan.may_throttle => self.throttled(index, &plan.overrides.limits, all),
            _ => Ok(all),
        }
    }

    #[cold]
    fn throttled(&mut self, index: ConnKey, limits: &LimitOverrides, all: Room) -> Result<Room, Errno> {
        let now = self.clock.now;
        let connection = &mut self.connections[index];
        let applies = match &connection.state {
            State::Writing => true,
            State::Upstream(attempt) => attempt.tunnel.is_none(),
            _ => false,
        };
        if !applies || connection.internal {
            return Ok(all);
        }
        let began = connection.began;
        let place = &mut connection.exchange().outgoing.throttle;
        let throttle = match place {
            Some(throttle) if throttle.is_of(began) => throttle,
            _ if !limits.is_throttled() => return Ok(all),
            _ => {
                let (rate, burst) = (limits.response_bytes_per_second_max, limits.response_burst_bytes);
                let new = Throttle::new(began, rate.unwrap_or(u64::MAX), burst.unwrap_or(0), now);
                place.insert(Box::new(new))
            }
        };
        match throttle.room(now) {
            Ok(room) => Ok(Room { bytes: room.min(all.bytes), counts: true }),
            Err(until) => {
                self.resumes.get_or_insert_with(|| Box::new(Wheel::new(now))).arm(index, until);
                Err(Errno::AGAIN)
            }
        }
    }

    /// The response says itself how many bytes of it may leave in a second, whatever its route says; 0 is any number.
    pub(crate) fn throttle_by(&mut self, index: ConnKey, rate: u64) {
        let now = self.clock.now;
        let connection = &mut self.connections[index];
        let (began, exchange) = (connection.began, connection.exchange());
        let limits = exchange.routed.map(|routed| routed.plan.overrides.limits).unwrap_or_default();
        let rate = if rate == 0 { u64::MAX } else { rate };
        let throttle = Throttle::new(began, rate, limits.response_burst_bytes.unwrap_or(0), now);
        exchange.outgoing.throttle = Some(Box::new(throttle));
    }

    /// So many bytes have left.
    #[inline]
    pub(crate) fn note_left(&mut self, index: ConnKey, room: Room, bytes: u64) {
        if !room.counts {
            return;
        }
        let now = self.clock.now;
        let throttle = self.exchange(index).outgoing.throttle.as_mut();
        throttle.into_iter().for_each(|throttle| throttle.note_sent(bytes, now));
    }

    /// Goes on with responses of which something may leave again.
    pub(crate) fn resume_throttled(&mut self) {
        let now = self.clock.now;
        let Some(resumes) = &mut self.resumes else { return };
        let mut fired = Vec::new();
        resumes.expire(now, &mut fired);
        for index in fired {
            // Another connection may have the place of one that has gone.
            let state = self.connections.get(index).map(|connection| &connection.state);
            if matches!(state, Some(State::Writing | State::Upstream(_))) {
                self.look_again(index);
            }
        }
    }
}
