//! A UDP path with faults, for tests and benchmarks. A proxy between clients and one server on loopback delays, loses, reorders
//! and duplicates datagrams, has an MTU and a bandwidth, clears ECN marks, and goes on from other ports as a NAT does that has
//! forgotten a mapping. Which datagrams are hit is decided by a seed.
//!
//! ```no_run
//! use std::time::Duration;
//! use maitred_udp::{Config, Faults, Path};
//!
//! # fn main() -> std::io::Result<()> {
//! let slow = Faults { delay: Duration::from_millis(20), loss_per_mille: 10, ..Faults::default() };
//! let path = Path::start(Config::both(slow), "127.0.0.1:4433".parse().expect("an address"))?;
//! println!("clients connect to {}", path.address());
//! path.rebind()?;
//! println!("{:?}", path.counts()?);
//! # Ok(())
//! # }
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`config`] | the faults |
//! | [`counts`] | what has become of the datagrams |
//! | [`dice`] | the seeded decisions |
//! | [`link`] | one direction of a path, pure: datagrams and the time go in, datagrams come out |
//! | [`socket`] | a UDP socket with ECN, and room to receive into |
//! | [`runner`] | the event loop |
//! | [`path`] | the thread of a path, and the handle to it |
//! | [`cli`] | the program `maitred-udp-proxy` |

pub mod cli;
mod config;
mod counts;
mod dice;
mod link;
mod path;
mod runner;
mod socket;

pub use config::{Config, Faults, Rate, Rebind};
pub use counts::{Counts, DirectionCounts};
pub use path::{Handle, Path};
