//! CPUs: what may be used, which thread is pinned where, and when it is unpinned. `docs/affinity.md` has the rules.
//!
//! | module | what it holds |
//! |---|---|
//! | [`topology`] | the usable CPUs with their cores and NUMA nodes |
//! | [`plan`] | topology and configuration → one CPU per thread; pure |
//! | [`adapt`] | samples of threads and CPUs → decisions; pure |
//! | [`sampler`] | where the samples come from |
//! | [`steering`] | which bucket gets the connections of which CPU; pure |
//! | [`watcher`] | samples, decides and applies, once a second |

pub mod adapt;
pub mod plan;
pub mod sampler;
pub mod steering;
pub mod topology;
pub mod watcher;

/// What [`watcher::Watcher::new`] reads in a worker process: a sandbox that is closed before must leave these open.
/// Nothing is opened later.
pub const READS: [&str; 4] =
    ["/proc/self/task", "/proc/stat", "/sys/devices/system", "/sys/devices/cpu_atom"];
