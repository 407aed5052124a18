//! What tests of the worker's parts have in common: requests, configurations, and threads that are not started.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::keys::ConnKey;
use maitred_http::request::{self, HeadLimits, Request};
use maitred_http::response::{Filter, ResponsePolicy};
use maitred_sys::memfile::SharedMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};

use super::clock::Environment;
use super::entry::Entry;
use super::reactor::Reactor;
use super::shared::Shared;
use super::verifier::Verifier;
use super::{HelperThreads, Inheritance, MemoryFiles, shared_state};
use maitred_base::passed::Helpers;
use maitred_config::{self as config, AccessFormat, Config, Identity, Limits, Lookup, Origin};
use maitred_control::Start;
use maitred_control::modules::Modules;
use maitred_files::disk::DiskPool;
use maitred_files::files::{FileServer, GivenUp};
use maitred_log::thread_logs::ThreadLogs;
use maitred_log::writer::{Framing, Settings, Writer};
use maitred_status::scoreboard::Scoreboard;
use maitred_tls::TlsServer;

pub(super) const HEAD_LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 8192,
    header_count_max: 64,
    target_bytes_max: 1024,
    body_bytes_max: 1 << 30,
};

/// What HTTP/1.1 allows and HTTP/2 has not.
pub(super) const POLICY: ResponsePolicy = ResponsePolicy {
    head_request: false,
    http10: false,
    informational: true,
    continues: false,
    framed: false,
    keep: true,
    trailers: false,
    switch: None,
    bounds: maitred_http::limits::ResponseBounds::DEFAULT,
};

pub(super) fn filter() -> Filter {
    Filter::new(POLICY)
}

/// A request: its line, and its fields besides `Host`.
pub(super) fn with_request<R>(line: &str, fields: &[&str], act: impl FnOnce(&Request<'_, '_>) -> R) -> R {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let text = format!("{line}\r\nHost: example.com\r\n{fields}\r\n");
    let mut room = request::field_room();
    let (request, _) = request::parse(text.as_bytes(), &mut room, &HEAD_LIMITS).unwrap().unwrap();
    act(&request)
}

/// A machine that has all users and directories that a configuration names.
struct Machine;

impl Lookup for Machine {
    fn user(&self, _name: &str) -> std::io::Result<Option<Identity>> {
        Ok(None)
    }

    fn is_root(&self) -> bool {
        false
    }

    fn directory(&self, _path: &Path) -> std::io::Result<()> {
        Ok(())
    }
}

/// The configuration of this text, with a listener and a site if it has none.
pub(super) fn config(text: &str) -> Config {
    let listen = if text.contains("[[listen]]") { "" } else { "[[listen]]\naddress = \"127.0.0.1:8080\"\n" };
    let site = "[[site]]\n[[site.route]]\npath = \"/fixed\"\nrespond = { status = 200, body = \"\" }\n";
    let site = if text.contains("[[site]]") { "" } else { site };
    let origin = Origin { name: "test.toml".into(), base: PathBuf::from("/") };
    match config::read(&format!("{text}\n{listen}{site}"), &origin, &Machine) {
        Ok((config, _)) => config,
        Err(errors) => panic!("{errors}"),
    }
}

fn start(config: Config, threads: usize) -> Start {
    Start {
        generation: 1,
        account: None,
        master_uid: 0,
        admin_token: None,
        threads: vec![None; threads],
        affinity_why: String::new(),
        usable_cpus: Vec::new(),
        reuseport: false,
        pool_addresses: vec![(Vec::new(), 0); config.pools.len()],
        config,
        descriptors: Vec::new(),
        terminal: false,
        ktls: String::new(),
        adopts: false,
        challenges: Vec::new(),
        certificate_reports: Vec::new(),
        servers: Vec::new(),
        modules_off: Vec::new(),
    }
}

/// What this many threads would share with this configuration. No helper threads run.
pub(super) fn shared(text: &str, threads: usize) -> &'static Shared {
    shared_with(text, threads, |_| ())
}

/// The same, changed before the first one has it.
pub(super) fn shared_with(text: &str, threads: usize, change: impl FnOnce(&mut Shared)) -> &'static Shared {
    let config = config(text);
    let passed = config.pools.iter().map(|_| Helpers::new(0)).collect();
    let helpers = HelperThreads { disk: DiskPool::new(0), verifier: Verifier::by_hand(), passed };
    let board = SharedMap::<Scoreboard>::create("tests").unwrap();
    let board = board.file().try_clone_to_owned().unwrap();
    let memory = MemoryFiles { board, tables: Vec::new(), cache: None, history: None };
    let inherited = Inheritance { memory, buckets: &[], datagrams: &[], modules: Modules::default() };
    let mut shared = shared_state(start(config, threads), inherited, TlsServer::none(), helpers).unwrap();
    change(&mut shared);
    Box::leak(Box::new(shared))
}

/// A thread of these, which nothing runs.
pub(super) fn reactor(shared: &'static Shared, number: usize) -> Reactor {
    reactor_at(shared, number, Environment::SYSTEM)
}

/// The same with another clock.
pub(super) fn reactor_at(shared: &'static Shared, number: usize, environment: Environment) -> Reactor {
    let limits = Limits { file_cache_files_max: 16, ..shared.start.config.limits.clone() };
    let given_up =
        GivenUp { unsent: Arc::clone(&shared.unsent), descriptors: Arc::clone(&shared.descriptors) };
    let files = FileServer::new(&limits, shared.file_sets.clone(), given_up);
    let settings = {
        let format = AccessFormat::Off.into();
        Settings { format, colour: false, threads: 1, buffer_bytes_max: 0, sample: 1 }
    };
    let sink = shared.board.file().as_fd().try_clone_to_owned().unwrap();
    let logs =
        ThreadLogs::new(Writer::start(sink, Framing::Lines, settings).unwrap().thread_log(), Vec::new());
    Reactor::new(shared, number, &shared.board.threads[number], files, logs, environment).unwrap()
}

/// A client's connection in its table, and the client's end.
pub(super) fn client(reactor: &mut Reactor, remote: &str) -> (ConnKey, OwnedFd) {
    let (socket, far_end) = sockets(SocketType::STREAM);
    let now = reactor.clock.now;
    (reactor.insert(Entry::new(socket, 0, remote.parse().ok(), now)), far_end)
}

/// Two connected sockets, which do not block.
pub(super) fn sockets(kind: SocketType) -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, kind, flags, None).unwrap()
}

/// Ends what goes through such a socket, as closing it does. Closing would not be seen at once if another test starts a process
/// at that moment, which has a copy of the descriptor until it executes its program.
pub(super) fn hang_up(socket: &OwnedFd) {
    shutdown(socket, Shutdown::Both).unwrap();
}

/// Whether the other end of a socket was closed, or will be in a moment, for the same reason.
pub(super) fn is_closed(socket: &OwnedFd) -> bool {
    let deadline = Timespec { tv_sec: 10, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&deadline));
    ready == Ok(1) && rustix::io::read(socket, &mut [0; 8]) == Ok(0)
}
