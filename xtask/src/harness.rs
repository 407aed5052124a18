//! `cargo xtask bench` and `cargo xtask sim`: the bench harness, a crate of its own that is built when it is asked for.

use std::process::Stdio;

use crate::Result;

const PACKAGE: &str = "maitred-bench";

/// Arguments that the harness itself reads.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Arguments of the harness; --help names them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Builds the harness, and runs this task of it in place of this process.
pub(crate) fn run(task: &str, arguments: &Arguments) -> Result<()> {
    eprintln!("== building {PACKAGE} (bench/harness), with the load generator and the simulation");
    let mut cargo = crate::step::cargo();
    cargo.args(["run", "--package", PACKAGE, "--", task]).args(&arguments.rest);
    let status = cargo.stdin(Stdio::inherit()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{task}: {status}").into()) }
}
