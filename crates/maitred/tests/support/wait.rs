//! The only two places of the tests that let time pass (`tidy` keeps it so).
//!
//! [`eventually`] is for what another process does in its own time and does not announce; nothing is right because time
//! passed. [`pace`] is what a test does to the server, never a wait for it.

use std::time::{Duration, Instant};

/// Between two looks of [`eventually`]: a look without a pause takes the CPU from those that are looked at.
const PAUSE: Duration = Duration::from_millis(2);
/// After this, something hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Asks `check` again and again until it is true.
#[track_caller]
pub(crate) fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !check() {
        assert!(Instant::now() < deadline, "{what}: it did not come about");
        pass(PAUSE);
    }
}

/// The pace of a slow client, or the time that a scripted server takes for an answer.
pub(crate) fn pace(time: Duration) {
    pass(time);
}

fn pass(time: Duration) {
    std::thread::park_timeout(time);
}
