//! Loads of `maitred-load`: an access log again, and the workload in the manner of SPECweb99.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::grid::{self, Cell, Grid, Way};
use super::load::{Report, Round, round_with};
use super::peers::Kind;
use super::server::{Running, Setup, free_address};
use super::{Bench, Result};

/// Simultaneous connections of the SPECweb-like workload; the data set grows with them (some 330 MB here).
const SPECWEB_CONNECTIONS: u32 = 100;

/// What is read of `maitred-load --json`.
#[derive(Deserialize)]
struct Said {
    elapsed: f64,
    responses: u64,
    failures: u64,
    body_bytes: u64,
    latency_us: Latency,
    specweb: Option<Conforming>,
}

#[derive(Deserialize)]
struct Latency {
    max: f64,
    quantiles: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
struct Conforming {
    connections: u64,
    conforming: u64,
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
fn maitred_load(bench: &Bench, arguments: &[&str]) -> Result<Vec<u8>> {
    let program = bench.maitred.with_file_name("maitred-load");
    if !program.exists() {
        return Err(format!("no {}: cargo build --release -p maitred-load", program.display()).into());
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
fn load(bench: &Bench, server: &Running, arguments: &[&str]) -> Result<(Round, Said)> {
    let mut said = None;
    let round = round_with(server, || {
        let (to, duration) = (format!("http://{}", server.address), format!("{}s", bench.seconds));
        let mut words = arguments.to_vec();
        words.extend(["--to", &to, "--duration", &duration, "--json", "--quiet"]);
        let parsed: Said = serde_json::from_slice(&maitred_load(bench, &words)?)?;
        let report = parsed.report();
        said = Some(parsed);
        Ok(report)
    })?;
    Ok((round, said.ok_or("maitred-load was not run")?))
}

/// The requests of a real access log, over files of the logged sizes, as fast as fifteen connections can.
pub(super) fn replay(bench: &Bench) -> Result<Grid> {
    let log = bench.log.as_ref().ok_or("no access log: --log FILE, or MAITRED_ACCESS_LOG, names one")?;
    let log = log.to_str().ok_or("the log's path is not UTF-8")?;
    let root = bench.work.join("replay-root");
    maitred_load(bench, &["make-tree", log, &root.to_string_lossy()])?;
    std::fs::write(root.join("1k.txt"), [b'x'; 1024])?;
    let setup = Setup { root, mixed_sizes: true, ..bench.setup(Vec::new()) };
    let kinds: Vec<Kind> = bench.file_servers().collect();
    let ways = kinds.iter().map(|&kind| Way { server: Running::start(kind, &setup), path: String::new() });
    let row = grid::measure_with(bench, "-c 15, as fast as possible", None, ways.collect(), &|server, _| {
        Ok(load(bench, server, &["replay", log, "--connections", "15", "--loop"])?.0)
    });
    let columns = kinds.iter().map(|kind| kind.name().to_owned()).collect();
    let what = "A real access log (`maitred-load replay -c 15`), over files of the logged lengths";
    Ok(Grid {
        name: "replay".to_owned(),
        what: what.to_owned(),
        corner: "load".to_owned(),
        base: "nginx".to_owned(),
        columns,
        rows: vec![row],
    })
}

/// Static files and a dynamic third, in the manner of SPECweb99; it is not SPECweb99 and gives no SPEC metric.
pub(super) fn specweb(bench: &Bench) -> Result<Grid> {
    let data = bench.work.join("specweb");
    let connections = SPECWEB_CONNECTIONS.to_string();
    maitred_load(bench, &["specweb", &data.to_string_lossy(), "--make", "--connections", &connections])?;
    std::fs::write(data.join("1k.txt"), [b'x'; 1024])?;
    let ways = vec![
        Way { server: maitred_with_application(bench, &data), path: String::new() },
        Way { server: nginx_with_application(bench, &data), path: String::new() },
    ];
    // The share that conforms, of the last round of each.
    let conforming = std::cell::RefCell::new(Vec::new());
    let row = grid::measure_with(bench, &format!("{connections} connections"), None, ways, &|server, _| {
        let (round, said) = load(bench, server, &["specweb", "--connections", &connections])?;
        if let Some(found) = said.specweb {
            let mut all = conforming.borrow_mut();
            all.push(format!("{} {} of {}", server.name, found.conforming, found.connections));
        }
        Ok(round)
    });
    let measured = row.cells.iter().filter(|cell| matches!(cell, Cell::Measured(_))).count();
    let all = conforming.into_inner();
    let last = all.get(all.len().saturating_sub(measured)..).unwrap_or_default().join(", ");
    let what = format!(
        "The workload of `maitred-load specweb`: 70 % files, 30 % a Python application, clients of 400 kbit/s; not SPECweb99, \
         and no SPEC metric. Connections that got 320 kbit/s in the last round: {last}"
    );
    let columns = vec!["maitred".to_owned(), "nginx".to_owned()];
    let [name, corner, base] = ["specweb", "load", "nginx"].map(str::to_owned);
    Ok(Grid { name, what, corner, base, columns, rows: vec![row] })
}

fn application(bench: &Bench) -> PathBuf {
    bench.repository().join("examples/specweb")
}

fn maitred_with_application(bench: &Bench, data: &Path) -> Result<Running> {
    let mut setup = Setup { root: data.to_owned(), mixed_sizes: true, ..bench.setup(Vec::new()) };
    setup.maitred_more = format!(
        "[[site.route]]\npath = \"/app/*\"\npool = \"app\"\n\n[pool.app]\n\
         command = [\"python3\", \"-m\", \"maitred\", \"app:application\"]\nworkers = 2\nmount = \"/app\"\ncwd = \"{}\"\n\
         env = {{ PYTHONPATH = \"{}\", SPECWEB_ROOT = \"{}\" }}\n",
        application(bench).display(),
        bench.repository().join("adapters/python").display(),
        data.display()
    );
    Running::start_as(Kind::Maitred, "maitred-specweb", &setup)
}

/// The same application in gunicorn, which is what stands behind nginx commonly.
fn nginx_with_application(bench: &Bench, data: &Path) -> Result<Running> {
    let python = bench.target.join("python/bin/python3");
    if !python.exists() {
        return Err("no gunicorn: `cargo xtask test` installs it below target/".into());
    }
    let address = free_address()?;
    let bind = address.to_string();
    let python = python.display().to_string();
    let words = [
        &python,
        "-m",
        "gunicorn",
        "--workers",
        "2",
        "--threads",
        "4",
        "--keep-alive",
        "60",
        "--bind",
        &bind,
    ];
    let words: Vec<String> = words.into_iter().chain(["app:application"]).map(str::to_owned).collect();
    let mut setup = Setup { root: data.to_owned(), mixed_sizes: true, ..bench.setup(Vec::new()) };
    setup.environment = vec![("SPECWEB_ROOT".to_owned(), data.display().to_string())];
    setup.ready = "/get?/file_set/dir00000/class0_0".to_owned();
    let gunicorn = Running::start_program("gunicorn-specweb", &words, address, &setup, &application(bench))?;
    setup.backend = address;
    setup.backend_path = "/".to_owned();
    setup.ready = "/1k.txt".to_owned();
    Ok(Running::start_as(Kind::Nginx, "nginx-specweb", &setup)?.before(gunicorn))
}
