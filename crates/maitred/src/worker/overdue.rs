//! TYPES of overdue.rs

use std::time::Duration;

/// How long a process has to end a request that it was told to cancel, and to answer whether it is still there. What an
/// application has to clean up takes milliseconds, and a turn of its event loop that takes seconds stops all of its clients.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// When a request counts as stuck that the process was told to cancel: it has as long again once what it writes to is shut down.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(10);

const _: () = assert!(STUCK_AFTER.as_secs() == 2 * CANCEL_TIMEOUT.as_secs());
