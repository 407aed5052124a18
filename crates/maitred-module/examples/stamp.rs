//! A response filter: sets fields of each response of a route, and removes others.
//!
//! ```toml
//! root = "/srv/www"
//! module = { path = "/usr/local/lib/maitred/libstamp.so", config = { set = { X-Served-By = "alpha" }, remove = ["X-Powered-By"] } }
//! ```
//!
//! Each response gets `Server-Timing` as well, with the status as it came: what a cache or an error page makes of it later is not
//! in it.

use std::collections::BTreeMap;

use maitred_module::{Config, Head, Module, Request, module};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(default)]
    set: BTreeMap<String, String>,
    #[serde(default)]
    remove: Vec<String>,
}

module!(begin);

fn begin(config: Config<'_>) -> Result<Module, String> {
    let settings: Settings = config.parse()?;
    Ok(Module::new().on_response(move |request, head| stamp(&settings, request, head)))
}

fn stamp(settings: &Settings, request: &Request<'_>, head: &mut Head<'_>) {
    for name in &settings.remove {
        head.remove(name);
    }
    for (name, value) in &settings.set {
        // Which names and values can be sent is known to the server only: here, with the first response.
        if !head.set(name, value) {
            maitred_module::warn(&format!("stamp: {name:?} is no field that can be set"));
        }
    }
    let timing = format!("maitred;desc=\"{} {}\"", request.method(), head.status());
    head.add("Server-Timing", timing);
}
