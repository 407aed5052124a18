//! `maitred import nginx FILE --compare`: nginx and an import of the same copy side by side on loopback, and the differences that
//! `maitred-load compare` finds between them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use maitred_import as import;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::exit::Error;

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
    let (left, right) = (Side::new("nginx", &directory, &ports)?, Side::new("maitred", &directory, &ports)?);
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
    let mut nginx = Command::new(nginx);
    nginx.arg("-p").arg(left.directory()).arg("-e").arg(left.file("error.log"));
    let _left = Server::start(nginx.arg("-c").arg(left.file("nginx.conf")), "nginx", &left)?;
    let mut maitred = Command::new(own);
    let _right =
        Server::start(maitred.arg("run").arg("-c").arg(right.file("maitred.toml")), "maitred", &right)?;
    ask(&load, &ports, &left, &right)
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
    fn new(name: &str, directory: &Directory, ports: &BTreeMap<u16, bool>) -> Result<Side, Error> {
        let files = directory.0.join("files");
        let directory = directory.0.join(name);
        let file = |name: &str| directory.join(name);
        std::fs::create_dir_all(&directory).map_err(|why| cannot_write(&directory, &why))?;
        // All at once, so that no two are the same.
        let free: Vec<TcpListener> = (0..=ports.len()).map(|_| free_port()).collect::<Result<_, _>>()?;
        let mut numbers = free.iter().filter_map(|listener| Some(listener.local_addr().ok()?.port()));
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

fn free_port() -> Result<TcpListener, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .map_err(|why| Error::failed(why, "there has to be a free port"))
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

/// A server that ends with this.
struct Server(Child);

impl Server {
    fn start(command: &mut Command, name: &str, side: &Side) -> Result<Server, Error> {
        let log = side.file("output");
        let output = std::fs::File::create(&log).map_err(|why| cannot_write(&log, &why))?;
        let errors = output.try_clone().map_err(|why| cannot_write(&log, &why))?;
        let command = command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command
            .spawn()
            .map_err(|why| Error::failed(format!("{name}: {why}"), "it has to be executable"))?;
        let mut server = Server(child);
        let started = Instant::now();
        while !server.listens(side) {
            let ended = server.0.try_wait().ok().flatten().is_some();
            if ended || started.elapsed() > START_TIMEOUT {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                let said =
                    [said, std::fs::read_to_string(side.file("error.log")).unwrap_or_default()].concat();
                let last: Vec<&str> = said.lines().rev().take(5).collect();
                let why =
                    format!("{name} does not start on a copy of the configuration: {}", last.join("; "));
                return Err(Error::failed(why, "compare by hand: docs/compare.md"));
            }
            server.wait_for_end();
        }
        Ok(server)
    }

    /// Waits until the process has ended, for a moment at most.
    fn wait_for_end(&self) {
        let pid = Pid::from_raw(self.0.id().cast_signed());
        let Some(Ok(ends)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return };
        let _ = poll(&mut [PollFd::new(&ends, PollFlags::IN)], Some(&LOOK_EVERY));
    }

    fn listens(&self, side: &Side) -> bool {
        side.stage.ports.values().all(|port| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            TcpStream::connect_timeout(&address, START_TIMEOUT).is_ok()
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

/// [`ALLOWED`] as a page of the documents.
pub(super) fn differences_page() -> String {
    let mut page = "# What an import of nginx's configuration answers in another way\n\n\
        `maitred import nginx FILE --compare` accepts these differences, each with its reason; all others are reported\n\
        ([from-nginx.md](from-nginx.md)). Kinds are those of [`maitred-load compare`](compare.md): nginx is the left server, the import\n\
        the right one, `*` stands for any text. Accepted as well are: directories without an index of the configuration, which are\n\
        nothing, or the next item of `try` (301 or 403 at the left, 404 or 200 at the right); what is said of caches for an index, which\n\
        holds for that name in every directory; and the pages of a configuration whose `error_page` is a script.\n\n\
        | difference | paths | because |\n|---|---|---|\n"
        .to_owned();
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
fn ask(load: &Path, ports: &BTreeMap<u16, bool>, left: &Side, right: &Side) -> Result<Found, Error> {
    let here = |side: &Side, port: u16| side.stage.ports.get(&port).copied().unwrap_or_default();
    let (port, tls) = ports
        .iter()
        .find(|(_, tls)| !**tls)
        .or(ports.iter().next())
        .map(|(port, tls)| (*port, *tls))
        .ok_or_else(|| Error::failed("no server of it listens", "name a configuration with a `server`"))?;
    let url =
        |side: &Side| format!("{}://127.0.0.1:{}", if tls { "https" } else { "http" }, here(side, port));
    let mut command = Command::new(load);
    command.args(["compare", "--echo", "--rate", "5000", "--threads", "2"]);
    if tls {
        command.arg("--insecure");
    }
    command.args(["--left", &url(left), "--right", &url(right)]);
    command.args(["--echo-left", &left.stage.application.to_string()]);
    command.args(["--echo-right", &right.stage.application.to_string()]);
    let allowed = left.file("allowed");
    let asked = std::fs::read_to_string(left.file("asked.conf")).unwrap_or_default();
    write(&allowed, &allowances(&asked))?;
    command.arg("--allow").arg(allowed).arg("--from").arg(left.file("asked.conf"));
    if asked.contains("auth_basic_user_file ") {
        command.args(["--authorization", AUTHORIZATION]);
    }
    for port in ports.keys() {
        let (left, right) = (here(left, *port), here(right, *port));
        command.arg("--map-port").arg(format!("{port}={left},{right}"));
    }
    let output = command
        .output()
        .map_err(|why| Error::failed(format!("maitred-load: {why}"), "it has to be executable"))?;
    // Most of what may differ does not in most comparisons.
    let said = String::from_utf8_lossy(&output.stdout);
    let kept = said.lines().filter(|line| !line.contains("of the accepted differences matched nothing"));
    let text = kept.fold(String::new(), |text, line| text + line + "\n");
    match output.status.code() {
        Some(0) => Ok(Found { text, differs: false }),
        Some(3) => Ok(Found { text, differs: true }),
        _ => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(Error::failed(
                format!("the comparison failed: {}", why.trim()),
                "compare by hand: docs/compare.md",
            ))
        }
    }
}
