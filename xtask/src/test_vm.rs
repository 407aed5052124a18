//! Virtual machines with the kernels of Debian's releases, in which the server is tested. QEMU emulates the processor, because
//! `/dev/kvm` is not everywhere, and does not carry every kernel where it is. So nothing is timed, and deadlines are generous.

pub(crate) mod debian;
mod guest;
pub(crate) mod kernels;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::skips::{Kind, skip};
use debian::Debian;
use guest::Guest;
use kernels::{Kernel, SUITES, Suite};

/// Which machines to boot.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only this release of Debian
    #[arg(long)]
    suite: Option<String>,
    /// Only the test of this name
    #[arg(long)]
    test: Option<String>,
    /// Only the test of the installed unit, in a whole Debian with systemd
    #[arg(long, conflicts_with = "test")]
    systemd: bool,
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
        // Linux accepts siblings of this vendor only, where QEMU describes them. QEMU numbers them 0-1, 2-3, ….
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
pub(crate) const TOOLS: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("cpio", "cpio"),
    ("busybox", "busybox-static"),
    ("dpkg-deb", "dpkg"),
    ("apt-get", "apt"),
];
/// The same of those with a disk.
pub(crate) const DISK_TOOLS: &[(&str, &str)] = &[("mmdebstrap", "mmdebstrap"), ("mkfs.ext4", "e2fsprogs")];

/// Everything but the test of the unit, as a part of `cargo xtask test`.
pub(crate) fn run(target: &Path) -> Result<()> {
    run_some(target, &Arguments { suite: None, test: None, systemd: false })
}

/// Boots what was asked for. All machines are tried; what has failed is said at the end.
pub(crate) fn run_some(target: &Path, wanted: &Arguments) -> Result<()> {
    let tools = TOOLS.iter().chain(DISK_TOOLS.iter().filter(|_| wanted.systemd));
    if let Some((kind, why)) = missing(tools) {
        skip(kind, NAME, &why);
        return Ok(());
    }
    let programs = programs(target)?;
    let mut failures = Vec::new();
    for suite in SUITES.iter().filter(|suite| wanted.suite.as_ref().is_none_or(|one| one == suite.name)) {
        let kernel = match Kernel::fetch(suite, &target.join("vm").join(suite.name)) {
            Ok(kernel) => kernel,
            Err(why) => {
                skip_suite(suite, "no kernel can be had", &why.to_string());
                continue;
            }
        };
        match wanted.systemd {
            true => run_debian(target, suite, kernel, &programs, &mut failures),
            false => run_guests(suite, &kernel, &programs, wanted, &mut failures),
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(format!("{NAME}: {}", failures.join("; ")).into())
}

/// Whether a mirror still has an old release is not up to the machine that runs the tests.
fn skip_suite(suite: &Suite, what: &str, why: &str) {
    skip(Kind::Surroundings, &format!("{NAME}, {suite}"), &format!("{what}: {why}"));
}

fn run_guests(
    suite: &Suite,
    kernel: &Kernel,
    programs: &[PathBuf],
    wanted: &Arguments,
    failures: &mut Vec<String>,
) {
    let is_about = |test: &&Test| test.suite.is_none_or(|only| only == suite.name);
    let is_wanted = |test: &&Test| wanted.test.as_ref().is_none_or(|one| one == test.name);
    for test in TESTS.iter().filter(is_about).filter(is_wanted) {
        println!("\n== {NAME}, {suite}, {}", test.name);
        if let Err(error) = (Guest { kernel, programs, test }).run() {
            println!("== FAILED: {error}");
            failures.push(format!("{suite}, {}: {error}", test.name));
        }
    }
}

/// The unit under the release's systemd, if it is one of those for which the unit is written.
fn run_debian(
    target: &Path,
    suite: &Suite,
    kernel: Kernel,
    programs: &[PathBuf],
    failures: &mut Vec<String>,
) {
    let Some(systemd) = suite.systemd else { return };
    if !rustix::process::geteuid().is_root() {
        return skip_suite(suite, "no disk can be made", "it takes root");
    }
    println!("\n== {NAME}, {suite}, systemd {systemd}");
    let debian = match Debian::fetch(
        suite,
        kernel,
        &target.join("vm").join(format!("{}-disk", suite.name)),
        debian::PACKAGES,
    ) {
        Ok(debian) => debian,
        Err(why) => return skip_suite(suite, "no packages can be had", &why.to_string()),
    };
    let began = std::time::Instant::now();
    match debian.run(programs).map_err(|error| error.to_string()) {
        Ok(()) => println!("== passed in {} s", began.elapsed().as_secs()),
        // The C library of this machine is newer.
        Err(why) if why.starts_with("VM 77 ") => skip_suite(suite, "not of this machine", &why),
        Err(error) => {
            println!("== FAILED: {error}");
            failures.push(format!("{suite}, systemd: {error}"));
        }
    }
}

pub(crate) fn missing<'a>(mut tools: impl Iterator<Item = &'a (&'a str, &'a str)>) -> Option<(Kind, String)> {
    if std::env::consts::ARCH != "x86_64" {
        return Some((Kind::Surroundings, "they are made for x86_64".to_owned()));
    }
    let (program, package) = tools.find(|tool| !crate::test_packages::has_program(tool.0))?;
    Some((Kind::Missing, format!("there is no {program} (Debian: {package})")))
}

/// The server and the example worker, stripped: the machine has them in memory.
pub(crate) fn programs(target: &Path) -> Result<Vec<PathBuf>> {
    crate::test::built()?;
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
