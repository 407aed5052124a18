//! A workload in the manner of SPECweb99. **It is not SPECweb99 and gives no SPEC metric.**
//!
//! What is taken from public descriptions, and which, is in `docs/load.md`: four classes of nine files each, Zipf over
//! directories, a data set that grows with the load, 70 % static and 30 % dynamic requests, 70 % of the connections kept
//! for 5 to 15 requests, a rate of at most 400 and at least 320 kbit/s for each simultaneous connection.

mod files;
mod mix;
mod random;
pub mod search;
mod users;

pub use files::{BYTES_PER_DIRECTORY, Files, directories_for};
pub use users::{Rates, Users};

/// Bits per second that a simultaneous connection needs in order to conform.
pub const CONFORMING_BITS: f64 = 320_000.0;
/// Bits per second that a connection asks for at most: the line speed of the simulated client.
pub const LINE_BITS: u64 = 400_000;
/// Share of a connection's requests that may fail if it is to conform.
pub const FAILURES_MAX: f64 = 0.01;
