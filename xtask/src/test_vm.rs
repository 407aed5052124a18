//! Virtual machines with the kernels of Debian's releases, in which the server is tested. QEMU emulates the processor, because
//! `/dev/kvm` is not everywhere, and does not carry every kernel where it is. So nothing is timed, and deadlines are generous.

mod guest;
mod kernels;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::skips::{Kind, skip};
use crate::step::step;
use guest::Guest;
use kernels::{Kernel, SUITES};

/// Which machines to boot.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only this release of Debian
    #[arg(long)]
    suite: Option<String>,
    /// Only the test of this name
    #[arg(long)]
    test: Option<String>,
}

/// A test in a machine that has nothing but a kernel, busybox and the server.
struct Test {
    name: &'static str,
    script: &'static str,
    /// The only release whose kernel it is about, if there is one.
    suite: Option<&'static str>,
    /// More arguments for QEMU.
    machine: &'static [&'static str],
    /// Modules of the kernel that are loaded before, below `kernel/`.
    modules: &'static [&'static str],
}

const TESTS: &[Test] = &[
    Test {
        name: "smoke",
        script: include_str!("../vm/smoke.sh"),
        suite: None,
        machine: &["-smp", "2", "-cpu", "max"],
        modules: &[],
    },
    Test {
        name: "steering",
        script: include_str!("../vm/steering.sh"),
        // Eight processors take long to emulate, and kernels do not differ in this.
        suite: Some("bookworm"),
        // Linux believes in siblings of this vendor's only, where QEMU describes them. It numbers them 0-1, 2-3, ….
        machine: &["-smp", "8,sockets=1,cores=4,threads=2", "-cpu", "max,vendor=GenuineIntel"],
        modules: &[],
    },
    Test {
        name: "overlay",
        script: include_str!("../vm/overlay.sh"),
        suite: None,
        machine: &["-smp", "1", "-cpu", "max"],
        modules: &["fs/overlayfs/overlay.ko"],
    },
];
const NAME: &str = "virtual machine";
/// What the machines are made with, and the Debian packages that have it.
const TOOLS: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("cpio", "cpio"),
    ("busybox", "busybox-static"),
    ("dpkg-deb", "dpkg"),
    ("apt-get", "apt"),
];

/// Everything, as a part of `cargo xtask test`.
pub(crate) fn run(target: &Path) -> Result<()> {
    run_some(target, &Arguments { suite: None, test: None })
}

/// Boots what was asked for. All machines are tried; what has failed is said at the end.
pub(crate) fn run_some(target: &Path, wanted: &Arguments) -> Result<()> {
    if let Some((kind, why)) = missing() {
        skip(kind, NAME, &why);
        return Ok(());
    }
    let programs = programs(target)?;
    let is_wanted = |name: &str, wanted: &Option<String>| wanted.as_ref().is_none_or(|one| one == name);
    let mut failures = Vec::new();
    for suite in SUITES.iter().filter(|suite| is_wanted(suite.name, &wanted.suite)) {
        let kernel = match Kernel::fetch(suite, &target.join("vm").join(suite.name)) {
            Ok(kernel) => kernel,
            Err(why) => {
                // Whether a mirror still has an old release is not up to the machine that runs the tests.
                skip(
                    Kind::Surroundings,
                    &format!("{NAME}, {suite}"),
                    &format!("no kernel can be had: {why}"),
                );
                continue;
            }
        };
        let is_about = |test: &&Test| test.suite.is_none_or(|only| only == suite.name);
        for test in TESTS.iter().filter(is_about).filter(|test| is_wanted(test.name, &wanted.test)) {
            println!("\n== {NAME}, {suite}, {}", test.name);
            let guest = Guest { kernel: &kernel, programs: &programs, test };
            if let Err(error) = guest.run() {
                println!("== FAILED: {error}");
                failures.push(format!("{suite}, {}: {error}", test.name));
            }
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(format!("{NAME}: {}", failures.join("; ")).into())
}

fn missing() -> Option<(Kind, String)> {
    if std::env::consts::ARCH != "x86_64" {
        return Some((Kind::Surroundings, "they are made for x86_64".to_owned()));
    }
    let absent = |tool: &&(&str, &str)| !crate::test_packages::has_program(tool.0);
    let (program, package) = TOOLS.iter().find(absent)?;
    Some((Kind::Missing, format!("there is no {program} (Debian: {package})")))
}

/// The server and the example worker, stripped: the machine has them in memory.
fn programs(target: &Path) -> Result<Vec<PathBuf>> {
    let cargo = || Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    step("the server", cargo().args(["build", "--quiet", "--package", "maitred"]))?;
    let worker = ["build", "--quiet", "--package", "maitred-handoff", "--example", "worker"];
    step("the worker", cargo().args(worker))?;
    let directory = target.join("vm/programs");
    std::fs::create_dir_all(&directory)?;
    let mut programs = Vec::new();
    for built in ["debug/maitred", "debug/examples/worker"] {
        let built = target.join(built);
        let stripped = directory.join(built.file_name().unwrap_or_default());
        // Not every machine has it; what is larger takes longer to unpack.
        let strip = Command::new("strip").arg("-o").arg(&stripped).arg(&built).status();
        if !strip.is_ok_and(|status| status.success()) {
            std::fs::copy(&built, &stripped)?;
        }
        programs.push(stripped);
    }
    Ok(programs)
}
