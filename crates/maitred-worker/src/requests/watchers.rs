//! Which connections get the status, and when next.

use crate::keys::ConnId;
use std::time::{Duration, Instant};

/// Between two events.
pub(crate) const EVENT_EVERY: Duration = Duration::from_secs(1);

/// The connections that watch. Each thread has its own.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    /// Their connections.
    pub(crate) connections: Vec<ConnId>,
    pub(crate) next_event: Option<Instant>,
}

impl Watchers {
    /// When the reactor has to send the next events (`tell_watchers`); `None` while no connection watches.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        self.next_event
    }
}

/// Appends one event. JSON has no line breaks, so one line of data holds it all.
pub(crate) fn push_data(json: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(json.as_bytes());
    out.extend_from_slice(b"\n\n");
}
