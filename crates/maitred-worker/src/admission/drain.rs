//! The end of a worker process: no new connections, idle ones to the successor, and the rest as they finish.
//!
//! An idle keep-alive connection is the hard case of a reload: the client may send its next request at the moment in which the
//! server closes, and has no way to find out whether it was acted on. So it is not closed, but passed to the next worker process,
//! with whatever bytes are in it.
//!
//! | connection | after a reload | after a stop |
//! |---|---|---|
//! | idle, and can be passed on | to the successor, at once | closed at once |
//! | idle, and cannot (TLS) | its next response is the last; closed after `grace` without a request | closed at once |
//! | HTTP/2 | GOAWAY, twice; ends with its last stream | the same, within `grace` |
//! | with a request under way¹ | as long as `grace_streams` allows; then as one that is idle | aborted after `grace` |
//!
//! ¹ Also an upload, a download, a tunnel: everything whose end the client or an application decides. What waits for less
//! (the rest of a head, a queue, a disk, a client that lingers) has time limits of its own.
//!
//! A process that drains stays as long as one before it may still send connections here, which has no other successor
//! (`Shared::predecessors`): after upgrades in quick succession, those in between forward them.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

use super::Admission;
use crate::connection::State;
use crate::drain::Drain;
use crate::keys::ConnKey;
use crate::shared::Outgoing;
use maitred_control::DrainTime;

/// How often a draining thread looks whether it is done, and sends again the connections that the successor had no room for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The same when the grace period is over, and what is left may take hours.
const LOOK_SELDOM: Duration = Duration::from_millis(250);

impl Admission {
    pub(crate) fn begin_drain(&mut self, time: DrainTime, successor: Option<Arc<OwnedFd>>) {
        let now = self.clock.now;
        self.close_listeners();
        if self.drain.is_none() {
            // What this thread has accepted is counted as its load by now.
            self.shared.accepting.fetch_sub(1, AcqRel);
            self.shared.outbox.send(Outgoing::Closed);
        }
        self.shared.draining.store(true, Relaxed);
        let grace = Duration::from_millis(time.grace_ms);
        let streams = time.streams_ms.map(Duration::from_millis);
        self.drain = Some(Drain {
            until: now + grace,
            grace,
            streams_until: streams.map(|streams| now + streams),
            said: false,
            successor,
            next_look: now + LOOK_EVERY,
        });
        self.dismiss_idle();
        self.close_idle_upstreams();
    }

    /// The connections that are left have this much time: the server stops, or there are too many worker processes like this one.
    pub(crate) fn hurry(&mut self, left: Duration) {
        let now = self.clock.now;
        if let Some(drain) = &mut self.drain {
            let end = now + left;
            drain.until = drain.until.min(end);
            drain.streams_until = Some(drain.streams_until.map_or(end, |until| until.min(end)));
            drain.next_look = now;
        }
    }

    /// Another worker process has replaced the successor: connections that become idle from now on go straight there.
    pub(crate) fn follow_to(&mut self, successor: Arc<OwnedFd>) {
        if let Some(drain) = &mut self.drain {
            drain.successor = Some(successor);
            self.dismiss_idle();
        }
    }

    /// Whether this thread, and with it the process, has nothing left to do.
    pub(crate) fn is_finished(&self) -> bool {
        let Some(drain) = &self.drain else { return false };
        // Another thread may still send a connection here, for an application process whose channel is here; or a predecessor
        // may, which has no other successor. The two are checked first, because what they have sent is in transit before they
        // are gone.
        let others_may = || {
            // A thread that accepts counts a connection before it stops accepting, so the loads are read after that.
            if self.shared.predecessors.load(Acquire) > 0 || self.shared.accepting.load(Acquire) > 0 {
                return true;
            }
            let elsewhere = || self.shared.loads.iter().any(|load| load.load(Acquire) > 0);
            elsewhere() || self.shared.in_transit.load(Acquire) > 0 || elsewhere()
        };
        // Channels that have to be returned: without their channels, the application processes would end with this one. And
        // links: over them, earlier worker processes use the processes of this one.
        let owes = || {
            !self.pools.links.is_empty()
                || self.pools.channels.iter().any(|(_, channel)| channel.is_pending_return())
        };
        self.connections.is_empty() && (drain.is_over(self.clock.now) || !(owes() || others_may()))
    }

    /// Once per turn: passes on what could not be passed before, and ends the connections whose time is over.
    pub(crate) fn drain_step(&mut self) {
        let now = self.clock.now;
        let Some(drain) = &mut self.drain else { return };
        if now < drain.next_look {
            return;
        }
        let late = now >= drain.until;
        drain.next_look = now + if late { LOOK_SELDOM } else { LOOK_EVERY };
        let next_end = drain.streams_until.filter(|until| *until > now);
        let next_end = if late { next_end } else { next_end.into_iter().chain([drain.until]).min() };
        drain.next_look = next_end.map_or(drain.next_look, |end| end.min(drain.next_look));
        self.settle_leaving();
        self.end_tunnels();
        let Some(drain) = &self.drain else { return };
        let (streams_over, over) =
            (drain.streams_until.is_some_and(|until| now >= until), drain.is_over(now));
        if streams_over {
            self.abort_all(|thread, index| over || thread.is_stream_like(index));
        }
        self.dismiss_idle();
        if late && !over {
            self.close_long_idle();
        }
    }

    /// Whether a request is under way on a connection whose end the client or an application decides.
    fn is_stream_like(&self, index: ConnKey) -> bool {
        let Some(connection) = self.connections.get(index) else { return false };
        match connection.state {
            State::Body | State::Spooling | State::Writing | State::HandedOff { .. } | State::Upstream(_) => {
                true
            }
            State::Multiplexed { session } => self.refuses(session),
            _ => false,
        }
    }

    /// Aborts connections whose time is over, those with a request first: their requests have to be logged.
    fn abort_all(&mut self, which: impl Fn(&Admission, ConnKey) -> bool) {
        let all = self.connections.iter().map(|(index, connection)| (index, connection.is_idle()));
        let all = all.filter(|(index, _)| which(self, *index));
        let (idle, left): (Vec<_>, Vec<_>) = all.partition(|(_, idle)| *idle);
        if !left.is_empty()
            && !self.drain.as_mut().is_some_and(|drain| std::mem::replace(&mut drain.said, true))
        {
            tracing::warn!(
                thread = self.number,
                connections = left.len(),
                "aborted at the end of the grace period"
            );
        }
        for (index, _) in left.into_iter().chain(idle) {
            // The connection may have been closed already: a stream goes with its HTTP/2 connection.
            if self.connections.contains(index) {
                self.abort_any(index);
            }
        }
    }

    /// Closes connections that cannot be passed on, and have been without a request for the grace period.
    fn close_long_idle(&mut self) {
        let Some(grace) = self.drain.as_ref().map(|drain| drain.grace.as_millis() as i64) else { return };
        let now = self.wheel.millis(self.clock.now);
        let long = |index: &ConnKey| self.idle_since(*index).is_some_and(|since| now - since >= grace);
        let all: Vec<ConnKey> = self.connections.iter().map(|(index, _)| index).filter(long).collect();
        for index in all {
            match self.connections.get(index).map(|connection| connection.session()) {
                Some(Some(session)) => self.dismiss_session(index, session, false),
                Some(None) => self.close_cleanly(index),
                None => {}
            }
        }
    }
}
