//! What all threads of a worker process share. Made once at the start, and never changed but for its counters.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::AcqRel, Ordering::Acquire};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use maitred_sys::memfile::SharedMap;
use maitred_sys::tcp::accept_queue;
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketAddrUnix};
use rustix::time::{ClockId, clock_gettime};

use super::addresses::Addresses;
use super::auth_answers::AuthAnswers;
use super::fills::{Fill, Fills, Waiter};
use super::inbox::{ConnectionTransfer, Inbox, Message};
use super::key_rings::KeyRings;
use super::limits::Limit;
use super::unproved::Unproved;
use super::user_lists::UserLists;
use super::verifier::Verifier;
use crate::keys::ConnId;
use crate::proxy::{Condition, ServerTable};
use maitred_base::budget::{Budget, Permit};
use maitred_base::passed::{Helpers, Lane};
use maitred_cache::{Outcome, Store, Trouble};
use maitred_config::Address;
use maitred_control::challenges::Challenges;
use maitred_control::modules::Modules;
use maitred_control::{Command, FromWorker, SlotId, Start, slot_row};
use maitred_files::DiskJob;
use maitred_files::disk::DiskPool;
use maitred_files::files::FileSet;
use maitred_log::trace::Exporter;
use maitred_policy::route::Router;
use maitred_status::Status;
use maitred_status::cache::CacheFacts;
use maitred_status::facts::{BodiesFacts, BudgetFacts, Queue, Queues, SERVERS_SHOWN_MAX, ServerFacts};
use maitred_status::histogram::{Histogram, HistogramFacts};
use maitred_status::latency::{Timing, TimingFacts};
use maitred_status::rates::PoolSample;
use maitred_status::routes::RouteTable;
use maitred_status::scoreboard::{Cell, Scoreboard};
use maitred_status::slowest::Slowest;
use maitred_status::under_way::Found;
use maitred_tls::TlsServer;

/// In place of the index of a listen entry: the admin listener's, or that of one that the configuration does not have any more.
pub(super) const NO_LISTEN: u16 = u16::MAX;

/// In a thread's load: one of the places is claimed for what it tries to accept at the moment.
const ATTEMPT: u32 = 1 << 31;

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The start document of the master.
    pub start: Start,
    /// Sites and routes.
    pub router: Router,
    /// The settings of new TLS sessions, for each listener.
    pub tls: TlsServer,
    /// The port that listeners with `redirect_http` send clients to; `None` if nothing has TLS.
    pub redirect_port: Option<u16>,
    /// Directories that files are served from.
    pub file_sets: Vec<FileSet>,
    /// The inboxes, one for each thread.
    pub inboxes: Vec<Inbox<Message>>,
    /// Open connections per thread, with those that are on their way there, and those whose place is claimed; and [`ATTEMPT`].
    pub loads: Vec<AtomicU32>,
    /// Per thread, while the process ends: whether it has nothing but tunnels.
    pub only_tunnels: Vec<AtomicBool>,
    /// Per pool, what threads publish about it.
    pub pools: Vec<PoolShared>,
    /// Connections that one thread may hold: the configured bound, or what the limit on open files leaves.
    pub connections_max: usize,
    /// How many connections each address has.
    pub addresses: Addresses,
    /// Clients of QUIC that have not proved theirs.
    pub unproved: Unproved,
    /// Limits by client, in the order of the configuration.
    pub client_limits: Vec<Limit>,
    /// The keys that tokens are checked by.
    pub(super) key_rings: KeyRings,
    /// Users of files.
    pub(super) user_lists: UserLists,
    /// Answers of `forward_auth` that are kept.
    pub(super) auth_answers: AuthAnswers,
    /// Responses that are kept; `None` if no route keeps any.
    pub cache: Option<Store>,
    /// Responses that are being fetched for the cache.
    pub(super) fills: Fills,
    /// Files that one thread may keep open in its cache, likewise.
    pub cached_files_max: u32,
    /// The budget of descriptors of requests, besides their clients' sockets: relays, connections to servers and to other
    /// threads, files of bodies.
    pub descriptors: Arc<Budget>,
    /// The budget of request bodies in memory files.
    pub bodies_in_memory: Arc<Budget>,
    /// The budget of those in files on a disk.
    pub bodies_on_disk: Arc<Budget>,
    /// The budget of memory for what clients have not taken.
    pub unsent: Arc<Budget>,
    /// The budget of files without a name that processes have passed for such clients.
    pub unsent_files: Arc<Budget>,
    /// The budget of requests that `delay` holds.
    pub delayed: Arc<Budget>,
    /// Helper threads for the disk.
    pub disk: DiskPool,
    /// Helper threads for passwords.
    pub(super) verifier: Verifier,
    /// Per pool: those for what its processes pass.
    pub passed: Vec<Helpers>,
    /// The scoreboard.
    pub board: SharedMap<Scoreboard>,
    /// In-process modules.
    pub modules: Modules,
    /// What each route has answered.
    pub routes: RouteTable,
    /// Per thread: the slowest requests of the last minutes.
    pub slowest: Vec<Slowest>,
    /// Per thread: requests under way, when that was looked at last.
    pub under_way: Vec<Found>,
    /// To the thread that talks to the master.
    pub outbox: Inbox<Outgoing>,
    /// Set once, when the process begins to drain.
    pub draining: AtomicBool,
    /// Links to earlier worker processes that still have QUIC connections, by their generation as connection ids have it.
    pub quic_links: RwLock<Vec<(u8, Arc<OwnedFd>)>>,
    /// Where this process has datagram sockets.
    pub datagram_addresses: Vec<SocketAddr>,
    /// Threads that have not begun to drain, and may accept a connection yet.
    pub accepting: AtomicU32,
    /// Set once, when the master's executable is replaced: no application processes are started any more.
    pub alone: AtomicBool,
    /// Connections on their way from one thread to another.
    pub in_transit: AtomicU32,
    /// Worker processes before this one that may still send connections here.
    pub predecessors: AtomicU32,
    /// Where each listen entry is really bound.
    pub locals: Vec<Local>,
    /// Duplicates of the listening sockets, to read how long their queues are: listen entry, bucket, socket. Emptied when the
    /// process begins to drain, because any descriptor left would keep the address open.
    pub watched: Mutex<Vec<(usize, u16, OwnedFd)>>,
    /// The status page and the metrics.
    pub status: Status,
    /// What spans of requests are given to; `None`: nothing is reported.
    pub spans: Option<Exporter>,
    /// The answers to challenges of a certificate authority, for automatic certificates.
    pub acme: Challenges,
}

/// Where a listen entry is bound.
#[derive(Debug)]
pub(crate) struct Local {
    /// The address; `None` if none of its sockets came along.
    pub address: Option<Address>,
    /// The same as text, for applications.
    pub text: String,
}

/// What threads publish about a pool.
#[derive(Debug)]
pub(crate) struct PoolShared {
    /// Per thread: how many more requests its application processes can take at once. A hint: it may be stale by one turn, and a
    /// request that is sent there and finds no room waits there.
    pub room: Vec<AtomicU32>,
    /// Per thread: application processes that have sent HELLO.
    pub live: Vec<AtomicU32>,
    /// Per thread: requests that wait there.
    pub waiting: Vec<AtomicU32>,
    /// The servers of the pool are asked whether they are well, without a request of a client.
    pub checks: bool,
    /// The external servers; `None` for a pool of processes.
    pub servers: Option<ServerTable>,
    /// With `sticky`, per slot: requests that its process works on at a time; 0 for one that takes none. Written by its home.
    pub slots: Vec<AtomicU32>,
    /// Per thread: what it has handed to application processes; each written by its thread.
    pub handed: Vec<HandedOff>,
    /// A process of it has said that it takes bodies while they come. Another one may not: then its thread reads the body first.
    pub streams: AtomicBool,
    /// What a process has said last that was never ready; empty unless there is a person at this machine to read it.
    pub last_words: Mutex<String>,
}

/// Requests that one thread has handed to the application processes of one pool.
#[derive(Debug, Default)]
pub(crate) struct HandedOff {
    /// How many.
    pub requests: Cell,
    /// Microseconds that these waited for a process, in all.
    pub wait_us: Cell,
    /// How long they took after that, to the end of the response.
    pub took: Histogram,
    /// How long requests took as a whole that this pool has answered.
    pub timing: Timing,
}

impl PoolShared {
    /// The servers of the pool with this number, each address once.
    fn servers_of((number, pool): (usize, &PoolShared)) -> Vec<ServerFacts> {
        let Some(table) = &pool.servers else { return Vec::new() };
        let (list, moment) = (table.list(), table.moment(Instant::now()));
        let mut found: Vec<ServerFacts> = Vec::new();
        for (_, row) in list.rows() {
            let (server, address) = (&row.server, row.server.upstream.address());
            let condition = server.condition(moment);
            let (requests, failures) = (server.requests(), server.failures());
            let under_way = server.under_way().into();
            if let Some(same) = found.iter_mut().find(|other| other.address == address) {
                same.requests += requests;
                same.failures += failures;
                same.under_way += under_way;
                continue;
            }
            found.push(ServerFacts {
                pool: number,
                address,
                name: server.name(),
                state: match condition {
                    _ if row.listed.drains => "draining",
                    // Nothing is known of a server before a request or a check has reached it.
                    Condition::Up if requests == 0 && !pool.checks => "unknown",
                    Condition::Up => "up",
                    Condition::Out => "out",
                    Condition::Unwell => "unwell",
                    Condition::Ejected => "ejected",
                },
                requests,
                failures,
                under_way,
                response_us: Some(server.latency(moment)).filter(|latency| *latency > 0).map(u64::from),
            });
        }
        found
    }

    /// What all threads have handed off.
    pub(crate) fn sample(&self) -> PoolSample {
        let sum = |read: fn(&HandedOff) -> &Cell| {
            self.handed.iter().fold(0_u64, |sum, thread| sum.wrapping_add(read(thread).get()))
        };
        PoolSample { requests: sum(|thread| &thread.requests), wait_us: sum(|thread| &thread.wait_us) }
    }

    /// How long the requests took as a whole.
    pub(crate) fn timing(&self) -> TimingFacts {
        let mut facts = TimingFacts::default();
        self.handed.iter().for_each(|thread| thread.timing.add_to(&mut facts));
        facts
    }

    /// How long the answers took that all threads got.
    pub(crate) fn answers(&self) -> HistogramFacts {
        let mut facts = HistogramFacts::default();
        self.handed.iter().for_each(|thread| thread.took.add_to(&mut facts));
        facts
    }
}

/// A message to the control thread.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// Send a message to the master.
    Tell(FromWorker),
    /// Send a command to the master, and its answer to this connection of this thread.
    Ask {
        /// The command.
        command: Command,
        /// The asking thread.
        thread: usize,
        /// The asking connection.
        connection: ConnId,
        /// The connection may be sent interim answers.
        interim: bool,
        /// The text that the command is about.
        text: Option<Box<str>>,
    },
    /// An event-loop thread has stopped accepting for good.
    Closed,
    /// An event-loop thread has finished draining.
    Drained,
}

impl Shared {
    /// Tells the connections that wait for a fill that it has come further.
    pub(super) fn wake(&self, fill: &Fill) {
        for Waiter { thread, connection } in fill.take_waiting() {
            if let Some(inbox) = self.inboxes.get(thread) {
                inbox.send(Message::Filled { connection });
            }
        }
    }

    /// Has a helper thread do something for the store of responses. False when they have too much to do.
    pub(super) fn run_cache_job(&'static self, job: maitred_cache::Job) -> bool {
        self.disk.submit(self.cache_job(job), Box::new(|_| ())).is_ok()
    }

    /// The same as a job.
    pub(super) fn cache_job(&'static self, job: maitred_cache::Job) -> DiskJob {
        let work = move || match job.run() {
            Outcome::Again(next) => {
                if !self.run_cache_job(next) {
                    tracing::warn!("helpers have too much to do: the cache goes without (cache)");
                }
            }
            Outcome::Trouble(Trouble { what, error, off_for }) => {
                let off_for_ms = off_for.map(|time| time.as_millis() as u64);
                tracing::warn!(what, %error, off_for_ms, "the disk of the cache makes trouble");
            }
            Outcome::Purged { files, failed } => match failed {
                Some(error) => tracing::warn!(files, %error, "some files of the cache could not be purged"),
                None => tracing::info!(files, "responses of the cache were purged"),
            },
            Outcome::Loaded(Err(error)) => tracing::warn!(%error, "a file of the cache cannot be read"),
            Outcome::Done | Outcome::Loaded(Ok(_)) => {}
        };
        DiskJob::task(work)
    }

    /// The scoreboard row of an application slot, if the file has one for it.
    pub(crate) fn slot_row(&self, id: SlotId) -> Option<usize> {
        slot_row(&self.start.config, id)
    }

    /// The external servers of a pool.
    pub(crate) fn servers(&self, pool: u16) -> Option<&ServerTable> {
        self.pools.get(usize::from(pool))?.servers.as_ref()
    }

    /// The queue of the helpers for what an application process passes.
    pub(crate) fn lane(&self, id: SlotId) -> Lane {
        match self.passed.get(usize::from(id.pool)) {
            Some(helpers) => helpers.lane(id.slot),
            None => Helpers::new(0).lane(id.slot),
        }
    }

    /// Claims a descriptor for a request.
    ///
    /// # Errors
    /// `EMFILE` if as many are in use as requests may have together.
    pub(crate) fn descriptor(&self) -> std::io::Result<Permit> {
        Ok(self.descriptors.take(1).ok_or(Errno::MFILE)?)
    }

    /// Connections of a thread, and places that were claimed there.
    pub(crate) fn load(&self, thread: usize) -> u32 {
        self.loads[thread].load(Acquire) & !ATTEMPT
    }

    /// Whether a thread has room, or has it again as soon as it has found out that there is no connection to accept.
    pub(crate) fn has_room(&self, thread: usize) -> bool {
        let load = self.loads[thread].load(Acquire);
        let attempt = load / ATTEMPT;
        ((load & !ATTEMPT).saturating_sub(attempt) as usize) < self.connections_max
    }

    /// The generation of this process, as its connection ids have it.
    pub(crate) fn quic_generation(&self) -> u8 {
        self.start.generation as u8
    }

    /// The thread that has the datagram sockets of this number.
    pub(crate) fn datagram_thread(&self, number: u16) -> usize {
        usize::from(number) % self.inboxes.len()
    }

    /// Claims a place on a thread for one more connection, if there is room for it.
    pub(crate) fn claim(&self, thread: usize) -> bool {
        self.try_add(thread, 1)
    }

    /// Claims a place, whether there is room or not.
    pub(crate) fn force_claim(&self, thread: usize) {
        self.loads[thread].fetch_add(1, AcqRel);
    }

    /// Releases a place on a thread: that of a closed connection, or a claim.
    pub(crate) fn yield_place(&self, thread: usize) {
        self.loads[thread].fetch_sub(1, AcqRel);
    }

    /// Claims a place for a connection that this thread is about to accept, if there is one, and if there is room for it. Once
    /// accepted it is counted by itself, and the claim is left out where room is asked for.
    pub(crate) fn begin_accept(&self, thread: usize) -> bool {
        self.try_add(thread, 1 + ATTEMPT)
    }

    /// The same, whether there is room or not.
    pub(crate) fn force_accept(&self, thread: usize) {
        self.loads[thread].fetch_add(1 + ATTEMPT, AcqRel);
    }

    /// The connection was accepted and is counted, or there was none.
    pub(crate) fn end_accept(&self, thread: usize) {
        self.loads[thread].fetch_sub(1 + ATTEMPT, AcqRel);
    }

    fn try_add(&self, thread: usize, claim: u32) -> bool {
        let max = u32::try_from(self.connections_max).unwrap_or(ATTEMPT).min(ATTEMPT - 2);
        let one_more = |load: u32| (load & !ATTEMPT < max).then_some(load.wrapping_add(claim));
        self.loads[thread].fetch_update(AcqRel, Acquire, one_more).is_ok()
    }

    /// Sends a connection that belongs to no thread yet to one. Unless it is internal, it has a place there.
    pub(crate) fn transfer(&self, thread: usize, transfer: ConnectionTransfer) {
        self.begin_transfer();
        self.send_on(thread, transfer);
    }

    /// Counts a connection as in transit, before the thread that has it removes it.
    pub(crate) fn begin_transfer(&self) {
        self.in_transit.fetch_add(1, AcqRel);
    }

    /// Sends a connection that was counted to a thread.
    pub(crate) fn send_on(&self, thread: usize, transfer: ConnectionTransfer) {
        self.inboxes[thread].send(Message::Adopt(Box::new(transfer)));
    }

    /// The connection has arrived, and its new thread has counted it.
    pub(crate) fn end_transfer(&self) {
        self.in_transit.fetch_sub(1, AcqRel);
    }

    /// Requests that wait for a process of a pool, over all threads; bounded by its `queue.max`.
    pub(crate) fn queued(&self, pool: usize) -> u64 {
        self.board.pools.get(pool).map_or(0, |row| row.queued.get())
    }

    /// Counts one more of them, unless there are `max`. Gives back how many there were.
    pub(crate) fn join_queue(&self, pool: usize, max: u64) -> Option<u64> {
        self.board.pools.get(pool)?.queued.raise(max)
    }

    /// Counts one less.
    pub(crate) fn quit_queue(&self, pool: usize) {
        if let Some(row) = self.board.pools.get(pool) {
            row.queued.lower();
        }
    }

    /// The master reports why a pool has no process, or that it has one again.
    pub(crate) fn set_trouble(&self, pool: u16, why: Option<String>) {
        self.status.note_trouble(usize::from(pool), why.as_deref());
    }

    /// Why a pool has no process, if that is so and it cannot start one.
    pub(crate) fn trouble(&self, pool: usize) -> Option<String> {
        self.status.trouble(pool)
    }

    /// What a process of a pool has said last that was never ready, for a person at this machine.
    pub(crate) fn last_words(&self, pool: usize) -> Option<String> {
        let words = self.pools.get(pool)?.last_words.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(words).filter(|words| !words.is_empty())
    }

    /// Notes that.
    pub(crate) fn set_last_words(&self, pool: u16, words: String) {
        if let Some(pool) = self.pools.get(usize::from(pool)) {
            *pool.last_words.lock().unwrap_or_else(PoisonError::into_inner) = words;
        }
    }

    /// The name of a pool, for messages.
    pub(crate) fn pool_name(&self, pool: u16) -> &str {
        self.start.config.pools.get(usize::from(pool)).map_or("?", |pool| &pool.name)
    }

    /// The status page as JSON.
    pub(crate) fn status_json(&self, unix_secs: u64) -> String {
        self.status.json(&self.board, unix_secs, self.queues())
    }

    /// The metrics in Prometheus' text format.
    pub(crate) fn metrics(&self, unix_secs: u64) -> String {
        self.status.metrics(&self.board, unix_secs, self.queues())
    }

    /// To be called by the control thread once a second.
    pub(crate) fn tick_status(&self, now: Instant) {
        let dropped = self.spans.as_ref().map_or(0, |spans| spans.facts().dropped);
        let samples = self.pools.iter().map(PoolShared::sample).collect();
        self.status.tick((now, uptime_secs()), &self.board, samples, dropped);
        self.publish_latencies();
        self.slowest.iter().for_each(|thread| thread.tick(now));
    }

    /// What has been counted is shown by the next worker process, too.
    pub(crate) fn publish_latencies(&self) {
        let pools = self.pools.iter().map(PoolShared::timing).collect();
        self.status.publish_latencies(uptime_secs(), (self.routes.timings(), pools));
    }

    /// The last minutes, second by second.
    pub(crate) fn history(&self, unix_secs: u64) -> String {
        self.status.history(unix_secs, uptime_secs())
    }

    /// The pools' queues, and the accept queues of the listening sockets, where the kernel reports them.
    fn queues(&self) -> Queues {
        let of = |(listen, bucket, socket): &(usize, u16, OwnedFd)| {
            let queue = accept_queue(socket.as_fd()).ok()?;
            Some(Queue { listen: *listen, bucket: *bucket, length: queue.length, max: queue.max })
        };
        Queues {
            uptime_secs: uptime_secs(),
            accept: self
                .watched
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .iter()
                .filter_map(of)
                .collect(),
            pools: (0..self.pools.len())
                .map(|pool| u32::try_from(self.queued(pool)).unwrap_or(u32::MAX))
                .collect(),
            spans: self.spans.as_ref().map(Exporter::facts),
            cache: self.cache_facts(),
            answers: self.pools.iter().map(PoolShared::answers).collect(),
            timings: self.pools.iter().map(PoolShared::timing).collect(),
            slowest: Slowest::of_all(&self.slowest, Instant::now()),
            under_way: Found::of_all(&self.under_way, Instant::now()),
            servers: self
                .pools
                .iter()
                .enumerate()
                .flat_map(PoolShared::servers_of)
                .take(SERVERS_SHOWN_MAX)
                .collect(),
            routes: self.routes.facts(),
            limits: self.client_limits.iter().map(|limit| limit.facts(Instant::now())).collect(),
            bodies: [("memory", &self.bodies_in_memory), ("disk", &self.bodies_on_disk)]
                .map(|(place, room)| BodiesFacts { place, bytes: room.used(), bytes_max: room.max() }),
            budgets: [
                ("unsent", &self.unsent),
                ("descriptors", &self.descriptors),
                ("unsent_files", &self.unsent_files),
            ]
            .map(|(name, budget)| BudgetFacts { name, used: budget.used(), max: budget.max() }),
        }
    }

    fn cache_facts(&self) -> Option<CacheFacts> {
        let (store, settings) = (self.cache.as_ref()?, self.start.config.cache.as_ref()?);
        Some(CacheFacts {
            counts: store.counts(),
            bytes_max: settings.bytes_max,
            entries_max: settings.entries_max.into(),
            memory_bytes_max: settings.memory_bytes_max,
        })
    }

    /// Closes the last duplicates of the listening sockets.
    pub(crate) fn close_watched(&self) {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The listen entry that a connection has come in by, by its own address; [`NO_LISTEN`] if there is none for that.
    pub(crate) fn listen_of(&self, connection: BorrowedFd<'_>) -> u16 {
        let Ok(bound) = rustix::net::getsockname(connection) else { return NO_LISTEN };
        let Ok(local) = SocketAddr::try_from(bound.clone()) else { return self.unix_listen_of(bound) };
        let found = |is: fn(SocketAddr, SocketAddr) -> bool| {
            self.locals.iter().position(|bound| {
                let bound = bound.address.as_ref().and_then(Address::inet);
                bound.is_some_and(|bound| bound.port() == local.port() && is(bound, local))
            })
        };
        let every = |bound: SocketAddr, local: SocketAddr| {
            bound.ip().is_unspecified() && bound.is_ipv4() == local.is_ipv4()
        };
        let index = found(|bound, local| bound.ip() == local.ip()).or_else(|| found(every));
        index.and_then(|index| u16::try_from(index).ok()).unwrap_or(NO_LISTEN)
    }

    /// An accepted Unix socket is bound to the path of its listener.
    fn unix_listen_of(&self, bound: SocketAddrAny) -> u16 {
        let Ok(bound) = SocketAddrUnix::try_from(bound) else { return NO_LISTEN };
        let Some(path) = bound.path_bytes() else { return NO_LISTEN };
        let is = |local: &Local| {
            let known = local.address.as_ref().and_then(Address::path);
            known.is_some_and(|known| known.as_os_str().as_encoded_bytes() == path)
        };
        let index = self.locals.iter().position(is);
        index.and_then(|index| u16::try_from(index).ok()).unwrap_or(NO_LISTEN)
    }

    /// Where a listen entry is bound, if any of its sockets came along.
    pub(crate) fn bound_at(&self, listen: u16) -> Option<&Address> {
        self.locals.get(usize::from(listen))?.address.as_ref()
    }

    /// The thread that owns the channel of a slot.
    pub(crate) fn home_of(&self, id: SlotId) -> usize {
        (usize::from(id.slot) + usize::from(id.pool)) % self.inboxes.len().max(1)
    }
}

/// The monotonic clock as worker processes share it: `Instant`s mean nothing outside of theirs.
fn uptime_secs() -> u64 {
    u64::try_from(clock_gettime(ClockId::Monotonic).tv_sec).unwrap_or(0)
}

#[cfg(test)]
mod tests;
