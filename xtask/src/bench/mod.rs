//! `cargo xtask bench`: Maitred against the floor and against peers.
//!
//! The server is pinned to CPU 0, the generator to CPU 1. The figure is the CPU time of the server's whole process
//! tree per answered request, in interleaved rounds; results are ratios inside one run, and medians.

mod client;
mod disk;
mod idle;
mod instructions;
mod lifecycle;
mod load;
mod plot;
mod process;
mod report;
mod server;
mod syscalls;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use report::{Budget, Outcome, Row};
use server::{Kind, Running, Setup};

use crate::Result;

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Scenarios to run; all without any. `list` names them
    scenarios: Vec<String>,
    /// Rounds of each server in a scenario
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Length of a round
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Peers to measure too: nginx, nginx-unbuffered, nginx-aio
    #[arg(long, value_delimiter = ',', default_value = "nginx")]
    peers: Vec<String>,
    /// Where the results go [default: bench/runs/DATE-LABEL]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Last part of the results' directory
    #[arg(long, default_value = "bench")]
    label: String,
    /// The binary to measure [default: target/release/maitred]
    #[arg(long)]
    maitred: Option<PathBuf>,
    /// Scratch directory, on a disk [default: target/bench]
    #[arg(long)]
    work: Option<PathBuf>,
}

/// What all scenarios share.
struct Bench {
    directory: PathBuf,
    work: PathBuf,
    maitred: PathBuf,
    rounds: u32,
    seconds: u32,
    peers: Vec<Kind>,
}

impl Bench {
    fn setup(&self, floor: Vec<String>, application: bool) -> Setup {
        Setup {
            bench: self.directory.clone(),
            maitred: self.maitred.clone(),
            work: self.work.clone(),
            root: self.work.join("root"),
            floor,
            application,
            wrapper: Vec::new(),
        }
    }

    /// Starts a server; `None` for a Maitred that is not built.
    fn start(&self, kind: Kind, setup: &Setup) -> Result<Option<Running>> {
        if kind == Kind::Maitred && !self.maitred.exists() {
            eprintln!(
                "  {} is absent (cargo build --release -p maitred); going on without it",
                self.maitred.display()
            );
            return Ok(None);
        }
        Running::start(kind, setup).map(Some)
    }

    /// Maitred and the peers, in the order in which they are measured.
    fn real_servers(&self) -> impl Iterator<Item = Kind> {
        [Kind::Maitred].into_iter().chain(self.peers.iter().copied())
    }
}

type Scenario = (&'static str, fn(&Bench) -> Result<Outcome>);

/// Scenarios that wrk alone cannot measure; [`load::LOADS`] has the others.
const SPECIAL: [Scenario; 7] = [
    ("idle-memory", idle::run),
    ("syscalls", syscalls::run),
    ("instructions", instructions::run),
    ("cold-disk", disk::run),
    ("reload", lifecycle::reload),
    ("kill", lifecycle::kill),
    ("start", lifecycle::start),
];

fn scenario_names() -> Vec<&'static str> {
    let special = SPECIAL.iter().map(|(name, _)| *name);
    load::LOADS.iter().map(|load| load.name).chain(special).collect()
}

/// Runs the scenarios, and writes the results.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let names = scenario_names();
    if arguments.scenarios.iter().any(|name| name == "list") {
        println!("{}", names.join("\n"));
        return Ok(());
    }
    if let Some(unknown) = arguments.scenarios.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("there is no scenario {unknown:?}; there are {}", names.join(", ")).into());
    }
    let wanted = |name: &str| {
        arguments.scenarios.is_empty() || arguments.scenarios.iter().any(|scenario| scenario == name)
    };
    let bench = prepare(arguments)?;
    let environment = report::environment();
    let mut outcomes = Vec::new();
    let mut failed = Vec::new();
    for name in names.into_iter().filter(|name| wanted(name)) {
        eprintln!("{name}");
        let load = load::LOADS.iter().find(|load| load.name == name);
        let special = SPECIAL.iter().find(|(special, _)| *special == name);
        let result = match (load, special) {
            (Some(load), _) => load::run(&bench, load),
            (None, Some((_, run))) => run(&bench),
            (None, None) => continue,
        };
        match result {
            Ok(outcome) => {
                println!("{}", outcome.to_markdown());
                outcomes.push(outcome);
            }
            Err(error) => failed.push(format!("{name}: {error}")),
        }
    }
    let method = format!(
        "`cargo xtask bench`: server on CPU 0, generator on CPU 1; {} interleaved rounds of {} s; medians. Ratios hold \
         inside this run only.",
        bench.rounds, bench.seconds
    );
    let out = arguments.out.clone().unwrap_or_else(|| {
        bench.directory.join("runs").join(format!("{}-{}", report::today(), arguments.label))
    });
    report::write(&out, &method, &environment, &outcomes)?;
    keep_configurations(&bench, &out)?;
    eprintln!("results: {}", out.display());
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
}

/// Copies the filled-in configurations beside the results.
fn keep_configurations(bench: &Bench, out: &Path) -> Result<()> {
    for kind in bench.real_servers() {
        for name in ["maitred.toml", "nginx.conf"] {
            let configuration = bench.work.join(kind.name()).join(name);
            if configuration.exists() {
                // What is kept names no place of this machine.
                let text = fs::read_to_string(configuration)?.replace(&*bench.work.to_string_lossy(), "WORK");
                fs::write(out.join(format!("{}-{name}", kind.name())), text)?;
            }
        }
    }
    Ok(())
}

/// Tools that the scenarios run, and the Debian packages that have them.
const TOOLS: [(&str, &str); 7] = [
    ("taskset", "util-linux"),
    ("wrk", "wrk"),
    ("nginx", "nginx"),
    ("strace", "strace"),
    ("valgrind", "valgrind"),
    ("cc", "gcc"),
    ("python3", "python3"),
];

/// Checks the tools, builds the floor, makes the tree of files, and moves this process to CPU 1.
fn prepare(arguments: &Arguments) -> Result<Bench> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let absent = |tool: &str| !std::env::split_paths(&path).any(|directory| directory.join(tool).exists());
    let missing: Vec<&str> =
        TOOLS.iter().filter(|(tool, _)| absent(tool)).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        return Err(format!("not installed: {0}; apt-get install {0}", missing.join(" ")).into());
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent directory")?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    let bench = Bench {
        directory: repository.join("bench"),
        work: arguments.work.clone().unwrap_or_else(|| target.join("bench")),
        maitred: arguments.maitred.clone().unwrap_or_else(|| target.join("release/maitred")),
        rounds: arguments.rounds.max(1),
        seconds: arguments.seconds.max(1),
        peers: arguments.peers.iter().map(|name| Kind::from_name(name)).collect::<Result<_>>()?,
    };
    fs::create_dir_all(&bench.work)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Wextra", "-o"]).arg(bench.work.join("floor-binary"));
    if !compiler.arg(bench.directory.join("floor/floor.c")).status()?.success() {
        return Err("the floor does not compile".into());
    }
    make_tree(&bench.work.join("root"))?;
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(1);
    rustix::thread::sched_setaffinity(None, &cpus)
        .map_err(|error| format!("a second CPU is needed: {error}"))?;
    raise_descriptor_limit()?;
    Ok(bench)
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
        let mut names = scenario_names();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
