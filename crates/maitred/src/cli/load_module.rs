//! Modules, loaded in a process of their own first: `maitred check` starts `maitred load-module` for each, and whatever that
//! does, the check says so.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use maitred_sys::module::abi::{Response, Ticket};
use maitred_sys::module::host::{ServerCalls, Task, serve};
use maitred_sys::spawn::{Child, Command, Exit as Ended, FIRST_DESCRIPTOR};
use maitred_sys::{inherit, memfile};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::exit::Exit;
use maitred_config::{Config, ModuleSpec};
use maitred_control::modules::{self, Confined, Rights};
use maitred_worker::sandbox;

/// How long a module may take to begin: as long as the worker process may.
const INIT_MAX: Duration = Duration::from_secs(30);
/// What the line begins with that says what is wrong, among others that a module may print.
const MARK: &str = "maitred-module: ";
/// Bytes of what it prints that are looked at.
const SAID_MAX: u64 = 64 << 10;
/// The largest document: as that of a worker process.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;
/// The running program, no matter what has become of its file since.
const SELF: &str = "/proc/self/exe";

/// Loads a module of a configuration, which an inherited document has, with the rights of a worker process; says on standard
/// output what is wrong with it.
pub fn run() -> ExitCode {
    match load() {
        Ok(()) => Exit::Done.into(),
        Err(why) => {
            println!("\n{MARK}{}", why.replace(['\n', '\r'], " "));
            Exit::Failed.into()
        }
    }
}

/// As a worker process begins: its rights, its modules, its files, and what modules start then.
fn load() -> Result<(), String> {
    let document = inherit::take(FIRST_DESCRIPTOR).and_then(|file| memfile::read(file, DOCUMENT_BYTES_MAX));
    let document = document.map_err(|error| format!("what to load: {error}"))?;
    let (rights, config, number): (Rights, Config, u16) =
        serde_json::from_slice(&document).map_err(|error| format!("what to load: {error}"))?;
    let all = config.modules();
    let spec = all.get(usize::from(number)).ok_or("there is no such module")?;
    let (confined, _) =
        Confined::enter(rights).map_err(|error| format!("the rights of a worker process: {error}"))?;
    let module = modules::load(&confined, spec, number)?;
    // What the kernel does not have of it, a worker process goes without, and says so.
    let _ = sandbox::confine(&config, &[]);
    serve(&Trial);
    module.start().map_err(|why| format!("module {}: {why}", spec.path.display()))
}

/// What there is of a server for a module that is tried out.
struct Trial;

impl ServerCalls for Trial {
    fn complete(&self, _: Ticket, _: Option<&Response<'_>>) -> bool {
        false
    }

    fn run(&self, task: Task) -> bool {
        std::thread::Builder::new().spawn(move || task.call()).is_ok()
    }

    fn log(&self, _: u32, text: &[u8]) {
        println!("{}", String::from_utf8_lossy(text));
    }
}

/// Loads all modules of a configuration, each in a process of its own, which has the rights of a worker process.
///
/// # Errors
/// What is wrong with them, a line for each.
pub fn check(config: &Config) -> Result<(), String> {
    let all = config.modules();
    if all.is_empty() {
        return Ok(());
    }
    let rights =
        Rights::of_worker(config).map_err(|error| format!("the account of the worker process: {error}"))?;
    let wrong: Vec<String> = (0_u16..)
        .zip(all)
        .filter_map(|(number, spec)| try_out((&rights, config, number), spec).err())
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn try_out(what: (&Rights, &Config, u16), spec: &ModuleSpec) -> Result<(), String> {
    let named = |why: &str| format!("module {}: {why}", spec.path.display());
    let failed = |error: io::Error| named(&format!("it cannot be tried out: {error}"));
    let (child, output) = start(what, spec).map_err(failed)?;
    let ended = wait(&child, Instant::now() + INIT_MAX).map_err(failed)?;
    let Some(ended) = ended else {
        return Err(named(&format!("its `init` has not returned after {} seconds", INIT_MAX.as_secs())));
    };
    let mut said = Vec::new();
    let _ = File::from(output).take(SAID_MAX).read_to_end(&mut said);
    judge(ended, &String::from_utf8_lossy(&said)).map_err(|why| match why.starts_with("module ") {
        true => why,
        false => named(&why),
    })
}

/// Starts the process as the master starts a worker process: it changes its account by itself.
fn start(what: (&Rights, &Config, u16), spec: &ModuleSpec) -> io::Result<(Child, OwnedFd)> {
    let document = memfile::sealed("maitred-module", &serde_json::to_vec(&what)?)?;
    let (output, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    // Reading does not wait for a process that the started one has left behind, and that keeps the pipe open.
    rustix::io::ioctl_fionbio(&output, true)?;
    let mut command = Command::new(SELF);
    command.arg0("maitred: module").arg("load-module").arg(&spec.path);
    command.new_group().no_new_privs().descriptor(document.as_fd()).stdout(theirs.as_fd());
    Ok((command.spawn()?, output))
}

/// Waits for the end; `None`, and the process is killed, if it does not come in time. What it prints beyond what a pipe holds
/// keeps it from ending.
fn wait(child: &Child, until: Instant) -> io::Result<Option<Ended>> {
    loop {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        match poll(&mut [PollFd::new(child, PollFlags::IN)], left.as_ref()) {
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

fn judge(ended: Ended, said: &str) -> Result<(), String> {
    let status = match ended {
        Ended::Status(0) => return Ok(()),
        Ended::Signal(signal) => {
            return Err(format!("its `init` crashes: signal {signal}{}", name_of(signal)));
        }
        Ended::Status(status) => status,
    };
    let why = said.lines().rev().find_map(|line| line.strip_prefix(MARK));
    Err(why.map_or_else(|| format!("its `init` ends the process: exit status: {status}"), str::to_owned))
}

fn name_of(signal: i32) -> &'static str {
    match signal {
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        31 => " (SIGSYS): it makes a system call that worker processes may not make",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_does_to_its_process_is_said() {
        assert_eq!(judge(Ended::Status(0), "noise"), Ok(()));
        let crash = judge(Ended::Signal(11), "");
        assert_eq!(crash, Err("its `init` crashes: signal 11 (SIGSEGV)".to_owned()));
        let refusal = judge(Ended::Status(1), "noise\n\nmaitred-module: module x: no\n");
        assert_eq!(refusal, Err("module x: no".to_owned()));
        let exit = judge(Ended::Status(7), "noise");
        assert_eq!(exit, Err("its `init` ends the process: exit status: 7".to_owned()));
    }
}
