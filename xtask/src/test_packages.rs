//! What tests need beyond Rust and a C compiler: Debian's packages of what is not there. A package that cannot be had ends
//! nothing: the tests that need it say so, and are skipped.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;
use crate::step::step;

/// How to see whether something is there.
enum Sign {
    /// A program in `PATH`.
    Program(&'static str),
    /// A file in this directory whose name begins and ends so; in between stands a version.
    File(&'static str, &'static str, &'static str),
    /// A module of whichever Python `python3` is.
    Module(&'static str),
}

use Sign::{File, Module, Program};

/// Apache's module of PHP.
const PHP_MODULE: Sign = File("/usr/lib/apache2/modules", "libphp", ".so");
/// Names of steps, what they need, and the Debian package that has it.
#[rustfmt::skip]
const NEEDED: &[(&str, Sign, &str)] = &[
    ("tests counts", Program("strace"), "strace"),
    ("tests instructions", Program("valgrind"), "valgrind"),
    ("go h2spec tests programs go-frameworks http3 dist", Program("go"), "golang-go"),
    ("rules tests", Program("git"), "git"),
    ("python", Program("python3"), "python3"),
    ("programs python-frameworks http2 http3 cache-tests dist installed trials", Module("ensurepip"), "python3-venv"),
    ("programs http2 http3 trials", Program("chromium"), "chromium"),
    ("http3", Program("firefox-esr"), "firefox-esr"),
    ("http3", Program("certutil"), "libnss3-tools"),
    ("h2spec http2 http3 apache-sites trials", Program("openssl"), "openssl"),
    ("tests apache-sites python http2", Program("curl"), "curl"),
    ("tests", Program("zsh"), "zsh"),
    ("tests", Program("fish"), "fish"),
    ("tests", Program("systemd-analyze"), "systemd"),
    ("http2", Program("nghttp"), "nghttp2-client"),
    ("http3", Program("gtlsclient"), "ngtcp2-client"),
    ("apache programs", Program("make"), "make"),
    // Without the package `apache2`, which would start a server of its own.
    ("tests apache apache-sites programs", Program("apache2"), "apache2-bin"),
    ("apache apache-sites programs", Program("apxs"), "apache2-dev"),
    ("apache-sites programs", PHP_MODULE, "libapache2-mod-php"),
    ("tests programs", Program("php-cgi"), "php-cgi"),
    // Debian's name of the program ends with PHP's version.
    ("tests apache-sites", File("/usr/sbin", "php-fpm", ""), "php-fpm"),
    ("tests", Program("fcgiwrap"), "fcgiwrap"),
    ("tests programs", Program("nginx"), "nginx-light"),
    ("tests node node-frameworks programs cache-tests installed", Program("node"), "nodejs"),
    ("node node-frameworks programs cache-tests installed", Program("npm"), "npm"),
    ("programs", Program("knotd"), "knot"),
    ("programs", Program("promtool"), "prometheus"),
    ("tests", Program("man"), "man-db"),
    ("tests", Program("script"), "bsdutils"),
    ("tests", Program("bash"), "bash"),
    ("vm vm-test", Program("qemu-system-x86_64"), "qemu-system-x86"),
    ("vm vm-test", Program("busybox"), "busybox-static"),
    ("vm vm-test", Program("cpio"), "cpio"),
    ("vm-test containers", Program("mmdebstrap"), "mmdebstrap"),
    ("vm-test", Program("mkfs.ext4"), "e2fsprogs"),
    ("vm vm-test", Program("xz"), "xz-utils"),
    ("tests", Program("haproxy"), "haproxy"),
    ("dist installed containers vm vm-test", Program("strip"), "binutils"),
    ("containers", Program("buildah"), "buildah"),
    ("dist", Program("lintian"), "lintian"),
    ("programs dist", Program("rpmbuild"), "rpm"),
    ("dist", Program("rpm2cpio"), "rpm2cpio"),
    ("programs dist", Program("skopeo"), "skopeo"),
    ("dist containers", File("/etc/ssl/certs", "ca-certificates", ".crt"), "ca-certificates"),
];
/// For administrators' programs, which `PATH` need not have.
const MORE_DIRECTORIES: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];
/// Another apt at work (a machine that updates itself at its start) has to end first.
const LOCK: &str = "DPkg::Lock::Timeout=300";
/// Apt keeps what it has downloaded, so that asking again is for the rest only.
const TRIES: &str = "Acquire::Retries=3";
/// What is only recommended is half as much again, and starts servers (PHP's module recommends the package `apache2`).
const INSTALL: [&str; 4] = ["install", "-y", "-qq", "--no-install-recommends"];

impl Sign {
    fn is_there(&self) -> bool {
        match *self {
            Program(name) => has_program(name),
            File(directory, begin, end) => std::fs::read_dir(directory).is_ok_and(|entries| {
                let mut names =
                    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
                names.any(|name| name.starts_with(begin) && name.ends_with(end))
            }),
            Module(name) => {
                let mut python = Command::new("python3");
                python.args(["-c", &format!("import {name}")]);
                python
                    .stdin(Stdio::null())
                    .stderr(Stdio::null())
                    .status()
                    .is_ok_and(|status| status.success())
            }
        }
    }
}

/// Whether Apache can run PHP.
pub(crate) fn has_php_module() -> bool {
    PHP_MODULE.is_there()
}

/// Whether there is a program of this name.
#[must_use]
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = MORE_DIRECTORIES.iter().map(|directory| directory.into());
    std::env::split_paths(&path).chain(more).any(|directory| directory.join(name).is_file())
}

/// Installs what a step misses, where that is possible.
pub(crate) fn install_for(step: &str) {
    let needed = NEEDED.iter().filter(|(steps, ..)| steps.split(' ').any(|name| name == step));
    let missing: Vec<_> =
        needed.filter(|(_, sign, _)| !sign.is_there()).map(|(.., package)| *package).collect();
    install(&missing);
}

/// Installs these packages, where that is possible.
pub fn install(missing: &[&str]) {
    if missing.is_empty() {
        return;
    }
    println!("== installing {}", missing.join(", "));
    // Steps beside this one install, too, and apt-get does not wait for the lists of packages. Held until it is dropped.
    let _turn = turn().inspect_err(|error| println!("not in turn: {error}"));
    if !rustix::process::geteuid().is_root() || !Path::new("/usr/bin/apt-get").exists() {
        println!("not possible here (it takes root and apt-get); tests that need them are skipped");
        return;
    }
    // A source that does not answer leaves the lists of the others.
    if let Err(why) = apt("apt-get update", &["update", "-qq"]) {
        println!("{why}; going on with the lists that are here");
    }
    if apt("apt-get install", &[&INSTALL[..], missing].concat()).is_ok() {
        return;
    }
    // A package that cannot be had keeps apt from installing the others.
    for &package in missing {
        if let Err(why) = apt(&format!("apt-get install {package}"), &[&INSTALL[..], &[package]].concat()) {
            println!("{why}; tests that need it are skipped");
        }
    }
}

/// Waits for other steps that install packages.
fn turn() -> Result<std::fs::File> {
    let directory = crate::test::times::directory();
    std::fs::create_dir_all(&directory)?;
    let file = std::fs::File::create(directory.join("packages.lock"))?;
    file.lock()?;
    Ok(file)
}

fn apt(name: &str, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(["-o", LOCK, "-o", TRIES]).args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    step(name, &mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_for_known_steps() {
        for (steps, _, package) in NEEDED {
            for step in steps.split(' ') {
                assert!(crate::test::table::find(step).is_some(), "{package}: no step {step}");
            }
        }
    }

    #[test]
    fn programs_files_and_modules_are_seen() {
        assert!(Program("sh").is_there());
        assert!(!Program("no such program").is_there());
        assert!(File("/proc/self", "sta", "us").is_there());
        assert!(!File("/proc/self", "sta", "x").is_there());
        assert!(!File("/no such directory", "", "").is_there());
        assert!(Module("sys").is_there());
        assert!(!Module("no_such_module").is_there());
    }
}
