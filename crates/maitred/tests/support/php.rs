//! PHP behind FastCGI: Debian's php-fpm and php-cgi, each with a configuration of the test's own.

use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

use crate::support::{eventually, skip_missing};

/// Which program, and where it listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    FpmUnix,
    FpmTcp,
    CgiUnix,
    CgiTcp,
}

/// A PHP that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Php {
    kind: Kind,
    program: PathBuf,
    processes: u32,
    running: Option<Child>,
    /// Where it listens with TCP; the socket keeps the port.
    port: Option<(OwnedFd, SocketAddr)>,
    directory: TempDir,
}

impl Php {
    /// php-fpm on a Unix socket, with so many processes; `None` (which is said) if it is not installed.
    pub(crate) fn fpm(processes: u32) -> Option<Php> {
        Php::of(Kind::FpmUnix, processes)
    }

    pub(crate) fn of(kind: Kind, processes: u32) -> Option<Php> {
        let mut php = Php::stopped(kind, processes)?;
        php.start();
        Some(php)
    }

    /// The same, not yet started.
    pub(crate) fn stopped(kind: Kind, processes: u32) -> Option<Php> {
        let (begin, package) = match kind {
            Kind::FpmUnix | Kind::FpmTcp => ("php-fpm", "php-fpm"),
            Kind::CgiUnix | Kind::CgiTcp => ("php-cgi", "php-cgi"),
        };
        let Some(program) = program(begin) else {
            skip_missing(format!("no {begin} (Debian: {package})"));
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let port = matches!(kind, Kind::FpmTcp | Kind::CgiTcp).then(reserved_address);
        Some(Php { kind, program, processes, running: None, port, directory })
    }

    /// php-fpm with the configuration of the example, which lies in `directory`.
    pub(crate) fn example(directory: &Path) -> Option<Php> {
        let mut php = Php::stopped(Kind::FpmUnix, 0)?;
        let mut command = Command::new(&php.program);
        if rustix::process::geteuid().is_root() {
            command.arg("--allow-to-run-as-root");
        }
        command.arg("--nodaemonize").arg("--prefix").arg(directory).args(["--fpm-config", "fpm.conf"]);
        php.spawn(command.current_dir(directory));
        eventually("PHP listens", || UnixStream::connect(directory.join("php.sock")).is_ok());
        Some(php)
    }

    /// Starts it, and waits until it listens.
    pub(crate) fn start(&mut self) {
        assert!(self.running.is_none());
        let mut command = Command::new(&self.program);
        match self.kind {
            Kind::FpmUnix | Kind::FpmTcp => {
                let configuration = self.directory.path().join("fpm.conf");
                fs::write(&configuration, self.configuration()).unwrap();
                command.arg("--nodaemonize").arg("-n").arg("-y").arg(configuration);
            }
            Kind::CgiUnix | Kind::CgiTcp => {
                command.env("PHP_FCGI_CHILDREN", self.processes.to_string()).arg("-n");
                for (name, value) in SETTINGS {
                    command.arg("-d").arg(format!("{name}={value}"));
                }
                command.arg("-b").arg(self.listens());
            }
        }
        self.spawn(command.current_dir(self.directory.path()));
        eventually("PHP listens", || self.is_listening());
        if let Kind::CgiUnix = self.kind {
            // `php-cgi` has no setting for the mode of its socket.
            fs::set_permissions(self.socket(), fs::Permissions::from_mode(0o777)).unwrap();
        }
    }

    fn spawn(&mut self, command: &mut Command) {
        let log = fs::File::create(self.directory.path().join("output")).unwrap();
        // In a group of its own: php-cgi passes the signal that ends it to its whole group.
        command.process_group(0).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.running = Some(command.spawn().unwrap());
    }

    /// Ends it and its processes, at once.
    pub(crate) fn stop(&mut self) {
        let Some(mut child) = self.running.take() else { return };
        // The processes of php-fpm do not end with a master that was killed.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        child.wait().unwrap();
        let _ = fs::remove_file(self.socket());
    }

    /// What `connect` says, without what stands around it.
    pub(crate) fn url(&self) -> String {
        match &self.port {
            Some((_, address)) => format!("fastcgi://{address}"),
            None => format!("fastcgi+unix:{}", self.socket().display()),
        }
    }

    /// What nginx's `fastcgi_pass` says.
    pub(crate) fn nginx_name(&self) -> String {
        match &self.port {
            Some((_, address)) => address.to_string(),
            None => format!("unix:{}", self.socket().display()),
        }
    }

    /// Ends one of its processes.
    pub(crate) fn kill(pid: i32) {
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("php.sock")
    }

    fn listens(&self) -> String {
        match &self.port {
            Some((_, address)) => address.to_string(),
            None => self.socket().display().to_string(),
        }
    }

    fn is_listening(&self) -> bool {
        match &self.port {
            Some((_, address)) => TcpStream::connect(address).is_ok(),
            None => UnixStream::connect(self.socket()).is_ok(),
        }
    }

    fn configuration(&self) -> String {
        // Started by root, it wants another account for its processes.
        let account =
            if rustix::process::geteuid().is_root() { "user = nobody\ngroup = nogroup\n" } else { "" };
        let mut text = format!(
            "[global]\nerror_log = fpm.log\n[www]\n{account}listen = {}\nlisten.mode = 0666\nlisten.backlog = {}\n\
             pm = static\npm.max_children = {}\n",
            self.listens(),
            BACKLOG,
            self.processes
        );
        for (name, value) in SETTINGS {
            writeln!(text, "php_admin_value[{name}] = {value}").unwrap();
        }
        text
    }
}

/// Connections that wait for a process of php-fpm. A Unix socket refuses further ones at once.
pub(crate) const BACKLOG: usize = 4;

/// Instead of php.ini, which `-n` leaves out.
const SETTINGS: [(&str, &str); 6] = [
    ("display_errors", "0"),
    ("log_errors", "1"),
    ("html_errors", "0"),
    ("post_max_size", "64M"),
    ("upload_max_filesize", "64M"),
    ("max_execution_time", "0"),
];

impl Drop for Php {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            for name in ["output", "fpm.log"] {
                let said = fs::read_to_string(self.directory.path().join(name)).unwrap_or_default();
                eprintln!("PHP said in {name}:\n{said}");
            }
        }
    }
}

/// A program whose name begins so: Debian's names of php-fpm end with a version.
pub(crate) fn program(begin: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let named = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(begin);
    let mut found = directories.flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten());
    found.find(named).map(|entry| entry.path())
}

/// A port for a server that cannot say which one it got. The socket keeps others from being given the same; as it does not
/// listen, the server may (SO_REUSEADDR, socket(7)).
pub(crate) fn reserved_address() -> (OwnedFd, SocketAddr) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = getsockname(&socket).unwrap().try_into().unwrap();
    (socket, address)
}

/// The scripts of the tests.
pub(crate) fn scripts() -> impl Iterator<Item = PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstreams/fastcgi/php");
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())
}
