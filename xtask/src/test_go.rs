//! The Go adapter's part of the tests, and its examples'.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::step;

const ADAPTER: &str = "adapters/go";
/// Modules with dependencies, which are downloaded: an example, and tests with the frameworks that people have.
const EXAMPLES: &[&str] = &["examples/go-chi", "adapters/go/frameworks"];

/// Programs in Go that tests need.
pub(crate) struct Programs {
    /// What they are called together.
    pub(crate) name: &'static str,
    /// The tests that need them.
    pub(crate) tests: &'static str,
    /// Their version.
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

/// Everything that is written in Go; `maitred` is the server to test it with. Without Go this is skipped, and said.
pub(crate) fn run(maitred: &Path) -> Result<()> {
    let version = Command::new("go").arg("version").stderr(Stdio::null()).output();
    if !version.is_ok_and(|output| output.status.success()) {
        skip(Kind::Missing, "Go adapter", "there is no Go (Debian's package golang-go)");
        return Ok(());
    }
    let go_in = |directory: &str, arguments: &[&str]| {
        let mut command = Command::new("go");
        command.args(arguments).current_dir(directory).env("MAITRED", maitred);
        command
    };
    let go = |arguments: &[&str]| go_in(ADAPTER, arguments);
    formatted()?;
    step("Go adapter, vet", &mut go(&["vet", "./..."]))?;
    step("Go adapter", &mut go(&["test", "-count=1", "./..."]))?;
    if races() {
        step("Go adapter, races", &mut go(&["test", "-count=1", "-race", "./..."]))?;
    } else {
        skip(Kind::Missing, "Go adapter, races", "Go finds them with cgo only (a C compiler)");
    }
    step("Go adapter, programs", &mut go(&["build", "-o", "../../target/go/", "./internal/..."]))?;
    let python = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.args(arguments).env("MAITRED", maitred);
        command
    };
    step(
        "Go adapter, conformance",
        &mut python(&["adapters/conformance/run.py", "--", "target/go/reference"]),
    )?;
    step("Go adapter, differential", &mut python(&["adapters/differential/run.py", "--adapter", "go"]))?;
    for example in EXAMPLES {
        if step(&format!("{example}, dependencies"), &mut go_in(example, &["mod", "download"])).is_err() {
            skip(Kind::Missing, example, "its dependencies cannot be downloaded");
            continue;
        }
        step(&format!("{example}, vet"), &mut go_in(example, &["vet", "./..."]))?;
        step(example, &mut go_in(example, &["test", "-count=1", "./..."]))?;
    }
    Ok(())
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
