//! `cargo xtask vm-test`: named cases in whole Debian machines with systemd as process 1. Each kind of machine is booted once for
//! each release, and runs its cases one after the other; a table at the end says what has passed, failed or was skipped, and why.
//! The processor is emulated, so nothing is judged by its speed.

mod kernel_tls;
mod package;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::Result;
use crate::skips::{Kind, skip};
use crate::test_vm::debian::Debian;
use crate::test_vm::kernels::{Kernel, SUITES, Suite};
use crate::test_vm::{DISK_TOOLS, TOOLS, missing, programs};

/// Which cases to run.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only this release of Debian
    #[arg(long)]
    suite: Option<String>,
    /// Only the case of this name
    #[arg(long)]
    case: Option<String>,
    /// The package to install, instead of one that is made from `pkg/` and the debug build
    #[arg(long)]
    deb: Option<PathBuf>,
    /// Say which cases there are, and run none
    #[arg(long)]
    list: bool,
    /// Leave out what takes long and finds little
    #[arg(long)]
    short: bool,
}

/// A kind of machine.
struct Machine {
    name: &'static str,
    /// More arguments for QEMU.
    arguments: &'static [&'static str],
    /// More words for the kernel.
    words: &'static str,
    cases: &'static [Case],
}

/// A script that is run by bash after `lib.sh`.
struct Case {
    name: &'static str,
    script: &'static str,
    /// The script's `$1`.
    argument: &'static str,
    about: &'static str,
}

const fn case(name: &'static str, script: &'static str, argument: &'static str, about: &'static str) -> Case {
    Case { name, script, argument, about }
}

const FILES: &str = include_str!("../vm/cases/files.sh");
const MACHINES: &[Machine] = &[
    Machine {
        name: "two processors",
        arguments: &["-smp", "2", "-m", "1024"],
        words: "",
        cases: &[
            case(
                "package",
                include_str!("../vm/cases/package.sh"),
                "",
                "install, start, reload, restart, rotation of logs, stop",
            ),
            case("modules", include_str!("../vm/cases/modules.sh"), "", "a module in the installed package"),
            case("security", include_str!("../vm/cases/security.sh"), "", "the rating of the unit"),
            case("upgrade", include_str!("../vm/cases/upgrade.sh"), "", "a newer package under load"),
            case("remove", include_str!("../vm/cases/remove.sh"), "", "removal and purge"),
            case("socket", include_str!("../vm/cases/socket.sh"), "", "socket activation"),
            case("files-ext4", FILES, "ext4", "files and the cache's store"),
            case("files-xfs", FILES, "xfs", "files and the cache's store"),
            case("files-btrfs", FILES, "btrfs", "files and the cache's store"),
            case("files-overlay", FILES, "overlay", "files and the cache's store"),
            case(
                "netem",
                include_str!("../vm/cases/netem.sh"),
                "",
                "HTTP/1.1, HTTP/2 and HTTP/3 with delay and loss",
            ),
            case("ktls", include_str!("../vm/cases/ktls.sh"), "", "TLS in the kernel"),
        ],
    },
    Machine {
        name: "eight processors, two nodes",
        arguments: &[
            "-smp",
            "8",
            "-m",
            "1024",
            "-object",
            "memory-backend-ram,id=m0,size=512M",
            "-object",
            "memory-backend-ram,id=m1,size=512M",
            "-numa",
            "node,nodeid=0,cpus=0-3,memdev=m0",
            "-numa",
            "node,nodeid=1,cpus=4-7,memdev=m1",
        ],
        words: "",
        cases: &[
            case("numa", include_str!("../vm/cases/numa.sh"), "", "threads, homes, nodes of buckets"),
            case("evenness", include_str!("../vm/cases/evenness.sh"), "", "every thread gets connections"),
            case("quota", include_str!("../vm/cases/quota.sh"), "", "cpu.max and the mask of processors"),
        ],
    },
    Machine {
        name: "no IPv6",
        arguments: &["-smp", "2", "-m", "768"],
        words: "ipv6.disable=1",
        cases: &[case(
            "no-ipv6",
            include_str!("../vm/cases/no-ipv6.sh"),
            "",
            "IPv4 only, and the error of an IPv6 address",
        )],
    },
];
const PACKAGES: &str = "systemd-sysv,dbus,curl,procps,iproute2,kmod,util-linux,e2fsprogs,xfsprogs,btrfs-progs,openssl,python3,logrotate";
/// A client of HTTP/3, by the name that it has in [`TESTED`].
const HTTP3_CLIENT: &str = "ngtcp2-client";
/// Seconds until a machine that hangs is stopped; a case has a limit of its own in `run.sh`.
const SECONDS_MAX: &str = "1800";

/// A case that takes a minute, of what changes rarely: it is no part of `cargo xtask test`.
const LONG: &str = "evenness";

/// The release whose cases are a part of `cargo xtask test`: four minutes, where both take eight.
const TESTED: &str = "bookworm";

/// A part of the tests: all cases of one release, or why not.
pub(crate) fn test(target: &Path) -> Result<()> {
    const NAME: &str = "whole Debian machines";
    if let Some((kind, why)) = missing(TOOLS.iter().chain(DISK_TOOLS)) {
        skip(kind, NAME, &why);
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        skip(Kind::Surroundings, NAME, "their disks can be made by root only");
        return Ok(());
    }
    for suite in SUITES.iter().filter(|suite| suite.name == TESTED) {
        // Whether a mirror has what a disk is made of is not up to the machine that runs the tests.
        if let Err(why) = machine_of(target, suite) {
            skip(Kind::Surroundings, NAME, &format!("{suite} cannot be had: {why}"));
            return Ok(());
        }
    }
    run(
        target,
        &Arguments { suite: Some(TESTED.to_owned()), case: None, deb: None, list: false, short: true },
    )
}

/// The machine's kernel and its disk, made the first time.
fn machine_of(target: &Path, suite: &Suite) -> Result<Debian> {
    let kernel = Kernel::fetch(suite, &target.join("vm").join(suite.name))?;
    let packages = match suite.name {
        TESTED => format!("{PACKAGES},{HTTP3_CLIENT}"),
        _ => PACKAGES.to_owned(),
    };
    Debian::fetch(suite, kernel, &target.join("vm").join(format!("{}-cases", suite.name)), &packages)
}

/// What has become of a case.
struct Outcome {
    name: String,
    word: &'static str,
    seconds: String,
    why: String,
}

/// Runs what was asked for.
///
/// # Errors
/// When a case has failed, or there is none of that name.
pub(crate) fn run(target: &Path, wanted: &Arguments) -> Result<()> {
    let is_wanted = |case: &&Case| {
        let named = wanted.case.as_ref().is_none_or(|one| one == case.name);
        named && !(wanted.short && case.name == LONG)
    };
    if wanted.list {
        for (machine, case) in
            MACHINES.iter().flat_map(|machine| machine.cases.iter().map(move |case| (machine, case)))
        {
            println!("{:14} {} ({})", case.name, case.about, machine.name);
        }
        return Ok(());
    }
    let suites = || {
        let tested = SUITES.iter().filter(|suite| suite.systemd.is_some());
        tested.filter(|suite| wanted.suite.as_ref().is_none_or(|one| one == suite.name))
    };
    if suites().next().is_none() {
        return Err("there is no such release: bookworm and trixie are tested".into());
    }
    if !MACHINES.iter().any(|machine| machine.cases.iter().any(|case| is_wanted(&case))) {
        return Err("there is no case of this name: `cargo xtask vm-test --list` says which there are".into());
    }
    if let Some((_, why)) = missing(TOOLS.iter().chain(DISK_TOOLS)) {
        return Err(format!("{why}: install it").into());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("the disks of the machines can be made by root only: run it as root".into());
    }
    let programs = programs(target)?;
    let debs = package::make(target, &programs, wanted.deb.as_deref())?;
    let mut outcomes = Vec::new();
    for suite in suites() {
        let debian = machine_of(target, suite)?;
        for machine in MACHINES {
            let cases: Vec<&Case> = machine.cases.iter().filter(is_wanted).collect();
            if !cases.is_empty() {
                outcomes.extend(run_machine(&debian, suite, machine, &cases, &programs, &debs)?);
            }
        }
    }
    report(target, &outcomes)
}

fn run_machine(
    debian: &Debian,
    suite: &Suite,
    machine: &Machine,
    cases: &[&Case],
    programs: &[PathBuf],
    debs: &[PathBuf],
) -> Result<Vec<Outcome>> {
    println!("\n== {suite}, {}", machine.name);
    let began = Instant::now();
    let console = debian
        .boot(machine.arguments, machine.words, SECONDS_MAX, |root| install(root, cases, programs, debs))?;
    let ended = console.result().err().map_or_else(String::new, |error| error.to_string());
    let outcomes: Vec<Outcome> =
        cases.iter().map(|case| judge(suite, case.name, &console.said, &ended)).collect();
    if outcomes.iter().any(|outcome| outcome.word == "FAILED") {
        println!("{}", console.said);
    }
    println!("== {} s with the boot", began.elapsed().as_secs());
    Ok(outcomes)
}

/// A line `CASE NAME STATUS SECONDS REASON` of the console, or else why there is none.
fn judge(suite: &Suite, name: &str, said: &str, ended: &str) -> Outcome {
    let words = said.lines().rev().find_map(|line| {
        let mut words = line.split_once("CASE ")?.1.splitn(4, ' ');
        (words.next()? == name).then(|| (words.next(), words.next(), words.next()))
    });
    let (word, seconds, why) = match words {
        Some((Some("0"), Some(seconds), _)) => ("passed", seconds, ""),
        Some((Some("77"), Some(seconds), why)) => ("skipped", seconds, why.unwrap_or_default()),
        Some((_, seconds, why)) => ("FAILED", seconds.unwrap_or("?"), why.unwrap_or_default()),
        None => ("FAILED", "?", ended),
    };
    Outcome {
        name: format!("{}, {name}", suite.name),
        word,
        seconds: seconds.to_owned(),
        why: why.trim().to_owned(),
    }
}

fn install(root: &Path, cases: &[&Case], programs: &[PathBuf], debs: &[PathBuf]) -> Result<()> {
    let mut files = vec![
        ("test.sh".to_owned(), include_str!("../vm/cases/run.sh")),
        ("etc/systemd/system/test.service".to_owned(), include_str!("../vm/debian/test.service")),
        ("cases/lib.sh".to_owned(), include_str!("../vm/cases/lib.sh")),
        ("cases/unprivileged.conf".to_owned(), include_str!("../../pkg/unprivileged.conf")),
    ];
    files.extend(cases.iter().map(|case| (format!("cases/{}.sh", case.name), case.script)));
    let list: Vec<String> = cases.iter().map(|case| format!("{} {}\n", case.name, case.argument)).collect();
    let list = list.concat();
    files.push(("cases/list".to_owned(), &list));
    for (name, text) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        fs::write(path, text)?;
    }
    if cases.iter().any(|case| case.name == "ktls") {
        kernel_tls::install(root)?;
    }
    let module = crate::target().join("debug/examples/libhello.so");
    for file in programs.iter().chain(debs).chain([&module]) {
        fs::copy(file, root.join("cases").join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Says what has become of all, also in a file.
fn report(target: &Path, outcomes: &[Outcome]) -> Result<()> {
    let lines: Vec<String> = outcomes
        .iter()
        .map(|outcome| {
            format!("{:8} {:24} {:>4} s  {}\n", outcome.word, outcome.name, outcome.seconds, outcome.why)
        })
        .collect();
    let path = target.join("vm/report.txt");
    fs::write(&path, lines.concat())?;
    println!("\n{}({})", lines.concat(), path.display());
    match outcomes.iter().filter(|outcome| outcome.word == "FAILED").count() {
        0 => Ok(()),
        failed => Err(format!("{failed} cases of {} failed", outcomes.len()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_without_a_line_has_failed() {
        let said = "CASE a 0 3\nCASE b 77 1 no module\n[  1.0] CASE c 1 2 bad file\n";
        let seen = |name| {
            let outcome = judge(&SUITES[1], name, said, "no result");
            (outcome.word, outcome.seconds, outcome.why)
        };
        let outcome = |word, seconds: &str, why: &str| (word, seconds.to_owned(), why.to_owned());
        assert_eq!(seen("a"), outcome("passed", "3", ""));
        assert_eq!(seen("b"), outcome("skipped", "1", "no module"));
        assert_eq!(seen("c"), outcome("FAILED", "2", "bad file"));
        assert_eq!(seen("d"), outcome("FAILED", "?", "no result"));
    }
}
