//! Black-box tests of `connect = "http://…"`: the real binary between raw clients and servers whose every byte the test
//! decides.

mod balancing;
mod broken;
mod buffering;
mod cache_commands;
mod checks;
mod deadlines;
mod failing;
mod fastcgi;
mod faults;
mod grpc;
mod grpc_web;
mod hops;
mod hosts;
mod lenient;
mod mirroring;
mod multiplexing;
mod named_files;
mod observing;
mod passing;
mod placeholders;
mod proxy_headers;
mod queueing;
mod redirects;
mod response_heads;
mod retrying;
mod reusing;
mod secure;
mod sessions;
mod slow;
mod statuses;
mod streaming;
mod targets;
mod traces;
mod upgrading;

use crate::support::upstream::Upstream;
use crate::support::{Server, Setup};

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
