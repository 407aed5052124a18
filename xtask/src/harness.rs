//! Tasks of other crates, which are built when they are asked for: the bench harness links the load generator, and what makes
//! packages has formats of archives.

use std::process::{Command, Stdio};

use crate::Result;
use crate::step::{cargo, step};

/// Measurements, simulations, and the rules of caches.
pub(crate) const BENCH: &str = "maitred-bench";
/// Release artefacts.
pub(crate) const DIST: &str = "maitred-dist";

/// Arguments that the other program reads.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Arguments of the program that does it; --help names them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Builds a program, and has it do a task. Cargo says how far it is.
pub(crate) fn run(package: &str, task: &str, arguments: &Arguments) -> Result<()> {
    eprintln!("== building {package}, which does this");
    let mut command = cargo();
    command.args(["run", "--package", package, "--", task]).args(&arguments.rest);
    let status = command.stdin(Stdio::inherit()).status()?;
    if status.success() { Ok(()) } else { Err(crate::Said.into()) }
}

/// A task as a step of the tests.
pub(crate) fn run_step(package: &str, task: &str, arguments: &[&str]) -> Result<()> {
    crate::test::built()?;
    // With the features that the tests of the workspace have built it with, so that nothing is compiled again.
    step(package, cargo().args(["build", "--workspace", "--bin", package]))?;
    step(task, Command::new(crate::target().join("debug").join(package)).arg(task).args(arguments))
}
