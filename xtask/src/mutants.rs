//! `cargo xtask mutants`: deliberate faults in the server's own source, each of which the suite `invariants` has to find.
//!
//! The faults are a table beside the suite. All faults are made at once in a copy of the tree, each behind a question to
//! the environment: so the server is built once, and a run switches one fault on. Where none is, it is the server as it is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use toml::Value;

use crate::Result;
use crate::step::{cargo, compilation, into_file};

/// The faults.
const TABLE: &str = "crates/maitred/tests/invariants/product_mutants.toml";
/// What names the fault that is switched on. Of the environment, a worker process gets what is about languages, and little else.
const VARIABLE: &str = "LC_TEST_FAULT";
/// What stands in the table for that question.
const PLACE: &str = "FAULT";
/// The test that most faults are found by.
const OVER_CONFIGURATIONS: &str = "relations_hold_for_configurations_of_any_seed";

/// Configurations that have to hold with no fault switched on: otherwise all faults would seem to be found.
const CONFIGURATIONS_WITHOUT: u32 = 200;

/// What `cargo xtask mutants` takes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Names of faults, or parts of names; all without
    names: Vec<String>,
    /// After so many configurations a fault counts as not found
    #[arg(long, default_value_t = 2000)]
    configurations: u32,
    /// Only say which there are
    #[arg(long)]
    list: bool,
}

#[derive(Debug)]
struct Fault {
    name: String,
    file: String,
    text: String,
    instead: String,
    /// What finds it first, mostly.
    relation: String,
    test: String,
}

impl Fault {
    fn of(entry: &Value) -> Option<Fault> {
        let get = |key: &str| Some(entry.get(key)?.as_str()?.to_owned());
        Some(Fault {
            name: get("name")?,
            file: get("file")?,
            text: get("text")?,
            instead: get("instead")?,
            relation: get("relation")?,
            test: get("test").unwrap_or_else(|| OVER_CONFIGURATIONS.to_owned()),
        })
    }

    /// A source with this fault in it.
    fn make(&self, source: &str) -> Result<String> {
        let name = &self.name;
        let times = source.matches(&self.text).count();
        if times != 1 {
            return Err(format!("{name}: its text stands {times} times in {}", self.file).into());
        }
        let question = format!("std::env::var_os(\"{VARIABLE}\").is_some_and(|fault| fault == \"{name}\")");
        Ok(source.replace(&self.text, &self.instead.replace(PLACE, &question)))
    }
}

/// What became of a fault.
struct Ended {
    name: String,
    expected: String,
    found: Option<Found>,
    seconds: f64,
}

/// By what, and after how many configurations, if it is about these.
struct Found {
    relation: String,
    configurations: Option<u32>,
}

fn table() -> Result<Vec<Fault>> {
    let text = fs::read_to_string(crate::root().join(TABLE))?;
    let table: toml::Table = text.parse()?;
    let entries = table.get("fault").and_then(Value::as_array).ok_or("no faults")?;
    entries
        .iter()
        .map(|entry| Fault::of(entry).ok_or_else(|| format!("not a fault: {entry:?}").into()))
        .collect()
}

/// Has each fault looked for, and says what came of it.
pub(crate) fn run(target: &Path, arguments: &Arguments) -> Result<()> {
    let faults = table()?;
    let is_chosen = |fault: &&Fault| {
        arguments.names.is_empty() || arguments.names.iter().any(|part| fault.name.contains(part))
    };
    let chosen: Vec<&Fault> = faults.iter().filter(is_chosen).collect();
    if arguments.list || chosen.is_empty() {
        faults.iter().for_each(|fault| println!("{} ({})", fault.name, fault.file));
        return if arguments.list { Ok(()) } else { Err("no fault is called so".into()) };
    }
    let folder = std::path::absolute(target.join("mutants"))?;
    let tree = folder.join("tree");
    copy(&tree, &faults)?;
    let mut build = cargo();
    build.args(["build", "--package", "maitred", "--bin", "maitred"]);
    build.current_dir(&tree).env("CARGO_TARGET_DIR", folder.join("target"));
    compilation("the server with faults", &mut build)?;
    let suite = suite()?;
    let none = folder.join("none.txt");
    let mut without = against(&suite, &folder, OVER_CONFIGURATIONS, CONFIGURATIONS_WITHOUT);
    if !into_file("no fault", &mut without, &none)? {
        return Err(format!("the suite fails without a fault: {}", none.display()).into());
    }
    let mut all = Vec::new();
    for fault in chosen {
        let ended = look_for(fault, &suite, &folder, arguments.configurations)?;
        println!("{}", line(&ended));
        all.push(ended);
    }
    println!("\n{} faults:", all.len());
    all.iter().for_each(|ended| println!("{}", line(ended)));
    let missed: Vec<&str> =
        all.iter().filter(|ended| ended.found.is_none()).map(|ended| ended.name.as_str()).collect();
    if missed.is_empty() { Ok(()) } else { Err(format!("not found: {}", missed.join(", ")).into()) }
}

fn line(ended: &Ended) -> String {
    let Ended { name, expected, found, seconds } = ended;
    let Some(Found { relation, configurations }) = found else {
        return format!("{name:<40} NOT FOUND {seconds:>5.0} s");
    };
    let count = configurations.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let other = if relation == expected { String::new() } else { format!(" (mostly: {expected})") };
    format!("{name:<40} {count:>5} configurations {seconds:>5.0} s  {relation}{other}")
}

/// Makes the copy of the tree, with all faults. What is as it was stays untouched, so that it is not compiled again.
fn copy(tree: &Path, faults: &[Fault]) -> Result<()> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(crate::root());
    let listed = git.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !listed.status.success() {
        return Err("git does not say which files there are".into());
    }
    let listed = String::from_utf8(listed.stdout)?;
    let changed: BTreeSet<&str> = faults.iter().map(|fault| fault.file.as_str()).collect();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (crate::root().join(name), tree.join(name));
        // A file that is removed and not committed is still listed; links are for packages only.
        if !from.symlink_metadata().is_ok_and(|found| found.is_file()) {
            continue;
        }
        let mut bytes = fs::read(&from)?;
        if changed.contains(name) {
            let mut text = String::from_utf8(bytes)?;
            for fault in faults.iter().filter(|fault| fault.file == name) {
                text = fault.make(&text)?;
            }
            bytes = text.into_bytes();
        }
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&to, bytes)?;
    }
    Ok(())
}

/// The executable of the suite, which is that of this tree.
fn suite() -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["test", "--package", "maitred", "--test", "invariants", "--no-run"]);
    command.arg("--message-format=json-render-diagnostics");
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    let messages = String::from_utf8(output.stdout)?;
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_it = message["target"]["name"] == "invariants" && message["profile"]["test"] == true;
        is_it.then(|| message["executable"].as_str().map(PathBuf::from))?
    };
    messages.lines().find_map(executable).ok_or_else(|| "the suite is not built".into())
}

/// One test of the suite, against the server with faults, to the first configuration that fails.
fn against(suite: &Path, folder: &Path, test: &str, configurations: u32) -> Command {
    let mut command = Command::new(suite);
    command.args([test, "--exact", "--nocapture"]).current_dir(crate::root().join("crates/maitred"));
    command.env("MAITRED_TEST_BINARY", folder.join("target/debug/maitred")).env_remove(VARIABLE);
    command.env("MAITRED_INVARIANTS", configurations.to_string()).env("MAITRED_INVARIANTS_STOP", "1");
    command
}

/// Runs it with one fault.
fn look_for(fault: &Fault, suite: &Path, folder: &Path, configurations: u32) -> Result<Ended> {
    let Fault { name, relation: expected, test, .. } = fault;
    let mut command = against(suite, folder, test, configurations);
    command.env(VARIABLE, name);
    let log = folder.join(format!("{name}.txt"));
    let began = Instant::now();
    let passed = into_file(name, &mut command, &log)?;
    let seconds = began.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    if passed && !said.contains("1 passed") {
        return Err(format!("{name}: no test is called {test}").into());
    }
    let found = (!passed).then(|| found(&said));
    Ok(Ended { name: name.clone(), expected: expected.clone(), found, seconds })
}

/// What the suite says at the end of such a run: `stopped after N configurations: RELATION`, or `RELATION: seed N: …` where
/// it is about files.
fn found(said: &str) -> Found {
    let stopped =
        said.lines().find_map(|line| line.strip_prefix("stopped after ")?.split_once(" configurations: "));
    if let Some((count, relation)) = stopped {
        return Found { relation: relation.to_owned(), configurations: count.parse().ok() };
    }
    let mut lines = said.lines().skip_while(|line| !line.contains("panicked at")).skip(1);
    let first = lines.next().unwrap_or("the suite says nothing");
    let first = first.strip_prefix("assertion `left == right` failed: ").unwrap_or(first);
    Found { relation: first.split(": ").next().unwrap_or(first).to_owned(), configurations: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_can_still_be_made() {
        let faults = table().unwrap();
        assert!(faults.len() >= 25, "{}", faults.len());
        let names: BTreeSet<&str> = faults.iter().map(|fault| fault.name.as_str()).collect();
        assert_eq!(names.len(), faults.len(), "two have one name");
        let files: BTreeSet<&str> = faults.iter().map(|fault| fault.file.as_str()).collect();
        for file in files {
            let mut text = fs::read_to_string(crate::root().join(file)).unwrap();
            // Several are made in one file, one after the other.
            for fault in faults.iter().filter(|fault| fault.file == file) {
                assert!(fault.instead.contains(PLACE), "{} cannot be switched off", fault.name);
                text = fault.make(&text).unwrap();
            }
        }
    }

    #[test]
    fn each_fault_names_a_relation_and_a_test_of_the_suite() {
        let folder = crate::root().join(TABLE);
        let sources = fs::read_dir(folder.parent().unwrap()).unwrap().map(|file| file.unwrap().path());
        let sources = sources.filter(|path| path.extension().is_some_and(|end| end == "rs"));
        let suite: String = sources.map(|path| fs::read_to_string(path).unwrap()).collect();
        for Fault { name, relation, test, .. } in table().unwrap() {
            let test = test.rsplit("::").next().unwrap();
            assert!(suite.contains(&format!("fn {test}()")), "{name}: {test}");
            assert!(suite.contains(&format!("\"{relation}")), "{name}: {relation}");
        }
    }

    #[test]
    fn what_has_found_a_fault_is_read_from_the_suite() {
        let stopped = found("x\nstopped after 17 configurations: kind of pool\npanicked at a\nb: c");
        assert_eq!((stopped.relation.as_str(), stopped.configurations), ("kind of pool", Some(17)));
        let panicked = found(
            "thread x panicked at a.rs:1:\nassertion `left == right` failed: check and server: seed 3: y\n",
        );
        assert_eq!((panicked.relation.as_str(), panicked.configurations), ("check and server", None));
    }
}
