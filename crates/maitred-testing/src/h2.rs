//! HTTP/2 as a client of a test writes and reads it.

pub mod frame;
pub mod hpack;
