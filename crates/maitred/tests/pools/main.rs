//! Pools of application processes that breathe, seen from outside: the real binary, with small Python applications.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod commands;
mod failing;
mod health;
mod load;
mod look;
mod recovering;
mod recycling;
mod reloads;
mod steps;
#[path = "../support/mod.rs"]
mod support;
mod surroundings;
