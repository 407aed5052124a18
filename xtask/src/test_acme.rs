//! Automatic certificates against Pebble, an authority for tests that is written in Go.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;
use crate::test::step;

const VERSION: &str = "v2.10.1";
const PROGRAMS: &[&str] = &["pebble", "pebble-challtestsrv"];

/// Installs Pebble under the target directory, and runs the tests that need it; or says why not.
pub(crate) fn run(target: &Path) -> Result<()> {
    const NAME: &str = "ACME with Pebble";
    let version = Command::new("go").arg("version").stderr(Stdio::null()).output();
    if !version.is_ok_and(|output| output.status.success()) {
        println!("\n== {NAME}: SKIPPED: there is no Go (Debian's package golang-go)");
        return Ok(());
    }
    let programs = std::path::absolute(target.join("go"))?;
    let note = programs.join("pebble.version");
    if !std::fs::read_to_string(&note).is_ok_and(|found| found == VERSION) {
        let mut install = Command::new("go");
        install.arg("install").env("GOBIN", &programs);
        for program in PROGRAMS {
            install.arg(format!("github.com/letsencrypt/pebble/v2/cmd/{program}@{VERSION}"));
        }
        if let Err(why) = step("Pebble", &mut install) {
            println!("\n== {NAME}: SKIPPED: Pebble cannot be installed ({why})");
            return Ok(());
        }
        std::fs::write(&note, VERSION)?;
    }
    let mut test = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    test.args(["test", "-p", "maitred", "--test", "acme"]).env("MAITRED_PEBBLE", &programs);
    step(NAME, &mut test)
}
