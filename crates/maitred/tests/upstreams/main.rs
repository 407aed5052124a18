//! Black-box tests of `connect`: the real binary in front of servers of HTTP, FastCGI and gRPC, and configurations that come from
//! other servers.
//!
//! | module | what it tests |
//! |---|---|
//! | [`fastcgi`] | `connect = "fastcgi://…"`, with a real PHP |
//! | [`grpc`] | gRPC, with the programs of others on both sides |
//! | [`import`] | `maitred import` |
//! | [`proxy`] | `connect = "http://…"`: servers whose every byte the test decides |
//! | [`servers`] | the servers of a pool, which change while the server runs |
//! | [`setups`] | the configurations of `examples/` |
//! | [`support`] | what all black-box tests share |

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod fastcgi;
mod grpc;
mod import;
mod proxy;
mod servers;
mod setups;
#[path = "../support/mod.rs"]
mod support;
