//! Modules, loaded in a process of their own first: `maitred check` starts `maitred load-module` for each, and whatever that
//! does, the check says so.

use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::exit::Exit;
use maitred_config::{Config, ModuleSpec};
use maitred_control::modules;

/// How long a module may take to begin: as long as the worker process may.
const INIT_MAX: Duration = Duration::from_secs(30);
/// What the line begins with that says what is wrong, among others that a module may print.
const MARK: &str = "maitred-module: ";
/// Bytes of what it prints that are looked at.
const SAID_MAX: u64 = 64 << 10;

/// Loads a module whose configuration is on standard input; says on standard output what is wrong with it.
pub fn run(path: PathBuf) -> ExitCode {
    let mut config = String::new();
    let read = std::io::stdin().read_to_string(&mut config).map_err(|error| error.to_string());
    let loaded = read.and_then(|_| modules::load(&ModuleSpec { path, config }, 0));
    match loaded {
        Ok(_) => Exit::Done.into(),
        Err(why) => {
            println!("\n{MARK}{}", why.replace(['\n', '\r'], " "));
            Exit::Failed.into()
        }
    }
}

/// Loads all modules of a configuration, each in a process of its own.
///
/// # Errors
/// What is wrong with them, a line for each.
pub fn check(config: &Config) -> Result<(), String> {
    let wrong: Vec<String> = config.modules().into_iter().filter_map(|spec| try_out(spec).err()).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn try_out(spec: &ModuleSpec) -> Result<(), String> {
    let named = |why: &str| format!("module {}: {why}", spec.path.display());
    let failed = |error: std::io::Error| named(&format!("it cannot be tried out: {error}"));
    let mut child = start(&spec.path).map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // A module that has crashed before it was read is seen below.
        let _ = input.write_all(spec.config.as_bytes());
    }
    let ended = wait(&mut child, Instant::now() + INIT_MAX).map_err(failed)?;
    let Some(status) = ended else {
        return Err(named(&format!("its `init` has not returned after {} seconds", INIT_MAX.as_secs())));
    };
    let mut said = Vec::new();
    if let Some(output) = child.stdout.take() {
        let _ = output.take(SAID_MAX).read_to_end(&mut said);
    }
    judge(status, &String::from_utf8_lossy(&said)).map_err(|why| match why.starts_with("module ") {
        true => why,
        false => named(&why),
    })
}

fn start(path: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("load-module").arg(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

/// Waits for the end; `None`, and the process is killed, if it does not come in time. What it prints beyond what a pipe holds
/// keeps it from ending.
fn wait(child: &mut Child, until: Instant) -> std::io::Result<Option<ExitStatus>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let watched = pid.ok_or(std::io::ErrorKind::NotFound)?;
    let watched = pidfd_open(watched, PidfdFlags::empty())?;
    loop {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        match poll(&mut [PollFd::new(&watched, PollFlags::IN)], left.as_ref()) {
            Ok(0) => {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            Ok(_) => return child.wait().map(Some),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn judge(status: ExitStatus, said: &str) -> Result<(), String> {
    if status.success() {
        return Ok(());
    }
    if let Some(signal) = status.signal() {
        return Err(format!("its `init` crashes: signal {signal}{}", name_of(signal)));
    }
    let why = said.lines().rev().find_map(|line| line.strip_prefix(MARK));
    Err(why.map_or_else(|| format!("its `init` ends the process: {status}"), str::to_owned))
}

fn name_of(signal: i32) -> &'static str {
    match signal {
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_does_to_its_process_is_said() {
        let status = ExitStatus::from_raw;
        assert_eq!(judge(status(0), "noise"), Ok(()));
        let crash = judge(status(11), "");
        assert_eq!(crash, Err("its `init` crashes: signal 11 (SIGSEGV)".to_owned()));
        let refusal = judge(status(1 << 8), "noise\n\nmaitred-module: module x: no\n");
        assert_eq!(refusal, Err("module x: no".to_owned()));
        let exit = judge(status(7 << 8), "noise");
        assert_eq!(exit, Err("its `init` ends the process: exit status: 7".to_owned()));
    }
}
