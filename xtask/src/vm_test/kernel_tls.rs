//! The tests of TLS that are about the kernel's, for a machine that has it: the programs of the tests, and the application that
//! they start, at the paths that the programs were built with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Result;

/// What the tests start, by its place in the repository.
const DIRECTORIES: [&str; 2] = ["adapters/python/maitred", "crates/maitred/tests/support"];

/// Programs of tests, by their names in the machine: package, and which of its targets.
const PROGRAMS: [(&str, &str, &[&str]); 2] =
    [("tls-tests", "maitred", &["--test", "wire"]), ("sys-tests", "maitred-sys", &["--lib"])];

/// Builds the tests, and puts all of it into the file system of a machine.
pub(super) fn install(root: &Path) -> Result<()> {
    for (name, package, target) in PROGRAMS {
        let program = build(package, target)?;
        let stripped =
            Command::new("strip").arg("-o").arg(root.join("cases").join(name)).arg(&program).status();
        if !stripped.is_ok_and(|status| status.success()) {
            return Err("strip(1) has failed: install binutils".into());
        }
    }
    let repository = std::env::current_dir()?;
    // The case copies them to their places: what was below /tmp would be gone once the machine has started.
    let places = root.join("cases/repository");
    for directory in DIRECTORIES {
        let from = repository.join(directory);
        let to = places.join(from.strip_prefix("/")?);
        fs::create_dir_all(&to)?;
        for file in fs::read_dir(&from)?.flatten().filter(|file| file.path().is_file()) {
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
    }
    // The tests run there.
    fs::write(
        root.join("cases/tls-tests.directory"),
        repository.join("crates/maitred").display().to_string(),
    )?;
    Ok(())
}

/// The program of a package's tests.
fn build(package: &str, target: &[&str]) -> Result<PathBuf> {
    let mut cargo = crate::step::cargo();
    cargo.args(["test", "--package", package]).args(target);
    let output = cargo.args(["--no-run", "--message-format", "json"]).output()?;
    if !output.status.success() {
        return Err(format!("cargo: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut tests = messages.filter(|message| message["profile"]["test"] == true);
    let found = tests.find_map(|message| message["executable"].as_str().map(PathBuf::from));
    found.ok_or_else(|| format!("cargo names no program of the tests of {package}").into())
}
