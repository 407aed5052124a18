//! gRPC with the programs of others on both sides of the real binary: the interop cases of the gRPC project, by its client and
//! server in Go, grpcio of Python, and Connect's client for browsers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod interop;
mod python;
#[path = "../tls/stage.rs"]
#[allow(dead_code, reason = "shared with the tests of TLS")]
mod stage;
#[path = "../support/mod.rs"]
mod support;
mod web;
