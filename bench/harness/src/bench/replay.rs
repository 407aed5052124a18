//! Loads of `maitred-load`: an access log again.

use std::process::{Command, Stdio};

use serde::Deserialize;

use super::grid::{self, Grid, Way};
use super::load::{Report, Round, round_with};
use super::peers::Kind;
use super::server::{Running, Setup};
use super::{Bench, Result};

/// Requests of a round of `replay` for each second that a round should take: about what fifteen connections get of large files.
const REQUESTS_PER_SECOND: u64 = 5_000;

/// What is read of `maitred-load --json`.
#[derive(Deserialize)]
pub(super) struct Said {
    elapsed: f64,
    responses: u64,
    failures: u64,
    body_bytes: u64,
    latency_us: Latency,
    pub(super) specweb: Option<Conforming>,
}

#[derive(Deserialize)]
struct Latency {
    max: f64,
    quantiles: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
pub(super) struct Conforming {
    pub(super) connections: u64,
    pub(super) conforming: u64,
}

impl Said {
    fn report(&self) -> Report {
        let quantile = |wanted: f64| {
            let found =
                self.latency_us.quantiles.iter().find(|(quantile, _)| (quantile - wanted).abs() < 1e-9);
            found.map_or(0, |(_, value)| *value as u64)
        };
        Report {
            requests: self.responses,
            microseconds: (self.elapsed * 1e6) as u64,
            bytes: self.body_bytes,
            p50: quantile(0.5),
            p99: quantile(0.99),
            max: self.latency_us.max as u64,
            read_errors: self.failures,
            ..Report::default()
        }
    }
}

/// The command, on the generator's CPUs.
pub(super) fn maitred_load(bench: &Bench, arguments: &[&str]) -> Result<Vec<u8>> {
    let program = bench.maitred.with_file_name("maitred-load");
    if !program.exists() {
        return Err(format!("no {}: cargo build --profile dist -p maitred-load", program.display()).into());
    }
    let mut command = Command::new("taskset");
    command.args(["-c", &bench.client_cpus]).arg(program).args(arguments).stdin(Stdio::null());
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("maitred-load {}: {}: {said}", arguments.join(" "), output.status).into());
    }
    Ok(output.stdout)
}

/// One round of load, and what `maitred-load` said of it.
pub(super) fn load(bench: &Bench, server: &Running, arguments: &[&str]) -> Result<(Round, Said)> {
    let mut said = None;
    let round = round_with(server, || {
        let to = server.url("");
        let mut words = arguments.to_vec();
        words.extend(["--to", &to, "--json", "--quiet"]);
        let parsed: Said = serde_json::from_slice(&maitred_load(bench, &words)?)?;
        let report = parsed.report();
        said = Some(parsed);
        Ok(report)
    })?;
    Ok((round, said.ok_or("maitred-load was not run")?))
}

/// The requests of a real access log, over files of the logged sizes, as fast as fifteen connections can. A round has a number
/// of requests and not a length: files at the beginning of a log may be larger than those at its end, and all servers are to
/// send the same.
pub(super) fn replay(bench: &Bench) -> Result<Grid> {
    let log = bench.log.as_ref().ok_or("no access log: --log FILE, or MAITRED_ACCESS_LOG, names one")?;
    let log = log.to_str().ok_or("the log's path is not UTF-8")?;
    let root = bench.work.join("replay-root");
    maitred_load(bench, &["make-tree", log, &root.to_string_lossy()])?;
    std::fs::write(root.join("1k.txt"), [b'x'; 1024])?;
    let setup = Setup { root, mixed_sizes: true, ..bench.setup(Vec::new()) };
    let kinds: Vec<Kind> = bench.file_servers().collect();
    let ways = kinds.iter().map(|&kind| Way {
        server: Running::start(kind, &setup),
        path: String::new(),
        body_bytes: 0,
    });
    let requests = u64::from(bench.seconds) * REQUESTS_PER_SECOND;
    let label = format!("-c 15 -n {requests}");
    let row = grid::measure_with(bench, &label, None, ways.collect(), &|server, _| {
        let count = requests.to_string();
        let (round, said) =
            load(bench, server, &["replay", log, "--connections", "15", "--loop", "--requests", &count])?;
        if said.responses + said.failures != requests {
            return Err(format!("{} answered {} of {requests} requests", server.name, said.responses).into());
        }
        Ok(Round { counts_client: true, ..round })
    });
    let columns = kinds.iter().map(|kind| kind.name().to_owned()).collect();
    let what = "A real access log (`maitred-load replay -c 15`), over files of the logged lengths; the client's CPU is counted \
                too, since most of the bytes are those of large files";
    Ok(Grid {
        name: "replay".to_owned(),
        what: what.to_owned(),
        corner: "load".to_owned(),
        base: "nginx".to_owned(),
        columns,
        rows: vec![row],
    })
}
