//! What the dependencies are: known holes, licences, sources, crates that must not come in (`deny.toml`, cargo-deny).

use std::process::Command;

use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::step;

const VERSION: &str = "0.20.2";
/// What cargo-deny says where the list of known holes cannot be downloaded.
const NO_LIST: &str = "failed to fetch advisory database";

/// Checks them; installs the checker where it is missing, beside cargo, because it takes minutes to build.
pub(crate) fn run() -> Result<()> {
    let cargo = || crate::step::cargo();
    let there = cargo().args(["deny", "--version"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        // The checker compiles for minutes beside tests with deadlines, so it waits for them.
        let mut install = Command::new("nice");
        install.args(["-n", "19"]).arg(cargo().get_program());
        // The checker runs for seconds, and a release of it takes minutes longer to build.
        install.args(["install", "--locked", "--debug", "--version", VERSION, "cargo-deny"]);
        if let Err(why) = step("cargo-deny", &mut install) {
            skip(Kind::Missing, "dependencies", &why.to_string());
            return Ok(());
        }
    }
    step(
        "dependencies",
        cargo().args(["deny", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]),
    )?;
    let name = "dependencies, known holes";
    println!("\n== {name}");
    let output = cargo().args(["deny", "check", "advisories"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false if said.contains(NO_LIST) => {
            skip(Kind::Surroundings, name, "the list of known holes (RustSec) cannot be downloaded here");
            Ok(())
        }
        false => Err(format!("{name}: {said}").into()),
    }
}
