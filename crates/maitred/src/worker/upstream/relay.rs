//! A request that an application process answers through a relay.

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::epoll;

use crate::handoff::Relay;

/// What an attempt at an application process has for itself.
#[derive(Debug)]
pub struct Handed {
    /// Key of the channel, and the number of the request on it.
    pub request: (u32, u32),
    /// The application process has reported the request as done.
    pub done: bool,
    /// It said that it broke the response off.
    pub broken: bool,
    /// It has exited without saying anything.
    pub lost: bool,
    /// The process was told to cancel the request, and passes on until then what it still has to say.
    pub ends_at: Option<Instant>,
}

/// Helpers close a relay at some time, and until then epoll would report it, by a key that is another one's by then.
pub(in crate::worker) fn unwatch(epoll: &OwnedFd, relay: &Relay) {
    if relay.watched {
        let _ = epoll::delete(epoll, relay.socket());
    }
}
