//! Instructions per request in user space, counted by callgrind, which noise cannot touch.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::peers::Kind;
use super::server::{Running, Setup};
use super::{Bench, Budget, Outcome, Row};
use crate::Result;

const CONNECTIONS: usize = 8;
/// Requests for each connection: the difference between two runs is free of what starting and stopping cost.
const FEW: usize = 125;
const MANY: usize = 375;

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
