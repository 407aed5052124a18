//! What a world is played on: the shared state of one configuration, and threads that are run by hand.
//!
//! Shared state is never freed, so that there is one of each kind for all worlds of a test's thread; what a world leaves in it
//! fails that world.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::time;
use crate::reactor::Reactor;
use crate::shared::Shared;
use crate::testing::{reactor_at, shared_with};
use maitred_base::passed::Helpers;
use maitred_files::disk::DiskPool;
use maitred_testing::random::Random;

/// What worlds are about, and the first configuration of each family.
pub(super) const FAMILIES: [(&str, u64); 6] = [
    ("processes", 0),
    // Pools of HTTP servers are among those of processes.
    ("servers", WITH_SERVERS),
    // Some clients speak HTTP/2, and servers are rarer.
    ("http2", WITH_HTTP2),
    // The servers speak FastCGI.
    ("fastcgi", WITH_FASTCGI),
    // Another worker process takes over.
    ("reloads", WITH_RELOADS),
    // Files are asked for, and disks are slow.
    ("files", WITH_FILES),
];
const WITH_SERVERS: u64 = 48;
const WITH_HTTP2: u64 = 54;
const WITH_FASTCGI: u64 = 60;
const WITH_RELOADS: u64 = 66;
const WITH_FILES: u64 = 78;
/// How many configurations there are.
pub(super) const KINDS: u64 = 88;
/// Worker processes in a world, one after the other.
pub(super) const GENERATIONS: usize = 2;
/// Times of every configuration. What waits for a client waits longer than what waits for an application.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(6);
pub(super) const QUEUE_TIMEOUT: Duration = Duration::from_secs(4);
pub(super) const CLIENT_TIMEOUT: Duration = Duration::from_secs(20);

/// Bodies that are not longer are kept in memory, where there are files.
const IN_MEMORY_BYTES: u64 = 12 * 1024;

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
    /// The servers speak FastCGI.
    pub(super) fastcgi: bool,
    /// Bodies go to them while they come.
    unbuffered: bool,
    /// Each server takes two requests at a time; others wait.
    pub(super) bounded: bool,
    /// Responses are kept for slow clients.
    keeps: bool,
}

/// What differs between configurations.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub(super) threads: usize,
    pub(super) pools: Vec<PoolKind>,
    pub(super) connections_max: usize,
    /// Some clients speak HTTP/2.
    pub(super) http2: bool,
    /// Reloads may happen.
    pub(super) reloads: bool,
    /// Files are asked for, and helpers read and write when the world says so.
    pub(super) files: bool,
}

/// The family of a configuration.
pub(super) fn family(kind: u64) -> usize {
    FAMILIES.iter().rposition(|(_, first)| *first <= kind).unwrap_or(0)
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
            fastcgi: false,
            unbuffered: false,
            bounded: false,
            keeps: number % 4 == 1,
        };
        let threads = random.within(1..4);
        let pools = random.within(1..4);
        let mut kind = Kind {
            threads,
            pools: (0..pools).map(|_| pool(&mut random)).collect(),
            connections_max: random.weighted(&[(3, 1000), (1, 4)]),
            http2: match number {
                ..WITH_HTTP2 => false,
                WITH_HTTP2..WITH_FASTCGI => true,
                _ => number.is_multiple_of(3),
            },
            reloads: (WITH_RELOADS..WITH_FILES).contains(&number),
            files: (WITH_FILES..KINDS).contains(&number),
        };
        if number >= WITH_SERVERS {
            let family = FAMILIES[family(number)].1;
            let first = matches!(family, WITH_SERVERS | WITH_FASTCGI);
            for (at, pool) in kind.pools.iter_mut().enumerate() {
                if at == 0 && first || random.percent(if family >= WITH_RELOADS { 10 } else { 30 }) {
                    (pool.servers, pool.slots) = (random.weighted(&[(3, 1), (3, 2), (2, 3)]), 0);
                    pool.fastcgi = family == WITH_FASTCGI;
                    pool.unbuffered = number.is_multiple_of(2);
                    pool.bounded = number % 3 == 1;
                }
            }
        }
        kind
    }

    /// Whether the body of a request, of this length, may go to a server of this pool while it comes.
    pub(super) fn passes(&self, pool: usize, bytes: usize) -> bool {
        let pool = &self.pools[pool];
        let long = self.files && !pool.fastcgi && bytes as u64 > IN_MEMORY_BYTES;
        pool.servers > 0 && bytes > 0 && (pool.unbuffered || long)
    }

    fn configuration(&self, sockets: &Path) -> String {
        let of = |key: &str| format!("{key} = \"{}\"\n", sockets.display());
        let (spool, root) =
            if self.files { (of("spool"), of("root")) } else { (String::new(), String::new()) };
        let mut text = format!(
            "[server]\nthreads = {}\n{spool}[[listen]]\naddress = \"127.0.0.1:8080\"\n[log]\naccess = \"off\"\n\
             [limits]\nconnections_per_thread_max = {}\nbody_inline_bytes_max = \"8KiB\"\n\
             body_memory_bytes_max = {}\nhead_timeout = \"20s\"\nbody_timeout = \"20s\"\n\
             keep_alive_timeout = \"20s\"\nwrite_timeout = \"20s\"\nlinger_timeout = \"20s\"\n\
             connections_per_address_max = 1000\n\
             [[site]]\n{root}[[site.route]]\npath = \"/fixed/*\"\nrespond = {{ status = 200, body = \"fixed\" }}\n",
            self.threads,
            self.connections_max,
            if self.files { IN_MEMORY_BYTES } else { 1 << 20 }
        );
        for at in 0..self.pools.len() {
            text += &format!("[[site.route]]\npath = \"/p{at}/*\"\npool = \"p{at}\"\n");
            text += if self.pools[at].unbuffered { "request_buffering = \"off\"\n" } else { "" };
            if self.pools[at].keeps {
                // Without helpers nothing can be written.
                let disk = if self.files { "16KiB" } else { "0" };
                text += &format!("response_buffering = {{ memory = \"4KiB\", disk = \"{disk}\" }}\n");
            }
        }
        for (at, pool) in self.pools.iter().enumerate() {
            let PoolKind { slots, queue, transport, sticky, servers, fastcgi, bounded, .. } = pool;
            if *servers > 0 {
                let scheme = if *fastcgi { "fastcgi+unix" } else { "http+unix" };
                let url = |place| format!("\"{scheme}:{}\"", socket_path(sockets, at, place).display());
                let name = |place| match bounded {
                    true => format!("{{ url = {}, max_connections = 2 }}", url(place)),
                    false => url(place),
                };
                let names: Vec<String> = (0..usize::from(*servers)).map(name).collect();
                let seconds = REQUEST_TIMEOUT.as_secs();
                text += &format!(
                    "[pool.p{at}]\nconnect = [{}]\nrequest_timeout = \"{seconds}s\"\n",
                    names.join(", ")
                );
                if *bounded {
                    let seconds = QUEUE_TIMEOUT.as_secs();
                    text += &format!("queue = {{ max = {queue}, timeout = \"{seconds}s\" }}\n");
                }
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

/// Shared state and configuration of a world; see the top of the file.
pub(super) struct Stage {
    pub(super) kind: Kind,
    /// Of each worker process that there may be in a world, one after the other.
    pub(super) shared: [&'static Shared; GENERATIONS],
    /// Where servers have their sockets, and files are.
    pub(super) sockets: tempfile::TempDir,
    /// What is in them.
    pub(super) files: Vec<Arc<[u8]>>,
}

impl Stage {
    /// The stage of this kind.
    pub(super) fn new(number: u64) -> Stage {
        let kind = Kind::of(number);
        let sockets = tempfile::tempdir().unwrap();
        let files = if kind.files { super::files::make(sockets.path()) } else { Vec::new() };
        // Without helper threads, which would act at times that the world does not control.
        let text = kind.configuration(sockets.path());
        let new = || {
            shared_with(&text, kind.threads, |shared| {
                if kind.files {
                    shared.disk = DiskPool::by_hand();
                    shared.passed.fill_with(Helpers::by_hand);
                }
            })
        };
        let first = new();
        let shared = [first, if kind.reloads { new() } else { first }];
        shared.iter().for_each(|shared| shared.accepting.store(0, Relaxed));
        // Whichever world of this stage is the first.
        let tables =
            shared.iter().flat_map(|shared| shared.pools.iter().filter_map(|pool| pool.servers.as_ref()));
        tables.for_each(|servers| _ = servers.moment(time::origin()));
        Stage { kind, shared, sockets, files }
    }

    /// Where a server of a pool listens.
    pub(super) fn server_path(&self, pool: usize, place: usize) -> PathBuf {
        socket_path(self.sockets.path(), pool, place)
    }

    /// The threads of a worker process of one world.
    pub(super) fn reactors(&self, generation: usize) -> Vec<Reactor> {
        let shared = self.shared[generation];
        shared.draining.store(false, Relaxed);
        shared.accepting.store(self.kind.threads as u32, Relaxed);
        (0..self.kind.threads).map(|number| reactor_at(shared, number, time::SIMULATED)).collect()
    }

    /// What is left of a world in the shared state, which should be nothing.
    pub(super) fn leftovers(&self) -> Vec<String> {
        self.shared.iter().flat_map(|shared| self.leftovers_of(shared)).collect()
    }

    fn leftovers_of(&self, shared: &Shared) -> Vec<String> {
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
        note("predecessors".into(), shared.predecessors.load(Relaxed).into());
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
        }
        for (at, pool) in shared.pools.iter().enumerate() {
            note(format!("queue of pool {at}"), shared.queued(at));
            pool.waiting
                .iter()
                .for_each(|cell| note(format!("waiting for pool {at}"), cell.load(Relaxed).into()));
            let loads = pool.servers.iter().flat_map(|servers| servers.loads());
            loads.for_each(|load| note(format!("requests at a server of pool {at}"), load.into()));
            // What one world has found out about a server is not known in the next one.
            pool.servers.iter().for_each(|servers| servers.forget());
            // A thread that ends does so with its processes.
            pool.room.iter().chain(&pool.live).chain(&pool.slots).for_each(|cell| cell.store(0, Relaxed));
        }
        left
    }
}
