//! Clients and applications that do what they should not, against the real binary.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy.toml does not know to be such")]

mod applications;
mod clients;
mod harness;
mod quiet;
