//! Black-box tests of `connect = "fastcgi://…"`: the real binary in front of a real PHP (Debian's php-fpm and php-cgi). Most
//! cases are tried on nginx in front of the same PHP as well: that shows that the case is right, and where the two differ.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod bodies;
mod failing;
#[path = "../support/h2.rs"]
#[allow(dead_code, reason = "it has a name for everything that the protocol has")]
mod h2;
mod lifetime;
mod nginx;
mod php;
mod responses;
mod scripts;
mod site;
#[path = "../tls/stage.rs"]
#[allow(dead_code, reason = "shared with the tests of TLS")]
mod stage;
#[path = "../support/mod.rs"]
mod support;
mod variables;
