//! Pools that accept connections by themselves: any server that takes inherited sockets, sized by what the kernel says.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod load;
mod programs;
mod reloading;
mod world;
