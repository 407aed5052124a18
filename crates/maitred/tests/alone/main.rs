//! Tests that take the whole machine, or count what it does: nothing else of the tests runs beside them.
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
