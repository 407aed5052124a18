//! How the process of an agent begins: its descriptors, its log, its account, its sandbox; and the messages that it gets.

use std::ffi::CStr;
use std::io::{ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;

use maitred_sys::{inherit, memfile};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use super::{CONTROL_FD, ERROR_LOG, START_FD, confined};
use maitred_base::sandbox::seccomp;
use maitred_control::RunAs;

/// Largest start document: that of the agent for certificates has a thousand sites.
const START_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Which agent it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Role {
    /// The name of its thread.
    pub thread: &'static CStr,
    /// The agent's name in the log.
    pub log: &'static str,
    /// What the log calls it.
    pub whole: &'static str,
}

/// The start document of an agent: all of its configuration. An agent whose start document would be another is replaced.
pub(crate) trait Document: DeserializeOwned {
    /// `log.level` of the configuration.
    fn log_level(&self) -> &str;
    /// Whether it is bound to a list of system calls.
    fn seccomp(&self) -> bool;
    /// What has to be done before it is confined.
    ///
    /// # Errors
    /// A text; the process ends.
    fn prepare(&self) -> Result<(), String> {
        Ok(())
    }
    /// Files that it reads, besides those of the system.
    fn reads(&self) -> Vec<&Path> {
        Vec::new()
    }
    /// The directory that it writes to.
    fn writes(&self) -> Option<&Path> {
        None
    }
}

/// The whole life of an agent: begins, and does what `live` does until that ends.
pub(crate) fn run<S: Document>(
    role: Role,
    live: impl AsyncFnOnce(S, UnixDatagram) -> Result<(), String>,
) -> ExitCode {
    match start(role, live) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{} cannot run: {error}", role.whole);
            ExitCode::FAILURE
        }
    }
}

fn start<S: Document>(
    role: Role,
    live: impl AsyncFnOnce(S, UnixDatagram) -> Result<(), String>,
) -> Result<(), String> {
    let _ = rustix::thread::set_name(role.thread);
    let take = |number| inherit::take(number).map_err(|error| format!("descriptor {number}: {error}"));
    let (socket, document) = (take(CONTROL_FD)?, take(START_FD)?);
    let wrong = |error: &dyn std::fmt::Display| format!("start document: {error}");
    let document = memfile::read(document, START_BYTES_MAX).map_err(|error| wrong(&error))?;
    let (start, account): (S, Option<RunAs>) =
        serde_json::from_slice(&document).map_err(|error| wrong(&error))?;
    maitred_log::error::init(role.log, start.log_level())?;
    if let Some(account) = account {
        account.assume().map_err(|error| format!("changing to its account: {error}"))?;
    }
    start.prepare()?;
    // Before any other thread is started, because it binds the thread and those that it starts.
    match confined::confine(&start.reads(), start.writes()) {
        Ok(status) => tracing::debug!("Landlock is {status}"),
        Err(error) => tracing::warn!(%error, "{} is not confined", role.whole),
    }
    if start.seccomp()
        && let Err(error) = seccomp::confine(seccomp::Process::Agent)
    {
        tracing::warn!(%error, "{} runs without seccomp: it may make all system calls", role.whole);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        // The socket is a SOCK_SEQPACKET, of which the library has no type: the calls are the same, and an empty packet is the
        // end.
        let socket = std::os::unix::net::UnixDatagram::from(socket);
        let prepared = socket.set_nonblocking(true).and_then(|()| UnixDatagram::from_std(socket));
        live(start, prepared.map_err(|error| error.to_string())?).await
    })
}

/// The next message of the master, of at most so many bytes; `None` at its end.
///
/// # Errors
/// A text, when it is none.
pub(crate) async fn receive<T: DeserializeOwned>(
    socket: &UnixDatagram,
    bytes_max: usize,
) -> Result<Option<T>, String> {
    let mut text = vec![0; bytes_max];
    loop {
        let come = socket.async_io(Interest::READABLE, || take(socket, &mut text)).await;
        let (length, file) = match come {
            Ok((0, _)) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
            Ok(come) => come,
            Err(error) => return Err(error.to_string()),
        };
        let text = text.get(..length).unwrap_or_default();
        if text == ERROR_LOG {
            let file = file.ok_or("the master's error log came without its descriptor")?;
            rustix::stdio::dup2_stderr(&file).map_err(|error| format!("the error log: {error}"))?;
            continue;
        }
        let message = serde_json::from_slice(text);
        return message.map(Some).map_err(|error| format!("invalid message from the master: {error}"));
    }
}

/// The next packet, with the descriptor that came along.
fn take(socket: &UnixDatagram, text: &mut [u8]) -> std::io::Result<(usize, Option<OwnedFd>)> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let come = recvmsg(socket, &mut [IoSliceMut::new(text)], &mut control, flags)?;
    let rights = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((come.bytes, rights))
}
