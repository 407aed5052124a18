//! The same response in several ways: accepted by the application itself, handed off, and passed on by proxies.
//!
//! The application that accepts by itself, and the one behind proxies, is the floor with a body of that size: nothing
//! can be cheaper. The one that takes what Maitred hands off is `crates/maitred-handoff/examples/worker.rs`.

use std::path::PathBuf;

use super::grid::{self, Grid, Way};
use super::load::{self, Asked, Round};
use super::peers::Kind;
use super::server::Running;
use super::{Bench, Result};

/// Response sizes of the crossover plot.
const SIZES: [(&str, u64); 8] = [
    ("100 B", 100),
    ("1 KB", 1 << 10),
    ("4 KB", 4 << 10),
    ("16 KB", 16 << 10),
    ("64 KB", 64 << 10),
    ("100 KB", 100 << 10),
    ("1 MB", 1 << 20),
    ("10 MB", 10 << 20),
];
/// From here on the client's CPU time counts: what an application returns instead of waiting for the client leaves by
/// sendfile(2), and the receiver pays for that copy.
const CLIENT_COUNTS_BYTES: u64 = 10 << 20;
/// Sizes of what is measured for every adapter and every proxy (issue 5).
pub(super) const SIZES_OF_ADAPTERS: [(&str, u64); 3] =
    [("1 KB", 1 << 10), ("100 KB", 100 << 10), ("1 MB", 1 << 20)];

/// Ways through Maitred.
pub(super) const TRANSPORTS: [&str; 3] = ["direct", "relay", "auto"];

/// Fewer connections for large bodies, so that the sockets' buffers do not hold most of the time.
pub(super) fn connections(bytes: u64) -> u32 {
    match bytes {
        0..0x10_0000 => 64,
        0x10_0000..0xa0_0000 => 16,
        _ => 8,
    }
}

/// Handoff against proxies against accepting directly, over response sizes: the crossover plot.
pub(super) fn crossover(bench: &Bench) -> Result<Grid> {
    let what = "One response of each size: accepted by the application itself (floor), handed off by Maitred in three ways, \
                passed on by Maitred as a proxy (http), and by nginx; CPU of front and application together";
    table(bench, "handoff", what, &SIZES, &[Kind::Nginx])
}

/// The peers as proxies, at the sizes of the adapters.
pub(super) fn proxies(bench: &Bench) -> Result<Grid> {
    let what = "The peers as proxies with kept connections to the floor, beside handoff; CPU of front and application together";
    table(bench, "proxy", what, &SIZES_OF_ADAPTERS, &bench.peers)
}

fn table(bench: &Bench, name: &str, what: &str, sizes: &[(&str, u64)], peers: &[Kind]) -> Result<Grid> {
    let peers: Vec<Kind> = peers.iter().copied().filter(|kind| *kind != Kind::NginxAio).collect();
    let mut columns = vec!["floor".to_owned()];
    columns.extend(TRANSPORTS.map(str::to_owned));
    columns.push("http".to_owned());
    columns.extend(peers.iter().map(|kind| kind.name().to_owned()));
    let rows = sizes.iter().map(|&(label, bytes)| {
        let mut ways = handed_off(bench, bytes);
        ways.push(way(maitred_as_proxy(bench, bytes), bytes));
        ways.extend(peers.iter().map(|&kind| way(proxy(bench, kind, bytes), bytes)));
        let counts_client = bytes >= CLIENT_COUNTS_BYTES;
        let label = if counts_client { format!("{label}, client counted") } else { label.to_owned() };
        let (size, connections) = (Some(bytes as f64), connections(bytes));
        grid::measure_with(bench, &label, size, ways, &|server, path| {
            let asked = Asked { path, script: "plain.lua", connections, close: false };
            Ok(Round { counts_client, ..load::round(bench, server, asked)? })
        })
    });
    let rows = rows.collect();
    Ok(Grid {
        name: name.to_owned(),
        what: what.to_owned(),
        corner: "response".to_owned(),
        base: "floor".to_owned(),
        columns,
        rows,
    })
}

fn way(server: Result<Running>, bytes: u64) -> Way {
    Way { server, path: format!("/app/bytes/{bytes}"), body_bytes: bytes }
}

/// The floor itself, and the example worker by each transport.
pub(super) fn handed_off(bench: &Bench, bytes: u64) -> Vec<Way> {
    let mut ways = vec![way(floor(bench, "floor", bytes), bytes)];
    ways.extend(TRANSPORTS.map(|transport| way(worker(bench, transport), bytes)));
    ways
}

/// nginx before the floor.
pub(super) fn behind_nginx(bench: &Bench, bytes: u64) -> Way {
    way(proxy(bench, Kind::Nginx, bytes), bytes)
}

/// The floor with a body of so many bytes.
fn floor(bench: &Bench, name: &str, bytes: u64) -> Result<Running> {
    let setup = bench.setup(vec!["-s".to_owned(), bytes.to_string()]);
    Running::start_as(Kind::Floor, name, &setup)
}

/// The Rust example of the repository, behind Maitred.
fn worker(bench: &Bench, transport: &str) -> Result<Running> {
    let program: PathBuf = bench.maitred.with_file_name("examples").join("worker");
    if !program.exists() {
        return Err(
            "no example worker: cargo build --profile dist -p maitred-handoff --example worker".into()
        );
    }
    let mut setup = bench.setup(Vec::new());
    setup.maitred_more = format!(
        "[[site.route]]\npath = \"/app/*\"\npool = \"app\"\n\n[pool.app]\ncommand = [\"{}\"]\nworkers = 1\n\
         transport = \"{transport}\"\n",
        program.display()
    );
    setup.ready = "/app/bytes/1".to_owned();
    Running::start_as(Kind::Maitred, &format!("maitred-{transport}"), &setup)
}

fn maitred_as_proxy(bench: &Bench, bytes: u64) -> Result<Running> {
    let backend = floor(bench, "floor-behind-maitred", bytes)?;
    let mut setup = bench.setup(Vec::new());
    setup.maitred_more = format!(
        "[[site.route]]\npath = \"/app/*\"\npool = \"app\"\n\n[pool.app]\nconnect = \"http://{}\"\n",
        backend.address
    );
    setup.ready = "/app/ready".to_owned();
    Ok(Running::start_as(Kind::Maitred, "maitred-http", &setup)?.before(backend))
}

/// A peer in front of the floor.
fn proxy(bench: &Bench, kind: Kind, bytes: u64) -> Result<Running> {
    let backend = floor(bench, &format!("floor-behind-{}", kind.name()), bytes)?;
    let mut setup = bench.setup(Vec::new());
    setup.backend = backend.address;
    setup.ready = "/app/ready".to_owned();
    Ok(Running::start_as(kind, &format!("{}-proxy", kind.name()), &setup)?.before(backend))
}
