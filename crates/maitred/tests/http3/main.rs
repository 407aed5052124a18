//! Black-box tests of HTTP/3: the real binary, and a client of which the test decides every step.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../support/h2.rs"]
#[allow(dead_code, reason = "it has a name for everything that the protocol has")]
mod h2;
mod lifetime;
mod limits;
mod networks;
mod pools;
mod proxied;
mod reloads;
mod scene;
mod sites;
#[path = "../tls/stage.rs"]
#[allow(dead_code, reason = "shared with the tests of TLS")]
mod stage;
#[path = "../support/mod.rs"]
mod support;
#[path = "../proxy/upstream.rs"]
#[allow(dead_code, reason = "shared with the tests of the proxy")]
mod upstream;
