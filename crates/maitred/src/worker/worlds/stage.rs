//! What a world is played on: the shared state of one configuration, and threads that are run by hand.
//!
//! Shared state is never freed, so that there is one of each kind for all worlds of a test's thread; what a world leaves in it
//! fails that world.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use maitred_sys::memfile::SharedMap;

use super::random::Random;
use super::time;
use crate::config::{Identity, Limits, Lookup, Origin};
use crate::control::Start;
use crate::log::writer::{Settings, Writer};
use crate::serve::disk::DiskPool;
use crate::serve::files::{FileServer, GivenUp};
use crate::serve::passed::Helpers;
use crate::status::scoreboard::Scoreboard;
use crate::tls::TlsServer;
use crate::worker::reactor::Reactor;
use crate::worker::shared::Shared;
use crate::worker::{HelperThreads, shared_state};

/// How many configurations there are.
pub(super) const KINDS: u64 = 60;
/// From this one on, pools of HTTP servers are among them.
const WITH_SERVERS: u64 = 48;
/// From this one on, some clients speak HTTP/2, and servers are rarer.
const WITH_HTTP2: u64 = 54;
/// Times of every configuration. What waits for a client waits longer than what waits for an application.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(6);
pub(super) const QUEUE_TIMEOUT: Duration = Duration::from_secs(4);
pub(super) const CLIENT_TIMEOUT: Duration = Duration::from_secs(20);

/// A pool of a kind.
#[derive(Debug, Clone)]
pub(super) struct PoolKind {
    pub(super) slots: u16,
    pub(super) capacity: u32,
    queue: usize,
    transport: &'static str,
    sticky: bool,
    /// How many HTTP servers it consists of; 0: of application processes.
    pub(super) servers: u16,
}

/// What differs between configurations.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub(super) threads: usize,
    pub(super) pools: Vec<PoolKind>,
    pub(super) connections_max: usize,
    /// Some clients speak HTTP/2.
    pub(super) http2: bool,
}

impl Kind {
    fn of(number: u64) -> Kind {
        let mut random = Random::new(number);
        let pool = |random: &mut Random| PoolKind {
            slots: random.within(1..5) as u16,
            capacity: random.weighted(&[(3, 1), (2, 2), (1, 5)]),
            queue: random.weighted(&[(1, 1), (2, 3), (3, 1000)]),
            transport: random.weighted(&[(3, "direct"), (3, "relay"), (2, "auto")]),
            sticky: random.percent(20),
            servers: 0,
        };
        let threads = random.within(1..4);
        let pools = random.within(1..4);
        let mut kind = Kind {
            threads,
            pools: (0..pools).map(|_| pool(&mut random)).collect(),
            connections_max: random.weighted(&[(3, 1000), (1, 4)]),
            http2: number >= WITH_HTTP2,
        };
        if number >= WITH_SERVERS {
            for (at, pool) in kind.pools.iter_mut().enumerate() {
                if at == 0 && !kind.http2 || random.percent(30) {
                    (pool.servers, pool.slots) = (random.weighted(&[(3, 1), (3, 2), (2, 3)]), 0);
                }
            }
        }
        kind
    }

    fn configuration(&self, sockets: &Path) -> String {
        let mut text = format!(
            "[server]\nthreads = {}\n[[listen]]\naddress = \"127.0.0.1:8080\"\n[log]\naccess = \"off\"\n\
             [limits]\nconnections_per_thread_max = {}\nbody_inline_bytes_max = \"8KiB\"\n\
             body_memory_bytes_max = \"1MiB\"\nhead_timeout = \"20s\"\nbody_timeout = \"20s\"\n\
             keep_alive_timeout = \"20s\"\nwrite_timeout = \"20s\"\nlinger_timeout = \"20s\"\n\
             connections_per_address_max = 1000\n\
             [[site]]\n[[site.route]]\npath = \"/fixed/*\"\nrespond = {{ status = 200, body = \"fixed\" }}\n",
            self.threads, self.connections_max
        );
        for at in 0..self.pools.len() {
            text += &format!("[[site.route]]\npath = \"/p{at}/*\"\npool = \"p{at}\"\n");
        }
        for (at, pool) in self.pools.iter().enumerate() {
            let PoolKind { slots, queue, transport, sticky, servers, .. } = pool;
            if *servers > 0 {
                let name = |place| format!("\"http+unix:{}\"", socket_path(sockets, at, place).display());
                let names: Vec<String> = (0..usize::from(*servers)).map(name).collect();
                let seconds = REQUEST_TIMEOUT.as_secs();
                text += &format!(
                    "[pool.p{at}]\nconnect = [{}]\nrequest_timeout = \"{seconds}s\"\n",
                    names.join(", ")
                );
                continue;
            }
            text += &format!(
                "[pool.p{at}]\ncommand = [\"application\"]\nworkers = {slots}\ntransport = \"{transport}\"\n\
                 request_timeout = \"{}s\"\nqueue = {{ max = {queue}, timeout = \"{}s\" }}\nupgrade = [\"puppet\"]\n",
                REQUEST_TIMEOUT.as_secs(),
                QUEUE_TIMEOUT.as_secs()
            );
            if *sticky {
                text += "sticky = \"address\"\n";
            }
        }
        text
    }
}

/// Where a server of a pool listens.
fn socket_path(sockets: &Path, pool: usize, place: usize) -> PathBuf {
    sockets.join(format!("{pool}-{place}"))
}

/// A machine that has all that a configuration names.
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

/// Shared state and configuration of a world; see the top of the file.
pub(super) struct Stage {
    pub(super) kind: Kind,
    pub(super) shared: &'static Shared,
    /// Where servers have their sockets.
    sockets: tempfile::TempDir,
}

impl Stage {
    /// The stage of this kind.
    pub(super) fn new(number: u64) -> Stage {
        let kind = Kind::of(number);
        let sockets = tempfile::tempdir().unwrap();
        let origin = Origin { name: "world.toml".into(), base: PathBuf::from("/") };
        let config = match crate::config::read(&kind.configuration(sockets.path()), &origin, &Machine) {
            Ok((config, _)) => config,
            Err(errors) => panic!("{errors:?}"),
        };
        let start = Start {
            generation: 1,
            account: None,
            master_uid: 0,
            admin_token: None,
            config,
            threads: vec![None; kind.threads],
            affinity_why: String::new(),
            usable_cpus: Vec::new(),
            reuseport: false,
            pool_addresses: vec![(Vec::new(), 0); kind.pools.len()],
            descriptors: Vec::new(),
            terminal: false,
            ktls: String::new(),
            adopts: false,
            challenges: Vec::new(),
            certificate_reports: Vec::new(),
        };
        let board = SharedMap::<Scoreboard>::create("worlds").unwrap();
        let board = board.file().try_clone_to_owned().unwrap();
        // Real helper threads would act at times that the world does not control.
        let passed = kind.pools.iter().map(|_| Helpers::new(0)).collect();
        let helpers = HelperThreads { disk: DiskPool::new(0), passed };
        let shared = shared_state(start, board, &[], TlsServer::none(), helpers).unwrap();
        Stage { kind, shared: Box::leak(Box::new(shared)), sockets }
    }

    /// Where a server of a pool listens.
    pub(super) fn server_path(&self, pool: usize, place: usize) -> PathBuf {
        socket_path(self.sockets.path(), pool, place)
    }

    /// The threads of one world.
    pub(super) fn reactors(&self) -> Vec<Reactor> {
        self.shared.draining.store(false, Relaxed);
        self.shared.accepting.store(self.kind.threads as u32, Relaxed);
        (0..self.kind.threads).map(|number| self.reactor(number)).collect()
    }

    fn reactor(&self, number: usize) -> Reactor {
        let shared = self.shared;
        let limits =
            Limits { file_cache_files_max: shared.cached_files_max, ..shared.start.config.limits.clone() };
        let given_up =
            GivenUp { unsent: Arc::clone(&shared.unsent), descriptors: Arc::clone(&shared.descriptors) };
        let files = FileServer::new(&limits, shared.file_sets.clone(), given_up);
        let settings = Settings {
            format: shared.start.config.log.access,
            colour: false,
            threads: self.kind.threads,
            buffer_bytes_max: 0,
        };
        let log = Writer::start(shared.board.file().as_fd().try_clone_to_owned().unwrap(), settings);
        let log = log.unwrap().thread_log();
        let row = &shared.board.threads[number];
        Reactor::new(shared, number, row, files, log, time::SIMULATED).unwrap()
    }

    /// What is left of a world in the shared state, which should be nothing.
    pub(super) fn leftovers(&self) -> Vec<String> {
        let shared = self.shared;
        let mut left = Vec::new();
        let mut note = |what: String, number: u64| {
            if number != 0 {
                left.push(format!("{what}: {number}"));
            }
        };
        for (name, budget) in [
            ("descriptors", &shared.descriptors),
            ("bodies_in_memory", &shared.bodies_in_memory),
            ("bodies_on_disk", &shared.bodies_on_disk),
            ("unsent", &shared.unsent),
            ("unsent_files", &shared.unsent_files),
        ] {
            note(format!("budget {name}"), budget.used());
        }
        note("in transit".into(), shared.in_transit.load(Relaxed).into());
        note("accepting".into(), shared.accepting.load(Relaxed).into());
        for thread in 0..self.kind.threads {
            let row = &shared.board.threads[thread];
            note(format!("load of thread {thread}"), shared.loads[thread].load(Relaxed).into());
            for (name, cell) in [
                ("connections", &row.connections),
                ("idle", &row.idle),
                ("handed_off", &row.handed_off),
                ("reading", &row.reading),
                ("writing", &row.writing),
                ("waiting", &row.waiting),
                ("multiplexed", &row.multiplexed),
                ("lingering", &row.lingering),
                ("queued", &row.queued),
                ("panics", &row.panics),
            ] {
                note(format!("{name} of thread {thread}"), cell.get());
            }
            // Messages of the master about processes that have exited since.
            drop(shared.inboxes[thread].take());
        }
        for (at, pool) in shared.pools.iter().enumerate() {
            note(format!("queue of pool {at}"), shared.queued(at));
            pool.waiting
                .iter()
                .for_each(|cell| note(format!("waiting for pool {at}"), cell.load(Relaxed).into()));
            pool.load.iter().for_each(|cell| {
                note(format!("requests at a server of pool {at}"), cell.load(Relaxed).into())
            });
            // A thread that ends does so with its processes.
            pool.room.iter().chain(&pool.live).chain(&pool.slots).for_each(|cell| cell.store(0, Relaxed));
        }
        left
    }
}
