//! The program behind `cargo xtask bench` and `cargo xtask sim`: a crate of its own, because it links the load generator and the
//! simulation, which the other tasks can do without.

mod bench;
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
    /// Simulate worker pools and listener buckets
    Sim(sim::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Sim(arguments) => sim::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands of documents can be run as they are shown.
    #[test]
    fn measurements_in_documents_exist() {
        let mut seen = 0;
        for (path, line, words) in xtask::site::tasks_in_documents().unwrap() {
            if !["bench", "sim"].contains(&words.first().map_or("", String::as_str)) {
                continue;
            }
            let words = ["xtask".to_owned()].into_iter().chain(words);
            if let Err(error) = Arguments::try_parse_from(words) {
                assert_eq!(error.kind(), clap::error::ErrorKind::DisplayHelp, "{path}: {line}: {error}");
            }
            seen += 1;
        }
        assert!(seen >= 2, "only {seen} commands found: has their form changed?");
    }
}
