//! Tests that take the whole machine, or count what it does: one at a time, and nothing else of the tests beside them.
//!
//! | module | what it tests |
//! |---|---|
//! | [`replay`] | a real access log, against a site and an application |
//! | [`support`] | what all black-box tests share |
//! | [`system_calls`] | system calls of the event loop per request |

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod replay;
#[path = "../support/mod.rs"]
mod support;
mod system_calls;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The machine, which one test has at a time.
fn the_machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}
