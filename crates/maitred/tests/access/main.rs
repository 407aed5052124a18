//! Black-box tests of access control: who gets an answer, over HTTP/1 and HTTP/2.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod addresses;
mod cors;
mod forward;
#[path = "../support/h2.rs"]
#[allow(dead_code, reason = "it has a name for everything that the protocol has")]
mod h2;
mod kept;
mod oauth2_proxy;
mod provider;
#[path = "../support/mod.rs"]
mod support;
mod tokens;
#[path = "../proxy/upstream.rs"]
#[allow(dead_code, reason = "shared with the tests of the proxy")]
mod upstream;
mod users;
