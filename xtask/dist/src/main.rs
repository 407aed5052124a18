//! The program behind `cargo xtask dist`, `cargo xtask installed` and `cargo xtask containers`: a crate of its own for its
//! formats of archives and sums.

mod containers;
mod dist;
mod installed;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::Result;

/// Release artefacts.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build release artefacts into target/dist, with their sums
    Dist(dist::Arguments),
    /// Make the wheel and the packages of npm from an executable, install them, and use them as their users do
    Installed(installed::Arguments),
    /// Build the images of docs/containers.md from what this build makes, and run them
    Containers(containers::Arguments),
    /// Make the package for Debian of this executable, in this directory
    #[command(hide = true)]
    Debian { executable: PathBuf, directory: PathBuf },
}

fn main() -> ExitCode {
    let target = xtask::target();
    let result = match Arguments::parse().task {
        Task::Dist(arguments) => dist::run(&target, &arguments),
        Task::Installed(arguments) => installed::run(&target, &arguments),
        Task::Containers(arguments) => containers::run(&target, &arguments),
        Task::Debian { executable, directory } => dist::debian(&executable, &directory),
    };
    xtask::exit(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_in_documents_can_be_made_as_shown() {
        xtask::site::check_tasks_in_documents::<Arguments>(&["dist", "installed", "containers"]).unwrap();
    }
}
