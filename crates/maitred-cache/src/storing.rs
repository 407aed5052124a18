//! Whether anything is stored: a disk that is full or broken turns that off for a while, which grows.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use maitred_base::backoff::{Backoff, Rules};

/// Storing is tried again after a second, and then after twice as long each time.
const RULES: Rules = Rules {
    free: 0,
    first: Duration::from_secs(1),
    max: Duration::from_secs(300),
    long_life: Duration::from_secs(600),
};

/// Errors that the next file would have, too.
const GENERAL: [Errno; 11] = [
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::IO,
    Errno::ROFS,
    Errno::ACCESS,
    Errno::PERM,
    Errno::NFILE,
    Errno::MFILE,
    Errno::NOMEM,
    Errno::STALE,
    Errno::NODEV,
];

/// See the module.
#[derive(Debug)]
pub(super) struct Storing {
    start: Instant,
    /// Nothing is stored before that, in milliseconds since `start`.
    off_until: AtomicU64,
    backoff: Mutex<(Backoff, Duration)>,
}

/// Why something was not stored.
#[derive(Debug)]
pub struct Trouble {
    /// What was being done.
    pub what: &'static str,
    /// What the system says.
    pub error: io::Error,
    /// For so long nothing is stored from now on: that is to be logged. `None` if that goes on, or was off already: only this
    /// entry is lost.
    pub off_for: Option<Duration>,
}

impl Storing {
    pub(super) fn new(now: Instant) -> Storing {
        Storing { start: now, off_until: AtomicU64::new(0), backoff: Mutex::default() }
    }

    /// Whether something is stored now.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        self.off_until.load(Relaxed) <= self.since_start(now).as_millis() as u64
    }

    /// Notes that something could not be stored.
    pub(super) fn failed(&self, what: &'static str, error: io::Error, now: Instant) -> Trouble {
        let is = |errno: &Errno| error.raw_os_error() == Some(errno.raw_os_error());
        let is_general = error.kind() == io::ErrorKind::StorageFull || GENERAL.iter().any(is);
        let mut state = self.backoff.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_general || !self.is_on(now) {
            return Trouble { what, error, off_for: None };
        }
        let at = self.since_start(now);
        let (backoff, on_since) = &mut *state;
        let off_for = backoff.died(at.saturating_sub(*on_since), &RULES).max(RULES.first);
        *on_since = at + off_for;
        self.off_until.store((at + off_for).as_millis() as u64, Relaxed);
        Trouble { what, error, off_for: Some(off_for) }
    }

    /// As if the time were over.
    #[cfg(test)]
    pub(super) fn turn_on(&self) {
        self.off_until.store(0, Relaxed);
    }

    fn since_start(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried_again_later_and_later() {
        let start = Instant::now();
        let storing = Storing::new(start);
        let full = || io::Error::from(Errno::NOSPC);
        let mut now = start;
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            assert!(storing.is_on(now));
            let off_for = storing.failed("", full(), now).off_for;
            assert_eq!(off_for, Some(Duration::from_secs(seconds)));
            assert!(!storing.is_on(now) && !storing.is_on(now + Duration::from_millis(seconds * 1000 - 1)));
            assert!(storing.failed("", full(), now).off_for.is_none(), "once");
            now += Duration::from_secs(seconds);
        }
        now += Duration::from_secs(601);
        assert_eq!(
            storing.failed("", full(), now).off_for,
            Some(Duration::from_secs(1)),
            "it was well for long"
        );
    }

    #[test]
    fn what_is_about_one_file_does_not_turn_storing_off() {
        let now = Instant::now();
        let storing = Storing::new(now);
        assert!(storing.failed("", Errno::ISDIR.into(), now).off_for.is_none());
        assert!(storing.failed("", io::ErrorKind::UnexpectedEof.into(), now).off_for.is_none());
        assert!(storing.is_on(now));
        assert!(storing.failed("", io::ErrorKind::StorageFull.into(), now).off_for.is_some());
    }
}
