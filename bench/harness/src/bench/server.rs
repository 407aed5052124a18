//! Starting and stopping what is measured.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustls::ClientConfig;

use super::client::Client;
use super::peers::Kind;
use super::process::{self, Cpu};
use super::protocol::{Certificate, Protocol};
use super::secure;
use crate::Result;

/// How long a server may take until it answers; interpreters with large frameworks are slow starters.
const START: Duration = Duration::from_secs(30);
/// How long it may take to end, before it is killed.
const STOP: Duration = Duration::from_secs(5);

/// Where things lie, and what the scenario wants of the servers.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    /// The repository's `bench` directory.
    pub(super) bench: PathBuf,
    /// The release binary of Maitred.
    pub(super) maitred: PathBuf,
    /// A binary from before a change, and the keys that it does not know.
    pub(super) before: PathBuf,
    pub(super) newer_keys: String,
    /// Scratch space on a real file system; the floor is built here.
    pub(super) work: PathBuf,
    /// The tree of files that is served.
    pub(super) root: PathBuf,
    /// CPUs of the servers, as taskset(1) takes them.
    pub(super) cpus: String,
    /// Arguments of the floor.
    pub(super) floor: Vec<String>,
    /// A program and its arguments that runs the server, such as valgrind; mostly empty.
    pub(super) wrapper: Vec<String>,
    /// What is spoken with clients.
    pub(super) protocol: Protocol,
    /// Whether small and large files lie side by side below the root.
    pub(super) mixed_sizes: bool,
    /// What peers pass `/app/*` on to.
    pub(super) backend: SocketAddr,
    /// What peers put before the rest of the path behind `/app/`.
    pub(super) backend_path: String,
    /// How they do that.
    pub(super) passing: Passing,
    /// Event-loop threads of Maitred.
    pub(super) maitred_threads: usize,
    /// Lines in `[server]`, in `[[listen]]`, and at the end of Maitred's configuration.
    pub(super) maitred_server: String,
    pub(super) maitred_listen: String,
    pub(super) maitred_more: String,
    /// Added to the environment.
    pub(super) environment: Vec<(String, String)>,
    /// What is asked for to see whether the server answers.
    pub(super) ready: String,
}

/// What peers pass on, and how.
#[derive(Debug, Clone)]
pub(super) struct Passing {
    /// What its paths begin with.
    pub(super) prefix: String,
    /// The application speaks HTTP/2 in cleartext, and HAProxy does so with its clients.
    pub(super) http2: bool,
    /// nginx: its servers.
    pub(super) servers: String,
    /// nginx: the directives of the location.
    pub(super) location: String,
    /// nginx: lines beside the location.
    pub(super) beside: String,
    /// nginx: lines beside the server.
    pub(super) http: String,
}

impl Passing {
    /// Paths below `/app/` to one server of HTTP/1 in cleartext, without anything else.
    pub(super) fn plain() -> Passing {
        Passing {
            prefix: "/app/".to_owned(),
            http2: false,
            servers: "server @BACKEND@;".to_owned(),
            location: "proxy_pass http://application@BACKEND_PATH@;".to_owned(),
            beside: String::new(),
            http: String::new(),
        }
    }
}

impl Setup {
    /// The floor for the protocol; absent if it could not be compiled.
    pub(super) fn floor_program(&self) -> PathBuf {
        let name = if self.protocol == Protocol::Http1 { "floor-binary" } else { "floor-secure-binary" };
        self.work.join(name)
    }
}

/// One process and what descends from it; ended when dropped.
#[derive(Debug)]
pub(super) struct Started(Child);

impl Started {
    /// Starts a program on some CPUs, its output in a file.
    pub(super) fn spawn(
        words: &[String],
        cpus: &str,
        log: &Path,
        more: impl FnOnce(&mut Command),
    ) -> Result<Started> {
        let output = fs::File::create(log)?;
        let mut command = Command::new("taskset");
        command
            .args(["-c", cpus])
            .args(words)
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output);
        more(&mut command);
        Ok(Started(command.spawn().map_err(|error| format!("taskset (package util-linux): {error}"))?))
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it has made a socket; what it wrote into its log is the reason if it does not.
    pub(super) fn wait_for(&mut self, socket: &Path, log: &Path) -> Result<()> {
        let deadline = Instant::now() + START;
        while !socket.exists() {
            let ended = self.0.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let how = ended.map_or("makes no socket".to_owned(), |status| format!("ended: {status}"));
                return Err(format!("it {how}; it said:\n{}", fs::read_to_string(log)?).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let descendants = process::tree(self.pid());
        // Some of the applications heed SIGTERM only, and all servers here take it.
        let _ = send(self.pid(), Signal::TERM);
        let deadline = Instant::now() + STOP;
        while matches!(self.0.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                eprintln!("  process {} does not end; killing it", self.pid());
                for pid in descendants {
                    let _ = send(pid, Signal::KILL);
                }
                let _ = self.0.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A server that runs until it is dropped, with what stands behind it.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    protocol: Protocol,
    /// How a client speaks TLS with it; `None` for cleartext.
    tls: Option<Arc<ClientConfig>>,
    /// How long it took from its start to the first answer.
    pub(super) started_in: Duration,
    /// Whether it forks the processes that answer.
    has_workers: bool,
    front: Started,
    behind: Vec<Started>,
}

impl Running {
    /// A server that speaks HTTP/1.1 in cleartext, with nothing behind it yet.
    fn of(name: &str, address: SocketAddr, front: Started, has_workers: bool) -> Running {
        Running {
            name: name.to_owned(),
            address,
            protocol: Protocol::Http1,
            tls: None,
            started_in: Duration::ZERO,
            has_workers,
            front,
            behind: Vec::new(),
        }
    }

    /// The server itself, without what stands behind it.
    pub(super) fn pid(&self) -> u32 {
        self.front.pid()
    }

    /// Where a generator finds something.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.protocol.scheme(), self.address)
    }

    /// Opens a connection for HTTP/1.1.
    pub(super) fn connect(&self) -> std::io::Result<Client> {
        match &self.tls {
            Some(config) => Client::connect_tls(self.address, config),
            None => Client::connect(self.address),
        }
    }

    /// What all of its processes have used.
    pub(super) fn cpu(&self) -> Cpu {
        self.behind.iter().map(|started| process::cpu(started.pid())).fold(process::cpu(self.pid()), Cpu::and)
    }

    /// Lets other processes count as part of it, and end with it.
    pub(super) fn with(mut self, behind: Vec<Started>) -> Running {
        self.behind.extend(behind);
        self
    }

    /// Lets the processes of another server, which is behind this one, count as part of it, and end with it.
    pub(super) fn before(mut self, other: Running) -> Running {
        self.behind.push(other.front);
        self.behind.extend(other.behind);
        self
    }

    /// Starts a server on its CPU, and waits until it answers.
    pub(super) fn start(kind: Kind, setup: &Setup) -> Result<Running> {
        Running::start_as(kind, &format!("{}{}", kind.name(), setup.protocol.suffix()), setup)
    }

    /// The same with another name, which is also that of its directory: for several of one kind.
    pub(super) fn start_as(kind: Kind, name: &str, setup: &Setup) -> Result<Running> {
        if let Some(why) = kind.absent(setup) {
            return Err(why.into());
        }
        let prefix = setup.work.join(name);
        fs::create_dir_all(&prefix)?;
        let began = Instant::now();
        let mut running = if kind == Kind::Floor {
            start_floor(name, setup, &prefix)?
        } else {
            let address = free_address()?;
            let configuration = kind.configure(setup, &prefix, address.port())?;
            let server = kind.command(setup, &prefix, &configuration);
            let words: Vec<String> = setup.wrapper.iter().cloned().chain(server).collect();
            let environment = setup.environment.iter().map(|(name, value)| (name, value));
            let front = Started::spawn(&words, &setup.cpus, &prefix.join("stderr"), |command| {
                command.envs(environment);
            })?;
            Running::of(name, address, front, true)
        };
        running.protocol = setup.protocol;
        if setup.protocol.is_tls() {
            running.tls = Some(secure::client(&setup.work)?);
        }
        // The floor has said that it listens, and with HTTP/2 it speaks nothing else.
        if kind != Kind::Floor {
            running.wait_until_it_answers(&setup.ready, &prefix.join("stderr"))?;
        }
        running.started_in = began.elapsed();
        Ok(running)
    }

    /// Starts any program that listens on that address.
    pub(super) fn start_program(
        name: &str,
        words: &[String],
        address: SocketAddr,
        setup: &Setup,
        directory: &Path,
    ) -> Result<Running> {
        let prefix = setup.work.join(name);
        fs::create_dir_all(&prefix)?;
        let environment = setup.environment.iter().map(|(name, value)| (name, value));
        let front = Started::spawn(words, &setup.cpus, &prefix.join("stderr"), |command| {
            command.current_dir(directory).envs(environment);
        })?;
        let mut running = Running::of(name, address, front, false);
        running.protocol = setup.protocol;
        if setup.protocol.is_tls() {
            running.tls = Some(secure::client(&setup.work)?);
        }
        running.wait_until_it_answers(&setup.ready, &prefix.join("stderr"))?;
        Ok(running)
    }

    fn wait_until_it_answers(&mut self, path: &str, log: &Path) -> Result<()> {
        let deadline = Instant::now() + START;
        let answers = |server: &Running| {
            // With HTTP/2 by prior knowledge, a listener has to be enough.
            if server.protocol == Protocol::Http2 {
                return server.connect().is_ok();
            }
            let answer = server.connect().and_then(|mut client| client.get(path));
            answer.is_ok_and(|answer| answer.status == 200)
        };
        loop {
            if answers(self) {
                return Ok(());
            }
            let ended = self.front.0.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let said = fs::read_to_string(log).unwrap_or_default();
                let how = ended.map_or("does not answer".to_owned(), |status| format!("ended: {status}"));
                return Err(format!("{} {how}; it said:\n{said}", self.name).into());
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
        if !self.has_workers {
            return Ok(self.pid());
        }
        let program = process::program(self.pid());
        let mut children = process::tree(self.pid()).into_iter().skip(1);
        let worker = children.find(|&pid| process::program(pid) == program);
        worker.ok_or_else(|| format!("{} has no worker process", self.name).into())
    }
}

/// The floor says itself where it listens.
fn start_floor(name: &str, setup: &Setup, prefix: &Path) -> Result<Running> {
    let program = setup.floor_program().display().to_string();
    let protocol = setup.protocol.floor_arguments(&Certificate::in_work(&setup.work));
    let words: Vec<String> =
        [setup.wrapper.clone(), vec![program], setup.floor.clone(), protocol].into_iter().flatten().collect();
    let mut front = Started::spawn(&words, &setup.cpus, &prefix.join("stderr"), |command| {
        command.stdout(Stdio::piped());
    })?;
    let mut line = String::new();
    let output = front.0.stdout.take().ok_or("the floor has no output")?;
    BufReader::new(output).read_line(&mut line)?;
    let port = line.split_ascii_whitespace().nth(1).and_then(|port| port.parse().ok());
    let port: u16 = port.ok_or_else(|| format!("the floor said {line:?} instead of its port"))?;
    Ok(Running::of(name, ([127, 0, 0, 1], port).into(), front, false))
}

pub(super) fn send(pid: u32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(pid as i32).ok_or("process 0 gets no signal")?;
    Ok(kill_process(pid, signal)?)
}

/// An address whose port was free a moment ago; most servers cannot be asked which one they got.
pub(super) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
