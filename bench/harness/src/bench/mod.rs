//! `cargo xtask bench`: Maitred against the floor and against peers.
//!
//! The server is pinned to CPU 0, the generator to CPU 1. The figure is the CPU time of the server's whole process
//! tree per answered request, in interleaved rounds; results are ratios inside one run, and medians.

mod adapters;
mod applications;
mod arena;
mod cache;
mod client;
mod compressed;
mod disk;
mod documents;
mod grid;
mod h2load;
mod handoff;
mod idle;
mod instructions;
mod ktls;
mod lifecycle;
mod load;
mod module;
mod peers;
mod plot;
mod process;
mod protocol;
mod replay;
mod report;
mod secure;
mod server;
mod specweb;
mod syscalls;
mod tuning;
mod upstreams;
mod verdicts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use applications::Table;
use documents::Shown;
use grid::Grid;
use peers::Kind;
use protocol::Protocol;
use report::{Budget, Outcome, Row};
use server::{Running, Setup};

use crate::Result;

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Scenarios to run; all without any
    scenarios: Vec<String>,
    /// Name the scenarios and what each measures, and end
    #[arg(long)]
    list: bool,
    /// Rounds of each server in a scenario
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Length of a round
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Peers to measure too: nginx, nginx-unbuffered, nginx-aio, nginx-deferred, h2o, lighttpd, caddy, apache, haproxy
    #[arg(long, value_delimiter = ',', default_value = "nginx")]
    peers: Vec<String>,
    /// Applications of `adapters`, such as go,python-wsgi, those of `applications`, such as wsgi,django/http2, or profiles of
    /// `arena`, such as json,static-h2 [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The access log of the scenario `replay` [default: what MAITRED_ACCESS_LOG names]
    #[arg(long)]
    log: Option<PathBuf>,
    /// Where the results go [default: bench/runs/DATE-LABEL]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Last part of the results' directory
    #[arg(long, default_value = "bench")]
    label: String,
    /// Put tables and verdicts into their places in docs/ as well
    #[arg(long)]
    write_docs: bool,
    /// Measure nothing: put what a run has kept into docs/
    #[arg(long, value_name = "RUN", conflicts_with_all = ["scenarios", "list"])]
    again: Option<PathBuf>,
    /// The binary to measure; maitred-load and examples/worker are taken from beside it [default: target/dist/maitred]
    #[arg(long)]
    maitred: Option<PathBuf>,
    /// An older binary, which the peer `maitred-before` is; a change is measured beside what was there
    #[arg(long, value_name = "BINARY")]
    before: Option<PathBuf>,
    /// Keys of the configurations in bench/peers that the older binary does not know, with commas between
    #[arg(long, default_value = "", requires = "before")]
    newer_keys: String,
    /// A root directory with an nginx that has HTTP/3, for the scenario `arena-http3`; started by chroot(8)
    #[arg(long, value_name = "DIR")]
    nginx_root: Option<PathBuf>,
    /// Scratch directory, on a disk [default: target/bench]
    #[arg(long)]
    work: Option<PathBuf>,
}

/// What all scenarios share.
#[derive(Debug, Clone)]
struct Bench {
    /// When the run began.
    began: SystemTime,
    /// The repository's `bench`.
    directory: PathBuf,
    /// Cargo's target directory.
    target: PathBuf,
    work: PathBuf,
    maitred: PathBuf,
    before: PathBuf,
    newer_keys: String,
    log: Option<PathBuf>,
    nginx_root: Option<PathBuf>,
    rounds: u32,
    seconds: u32,
    peers: Vec<Kind>,
    only: Vec<String>,
    /// CPUs of the machine.
    cpus: usize,
    /// CPUs as taskset(1) takes them, and how many these are.
    server_cpus: String,
    server_threads: usize,
    client_cpus: String,
    client_threads: u32,
}

impl Bench {
    fn setup(&self, floor: Vec<String>) -> Setup {
        Setup {
            bench: self.directory.clone(),
            maitred: self.maitred.clone(),
            before: self.before.clone(),
            newer_keys: self.newer_keys.clone(),
            work: self.work.clone(),
            root: self.work.join("root"),
            cpus: self.server_cpus.clone(),
            floor,
            wrapper: Vec::new(),
            protocol: Protocol::Http1,
            mixed_sizes: false,
            // There is no listener; a scenario with a proxy names its own.
            backend: ([127, 0, 0, 1], 9).into(),
            backend_path: String::new(),
            passing: server::Passing::plain(),
            maitred_threads: 1,
            maitred_server: String::new(),
            maitred_listen: String::new(),
            maitred_more: String::new(),
            environment: Vec::new(),
            ready: "/1k.txt".to_owned(),
        }
    }

    /// Starts a server; `None`, with a word on why, for one that is not installed.
    fn start(&self, kind: Kind, setup: &Setup) -> Result<Option<Running>> {
        if let Some(why) = kind.absent(setup) {
            eprintln!("  {} is absent: {why}", kind.name());
            return Ok(None);
        }
        match Running::start(kind, setup) {
            // A peer may lack a module: lighttpd-mod-openssl is a package of its own.
            Err(error) if kind != Kind::Maitred && kind != Kind::Floor => {
                eprintln!("  {} is absent: {error}", kind.name());
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    /// Maitred and the peers that serve files, in the order in which they are measured.
    fn file_servers(&self) -> impl Iterator<Item = Kind> {
        [Kind::Maitred].into_iter().chain(self.peers.iter().copied().filter(|kind| kind.serves_files()))
    }

    /// Servers whose signals and processes are known: SIGHUP reloads, and a child of the same program answers.
    fn nginx_like(&self) -> impl Iterator<Item = Kind> {
        self.file_servers().filter(|kind| {
            matches!(kind, Kind::Maitred | Kind::MaitredBefore) || kind.name().starts_with("nginx")
        })
    }

    fn wants(&self, application: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == application)
    }

    fn repository(&self) -> &Path {
        self.directory.parent().unwrap_or(&self.directory)
    }

    /// A text that names no place of this machine, as everything that is kept.
    fn without_places(&self, text: &str) -> String {
        text.replace(&*self.work.to_string_lossy(), "WORK")
            .replace(&*self.repository().to_string_lossy(), "REPOSITORY")
    }

    /// All CPUs of the machine shared out: halves from four on, all for both with fewer.
    fn shared_out(&self) -> Bench {
        let cpus = self.cpus;
        let half = cpus / 2;
        let range = |first: usize, last: usize| format!("{first}-{last}");
        let (server_cpus, client_cpus, threads) = match cpus {
            4.. => (range(0, half - 1), range(half, cpus - 1), half),
            _ => (range(0, cpus.max(1) - 1), range(0, cpus.max(1) - 1), cpus),
        };
        Bench {
            server_cpus,
            client_cpus,
            server_threads: threads,
            client_threads: threads as u32,
            ..self.clone()
        }
    }
}

/// What a scenario is run by.
#[derive(Clone, Copy)]
enum Run {
    /// wrk loads servers in turn.
    Load(&'static load::Load),
    /// One figure for each server.
    Figure(fn(&Bench) -> Result<Outcome>),
    /// A table.
    Grid(fn(&Bench) -> Result<Grid>),
    /// A table whose rows have servers of their own.
    Table(fn(&Bench) -> Result<Table>),
}

/// Scenarios beside [`load::LOADS`], and what each measures.
const SCENARIOS: [(&str, &str, Run); 32] = [
    ("idle-memory", "memory of an idle connection", Run::Figure(idle::run)),
    ("syscalls", "system calls per request, by strace", Run::Figure(syscalls::run)),
    ("instructions", "instructions per request, by callgrind", Run::Figure(instructions::run)),
    ("choices", "instructions for the choice of a server, of 1 to 100", Run::Figure(instructions::choices)),
    ("tls-idle-memory", "memory of an idle connection over TLS", Run::Figure(idle::run_tls)),
    ("tls-syscalls", "system calls per request over TLS", Run::Figure(syscalls::run_tls)),
    ("h2-syscalls", "system calls per request over HTTP/2", Run::Figure(syscalls::run_http2)),
    (
        "cold-disk",
        "a hot file while cold ones come from a slow disk (root, and --work on a disk)",
        Run::Figure(disk::run),
    ),
    ("reload", "requests that fail while the configuration is reloaded", Run::Figure(lifecycle::reload)),
    ("kill", "time without answers after the worker process is killed", Run::Figure(lifecycle::kill)),
    (
        "kill-pool",
        "the same for requests of a pool whose application takes a second to load",
        Run::Figure(lifecycle::kill_pool),
    ),
    ("start", "time to the first answer", Run::Figure(lifecycle::start)),
    (
        "handoff",
        "handoff, proxying and accepting directly, 100 B to 10 MB (2001)",
        Run::Grid(handoff::crossover),
    ),
    ("proxy", "the peers as proxies, beside handoff", Run::Grid(handoff::proxies)),
    (
        "upstreams",
        "what a proxy does besides: many servers, TLS, mapping, traces, copies",
        Run::Grid(upstreams::run),
    ),
    ("grpc", "unary calls of gRPC, beside the peers that pass them on", Run::Grid(upstreams::grpc)),
    (
        "cache-hits",
        "responses from the cache, beside a file, nginx's cache and Varnish",
        Run::Grid(cache::hits),
    ),
    ("cache-cold", "1,000 clients that want what is not in the cache yet", Run::Figure(cache::cold)),
    ("cache-misses", "what a cache costs where nothing is asked for twice", Run::Grid(cache::misses)),
    ("adapters", "each adapter's application alone, behind Maitred, behind nginx", Run::Grid(adapters::run)),
    (
        "applications",
        "applications with frameworks and without: alone, behind nginx, Caddy and Maitred",
        Run::Table(applications::run),
    ),
    ("buckets", "one accept queue, or one for each thread (2014)", Run::Grid(tuning::buckets)),
    ("affinity", "pinned threads (2023)", Run::Grid(tuning::affinity)),
    ("defer", "connections that wait in the kernel for their request (2002)", Run::Grid(tuning::deferring)),
    (
        "compressed",
        "files that are sent compressed, beside plain ones of their length",
        Run::Grid(compressed::run),
    ),
    (
        "module",
        "a small answer of an in-process module, beside a configured one (cargo build --profile dist -p maitred-module --examples)",
        Run::Grid(module::run),
    ),
    ("ktls", "TLS that the kernel encrypts, beside TLS of the server itself", Run::Grid(ktls::run)),
    ("replay", "a real access log again (--log)", Run::Grid(replay::replay)),
    (
        "arena-http1",
        "HttpArena's profiles over HTTP/1.1, beside nginx, H2O and Caddy",
        Run::Grid(arena::http1),
    ),
    ("arena-http2", "HttpArena's profiles over HTTP/2", Run::Grid(arena::http2)),
    ("arena-http3", "HttpArena's profiles over HTTP/3 (--nginx-root)", Run::Grid(arena::http3)),
    ("specweb", "files and an application, in the manner of SPECweb99", Run::Grid(specweb::run)),
];

/// Names for several scenarios.
const GROUPS: [(&str, &[&str]); 2] = [
    ("cache", &["cache-hits", "cache-cold", "cache-misses"]),
    ("arena", &["arena-http1", "arena-http2", "arena-http3"]),
];

/// The scenarios that a name stands for.
fn named(name: &str) -> Vec<&str> {
    let group = GROUPS.iter().find(|(group, _)| *group == name);
    group.map_or_else(|| vec![name], |(_, scenarios)| scenarios.to_vec())
}

/// Name, what it measures, and how, of every scenario.
fn scenarios() -> impl Iterator<Item = (&'static str, &'static str, Run)> {
    load::LOADS.iter().map(|load| (load.name, load.what, Run::Load(load))).chain(SCENARIOS)
}

/// Runs the scenarios, and writes the results.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        scenarios().for_each(|(name, what, _)| println!("{name:15} {what}"));
        GROUPS.iter().for_each(|(name, scenarios)| println!("{name:15} {}", scenarios.join(", ")));
        return Ok(());
    }
    if let Some(run) = &arguments.again {
        let run = std::path::absolute(run)?;
        return Shown::read(&run)?.write(xtask::root(), &run);
    }
    let known = |wanted: &String| {
        named(wanted).into_iter().all(|wanted| scenarios().any(|(name, ..)| name == wanted))
    };
    if let Some(unknown) = arguments.scenarios.iter().find(|name| !known(name)) {
        return Err(format!("there is no scenario {unknown:?}; --list names them").into());
    }
    let wanted = |name: &str| {
        arguments.scenarios.is_empty()
            || arguments.scenarios.iter().any(|scenario| named(scenario).contains(&name))
    };
    let bench = prepare(arguments)?;
    let environment = report::environment(&bench.peers, bench.cpus);
    let Measured { outcomes, grids, tables, failed } = measure(&bench, &wanted);
    let method = format!(
        "`cargo xtask bench {}`: server on CPU 0, generator on CPU 1, where a scenario does not say otherwise; {} interleaved \
         rounds of {} s; medians. Ratios hold inside this run only.",
        arguments.scenarios.join(" "),
        bench.rounds,
        bench.seconds
    );
    let out = arguments.out.clone().unwrap_or_else(|| {
        bench.directory.join("runs").join(format!("{}-{}", report::today(), arguments.label))
    });
    let figures = outcomes.iter().map(Outcome::figures).collect();
    let shown = Shown { grids, figures, cpus: bench.cpus };
    let kept = report::Kept {
        method: &method,
        environment: &environment,
        outcomes: &outcomes,
        shown: &shown,
        tables: &tables,
    };
    report::write(&out, &kept)?;
    keep_configurations(&bench, &out)?;
    if arguments.write_docs {
        shown.write(bench.repository(), &out)?;
    }
    println!("{}", fs::read_to_string(out.join("summary.md"))?);
    eprintln!("results: {}", out.display());
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
}

/// What the scenarios gave.
#[derive(Default)]
struct Measured {
    outcomes: Vec<Outcome>,
    grids: Vec<Grid>,
    tables: Vec<Table>,
    /// What could not be measured, and why.
    failed: Vec<String>,
}

/// Runs the scenarios that are wanted.
fn measure(bench: &Bench, wanted: &dyn Fn(&str) -> bool) -> Measured {
    let mut all = Measured::default();
    for (name, _, how) in scenarios().filter(|(name, ..)| wanted(name)) {
        eprintln!("{name}");
        let result = match how {
            Run::Load(load) => load::run(bench, load).map(|outcome| all.outcomes.push(outcome)),
            Run::Figure(run) => run(bench).map(|outcome| all.outcomes.push(outcome)),
            // A table of which nothing was wanted has no rows.
            Run::Grid(run) => {
                run(bench).map(|grid| all.grids.extend((!grid.rows.is_empty()).then_some(grid)))
            }
            Run::Table(run) => {
                run(bench).map(|table| all.tables.extend((!table.rows.is_empty()).then_some(table)))
            }
        };
        if let Err(error) = result {
            eprintln!("  {error}");
            all.failed.push(format!("{name}: {error}"));
        }
    }
    all
}

/// Copies the filled-in configurations beside the results.
fn keep_configurations(bench: &Bench, out: &Path) -> Result<()> {
    for kind in [Kind::Maitred].into_iter().chain(bench.peers.iter().copied()) {
        let files = Protocol::ALL.map(|protocol| (protocol.suffix(), kind.configuration(protocol)));
        for (suffix, name) in files.into_iter().chain([("-proxy", kind.configuration(Protocol::Http1))]) {
            let Some(name) = name else { continue };
            let place = format!("{}{suffix}", kind.name());
            keep(bench, &bench.work.join(&place).join(name), &out.join(format!("{place}-{name}")))?;
        }
    }
    for directory in [arena::kept(bench), applications::kept(bench)] {
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let entry = entry?;
            keep(bench, &entry.path(), &out.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Copies one of them, unless it is of an earlier run.
fn keep(bench: &Bench, configuration: &Path, to: &Path) -> Result<()> {
    let written = fs::metadata(configuration).and_then(|metadata| metadata.modified());
    if !written.is_ok_and(|written| written >= bench.began) {
        return Ok(());
    }
    Ok(fs::write(to, bench.without_places(&fs::read_to_string(configuration)?))?)
}

/// Tools that every scenario needs, and the Debian packages that have them.
const TOOLS: [(&str, &str); 3] = [("taskset", "util-linux"), ("wrk", "wrk"), ("cc", "gcc")];
/// Tools without which single scenarios or rows are absent.
const MORE_TOOLS: [(&str, &str); 4] =
    [("h2load", "nghttp2-client"), ("strace", "strace"), ("valgrind", "valgrind"), ("python3", "python3")];

/// What is missing of some tools, as arguments of apt-get.
fn missing<'a>(tools: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let packages: Vec<&str> =
        tools.filter(|(tool, _)| !peers::installed(tool)).map(|(_, package)| package).collect();
    packages.join(" ")
}

/// Checks the tools, builds the floor, makes the tree of files, and moves this process to CPU 1.
fn prepare(arguments: &Arguments) -> Result<Bench> {
    let peers: Vec<Kind> = arguments.peers.iter().map(|name| Kind::from_name(name)).collect::<Result<_>>()?;
    let needed = missing(TOOLS.into_iter());
    if !needed.is_empty() {
        return Err(format!("not installed: {needed}; apt-get install {needed}").into());
    }
    let wished = missing(MORE_TOOLS.into_iter().chain(peers.iter().filter_map(|kind| kind.program())));
    if !wished.is_empty() {
        eprintln!("not installed, so something will be absent: apt-get install {wished}");
    }
    let repository = xtask::root();
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    let target = std::path::absolute(target)?;
    let bench = Bench {
        began: SystemTime::now(),
        directory: repository.join("bench"),
        // Absolute, since they stand in configurations that lie elsewhere.
        work: std::path::absolute(arguments.work.clone().unwrap_or_else(|| target.join("bench")))?,
        before: arguments
            .before
            .clone()
            .map_or_else(PathBuf::new, |path| std::path::absolute(&path).unwrap_or(path)),
        newer_keys: arguments.newer_keys.clone(),
        maitred: std::path::absolute(
            arguments.maitred.clone().unwrap_or_else(|| target.join("dist/maitred")),
        )?,
        log: arguments.log.clone().or_else(|| std::env::var_os("MAITRED_ACCESS_LOG").map(PathBuf::from)),
        nginx_root: arguments.nginx_root.as_deref().map(std::path::absolute).transpose()?,
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        target,
        rounds: arguments.rounds.max(1),
        seconds: arguments.seconds.max(1),
        peers,
        only: arguments.only.clone(),
        server_cpus: "0".to_owned(),
        server_threads: 1,
        client_cpus: "1".to_owned(),
        client_threads: 1,
    };
    fs::create_dir_all(&bench.work)?;
    build_floor(&bench, "floor", &[])?;
    if let Err(error) = build_floor(&bench, "floor-secure", &["-lssl", "-lcrypto"]) {
        eprintln!("{error}, so TLS and HTTP/2 have no floor: apt-get install libssl-dev");
    }
    make_tree(&bench.work.join("root"))?;
    secure::make_certificate(&bench.work)?;
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(1);
    rustix::thread::sched_setaffinity(None, &cpus)
        .map_err(|error| format!("a second CPU is needed: {error}"))?;
    raise_descriptor_limit()?;
    Ok(bench)
}

/// Compiles a program of `bench/floor/` into the scratch directory.
fn build_floor(bench: &Bench, name: &str, libraries: &[&str]) -> Result<()> {
    let program = bench.work.join(format!("{name}-binary"));
    if program.exists() {
        fs::remove_file(&program)?;
    }
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Wextra", "-o"]).arg(program);
    compiler.arg(bench.directory.join("floor").join(format!("{name}.c"))).args(libraries);
    if compiler.status()?.success() { Ok(()) } else { Err(format!("{name}.c does not compile").into()) }
}

fn raise_descriptor_limit() -> Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

fn make_tree(root: &Path) -> Result<()> {
    fs::create_dir_all(root.join("many"))?;
    fs::create_dir_all(root.join("large"))?;
    for (name, bytes) in [("1k.txt", 1 << 10), ("large/100k.bin", 100 << 10), ("large/10m.bin", 10 << 20)] {
        fs::write(root.join(name), vec![b'x'; bytes])?;
    }
    for number in 0..1000 {
        fs::write(root.join(format!("many/{number:03}.txt")), [b'x'; 1 << 10])?;
    }
    Ok(())
}

/// The middle of some figures; 0 of none.
fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(middle), middle.checked_sub(1).and_then(|below| sorted.get(below))) {
        (1, Some(&middle), _) => middle,
        (_, Some(&above), Some(&below)) => (above + below) / 2.0,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert_eq!(median(std::iter::empty()), 0.0);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = scenarios().map(|(name, ..)| name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        for (group, scenarios) in GROUPS {
            assert!(!names.contains(&group) && scenarios.iter().all(|scenario| names.contains(scenario)));
        }
    }
}
