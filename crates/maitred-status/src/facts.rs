//! What is known without the scoreboard. Every size and index that rendering uses comes from here.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use maitred_base::bounds::{SLOTS_MAX, THREADS_MAX};
use maitred_config::{Address, Transport};
use maitred_control::{Descriptor, Report, Start};
use maitred_log::recent::Line;
use maitred_log::trace::SpanFacts;
use maitred_tls::server::CertificateFacts;

use super::cache::CacheFacts;
use super::histogram::HistogramFacts;
use super::latency::{PoolWindow, TimingFacts};
use super::losses::Lost;
use super::rates::{PerSecond, Second};
use super::routes::RouteFacts;
use super::slowest::SlowRequest;
use super::under_way::RequestUnderWay;

/// What holds for the life of a worker process; built once, at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Maitred's version.
    pub version: &'static str,
    /// The worker process.
    pub pid: u32,
    /// The master of the worker process.
    pub master_pid: u32,
    /// Number of the worker process, counted from 1.
    pub generation: u64,
    /// Whether `SO_REUSEPORT` was found to work.
    pub reuseport: bool,
    /// Whether the kernel could encrypt TLS, in words; empty without TLS.
    pub ktls: String,
    /// How the CPUs were chosen.
    pub affinity_why: String,
    /// CPUs that threads may be moved to, ascending.
    pub usable_cpus: Vec<u16>,
    /// One per listening address.
    pub listens: Vec<ListenFacts>,
    /// One per event-loop thread, at most [`THREADS_MAX`]: its home CPU.
    pub threads: Vec<Option<u16>>,
    /// One per pool; their slots together are at most [`SLOTS_MAX`].
    pub pools: Vec<PoolFacts>,
}

/// One listening address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenFacts {
    /// Index into `Config::listens`.
    pub listen: usize,
    /// Where it is really bound.
    pub address: Address,
    /// How many sockets share it.
    pub buckets: u16,
}

/// One pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolFacts {
    /// The pool's name in the configuration.
    pub name: String,
    /// Index of its first slot in the scoreboard.
    pub first_slot: usize,
    /// How many it has there.
    pub slots: usize,
    /// Processes that are started at first.
    pub start: u16,
    /// The most that there are.
    pub max: u16,
    /// Retired ones that may stay because of what is under way there.
    pub retired_max: u16,
    /// `auto`, `direct` or `relay`; `none` if its processes listen.
    pub transport: &'static str,
    /// Requests that may wait for its processes.
    pub queue_max: u32,
    /// What its processes listen on; empty if they do not.
    pub addresses: Vec<SocketAddr>,
    /// Index of its first bucket in the scoreboard.
    pub first_bucket: usize,
    /// How many buckets share these addresses.
    pub buckets: usize,
}

impl Facts {
    /// From the start document of the worker process.
    pub fn new(start: &Start) -> Facts {
        let mut listens: Vec<ListenFacts> = Vec::new();
        for descriptor in &start.descriptors {
            if let Descriptor::Bucket { listen, local, buckets, bucket: 0 } = descriptor {
                listens.push(ListenFacts { listen: *listen, address: local.clone(), buckets: *buckets });
            }
        }
        let mut first_slot = 0;
        let mut first_bucket = 0;
        let nowhere = (Vec::new(), 0);
        let listens_on = start.pool_addresses.iter().chain(std::iter::repeat(&nowhere));
        let pools = start.config.pools.iter().zip(listens_on).map(|(pool, (addresses, buckets))| {
            let buckets = if addresses.is_empty() { 0 } else { usize::from(*buckets) };
            let slots = usize::from(pool.workers.slots()).min(SLOTS_MAX - first_slot);
            let facts = PoolFacts {
                name: pool.name.clone(),
                first_slot,
                slots,
                start: pool.workers.start,
                max: pool.workers.max,
                retired_max: pool.workers.lingering_max(),
                queue_max: pool.queue_max,
                addresses: addresses.clone(),
                first_bucket,
                buckets,
                transport: match pool.transport {
                    _ if !addresses.is_empty() => "none",
                    Transport::Auto => "auto",
                    Transport::Direct => "direct",
                    Transport::Relay => "relay",
                },
            };
            first_slot += slots;
            first_bucket += buckets;
            facts
        });
        Facts {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            master_pid: std::os::unix::process::parent_id(),
            generation: start.generation,
            reuseport: start.reuseport,
            ktls: start.ktls.clone(),
            affinity_why: start.affinity_why.clone(),
            usable_cpus: start.usable_cpus.clone(),
            pools: pools.collect(),
            listens,
            threads: start.threads.iter().copied().take(THREADS_MAX).collect(),
        }
    }
}

/// What is asked for at the moment of showing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Live {
    /// Unix time, in seconds.
    pub unix_secs: u64,
    /// Accept queues that could be read.
    pub queues: Vec<Queue>,
    /// Requests that wait for the processes of each pool.
    pub pool_queues: Vec<u32>,
    /// Request bodies that are kept in files.
    pub bodies: [BodiesFacts; 2],
    /// What the levels of overload are about, and files for clients that read slowly.
    pub budgets: [BudgetFacts; 3],
    /// Limits by client.
    pub limits: Vec<LimitFacts>,
    /// How long answers of each pool take.
    pub answers: Vec<HistogramFacts>,
    /// Servers of pools, at most [`SERVERS_SHOWN_MAX`].
    pub servers: Vec<ServerFacts>,
    /// Routes, at most [`ROUTES_SHOWN_MAX`](super::routes::ROUTES_SHOWN_MAX).
    pub routes: Vec<RouteFacts>,
    /// The last minutes of each of them.
    pub route_windows: Vec<TimingFacts>,
    /// The last minutes of each pool.
    pub pool_windows: Vec<PoolWindow>,
    /// The slowest requests of the last minutes.
    pub slowest: Vec<SlowRequest>,
    /// Requests under way.
    pub under_way: Vec<RequestUnderWay>,
    /// What became of spans, if there are any.
    pub spans: Option<SpanFacts>,
    /// The store of responses, if there is one.
    pub cache: Option<CacheFacts>,
    /// Certificates in use.
    pub certificates: Vec<CertificateFacts>,
    /// How the sites with automatic certificates stand, by name.
    pub automatic: Vec<Report>,
    /// What happens in a second.
    pub rates: PerSecond,
    /// The last second alone, of all worker processes.
    pub last_second: Second,
    /// How the last process of a slot ended, by the slot's index in the scoreboard.
    pub ends: BTreeMap<usize, String>,
    /// Why a pool has no process and cannot start one, by the pool's index.
    pub troubles: BTreeMap<usize, String>,
    /// Spans, and request bodies, that were lost of late.
    pub lost: (Option<Lost>, Option<Lost>),
    /// The latest warnings and errors, the newest first.
    pub errors: Vec<Line>,
}

/// What waits at this moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queues {
    /// The present, in seconds of the machine's monotonic clock.
    pub uptime_secs: u64,
    /// Accept queues that could be read.
    pub accept: Vec<Queue>,
    /// Requests that wait for the processes of each pool.
    pub pools: Vec<u32>,
    /// Request bodies that are kept in files.
    pub bodies: [BodiesFacts; 2],
    /// What the levels of overload are about, and files for clients that read slowly.
    pub budgets: [BudgetFacts; 3],
    /// Limits by client.
    pub limits: Vec<LimitFacts>,
    /// How long answers of each pool take.
    pub answers: Vec<HistogramFacts>,
    /// How long the requests of each pool take as a whole.
    pub timings: Vec<TimingFacts>,
    /// The slowest requests of the last minutes.
    pub slowest: Vec<SlowRequest>,
    /// Requests under way.
    pub under_way: Vec<RequestUnderWay>,
    /// Servers of pools, at most [`SERVERS_SHOWN_MAX`].
    pub servers: Vec<ServerFacts>,
    /// Routes, at most [`ROUTES_SHOWN_MAX`](super::routes::ROUTES_SHOWN_MAX).
    pub routes: Vec<RouteFacts>,
    /// What became of spans, if there are any.
    pub spans: Option<SpanFacts>,
    /// The store of responses, if there is one.
    pub cache: Option<CacheFacts>,
}

/// How much is taken of something that all threads share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetFacts {
    /// `unsent` (bytes), `descriptors` or `unsent_files` (bytes).
    pub name: &'static str,
    /// At this moment.
    pub used: u64,
    /// How much there may be.
    pub max: u64,
}

/// A limit by client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitFacts {
    /// The name of the limit.
    pub name: String,
    /// Keys that are remembered.
    pub keys: u64,
    /// How many may be.
    pub keys_max: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests that would have been, without `dry_run`.
    pub dry_run: u64,
    /// Keys that were forgotten too early, and requests that were not counted.
    pub evicted: u64,
    /// Requests under way that are counted, of this worker process.
    pub under_way: u64,
}

/// Servers that are shown, over all pools: [`maitred_base::bounds::SERVERS_MAX`] in each of four pools. A page of metrics stays
/// below a megabyte.
pub const SERVERS_SHOWN_MAX: usize = 1024;

/// A server of a pool, as this worker process has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// Index of its pool.
    pub pool: usize,
    /// Where it listens; each once in a pool.
    pub address: String,
    /// The server's name, if it has one.
    pub name: String,
    /// `up`, `unknown` (nothing has been asked of it yet), `draining`, `out` (for failures), `unwell` (its checks fail) or
    /// `ejected` (for its responses).
    pub state: &'static str,
    /// Requests that it was given.
    pub requests: u64,
    /// How many of them have failed.
    pub failures: u64,
    /// Requests that it has.
    pub under_way: u64,
    /// The mean time to the first byte of its responses, with `balance = "least_time"`.
    pub response_us: Option<u64>,
}

/// What request bodies take up in one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BodiesFacts {
    /// `memory` or `disk`.
    pub place: &'static str,
    /// Bytes at this moment.
    pub bytes: u64,
    /// How many there may be.
    pub bytes_max: u64,
}

/// The accept queue of one bucket ([`maitred_sys::tcp::accept_queue`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Index into `Config::listens`, as in [`ListenFacts::listen`].
    pub listen: usize,
    /// Which bucket of it.
    pub bucket: u16,
    /// Connections that wait.
    pub length: u32,
    /// How many may.
    pub max: u32,
}
