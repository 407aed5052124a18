//! CPUs: what may be used, which thread is pinned where, and when it is unpinned. `docs/affinity.md` has the rules.
//!
//! | module | what it holds |
//! |---|---|
//! | [`topology`] | the usable CPUs with their cores and NUMA nodes |
//! | [`plan`] | topology and configuration → one CPU per thread; pure |
//! | [`adapt`] | samples of threads and CPUs → decisions; pure |
//! | [`sampler`] | where the samples come from |
//! | [`steering`] | which bucket gets the connections of which CPU; pure |

pub mod adapt;
pub mod plan;
pub mod sampler;
pub mod steering;
pub mod topology;

/// What `Watcher::new` of a worker process reads in a worker process: a sandbox that is closed before must leave these open.
/// Nothing is opened later.
pub const READS: [&str; 4] =
    ["/proc/self/task", "/proc/stat", "/sys/devices/system", "/sys/devices/cpu_atom"];
