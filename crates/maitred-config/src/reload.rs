//! Keys of `[server]` about worker processes that are being replaced, or stop.

use std::time::Duration;

use super::keys::{DAY, Default, Key, Kind};

/// The longest `grace_streams`; what is to last longer has no bound.
pub(super) const GRACE_STREAMS_MAX: Duration = DAY;

/// The default of `old_workers_max`: a deployment now and then, with streams that last for hours, stays below it; a loop that
/// reloads does not fill the memory.
const OLD_WORKERS_MAX: u64 = 8;

/// `grace`
pub(super) const GRACE: Key = Key::new(
    "grace",
    Kind::Time { min: Duration::ZERO, max: DAY },
    Default::Time(Duration::from_secs(30)),
    "How long a worker process may take to finish its requests at a stop. After a reload, how long a connection of the \
     replaced worker process may stay without a request, counted from the end of its last one.",
);

/// `grace_streams`
pub(super) const GRACE_STREAMS: Key = Key::new(
    "grace_streams",
    Kind::Text("a time such as `\"10m\"`, or `\"none\"`"),
    Default::Text("none"),
    "How long requests, responses and WebSockets that are under way at a reload may continue in the replaced worker process, \
     which stays as long: server-sent events, downloads, uploads, tunnels. `\"none\"`: until they end by themselves. A stop \
     bounds them by `grace`.",
);

/// `old_workers_max`
pub(super) const OLD_WORKERS_MAX_KEY: Key = Key {
    reason: "Enough for occasional reloads beside streams that last for hours. Bounds memory: each process has its caches \
             and connections.",
    ..Key::new(
        "old_workers_max",
        Kind::Whole { min: 1, max: 64 },
        Default::Whole(OLD_WORKERS_MAX),
        "Replaced worker processes that may exist at a time, because of `grace_streams`. If a reload exceeds the number, the \
         oldest one finishes within `grace`.",
    )
};
