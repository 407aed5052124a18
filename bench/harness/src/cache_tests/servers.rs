//! The caches: how each of them is configured before the suite's origin, started and stopped. All listen on loopback, and keep
//! what they have in a directory that goes with them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::Result;
use xtask::step::{Beside, tree, wait};
use xtask::test_packages::has_program;

/// How long a server may take until it passes a request on, and until it has ended.
const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(15);
/// Between two looks whether it answers; its end is seen at once.
const LOOK: Duration = Duration::from_millis(20);
/// How long one answer may take while it starts.
const ANSWER: Duration = Duration::from_secs(2);
/// A file of the suite, which its origin has.
const READY: &str = "/package.json";
/// Ends the lines of Maitred's configuration that are about its cache.
const OF_THE_CACHE: &str = "# cache";

/// A cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Server {
    Maitred,
    Nginx,
    Varnish,
    Trafficserver,
    Squid,
    Apache,
    Haproxy,
}

/// Which Maitred.
#[derive(Debug)]
pub(super) struct Build {
    pub(super) maitred: PathBuf,
    /// Whether it has a cache.
    pub(super) cache: bool,
}

impl Server {
    /// In the order in which they are shown.
    pub(super) const ALL: [Server; 7] = [
        Server::Maitred,
        Server::Nginx,
        Server::Varnish,
        Server::Trafficserver,
        Server::Squid,
        Server::Apache,
        Server::Haproxy,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Server::Maitred => "maitred",
            Server::Nginx => "nginx",
            Server::Varnish => "varnish",
            Server::Trafficserver => "trafficserver",
            Server::Squid => "squid",
            Server::Apache => "apache",
            Server::Haproxy => "haproxy",
        }
    }

    /// What the server calls itself.
    pub(super) fn title(self) -> &'static str {
        match self {
            Server::Maitred => "Maitred",
            Server::Nginx => "nginx",
            Server::Varnish => "Varnish",
            Server::Trafficserver => "Traffic Server",
            Server::Squid => "Squid",
            Server::Apache => "Apache httpd",
            Server::Haproxy => "HAProxy",
        }
    }

    /// The program, and the Debian package that has it.
    fn program(self) -> Option<(&'static str, &'static str)> {
        match self {
            Server::Maitred => None,
            Server::Nginx => Some(("nginx", "nginx-light")),
            Server::Varnish => Some(("varnishd", "varnish")),
            Server::Trafficserver => Some(("traffic_server", "trafficserver")),
            Server::Squid => Some(("squid", "squid")),
            Server::Apache => Some(("apache2", "apache2-bin")),
            Server::Haproxy => Some(("haproxy", "haproxy")),
        }
    }

    /// The package that has to be installed for it.
    pub(super) fn missing(self) -> Option<&'static str> {
        self.program().filter(|(program, _)| !has_program(program)).map(|(_, package)| package)
    }

    /// The package's version, or Maitred's commit.
    pub(super) fn version(self) -> String {
        let said = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).stderr(Stdio::null()).output();
            let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
            text.ok().filter(|text| !text.is_empty())
        };
        let version = match self.program() {
            None => said("git", &["rev-parse", "--short", "HEAD"]),
            Some((_, package)) => said("dpkg-query", &["--show", "--showformat=${Version}", package]),
        };
        version.unwrap_or_else(|| "unknown".to_owned())
    }

    /// The account that has to be able to write into its directory, if it leaves root's.
    fn account(self) -> Option<&'static str> {
        match self {
            Server::Squid => Some("proxy"),
            Server::Apache => Some("www-data"),
            _ => None,
        }
    }

    /// Templates below `bench/cache-tests`, and what they are filled into.
    fn templates(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Server::Maitred => &[("maitred.toml", "maitred.toml")],
            Server::Nginx => &[("nginx.conf", "nginx.conf")],
            Server::Varnish => &[("varnish.vcl", "varnish.vcl")],
            Server::Trafficserver => {
                &[("trafficserver.runroot", "runroot.yaml"), ("trafficserver.records", "own-records.config")]
            }
            Server::Squid => &[("squid.conf", "squid.conf")],
            Server::Apache => &[("apache.conf", "apache.conf")],
            Server::Haproxy => &[("haproxy.cfg", "haproxy.cfg")],
        }
    }

    /// The program and its arguments, so that it stays in the foreground.
    fn command(self, build: &Build, prefix: &Path, address: SocketAddr) -> Vec<String> {
        let within = |name: &str| prefix.join(name).display().to_string();
        let (directory, maitred) = (prefix.display().to_string(), build.maitred.display().to_string());
        let listen = address.to_string();
        let words: &[&str] = match self {
            Server::Maitred => &[&maitred, "run", "-c", &within("maitred.toml")],
            Server::Nginx => &["nginx", "-p", &directory, "-c", &within("nginx.conf"), "-g", "daemon off;"],
            // The times are those that the suite's authors have for it: else what says nothing is fresh for two minutes.
            Server::Varnish => &[
                "varnishd",
                "-F",
                "-j",
                "none",
                "-n",
                &within("varnish"),
                "-a",
                &listen,
                "-f",
                &within("varnish.vcl"),
                "-T",
                "none",
                "-s",
                "malloc,256M",
                "-p",
                "default_ttl=0",
                "-p",
                "default_grace=0",
                "-p",
                "default_keep=3600",
            ],
            Server::Trafficserver => &["traffic_server", &format!("--run-root={directory}")],
            Server::Squid => &["squid", "-N", "-f", &within("squid.conf")],
            Server::Apache => {
                &["apache2", "-d", &directory, "-f", &within("apache.conf"), "-D", "FOREGROUND"]
            }
            Server::Haproxy => &["haproxy", "-db", "-f", &within("haproxy.cfg")],
        };
        words.iter().map(|&word| word.to_owned()).collect()
    }

    /// Fills in its files.
    fn configure(self, build: &Build, prefix: &Path, address: SocketAddr, origin: SocketAddr) -> Result<()> {
        let templates = xtask::root().join("bench/cache-tests");
        let cache = build.cache || self != Server::Maitred;
        for (template, name) in self.templates() {
            let text = fs::read_to_string(templates.join(template))?;
            let is_kept = |line: &&str| cache || !line.trim_end().ends_with(OF_THE_CACHE);
            let text: String = text.split_inclusive('\n').filter(is_kept).collect();
            let text = text
                .replace("@PORT@", &address.port().to_string())
                .replace("@ORIGIN@", &origin.to_string())
                .replace("@ORIGIN_PORT@", &origin.port().to_string())
                .replace("@PREFIX@", &prefix.display().to_string());
            fs::write(prefix.join(name), text)?;
        }
        fs::create_dir_all(prefix.join("cache"))?;
        if self == Server::Trafficserver {
            lay_out_trafficserver(prefix, address, origin)?;
        }
        Ok(())
    }

    /// Starts it before an origin, and waits until it passes a request on.
    pub(super) fn start(self, build: &Build, origin: SocketAddr) -> Result<Running> {
        let directory = TempDir::new()?;
        let prefix = directory.path();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(prefix, open)?;
        // Most of these do not say which port they have chosen.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        self.configure(build, prefix, address, origin)?;
        if let Some(account) = self.account().filter(|_| rustix::process::geteuid().is_root()) {
            let status = Command::new("chown").args(["-R", account]).arg(prefix).status()?;
            if !status.success() {
                return Err(format!("chown: {status}").into());
            }
        }
        let output = fs::File::create(prefix.join("said"))?;
        let words = self.command(build, prefix, address);
        let (program, arguments) = words.split_first().ok_or("no command")?;
        let path = format!("{}:/usr/sbin:/usr/local/sbin", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new(program);
        command.args(arguments).env("PATH", path).current_dir(prefix).stdin(Stdio::null());
        if self == Server::Apache {
            // Apache passes the signal that ends it to its process group, which would be this one's.
            command.process_group(0);
        }
        let child = command.stdout(output.try_clone()?).stderr(output).spawn();
        let child = child.map_err(|error| format!("{program}: {error}"))?;
        let described = Beside::new(self.name(), &child);
        let mut running = Running { child, _described: described, directory, address };
        running.wait_until_it_answers().map_err(|error| format!("{}: {error}", self.name()))?;
        Ok(running)
    }
}

/// Traffic Server wants a whole directory of files: Debian's, with lines of ours.
fn lay_out_trafficserver(prefix: &Path, address: SocketAddr, origin: SocketAddr) -> Result<()> {
    let etc = prefix.join("etc");
    for name in ["etc", "var", "run", "log"] {
        fs::create_dir_all(prefix.join(name))?;
    }
    for entry in fs::read_dir("/etc/trafficserver")? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), etc.join(entry.file_name()))?;
        }
    }
    let own = fs::read_to_string(prefix.join("own-records.config"))?;
    let records = etc.join("records.config");
    fs::write(&records, fs::read_to_string(&records)? + &own)?;
    fs::write(etc.join("remap.config"), format!("map http://{address}/ http://{origin}/\n"))?;
    fs::write(etc.join("storage.config"), format!("{} 256M\n", prefix.join("cache").display()))?;
    Ok(())
}

/// A server that runs until this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    _described: Beside,
    directory: TempDir,
    address: SocketAddr,
}

impl Running {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the server has written, and its log of errors.
    pub(super) fn said(&self) -> String {
        let read = |name| fs::read_to_string(self.directory.path().join(name)).unwrap_or_default();
        ["said", "error.log", "cache.log", "log/diags.log"].map(read).concat()
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let deadline = Instant::now() + START;
        while !answers(self.address).unwrap_or(false) {
            if let Some(status) = wait(&mut self.child, LOOK)? {
                return Err(format!("ended: {status}; it said:\n{}", self.said()).into());
            }
            if Instant::now() > deadline {
                return Err(format!("does not answer; it said:\n{}", self.said()).into());
            }
        }
        Ok(())
    }
}

/// Whether a file of the origin comes through.
fn answers(address: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    write!(stream, "GET {READY} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut status = [0; 12];
    stream.read_exact(&mut status)?;
    Ok(status.ends_with(b" 200"))
}

impl Drop for Running {
    fn drop(&mut self) {
        let descendants = tree(self.child.id());
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        if matches!(wait(&mut self.child, STOP), Ok(Some(_))) {
            return;
        }
        println!("process {} does not end; killing it", self.child.id());
        for pid in descendants.iter().rev().filter_map(|&pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled_and_a_maitred_without_a_cache_has_none() {
        let addresses = (([127, 0, 0, 1], 4711).into(), ([127, 0, 0, 1], 4712).into());
        let filled = |server: Server, cache: bool| {
            let directory = TempDir::new().unwrap();
            let build = Build { maitred: PathBuf::new(), cache };
            server.configure(&build, directory.path(), addresses.0, addresses.1).unwrap();
            let read = |(_, name): &(&str, &str)| fs::read_to_string(directory.path().join(name)).unwrap();
            server.templates().iter().map(read).collect::<String>()
        };
        for server in Server::ALL.into_iter().filter(|server| *server != Server::Trafficserver) {
            let text = filled(server, true);
            let text: String = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert!(!text.contains('@') && text.contains("4712"), "{text}");
        }
        let (with, without) = (filled(Server::Maitred, true), filled(Server::Maitred, false));
        assert!(with.contains("[cache]") && with.contains("heuristic"), "{with}");
        let without: String = without.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(!without.contains("cache") && without.contains("[pool.origin]"), "{without}");
    }
}
