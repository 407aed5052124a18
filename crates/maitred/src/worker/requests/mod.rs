//! Requests: what has been received, and what answers it.

pub(in crate::worker) mod admin;
mod answer;
mod disk;
mod drain;
mod errors;
mod hand_off;
mod http2;
pub(in crate::worker) mod proxy_protocol;
mod reactions;
mod receive;
mod scripts;
mod spool;
mod streams;
mod watch;
pub(in crate::worker) mod watchers;

use super::exchanges::Exchanges;
use super::layers::above;
use crate::worker::requests::watchers::Watchers;

/// From received bytes to what answers them.
pub(in crate::worker) struct Requests {
    pub(in crate::worker) exchanges: Exchanges,
    /// Connections that are sent the status every second.
    pub(in crate::worker) watchers: Watchers,
}
above!(Requests, exchanges: Exchanges);

impl Requests {
    pub(in crate::worker) fn new(exchanges: Exchanges) -> Requests {
        Requests { exchanges, watchers: Watchers::default() }
    }
}
