//! The wall clock, as time since 1970.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The present time. A clock before 1970 is shown as 1970.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The present time, in whole seconds.
pub fn secs() -> u64 {
    now().as_secs()
}

/// The time in whole seconds at a moment that is soon; the present one for moments that are over.
pub fn secs_at(moment: Instant) -> u64 {
    let ahead = moment.saturating_duration_since(Instant::now());
    now().saturating_add(ahead).as_secs()
}
