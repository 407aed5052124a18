//! The real binary, from its start to its end.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::TIMEOUT;
use super::client::Client;
use super::setup::Setup;

/// `maitred run`; killed when dropped, unless it was stopped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    output: Mutex<Output>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    pub(crate) setup: Setup,
}

/// What the server says on standard output and standard error.
#[derive(Debug)]
struct Output {
    lines: Receiver<String>,
    said: Vec<String>,
}

/// A server that has come to its end.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) status: ExitStatus,
    /// Everything that it said.
    pub(crate) said: Vec<String>,
    /// The lines of its access log.
    pub(crate) access: Vec<String>,
    pub(crate) setup: Setup,
}

/// The binary under test: the one that was just built, or the one that `MAITRED_TEST_BINARY` names.
pub(crate) fn binary() -> OsString {
    std::env::var_os("MAITRED_TEST_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_maitred").into())
}

/// Copies a program, by another process: a descriptor of this one that is open for writing could go along with a process that
/// another test starts at the moment, and what is open for writing cannot be executed.
pub(crate) fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").args([from, to]).status().unwrap().success());
}

impl Server {
    /// Starts a server in the directory of `setup`, and waits for its address.
    pub(super) fn start(setup: Setup, command: Command) -> Server {
        let mut server = Server::launch(setup, command);
        let line = server.wait_for_line(|line| address_in(line).is_some());
        server.address = address_in(&line).unwrap();
        server
    }

    /// The same, of one that may say no address, or never listen.
    pub(super) fn launch(setup: Setup, mut command: Command) -> Server {
        command.current_dir(setup.directory.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        read_lines(child.stdout.take().unwrap(), sender.clone());
        read_lines(child.stderr.take().unwrap(), sender);
        let output = Mutex::new(Output { lines, said: Vec::new() });
        Server { child, output, address: ([127, 0, 0, 1], 0).into(), setup }
    }

    /// Where it listens with this scheme.
    pub(crate) fn address_of(&self, scheme: &str) -> SocketAddr {
        let scheme = format!("{scheme}://");
        let line = self.wait_for_line(|line| address_of(&scheme, line).is_some());
        address_of(&scheme, &line).unwrap()
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.setup.directory.path().join(name)
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Asks the admin address, on a connection of its own.
    pub(crate) fn admin(&self, request: &str) -> super::Response {
        Client::connect_unix(&self.path("admin.sock")).ask(request)
    }

    /// `/status.json`
    pub(crate) fn status(&self) -> serde_json::Value {
        let response = self.admin("GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(response.status, 200);
        serde_json::from_slice(&response.body).unwrap()
    }

    /// The worker process that answers: after a reload or an upgrade there may be others for a while.
    pub(crate) fn answering_worker(&self) -> i32 {
        self.status()["pid"].as_i64().unwrap().try_into().unwrap()
    }

    /// A sum over all threads from `/status.json`.
    pub(crate) fn total(&self, key: &str) -> u64 {
        let status = self.status();
        status["totals"][key].as_u64().unwrap_or_else(|| panic!("no number {key} in {status}"))
    }

    /// Runs another command of the binary with this server's configuration. Returns its status and standard output.
    pub(crate) fn command(&self, arguments: &[&str]) -> (ExitStatus, String) {
        let mut command = Command::new(binary());
        command.args(arguments).args(["-c", "maitred.toml"]).current_dir(self.setup.directory.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status, String::from_utf8_lossy(&text).into_owned())
    }

    /// Waits for a line that holds `text`, which it has said already or will say.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait_for_line(|line| line.contains(text))
    }

    /// The same, for any line.
    #[track_caller]
    pub(crate) fn wait_for_line(&self, wanted: impl Fn(&str) -> bool) -> String {
        let mut output = self.output.lock().unwrap();
        if let Some(line) = output.said.iter().find(|line| wanted(line)) {
            return line.clone();
        }
        let deadline = Instant::now() + TIMEOUT;
        while let Ok(line) = output.lines.recv_timeout(left(deadline)) {
            output.said.push(line.clone());
            if wanted(&line) {
                return line;
            }
        }
        panic!("the line did not come; it said:\n{}", output.said.join("\n"));
    }

    /// Waits until all application processes are ready.
    pub(crate) fn wait_for_processes(&self) {
        super::eventually("all processes are ready", || {
            let status = self.status();
            let pools = status["pools"].as_array().unwrap();
            let ready = |pool: &serde_json::Value| {
                let letters = pool["letters"].as_str().unwrap();
                letters.matches('_').count() as u64 >= pool["start"].as_u64().unwrap()
                    && !letters.contains('S')
            };
            pools.iter().all(ready)
        });
    }

    /// Stops it gracefully. Nothing that it said may be an error, and it must exit well.
    pub(crate) fn stop(self) -> Stopped {
        let stopped = self.terminate(Signal::TERM);
        assert!(stopped.status.success(), "{}; it said:\n{}", stopped.status, stopped.said.join("\n"));
        let bad = |line: &&String| line.contains("panic") || line.contains(" ERROR ");
        let bad: Vec<_> = stopped.said.iter().filter(bad).collect();
        assert!(bad.is_empty(), "it said {bad:#?}");
        stopped
    }

    /// Sends a signal, and waits for the end of all its processes.
    pub(crate) fn terminate(self, signal: Signal) -> Stopped {
        self.signal(signal);
        self.wait_for_exit()
    }

    /// Waits for the end of a server that was asked to stop.
    pub(crate) fn wait_for_exit(mut self) -> Stopped {
        let said = self.wait_for_end();
        let status = self.child.wait().unwrap();
        let access = fs::read(self.path("access.log")).unwrap_or_default();
        let access = String::from_utf8(access).unwrap().lines().map(str::to_owned).collect();
        // Taken out piece by piece, since what is left is dropped as a server that still runs.
        let setup = std::mem::replace(&mut self.setup, Setup::new());
        Stopped { status, said, access, setup }
    }

    /// The server's two pipes end when the last of its processes has ended.
    fn wait_for_end(&self) -> Vec<String> {
        let mut output = self.output.lock().unwrap();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match output.lines.recv_timeout(left(deadline)) {
                Ok(line) => output.said.push(line),
                Err(RecvTimeoutError::Disconnected) => return std::mem::take(&mut output.said),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("it does not stop; it said:\n{}", output.said.join("\n"))
                }
            }
        }
    }
}

impl Stopped {
    /// The access log's lines as JSON.
    pub(crate) fn json_lines(&self) -> Vec<serde_json::Value> {
        self.access.iter().map(|line| serde_json::from_str(line).expect(line)).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let children = self.children();
            let _ = self.child.kill();
            // Without a master its other processes end by themselves, unless the test has stopped them.
            for child in children.into_iter().filter_map(Pid::from_raw) {
                let _ = kill_process(child, Signal::KILL);
            }
            let _ = self.child.wait();
        }
        if std::thread::panicking()
            && let Ok(mut output) = self.output.lock()
        {
            while let Ok(line) = output.lines.try_recv() {
                output.said.push(line);
            }
            eprintln!("the server said:\n{}", output.said.join("\n"));
        }
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// The first `http://ADDRESS` or `https://ADDRESS` of a line.
fn address_in(line: &str) -> Option<SocketAddr> {
    address_of("http://", line).or_else(|| address_of("https://", line))
}

fn address_of(scheme: &str, line: &str) -> Option<SocketAddr> {
    // Addresses of an authority or a provider of keys, which may be named before the server listens, are not its own.
    if ["authority=", "account=", "url="].iter().any(|field| line.contains(field)) {
        return None;
    }
    let rest = line.split(scheme).nth(1)?;
    let six = rest.starts_with('[');
    let of_six = |byte: char| byte.is_ascii_hexdigit() || "[:]".contains(byte);
    let of_four = |byte: char| byte.is_ascii_digit() || ".:".contains(byte);
    let end = rest.find(|byte: char| !if six { of_six(byte) } else { of_four(byte) });
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

fn read_lines(from: impl Read + Send + 'static, to: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            if to.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
}

/// Whether a path is there; for sockets and files that come and go.
pub(crate) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
