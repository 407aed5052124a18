//! Reading the clock: once a turn.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use maitred_sys::delivery;

use maitred_base::clock::Clock;
use maitred_base::unix_time;

/// What a thread reads from the system besides its sockets. Functions, so that simulated worlds can give it another time
/// (`worlds`); they are called once or twice a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Environment {
    /// The monotonic clock.
    pub(super) now: fn() -> Instant,
    /// The time since 1970.
    pub(super) unix_time: fn() -> Duration,
    /// Whether it is certain that nothing was sent to this client since `since`, which was `ago`.
    pub(super) is_quiet: fn(BorrowedFd<'_>, since: Instant, ago: Duration) -> bool,
}

impl Environment {
    /// The environment of the machine.
    pub(super) const SYSTEM: Environment = Environment {
        now: Instant::now,
        unix_time: unix_time::now,
        is_quiet: |socket, _, ago| delivery::quiet_for(socket, ago),
    };

    /// The clock now.
    pub(super) fn read(self) -> Clock {
        let (unix_secs, unix_micros) = self.wall();
        let http_date = maitred_http::date::format(unix_secs);
        let mut clock = Clock { now: (self.now)(), unix_secs, unix_micros, steady_us: 0, http_date };
        clock.steady_us = clock.unix_us();
        clock
    }

    /// Brings the clock up to date; the text of the date is made anew once a second.
    pub(super) fn advance(self, clock: &mut Clock) {
        let (unix_secs, unix_micros) = self.wall();
        let before = std::mem::replace(&mut clock.now, (self.now)());
        clock.unix_micros = unix_micros;
        if clock.unix_secs != unix_secs {
            clock.unix_secs = unix_secs;
            clock.http_date = maitred_http::date::format(unix_secs);
        }
        clock.advance_steady(before);
    }

    fn wall(self) -> (u64, u32) {
        let since = (self.unix_time)();
        (since.as_secs(), since.subsec_micros())
    }
}

#[cfg(test)]
mod tests;
