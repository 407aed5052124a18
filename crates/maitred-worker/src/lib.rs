//! The worker process: one event loop per thread, and one more thread that talks to the master.
//!
//! | file | what |
//! |---|---|
//! | `lib` | start: descriptors, shared state, threads |
//! | [`control`] | the control socket to the master |
//! | [`reactor`] | one turn of one thread |
//! | [`layers`] | what a thread consists of, from below: **start reading here** |
//! | [`admission`] | new connections; which connections are closed for others |
//! | [`requests`] | from received bytes to what answers them |
//! | [`exchanges`] | responses under way, from files, processes and servers |
//! | [`processes`] | channels to application processes |
//! | [`clients`] | the table of connections, and what carries their bytes |
//! | [`base`] | what every part of a thread uses |
//! | [`agenda`] | what one part of a thread leaves to a part above it |
//! | [`entry`] | a connection with its socket, and its places in tables |
//! | [`connection`] | what a connection consists of, and what it does about an event |
//! | [`upstream`] | the state of a request at an upstream |
//! | [`step`] | what follows a look at a request |
//! | [`access_logs`] | the writers of access logs |
//! | [`log_line`] | the line of a request in the access log |
//! | [`facts`] | what is true of a request, made once for all who decide by it |
//! | [`forward`], [`frame`] | which parts of a request are sent to an application or a server |
//! | [`origin`] | the client of a request, and the fields about it |
//! | [`addresses`] | how many connections each address has |
//! | [`affinity_watcher`] | samples threads and CPUs, decides and applies, once a second |
//! | [`limits`] | limits by client |
//! | [`kernel_writer`] | how TLS writes to a socket for which the kernel encrypts |
//! | [`socket_writer`] | how TLS writes to a socket |
//! | [`foreign`] | Unix sockets whose other end may pass descriptors |
//! | [`unproved`] | clients of QUIC whose address is not known yet |
//! | [`datagram_link`] | datagrams that go on to an earlier worker process |
//! | [`drain`] | the state of a draining thread; connections that are passed to another worker process |
//! | [`orphan_mode`] | the time without a master, while its executable is replaced |
//! | [`sandbox`] | what the process may reach in the filesystem |
//! | [`fd_budget`] | how many connections and files the limit on descriptors allows |
//! | [`cache_store`] | the store of responses, as it is opened |
//! | [`cache_commands`] | what helper threads do for commands about it |
//! | [`kept`] | how responses are named and described in it |
//! | [`fills`] | responses that are fetched for it |
//! | [`auth_answers`] | answers of `forward_auth` that are kept |
//! | [`modules`] | what modules see of a thread, and what they say to it |
//! | [`keys`] | handles of what a thread has in tables |
//! | [`key_rings`] | the keys that tokens are checked by |
//! | [`user_lists`] | users of files |
//! | [`verifier`] | helper threads that check passwords |
//! | [`watchdog`] | turns of an event loop that take too long |
//! | [`token`], [`timers`], [`inbox`], [`clock`], [`scratch`], [`shared`] | what they need |
//! | `worlds` | their test: simulated worlds |
//! | [`handoff`] | requests to application processes, by descriptor |
//! | [`proxy`] | HTTP servers that requests are passed on to: which of them |

mod access_logs;
mod addresses;
mod admission;
mod affinity_watcher;
mod agenda;
mod auth_answers;
mod base;
mod cache_commands;
mod cache_store;
mod clients;
mod clock;
pub(crate) mod connection;
mod control;
mod datagram_link;
pub(crate) mod drain;
mod entry;
mod exchanges;
mod facts;
mod fd_budget;
mod fills;
mod foreign;
mod forward;
mod frame;
pub(crate) mod handoff;
pub(crate) mod inbox;
mod kept;
mod kernel_writer;
mod key_rings;
mod keys;
mod layers;
pub(crate) mod limits;
mod log_line;
mod modules;
mod origin;
mod orphan_mode;
mod processes;
pub mod proxy;
mod reactor;
mod requests;
pub mod sandbox;
mod scratch;
pub(crate) mod shared;
mod socket_writer;
mod step;
#[cfg(test)]
mod testing;
pub(crate) mod timers;
mod token;
mod unproved;
mod upstream;
mod user_lists;
mod verifier;
mod watchdog;
#[cfg(test)]
mod worlds;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, RwLock};

use maitred_sys::module::calls;
use maitred_sys::module::host::Module;
use maitred_sys::signals::Signals;
use maitred_sys::{inherit, memfile};
use quinn_udp::{UdpSockRef, UdpSocketState};
use rustix::process::Pid;

use self::addresses::Addresses;
use self::admission::listener::Listener;
use self::auth_answers::AuthAnswers;
use self::clock::Environment;
use self::control::Told;
use self::fd_budget::Share;
use self::fills::Fills;
use self::inbox::Inbox;
use self::key_rings::KeyRings;
use self::limits::Limit;
use self::reactor::Reactor;
use self::shared::{HandedOff, Local, NO_LISTEN, PoolShared, Shared};
use self::unproved::Unproved;
use self::user_lists::UserLists;
use self::verifier::Verifier;
use crate::access_logs::AccessLogs;
use crate::proxy::{Listed, Policy, ServerTable};
use maitred_base::budget::Budget;
use maitred_base::passed::{Helpers, closer};
use maitred_base::sandbox::seccomp;
use maitred_config::{Address, Authentication, Config, Limits, Pool, Site};
use maitred_control::challenges::Challenges;
use maitred_control::modules::{Confined, Modules, Rights};
use maitred_control::servers::{ServerEntry, ServerList};
use maitred_control::{CONTROL_FD, Descriptor, FIRST_LISTED_FD, SCOREBOARD_FD, START_FD, Start};
use maitred_files::disk::{DISK_THREADS_DEFAULT, DiskPool};
use maitred_files::files::{FileServer, FileSet, GivenUp};
use maitred_log::thread_logs::ThreadLogs;
use maitred_log::trace::Exporter;
use maitred_policy::route::{Router, Sees, SetPlan};
use maitred_status::Status;
use maitred_status::facts::Facts;
use maitred_status::history::Past;
use maitred_status::routes::RouteTable;
use maitred_status::scoreboard::Scoreboard;
use maitred_status::slowest::Slowest;
use maitred_status::under_way::Found;
use maitred_tls::material::Material;
use maitred_tls::quic::endpoint;
use maitred_tls::quic::ids::Place;
use maitred_tls::{TlsServer, redirect};

/// Largest start document; a configuration of this size would have tens of thousands of routes.
const START_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What a worker process inherits, sorted out.
struct Inherited {
    control: OwnedFd,
    start: Start,
    memory: MemoryFiles,
    buckets: Vec<Bucket>,
    datagrams: Vec<DatagramSocket>,
    admin: Option<OwnedFd>,
    access_logs: Vec<(Option<usize>, OwnedFd)>,
    key_logs: Vec<(usize, OwnedFd)>,
}

/// Memory files that the master has, too.
struct MemoryFiles {
    board: OwnedFd,
    /// Tables of limits by client, by index.
    tables: Vec<(usize, OwnedFd)>,
    /// The index of the cache.
    cache: Option<OwnedFd>,
    /// What is known of the last minutes.
    history: Option<OwnedFd>,
}

struct Bucket {
    socket: OwnedFd,
    listen: usize,
    number: u16,
    of: u16,
    local: Address,
}

/// A UDP socket for QUIC; see [`Descriptor::Datagrams`].
#[derive(Debug)]
struct DatagramSocket {
    fd: OwnedFd,
    listen: usize,
    number: u16,
    local: SocketAddr,
}

/// The whole life of a worker process. The descriptors are described in [`maitred_control`].
pub fn run() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the worker process cannot run: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), String> {
    // Of a program that was started by way of /proc/self/exe, ps(1) would show `exe`. If that fails, only the name is wrong.
    let _ = rustix::thread::set_name(c"maitred-worker");
    // A signal to all processes of the service is for the master, whose message (or end) ends this process.
    let _signals = Signals::block().map_err(|error| format!("blocking signals: {error}"))?;
    let mut inherited = inherit_all()?;
    maitred_log::error::init("worker", &inherited.start.config.log.level)?;
    log_panics();
    if let Some(account) = inherited.start.account.take() {
        account.assume().map_err(|error| format!("changing to its account: {error}"))?;
    }
    // As its account, and before its own files are all that it can open: modules open theirs when they begin.
    let modules =
        load_modules(&inherited).inspect_err(|why| control::say_cannot_run(&inherited.control, why))?;
    let Inherited { control, start, memory, buckets, datagrams, admin, access_logs, key_logs } = inherited;
    // `main` has made this process non-dumpable. The master prepares the keys while the rest of the start goes on.
    control::say_private(&control).map_err(|error| format!("control: {error}"))?;
    confine(&start, modules.is_empty());
    let text = |what: &str, error: std::io::Error| format!("{what}: {error}");

    let writers = AccessLogs::open(&start, access_logs).map_err(|error| text("access log", error))?;
    let thread_logs: Vec<ThreadLogs> = start.threads.iter().map(|_| writers.thread_logs()).collect();
    let (tls, early) = tls_server(&start, &control, key_logs)?;
    let inherited = Inheritance { memory, buckets: &buckets, datagrams: &datagrams, modules };
    let shared = share(start, inherited, tls).map_err(|error| text("shared state", error))?;
    if !shared.modules.is_empty() {
        modules::offer::begin(shared).map_err(|error| text("helper threads of modules", error))?;
        let note = |module| note_module(&shared.board, module);
        shared.modules.start(note).inspect_err(|why| control::say_cannot_run(&control, why))?;
    }
    cache_store::begin(shared, Environment::SYSTEM.read().steady_secs());
    let mut plans = listener_plans(shared, buckets, admin).map_err(|error| text("listeners", error))?;

    let mut sockets = datagram_plans(shared, datagrams);
    let (ready, readiness) = std::sync::mpsc::channel();
    let mut handles = Vec::new();
    for (number, logs) in thread_logs.into_iter().enumerate() {
        let listeners = plans.remove(&number).unwrap_or_default();
        let sockets = sockets.remove(&number).unwrap_or_default();
        let ready = ready.clone();
        let thread = std::thread::Builder::new().name(format!("loop-{number}"));
        let body = move || run_thread(shared, number, (listeners, sockets), logs, &ready);
        handles.push(thread.spawn(body).map_err(|error| text("thread", error))?);
    }
    drop(ready);
    let tids = (0..handles.len())
        .map(|_| readiness.recv().map_err(|_| "a thread did not start".to_owned())?)
        .collect::<Result<Vec<_>, String>>()?;
    control::run(shared, &control, tids, (early, writers.log_files()))
        .map_err(|error| text("control", error))?;
    handles.into_iter().for_each(|handle| drop(handle.join()));
    writers.stop();
    if let Some(spans) = &shared.spans {
        spans.stop();
    }
    Ok(())
}

/// Confines this process. Before any other thread is started, because the rules bind the thread and those that it starts. With
/// modules, the list of system calls is in force already.
fn confine(start: &Start, with_seccomp: bool) {
    match sandbox::confine(&start.config, &start.servers) {
        Ok(status) => tracing::debug!("Landlock is {status}"),
        Err(error) => tracing::warn!(%error, "the worker process is not confined by Landlock"),
    }
    if with_seccomp
        && start.config.server.seccomp
        && let Err(error) = seccomp::confine(seccomp::Process::Worker)
    {
        tracing::warn!(%error, "the worker process runs without seccomp: it may make all system calls");
    }
}

/// Loads the modules. If the process crashes in one, from now on, the scoreboard says in which.
fn load_modules(inherited: &Inherited) -> Result<Modules, String> {
    let start = &inherited.start;
    if start.config.modules().is_empty() {
        return Ok(Modules::default());
    }
    let failed = |error: std::io::Error| format!("scoreboard: {error}");
    let board = inherited
        .memory
        .board
        .try_clone()
        .and_then(memfile::SharedMap::<Scoreboard>::open)
        .map_err(failed)?;
    let board: &'static memfile::SharedMap<Scoreboard> = Box::leak(Box::new(board));
    calls::track(Box::leak(Box::default()));
    calls::report_crashes(board.worker.crashed_in.atomic()).map_err(|error| format!("signals: {error}"))?;
    let rights = Rights::own(&start.config, &start.servers, start.master_uid);
    let (confined, missing) = Confined::enter(rights).map_err(|error| format!("its rights: {error}"))?;
    for what in missing {
        tracing::warn!("modules are loaded without a part of the sandbox: {what}");
    }
    Modules::load(&confined, &start.config, &start.modules_off, |module| note_module(board, module))
}

/// Should the process end now, it is because of this module, whether that crashes, calls exit(3), or cannot begin.
fn note_module(board: &Scoreboard, module: Option<u16>) {
    board.worker.crashed_in.set(module.map_or(0, |number| u64::from(number) + 1));
}

fn inherit_all() -> Result<Inherited, String> {
    let take = |number| inherit::take(number).map_err(|error| format!("descriptor {number}: {error}"));
    let (control, document, board) = (take(CONTROL_FD)?, take(START_FD)?, take(SCOREBOARD_FD)?);
    let document =
        memfile::read(document, START_BYTES_MAX).map_err(|error| format!("start document: {error}"))?;
    let start: Start =
        serde_json::from_slice(&document).map_err(|error| format!("start document: {error}"))?;
    let (mut buckets, mut admin, mut access_logs) = (Vec::new(), None, Vec::new());
    let (mut key_logs, mut tables, mut cache, mut history) = (Vec::new(), Vec::new(), None, None);
    let mut datagrams = Vec::new();
    for (number, descriptor) in (FIRST_LISTED_FD..).zip(&start.descriptors) {
        let socket = take(number)?;
        match *descriptor {
            Descriptor::Bucket { listen, bucket, buckets: of, ref local } => {
                let local = local.clone();
                buckets.push(Bucket { socket, listen, number: bucket, of, local });
            }
            Descriptor::Datagrams { listen, socket: number, local, .. } => {
                datagrams.push(DatagramSocket { fd: socket, listen, number, local });
            }
            Descriptor::Admin => admin = Some(socket),
            Descriptor::AccessLog { number } => access_logs.push((number, socket)),
            Descriptor::Limit { limit } => tables.push((limit, socket)),
            Descriptor::Cache => cache = Some(socket),
            Descriptor::History => history = Some(socket),
            Descriptor::KeyLog { listen } => key_logs.push((listen, socket)),
        }
    }
    let memory = MemoryFiles { board, tables, cache, history };
    Ok(Inherited { control, start, memory, buckets, datagrams, admin, access_logs, key_logs })
}

/// What sessions of TLS are made with: keys that the master has read, for which this waits, and where session secrets are
/// written; and other messages that have come meanwhile.
fn tls_server(
    start: &Start,
    control: &OwnedFd,
    key_logs: Vec<(usize, OwnedFd)>,
) -> Result<(TlsServer, Vec<Told>), String> {
    if !start.config.has_tls() {
        return Ok((TlsServer::none(), Vec::new()));
    }
    let failed = |error: &dyn std::fmt::Display| format!("keys of TLS: {error}");
    let (file, early) = control::wait_for_keys(control).map_err(|error| failed(&error))?;
    let material = Material::open(file).map_err(|error| failed(&error))?;
    let made = TlsServer::new(&start.config, &material, key_logs).map_err(|error| failed(&error))?;
    Ok((made, early))
}

/// The slots of a pool with `sticky`, whose processes have to be known one by one.
fn sticky_slots(pool: &Pool) -> usize {
    if pool.sticky.is_some() { usize::from(pool.workers.slots()) } else { 0 }
}

/// Helper threads of a worker process.
#[derive(Debug)]
struct HelperThreads {
    disk: DiskPool,
    verifier: Verifier,
    /// Per pool: those for what its processes pass.
    passed: Vec<Helpers>,
}

/// The thread that sends spans, if any are sent.
fn exporter(config: &Config) -> std::io::Result<Option<Exporter>> {
    let Some(trace) = &config.trace else { return Ok(None) };
    trace.otlp.as_ref().map(|otlp| Exporter::start(otlp, &trace.service)).transpose()
}

/// Whether there is a site, or a route, with `basic_auth`.
fn checks_passwords(config: &Config) -> bool {
    let of_site = |site: &Site| {
        let mut all = site.routes.iter().map(|route| &route.access).chain([&site.access]);
        all.any(|access| matches!(access.basic, Authentication::On(_)))
    };
    config.sites.iter().any(of_site)
}

/// What all threads share. The value is used until the process ends, so it is never freed.
fn share(start: Start, inherited: Inheritance<'_>, tls: TlsServer) -> std::io::Result<&'static Shared> {
    if foreign::is_wanted(&start.config) {
        // Later, no thread can be started if the limit on threads is reached.
        closer();
    }
    let passed = start.config.pools.iter().map(helpers).collect();
    let verifier = Verifier::new(checks_passwords(&start.config));
    let helpers = HelperThreads { disk: DiskPool::new(DISK_THREADS_DEFAULT), verifier, passed };
    Ok(Box::leak(Box::new(shared_state(start, inherited, tls, helpers)?)))
}

/// What the threads share of what a worker process inherits.
struct Inheritance<'a> {
    memory: MemoryFiles,
    buckets: &'a [Bucket],
    datagrams: &'a [DatagramSocket],
    modules: Modules,
}

/// Of the listening sockets, to read how long their queues are.
fn duplicates(buckets: &[Bucket]) -> std::io::Result<Vec<(usize, u16, OwnedFd)>> {
    buckets.iter().map(|bucket| Ok((bucket.listen, bucket.number, bucket.socket.try_clone()?))).collect()
}

/// The routes, whose responses over TLS name HTTP/3 if there is any.
fn router(config: &Config, datagrams: &[DatagramSocket], modules: &Modules) -> (Router, Vec<SetPlan>) {
    let (mut router, plans) = Router::new(config);
    attach_modules(&mut router, config, modules);
    // What is of no site names no port that may be another site's alone.
    let everywhere = config.sites.iter().all(|site| site.listens.is_none());
    router.offer_alternative(|site| {
        let site = site.and_then(|site| config.sites.get(site));
        (site.is_some() || everywhere).then_some(())?;
        alternative(datagrams.iter().filter(|socket| site.is_none_or(|site| site.answers_at(socket.listen))))
    });
    (router, plans)
}

/// Plans get their modules.
fn attach_modules(router: &mut Router, config: &Config, modules: &Modules) {
    // A module that is turned off has to be asked for its 503.
    let off = Sees { requests: true, bodies: false, responses: false, waits: false };
    router.attach_modules(config, |number| modules.get(number).map_or(off, sees));
}

fn sees(module: &Module) -> Sees {
    Sees {
        requests: module.sees_requests(),
        bodies: module.reads_body(),
        responses: module.sees_responses(),
        waits: module.may_answer_later(),
    }
}

/// What responses over TLS say of HTTP/3: the ports that it has, for a day (RFC 7838 section 3.1).
fn alternative<'s>(sockets: impl Iterator<Item = &'s DatagramSocket>) -> Option<String> {
    let mut ports: Vec<u16> = sockets.map(|socket| socket.local.port()).collect();
    ports.dedup();
    let offers: Vec<String> = ports.iter().map(|port| format!("h3=\":{port}\"; ma=86400")).collect();
    (!offers.is_empty()).then(|| offers.join(", "))
}

/// Where there are datagram sockets.
fn addresses_of(sockets: &[DatagramSocket]) -> Vec<SocketAddr> {
    let mut all: Vec<SocketAddr> = sockets.iter().map(|socket| socket.local).collect();
    all.dedup();
    all
}

/// The port that clients are sent to for TLS.
fn redirect_port(start: &Start, buckets: &[Bucket]) -> Option<u16> {
    let bound = |listen| buckets.iter().find(|bucket| bucket.listen == listen);
    redirect::port(&start.config.listens, |listen| bound(listen).and_then(|bucket| bucket.local.port()))
}

fn shared_state(
    start: Start,
    Inheritance { memory, buckets, datagrams, modules }: Inheritance<'_>,
    tls: TlsServer,
    helpers: HelperThreads,
) -> std::io::Result<Shared> {
    let threads = start.threads.len().max(1);
    let (router, plans) = router(&start.config, datagrams, &modules);
    let share = Share::of(&start, threads as u64);
    let shared = Shared {
        router,
        file_sets: plans.into_iter().map(file_set).collect(),
        inboxes: (0..threads).map(|_| Inbox::new()).collect::<Result<_, _>>()?,
        loads: std::iter::repeat_with(AtomicU32::default).take(threads).collect(),
        only_tunnels: std::iter::repeat_with(AtomicBool::default).take(threads).collect(),
        pools: start.config.pools.iter().map(|pool| shared_pool(pool, threads, &start.servers)).collect(),
        locals: locals(&start, buckets),
        addresses: Addresses::new(&start.config.limits),
        unproved: Unproved::new(share.connections as usize),
        key_rings: KeyRings::new(&start.config.key_sets),
        user_lists: UserLists::new(&start.config.users_files),
        auth_answers: AuthAnswers::new(&start.config.auth_caches),
        cache: cache_store::open(&start, memory.cache, share.cached_files as u32)?,
        fills: Fills::default(),
        client_limits: Limit::all(&start.config.client_limits, memory.tables)?,
        connections_max: share.connections as usize,
        cached_files_max: share.cached_files as u32,
        descriptors: Budget::new(share.requests.saturating_mul(threads as u64)),
        bodies_in_memory: Budget::new(start.config.limits.bodies_memory_bytes_max),
        bodies_on_disk: Budget::new(start.config.limits.bodies_disk_bytes_max),
        unsent: Budget::new(start.config.limits.unsent_memory_bytes_max),
        unsent_files: Budget::new(start.config.limits.unsent_files_bytes_max),
        delayed: Budget::new(start.config.limits.delayed_requests_max.into()),
        disk: helpers.disk,
        verifier: helpers.verifier,
        passed: helpers.passed,
        board: memfile::SharedMap::open(memory.board)?,
        modules,
        outbox: Inbox::new()?,
        draining: AtomicBool::new(false),
        accepting: AtomicU32::new(u32::try_from(threads).unwrap_or(u32::MAX)),
        alone: AtomicBool::new(false),
        in_transit: AtomicU32::new(0),
        quic_links: RwLock::default(),
        datagram_addresses: addresses_of(datagrams),
        predecessors: AtomicU32::new(0),
        watched: Mutex::new(duplicates(buckets)?),
        status: Status::new(Facts::new(&start), Past::new(memory.history, &start.config)?),
        routes: RouteTable::new(&start.config, threads),
        slowest: (0..threads).map(|_| Slowest::default()).collect(),
        under_way: (0..threads).map(|_| Found::default()).collect(),
        spans: exporter(&start.config)?,
        tls,
        redirect_port: redirect_port(&start, buckets),
        acme: Challenges::new(&start.challenges),
        start,
    };
    note_certificates(&shared);
    Ok(shared)
}

/// The status has them from the beginning.
fn note_certificates(shared: &Shared) {
    shared.status.note_certificates(shared.tls.certificates());
    shared.start.certificate_reports.iter().cloned().for_each(|report| shared.status.note_automatic(report));
}

/// A directory that files are served from, as a site or a route says.
fn file_set(plan: SetPlan) -> FileSet {
    let set = FileSet::open(plan.files).with_error_pages(plan.error_set, plan.error_pages);
    set.with_edits(plan.edits)
        .with_expires(plan.expires)
        .with_compression(plan.compress)
        .withholding_sources(plan.withholds_sources)
}

/// What all threads share of a pool.
fn shared_pool(pool: &Pool, threads: usize, lists: &[ServerList]) -> PoolShared {
    PoolShared {
        room: std::iter::repeat_with(AtomicU32::default).take(threads).collect(),
        live: std::iter::repeat_with(AtomicU32::default).take(threads).collect(),
        waiting: std::iter::repeat_with(AtomicU32::default).take(threads).collect(),
        handed: std::iter::repeat_with(HandedOff::default).take(threads).collect(),
        streams: AtomicBool::new(false),
        checks: pool.health.is_some(),
        servers: servers(pool, lists),
        slots: std::iter::repeat_with(AtomicU32::default).take(sticky_slots(pool)).collect(),
        last_words: Mutex::default(),
    }
}

/// The external servers of a pool: those of the newest list, or of the configuration.
fn servers(pool: &Pool, lists: &[ServerList]) -> Option<ServerTable> {
    let configured = ServerEntry::configured(pool)?;
    let newest = lists.iter().filter(|list| list.pool == pool.name).max_by_key(|list| list.revision);
    let of = &pool.balancing;
    let policy = Policy {
        balance: of.balance,
        slow_start: of.slow_start,
        panic_percent: of.panic_percent,
        outliers: of.outliers.clone(),
        cookie_key: of.sticky.as_ref().map(|sticky| sticky.key),
    };
    let listed = newest.map_or(&configured, |list| &list.servers).iter().map(Listed::of).collect();
    Some(ServerTable::new(listed, newest.map_or(0, |list| list.revision), policy))
}

/// The threads for what processes of a pool pass. A single thread is enough for one process: no other process has to wait for
/// it.
fn helpers(pool: &Pool) -> Helpers {
    match pool.source.servers() {
        Some(_) => Helpers::new(0),
        None => Helpers::new(pool.workers.slots()),
    }
}

/// Where each listen entry is really bound.
fn locals(start: &Start, buckets: &[Bucket]) -> Vec<Local> {
    let of =
        |listen| buckets.iter().find(|bucket| bucket.listen == listen).map(|bucket| bucket.local.clone());
    let local = |address: Option<Address>| Local {
        text: address.as_ref().map(ToString::to_string).unwrap_or_default(),
        address,
    };
    (0..start.config.listens.len()).map(of).map(local).collect()
}

/// Which thread accepts from which sockets: thread *t* serves bucket *t* mod *buckets*; with fewer threads than buckets,
/// a thread serves several.
fn listener_plans(
    shared: &Shared,
    buckets: Vec<Bucket>,
    admin: Option<OwnedFd>,
) -> std::io::Result<BTreeMap<usize, Vec<Listener>>> {
    let threads = shared.inboxes.len();
    let mut plans: BTreeMap<usize, Vec<Listener>> = BTreeMap::new();
    for bucket in buckets {
        let (number, of) = (usize::from(bucket.number), usize::from(bucket.of.max(1)));
        let serving: Vec<usize> = match of <= threads {
            true => (0..threads).filter(|thread| thread % of == number).collect(),
            false => vec![number % threads],
        };
        let deferred =
            shared.start.config.listens.get(bucket.listen).is_some_and(|listen| listen.defer_accept);
        for thread in &serving {
            let peers = serving.iter().filter(|other| *other != thread).map(|other| *other as u16).collect();
            let socket = bucket.socket.try_clone()?;
            let listener = Listener::new(socket, bucket.listen as u16, false, deferred, peers);
            plans.entry(*thread).or_default().push(listener);
        }
    }
    if let Some(admin) = admin {
        plans.entry(0).or_default().push(Listener::new(admin, NO_LISTEN, true, false, Vec::new()));
    }
    Ok(plans)
}

/// Which thread has which datagram sockets: thread *t* those whose number modulo the number of threads is *t*.
fn datagram_plans(shared: &Shared, sockets: Vec<DatagramSocket>) -> BTreeMap<usize, Vec<DatagramSocket>> {
    let mut plans: BTreeMap<usize, Vec<DatagramSocket>> = BTreeMap::new();
    for socket in sockets {
        plans.entry(shared.datagram_thread(socket.number)).or_default().push(socket);
    }
    plans
}

/// The endpoint behind a datagram socket.
fn open_endpoint(
    shared: &Shared,
    socket: DatagramSocket,
) -> Result<clients::datagrams::DatagramSocket, String> {
    let text = |error: std::io::Error| error.to_string();
    let state = UdpSocketState::new(UdpSockRef::from(&socket.fd)).map_err(text)?;
    let (keys, server) =
        shared.tls.quic().zip(shared.tls.over_quic(socket.listen)).ok_or("it has no keys")?;
    let place = Place { socket: socket.number as u8, generation: shared.quic_generation() };
    let endpoint =
        endpoint::endpoint(keys, place, Arc::clone(&server), !state.may_fragment()).map_err(text)?;
    let named = (socket.local, socket.listen as u16, socket.number);
    Ok(clients::datagrams::DatagramSocket::new(socket.fd, state, (endpoint, server), named))
}

/// Runs one event-loop thread, from its first to its last instruction. Sends its thread id once it accepts.
fn run_thread(
    shared: &'static Shared,
    number: usize,
    sockets: (Vec<Listener>, Vec<DatagramSocket>),
    logs: ThreadLogs,
    ready: &std::sync::mpsc::Sender<Result<Pid, String>>,
) {
    let thread = match prepare_thread(shared, number, sockets, logs) {
        Ok(thread) => thread,
        Err(why) => return drop(ready.send(Err(why))),
    };
    let _ = ready.send(Ok(rustix::thread::gettid()));
    // After a panic outside of any connection, the state of the thread is not known. When this process ends, another one is
    // started.
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| thread.run())).is_err() {
        std::process::abort();
    }
}

fn prepare_thread(
    shared: &'static Shared,
    number: usize,
    (listeners, sockets): (Vec<Listener>, Vec<DatagramSocket>),
    logs: ThreadLogs,
) -> Result<Reactor, String> {
    let row = shared.board.threads.get(number).ok_or("more threads than the scoreboard has rows")?;
    if let Some(Some(cpu)) = shared.start.threads.get(number) {
        match crate::affinity_watcher::allow(None, &[*cpu]) {
            Ok(()) => row.cpu_plus_1.set(u64::from(*cpu) + 1),
            Err(error) => tracing::warn!(thread = number, cpu, %error, "cannot pin a thread"),
        }
    }
    let config = &shared.start.config;
    let limits = Limits { file_cache_files_max: shared.cached_files_max, ..config.limits.clone() };
    let given_up =
        GivenUp { unsent: Arc::clone(&shared.unsent), descriptors: Arc::clone(&shared.descriptors) };
    let files = FileServer::new(&limits, shared.file_sets.clone(), given_up);
    if let Some(row) = shared.board.calls.get(number).filter(|_| !shared.modules.is_empty()) {
        calls::track(row.module.atomic());
    }
    let mut thread = Reactor::new(shared, number, row, files, logs, Environment::SYSTEM)
        .map_err(|error| error.to_string())?;
    for listener in listeners {
        thread.listen(listener).map_err(|error| format!("cannot watch a listener: {error}"))?;
    }
    for socket in sockets {
        let local = socket.local;
        let opened = open_endpoint(shared, socket).and_then(|opened| thread.add_datagrams(opened));
        opened.map_err(|error| format!("HTTP/3 at {local}: {error}"))?;
    }
    Ok(thread)
}

/// A panic is a bug; its message belongs into the log, on one line.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let text = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(place, "panic: {text}");
    }));
}

#[cfg(test)]
mod tests;
