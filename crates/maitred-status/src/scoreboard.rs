//! The scoreboard: one shared memory file of fixed layout, one writer per field, no pointers.
//!
//! Threads of the worker process write their rows; the master writes [`MasterRow`]; both map the same file, and
//! application processes never see it. A reader takes every number for what it is, a number to show: nothing in here
//! may ever be used as an index, a size or a process id (that was CVE-2019-0211 in httpd). One number is acted by:
//! [`WorkerRow::crashed_in`], which is compared with the numbers of modules, and read when its writer has died.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use maitred_base::bounds::{POOLS_MAX, SLOTS_MAX, THREADS_MAX};

/// Buckets of listen pools that the file has rows for; further ones are not shown.
pub(crate) const BUCKETS_MAX: usize = 1024;

/// Worker processes that were replaced and are still there, of which the file has rows; further ones are not shown.
pub(crate) const OLD_WORKERS_MAX: usize = 16;

maitred_sys::shared! {
    /// A number with a single writer. Reading and writing are plain moves: no locked instruction on the hot path.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct Cell(AtomicU64);
}

maitred_sys::shared! {
    /// A number that several threads change, each by one: a locked instruction each time.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct Tally(AtomicU64);
}

impl Tally {
    /// The present value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// One more, if that is no more than `max`. Gives back what it was before.
    pub fn raise(&self, max: u64) -> Option<u64> {
        self.0.fetch_update(Relaxed, Relaxed, |value| (value < max).then_some(value + 1)).ok()
    }

    /// One less, but never below 0.
    pub fn lower(&self) {
        let _ = self.0.fetch_update(Relaxed, Relaxed, |value| value.checked_sub(1));
    }
}

impl Cell {
    /// The present value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// The number itself, for what writes it elsewhere than here.
    pub fn atomic(&self) -> &AtomicU64 {
        &self.0
    }

    /// Replaces the value. Only the field's one writer may call this.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Adds to the value. Only the field's one writer may call this: it is a load and a store.
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// Takes away from the value, under the same condition.
    pub fn sub(&self, less: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(less), Relaxed);
    }
}

// Made of `Cell`s only, which the macro checks: that is what allows sharing them.
maitred_sys::shared! {
    /// The whole file.
    #[derive(Debug)]
    #[repr(C)]
    pub struct Scoreboard {
        /// Written by the master.
        pub master: MasterRow,
        /// One per event-loop thread, each written by its thread.
        pub threads: [ThreadRow; THREADS_MAX],
        /// Slots of all pools, one pool after the other in the order of the configuration; each written by its home thread.
        pub slots: [SlotRow; SLOTS_MAX],
        /// Of the same slots, what the master knows; written by the master.
        pub starts: [StartRow; SLOTS_MAX],
        /// Pools, in the order of the configuration.
        pub pools: [PoolRow; POOLS_MAX],
        /// Buckets of listen pools, one pool after the other in the order of the configuration; written by the master, as are
        /// the slots of these pools.
        pub buckets: [BucketRow; BUCKETS_MAX],
        /// Worker processes that were replaced and are still there, the oldest first; written by the master.
        pub old_workers: [OldWorkerRow; OLD_WORKERS_MAX],
        /// Written by the worker process as a whole.
        pub worker: WorkerRow,
        /// One per event-loop thread, each written by its thread: to act by, and not to show.
        pub calls: [CallRow; THREADS_MAX],
    }

    /// What an event-loop thread is doing that may not come back.
    #[derive(Debug, Default)]
    #[repr(C, align(128))]
    pub struct CallRow {
        /// The module that it is in, as [`maitred_sys::module::calls::Call::of`] reads it.
        pub module: Cell,
    }

    /// What a worker process says of itself.
    #[derive(Debug, Default)]
    #[repr(C, align(64))]
    pub struct WorkerRow {
        /// The module that it crashed in, or that did not come back, as [`maitred_sys::module::calls::Call::of`] reads it.
        pub crashed_in: Cell,
    }

    /// A worker process that was replaced, and finishes what it has.
    #[derive(Debug, Default)]
    #[repr(C)]
    pub struct OldWorkerRow {
        /// The process id; 0 where there is none.
        pub pid: Cell,
        /// The number of the worker process.
        pub generation: Cell,
        /// Unix time in seconds at which it was replaced.
        pub since: Cell,
        /// Connections that it still has.
        pub connections: Cell,
        /// Of these, without a request.
        pub idle: Cell,
        /// Requests that have not arrived as a whole.
        pub reading: Cell,
        /// Responses on their way out.
        pub writing: Cell,
        /// Requests at an application process or an external server, with its WebSockets.
        pub handed_off: Cell,
        /// Requests that wait for a process.
        pub queued: Cell,
    }

    /// One bucket of a listen pool.
    #[derive(Debug, Default)]
    #[repr(C)]
    pub struct BucketRow {
        /// Connections that wait in its accept queues.
        pub queue: Cell,
        /// How many may.
        pub queue_max: Cell,
    }

    /// What the master knows.
    #[derive(Debug, Default)]
    #[repr(C, align(128))]
    pub struct MasterRow {
        /// Unix time of the master's start, in seconds.
        pub started_at: Cell,
        /// Worker processes started so far, this one included.
        pub generation: Cell,
        /// Worker processes that died without being asked to.
        pub worker_crashes: Cell,
        /// Of these, those that died in a module.
        pub module_crashes: Cell,
        /// Modules that are turned off.
        pub modules_off: Cell,
        /// Reloads that were carried out.
        pub reloads: Cell,
        /// Reloads that were refused.
        pub reloads_refused: Cell,
        /// 1 while the last reload is one that was refused.
        pub reload_refused: Cell,
        /// Times that the executable was replaced.
        pub upgrades: Cell,
        /// Application processes started.
        pub slots_started: Cell,
        /// Application processes that died without being asked to.
        pub slot_crashes: Cell,
        /// Application processes whose start is being delayed because they keep dying.
        pub slots_delayed: Cell,
    }

    /// What one event-loop thread knows. Gauges first, then counters.
    ///
    /// Written by the thread itself, except for the fields that say "control thread": these are sampled once a second by
    /// `maitred_worker::affinity_watcher::Watcher` in the control thread of the worker process, and by no other thread.
    #[derive(Debug, Default)]
    #[repr(C, align(128))]
    pub struct ThreadRow {
        /// 1 + the CPU that it is pinned to, 0 when it is not (control thread).
        pub cpu_plus_1: Cell,
        /// Open client connections.
        pub connections: Cell,
        /// Of these, idle between requests.
        pub idle: Cell,
        /// Of these, owned by an application process.
        pub handed_off: Cell,
        /// Of these, with a request that has not arrived as a whole.
        pub reading: Cell,
        /// Of these, with a response on its way out.
        pub writing: Cell,
        /// Of these, waiting for a disk helper or for the master.
        pub waiting: Cell,
        /// Of these, HTTP/2; its streams are not connections, but are counted in the other states.
        pub multiplexed: Cell,
        /// Of these, answered for the last time; what still comes is dropped.
        pub lingering: Cell,
        /// Requests that wait for an application process.
        pub queued: Cell,
        /// Bytes in the file cache.
        pub cache_bytes: Cell,
        /// Entries of the file cache.
        pub cache_entries: Cell,
        /// 1 while the thread does not accept because it holds as many connections as it may.
        pub full: Cell,

        /// Level of overload (0 normal, 1 elevated, 2 critical): by memory for what is unsent, descriptors of requests, the
        /// event loop's delay.
        pub overload: [Cell; 3],
        /// The shortest turn of the event loop in the last second, in microseconds.
        pub loop_delay_us: Cell,

        /// Connections accepted.
        pub accepted: Cell,
        /// Connections closed because their address had as many as it may.
        pub refused_by_address: Cell,
        /// Idle connections closed because all places were taken.
        pub reclaimed: Cell,
        /// Connections passed to a less loaded thread of the same bucket.
        pub passed_on: Cell,
        /// Connections taken over from the predecessor.
        pub adopted: Cell,
        /// Connections given to the successor.
        pub given: Cell,
        /// Requests answered, by class of status: index 0 is 1xx, 4 is 5xx.
        pub responses: [Cell; 5],
        /// Bytes of response bodies and heads that Maitred itself wrote.
        pub bytes_sent: Cell,
        /// Body bytes that application processes reported as written.
        pub bytes_handed_off: Cell,
        /// Requests that an answer of `forward_auth` has decided about that was kept.
        pub auth_cached: Cell,
        /// Requests of which a copy went to another pool.
        pub mirrored: Cell,
        /// Requests that were to have a copy and have none.
        pub mirrors_left_out: Cell,
        /// Requests that `delay` has held.
        pub delayed: Cell,
        /// Requests that were to be held, and were not.
        pub delays_left_out: Cell,
        /// Requests handed to an application process.
        pub handoffs: Cell,
        /// Microseconds that these requests waited for a process, in all.
        pub queue_us: Cell,
        /// Of these, answered through a relay; the others on the client's own socket.
        pub relayed: Cell,
        /// Of those, because the pool is isolated.
        pub relayed_isolated: Cell,
        /// Of those, because the client's connection is encrypted, or a stream of HTTP/2.
        pub relayed_framed: Cell,
        /// Requests that were answered with a fresh response of the cache.
        pub response_cache_hits: Cell,
        /// Requests that were answered with a stale response of the cache.
        pub response_cache_stale: Cell,
        /// Requests for which a response had to be fetched, or validated, before they were answered.
        pub response_cache_misses: Cell,
        /// Requests of routes with `cache` that went to the pool as if there were none.
        pub response_cache_bypassed: Cell,
        /// Of these, those that waited for one that another request had begun to fetch.
        pub response_cache_collapsed: Cell,
        /// Requests to pools for the cache.
        pub response_cache_fills: Cell,
        /// Responses that were stored.
        pub response_cache_stored: Cell,
        /// Stored responses that were found to be still good (304).
        pub response_cache_validated: Cell,
        /// Responses for the cache that were not received, or not as a whole.
        pub response_cache_failed: Cell,
        /// Requests that another thread answers, their connection staying here.
        pub sent_to_threads: Cell,
        /// Of those, because the client's socket is not one that can be given away.
        pub relayed_not_tcp: Cell,
        /// TLS handshakes.
        pub tls_handshakes: Cell,
        /// Of these, with an earlier session's keys.
        pub tls_resumed: Cell,
        /// TLS connections that ended with an error.
        pub tls_failures: Cell,
        /// TLS connections for which the kernel has begun to encrypt.
        pub tls_by_kernel: Cell,
        /// TLS connections for which it was asked to, and does not.
        pub tls_kernel_refused: Cell,
        /// Connections that have spoken HTTP/2.
        pub http2_connections: Cell,
        /// Requests on them.
        pub http2_streams: Cell,
        /// Connections of HTTP/3.
        pub http3_connections: Cell,
        /// Requests on them.
        pub http3_streams: Cell,
        /// Datagrams of QUIC that have come.
        pub datagrams_received: Cell,
        /// System calls that have sent datagrams.
        pub datagram_sends: Cell,
        /// Datagrams that were passed on to the worker process whose connection they are of.
        pub datagrams_forwarded: Cell,
        /// New connections of QUIC that were not accepted.
        pub quic_refused: Cell,
        /// New connections of QUIC that were asked to come again, to prove their address.
        pub quic_retries: Cell,
        /// Connections that an application process keeps for another protocol.
        pub detached: Cell,
        /// Requests whose client went away before the answer.
        pub cancelled: Cell,
        /// `sendmsg` calls to application processes: handoffs ÷ this is the batch.
        pub handoff_batches: Cell,
        /// Descriptors passed to application processes.
        pub descriptors_passed: Cell,
        /// Requests that were refused because of the queue's length or deadline.
        pub queue_refused: Cell,
        /// Requests that were refused because there was no room for their bodies.
        pub bodies_refused: Cell,
        /// Requests that lost their application process.
        pub handoff_lost: Cell,
        /// Of these, given to another one.
        pub retried: Cell,
        /// Requests passed on to external servers.
        pub proxied: Cell,
        /// Connections made to these.
        pub upstream_connections: Cell,
        /// Requests that such a server did not answer: it could not be reached, ended the connection early, or was silent for
        /// too long.
        pub upstream_failures: Cell,
        /// Requests that were passed on again.
        pub upstream_retries: Cell,
        /// Requests that were not passed on again, because the budget of their pool was used up.
        pub upstream_retries_refused: Cell,
        /// Requests refused as malformed (4xx by the HTTP/1 rules).
        pub malformed: Cell,
        /// Requests that were aborted before they had an answer, or all of it: status 499 in the access log.
        pub aborted: Cell,
        /// Requests that were ended because a process, or an external server, was silent for too long, or took too long.
        pub request_timeouts: Cell,
        /// Of these, those whose client had a part of the response: status 598 in the access log.
        pub timed_out_in_response: Cell,
        /// Responses that were aborted because a file was shorter than announced, or could not be read.
        pub files_broken: Cell,
        /// Connections that ran into a time limit.
        pub timeouts: Cell,
        /// HTTP/2 streams refused because of overload, or because their connection takes nothing.
        pub streams_refused: Cell,
        /// Responses aborted because the budget for what is unsent was used up.
        pub unsent_aborted: Cell,
        /// Of these, with a response that was taken too slowly.
        pub slow: Cell,
        /// File-cache hits.
        pub cache_hits: Cell,
        /// File-cache misses.
        pub cache_misses: Cell,
        /// Encoders in use.
        pub encoders: Cell,
        /// Responses compressed while they came: zstd, gzip.
        pub compressed: [Cell; 2],
        /// Responses that found no encoder.
        pub compress_refused: Cell,
        /// Bytes that encoders have taken.
        pub compress_bytes_in: Cell,
        /// Bytes that encoders have made.
        pub compress_bytes_out: Cell,
        /// Reads from disk that a helper thread did.
        pub disk_waits: Cell,
        /// Access-log lines dropped.
        pub log_dropped: Cell,
        /// When the last one was, in seconds since 1970; 0 if none was.
        pub log_dropped_at: Cell,
        /// Panics that ended a connection.
        pub panics: Cell,
        /// Turns of the event loop.
        pub turns: Cell,
        /// Turns that took longer than 100 ms.
        pub slow_turns: Cell,
        /// Microseconds that the longest one took.
        pub longest_turn_us: Cell,
        /// Calls of modules that took longer than 100 ms.
        pub modules_slow: Cell,
        /// Nanoseconds of CPU time used (control thread).
        pub cpu_ns: Cell,
        /// Nanoseconds spent runnable but waiting for a CPU (control thread, from schedstat).
        pub run_delay_ns: Cell,
        /// Times that adaptive affinity unpinned the thread from its CPU (control thread).
        pub affinity_released: Cell,
        /// Times that adaptive affinity moved or pinned the thread again (control thread).
        pub affinity_moved: Cell,
    }

    /// What the home thread of an application process knows.
    #[derive(Debug, Default)]
    #[repr(C, align(64))]
    pub struct SlotRow {
        /// A [`SlotState`] as its letter ([`SlotRow::enter`]).
        pub state: Cell,
        /// Unix time in microseconds at which it came to this state.
        pub since_us: Cell,
        /// Process id, to show.
        pub pid: Cell,
        /// Requests that it has at the moment.
        pub in_flight: Cell,
        /// How many it takes at a time, as it said in HELLO.
        pub capacity: Cell,
        /// Requests that it has answered.
        pub requests: Cell,
        /// Of these, responses with a status of 500 and more, and requests for which nothing was written.
        pub errors: Cell,
        /// Microseconds that the application took for all of them.
        pub answer_us: Cell,
        /// Microseconds with at least one request, up to the last change of state.
        pub busy_us: Cell,
        /// Estimated service time of a request, in microseconds.
        pub service_us: Cell,
        /// Unix time of its start, in seconds.
        pub started_at: Cell,
        /// Processes that this slot has had.
        pub starts: Cell,
    }

    /// One pool of application processes.
    #[derive(Debug, Default)]
    #[repr(C, align(64))]
    pub struct PoolRow {
        /// Requests that wait for a process, over all threads.
        pub queued: Tally,
    }

    /// What the master knows of an application slot.
    #[derive(Debug, Default)]
    #[repr(C)]
    pub struct StartRow {
        /// Unix time in seconds before which no process is started here, because the last ones died; 0 when nothing is delayed.
        pub delayed_until: Cell,
        /// Processes in a row that died early.
        pub deaths: Cell,
    }
}

impl SlotRow {
    /// A new process is here. For the row's home thread, as all of these.
    pub fn begin(&self, pid: u32, unix_us: u64) {
        self.enter(SlotState::Starting, unix_us);
        self.pid.set(u64::from(pid));
        self.started_at.set(unix_us / 1_000_000);
        self.requests.set(0);
        self.errors.set(0);
        self.answer_us.set(0);
        self.busy_us.set(0);
        self.starts.add(1);
    }

    /// The process has answered a request, with this status (0: nothing was written), for which the application took so long.
    pub fn answered(&self, status: u16, service_us: u32) {
        self.requests.add(1);
        self.answer_us.add(u64::from(service_us));
        if status == 0 || status >= 500 {
            self.errors.add(1);
        }
    }

    /// The process is doing something else now; does nothing when it is the same as before.
    pub fn enter(&self, state: SlotState, unix_us: u64) {
        let before = self.state.get();
        if before == state as u64 {
            return;
        }
        if before == SlotState::Busy as u64 {
            // A clock that was set back counts nothing.
            self.busy_us.add(unix_us.saturating_sub(self.since_us.get()));
        }
        self.state.set(state as u64);
        self.since_us.set(unix_us);
    }
}

impl StartRow {
    /// The next start is put off, after so many early deaths in a row. For the master, as all of these.
    pub fn delay(&self, until_unix_secs: u64, deaths: u32) {
        self.delayed_until.set(until_unix_secs);
        self.deaths.set(u64::from(deaths));
    }

    /// A process is being started, or none is wanted here.
    pub fn clear(&self) {
        self.delayed_until.set(0);
    }
}

impl Scoreboard {
    /// A board of zeros in this process's own memory, for tests and for rendering without a server.
    #[cfg(test)]
    pub(crate) fn private() -> Box<Scoreboard> {
        Box::new(Scoreboard {
            master: MasterRow::default(),
            threads: std::array::from_fn(|_| ThreadRow::default()),
            slots: std::array::from_fn(|_| SlotRow::default()),
            starts: std::array::from_fn(|_| StartRow::default()),
            pools: std::array::from_fn(|_| PoolRow::default()),
            buckets: std::array::from_fn(|_| BucketRow::default()),
            old_workers: std::array::from_fn(|_| OldWorkerRow::default()),
            worker: WorkerRow::default(),
            calls: std::array::from_fn(|_| CallRow::default()),
        })
    }
}

/// What an application process is doing. One letter each, in the manner of Apache's server-status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SlotState {
    /// `.`: no process.
    Dead = b'.',
    /// `S`: started, no HELLO yet.
    Starting = b'S',
    /// `_`: waiting for a request.
    Idle = b'_',
    /// `W`: has at least one request.
    Busy = b'W',
    /// `D`: finishing, and takes no new requests.
    Draining = b'D',
}
