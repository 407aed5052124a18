//! Elastic pools of application processes, seen from outside: the real binary, with small Python applications.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod commands;
mod failing;
#[path = "../support/h2.rs"]
#[allow(dead_code, reason = "each test target uses its part of this")]
mod h2;
mod health;
mod load;
mod look;
mod recovering;
mod recycling;
mod reloads;
mod steps;
mod sticky;
#[path = "../support/mod.rs"]
mod support;
mod surroundings;
