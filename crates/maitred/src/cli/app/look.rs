//! What is missing on this machine for an application to start: the adapter, or the application's module.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::super::exit::Error;
use super::super::runtime::{NODE_ADAPTER, PYTHON_ADAPTER};
use crate::detect::{Application, Kind};

/// How long an interpreter may take to say whether the adapter is there.
const LOOK_TIMEOUT: Duration = Duration::from_secs(20);
/// Says by its exit code what is missing; imports nothing of the application.
const LOOK: &str = "import importlib.util, os, sys
sys.path.insert(0, os.getcwd())
spec = importlib.util.find_spec('maitred')
if spec is None or spec.origin is None: sys.exit(13)
if importlib.util.find_spec(sys.argv[1]) is None: sys.exit(14)";

/// Asks the interpreter that is to run it.
pub(super) fn look(application: &Application) -> Result<(), Error> {
    let Kind::Command(command) = &application.kind else { return Ok(()) };
    let cwd = Path::new(application.cwd.as_deref().unwrap_or("."));
    match command.as_slice() {
        [python, dash, module, target] if dash == "-m" && module == "maitred" => {
            look_python(python, target, cwd)
        }
        [node, require, module, ..] if require == "--require" => look_node(node, module, cwd),
        _ => Ok(()),
    }
}

fn look_python(python: &str, target: &str, cwd: &Path) -> Result<(), Error> {
    let module = target.split([':', '.']).next().unwrap_or_default();
    match status(python, &["-c", LOOK, module], cwd)? {
        Some(13) => Err(Error::failed(
            format!("{python} has no module `maitred`, the adapter for Python"),
            format!("{python} -m pip install FILE, which is {PYTHON_ADAPTER}"),
        )),
        Some(14) => Err(Error::failed(
            format!("{python} finds no module `{module}` of the application"),
            "start maitred in the directory that holds it, or set PYTHONPATH",
        )),
        _ => Ok(()),
    }
}

fn look_node(node: &str, module: &str, cwd: &Path) -> Result<(), Error> {
    let resolve = "require.resolve(process.argv[1], { paths: [process.cwd(), ...module.paths] })";
    match status(node, &["-e", resolve, module], cwd)? {
        Some(0) => Ok(()),
        _ => Err(Error::failed(
            "Node.js finds no package `maitred` here, the adapter for Node.js",
            format!("npm install FILE FILE, in this directory: {NODE_ADAPTER}"),
        )),
    }
}

/// The exit code; `None` if a signal ended it.
fn status(program: &str, arguments: &[&str], cwd: &Path) -> Result<Option<i32>, Error> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(cwd).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command
        .spawn()
        .map_err(|error| Error::failed(format!("cannot run {program}: {error}"), "install it"))?;
    match ended_within(&mut child, LOOK_TIMEOUT) {
        Ok(Some(ended)) => Ok(ended.code()),
        Ok(None) => Err(Error::failed(
            format!(
                "{program} has not found out within {} s whether the adapter is installed",
                LOOK_TIMEOUT.as_secs()
            ),
            format!("look whether `{program}` starts at all"),
        )),
        Err(error) => Err(Error::failed(format!("cannot wait for {program}: {error}"), "try again")),
    }
}

/// How it has ended; `None` if it did not within this time, and was killed.
fn ended_within(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) => break,
            Ok(_) => return child.wait().map(Some),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    child.kill()?;
    child.wait().map(|_| None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let mut endless = Command::new("tail").args(["-f", "/dev/null"]).spawn().unwrap();
        assert_eq!(ended_within(&mut endless, Duration::from_millis(20)).unwrap(), None);
        assert!(endless.try_wait().unwrap().is_some(), "it is gone");
        let mut brief = Command::new("false").spawn().unwrap();
        let ended = ended_within(&mut brief, Duration::from_secs(60)).unwrap();
        assert_eq!(ended.and_then(|ended| ended.code()), Some(1));
    }
}
