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
use crate::keys::{ConnId, ConnKey};
use maitred_base::clock::Clock;
use maitred_config::Limits;
use maitred_log::error::Limiter;
use maitred_status::routes::RouteRow;
use maitred_status::scoreboard::ThreadRow;

/// Messages per second that peers can cause in one thread's error log.
const PEER_MESSAGES_PER_SECOND: u32 = 10;

/// What every part of a thread uses.
pub(crate) struct Base {
    /// What the threads share.
    pub(crate) shared: &'static Shared,
    /// The number of the thread.
    pub(crate) number: usize,
    /// The row of the thread in the scoreboard.
    pub(crate) row: &'static ThreadRow,
    /// The thread's counts of routes, by the number of the plan.
    pub(crate) routes: &'static [RouteRow],
    pub(crate) epoll: OwnedFd,
    pub(crate) environment: Environment,
    /// The time of the present turn.
    pub(crate) clock: Clock,
    /// Deadlines of connections.
    pub(crate) wheel: Wheel,
    /// When responses go on that may leave only so fast; made for the first one.
    pub(crate) resumes: Option<Box<Wheel>>,
    /// Bounds what peers can cause in the error log.
    pub(crate) limiter: Limiter,
    /// What has to follow the present step.
    pub(crate) agenda: Agenda,
    /// Connections that have more to do in this thread's next turn.
    pub(crate) again: Vec<ConnId>,
}

impl Base {
    /// # Errors
    /// When the kernel gives no epoll descriptor.
    pub(crate) fn new(
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
    pub(crate) fn limits(&self) -> &'static Limits {
        &self.shared.start.config.limits
    }

    /// Sets the deadline of a connection to `time` from now.
    pub(crate) fn arm_in(&mut self, index: ConnKey, time: Duration) {
        self.wheel.arm(index, self.clock.now + time);
    }

    /// Writes a message that a peer can cause to the error log, at a bounded rate.
    pub(crate) fn log_limited(&mut self, message: impl FnOnce()) {
        self.limiter.log(self.clock.now, message);
    }
}
