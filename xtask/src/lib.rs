//! Repeated work of the project, as `cargo xtask NAME`. A library, because the bench harness shares some of it; it depends on
//! no crate of the server, so that it starts within seconds on a clean clone.

mod generate;
mod harness;
mod mutants;
pub mod site;
pub mod skips;
pub mod step;
pub mod test;
mod test_acme;
mod test_apache;
mod test_deny;
mod test_go;
pub mod test_grpc;
mod test_h2;
mod test_h3;
pub mod test_instructions;
mod test_node;
mod test_oauth2_proxy;
pub mod test_packages;
pub mod test_python;
mod test_site;
mod test_vm;
mod trials;
mod vm_test;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// An error with a message for the person at the terminal.
pub type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Repeated work of the project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure Maitred against the floor and against peers
    #[command(disable_help_flag = true)]
    Bench(harness::Arguments),
    /// Test the rules of caches with the suite that others wrote: of Maitred, or of its peers
    #[command(disable_help_flag = true)]
    CacheTests(harness::Arguments),
    /// Build the images of docs/containers.md from what this build makes, and run them
    #[command(disable_help_flag = true)]
    Containers(harness::Arguments),
    /// Build release artefacts into target/dist, with their sums
    #[command(disable_help_flag = true)]
    Dist(harness::Arguments),
    /// Write the files that are made from tables in the code: reference, schema, manual page, completions
    Generate,
    /// Test HTTP/2 and TLS with clients and checkers that others wrote
    Http2,
    /// Test HTTP/3 with clients that others wrote, browsers among them, and with what clients must not send
    Http3,
    /// Count instructions of the hot path without I/O, and compare them with what was recorded
    Instructions,
    /// Make the wheel and the packages of npm from an executable, install them, and use them as their users do
    #[command(disable_help_flag = true)]
    Installed(harness::Arguments),
    /// Look for deliberate faults in the server's source with the suite over generated configurations
    Mutants(mutants::Arguments),
    /// Simulate worker pools and listener buckets
    #[command(disable_help_flag = true)]
    Sim(harness::Arguments),
    /// Make a site of the documentation in target/site, with mdBook; its links are checked by `test`, too
    Site,
    /// Format, lints, rules of the house, generated documents
    Check,
    /// Run one step of the tests in this process
    #[command(hide = true)]
    Step {
        /// Its name
        name: String,
    },
    /// Run the tests that a contributor and CI need, all with --full, or named steps; installs what they need
    Test(test::Arguments),
    /// Use real applications as their users do, alone and behind Maitred
    Trials(trials::Arguments),
    /// Boot virtual machines with other kernels, and test the server in them
    Vm(test_vm::Arguments),
    /// Run named cases in whole Debian machines: the package, file systems, processors, networks; takes root and up to an hour
    VmTest(vm_test::Arguments),
}

/// An error of which everything has been said.
#[derive(Debug)]
struct Said;

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it has failed")
    }
}

impl std::error::Error for Said {}

/// Where Cargo builds.
#[must_use]
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from)
}

/// The root of the repository.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Does what the command line says.
#[must_use]
pub fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Bench(arguments) => harness::run(harness::BENCH, "bench", &arguments),
        Task::CacheTests(arguments) => harness::run(harness::BENCH, "cache-tests", &arguments),
        Task::Containers(arguments) => harness::run(harness::DIST, "containers", &arguments),
        Task::Dist(arguments) => harness::run(harness::DIST, "dist", &arguments),
        Task::Generate => generate::run(),
        Task::Http2 => test_h2::run(&target()),
        Task::Http3 => test_h3::run(&target()),
        Task::Instructions => test_instructions::run(&target()),
        Task::Installed(arguments) => harness::run(harness::DIST, "installed", &arguments),
        Task::Mutants(arguments) => mutants::run(&target(), &arguments),
        Task::Sim(arguments) => harness::run(harness::BENCH, "sim", &arguments),
        Task::Site => site::run(&target()),
        Task::Check => test::check(),
        Task::Step { name } => test::run_step(&name),
        Task::Test(arguments) => test::run(&arguments),
        Task::Trials(arguments) => trials::run_some(&target(), &arguments),
        Task::Vm(arguments) => test_vm::run_some(&target(), &arguments),
        Task::VmTest(arguments) => vm_test::run(&target(), &arguments),
    };
    exit(result)
}

/// Says what went wrong, and turns it into the program's exit code.
#[must_use]
pub fn exit(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is::<Said>() {
                eprintln!("xtask: {error}");
            }
            ExitCode::FAILURE
        }
    }
}
