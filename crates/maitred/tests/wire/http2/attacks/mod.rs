//! Attacks on HTTP/2, each played against the real server. What has to hold for each is the same: the connection is ended with
//! the code that RFC 9113 has for it, or goes on; others are served meanwhile; and what it costs is bounded ([`Bounds`]).

mod compression;
mod floods;
mod handshakes;
mod memory;
mod resets;
mod stage;
mod stalls;

pub(crate) use stage::{Bounds, Stage};
