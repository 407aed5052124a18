//! Tests of the Apache adapter, which need Apache with its headers, and PHP's module.

use std::process::Command;

use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::step;

/// The MPM that Debian takes: its conformance is tested each time. Tests of the others and the sites belong to the full tier.
const USUAL: &str = "event";
const OTHERS: [&str; 2] = ["prefork", "worker"];

fn python(directory: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(arguments).current_dir(directory);
    command
}

fn conformance_of(mpm: &str) -> Result<()> {
    let name = format!("Apache adapter, conformance with MPM {mpm}");
    step(&name, &mut python("adapters/apache/tests", &["conformance.py", "--mpm", mpm]))
}

/// The conformance with one MPM.
pub(crate) fn conformance() -> Result<()> {
    conformance_of(USUAL)
}

/// The other MPMs, sites, restarts, and PHP alone and behind Maitred.
pub(crate) fn sites() -> Result<()> {
    for mpm in OTHERS {
        conformance_of(mpm)?;
    }
    let runner = crate::test_python::UNITTEST.to_string_lossy();
    step("Apache adapter, sites and restarts", &mut python("adapters/apache/tests", &[&runner]))?;
    let name = "differential test: apache";
    if !crate::test_packages::has_php_module() {
        skip(Kind::Missing, name, "there is no libphp*.so (Debian: libapache2-mod-php)");
        return Ok(());
    }
    step(name, &mut python("adapters/differential", &["run.py", "--adapter", "apache"]))
}
