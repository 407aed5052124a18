//! A world in which pools are sized, without processes or clocks: clients, queues and workers, as events on a line of
//! time. The sizing core in it is the one that the master runs, [`maitred_base::pool`]; beside it stand models of what other
//! servers do, written from their documented behaviour.
//!
//! Everything follows from the seed: the same scenario gives the same numbers on every machine. So all randomness is
//! from [`random::Random`], and logarithms are `libm`'s, because those of the system's library may differ in the last bit.
//!
//! | module | what it holds |
//! |---|---|
//! | [`random`] | numbers from a seed, and distributions |
//! | [`workload`] | clients and how long their requests take |
//! | [`scenario`] | what happens: the experiment of 2002, steps, spikes, crashes |
//! | [`engine`] | the events |
//! | [`process`] | processes, and what a policy sees of them |
//! | [`policy`] | how it is decided how many workers there are |
//! | [`steering`] | listener buckets on 2 to 256 threads |
//! | [`plot`] | pictures |
//! | [`report`] | all of it, as the document shows it |
//! | [`outcome`] | what came of it: counts, waits, samples over time |

pub mod engine;
pub mod outcome;
pub mod plot;
pub mod policy;
pub mod process;
pub mod random;
pub mod report;
pub mod scenario;
pub mod steering;
pub mod workload;

/// Simulated time since the start, in microseconds.
pub type Micros = u64;

/// A second.
pub const SECOND: Micros = 1_000_000;

/// Seconds as simulated time.
pub fn micros(seconds: f64) -> Micros {
    // Simulated times are far below 2⁵³ µs, and never negative.
    (seconds * SECOND as f64) as Micros
}

/// Simulated time in seconds.
pub fn seconds(time: Micros) -> f64 {
    time as f64 / SECOND as f64
}
