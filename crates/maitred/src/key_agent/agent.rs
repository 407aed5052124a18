//! The key agent's process: clock, socket and tasks around the schedules.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use landlock::AccessFs;
use maitred_sys::{inherit, memfile};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use tokio::net::UnixDatagram;
use tokio::sync::mpsc;

use super::fetch::fetch;
use super::messages::{FromAgent, MESSAGE_BYTES_MAX, Start, ToAgent};
use super::schedule::Schedule;
use super::{CONTROL_FD, START_FD};
use crate::control::RunAs;
use crate::jwt::keys::{Key, KeySet};
use crate::sandbox::{self, Connections, WANTED, seccomp};

/// Largest start document.
const START_BYTES_MAX: u64 = 1024 * 1024;
/// What resolving names and checking certificates takes. Whole directories, because files in them are replaced.
const READ: [&str; 6] = ["/etc", "/usr", "/lib", "/lib64", "/run", "/var/run"];

/// The whole life of the agent. Its descriptors are described in [`super`].
pub fn run() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the process that fetches keys cannot run: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), String> {
    let _ = rustix::thread::set_name(c"maitred-keys");
    let take = |number| inherit::take(number).map_err(|error| format!("descriptor {number}: {error}"));
    let (socket, document) = (take(CONTROL_FD)?, take(START_FD)?);
    let wrong = |error: &dyn std::fmt::Display| format!("start document: {error}");
    let document = memfile::read(document, START_BYTES_MAX).map_err(|error| wrong(&error))?;
    let (start, account): (Start, Option<RunAs>) =
        serde_json::from_slice(&document).map_err(|error| wrong(&error))?;
    crate::log::error::init("keys", &start.log_level)?;
    if let Some(account) = account {
        account.assume().map_err(|error| format!("changing to its account: {error}"))?;
    }
    // Before any other thread is started, because it binds the thread and those that it starts.
    match confine(&start) {
        Ok(status) => tracing::debug!("Landlock is {status}"),
        Err(error) => tracing::warn!(%error, "the process that fetches keys is not confined"),
    }
    if start.seccomp
        && let Err(error) = seccomp::confine(seccomp::Process::Agent)
    {
        tracing::warn!(%error, "the process that fetches keys runs without seccomp: it may make all system calls");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(live(start, socket))
}

/// Drops all capabilities, and leaves what names and certificates take to be read. It writes nothing.
fn confine(start: &Start) -> Result<&'static str, String> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(|error| format!("capabilities: {error}"))?;
    let own = start.sources.iter().filter_map(|source| source.ca_file.as_deref());
    let read: Vec<&Path> = READ.iter().map(Path::new).chain(own).collect();
    let rules: [(&[&Path], _); 1] = [(&read, AccessFs::from_read(WANTED) & !AccessFs::Execute)];
    // The resolver says where to connect to.
    sandbox::restrict(&rules, Connections::Anywhere).map_err(|error| format!("Landlock: {error}"))
}

/// A source with what is known of it.
struct Source {
    schedule: Schedule,
    keys: Vec<Key>,
}

async fn live(start: Start, socket: OwnedFd) -> Result<(), String> {
    // It is a SOCK_SEQPACKET, of which the library has no type: the calls are the same, and an empty packet is the end.
    let socket = std::os::unix::net::UnixDatagram::from(socket);
    let prepared = socket.set_nonblocking(true).and_then(|()| UnixDatagram::from_std(socket));
    let socket = prepared.map_err(|error| error.to_string())?;
    let (start, begun) = (Arc::new(start), Instant::now());
    let (done, mut ended) = mpsc::unbounded_channel();
    let source = |refresh| Source { schedule: Schedule::new(refresh), keys: Vec::new() };
    let mut sources: Vec<Source> = start.sources.iter().map(|one| source(one.refresh)).collect();
    loop {
        for (index, source) in sources.iter_mut().enumerate() {
            if source.schedule.begins(begun.elapsed()) {
                let (start, done) = (Arc::clone(&start), done.clone());
                tokio::spawn(async move {
                    let outcome = match start.sources.get(index) {
                        Some(source) => fetch(source).await,
                        None => Err("it is not there".to_owned()),
                    };
                    // Without a receiver this process is about to end.
                    let _ = done.send((index, outcome));
                });
            }
        }
        let next = sources.iter().filter_map(|source| source.schedule.next()).min();
        let wait = next.map_or(Duration::MAX, |next| next.saturating_sub(begun.elapsed()));
        tokio::select! {
            message = receive(&socket) => match message? {
                None => return Ok(()),
                Some(ToAgent::Wanted(index)) => {
                    sources.get_mut(index).into_iter().for_each(|source| source.schedule.wanted(begun.elapsed()));
                }
            },
            Some((index, outcome)) = ended.recv() => {
                let (Some(source), Some(of)) = (sources.get_mut(index), start.sources.get(index)) else { continue };
                source.schedule.ended(begun.elapsed(), outcome.is_ok());
                if let Some(message) = source.take(index, &of.url, outcome) {
                    let text = serde_json::to_vec(&message).map_err(|error| error.to_string())?;
                    socket.send(&text).await.map_err(|error| format!("the master: {error}"))?;
                }
            }
            () = tokio::time::sleep(wait) => {}
        }
    }
}

impl Source {
    /// What is said of a fetch: keys that are others than before. After a failure those that are there stay.
    fn take(&mut self, index: usize, url: &str, outcome: Result<KeySet, String>) -> Option<FromAgent> {
        match outcome {
            Ok(set) if set.keys == self.keys => None,
            Ok(set) => {
                tracing::info!(url, keys = set.keys.len(), "there are new keys for tokens");
                if !set.skipped.is_empty() {
                    tracing::info!(url, "keys that cannot be used: {}", set.skipped.join("; "));
                }
                self.keys.clone_from(&set.keys);
                Some(FromAgent::Keys(index, set.keys))
            }
            Err(why) => {
                tracing::error!(
                    url,
                    "keys for tokens cannot be fetched; the previous ones stay in use: {why}"
                );
                None
            }
        }
    }
}

/// The next message of the master; `None` at its end.
async fn receive(socket: &UnixDatagram) -> Result<Option<ToAgent>, String> {
    let mut text = vec![0; MESSAGE_BYTES_MAX];
    let length = match socket.recv(&mut text).await {
        Ok(0) => return Ok(None),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
        Ok(length) => length,
        Err(error) => return Err(error.to_string()),
    };
    let message = serde_json::from_slice(text.get(..length).unwrap_or_default());
    message.map(Some).map_err(|error| format!("invalid message from the master: {error}"))
}
