//! Reading the clock: once a turn.

use std::time::Instant;

use crate::clock::Clock;
use crate::unix_time;

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
    let since = unix_time::now();
    (since.as_secs(), since.subsec_micros())
}
