//! The program behind `cargo xtask bench`, `cache-tests` and `sim`: a crate of its own, because it links the load generator and
//! the simulation, which the other tasks can do without.

mod bench;
mod cache_tests;
mod sim;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::Result;

/// Measurements and simulations.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure Maitred against the floor and against peers
    Bench(Box<bench::Arguments>),
    /// Test the rules of caches with the suite that others wrote: of Maitred, or of its peers
    CacheTests(cache_tests::Arguments),
    /// Simulate worker pools and listener buckets
    Sim(sim::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Bench(arguments) => bench::run(&arguments),
        Task::CacheTests(arguments) => cache_tests::run_some(&xtask::target(), &arguments),
        Task::Sim(arguments) => sim::run(&arguments),
    };
    xtask::exit(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_in_documents_can_be_made_as_shown() {
        xtask::site::check_tasks_in_documents::<Arguments>(&["bench", "cache-tests", "sim"]).unwrap();
    }
}
