//! Starting and stopping what is measured.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::client::Client;
use super::process;
use crate::Result;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `bench/floor/floor.c`
    Floor,
    /// This project's release binary.
    Maitred,
    /// nginx, access log buffered.
    Nginx,
    /// nginx, each line of the access log written by itself.
    NginxUnbuffered,
    /// nginx with `aio threads`.
    NginxAio,
}

impl Kind {
    pub(super) const PEERS: [Kind; 3] = [Kind::Nginx, Kind::NginxUnbuffered, Kind::NginxAio];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Floor => "floor",
            Kind::Maitred => "maitred",
            Kind::Nginx => "nginx",
            Kind::NginxUnbuffered => "nginx-unbuffered",
            Kind::NginxAio => "nginx-aio",
        }
    }

    pub(super) fn from_name(name: &str) -> Result<Kind> {
        let known = || Kind::PEERS.map(Kind::name).join(", ");
        let found = Kind::PEERS.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("there is no peer {name:?}; there are {}", known()).into())
    }
}

/// Where things lie, and what the scenario wants of the servers.
pub(super) struct Setup {
    /// The repository's `bench` directory.
    pub(super) bench: PathBuf,
    /// The release binary of Maitred.
    pub(super) maitred: PathBuf,
    /// Scratch space on a real file system; the floor is built here.
    pub(super) work: PathBuf,
    /// The tree of files that is served.
    pub(super) root: PathBuf,
    /// Arguments of the floor.
    pub(super) floor: Vec<String>,
    /// Whether `/app/*` goes to a Python application.
    pub(super) application: bool,
    /// A program and its arguments that runs the server, such as valgrind; mostly empty.
    pub(super) wrapper: Vec<String>,
}

/// A server that runs until it is dropped.
pub(super) struct Running {
    pub(super) kind: Kind,
    pub(super) address: SocketAddr,
    /// How long it took from its start to the first answer.
    pub(super) started_in: Duration,
    child: Child,
}

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts a server on CPU 0, and waits until it answers.
    pub(super) fn start(kind: Kind, setup: &Setup) -> Result<Running> {
        let began = Instant::now();
        let prefix = setup.work.join(kind.name());
        fs::create_dir_all(&prefix)?;
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).args(&setup.wrapper).stdin(Stdio::null());
        let errors = fs::File::create(prefix.join("stderr"))?;
        command.stderr(errors.try_clone()?);
        let mut running = if kind == Kind::Floor {
            command.arg(setup.work.join("floor-binary")).args(&setup.floor).stdout(Stdio::piped());
            let mut child =
                command.spawn().map_err(|error| format!("taskset (package util-linux): {error}"))?;
            let mut line = String::new();
            let output = child.stdout.take().ok_or("the floor has no output")?;
            BufReader::new(output).read_line(&mut line)?;
            let port = line.split_ascii_whitespace().nth(1).and_then(|port| port.parse().ok());
            let port: u16 = port.ok_or_else(|| format!("the floor said {line:?} instead of its port"))?;
            Running { kind, address: ([127, 0, 0, 1], port).into(), started_in: Duration::ZERO, child }
        } else {
            let address = free_address()?;
            let configuration = configure(kind, setup, &prefix, address.port())?;
            match kind {
                Kind::Maitred => command.arg(&setup.maitred).args(["run", "-c"]).arg(&configuration),
                _ => command
                    .arg("nginx")
                    .arg("-p")
                    .arg(&prefix)
                    .arg("-c")
                    .arg(&configuration)
                    .args(["-g", "daemon off;"]),
            };
            let child = command.stdout(errors).spawn()?;
            Running { kind, address, started_in: Duration::ZERO, child }
        };
        running.wait_until_it_answers(&prefix)?;
        running.started_in = began.elapsed();
        Ok(running)
    }

    fn wait_until_it_answers(&mut self, prefix: &Path) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if Client::connect(self.address).and_then(|mut client| client.get("/1k.txt")).is_ok() {
                return Ok(());
            }
            let ended = self.child.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let said = fs::read_to_string(prefix.join("stderr")).unwrap_or_default();
                let how = ended.map_or("does not answer".to_owned(), |status| format!("ended: {status}"));
                return Err(format!("{} {how}; it said:\n{said}", self.kind.name()).into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends a signal to the process that was started.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        send(self.pid(), signal)
    }

    /// The process that answers requests: the server itself, or the child that runs the same program.
    pub(super) fn worker(&self) -> Result<u32> {
        if self.kind == Kind::Floor {
            return Ok(self.pid());
        }
        let program = process::program(self.pid());
        let mut children = process::tree(self.pid()).into_iter().skip(1);
        let worker = children.find(|&pid| process::program(pid) == program);
        worker.ok_or_else(|| format!("{} has no worker process", self.kind.name()).into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let descendants = process::tree(self.pid());
        let _ = self.signal(Signal::INT);
        let deadline = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                eprintln!("{} does not end; killing it", self.kind.name());
                for pid in descendants {
                    let _ = send(pid, Signal::KILL);
                }
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

pub(super) fn send(pid: u32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(pid as i32).ok_or("process 0 gets no signal")?;
    Ok(kill_process(pid, signal)?)
}

/// An address whose port was free a moment ago; nginx cannot be asked which one it got.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Fills in the template of a server's configuration.
fn configure(kind: Kind, setup: &Setup, prefix: &Path, port: u16) -> Result<PathBuf> {
    let name = if kind == Kind::Maitred { "maitred.toml" } else { "nginx.conf" };
    let template = setup.bench.join("peers").join(name);
    let text = fs::read_to_string(&template).map_err(|error| format!("{}: {error}", template.display()))?;
    let buffering = if kind == Kind::NginxUnbuffered { "" } else { " buffer=64k flush=1s" };
    let (threads, aio) = match kind {
        Kind::NginxAio => ("thread_pool default threads=32;", "aio threads;"),
        _ => ("", ""),
    };
    let text = text
        .replace("@PORT@", &port.to_string())
        .replace("@ROOT@", &setup.root.display().to_string())
        .replace("@PREFIX@", &prefix.display().to_string())
        .replace("@ACCESS_LOG@", &format!("{}/access.log combined{buffering}", prefix.display()))
        .replace("@THREADS@", threads)
        .replace("@AIO@", aio)
        .replace("@POOL@", &pool(setup));
    let path = prefix.join(name);
    fs::write(&path, text)?;
    Ok(path)
}

fn pool(setup: &Setup) -> String {
    if !setup.application {
        return String::new();
    }
    let apps = setup.bench.join("apps");
    let adapters = setup.bench.with_file_name("adapters").join("python");
    format!(
        "\n[[site.route]]\npath = \"/app/*\"\npool = \"web\"\n\n[pool.web]\n\
         command = [\"python3\", \"-m\", \"maitred\", \"kilobyte:application\"]\nworkers = 2\ncwd = \"{}\"\n\
         env = {{ PYTHONPATH = \"{}:{}\" }}\n",
        apps.display(),
        adapters.display(),
        apps.display()
    )
}
