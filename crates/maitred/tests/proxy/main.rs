//! Black-box tests of `connect = "http://…"`: the real binary between raw clients and servers whose every byte the test
//! decides.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod balancing;
mod broken;
mod buffering;
mod cache_commands;
mod checks;
mod deadlines;
mod failing;
mod fastcgi;
mod faults;
mod framed;
mod grpc;
mod grpc_web;
#[path = "../support/h2.rs"]
#[allow(dead_code, reason = "it has a name for everything that the protocol has")]
mod h2;
mod hosts;
mod mirroring;
mod multiplexing;
mod named_files;
mod observing;
mod passing;
mod proxy_headers;
mod queueing;
#[path = "../ownership/random.rs"]
mod random;
mod redirects;
mod response_heads;
mod retrying;
mod reusing;
mod secure;
mod sessions;
mod slow;
mod streaming;
#[path = "../support/mod.rs"]
mod support;
mod targets;
mod traces;
mod upgrading;
mod upstream;

use support::{Server, Setup};
use upstream::Upstream;

/// A server whose every request goes to these.
fn setup(upstreams: &[&Upstream], lines: &str) -> Setup {
    let names: Vec<String> = upstreams.iter().map(|upstream| format!("\"{}\"", upstream.name())).collect();
    let connect = names.join(", ");
    Setup::with_files()
        .route("/a.txt", "root = \"root\"")
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = [{connect}]\n{lines}\n"))
}

fn start(upstream: &Upstream, lines: &str) -> Server {
    setup(&[upstream], lines).start()
}
