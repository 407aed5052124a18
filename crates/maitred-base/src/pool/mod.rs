//! How many processes a pool has.
//!
//! Pure: no clock, no process, no configuration file. The master shows a pool's slots to [`sizing::Sizing::decide`]
//! and carries out what it says; `maitred-sim` does the same with slots that it makes up. `docs/pools.md` explains the
//! directives and shows what the simulation found.

pub mod buckets;
pub mod canary;
pub mod listen;
pub mod settings;
pub mod sizing;
mod spare;

#[cfg(test)]
mod model;
#[cfg(test)]
mod properties;
