//! A request that an application process answers through a relay.

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::epoll;

use crate::handoff::Relay;
use crate::keys::{ChannelKey, RelayKey};

/// The part of an attempt that is only for an application process.
#[derive(Debug)]
pub(crate) struct Handed {
    /// Key of the relay.
    pub relay: RelayKey,
    /// Key of the channel, and the number of the request on it.
    pub request: (ChannelKey, u32),
    /// The process may keep its end of the relay for another protocol.
    pub may_detach: bool,
    /// The application process has reported the request as done.
    pub done: bool,
    /// The process has reported that it aborted the response.
    pub broken: bool,
    /// The process has exited without DONE.
    pub lost: bool,
    /// After CANCEL for an overdue request: until then, what the process still writes is passed on.
    pub ends_at: Option<Instant>,
}

impl Handed {
    /// A request that a process has now.
    pub(crate) fn new(relay: RelayKey, request: (ChannelKey, u32), may_detach: bool) -> Handed {
        Handed { relay, request, may_detach, done: false, broken: false, lost: false, ends_at: None }
    }
}

/// Helpers close a relay later, and until then epoll would report it, by a key that another relay may have by then.
pub(crate) fn unwatch(epoll: &OwnedFd, relay: &Relay) {
    if relay.watched {
        let _ = epoll::delete(epoll, relay.socket());
    }
}
