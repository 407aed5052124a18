//! One step of the tests: a command with an end. A step that does not end is described before it is killed, because a log that
//! stops in the middle does not say which process waited for what.

use std::collections::HashMap;
use std::io::{Read as _, Seek as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::{Result, skips};

/// The Cargo that runs this program.
#[must_use]
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// How long a step may take. The longest one of a quiet machine takes a fifth of it.
const STEP_MAX: Duration = Duration::from_secs(25 * 60);
/// How long the compilation of everything may take: a quarter of it on a quiet machine of two processors.
const COMPILATION_MAX: Duration = Duration::from_secs(60 * 60);
/// How long a single client may take. The longest one of a busy machine takes a fifth of it.
const CLIENT_MAX: Duration = Duration::from_secs(5 * 60);
/// States of TCP sockets, as the kernel numbers them (include/net/tcp_states.h).
const TCP_STATES: [&str; 13] = [
    "?",
    "established",
    "syn-sent",
    "syn-received",
    "fin-wait-1",
    "fin-wait-2",
    "time-wait",
    "close",
    "close-wait",
    "last-ack",
    "listen",
    "closing",
    "new-syn-received",
];
/// Bytes of a command line that are shown.
const COMMAND_BYTES_MAX: usize = 160;

/// Processes that a step has to do with and that are not its own: the server that its clients ask. By name.
static BESIDE: Mutex<Vec<(String, u32)>> = Mutex::new(Vec::new());

/// Has a process described as well where a step hangs, from now until this is dropped.
#[derive(Debug)]
pub struct Beside(u32);

impl Beside {
    /// `name` is what it is called then.
    #[must_use]
    pub fn new(name: &str, process: &Child) -> Beside {
        beside().push((name.to_owned(), process.id()));
        Beside(process.id())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        beside().retain(|(_, pid)| *pid != self.0);
    }
}

fn beside() -> MutexGuard<'static, Vec<(String, u32)>> {
    BESIDE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one step; its failure is the end of all that follows in the same group.
///
/// # Errors
/// What failed, with the step's name.
pub fn step(name: &str, command: &mut Command) -> Result<()> {
    step_within(name, command, STEP_MAX)
}

/// A step of a compiler that may have the whole server before it, on a machine that does other things as well.
///
/// # Errors
/// What failed, with the step's name.
pub(crate) fn compilation(name: &str, command: &mut Command) -> Result<()> {
    step_within(name, command, COMPILATION_MAX)
}

fn step_within(name: &str, command: &mut Command, most: Duration) -> Result<()> {
    println!("\n== {name}");
    let began = Instant::now();
    let status = run(name, command, most)?;
    println!("== {name}: {} in {:.0} s", outcome(status), began.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}").into()) }
}

/// Runs a command whose output goes into this file, and says whether it has succeeded.
///
/// # Errors
/// When it cannot be started, or does not end.
pub(crate) fn into_file(name: &str, command: &mut Command, path: &Path) -> Result<bool> {
    let file = std::fs::File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(run(name, command.stdout(file.try_clone()?).stderr(file), STEP_MAX)?.success())
}

/// Runs a client that others wrote, and gives back how it has ended and what it has written.
///
/// # Errors
/// What failed, with the step's name.
pub fn client(name: &str, command: &mut Command) -> Result<(ExitStatus, String)> {
    println!("\n== {name}");
    // Files, since a pipe would not be read before the end.
    let (mut said, mut errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let status = run(name, command.stdout(said.try_clone()?).stderr(errors.try_clone()?), CLIENT_MAX);
    let mut text = Vec::new();
    for file in [&mut said, &mut errors] {
        file.rewind()?;
        file.read_to_end(&mut text)?;
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    match status {
        Ok(status) => Ok((status, text)),
        Err(error) => Err(format!("{error}; it said: {text}").into()),
    }
}

/// Runs a command to its end. A command that does not end is described, and all processes beside it.
fn run(name: &str, command: &mut Command, most: Duration) -> Result<ExitStatus> {
    let mut child = command
        .stdin(Stdio::null())
        .env(skips::VARIABLE, skips::file())
        .spawn()
        .map_err(|error| format!("{name}: {error}"))?;
    if let Some(status) = wait(&mut child, most)? {
        return Ok(status);
    }
    let own = tree(child.id());
    println!("\n== {name}: HANGS after {} minutes; its processes:", most.as_secs() / 60);
    describe(&own);
    for (other, pid) in beside().iter() {
        println!("  and those of {other}:");
        describe(&tree(*pid));
    }
    // The youngest first: a parent may otherwise start another one.
    for pid in own.iter().rev().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
        let _ = kill_process(pid, Signal::KILL);
    }
    child.wait()?;
    Err(format!("{name}: not over after {} minutes", most.as_secs() / 60).into())
}

fn outcome(status: ExitStatus) -> &'static str {
    if status.success() { "passed" } else { "failed" }
}

/// How a process has ended; `None` if it has not within that time.
pub fn wait(child: &mut Child, most: Duration) -> Result<Option<ExitStatus>> {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let end = Instant::now() + most;
    loop {
        let left = Timespec::try_from(end.saturating_duration_since(Instant::now()))?;
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(child.wait()?)),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A process and all that descend from it, parents first.
#[must_use]
pub fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(&pid) = found.get(at) {
        at += 1;
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in tasks.flatten() {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    found
}

/// Prints what each process is, what it waits in, and its TCP sockets with what is unread and unsent.
fn describe(pids: &[u32]) {
    let sockets = sockets();
    for pid in pids {
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let words = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let words: String = words.chars().take(COMMAND_BYTES_MAX).collect();
        let waits = String::from_utf8_lossy(&read("wchan")).into_owned();
        println!("  {pid} waits in {waits}: {words}");
        let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        for target in files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok()) {
            let inode = target.to_string_lossy();
            let inode = inode.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
            if let Some(socket) = inode.and_then(|inode| sockets.get(inode)) {
                println!("      {socket}");
            }
        }
    }
}

/// All TCP sockets of this machine by inode (proc_net_tcp(5)).
fn sockets() -> HashMap<String, String> {
    let lines = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().map(Path::new);
    let text: String = lines.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    text.lines().filter_map(socket).collect()
}

/// One line of that file: inode, and what is said of the socket.
fn socket(line: &str) -> Option<(String, String)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let port = |address: &str| u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok();
    let (local, remote) = (port(fields.get(1)?)?, port(fields.get(2)?)?);
    let state = usize::from_str_radix(fields.get(3)?, 16).ok()?;
    let (unsent, unread) = fields.get(4)?.split_once(':')?;
    let bytes = |text: &str| u64::from_str_radix(text, 16).unwrap_or_default();
    let state = TCP_STATES.get(state).unwrap_or(&"?");
    let said = format!(
        "port {local} to {remote}: {state}, {} bytes unsent, {} unread",
        bytes(unsent),
        bytes(unread)
    );
    Some(((*fields.get(9)?).to_owned(), said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_does_not_end_is_seen() {
        let mut child = Command::new("sh").args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap();
        assert_eq!(wait(&mut child, Duration::ZERO).unwrap(), None);
        assert_eq!(tree(child.id()), [child.id()]);
        drop(child.stdin.take());
        assert!(wait(&mut child, STEP_MAX).unwrap().is_some());
    }

    #[test]
    fn a_client_that_does_not_end_is_ended_and_one_that_does_is_heard() {
        let mut echo = Command::new("sh");
        let (status, said) = client("a client", echo.args(["-c", "echo out; echo err >&2; exit 3"])).unwrap();
        assert_eq!((status.code(), said.as_str()), (Some(3), "out\nerr\n"));
        let server = Command::new("sh").args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap();
        let named = Beside::new("the server", &server);
        assert!(beside().contains(&("the server".to_owned(), server.id())));
        let mut hangs = Command::new("sleep");
        let error = run("a client", hangs.arg("1000"), Duration::ZERO).unwrap_err().to_string();
        assert_eq!(error, "a client: not over after 0 minutes");
        drop(named);
        assert!(!beside().iter().any(|(_, pid)| *pid == server.id()));
        let mut server = server;
        drop(server.stdin.take());
        server.wait().unwrap();
    }

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = "   0: 0100007F:1F90 0100007F:C350 01 00000010:00000200 00:00000000 00000000  0  0 4711 1 0 20 4 30 10 -1";
        let (inode, said) = socket(line).unwrap();
        assert_eq!(inode, "4711");
        assert_eq!(said, "port 8080 to 50000: established, 16 bytes unsent, 512 unread");
        assert!(socket("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when").is_none());
    }

    #[test]
    fn the_kernels_own_sockets_are_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = format!("port {port} to 0: listen");
        assert!(sockets().values().any(|said| said.starts_with(&line)));
    }
}
