//! The processes that speak to other servers: one gets certificates ([`maitred_agents::acme`]), one fetches keys
//! ([`maitred_agents::key_agent`]), one resolves names ([`maitred_agents::names`]), one checks
//! servers ([`maitred_agents::checks`]). How they are started, and the master's ends of their sockets.
//! Neither reading nor writing ever waits.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use maitred_sys::memfile;
use maitred_sys::spawn::{Child, Command};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::channel;
use super::prepare::Prepared;
use super::process::{self, SELF};
use maitred_agents::acme::messages::{Site, Start};
use maitred_agents::acme::store;
use maitred_agents::{checks, key_agent, names};
use maitred_config::{Config, HostPattern};
use maitred_control::{RunAs, account};

/// An agent process.
#[derive(Debug)]
pub(crate) struct Agent {
    /// The process.
    pub child: Child,
    socket: OwnedFd,
    /// Messages that found the socket full.
    waiting: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    ended: bool,
}

/// Sites of different listeners may have the same names. The certificate of such sites is named by the first one, and is for
/// the names of all.
fn one_for_each_certificate(sites: impl Iterator<Item = Site>) -> Vec<Site> {
    let mut all: Vec<Site> = Vec::new();
    for site in sites {
        match all.iter_mut().find(|other| other.names.first() == site.names.first()) {
            Some(same) => {
                let further: Vec<String> =
                    site.names.into_iter().filter(|name| !same.names.contains(name)).collect();
                same.names.extend(further);
            }
            None => all.push(site),
        }
    }
    all
}

/// What is sent to the agent for a configuration; `None` if no site has an automatic certificate.
pub(crate) fn start_document(config: &Config) -> Option<Start> {
    let acme = config.acme.clone()?;
    let wanting = config.sites.iter().filter(|site| site.acme);
    let sites = wanting.map(|site| Site {
        names: site.hosts.iter().map(HostPattern::to_string).collect(),
        on_demand: false,
    });
    let sites = one_for_each_certificate(sites.filter(|site| !site.names.is_empty()));
    let mut on_demand = Vec::new();
    for site in config.sites.iter().filter(|site| site.on_demand) {
        on_demand.extend(site.hosts.iter().map(HostPattern::to_string));
        if site.hosts.is_empty() {
            on_demand.push("*".to_owned());
        }
    }
    let start = Start {
        acme,
        sites,
        on_demand,
        state: config.server.state.clone(),
        http: config.listens.iter().any(|listen| listen.tls.is_none()),
        tls: config.listens.iter().any(|listen| listen.tls.is_some()),
        log_level: config.log.level.clone(),
        seccomp: config.server.seccomp,
    };
    (!start.sites.is_empty() || !start.on_demand.is_empty()).then_some(start)
}

impl Agent {
    /// Starts the agent for certificates, with the account of the master. The agent changes to an account of its own, if it has
    /// one, which is given the state directory, and has rights to nothing more than that ([`maitred_agents::acme::agent`]).
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn start(prepared: &Prepared, start: &Start) -> io::Result<Agent> {
        let account = account(start.acme.user.as_ref())?;
        if let Some(account) = &account {
            store::give(&start.state, account)?;
        }
        let account = account.as_ref().map(RunAs::from);
        Agent::spawn(prepared, ("maitred: acme", "acme-agent"), &serde_json::to_vec(&(start, account))?)
    }

    /// Starts the key agent, which changes to the account of worker processes.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn start_keys(prepared: &Prepared, start: &key_agent::messages::Start) -> io::Result<Agent> {
        let account = account(prepared.config.server.user.as_ref())?;
        let account = account.as_ref().map(RunAs::from);
        Agent::spawn(prepared, ("maitred: keys", "key-agent"), &serde_json::to_vec(&(start, account))?)
    }

    /// Starts the names agent, which changes to the account of worker processes.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn start_names(prepared: &Prepared, start: &names::messages::Start) -> io::Result<Agent> {
        let account = account(prepared.config.server.user.as_ref())?;
        let account = account.as_ref().map(RunAs::from);
        Agent::spawn(prepared, ("maitred: names", "names-agent"), &serde_json::to_vec(&(start, account))?)
    }

    /// Starts the agent that checks servers, which changes to the account of worker processes.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn start_checks(prepared: &Prepared, start: &checks::messages::Start) -> io::Result<Agent> {
        let account = account(prepared.config.server.user.as_ref())?;
        let account = account.as_ref().map(RunAs::from);
        Agent::spawn(prepared, ("maitred: checks", "checks-agent"), &serde_json::to_vec(&(start, account))?)
    }

    fn spawn(prepared: &Prepared, (name, word): (&str, &str), document: &[u8]) -> io::Result<Agent> {
        let (socket, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        let document = memfile::sealed("maitred-agent", document)?;
        let mut command = Command::new(SELF);
        command.arg0(name).arg(word).new_group().no_new_privs();
        process::of_own_program(&mut command);
        command.descriptor(theirs.as_fd()).descriptor(document.as_fd());
        if let Some(file) = &prepared.error_log {
            command.stderr(file.as_fd());
        }
        Ok(Agent { child: command.spawn()?, socket, waiting: VecDeque::new(), ended: false })
    }

    /// Whether messages wait for the socket to become writable.
    pub(crate) fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the other side is gone; nothing will come any more.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Sends a message, now or when there is room.
    pub(crate) fn send(&mut self, message: &impl Serialize) {
        match serde_json::to_vec(message) {
            Ok(text) => self.waiting.push_back((text, None)),
            Err(error) => {
                tracing::error!(%error, "a message to an agent cannot be written")
            }
        }
        self.flush();
    }

    /// Has it write its log to this file.
    pub(crate) fn send_error_log(&mut self, file: OwnedFd) {
        self.waiting.push_back((maitred_agents::agents::ERROR_LOG.to_vec(), Some(file)));
        self.flush();
    }

    /// Sends what waits, as far as there is room.
    pub(crate) fn flush(&mut self) {
        while let Some((text, descriptor)) = self.waiting.front() {
            match channel::send(&self.socket, text, descriptor.as_ref()) {
                Err(Errno::AGAIN | Errno::NOBUFS) => return,
                Err(Errno::INTR) => {}
                Ok(_) => drop(self.waiting.pop_front()),
                // The exit of the process is an event of its own.
                Err(_) => {
                    self.ended = true;
                    self.waiting.clear();
                }
            }
        }
    }

    /// Sends what waits, and takes all messages that have come, each of at most so many bytes. A process that says what is none
    /// is killed; `whose` is what the log calls it.
    pub(crate) fn exchange<T: DeserializeOwned>(&mut self, bytes_max: usize, whose: &str) -> Vec<T> {
        let mut messages = Vec::new();
        self.flush();
        while !self.is_ended() {
            match self.receive(bytes_max) {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(%error, "invalid message from {whose}; killing it");
                    if let Err(error) = self.child.kill() {
                        tracing::error!(%error, "kill");
                    }
                    break;
                }
            }
        }
        messages
    }

    /// The next message, of at most so many bytes; `None` if there is none now.
    ///
    /// # Errors
    /// A text when the other side sent something that is no message.
    fn receive<T: DeserializeOwned>(&mut self, bytes_max: usize) -> Result<Option<T>, String> {
        let mut text = vec![0_u8; bytes_max];
        loop {
            match rustix::net::recv(&self.socket, &mut text, RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Ok((0, _)) | Err(_) => {
                    self.ended = true;
                    return Ok(None);
                }
                Ok((length, _)) => {
                    let message = serde_json::from_slice(text.get(..length).unwrap_or_default());
                    return message.map(Some).map_err(|error| error.to_string());
                }
            }
        }
    }
}

impl AsFd for Agent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
