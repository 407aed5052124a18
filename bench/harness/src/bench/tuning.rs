//! Maitred beside itself, with one setting changed: buckets, affinity, deferred accepts.
//!
//! With four CPUs or more, half of them are the server's and half the generator's. With fewer both share all of them,
//! and what these settings are for does not exist: CPUs that contend for one accept queue, and somewhere to migrate to.

use super::grid::{self, Grid, Way};
use super::load::{self, Asked};
use super::peers::Kind;
use super::server::{Running, Setup};
use super::{Bench, Result};

/// Connections at the same time, as in the discussion of 2023 (`wrk -c 1000`).
const CONNECTIONS: u32 = 1000;

/// Load that keeps connections, and load that opens one for each request.
const LOADS: [(&str, bool); 2] = [("kept connections", false), ("a connection per request", true)];

/// One accept queue, the default, and one for each thread (2014).
pub(super) fn buckets(bench: &Bench) -> Result<Grid> {
    let variants =
        [("one", "buckets = 1"), ("auto", "buckets = \"auto\""), ("per-thread", "buckets = \"per-thread\"")];
    let what = "One accept queue for all threads, the default, and one queue for each thread (SO_REUSEPORT)";
    Ok(compare(
        bench,
        "buckets",
        what,
        "one",
        &variants.map(|(name, listen)| (name, String::new(), listen.to_owned())),
    ))
}

/// Threads that the kernel moves about, and pinned ones (2023).
pub(super) fn affinity(bench: &Bench) -> Result<Grid> {
    let variants = ["off", "auto"].map(|value| (value, format!("affinity = \"{value}\""), String::new()));
    Ok(compare(bench, "affinity", "Threads that the kernel moves about, and pinned ones", "off", &variants))
}

fn compare(bench: &Bench, name: &str, what: &str, base: &str, variants: &[(&str, String, String)]) -> Grid {
    let bench = &bench.shared_out();
    let servers = variants.iter().map(|(variant, ..)| (*variant).to_owned());
    let columns: Vec<String> = servers.collect();
    let rows = LOADS.iter().map(|&(label, close)| {
        let ways = variants.iter().map(|(variant, server, listen)| {
            let setup = Setup {
                maitred_server: server.clone(),
                maitred_listen: listen.clone(),
                maitred_threads: bench.server_threads,
                ..bench.setup(Vec::new())
            };
            let running = Running::start_as(Kind::Maitred, &format!("maitred-{name}-{variant}"), &setup);
            Way { server: running, path: "/1k.txt".to_owned(), body_bytes: 1 << 10 }
        });
        grid::measure_with(bench, label, None, ways.collect(), &|server, path| {
            load::round(bench, server, Asked { path, script: "plain.lua", connections: CONNECTIONS, close })
        })
    });
    let rows = rows.collect();
    let what = format!(
        "{what}; a file of 1 KB, {CONNECTIONS} connections, {} threads on CPUs {}, the generator on {}{}",
        bench.server_threads,
        bench.server_cpus,
        bench.client_cpus,
        if bench.server_cpus == bench.client_cpus {
            " (shared: this machine cannot show what the setting is for)"
        } else {
            ""
        }
    );
    let [name, corner, base] = [name, "load", base].map(str::to_owned);
    Grid { name, what, corner, base, columns, rows }
}

/// Connections that the kernel holds until their request is there, and connections that come at once (2002).
pub(super) fn deferring(bench: &Bench) -> Result<Grid> {
    let setups = [("at once", "defer_accept = false"), ("deferred", "defer_accept = true")];
    let mut columns: Vec<String> = setups.iter().map(|(name, _)| (*name).to_owned()).collect();
    let peers = [Kind::Nginx, Kind::NginxDeferred];
    columns.extend(peers.map(|kind| kind.name().to_owned()));
    let mut servers: Vec<Result<Running>> = setups
        .iter()
        .map(|(name, listen)| {
            let setup = Setup { maitred_listen: (*listen).to_owned(), ..bench.setup(Vec::new()) };
            Running::start_as(Kind::Maitred, &format!("maitred-{}", name.replace(' ', "-")), &setup)
        })
        .collect();
    servers.extend(peers.map(|kind| Running::start(kind, &bench.setup(Vec::new()))));
    let ways = servers
        .into_iter()
        .map(|server| Way { server, path: "/1k.txt".to_owned(), body_bytes: 1 << 10 })
        .collect();
    let row = grid::measure_with(bench, "a connection per request", None, ways, &|server, path| {
        load::round(bench, server, Asked { path, script: "plain.lua", connections: 64, close: true })
    });
    let what = "Connections that the kernel keeps until their first bytes are there (TCP_DEFER_ACCEPT), and connections \
                that are taken at once; a file of 1 KB, 64 connections at a time";
    Ok(Grid {
        name: "defer".to_owned(),
        what: what.to_owned(),
        corner: "load".to_owned(),
        base: "at once".to_owned(),
        columns,
        rows: vec![row],
    })
}
