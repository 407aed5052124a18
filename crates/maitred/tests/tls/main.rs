//! TLS from outside: the real binary, and rustls as the client.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod ciphers;
mod clients;
mod closing;
mod early;
mod files;
mod kernel;
mod keys;
mod memory;
mod names;
mod racing;
mod rates;
mod redirect;
mod serve;
mod sessions;
mod stage;
#[path = "../support/mod.rs"]
mod support;
mod surroundings;
#[path = "../proxy/upstream.rs"]
#[allow(dead_code, reason = "shared with the tests of the proxy")]
mod upstream;
