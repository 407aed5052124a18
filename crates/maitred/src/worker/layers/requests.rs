//! Requests: what has been received, and what answers it.

use super::super::watch::Watchers;
use super::{Exchanges, above};

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
