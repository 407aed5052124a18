//! How worker and application processes are started.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use maitred_sys::memfile;
use maitred_sys::spawn::{Account, Child, Command};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, Resource, Rlimit};

use super::channel::Channel;
use super::output::Output;
use super::prepare::Prepared;
use crate::config::{Identity, Pool, Source};
use crate::control::{SlotId, Start};

/// This program, whatever has become of its file since.
const SELF: &str = "/proc/self/exe";
/// The service manager's words to the master, which its children must not take for theirs.
const NOT_PASSED_ON: [&str; 6] =
    ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// Starts a worker process: the control socket, the start document, the scoreboard, and the descriptors that the document
/// lists, as [`crate::control`] says.
///
/// # Errors
/// What the system says, with what failed in words.
pub fn start_worker(
    prepared: &Prepared,
    start: &Start,
    listed: &[BorrowedFd<'_>],
    scoreboard: BorrowedFd<'_>,
) -> io::Result<(Child, Channel)> {
    let (channel, theirs) = Channel::pair()?;
    let document = memfile::sealed("maitred-start", &serde_json::to_vec(start)?)?;
    let mut command = Command::new(SELF);
    command.arg0("maitred: worker").arg("worker").new_group().no_new_privs();
    command.descriptor(theirs.as_fd()).descriptor(document.as_fd()).descriptor(scoreboard);
    for descriptor in listed {
        command.descriptor(*descriptor);
    }
    if let Some(file) = &prepared.error_log {
        command.stderr(file.as_fd());
    }
    common(&mut command, prepared.config.server.user.as_ref())?;
    Ok((command.spawn()?, channel))
}

/// Starts an application process: its channel is descriptor 3, and the environment says so (`MAITRED_CHANNEL`), with its
/// pool and slot (`MAITRED_POOL`, `MAITRED_SLOT`). Returns the other end of the channel too, and what it writes.
///
/// # Errors
/// What the system says, with what failed in words.
pub fn start_app(
    prepared: &Prepared,
    pool: &Pool,
    id: SlotId,
    open_files: Rlimit,
) -> io::Result<(Child, OwnedFd, Output)> {
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let (Source::Command(words) | Source::Listen { command: words, .. }) = &pool.source else {
        return Err(io::Error::other("the pool has no command"));
    };
    let mut words = words.iter();
    let program = words.next().ok_or_else(|| io::Error::other("the pool has no command"))?;
    let mut command = Command::new(program);
    for word in words {
        command.arg(word);
    }
    command.new_group().no_new_privs().directory(&pool.cwd).descriptor(theirs.as_fd());
    for (name, value) in &pool.env {
        command.env(name, value);
    }
    command.env("MAITRED_CHANNEL", maitred_sys::spawn::FIRST_DESCRIPTOR.to_string());
    command.env("MAITRED_POOL", &pool.name).env("MAITRED_SLOT", id.slot.to_string());
    let (output, written) = Output::pipe(&format!("{}/{}", pool.name, id.slot))?;
    command.stdout(written.as_fd()).stderr(written.as_fd());
    common(&mut command, pool.user.as_ref().or(prepared.config.server.user.as_ref()))?;
    let child = command.spawn()?;
    if let Some(pid) = i32::try_from(child.pid()).ok().and_then(Pid::from_raw) {
        // The limit was raised for our own sake; programs that use select(2), or close all that could be open, want
        // the one that we were given. It is no loss if it cannot be set.
        let own = pool.open_files.map(|most| Rlimit { current: Some(most), maximum: Some(most) });
        let _ = rustix::process::prlimit(Some(pid), Resource::Nofile, own.unwrap_or(open_files));
    }
    Ok((child, ours, output))
}

fn common(command: &mut Command<'_>, user: Option<&Identity>) -> io::Result<()> {
    for name in NOT_PASSED_ON {
        command.env_remove(name);
    }
    if let Some(user) = user.filter(|_| rustix::process::geteuid().is_root()) {
        command.account(Account::new(&user.name, user.uid, user.gid)?);
    }
    Ok(())
}
