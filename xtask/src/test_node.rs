//! Tests of the Node.js adapter, which need Node.js and npm.

use std::process::{Command, Stdio};

use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::step;

/// The lowest major version that the adapter supports.
const NODE_MIN: u32 = 20;
const DIRECTORY: &str = "adapters/node";
/// Applications that are compared with themselves, alone and behind Maitred.
const DIFFERENTIAL: [&str; 2] = ["node-http", "node-express"];

const CONFORMANCE: [&str; 4] = ["../conformance/run.py", "--", "node", "tests/reference.js"];

fn within(directory: &str, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory);
    command
}

/// Whether Node.js and the packages of these directories are there; says why not.
fn ready(directories: &[&str]) -> bool {
    if let Some(why) = missing() {
        skip(Kind::Missing, "Node adapter", &why);
        return false;
    }
    for directory in directories {
        let packages = ["ci", "--no-audit", "--no-fund"];
        let install = step(&format!("packages of {directory}"), &mut within(directory, "npm", &packages));
        if let Err(why) = install {
            skip(Kind::Missing, "Node adapter", &format!("its packages cannot be installed ({why})"));
            return false;
        }
    }
    true
}

/// The conformance kit, or why not.
pub(crate) fn conformance() -> Result<()> {
    crate::test::built()?;
    if !ready(&[DIRECTORY]) {
        return Ok(());
    }
    step("Node adapter, conformance", &mut within(DIRECTORY, "python3", &CONFORMANCE))
}

/// The adapter's own tests, a listener without Maitred, and applications alone and behind it; or why not.
pub(crate) fn frameworks() -> Result<()> {
    crate::test::built()?;
    if !ready(&[DIRECTORY, "examples/node-express"]) {
        return Ok(());
    }
    step("Node adapter", &mut within(DIRECTORY, "npm", &["test", "--silent"]))?;
    let listener = [&CONFORMANCE[..], &["--listener"]].concat();
    step("Node adapter, conformance of a listener alone", &mut within(DIRECTORY, "python3", &listener))?;
    for name in DIFFERENTIAL {
        let arguments = ["../differential/run.py", "--adapter", name];
        step(&format!("Node adapter, differential, {name}"), &mut within(DIRECTORY, "python3", &arguments))?;
    }
    Ok(())
}

/// What keeps the tests from running.
fn missing() -> Option<String> {
    let Some(version) = first_line("node") else { return Some("node is not installed".to_owned()) };
    let major = version.trim_start_matches('v').split('.').next()?.parse::<u32>().unwrap_or(0);
    if major < NODE_MIN {
        return Some(format!("node is {version}, and {NODE_MIN} is needed"));
    }
    first_line("npm").is_none().then(|| "npm is not installed".to_owned())
}

/// What a program says of its version; `None` if it is not there.
fn first_line(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}
