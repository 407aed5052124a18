//! What rustix and the standard library do not offer safely: the only crate of the workspace with `unsafe` code.
//!
//! Every public item is safe to call, whatever it is given.

// The one exemption from the workspace's `unsafe_code = "deny"`: this crate exists to hold that code.
#![allow(unsafe_code)]

pub mod closing;
pub mod counter_file;
pub mod cpu_clock;
pub mod delivery;
pub mod file;
pub mod inherit;
pub mod ktls;
pub mod memfile;
pub mod module;
pub mod page_cache;
pub mod receive;
pub mod replace;
pub mod scheduling;
pub mod signals;
pub mod sockopt;
pub mod spawn;
pub mod tcp;
