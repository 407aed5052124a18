//! Black-box tests of the response cache: the real binary between raw clients and a server whose every byte the test decides.
//!
//! What is stale is so when it comes (`Age`), so that no test waits for a response to grow old.

mod apart;
mod collapsing;
mod failing;
mod filling;
mod first;
mod hits;
mod keys;
mod lasting;
mod origin;
mod outdating;
mod passing;
mod purging;
mod stale;
mod varying;

use crate::support::{Response, Server, Setup};
use origin::Origin;

/// A server whose every request goes to `origin`, and which keeps responses by these rules (as in TOML).
fn setup(origin: &Origin, cache: &str) -> Setup {
    with_pool(origin, cache, "")
}

/// The same with further lines of the pool.
fn with_pool(origin: &Origin, cache: &str, lines: &str) -> Setup {
    Setup::with_files()
        .server("threads = 2")
        .route("/*", &format!("pool = \"app\"\ncache = {cache}"))
        .table("[cache]\ndirectory = \"store\"\n")
        .table(&format!("[pool.app]\nconnect = [\"{}\"]\n{lines}\n", origin.name()))
}

fn start(origin: &Origin, cache: &str) -> Server {
    setup(origin, cache).start()
}

/// The last member of `Cache-Status`, without its numbers.
#[track_caller]
fn status(response: &Response) -> String {
    let all = response.need("cache-status");
    let own = all.rsplit(", ").next().unwrap();
    own.split("; ").filter(|part| !part.starts_with("ttl=")).collect::<Vec<_>>().join("; ")
}

const HIT: &str = "maitred; hit";
const STORED: &str = "maitred; fwd=uri-miss; stored";
