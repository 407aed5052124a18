//! `cargo xtask trials`: real applications, alone and behind Maitred (`trials/README.md`). What they are made of comes from the
//! package indexes of their languages, and is kept under the target directory.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;
use crate::step::step;

const RUNNER: &str = "trials/run.py";

/// What `cargo xtask trials` takes; the runner says what is wrong with it.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Folders of `trials/`, and the runner's options: --quick, --write-docs, --only TEXT, --way TEXT, --lock, --list
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Options with which the runner only says something.
const SAYS: [&str; 4] = ["--list", "--lock", "--packages", "--help"];

/// Runs what was asked for, with the server as it is in the tree.
pub(crate) fn run_some(target: &Path, arguments: &Arguments) -> Result<()> {
    let rest: Vec<&str> = arguments.rest.iter().map(String::as_str).collect();
    if !rest.iter().any(|word| SAYS.contains(word)) {
        crate::skips::start()?;
        crate::test::built()?;
        install(&rest)?;
    }
    step("trials", &mut runner(target, &rest)?)
}

/// The quick subset, as a part of the tests.
pub(crate) fn run(target: &Path) -> Result<()> {
    crate::test::built()?;
    let mut own = Command::new("python3");
    own.args(["-m", "unittest", "discover", "-s", "tests", "-t", "."]).current_dir("trials");
    step("real applications, the runner's own tests", &mut own)?;
    install(&["--quick"])?;
    step("real applications", &mut runner(target, &["--quick"])?)
}

fn runner(target: &Path, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new("python3");
    command.arg(RUNNER).args(arguments).env("MAITRED", std::path::absolute(target.join("debug/maitred"))?);
    Ok(command)
}

/// The Debian packages that these applications need.
fn install(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("python3");
    command.arg(RUNNER).args(arguments).arg("--packages");
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    let listed = String::from_utf8(output.stdout)?;
    crate::test_packages::install(&listed.split_whitespace().collect::<Vec<_>>());
    Ok(())
}
