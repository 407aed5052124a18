//! What every part of a thread uses.
//!
//! | file | what |
//! |---|---|
//! | [`addresses`] | how many connections each address has |

mod addresses;

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll;

use super::agenda::Agenda;
use super::clock::Environment;
use super::shared::Shared;
use super::timers::Wheel;
use crate::clock::Clock;
use crate::config::Limits;
use crate::log::error::Limiter;
use crate::status::routes::RouteRow;
use crate::status::scoreboard::ThreadRow;

/// Messages per second that peers can cause in one thread's error log.
const PEER_MESSAGES_PER_SECOND: u32 = 10;

/// What every part of a thread uses.
pub(in crate::worker) struct Base {
    /// What the threads share.
    pub(in crate::worker) shared: &'static Shared,
    /// Its number.
    pub(in crate::worker) number: usize,
    /// Its row of the scoreboard.
    pub(in crate::worker) row: &'static ThreadRow,
    /// Its counts of routes, by the number of the plan.
    pub(in crate::worker) routes: &'static [RouteRow],
    pub(in crate::worker) epoll: OwnedFd,
    pub(in crate::worker) environment: Environment,
    /// The time of the present turn.
    pub(in crate::worker) clock: Clock,
    /// Deadlines of connections.
    pub(in crate::worker) wheel: Wheel,
    /// When responses go on that may leave only so fast; made for the first one.
    pub(in crate::worker) resumes: Option<Box<Wheel>>,
    /// Bounds what peers can cause in the error log.
    pub(in crate::worker) limiter: Limiter,
    /// What has to follow the present step.
    pub(in crate::worker) agenda: Agenda,
    /// Connections that have more to do in this thread's next turn: index and serial.
    pub(in crate::worker) again: Vec<(u32, u32)>,
}

impl Base {
    /// # Errors
    /// When the kernel gives no epoll descriptor.
    pub(in crate::worker) fn new(
        shared: &'static Shared,
        number: usize,
        row: &'static ThreadRow,
        environment: Environment,
    ) -> std::io::Result<Base> {
        let clock = environment.read();
        Ok(Base {
            shared,
            number,
            row,
            routes: shared.routes.of(number),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            wheel: Wheel::new(clock.now),
            resumes: None,
            environment,
            clock,
            limiter: Limiter::new(PEER_MESSAGES_PER_SECOND),
            agenda: Agenda::default(),
            again: Vec::new(),
        })
    }

    /// The configuration's limits.
    pub(in crate::worker) fn limits(&self) -> &'static Limits {
        &self.shared.start.config.limits
    }

    /// Sets the deadline of a connection to `time` from now.
    pub(in crate::worker) fn arm_in(&mut self, index: u32, time: Duration) {
        self.wheel.arm(index, self.clock.now + time);
    }

    /// Writes a message that a peer can cause to the error log, at a bounded rate.
    pub(in crate::worker) fn log_limited(&mut self, message: impl FnOnce()) {
        self.limiter.log(self.clock.now, message);
    }
}
