//! The Go adapter's part of the tests, and its examples'.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::step;

const ADAPTER: &str = "adapters/go";
/// The adapter's front for handlers of fasthttp.
const FASTHTTP: &str = "adapters/go/fasthttp";
/// Modules with dependencies, which are downloaded: an example, the front, and tests with the frameworks that people have.
const EXAMPLES: &[&str] = &["examples/go-chi", FASTHTTP, "adapters/go/frameworks"];

/// Programs in Go that tests need.
pub(crate) struct Programs {
    /// What they are called together.
    pub(crate) name: &'static str,
    /// The tests that need them.
    pub(crate) tests: &'static str,
    /// Version of the programs.
    pub(crate) version: &'static str,
    /// Where they come from.
    pub(crate) packages: &'static [&'static str],
}

impl Programs {
    /// Installs them in this directory, unless they are there, and returns its absolute path; or says why not.
    pub(crate) fn install(&self, directory: &Path) -> Option<PathBuf> {
        let missing = |why: &str| {
            skip(Kind::Missing, self.tests, why);
            None
        };
        let version = Command::new("go").arg("version").stderr(Stdio::null()).output();
        if !version.is_ok_and(|output| output.status.success()) {
            return missing("there is no Go (Debian's package golang-go)");
        }
        let directory = std::path::absolute(directory).ok()?;
        let note = directory.join(format!("{}.version", self.name.to_lowercase()));
        if std::fs::read_to_string(&note).is_ok_and(|found| found == self.version) {
            return Some(directory);
        }
        let mut command = Command::new("go");
        command.arg("install").env("GOBIN", &directory);
        command.args(self.packages.iter().map(|package| format!("{package}@{}", self.version)));
        let installed = step(self.name, &mut command).and_then(|()| Ok(std::fs::write(&note, self.version)?));
        match installed {
            Ok(()) => Some(directory),
            Err(why) => missing(&format!("{} cannot be installed ({why})", self.name)),
        }
    }
}

/// Whether there is Go; says that the adapter's tests are left out if not.
fn is_there() -> bool {
    let version = Command::new("go").arg("version").stderr(Stdio::null()).output();
    let there = version.is_ok_and(|output| output.status.success());
    if !there {
        skip(Kind::Missing, "Go adapter", "there is no Go (Debian's package golang-go)");
    }
    there
}

/// The server to test with.
fn maitred(target: &Path) -> Result<PathBuf> {
    crate::test::built()?;
    Ok(target.join("debug/maitred").canonicalize()?)
}

fn go_in(directory: &str, arguments: &[&str], maitred: &Path) -> Command {
    let mut command = Command::new("go");
    command.args(arguments).current_dir(directory).env("MAITRED", maitred);
    command
}

/// Builds the adapter's programs where the conformance kit and the differential test look for them.
fn build(maitred: &Path) -> Result<()> {
    step(
        "Go adapter, programs",
        &mut go_in(ADAPTER, &["build", "-o", "../../target/go/", "./internal/..."], maitred),
    )
}

/// Format, and the conformance kit. Without Go this is skipped, and said.
pub(crate) fn conformance(target: &Path) -> Result<()> {
    if !is_there() {
        return Ok(());
    }
    let maitred = maitred(target)?;
    formatted()?;
    build(&maitred)?;
    let mut kit = Command::new("python3");
    kit.args(["adapters/conformance/run.py", "--", "target/go/reference"]).env("MAITRED", &maitred);
    step("Go adapter, conformance", &mut kit)
}

/// The adapter's own tests, also for races, and those with the frameworks that people have.
pub(crate) fn frameworks(target: &Path) -> Result<()> {
    if !is_there() {
        return Ok(());
    }
    let maitred = maitred(target)?;
    let go = |arguments: &[&str]| go_in(ADAPTER, arguments, &maitred);
    step("Go adapter, vet", &mut go(&["vet", "./..."]))?;
    step("Go adapter", &mut go(&["test", "-count=1", "./..."]))?;
    if races() {
        step("Go adapter, races", &mut go(&["test", "-count=1", "-race", "./..."]))?;
    } else {
        skip(Kind::Missing, "Go adapter, races", "Go finds them with cgo only (a C compiler)");
    }
    build(&maitred)?;
    let mut differential = Command::new("python3");
    differential.args(["adapters/differential/run.py", "--adapter", "go"]).env("MAITRED", &maitred);
    step("Go adapter, differential", &mut differential)?;
    for example in EXAMPLES {
        let download = &mut go_in(example, &["mod", "download"], &maitred);
        if step(&format!("{example}, dependencies"), download).is_err() {
            skip(Kind::Missing, example, "its dependencies cannot be downloaded");
            continue;
        }
        step(&format!("{example}, vet"), &mut go_in(example, &["vet", "./..."], &maitred))?;
        step(example, &mut go_in(example, &["test", "-count=1", "./..."], &maitred))?;
        if *example == FASTHTTP {
            fasthttp_conformance(&maitred)?;
        }
    }
    Ok(())
}

/// The conformance kit for the front of fasthttp, whose module was downloaded.
fn fasthttp_conformance(maitred: &Path) -> Result<()> {
    let arguments = ["build", "-o", "../../../target/go/reference-fasthttp", "./internal/reference"];
    step("Go adapter, fasthttp, reference", &mut go_in(FASTHTTP, &arguments, maitred))?;
    let mut kit = Command::new("python3");
    kit.args(["adapters/conformance/run.py", "--", "target/go/reference-fasthttp"]).env("MAITRED", maitred);
    step("Go adapter, fasthttp, conformance", &mut kit)
}

/// gofmt lists what it would change, and succeeds all the same.
fn formatted() -> Result<()> {
    println!("\n== Go, format");
    let output = Command::new("gofmt").args(["-l", ADAPTER]).args(EXAMPLES).stdin(Stdio::null()).output()?;
    let listed = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && listed.is_empty() {
        return Ok(());
    }
    Err(format!("not formatted (gofmt -w): {listed}{}", String::from_utf8_lossy(&output.stderr)).into())
}

fn races() -> bool {
    let output = Command::new("go").args(["env", "CGO_ENABLED"]).stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.stdout.starts_with(b"1"))
}
