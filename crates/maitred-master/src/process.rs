//! How worker and application processes are started.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use maitred_sys::memfile;
use maitred_sys::spawn::{Child, Command};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType,
};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::channel::Channel;
use super::output::Output;
use super::prepare::Prepared;
use super::refused;
use maitred_config::{Identity, Pool, Source, StopSignal};
use maitred_control::{RunAs, SlotId, Start, account};

/// The program of this process, also if its file has been replaced or removed since.
pub(super) const SELF: &str = "/proc/self/exe";
/// What processes of this program need of the master's environment besides what every program gets: how errors are written (in
/// the form of journald, in colours, with a trace of calls), where libraries are that it was started with, and how names are
/// resolved and certificates of others found.
const OF_OWN_PROGRAM: [&str; 11] = [
    "JOURNAL_STREAM",
    "NO_COLOR",
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "RES_OPTIONS",
    "LOCALDOMAIN",
    "HOSTALIASES",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
/// Who a process is and where it is at home, which it has from the master if it has its account.
const OF_ACCOUNT: [&str; 4] = ["HOME", "USER", "LOGNAME", "SHELL"];
/// The words of the service manager, and of another image of the master, to the master, which its children must not take
/// for theirs.
pub(super) const NOT_PASSED_ON: [&str; 7] = [
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    maitred_base::upgrade::VARIABLE,
];

/// Starts a worker process: the control socket, the start document, the scoreboard, and the descriptors that the document
/// lists, as [`maitred_control`] says.
///
/// The worker process is started with the account of the master, and changes to its own when nothing of that account can look
/// at it any more: execve(2) would open it to them again.
///
/// # Errors
/// What the system says, with what failed in words.
pub(crate) fn start_worker(
    prepared: &Prepared,
    start: &mut Start,
    listed: &[BorrowedFd<'_>],
    scoreboard: BorrowedFd<'_>,
) -> io::Result<(Child, Channel)> {
    let (channel, theirs) = Channel::pair()?;
    start.account = account(prepared.config.server.user.as_ref())?.as_ref().map(RunAs::from);
    let document = memfile::sealed("maitred-start", &serde_json::to_vec(start)?)?;
    let mut command = Command::new(SELF);
    command.arg0("maitred: worker").arg("worker").new_group().no_new_privs();
    of_own_program(&mut command);
    command.descriptor(theirs.as_fd()).descriptor(document.as_fd()).descriptor(scoreboard);
    for descriptor in listed {
        command.descriptor(*descriptor);
    }
    if let Some(file) = &prepared.error_log {
        command.stderr(file.as_fd());
    }
    Ok((command.spawn()?, channel))
}

/// An application process that was started, and our ends of what it was given.
#[derive(Debug)]
pub(crate) struct StartedApp {
    /// The process.
    pub child: Child,
    /// The master's end of the channel.
    pub channel: OwnedFd,
    /// Where it gets another channel from ([`renew_channel`]).
    pub recovery: OwnedFd,
    /// What it writes.
    pub output: Output,
}

/// Starts an application process: its channel is descriptor 3, its recovery socket 4, and the environment says so
/// (`MAITRED_CHANNEL`, `MAITRED_RECOVERY`), with its pool and slot (`MAITRED_POOL`, `MAITRED_SLOT`).
///
/// # Errors
/// What the system says, with what failed in words.
pub(crate) fn start_app(
    prepared: &Prepared,
    pool: &Pool,
    id: SlotId,
    open_files: Rlimit,
) -> io::Result<StartedApp> {
    let (channel, theirs) = stream_pair()?;
    let (recovery, their_recovery) = stream_pair()?;
    // Nothing is read there, so that nothing may be written.
    rustix::net::shutdown(&recovery, Shutdown::Read)?;
    let Source::Command(words) = &pool.source else {
        return Err(io::Error::other("the pool has no command"));
    };
    let mut words = words.iter();
    let program = words.next().ok_or_else(|| io::Error::other("the pool has no command"))?;
    let mut command = Command::new(program);
    for word in words {
        command.arg(word);
    }
    command.new_group().no_new_privs().directory(&pool.cwd).descriptor(theirs.as_fd());
    command.descriptor(their_recovery.as_fd());
    surround(&mut command, prepared.user_of(pool), &pool.env_inherit, &pool.env)?;
    let first = maitred_sys::spawn::FIRST_DESCRIPTOR;
    command.env("MAITRED_CHANNEL", first.to_string()).env("MAITRED_RECOVERY", (first + 1).to_string());
    command.env("MAITRED_POOL", &pool.name).env("MAITRED_SLOT", id.slot.to_string());
    let (output, written) = Output::pipe(
        &format!("{}/{}", pool.name, id.slot),
        prepared.config.limits.output_bytes_per_second_max,
    )?;
    command.stdout(written.as_fd()).stderr(written.as_fd());
    let explained = |error| refused::explain(error, program, &pool.cwd, prepared.user_of(pool));
    let child = command.spawn().map_err(explained)?;
    limit_open_files(&child, pool, open_files);
    Ok(StartedApp { child, channel, recovery, output })
}

/// Gives an application process another channel, in one message with one byte; returns our end.
///
/// # Errors
/// What the system says. The call never waits: a process that has not taken the channels before says so by that.
pub(crate) fn renew_channel(recovery: &OwnedFd) -> io::Result<OwnedFd> {
    let (ours, theirs) = stream_pair()?;
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let rights = [theirs.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&rights));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        match rustix::net::sendmsg(recovery, &[IoSlice::new(&[0])], &mut control, flags) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(ours),
        }
    }
}

fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// A channel to an external server, and the process id of the listener, to show.
///
/// # Errors
/// What the system says, with the path. The call never waits: a Unix socket whose queue is full says so at once.
pub(crate) fn connect(path: &Path) -> io::Result<(OwnedFd, u32)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let failed = |error: Errno| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("connecting to {}: {error}", path.display()))
    };
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    rustix::net::connect(&socket, &address).map_err(failed)?;
    let pid = rustix::net::sockopt::socket_peercred(&socket)
        .map_or(0, |credentials| credentials.pid.as_raw_nonzero().get());
    Ok((socket, u32::try_from(pid).unwrap_or(0)))
}

/// Starts a process of a listen pool as sd_listen_fds(3) has it: the sockets of its bucket are the descriptors from 3 on, and
/// `LISTEN_FDS`, `LISTEN_FDNAMES` and `LISTEN_PID` say so. In the command, `{fd}` is the number of the first one, and `{fds}` all
/// of them with commas between.
///
/// # Errors
/// What the system says, with what failed in words.
pub(crate) fn start_accepting(
    prepared: &Prepared,
    pool: &Pool,
    id: SlotId,
    bucket: u16,
    open_files: Rlimit,
) -> io::Result<(Child, Output)> {
    let gone = || io::Error::other("its configuration is gone");
    let Source::Listen { command: words, sharing, .. } = &pool.source else { return Err(gone()) };
    let sockets = prepared.pool_sockets(usize::from(id.pool)).ok_or_else(gone)?;
    let own = sockets.of(bucket);
    let first = maitred_sys::spawn::FIRST_DESCRIPTOR;
    let numbers: Vec<String> = (first..).take(own.len()).map(|number| number.to_string()).collect();
    let fill_in =
        |word: &String| word.replace("{fds}", &numbers.join(",")).replace("{fd}", &first.to_string());
    let mut words = words.iter().map(fill_in);
    let program = words.next().ok_or_else(|| io::Error::other("the pool has no command"))?;
    let mut command = Command::new(program);
    for word in words {
        command.arg(word);
    }
    command.new_group().no_new_privs().directory(&pool.cwd);
    for socket in &own {
        command.descriptor(*socket);
    }
    surround(&mut command, prepared.user_of(pool), &pool.env_inherit, &pool.env)?;
    command.env("MAITRED_POOL", &pool.name).env("MAITRED_SLOT", id.slot.to_string());
    command.env("MAITRED_BUCKET", bucket.to_string());
    let (output, written) = Output::pipe(
        &format!("{}/{}", pool.name, id.slot),
        prepared.config.limits.output_bytes_per_second_max,
    )?;
    command.stdout(written.as_fd()).stderr(written.as_fd());
    command.env("LISTEN_FDS", numbers.len().to_string());
    command.env("LISTEN_FDNAMES", vec![pool.name.as_str(); numbers.len()].join(":")).listen_pid();
    // The processes have no channel by which they would see the master's end, and would keep its addresses.
    command.death_signal(signal_of(sharing.stop_signal));
    let child = command.spawn()?;
    limit_open_files(&child, pool, open_files);
    if sharing.affinity {
        pin(&child, &prepared.cpus_of(bucket, sockets.buckets()));
    }
    Ok((child, output))
}

/// The system's name of a signal.
pub(crate) fn signal_of(signal: StopSignal) -> Signal {
    match signal {
        StopSignal::Term => Signal::TERM,
        StopSignal::Quit => Signal::QUIT,
        StopSignal::Int => Signal::INT,
        StopSignal::Hup => Signal::HUP,
        StopSignal::Usr1 => Signal::USR1,
        StopSignal::Usr2 => Signal::USR2,
        StopSignal::Winch => Signal::WINCH,
    }
}

/// The limit was raised for our own sake; programs that use select(2), or close all that could be open, need the one that we
/// were given. A limit that cannot be set is no loss.
fn limit_open_files(child: &Child, pool: &Pool, given: Rlimit) {
    if let Some(pid) = i32::try_from(child.pid()).ok().and_then(Pid::from_raw) {
        let own = pool.open_files.map(|most| Rlimit { current: Some(most), maximum: Some(most) });
        let _ = rustix::process::prlimit(Some(pid), Resource::Nofile, own.unwrap_or(given));
    }
}

/// Keeps a process on these CPUs, and the threads and processes that it will start.
fn pin(child: &Child, cpus: &[u16]) {
    let mut set = CpuSet::new();
    cpus.iter()
        .map(|cpu| usize::from(*cpu))
        .filter(|cpu| *cpu < CpuSet::MAX_CPU)
        .for_each(|cpu| set.set(cpu));
    let pid = i32::try_from(child.pid()).ok().and_then(Pid::from_raw);
    if let Err(error) = sched_setaffinity(pid, &set) {
        tracing::warn!(?cpus, %error, "an application process cannot be kept on its CPUs");
    }
}

/// Gives a program that is not this one its account, and an environment: what every program gets, who it is and where it is at
/// home (as `User=` of systemd.exec(5) does), what patterns name of the master's environment, and what is `set`.
pub(super) fn surround(
    command: &mut Command<'_>,
    user: Option<&Identity>,
    inherited: &[String],
    set: &[(String, String)],
) -> io::Result<()> {
    match (account(user)?, user) {
        (Some(account), Some(user)) => {
            command.account(account).env("HOME", &user.home).env("SHELL", &user.shell);
            command.env("USER", &user.name).env("LOGNAME", &user.name);
        }
        _ => inherit(command, OF_ACCOUNT),
    }
    inherit(command, inherited);
    for (name, value) in set {
        command.env(name, value);
    }
    for name in NOT_PASSED_ON {
        command.env_remove(name);
    }
    Ok(())
}

/// The environment of a process of this program.
pub(super) fn of_own_program(command: &mut Command<'_>) {
    inherit(command, OF_OWN_PROGRAM);
}

fn inherit(command: &mut Command<'_>, patterns: impl IntoIterator<Item = impl AsRef<str>>) {
    for pattern in patterns {
        command.inherit(pattern.as_ref());
    }
}
