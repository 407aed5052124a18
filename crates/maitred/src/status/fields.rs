//! Every number that is shown, declared once: JSON, metrics and `docs/metrics.md` are made from these tables.

use crate::control::Report;

use super::scoreboard::{MasterRow, OldWorkerRow, Scoreboard, SlotRow, SlotState, StartRow, ThreadRow};

/// One number of a row.
#[derive(Debug, Clone, Copy)]
pub struct Field<Row> {
    /// Its key in JSON, where it stands in its own unit.
    pub key: &'static str,
    /// Its name as a metric, where times are in seconds.
    pub metric: &'static str,
    /// A further label of the metric; in JSON, the key of an object within `key`.
    pub label: Option<(&'static str, &'static str)>,
    /// Whether it only grows.
    pub kind: Kind,
    /// What one of it is.
    pub unit: Unit,
    /// One sentence.
    pub help: &'static str,
    /// Reads it; `None` when there is nothing to say.
    pub read: fn(&Row) -> Option<u64>,
}

/// Kinds of metrics (Prometheus text format 0.0.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only grows, and starts again at 0 with a new process.
    Counter,
}

impl Kind {
    /// Its name in the text format.
    pub const fn text(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        }
    }
}

/// Units of the scoreboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A count, or Unix time in seconds.
    One,
    /// Bytes.
    Bytes,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

/// Declares a field that stands in one cell: of the same name, or of the name before `as`.
macro_rules! cell {
    ($kind:ident, $unit:ident, $cell:ident, $metric:literal, $help:literal) => {
        cell!($kind, $unit, $cell as stringify!($cell), $metric, $help)
    };
    ($kind:ident, $unit:ident, $cell:ident as $key:expr, $metric:literal, $help:literal) => {
        Field {
            key: $key,
            metric: $metric,
            label: None,
            kind: Kind::$kind,
            unit: Unit::$unit,
            help: $help,
            read: |row| Some(row.$cell.get()),
        }
    };
}

/// Declares the responses of one class of status.
macro_rules! class {
    ($index:literal, $class:literal) => {
        Field {
            key: "responses",
            metric: "maitred_thread_responses_total",
            label: Some(("class", $class)),
            kind: Kind::Counter,
            unit: Unit::One,
            help: "Requests answered, by class of status.",
            read: |row| row.responses.get($index).map(|cell| cell.get()),
        }
    };
}

/// Declares the responses that got a coding while they came.
macro_rules! coded {
    ($index:literal, $coding:literal) => {
        Field {
            key: "compressed",
            metric: "maitred_thread_compressed_total",
            label: Some(("coding", $coding)),
            kind: Kind::Counter,
            unit: Unit::One,
            help: "Responses of applications and servers that were compressed, by coding.",
            read: |row| row.compressed.get($index).map(|cell| cell.get()),
        }
    };
}

/// Declares the level of overload of one resource.
macro_rules! overload {
    ($index:literal, $resource:literal) => {
        Field {
            key: "overload",
            metric: "maitred_thread_overload_level",
            label: Some(("resource", $resource)),
            kind: Kind::Gauge,
            unit: Unit::One,
            help: "Level of overload: 0 normal, 1 elevated, 2 critical. `docs/overload.md` lists the measures at each.",
            read: |row| row.overload.get($index).map(|cell| cell.get()),
        }
    };
}

/// A worker process that was replaced, and finishes what it has.
pub const OLD_WORKER: &[Field<OldWorkerRow>] = &[
    cell!(
        Gauge,
        One,
        since,
        "maitred_old_worker_since_seconds",
        "Unix time at which the worker process was replaced."
    ),
    cell!(
        Gauge,
        One,
        connections,
        "maitred_old_worker_connections",
        "Open connections of the replaced worker process."
    ),
    cell!(Gauge, One, idle, "maitred_old_worker_idle", "Of these connections, those without a request."),
    cell!(Gauge, One, reading, "maitred_old_worker_reading", "Requests that have not arrived completely."),
    cell!(Gauge, One, writing, "maitred_old_worker_writing", "Responses that are being sent."),
    cell!(
        Gauge,
        One,
        handed_off,
        "maitred_old_worker_handed_off",
        "Requests at an application process or an external server, WebSockets included."
    ),
    cell!(
        Gauge,
        One,
        queued,
        "maitred_old_worker_queued",
        "Requests in the queue for an application process."
    ),
];

/// The worker processes that were replaced and are still there.
pub fn old_workers(board: &Scoreboard) -> impl Iterator<Item = &OldWorkerRow> {
    board.old_workers.iter().filter(|row| row.pid.get() != 0)
}

/// What the master knows.
pub const MASTER: &[Field<MasterRow>] = &[
    cell!(Gauge, One, started_at, "maitred_start_time_seconds", "Unix time of the master's start."),
    cell!(Counter, One, generation, "maitred_generations_total", "Worker processes started."),
    cell!(
        Counter,
        One,
        worker_crashes,
        "maitred_worker_crashes_total",
        "Worker processes that ended unexpectedly."
    ),
    cell!(Counter, One, reloads, "maitred_reloads_total", "Completed reloads."),
    cell!(Counter, One, reloads_refused, "maitred_reloads_refused_total", "Refused reloads."),
    cell!(Counter, One, upgrades, "maitred_upgrades_total", "Times that the executable was replaced."),
    cell!(Counter, One, slots_started, "maitred_slots_started_total", "Application processes started."),
    cell!(
        Counter,
        One,
        slot_crashes,
        "maitred_slot_crashes_total",
        "Application processes that ended unexpectedly."
    ),
    cell!(
        Gauge,
        One,
        slots_delayed,
        "maitred_slots_delayed",
        "Application processes whose start is delayed, because earlier ones ended soon after their start."
    ),
];

/// What one event-loop thread knows. Label `thread`.
pub const THREAD: &[Field<ThreadRow>] = &[
    Field {
        key: "cpu",
        metric: "maitred_thread_cpu",
        label: None,
        kind: Kind::Gauge,
        unit: Unit::One,
        help: "CPU that the thread is pinned to; absent while it is not.",
        read: |row| row.cpu_plus_1.get().checked_sub(1),
    },
    cell!(Gauge, One, connections, "maitred_thread_connections", "Open client connections."),
    cell!(Gauge, One, idle, "maitred_thread_connections_idle", "Connections between two requests."),
    cell!(
        Gauge,
        One,
        handed_off,
        "maitred_thread_connections_handed_off",
        "Connections owned by an application process."
    ),
    cell!(
        Gauge,
        One,
        reading,
        "maitred_thread_connections_reading",
        "Connections with a request that has not arrived completely."
    ),
    cell!(
        Gauge,
        One,
        writing,
        "maitred_thread_connections_writing",
        "Connections with a response that is being sent."
    ),
    cell!(
        Gauge,
        One,
        waiting,
        "maitred_thread_connections_waiting",
        "Connections whose request waits for a disk helper, or for the master."
    ),
    cell!(
        Gauge,
        One,
        multiplexed as "http2",
        "maitred_thread_connections_http2",
        "HTTP/2 connections. Their streams are counted in the other states, and not as connections."
    ),
    cell!(
        Gauge,
        One,
        lingering,
        "maitred_thread_connections_lingering",
        "Connections after their last response; further received bytes are discarded."
    ),
    cell!(
        Gauge,
        One,
        queued,
        "maitred_thread_requests_queued",
        "Requests that wait for an application process."
    ),
    cell!(Gauge, Bytes, cache_bytes, "maitred_thread_cache_bytes", "Memory held by the file cache."),
    cell!(Gauge, One, cache_entries, "maitred_thread_cache_entries", "Entries of the file cache."),
    cell!(
        Gauge,
        One,
        full,
        "maitred_thread_full",
        "1 while the thread does not accept connections, because it is at its limit of connections."
    ),
    overload!(0, "memory"),
    overload!(1, "descriptors"),
    overload!(2, "delay"),
    cell!(
        Gauge,
        Micros,
        loop_delay_us,
        "maitred_thread_loop_delay_seconds",
        "The shortest iteration of the event loop in the last second: the least time that an event had to wait."
    ),
    cell!(Counter, One, accepted, "maitred_thread_connections_accepted_total", "Connections accepted."),
    cell!(
        Counter,
        One,
        refused_by_address,
        "maitred_thread_connections_refused_by_address_total",
        "Connections closed because their address had reached `connections_per_address_max`."
    ),
    cell!(
        Counter,
        One,
        reclaimed,
        "maitred_thread_connections_reclaimed_total",
        "Idle connections closed to make place for new ones, at `connections_per_thread_max`."
    ),
    cell!(
        Counter,
        One,
        passed_on,
        "maitred_thread_connections_passed_on_total",
        "Connections passed to a less loaded thread of the same bucket."
    ),
    cell!(
        Counter,
        One,
        adopted,
        "maitred_thread_connections_adopted_total",
        "Connections taken over from the previous worker process."
    ),
    cell!(
        Counter,
        One,
        given,
        "maitred_thread_connections_given_total",
        "Connections passed to the next worker process."
    ),
    class!(0, "1xx"),
    class!(1, "2xx"),
    class!(2, "3xx"),
    class!(3, "4xx"),
    class!(4, "5xx"),
    cell!(
        Counter,
        Bytes,
        bytes_sent,
        "maitred_thread_sent_bytes_total",
        "Heads and bodies that Maitred itself wrote."
    ),
    cell!(
        Counter,
        Bytes,
        bytes_handed_off,
        "maitred_thread_handed_off_bytes_total",
        "Bodies that application processes reported as written."
    ),
    cell!(
        Counter,
        One,
        auth_cached,
        "maitred_thread_forward_auth_cached_total",
        "Requests of which an answer of `forward_auth` decided that was kept."
    ),
    cell!(
        Counter,
        One,
        mirrored,
        "maitred_thread_mirrored_total",
        "Requests of which a copy went to another pool (`mirror`)."
    ),
    cell!(
        Counter,
        One,
        mirrors_left_out,
        "maitred_thread_mirrors_left_out_total",
        "Requests without the copy that `mirror` asks for: too many were under way, or the body was too long."
    ),
    cell!(
        Counter,
        One,
        delayed,
        "maitred_thread_delayed_total",
        "Requests that have waited for `delay` of their site or route."
    ),
    cell!(
        Counter,
        One,
        delays_left_out,
        "maitred_thread_delays_left_out_total",
        "Requests that `delay` did not hold: `delayed_requests_max` of them waited."
    ),
    cell!(
        Counter,
        One,
        handoffs,
        "maitred_thread_handoffs_total",
        "Requests handed to an application process."
    ),
    cell!(
        Counter,
        Micros,
        queue_us,
        "maitred_thread_queue_wait_seconds_total",
        "Time that these requests waited for a process; divided by handoffs: the mean wait."
    ),
    cell!(
        Counter,
        One,
        relayed,
        "maitred_thread_relayed_total",
        "Of the requests handed off, those answered through a relay; the others were answered on the client's own socket."
    ),
    cell!(
        Counter,
        One,
        relayed_isolated,
        "maitred_thread_relayed_isolated_total",
        "Of the requests answered through a relay, those whose pool is isolated."
    ),
    cell!(
        Counter,
        One,
        relayed_framed,
        "maitred_thread_relayed_framed_total",
        "Of the requests answered through a relay, those whose client uses TLS or HTTP/2, so that its socket cannot be passed."
    ),
    cell!(
        Counter,
        One,
        sent_to_threads as "requests_transferred",
        "maitred_thread_requests_transferred_total",
        "Requests transferred to a thread that has a free process, because the connection itself cannot move: it uses HTTP/2, or \
         that thread is at its limit of connections."
    ),
    cell!(
        Counter,
        One,
        relayed_not_tcp,
        "maitred_thread_relayed_not_tcp_total",
        "Of the requests answered through a relay, those whose client's socket cannot be passed. All others were \
         configured (`transport = \"relay\"`), or measured to be cheaper (`\"auto\"`)."
    ),
    cell!(Counter, One, tls_handshakes, "maitred_thread_tls_handshakes_total", "TLS handshakes."),
    cell!(
        Counter,
        One,
        tls_resumed,
        "maitred_thread_tls_resumed_total",
        "Of the TLS handshakes, those that resumed an earlier session."
    ),
    cell!(
        Counter,
        One,
        tls_failures,
        "maitred_thread_tls_failures_total",
        "TLS connections that ended with an error; the error log names it."
    ),
    cell!(
        Counter,
        One,
        http2_connections,
        "maitred_thread_http2_connections_total",
        "Connections that used HTTP/2."
    ),
    cell!(
        Counter,
        One,
        http2_streams,
        "maitred_thread_http2_streams_total",
        "Requests on HTTP/2 connections."
    ),
    cell!(
        Counter,
        One,
        detached,
        "maitred_thread_detached_total",
        "Connections that an application process keeps for another protocol, such as WebSocket."
    ),
    cell!(
        Counter,
        One,
        cancelled,
        "maitred_thread_cancelled_total",
        "Requests that were cancelled at their process, because the client closed the connection before the response."
    ),
    cell!(
        Counter,
        One,
        handoff_batches,
        "maitred_thread_handoff_batches_total",
        "Messages that carried handoffs; handoffs divided by this: the mean batch."
    ),
    cell!(
        Counter,
        One,
        descriptors_passed,
        "maitred_thread_descriptors_passed_total",
        "Descriptors passed to application processes."
    ),
    cell!(
        Counter,
        One,
        queue_refused,
        "maitred_thread_queue_refused_total",
        "Requests refused because the queue was full, or the wait in it too long."
    ),
    cell!(
        Counter,
        One,
        bodies_refused,
        "maitred_thread_bodies_refused_total",
        "Requests refused because the budget for request bodies was exhausted."
    ),
    cell!(
        Counter,
        One,
        handoff_lost,
        "maitred_thread_handoffs_lost_total",
        "Requests whose application process ended before the response."
    ),
    cell!(
        Counter,
        One,
        retried as "handoff_retries",
        "maitred_thread_handoff_retries_total",
        "Of these requests, those retried on another application process."
    ),
    cell!(
        Counter,
        One,
        proxied as "upstream_requests",
        "maitred_thread_upstream_requests_total",
        "Requests forwarded to HTTP and FastCGI servers."
    ),
    cell!(
        Counter,
        One,
        upstream_connections,
        "maitred_thread_upstream_connections_total",
        "Connections made to HTTP and FastCGI servers; requests divided by this: requests per connection."
    ),
    cell!(
        Counter,
        One,
        upstream_failures,
        "maitred_thread_upstream_failures_total",
        "Times that an external server could not be reached, aborted a response, or timed out."
    ),
    cell!(
        Counter,
        One,
        upstream_retries,
        "maitred_thread_upstream_retries_total",
        "Requests that were retried, over another connection or at another server."
    ),
    cell!(
        Counter,
        One,
        upstream_retries_refused,
        "maitred_thread_upstream_retries_refused_total",
        "Requests that were not retried, because `retry.budget_percent` of their pool was used up."
    ),
    cell!(Counter, One, malformed, "maitred_thread_malformed_total", "Requests refused as malformed."),
    cell!(
        Counter,
        One,
        aborted as "client_aborts",
        "maitred_thread_client_aborts_total",
        "Requests that the client aborted before the response was complete; 499 in the access log."
    ),
    cell!(
        Counter,
        One,
        request_timeouts,
        "maitred_thread_request_timeouts_total",
        "Requests that were ended because a process, or an external server, was silent for `request_timeout`, or took longer \
         than `request_total_timeout`."
    ),
    cell!(
        Counter,
        One,
        timed_out_in_response,
        "maitred_thread_request_timeouts_in_response_total",
        "Of these, those aborted after a part of the response was sent; 598 in the access log. The others got 504."
    ),
    cell!(
        Counter,
        One,
        streams_refused,
        "maitred_thread_streams_refused_total",
        "HTTP/2 streams refused because of overload, or because the client does not read its responses."
    ),
    cell!(
        Counter,
        One,
        unsent_aborted,
        "maitred_thread_unsent_aborted_total",
        "Responses that were aborted because `unsent_memory_bytes_max` was reached."
    ),
    cell!(
        Counter,
        One,
        files_broken,
        "maitred_thread_files_broken_total",
        "Responses that were aborted because a file was shorter than announced, or could not be read."
    ),
    cell!(Counter, One, timeouts, "maitred_thread_timeouts_total", "Connections that exceeded a timeout."),
    cell!(
        Counter,
        One,
        slow,
        "maitred_thread_slow_total",
        "Of the connections that exceeded a timeout, those whose client received a response below the minimal rate, or exceeded \
         `response_total_timeout`."
    ),
    cell!(Counter, One, cache_hits, "maitred_thread_cache_hits_total", "Files found in the cache."),
    cell!(Counter, One, cache_misses, "maitred_thread_cache_misses_total", "Files not found in the cache."),
    cell!(
        Gauge,
        One,
        encoders,
        "maitred_thread_encoders",
        "Responses of applications and servers that are being compressed; at most `compress_encoders_max`."
    ),
    coded!(0, "zstd"),
    coded!(1, "gzip"),
    cell!(
        Counter,
        One,
        compress_refused,
        "maitred_thread_compress_refused_total",
        "Responses that were sent as they are, because all encoders were in use."
    ),
    cell!(
        Counter,
        Bytes,
        compress_bytes_in,
        "maitred_thread_compress_in_bytes_total",
        "Content of responses that encoders have taken."
    ),
    cell!(
        Counter,
        Bytes,
        compress_bytes_out,
        "maitred_thread_compress_out_bytes_total",
        "Compressed content that encoders have made."
    ),
    cell!(Counter, One, disk_waits, "maitred_thread_disk_waits_total", "Reads from disk by a helper thread."),
    cell!(Counter, One, log_dropped, "maitred_thread_log_lines_dropped_total", "Access-log lines dropped."),
    cell!(Counter, One, panics, "maitred_thread_panics_total", "Panics that ended a connection."),
    cell!(Counter, One, turns, "maitred_thread_turns_total", "Iterations of the event loop."),
    cell!(
        Counter,
        One,
        slow_turns,
        "maitred_thread_slow_turns_total",
        "Iterations of the event loop that took longer than 100 ms; the error log says which events they handled."
    ),
    cell!(
        Gauge,
        Micros,
        longest_turn_us,
        "maitred_thread_longest_turn_seconds",
        "The longest iteration of the event loop so far: every connection of the thread waited that long."
    ),
    cell!(Counter, Nanos, cpu_ns, "maitred_thread_cpu_seconds_total", "CPU time used."),
    cell!(
        Counter,
        Nanos,
        run_delay_ns,
        "maitred_thread_run_delay_seconds_total",
        "Time spent ready to run, but waiting for a CPU."
    ),
    cell!(
        Counter,
        One,
        affinity_released,
        "maitred_thread_affinity_releases_total",
        "Times that the thread was unpinned, because another process used its CPU."
    ),
    cell!(
        Counter,
        One,
        affinity_moved,
        "maitred_thread_affinity_moves_total",
        "Times that the thread was pinned to another CPU, or back to its own."
    ),
];

/// What the home thread of an application process knows. Labels `pool` and `slot`. State and process id are shown in
/// JSON besides.
pub const SLOT: &[Field<SlotRow>] = &[
    cell!(Gauge, One, in_flight, "maitred_slot_requests", "Requests under way at the process."),
    cell!(Gauge, One, capacity, "maitred_slot_capacity", "Requests that the process takes at a time."),
    cell!(Counter, One, requests, "maitred_slot_requests_total", "Requests that the process has answered."),
    cell!(
        Counter,
        Micros,
        busy_us,
        "maitred_slot_busy_seconds_total",
        "Time in which the process had at least one request, up to its last change of state."
    ),
    cell!(Gauge, Micros, service_us, "maitred_slot_service_seconds", "Estimated service time of a request."),
    cell!(
        Gauge,
        Micros,
        since_us,
        "maitred_slot_state_since_seconds",
        "Unix time of the slot's last change of state."
    ),
    cell!(Gauge, One, started_at, "maitred_slot_start_time_seconds", "Unix time of the process's start."),
    cell!(Counter, One, starts, "maitred_slot_starts_total", "Processes started in the slot so far."),
];

/// What the master knows of a slot. Labels `pool` and `slot`.
pub const START: &[Field<StartRow>] = &[
    cell!(
        Gauge,
        One,
        delayed_until,
        "maitred_slot_delayed_until_seconds",
        "Unix time before which no process is started in the slot, because the last ones ended early; 0 without a delay."
    ),
    cell!(
        Gauge,
        One,
        deaths,
        "maitred_slot_early_deaths",
        "Consecutive processes of the slot that ended early."
    ),
];

/// What is shown of a site with an automatic certificate. Label `name`; in JSON there is the last error besides.
pub const AUTOMATIC: &[Field<Report>] = &[
    automatic(
        "not_after",
        "maitred_automatic_certificate_not_after_seconds",
        "End of validity of the certificate of a site with `acme = true`, in Unix time; absent without a certificate.",
        |report| report.not_after,
    ),
    automatic(
        "renew_at",
        "maitred_automatic_certificate_renew_at_seconds",
        "Unix time of its next renewal; absent without a certificate.",
        |report| report.renew_at,
    ),
    automatic(
        "retry_at",
        "maitred_automatic_certificate_retry_at_seconds",
        "Unix time of the next attempt; absent unless the last order failed.",
        |report| report.retry_at,
    ),
    automatic(
        "failures",
        "maitred_automatic_certificate_failures",
        "Consecutive failed orders of the certificate; a successful order resets it to 0.",
        |report| Some(report.failures.into()),
    ),
];

const fn automatic(
    key: &'static str,
    metric: &'static str,
    help: &'static str,
    read: fn(&Report) -> Option<u64>,
) -> Field<Report> {
    Field { key, metric, label: None, kind: Kind::Gauge, unit: Unit::One, help, read }
}

/// All states of a slot with their names, in the order of its life.
pub const STATES: [(SlotState, &str); 5] = [
    (SlotState::Dead, "dead"),
    (SlotState::Starting, "starting"),
    (SlotState::Idle, "idle"),
    (SlotState::Busy, "busy"),
    (SlotState::Draining, "draining"),
];

/// Letter and name of what stands in [`SlotRow::state`]; a row that was never written is dead, and what is no
/// state is shown as `?`.
pub fn state(row: &SlotRow) -> (char, &'static str) {
    let value = match row.state.get() {
        0 => SlotState::Dead as u64,
        value => value,
    };
    let known = STATES.iter().find(|(state, _)| *state as u64 == value);
    known.map_or(('?', "unknown"), |(state, name)| (char::from(*state as u8), name))
}
