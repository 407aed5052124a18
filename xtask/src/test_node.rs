//! Tests of the Node.js adapter, which need Node.js and npm.

use std::process::{Command, Stdio};

use crate::Result;
use crate::test::step;

/// The lowest major version that the adapter supports.
const NODE_MIN: u32 = 20;
const DIRECTORY: &str = "adapters/node";

/// Runs them, or says why not.
pub(crate) fn run() -> Result<()> {
    if let Some(why) = missing() {
        println!("\n== Node adapter: SKIPPED: {why}");
        return Ok(());
    }
    let node = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(DIRECTORY);
        command
    };
    step("Node adapter, packages of the tests", &mut node("npm", &["ci", "--no-audit", "--no-fund"]))?;
    step("Node adapter", &mut node("npm", &["test", "--silent"]))?;
    let conformance = ["../conformance/run.py", "--", "node", "tests/reference.js"];
    step("Node adapter, conformance", &mut node("python3", &conformance))?;
    let listener = [&conformance[..], &["--listener"]].concat();
    step("Node adapter, conformance of a listener alone", &mut node("python3", &listener))
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
