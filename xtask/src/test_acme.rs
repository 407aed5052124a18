//! Pebble, an authority of ACME for tests that is written in Go.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::skips::{Kind, skip};
use crate::step::step;

const NAME: &str = "ACME with Pebble";
const VERSION: &str = "v2.10.1";
const PROGRAMS: &[&str] = &["pebble", "pebble-challtestsrv"];

/// Installs Pebble under the target directory, and returns where; or says why not.
pub(crate) fn install(target: &Path) -> Option<PathBuf> {
    let missing = |why: &str| {
        skip(Kind::Missing, NAME, why);
        None
    };
    let version = Command::new("go").arg("version").stderr(Stdio::null()).output();
    if !version.is_ok_and(|output| output.status.success()) {
        return missing("there is no Go (Debian's package golang-go)");
    }
    let programs = std::path::absolute(target.join("go")).ok()?;
    let note = programs.join("pebble.version");
    if std::fs::read_to_string(&note).is_ok_and(|found| found == VERSION) {
        return Some(programs);
    }
    let mut command = Command::new("go");
    command.arg("install").env("GOBIN", &programs);
    for program in PROGRAMS {
        command.arg(format!("github.com/letsencrypt/pebble/v2/cmd/{program}@{VERSION}"));
    }
    let installed = step("Pebble", &mut command).and_then(|()| Ok(std::fs::write(&note, VERSION)?));
    match installed {
        Ok(()) => Some(programs),
        Err(why) => missing(&format!("Pebble cannot be installed ({why})")),
    }
}
