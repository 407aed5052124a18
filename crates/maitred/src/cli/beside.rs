//! `maitred import nginx FILE --compare`: nginx and an import of the same copy side by side on loopback, and the differences that
//! `maitred-load compare` finds between them.

mod process;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use maitred_import as import;
use maitred_sys::signals::Signals;
use maitred_sys::spawn::Exit as Ended;
use rustix::event::Timespec;

use super::exit::Error;
use process::Process;

/// How long a server may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How often it is looked whether a server listens.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// What may differ, each with the reason.
const ALLOWED: &str = include_str!("nginx.allow");

/// What the user of a copy says: `user`, with its password (RFC 7617 section 2).
const AUTHORIZATION: &str = "Basic dXNlcjpwYXNzd29yZA==";

/// What a comparison has found.
pub(super) struct Found {
    /// As `maitred-load compare` prints it.
    pub(super) text: String,
    /// Whether there are differences.
    pub(super) differs: bool,
}

/// Compares both on a copy of the configuration.
///
/// # Errors
/// Why that cannot be done.
pub(super) fn compare(files: &[PathBuf], root: Option<&Path>) -> Result<Found, Error> {
    let nginx = program("nginx", &["/usr/sbin", "/usr/local/sbin"]).ok_or_else(|| {
        Error::failed("there is no nginx to compare with", "install it, such as Debian's nginx-light")
    })?;
    let own = std::env::current_exe().unwrap_or_else(|_| "maitred".into());
    let beside = own.parent().map(|directory| directory.display().to_string()).unwrap_or_default();
    let load = program("maitred-load", &[&beside]).ok_or_else(|| {
        Error::failed("there is no maitred-load", "it is beside maitred in packages and in target/release")
    })?;
    let ports = import::nginx_ports(files, root).map_err(unreadable)?;
    let directory = Directory::new()?;
    // The ports of both are taken until both have theirs.
    let mut taken = Vec::new();
    let left = Side::new("nginx", &directory, &ports, &mut taken)?;
    let right = Side::new("maitred", &directory, &ports, &mut taken)?;
    drop(taken);
    let copies = [&left, &right].map(|side| import::nginx_copy(files, root, &side.stage));
    let [left_copy, right_copy] = copies;
    // What is asked is made from the configured ports.
    let configured =
        import::Stage { ports: ports.keys().map(|port| (*port, *port)).collect(), ..left.stage.clone() };
    let asked = import::nginx_copy(files, root, &configured).map_err(unreadable)?;
    write(&left.file("asked.conf"), &asked)?;
    write(&left.file("nginx.conf"), &as_root(&left_copy.map_err(unreadable)?))?;
    write(&right.file("nginx.conf"), &right_copy.map_err(unreadable)?)?;
    let imported = import::nginx(&[right.file("nginx.conf")], None).map_err(unreadable)?;
    write(&right.file("maitred.toml"), &imported.text)?;
    let signals = Signals::block().map_err(|why| Error::failed(why, "signals are needed to end well"))?;
    let words = |all: &[&str]| all.iter().map(OsString::from).collect::<Vec<_>>();
    let shown = |path: PathBuf| path.display().to_string();
    let prefix = shown(left.directory().to_owned());
    let arguments =
        words(&["-p", &prefix, "-e", &shown(left.file("error.log")), "-c", &shown(left.file("nginx.conf"))]);
    let _left = Server::start((&nginx, &arguments), "nginx", (&left, &signals))?;
    let arguments = words(&["run", "-c", &shown(right.file("maitred.toml"))]);
    let _right = Server::start((&own, &arguments), "maitred", (&right, &signals))?;
    ask((&load, &signals), &ports, &left, &right)
}

fn unreadable(why: String) -> Error {
    Error::failed(why, "name a file of nginx, or a part of one")
}

/// A program of this name, in `PATH` or in one of these directories.
fn program(name: &str, directories: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).collect::<Vec<_>>();
    let all = directories.iter().map(PathBuf::from).chain(in_path);
    all.map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// A new directory, which goes at the end with all that is in it. Processes of other accounts read what is there.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Result<Directory, Error> {
        let base = std::env::temp_dir();
        let named = |number: u32| base.join(format!("maitred-compare-{}-{number}", std::process::id()));
        let create = |path: &PathBuf| std::fs::DirBuilder::new().mode(0o755).create(path);
        let found = (0..100).map(named).find(|path| create(path).is_ok());
        found.map(Directory).ok_or_else(|| {
            let why = format!("cannot make a directory in {}", base.display());
            Error::failed(why, "name another directory in TMPDIR")
        })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One of the servers, with its copy.
struct Side {
    stage: import::Stage,
}

impl Side {
    fn new(
        name: &str,
        directory: &Directory,
        ports: &BTreeMap<u16, bool>,
        taken: &mut Vec<TcpListener>,
    ) -> Result<Side, Error> {
        let files = directory.0.join("files");
        let directory = directory.0.join(name);
        let file = |name: &str| directory.join(name);
        std::fs::create_dir_all(&directory).map_err(|why| cannot_write(&directory, &why))?;
        let mut numbers = Vec::with_capacity(ports.len() + 1);
        for _ in 0..=ports.len() {
            let listener = free_port()?;
            numbers.extend(listener.local_addr().map(|address| address.port()));
            taken.push(listener);
        }
        let mut numbers = numbers.into_iter();
        let application = SocketAddr::from((Ipv4Addr::LOCALHOST, numbers.next().unwrap_or_default()));
        let ports = ports.keys().copied().zip(numbers).collect();
        let names = vec!["localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names)
            .map_err(|why| Error::failed(why, "there have to be random numbers"))?;
        write(&file("certificate.pem"), &made.cert.pem())?;
        write(&file("key.pem"), &made.signing_key.serialize_pem())?;
        let certificate = (file("certificate.pem"), file("key.pem"));
        Ok(Side { stage: import::Stage { directory, files, application, ports, certificate } })
    }

    fn directory(&self) -> &Path {
        &self.stage.directory
    }

    fn file(&self, name: &str) -> PathBuf {
        self.stage.directory.join(name)
    }
}

/// The ports that are tried, below those that the kernel gives to others meanwhile (`ip_local_port_range` of tcp(7)).
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// How far apart comparisons begin with them.
const PORTS_APART: u32 = 61;

/// A port that is free.
fn free_port() -> Result<TcpListener, Error> {
    let count = u32::from(PORTS.end - PORTS.start);
    let begin = PORTS.start + (std::process::id().wrapping_mul(PORTS_APART) % count) as u16;
    let mut all = (begin..PORTS.end).chain(PORTS.start..begin);
    let bound = all.find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
    bound.ok_or_else(|| Error::failed("no port is free on loopback", "end what listens there"))
}

fn cannot_write(path: &Path, why: &std::io::Error) -> Error {
    Error::failed(format!("cannot write {}: {why}", path.display()), "name another directory in TMPDIR")
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|why| cannot_write(path, &why))
}

/// As root, nginx would serve as an account that may not read what it needs.
fn as_root(copy: &str) -> String {
    match rustix::process::geteuid().is_root() {
        true => format!("user root root;\n{copy}"),
        false => copy.to_owned(),
    }
}

/// A server of the comparison.
struct Server(Process);

impl Server {
    /// Starts it, and waits until it listens.
    fn start(
        (program, arguments): (&Path, &[OsString]),
        name: &str,
        (side, signals): (&Side, &Signals),
    ) -> Result<Server, Error> {
        let log = side.file("output");
        let output = std::fs::File::create(&log).map_err(|why| cannot_write(&log, &why))?;
        let server = Server(Process::start(program, arguments, (&output, &output))?);
        let started = Instant::now();
        while !listens(side) {
            if server.0.ended().is_some() || started.elapsed() > START_TIMEOUT {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                let said =
                    [said, std::fs::read_to_string(side.file("error.log")).unwrap_or_default()].concat();
                let last: Vec<&str> = said.lines().rev().take(5).collect();
                let why =
                    format!("{name} does not start on a copy of the configuration: {}", last.join("; "));
                return Err(Error::failed(why, "compare by hand: docs/compare.md"));
            }
            server.0.wait(signals, Some(&LOOK_EVERY))?;
        }
        Ok(server)
    }
}

fn listens(side: &Side) -> bool {
    side.stage.ports.values().all(|port| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
        TcpStream::connect_timeout(&address, START_TIMEOUT).is_ok()
    })
}

/// What stands in front of [`ALLOWED`] on its page.
const DIFFERENCES: &str = "\
# What an import of nginx's configuration answers in another way

`maitred import nginx FILE --compare` accepts these differences, each with its reason; all others are reported
([from-nginx.md](from-nginx.md)). Kinds are those of [`maitred-load compare`](compare.md): nginx is the left server, the import
the right one, `*` stands for any text. Accepted as well are: directories without an index of the configuration, which are
nothing, or the next item of `try` (301 or 403 at the left, 404 or 200 at the right); what is said of caches for an index, which
holds for that name in every directory; the pages of a configuration whose `error_page` is a script; and 304 where one says
`if_modified_since off`.

| difference | paths | because |
|---|---|---|
";

/// [`ALLOWED`] as a page of the documents.
pub(super) fn differences_page() -> String {
    let mut page = DIFFERENCES.to_owned();
    let mut last = "";
    for line in ALLOWED.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let (what, reason) = line.split_once('#').unwrap_or((line, ""));
        let (kind, path) = what.trim().split_once(" at ").unwrap_or((what.trim(), ""));
        if reason.trim() != "the same" {
            last = reason.trim();
        }
        let path = if path.is_empty() { String::new() } else { format!("`{}`", path.trim()) };
        page.push_str(&format!("| `{}` | {path} | {last} |\n", kind.trim()));
    }
    page
}

/// What may differ: the list, directories of the copy, and pages for errors that are scripts.
fn allowances(asked: &str) -> String {
    let mut text = ALLOWED.to_owned();
    let is_script = |line: &str| line.trim_start().starts_with("error_page ") && line.contains(".php");
    if asked.lines().any(is_script) {
        for kind in [
            "application: request missing on the right",
            "body of 404 differs",
            "error: field content-type *",
        ] {
            text.push_str(&format!("{kind} # an error page is no script\n"));
        }
    }
    if asked.contains("if_modified_since off") {
        text.push_str(
            "status 200 -> 304 # what has not changed since is not sent again (RFC 9110 section 13.1.3)\n",
        );
    }
    for directory in import::nginx_directories() {
        for (kind, end) in [
            ("status 301 -> 404", ""),
            ("status 301 -> 200", ""),
            ("status 403 -> 404", "/"),
            ("status 403 -> 200", "/"),
        ] {
            text.push_str(&format!(
                "{kind} at */{directory}{end} # a directory without an index is nothing\n"
            ));
        }
        text.push_str(&format!(
            "field cache-control missing on the left at */{directory}/ # what is said of an index holds in every directory\n"
        ));
    }
    text
}

/// Has `maitred-load` ask both.
fn ask(
    (load, signals): (&Path, &Signals),
    ports: &BTreeMap<u16, bool>,
    left: &Side,
    right: &Side,
) -> Result<Found, Error> {
    let arguments = arguments(ports, left, right)?;
    let (said, wrong) = (left.file("compared"), left.file("failed"));
    let create = |path: &PathBuf| std::fs::File::create(path).map_err(|why| cannot_write(path, &why));
    let program = Process::start(load, &arguments, (&create(&said)?, &create(&wrong)?))?;
    let exit = loop {
        match program.ended() {
            Some(exit) => break exit,
            None => program.wait(signals, None)?,
        }
    };
    let text =
        |path: &PathBuf| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    // Most of what may differ does not in most comparisons.
    let said = text(&said);
    let kept = said.lines().filter(|line| !line.contains("of the accepted differences matched nothing"));
    let kept = kept.fold(String::new(), |text, line| text + line + "\n");
    match exit {
        Ended::Status(0) => Ok(Found { text: kept, differs: false }),
        Ended::Status(3) => Ok(Found { text: kept, differs: true }),
        _ => Err(Error::failed(
            format!("the comparison failed: {}", text(&wrong).trim()),
            "compare by hand: docs/compare.md",
        )),
    }
}

fn arguments(ports: &BTreeMap<u16, bool>, left: &Side, right: &Side) -> Result<Vec<OsString>, Error> {
    let here = |side: &Side, port: u16| side.stage.ports.get(&port).copied().unwrap_or_default();
    let (port, tls) = ports
        .iter()
        .find(|(_, tls)| !**tls)
        .or(ports.iter().next())
        .map(|(port, tls)| (*port, *tls))
        .ok_or_else(|| Error::failed("no server of it listens", "name a configuration with a `server`"))?;
    let url =
        |side: &Side| format!("{}://127.0.0.1:{}", if tls { "https" } else { "http" }, here(side, port));
    let asked = left.file("asked.conf");
    let configuration = std::fs::read_to_string(&asked).unwrap_or_default();
    let allowed = left.file("allowed");
    write(&allowed, &allowances(&configuration))?;
    let mut all: Vec<OsString> =
        ["compare", "--echo", "--rate", "5000", "--threads", "2"].iter().map(OsString::from).collect();
    let mut pair = |name: &str, value: OsString| all.extend([OsString::from(name), value]);
    pair("--left", url(left).into());
    pair("--right", url(right).into());
    pair("--echo-left", left.stage.application.to_string().into());
    pair("--echo-right", right.stage.application.to_string().into());
    pair("--allow", allowed.into());
    pair("--from", asked.into());
    if configuration.contains("auth_basic_user_file ") {
        pair("--authorization", AUTHORIZATION.into());
    }
    for port in ports.keys() {
        pair("--map-port", format!("{port}={},{}", here(left, *port), here(right, *port)).into());
    }
    if tls {
        all.push("--insecure".into());
    }
    Ok(all)
}
