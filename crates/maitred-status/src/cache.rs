//! What is shown of the store of responses.

use serde_json::{Map, Value};

use super::fields::{Kind, Unit};
use maitred_cache::Counts;

/// The store of a worker process at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheFacts {
    /// What it counts.
    pub counts: Counts,
    /// `bytes_max` of `[cache]`.
    pub bytes_max: u64,
    /// `entries_max`
    pub entries_max: u64,
    /// `memory_bytes_max`
    pub memory_bytes_max: u64,
}

/// Directories that the files are in.
const FOLDERS: u64 = 256;

/// How much of the directory is known.
pub(super) fn index_percent(facts: &CacheFacts) -> u64 {
    if facts.counts.rebuilt > FOLDERS { 100 } else { (facts.counts.rebuilt * 100 / FOLDERS).min(99) }
}

/// One number.
pub(super) struct CacheField {
    /// In JSON, within `cache`.
    pub(super) key: &'static str,
    pub(super) metric: &'static str,
    pub(super) kind: Kind,
    pub(super) unit: Unit,
    pub(super) help: &'static str,
    pub(super) read: fn(&CacheFacts) -> u64,
}

const fn field(
    key: &'static str,
    (metric, kind, unit): (&'static str, Kind, Unit),
    help: &'static str,
    read: fn(&CacheFacts) -> u64,
) -> CacheField {
    CacheField { key, metric, kind, unit, help, read }
}

const fn gauge(metric: &'static str) -> (&'static str, Kind, Unit) {
    (metric, Kind::Gauge, Unit::One)
}

const fn bytes(metric: &'static str) -> (&'static str, Kind, Unit) {
    (metric, Kind::Gauge, Unit::Bytes)
}

const fn counter(metric: &'static str) -> (&'static str, Kind, Unit) {
    (metric, Kind::Counter, Unit::One)
}

/// All of them.
pub(super) const FIELDS: &[CacheField] = &[
    field("entries", gauge("maitred_cache_entries"), "Responses that are kept in files.", |facts| {
        facts.counts.entries
    }),
    field("entries_max", gauge("maitred_cache_entries_max"), "`entries_max` of `[cache]`.", |facts| {
        facts.entries_max
    }),
    field("bytes", bytes("maitred_cache_bytes"), "Bytes of these files, in blocks of 4 KiB.", |facts| {
        facts.counts.bytes
    }),
    field("bytes_max", bytes("maitred_cache_max_bytes"), "`bytes_max` of `[cache]`.", |facts| {
        facts.bytes_max
    }),
    field(
        "memory_entries",
        gauge("maitred_cache_memory_entries"),
        "Responses that are in memory, too.",
        |facts| facts.counts.hot_entries,
    ),
    field("memory_bytes", bytes("maitred_cache_memory_bytes"), "Bytes of memory that they take.", |facts| {
        facts.counts.hot_bytes
    }),
    field(
        "memory_bytes_max",
        bytes("maitred_cache_memory_max_bytes"),
        "`memory_bytes_max` of `[cache]`.",
        |facts| facts.memory_bytes_max,
    ),
    field(
        "open_files",
        gauge("maitred_cache_open_files"),
        "Files of long responses that are open.",
        |facts| facts.counts.hot_files,
    ),
    field(
        "hits",
        counter("maitred_cache_hits_total"),
        "Searches that have found a response, or a note that it varies, in memory.",
        |facts| facts.counts.hits,
    ),
    field("loads", counter("maitred_cache_loads_total"), "Files that were read into memory.", |facts| {
        facts.counts.loads
    }),
    field("misses", counter("maitred_cache_misses_total"), "Searches that have found nothing.", |facts| {
        facts.counts.misses
    }),
    field("writes", counter("maitred_cache_writes_total"), "Files that were written.", |facts| {
        facts.counts.writes
    }),
    field(
        "writes_failed",
        counter("maitred_cache_writes_failed_total"),
        "Files that could not be written.",
        |facts| facts.counts.writes_failed,
    ),
    field(
        "evictions",
        counter("maitred_cache_evictions_total"),
        "Responses that had to make room for others.",
        |facts| facts.counts.evictions,
    ),
    field(
        "purged",
        counter("maitred_cache_purged_total"),
        "Files that were removed, or marked as stale, by purges and by what requests have changed.",
        |facts| facts.counts.purged,
    ),
    field(
        "broken",
        counter("maitred_cache_broken_total"),
        "Files that were damaged or of no use, and were removed.",
        |facts| facts.counts.broken,
    ),
    field(
        "index_percent",
        gauge("maitred_cache_index_percent"),
        "How much of the directory was read after the start; 100 once all of it is known.",
        index_percent,
    ),
    field(
        "off",
        gauge("maitred_cache_off"),
        "1 while nothing is stored, because of trouble with the disk; the error log has the reason.",
        |facts| facts.counts.off.into(),
    ),
];

/// The same in JSON; `off` is a truth there.
pub(super) fn json(facts: &CacheFacts) -> Value {
    let one = |field: &CacheField| {
        let value = (field.read)(facts);
        (field.key.to_owned(), if field.key == "off" { (value > 0).into() } else { value.into() })
    };
    Value::Object(FIELDS.iter().map(one).collect::<Map<_, _>>())
}
