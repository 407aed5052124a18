//! Black-box tests of limits by client: rates, requests at a time, and what an address may do.

mod addresses;
mod bandwidth;
mod concurrent;
mod rates;
mod replacing;

use crate::support::Server;

/// What the status says of a limit.
fn count(server: &Server, limit: &str, key: &str) -> u64 {
    server.status()["limits"][limit][key].as_u64().unwrap()
}
