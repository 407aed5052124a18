//! Runs test executables, several at a time. Cargo runs one after the other, and most tests of the real binary wait: for clients
//! that are slow, for limits of time, for processes that start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::Value;

use crate::Result;
use crate::step::{cargo, into_file};
use crate::test::times::{self, Times};
use crate::test::{self, executables};

/// Which executables a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Rules of the sources, and generated documents.
    Rules,
    /// Most of them.
    Tests,
    /// Tests that count, one after the other.
    Alone,
    /// Tests that take programs of others, which are installed for them.
    Programs,
}

/// An executable, as Cargo has built it.
#[derive(Debug, PartialEq)]
struct Executable {
    package: String,
    target: String,
    program: PathBuf,
    /// The directory of its package, in which Cargo runs it.
    directory: PathBuf,
}

impl Executable {
    fn name(&self) -> String {
        format!("{} {}", self.package, self.target)
    }
}

/// One executable's run.
struct Job {
    executable: Executable,
    arguments: Vec<String>,
    /// The others are over before it: it may have their share of the machine from the beginning.
    is_long: bool,
}

/// Seconds that an executable takes at least which the others are over before.
const LONG_S: f64 = 300.0;

/// What came of it.
struct Ended {
    name: String,
    seconds: f64,
    passed: u64,
    failed: u64,
    /// The output, if something is wrong.
    wrong: Option<String>,
}

/// Package and target by the names of `executables::ROWS`; `target` is Cargo's, in its messages and its metadata.
pub(crate) fn name_of_target(manifest: &str, target: &Value) -> Option<(String, String)> {
    let package = Path::new(manifest).parent()?.file_name()?.to_str()?.to_owned();
    let name = target["name"].as_str()?;
    let kind = target["kind"].as_array()?.first()?.as_str()?;
    let target = match kind {
        "test" => name.to_owned(),
        "bin" | "example" | "bench" => format!("{kind} {name}"),
        _ => "lib".to_owned(),
    };
    Some((package, target))
}

/// Runs the executables of this part.
pub(crate) fn run(target: &Path, part: Part) -> Result<()> {
    let environment = if part == Part::Programs { programs(target) } else { BTreeMap::new() };
    let jobs = jobs(build(part)?, part)?;
    // Half of a machine's time may be others'; a test that waits takes none of it.
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    let (slots, threads) = if part == Part::Alone { (1, cpus) } else { (cpus + 1, cpus + 1) };
    println!("{} executables, {slots} at a time, each with {threads} threads or twice as many", jobs.len());
    let queue = Mutex::new(jobs.into_iter());
    let ended = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..slots {
            scope.spawn(|| {
                loop {
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(job) = job else { return };
                    let threads = if job.is_long && part != Part::Alone { 2 * threads } else { threads };
                    let end = execute(&job, part, threads, &environment);
                    say(&end);
                    ended.lock().unwrap_or_else(PoisonError::into_inner).push(end);
                }
            });
        }
    });
    let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    Times::keep(&ended.iter().map(|end| (end.name.clone(), end.seconds)).collect::<Vec<_>>())?;
    let sum = |of: fn(&Ended) -> u64| ended.iter().map(of).sum::<u64>();
    test::count(sum(|end| end.passed), sum(|end| end.failed))?;
    let wrong: Vec<&str> =
        ended.iter().filter(|end| end.wrong.is_some()).map(|end| end.name.as_str()).collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("failed: {}", wrong.join(", ")).into()) }
}

fn say(end: &Ended) {
    println!("{}: {} passed, {} failed in {:.1} s", end.name, end.passed, end.failed, end.seconds);
    if let Some(output) = &end.wrong {
        println!("\n== {}: its output:\n{output}", end.name);
    }
}

/// Has Cargo build the executables, unless it has, and name them.
fn build(part: Part) -> Result<Vec<Executable>> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    if part == Part::Rules {
        let rows = executables::ROWS.iter().filter(|row| row.of == Part::Rules);
        rows.for_each(|row| _ = command.args(["--test", row.target]));
    }
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err("the tests do not compile".into());
    }
    Ok(String::from_utf8(output.stdout)?.lines().filter_map(executable).collect())
}

/// The executable of a message of Cargo, if the message is about one.
fn executable(message: &str) -> Option<Executable> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let program = message["executable"].as_str()?.into();
    let manifest = message["manifest_path"].as_str()?;
    let (package, target) = name_of_target(manifest, &message["target"])?;
    Some(Executable { package, target, program, directory: Path::new(manifest).parent()?.to_owned() })
}

/// What this part runs: the longest first, and before those what has never run.
fn jobs(all: Vec<Executable>, part: Part) -> Result<Vec<Job>> {
    let (times, recorded) = (Times::read(), Times::recorded());
    let job = |executable: Executable| {
        let arguments = executables::arguments(part, &executable.package, &executable.target)?;
        let is_long = recorded.of(&executable.name()).is_some_and(|seconds| seconds >= LONG_S);
        Some(Job { executable, arguments, is_long })
    };
    let mut jobs: Vec<Job> = all.into_iter().filter_map(job).collect();
    let seconds = |job: &Job| times.of(&job.executable.name()).unwrap_or(f64::INFINITY);
    jobs.sort_by(|one, other| seconds(other).total_cmp(&seconds(one)));
    if jobs.is_empty() { Err("no test executable found".into()) } else { Ok(jobs) }
}

/// Runs one to its end, as Cargo would.
fn execute(job: &Job, part: Part, threads: usize, environment: &BTreeMap<&str, PathBuf>) -> Ended {
    let name = job.executable.name();
    let mut command = Command::new(&job.executable.program);
    command.args(&job.arguments).args(["--test-threads", &threads.to_string()]);
    command.current_dir(&job.executable.directory).env("CARGO_MANIFEST_DIR", &job.executable.directory);
    command.envs(environment);
    let log = times::directory().join("tests").join(format!("{}.txt", name.replace(' ', "-")));
    let began = Instant::now();
    let made = std::fs::create_dir_all(log.parent().unwrap_or(Path::new(".")));
    let result = made.map_err(Into::into).and_then(|()| into_file(&name, &mut command, &log));
    let output = std::fs::read(&log).unwrap_or_default();
    let output = String::from_utf8_lossy(&output).into_owned();
    let (passed, failed) = counts(&output);
    let wrong = match result {
        Ok(true) if part == Part::Programs && passed == 0 => {
            Some(format!("no test is called {}: does the table have old names?", job.arguments.join(" ")))
        }
        Ok(true) => None,
        Ok(false) => Some(output),
        Err(error) => Some(format!("{output}\n{error}")),
    };
    Ended { name, seconds: began.elapsed().as_secs_f64(), passed, failed, wrong }
}

/// Tests that have passed and failed, as the harness says at its end.
fn counts(output: &str) -> (u64, u64) {
    let of = |line: &str, word: &str| -> u64 {
        let before = line.split(word).next().unwrap_or_default();
        before.split_whitespace().last().and_then(|number| number.parse().ok()).unwrap_or_default()
    };
    let results = output.lines().filter(|line| line.starts_with("test result: "));
    results
        .fold((0, 0), |(passed, failed), line| (passed + of(line, " passed"), failed + of(line, " failed")))
}

/// Installs the programs of others, and returns the variables that name them.
fn programs(target: &Path) -> BTreeMap<&'static str, PathBuf> {
    // Tests find the environment below the target directory. A test without it says so itself.
    if let Err(why) = crate::test_python::environment(&target.join("python")) {
        println!("Python's packages: {why}");
    }
    let found = [
        ("MAITRED_PEBBLE", crate::test_acme::install(target)),
        ("MAITRED_OAUTH2_PROXY", crate::test_oauth2_proxy::install(target)),
        ("MAITRED_GRPC_INTEROP", crate::test_grpc::install(target)),
        ("MAITRED_GRPC_WEB", crate::test_grpc::install_web(target)),
    ];
    found.into_iter().filter_map(|(variable, place)| Some((variable, place?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_cargo_name_executables() {
        let message = r#"{"reason":"compiler-artifact","manifest_path":"/r/crates/maitred/Cargo.toml",
            "target":{"kind":["test"],"name":"http"},"profile":{"test":true},"executable":"/t/http-1"}"#;
        let found = executable(message).unwrap();
        assert_eq!(found.name(), "maitred http");
        assert_eq!((found.program, found.directory), ("/t/http-1".into(), "/r/crates/maitred".into()));
        assert_eq!(executable(&message.replace("true", "false")), None);
        assert_eq!(executable(&message.replace("\"/t/http-1\"", "null")), None);
        assert_eq!(executable(&message.replace("[\"test\"]", "[\"lib\"]")).unwrap().target, "lib");
        assert_eq!(executable(&message.replace("[\"test\"]", "[\"bin\"]")).unwrap().target, "bin http");
    }

    #[test]
    fn results_of_the_harness_are_counted() {
        let output = "running 3 tests\ntest a ... ok\n\
            test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.01s\n";
        assert_eq!(counts(output), (12, 3));
        assert_eq!(counts("test a ... ok\n"), (0, 0), "it has not come to its end");
    }
}
