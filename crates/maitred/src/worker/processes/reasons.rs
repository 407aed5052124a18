//! Why a process is ended, and how long it has for what.

use std::time::Duration;

/// What is said of a process that has closed its channel.
pub(in crate::worker) const CLOSED: &str = "it closed its channel";

/// What is said where this process has no descriptor left.
pub(in crate::worker) const NO_DESCRIPTOR: &str = "response aborted: no descriptor is left for its file";

/// How long a process has to end a request that it was told to cancel, and to answer whether it is still there. What an
/// application has to clean up takes milliseconds, and a turn of its event loop that takes seconds stops all of its clients.
pub(in crate::worker) const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// When a request counts as stuck that the process was told to cancel: it has as long again once what it writes to is shut down.
pub(in crate::worker) const STUCK_AFTER: Duration = Duration::from_secs(10);

const _: () = assert!(STUCK_AFTER.as_secs() == 2 * CANCEL_TIMEOUT.as_secs());
