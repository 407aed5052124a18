//! Every number that is shown, declared once: JSON, metrics and `docs/metrics.md` are made from these tables.

use maitred_control::Report;

use super::scoreboard::{MasterRow, OldWorkerRow, Scoreboard, SlotRow, SlotState, StartRow};

/// One number of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field<Row> {
    /// The field's key in JSON, where it stands in its own unit.
    pub key: &'static str,
    /// The field's name as a metric, where times are in seconds.
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
pub(crate) enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only grows, and starts again at 0 with a new process.
    Counter,
}

impl Kind {
    /// The kind's name in the text format.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        }
    }
}

/// Units of the scoreboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
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
pub(crate) const OLD_WORKER: &[Field<OldWorkerRow>] = &[
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
pub(crate) fn old_workers(board: &Scoreboard) -> impl Iterator<Item = &OldWorkerRow> {
    board.old_workers.iter().filter(|row| row.pid.get() != 0)
}

/// What the master knows.
pub(crate) const MASTER: &[Field<MasterRow>] = &[
    cell!(Gauge, One, started_at, "maitred_start_time_seconds", "Unix time of the master's start."),
    cell!(Counter, One, generation, "maitred_generations_total", "Worker processes started."),
    cell!(
        Counter,
        One,
        worker_crashes,
        "maitred_worker_crashes_total",
        "Worker processes that ended unexpectedly."
    ),
    cell!(
        Counter,
        One,
        module_crashes,
        "maitred_module_crashes_total",
        "Worker processes that ended unexpectedly in a module; the error log names it."
    ),
    cell!(
        Gauge,
        One,
        modules_off,
        "maitred_modules_off",
        "Modules that are turned off because the worker process has crashed in them; their routes answer 503."
    ),
    cell!(Counter, One, reloads, "maitred_reloads_total", "Completed reloads."),
    cell!(Counter, One, reloads_refused, "maitred_reloads_refused_total", "Refused reloads."),
    cell!(
        Gauge,
        One,
        reload_refused,
        "maitred_reload_refused",
        "1 while the last reload is one that was refused, so that an earlier configuration is in use; otherwise 0."
    ),
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

pub(crate) use thread::THREAD;

mod thread;

/// What the home thread of an application process knows. Labels `pool` and `slot`. State and process id are shown in
/// JSON besides.
pub(crate) const SLOT: &[Field<SlotRow>] = &[
    cell!(Gauge, One, in_flight, "maitred_slot_requests", "Requests under way at the process."),
    cell!(Gauge, One, capacity, "maitred_slot_capacity", "Requests that the process takes at a time."),
    cell!(Counter, One, requests, "maitred_slot_requests_total", "Requests that the process has answered."),
    cell!(
        Counter,
        One,
        errors,
        "maitred_slot_errors_total",
        "Of these, responses with a status of 500 and more, and requests for which nothing was written."
    ),
    cell!(
        Counter,
        Micros,
        answer_us,
        "maitred_slot_answer_seconds_total",
        "Time that the application took for these requests; divided by their number: the mean time."
    ),
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
pub(crate) const START: &[Field<StartRow>] = &[
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
pub(crate) const AUTOMATIC: &[Field<Report>] = &[
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
pub(crate) const STATES: [(SlotState, &str); 5] = [
    (SlotState::Dead, "dead"),
    (SlotState::Starting, "starting"),
    (SlotState::Idle, "idle"),
    (SlotState::Busy, "busy"),
    (SlotState::Draining, "draining"),
];

/// Letter and name of what stands in [`SlotRow::state`]; a row that was never written is dead, and what is no
/// state is shown as `?`.
pub(crate) fn state(row: &SlotRow) -> (char, &'static str) {
    let value = match row.state.get() {
        0 => SlotState::Dead as u64,
        value => value,
    };
    let known = STATES.iter().find(|(state, _)| *state as u64 == value);
    known.map_or(('?', "unknown"), |(state, name)| (char::from(*state as u8), name))
}
