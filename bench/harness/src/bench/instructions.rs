//! Instructions per request in user space, counted by callgrind, which noise cannot touch.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::peers::Kind;
use super::server::{Running, Setup};
use super::{Bench, Budget, Outcome, Row};
use crate::Result;
use xtask::test_instructions::each;

const CONNECTIONS: usize = 8;
/// Requests for each connection: the difference between two runs is free of what starting and stopping cost.
const FEW: usize = 125;
const MANY: usize = 375;

/// Ways of choosing a server, as `crates/maitred/examples/balancing.rs` names them, and the servers of a pool.
const CHOICES: [(&str, &str, &str); 9] = [
    ("least requests, 1 server", "least-requests", "1"),
    ("least requests, 8 servers", "least-requests", "8"),
    ("least requests, 100 servers", "least-requests", "100"),
    ("round robin, 1 server", "round-robin", "1"),
    ("round robin, 8 servers", "round-robin", "8"),
    ("round robin, 100 servers", "round-robin", "100"),
    ("hash, 1 server", "hash", "1"),
    ("hash, 8 servers", "hash", "8"),
    ("hash, 100 servers", "hash", "100"),
];
/// What 100 servers instead of one may add to a request: three hundredths of its parts in `bench/instructions/baseline.toml`
/// (`request`, `response`, `frame-write`).
const MORE_SERVERS_MAX: f64 = 415.0;

/// The choice of a server, in pools of several sizes. The count takes the whole crate in the profile for counting, which is
/// minutes of compilation: so it is no part of the tests.
pub(super) fn choices(bench: &Bench) -> Result<Outcome> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = ["build", "--quiet", "--profile", "instructions", "-p", "maitred", "--example", "balancing"];
    if !Command::new(cargo).args(build).status()?.success() {
        return Err("the example does not compile".into());
    }
    let program = bench.target.join("instructions/examples/balancing");
    let mut rows = Vec::new();
    for (server, policy, servers) in CHOICES {
        let cost = each(&program, &[policy, servers])?;
        rows.push(Row { server, cost, note: "a choice, and its end".to_owned(), failures: 0 });
    }
    let of = |wanted: &str| rows.iter().find(|row| row.server == wanted).map_or(0.0, |row| row.cost);
    let more = (of("least requests, 100 servers") - of("least requests, 1 server")).max(0.0);
    let note = "what 100 servers take more than one, with the default `balance`".to_owned();
    rows.insert(0, Row { server: "maitred", cost: more, note, failures: 0 });
    let raw = rows.iter().map(|row| (row.server.to_owned(), json!(row.cost))).collect();
    let what = "instructions in user space for the choice of a server (callgrind)";
    let budget = Budget::Absolute(MORE_SERVERS_MAX);
    Ok(Outcome::new(
        "choices",
        what,
        budget,
        "instructions per request",
        rows,
        serde_json::Value::Object(raw),
    ))
}

pub(super) fn run(bench: &Bench) -> Result<Outcome> {
    let mut rows = Vec::new();
    let mut raw = serde_json::Map::new();
    for kind in [Kind::Floor].into_iter().chain(bench.file_servers()) {
        if kind == Kind::Maitred && !bench.maitred.exists() {
            continue;
        }
        let counts = count(bench, kind, FEW).and_then(|few| Ok((few, count(bench, kind, MANY)?)));
        let (few, many) = match counts {
            Ok(counts) => counts,
            Err(error) => {
                // valgrind 3.19 lacks pidfd_open(2), which the master needs.
                eprintln!("  {} does not run under valgrind: {error}", kind.name());
                continue;
            }
        };
        let each = many.saturating_sub(few) as f64 / ((MANY - FEW) * CONNECTIONS) as f64;
        let note = format!("{} requests on {CONNECTIONS} connections", (MANY - FEW) * CONNECTIONS);
        rows.push(Row { server: kind.name(), cost: each, note, failures: 0 });
        raw.insert(kind.name().to_owned(), json!({ "few": few, "many": many, "each": each }));
    }
    let what = "instructions in user space for a hot file of 1 KB, keep-alive, access log on (callgrind)";
    Ok(Outcome::new("instructions", what, Budget::None, "instructions per request", rows, raw.into()))
}

/// Instructions of a whole run with so many requests for each connection.
fn count(bench: &Bench, kind: Kind, requests: usize) -> Result<u64> {
    let counts = bench.work.join("callgrind");
    if counts.exists() {
        fs::remove_dir_all(&counts)?;
    }
    fs::create_dir_all(&counts)?;
    // Workers may run as another account.
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&counts, everybody)?;
    let wrapper = ["valgrind", "-q", "--tool=callgrind", "--trace-children=yes"].map(str::to_owned);
    let out = format!("--callgrind-out-file={}/%p", counts.display());
    let setup = Setup { wrapper: wrapper.into_iter().chain([out]).collect(), ..bench.setup(Vec::new()) };
    let server = Running::start(kind, &setup)?;
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(server.connect()?);
    }
    for _ in 0..requests {
        for client in &mut clients {
            client.send("/1k.txt")?;
        }
        for client in &mut clients {
            client.receive()?;
        }
    }
    drop(clients);
    drop(server);
    sum(&counts)
}

/// Adds up what callgrind counted in each process.
fn sum(counts: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(counts)? {
        let text = fs::read_to_string(entry?.path())?;
        let total =
            text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
        sum += total.and_then(|total| total.trim().parse::<u64>().ok()).unwrap_or_default();
    }
    if sum == 0 { Err("callgrind counted nothing".into()) } else { Ok(sum) }
}
