//! oauth2-proxy, a server that asks OpenID providers who a client is, for tests of `forward_auth`; it is written in Go.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::step;

const NAME: &str = "forward_auth with oauth2-proxy";
const MODULE: &str = "github.com/oauth2-proxy/oauth2-proxy/v7";
const VERSION: &str = "v7.8.1";

/// Builds it under the target directory, and returns the program; or says why not.
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
    let (program, note) = (programs.join("oauth2-proxy"), programs.join("oauth2-proxy.version"));
    if std::fs::read_to_string(&note).is_ok_and(|found| found == VERSION) {
        return Some(program);
    }
    match build(&program).and_then(|()| Ok(std::fs::write(&note, VERSION)?)) {
        Ok(()) => Some(program),
        Err(why) => missing(&format!("oauth2-proxy cannot be built ({why})")),
    }
}

/// In its own source, with the versions of its packages that it names. `go install` would ask for the list of its versions as
/// well, which not every proxy of modules has.
fn build(program: &Path) -> Result<()> {
    let mut download = Command::new("go");
    download.args(["mod", "download", "-json", &format!("{MODULE}@{VERSION}")]);
    let output = download.stdin(Stdio::null()).output()?;
    let said: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let source = said["Dir"].as_str().ok_or_else(|| format!("{MODULE} cannot be had: {}", said["Error"]))?;
    let mut build = Command::new("go");
    build.args(["build", "-buildvcs=false", "-o"]).arg(program).arg(".").current_dir(source);
    step("oauth2-proxy", &mut build)
}
