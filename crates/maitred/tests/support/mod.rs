//! What all black-box tests share: the real binary from its start to its end, and a client that trusts nothing.
//!
//! Every wait has a deadline of [`TIMEOUT`]. The deadline only bounds how long a failure takes: nothing is right because time
//! passed.

#![allow(dead_code, reason = "each test target uses its part of this")]
#![allow(unused_imports, reason = "each test target uses its part of this")]

mod client;
pub(crate) mod framed;
mod gate;
pub(crate) mod h2;
pub(crate) mod h3;
pub(crate) mod libraries;
pub(crate) mod load;
pub(crate) mod php;
pub(crate) mod processes;
mod response;
mod running;
mod server;
mod setup;
mod skip;
pub(crate) mod stage;
pub(crate) mod upstream;
mod wait;

use std::time::Duration;

pub(crate) use client::{Client, End};
pub(crate) use gate::{Gate, Waiting};
pub(crate) use response::Response;
pub(crate) use running::Running;
pub(crate) use server::{Server, Stopped, binary, copy_program};
pub(crate) use setup::Setup;
pub(crate) use skip::{skip_here, skip_missing};
pub(crate) use wait::{eventually, pace};

/// How long anything may take before the test fails. Far more than is ever needed, since machines that run tests are slow.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
