//! Black-box tests of limits by client: rates, requests at a time, and what an address may do.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod addresses;
mod bandwidth;
mod concurrent;
#[path = "../support/h2.rs"]
#[allow(dead_code, reason = "it has a name for everything that the protocol has")]
mod h2;
mod rates;
mod replacing;
#[path = "../support/mod.rs"]
mod support;
#[path = "../proxy/upstream.rs"]
#[allow(dead_code, reason = "shared with the tests of the proxy")]
mod upstream;

use support::Server;

/// What the status says of a limit.
fn count(server: &Server, limit: &str, key: &str) -> u64 {
    server.status()["limits"][limit][key].as_u64().unwrap()
}
