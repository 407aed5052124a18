//! Reading the clock: once a turn.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::serve::Clock;

/// The clock now.
pub(super) fn read() -> Clock {
    let (unix_secs, unix_micros) = wall();
    Clock { now: Instant::now(), unix_secs, unix_micros, http_date: maitred_http::date::format(unix_secs) }
}

/// Brings the clock up to date; the text of the date is made anew once a second.
pub(super) fn advance(clock: &mut Clock) {
    let (unix_secs, unix_micros) = wall();
    clock.now = Instant::now();
    clock.unix_micros = unix_micros;
    if clock.unix_secs != unix_secs {
        clock.unix_secs = unix_secs;
        clock.http_date = maitred_http::date::format(unix_secs);
    }
}

fn wall() -> (u64, u32) {
    // A clock before 1970 is shown as 1970.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs(), since.subsec_micros())
}
