//! HTTP/2 (RFC 9113) as pure functions and machines: no I/O, no clock.

pub mod hpack;
