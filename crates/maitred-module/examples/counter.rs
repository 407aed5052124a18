//! JSON with the number of requests, which all threads and worker processes count together: also after a reload, an upgrade or a
//! crash, for as long as the file is there.
//!
//! ```toml
//! module = { path = "/usr/local/lib/maitred/libcounter.so", config = { counters = "/dev/shm/maitred/counters" } }
//! ```
//!
//! The directory belongs to the account of the worker process.

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use maitred_module::{Config, Counters, Module, Response, module};

/// What is counted, by its place in the file. A new version of the module adds to the end.
const REQUESTS: usize = 0;
const OVER_TLS: usize = 1;
const COUNTERS: usize = 2;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    counters: PathBuf,
}

#[derive(serde::Serialize)]
struct Answer {
    requests: u64,
    over_tls: u64,
    worker: u32,
}

module!(begin);

fn begin(config: Config<'_>) -> Result<Module, String> {
    let path = config.parse::<Settings>()?.counters;
    // The process is not confined to its files yet: later it could not open this one.
    let counters = Counters::open(&path, COUNTERS);
    let counters = counters.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Module::new().on_request(move |request| {
        let add =
            |which, more| counters.get(which).map_or(0, |counter| counter.fetch_add(more, Relaxed) + more);
        let answer = Answer {
            requests: add(REQUESTS, 1),
            over_tls: add(OVER_TLS, request.client().secure.into()),
            worker: std::process::id(),
        };
        match serde_json::to_vec(&answer) {
            Ok(content) => request.answer(&Response::json(&content)),
            Err(_) => maitred_module::Outcome::FAILED,
        }
    }))
}
