//! Keys of a pool about how many processes it has, and when one is replaced.

use std::time::Duration;

use super::keys::{DAY, Default, Key, Kind, Table};
use maitred_base::bounds::SLOTS_MAX;

const SECOND: Duration = Duration::from_secs(1);
/// Processes of one pool; with the slots for those that drain, all pools together must fit into the scoreboard.
pub(super) const WORKERS_MAX: u64 = (SLOTS_MAX as u64) * 4 / 5;

/// `canary`
pub(super) const CANARY: Table = Table {
    title: "canary",
    doc: "When a new release is good enough: `maitred pool web restart --canary 1` starts one process with it, which gets requests \
          beside the others, and replaces the others, or ends that process, by itself. See [pools](pools.md).",
    example: "[pool.web]\ncommand = [\"./app\"]\ncanary = { requests = 500, latency = 150 }\n",
    keys: &[
        Key::new(
            "time",
            Kind::Time { min: SECOND, max: DAY },
            Default::Time(SECOND.saturating_mul(60)),
            "The least time that the new processes are watched, from when they are ready.",
        ),
        Key::new(
            "timeout",
            Kind::Time { min: SECOND, max: DAY },
            Default::Time(SECOND.saturating_mul(600)),
            "The longest time. If they got fewer requests than `requests` by then, they end: there is nothing to judge by.",
        ),
        Key::new(
            "requests",
            Kind::Whole { min: 1, max: 1 << 32 },
            Default::Whole(100),
            "The least number of requests that the new processes must have answered.",
        ),
        Key::new(
            "errors",
            Kind::Whole { min: 0, max: 100 },
            Default::Whole(5),
            "Percentage points by which their share of errors may exceed that of the others. An error is a response with a status \
             of 500 or more, or a request that was aborted. Too many end them at once.",
        ),
        Key::new(
            "latency",
            Kind::Whole { min: 100, max: 10_000 },
            Default::Whole(200),
            "Mean time of their responses, in percent of that of the others, up to which they are good enough.",
        ),
    ],
};

/// `canary`, in its pool.
pub(super) const CANARY_KEY: Key = Key::new(
    "canary",
    Kind::Section(&CANARY),
    Default::Absent("all defaults"),
    "When a new release that is tried first is good enough.",
);

/// `workers`
pub(super) const WORKERS: Table = Table {
    title: "workers",
    doc: "Number of processes of a pool. `workers = 4` is always four. With a table the pool is elastic: Maitred starts \
          processes before requests have to wait, and retires those that have not been needed for a while; `docs/pools.md` \
          says how, and why these are the defaults.",
    example: "[pool.web]\ncommand = [\"./app\"]\nworkers = { start = 2, min_spare = 1, max_spare = 4, max = 32 }\n",
    keys: &[
        Key::new(
            "start",
            Kind::Whole { min: 0, max: WORKERS_MAX },
            Default::Whole(2),
            "Processes at the start.",
        ),
        Key::new(
            "min_spare",
            Kind::Whole { min: 0, max: WORKERS_MAX },
            Default::Whole(1),
            "More processes are started while fewer than this are idle. With 0, a process is started only when a request waits.",
        ),
        Key::new(
            "max_spare",
            Kind::Whole { min: 0, max: WORKERS_MAX },
            Default::Whole(4),
            "A process is retired when more than this many have been idle for `retire_after`.",
        ),
        Key::new("max", Kind::Whole { min: 1, max: WORKERS_MAX }, Default::Whole(32), "The most."),
        Key::new(
            "spawn_max",
            Kind::Whole { min: 1, max: WORKERS_MAX },
            Default::Whole(32),
            "Processes that are started at a time, at most. The number starts at 1, and doubles while more are needed.",
        ),
        Key::new(
            "retire_after",
            Kind::Time { min: SECOND, max: DAY },
            Default::Time(SECOND.saturating_mul(60)),
            "How long there must have been more idle processes than `max_spare` before one of them is retired.",
        ),
        Key::new(
            "max_requests",
            Kind::Whole { min: 1, max: 1 << 53 },
            Default::Absent("no bound"),
            "Requests after which a process is replaced: for applications that leak memory. Each process gets up to a \
             quarter less, so that not all are replaced at once.",
        ),
        Key::new(
            "max_age",
            Kind::Time { min: SECOND, max: DAY.saturating_mul(365) },
            Default::Absent("no bound"),
            "Age at which a process is replaced, likewise.",
        ),
        Key::new(
            "max_memory",
            Kind::Size { min: 1 << 20, max: 1 << 50 },
            Default::Absent("no bound"),
            "Resident memory (RSS) at which a process is replaced, looked at once a second.",
        ),
        Key {
            reason: "A process with streams that leaks memory should not exist twice for long. Bounds memory: each is a \
                     whole application process.",
            ..Key::new(
                "retired_max",
                Kind::Whole { min: 1, max: WORKERS_MAX },
                Default::Absent("a quarter of `max`, rounded up"),
                "Retired processes that may exist at a time because of their streams (event streams, downloads, WebSockets \
                 through relays), after `request_timeout` and 5 seconds. Beyond that number, or when a slot is needed, the \
                 oldest one is ended. `server.grace_streams` bounds the time.",
            )
        },
    ],
};
