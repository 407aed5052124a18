//! Reasons for ending a process, and its time limits.

use std::time::Duration;

/// The reason for a process that has closed its channel.
pub(crate) const CLOSED: &str = "it closed its channel";

/// The log message when this process has no descriptor left.
pub(crate) const NO_DESCRIPTOR: &str = "response aborted: no descriptor is left for its file";

/// How long a process has to end a cancelled request, and to answer PING. The clean-up of an application takes milliseconds, and
/// a turn of its event loop that takes seconds stops all of its clients.
pub(crate) const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// When a cancelled request counts as stuck: after [`CANCEL_TIMEOUT`] its descriptor is shut down, and then the process has the
/// same time again.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(10);

const _: () = assert!(STUCK_AFTER.as_secs() == 2 * CANCEL_TIMEOUT.as_secs());
