//! Automatic certificates, with the real binary and a real authority.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod dns;
mod failing;
mod issuing;
mod knot;
mod on_demand;
mod one_line;
mod pebble;
mod renewing;
#[path = "../support/mod.rs"]
mod support;
mod tls;
