//! Black-box tests of HTTP/2 (RFC 9113, 7541, 9218, 8441): the real binary and a client whose every frame the test decides.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod applications;
mod attacks;
mod backpressure;
mod bodies;
mod busy;
mod fields;
mod files;
#[path = "../support/h2.rs"]
#[allow(dead_code, reason = "it has a name for everything that the protocol has")]
mod h2;
mod headers;
mod lifetime;
mod log;
mod messages;
mod overload;
mod priorities;
mod proxied;
mod rates;
mod scripts;
mod secure;
mod streams;
#[path = "../support/mod.rs"]
mod support;
#[path = "../proxy/upstream.rs"]
#[allow(dead_code, reason = "shared with the tests of the proxy")]
mod upstream;
