//! The real binary, its processes, and clients that say exactly what they are told to say.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// After this, something hangs. Well below `keep_alive_timeout`, which would hide a stall.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What a test changes in the configuration.
pub(crate) struct Setup {
    pub(crate) threads: u32,
    pub(crate) server: &'static str,
    pub(crate) pool: &'static str,
    pub(crate) limits: &'static str,
}

pub(crate) const SETUP: Setup = Setup { threads: 1, server: "", pool: "", limits: "" };

/// `maitred run` with a site of files and the fake application.
pub(crate) struct Server {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
    pub(crate) address: SocketAddr,
    pub(crate) directory: TempDir,
}

impl Server {
    pub(crate) fn start(setup: &Setup) -> Server {
        let directory = tempfile::tempdir().unwrap();
        // A server that was started as root may serve as somebody else.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let root = directory.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("small"), "small\n").unwrap();
        fs::write(root.join("large"), vec![b'x'; 8 << 20]).unwrap();
        fs::write(directory.path().join("fake.py"), include_str!("fake.py")).unwrap();
        let file = directory.path().join("maitred.toml");
        fs::write(&file, configuration(setup)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_maitred"));
        command.args(["run", "-c"]).arg(&file).current_dir(directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        let stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
            }
        });
        let address = ([127, 0, 0, 1], 0).into();
        let mut server = Server { child, lines, said: Vec::new(), address, directory };
        let line = server.wait_for("http://");
        let rest = line.split("http://").nth(1).unwrap();
        server.address = rest.split_whitespace().next().unwrap().parse().unwrap();
        server
    }

    /// The next line that holds `text`.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(_) => panic!("no {text:?}; it said:\n{}", self.said.join("\n")),
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Processes of the master: worker processes, which run the same program, or application processes.
    fn children(&self, workers: bool) -> Vec<u32> {
        let id = self.child.id();
        let text = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let own = fs::read_link(format!("/proc/{id}/exe")).ok();
        let children = text.split_whitespace().filter_map(|number| number.parse().ok());
        children
            .filter(|child| (fs::read_link(format!("/proc/{child}/exe")).ok() == own) == workers)
            .collect()
    }

    /// The only worker process.
    pub(crate) fn worker(&self) -> u32 {
        let workers = self.children(true);
        assert_eq!(workers.len(), 1, "{workers:?}");
        workers[0]
    }

    pub(crate) fn worker_is_not(&self, old: u32) -> bool {
        matches!(self.children(true)[..], [worker] if worker != old)
    }

    /// Whether a process holds the socket that listens.
    pub(crate) fn listens(&self, pid: u32) -> bool {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let port = format!(":{:04X}", self.address.port());
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = rows.into_iter().find(|row| row[1].ends_with(&port) && row[3] == "0A").unwrap();
        let wanted = format!("socket:[{}]", row[9]);
        let folder = Path::new("/proc").join(pid.to_string()).join("fd");
        let Ok(entries) = fs::read_dir(folder) else { return false };
        let mut links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        links.any(|link| link.to_string_lossy() == wanted)
    }

    pub(crate) fn applications(&self) -> Vec<u32> {
        self.children(false)
    }

    /// Stops the worker process for as long as `body` takes: all that happens meanwhile comes at once.
    pub(crate) fn while_worker_sleeps<T>(&self, body: impl FnOnce() -> T) -> T {
        let worker = self.worker();
        signal_pid(worker, Signal::STOP);
        wait_until("the worker process stops", || process_state(worker) == Some('T'));
        let result = body();
        signal_pid(worker, Signal::CONT);
        result
    }

    /// Lets `/app/hold` go on.
    pub(crate) fn open_gate(&self) {
        fs::write(self.directory.path().join("gate"), "").unwrap();
    }

    /// A connection that says nothing. Not to the server, so that being watched costs it nothing.
    pub(crate) fn idle(&self) -> Client {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::to(listener.local_addr().unwrap());
        // Never accepted, but kept for the life of the test.
        std::mem::forget(listener);
        client
    }

    pub(crate) fn connect(&self) -> Client {
        Client::to(self.address)
    }

    /// Stops it gracefully. What it said must not speak of a bug.
    pub(crate) fn stop(mut self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not stop:\n{}", self.said.join("\n")),
            }
        }
        let status = self.child.wait().unwrap();
        let said = self.said.join("\n");
        assert!(!said.contains("panic"), "{said}");
        (status, said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            while let Ok(line) = self.lines.try_recv() {
                self.said.push(line);
            }
            eprintln!("the server said:\n{}", self.said.join("\n"));
        }
        let children = [self.children(true), self.children(false)].concat();
        let _ = self.child.kill();
        for child in children {
            signal_pid(child, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn configuration(setup: &Setup) -> String {
    let Setup { threads, server, pool, limits } = setup;
    format!(
        r#"[server]
threads = {threads}
affinity = "off"
{server}

[[listen]]
address = "127.0.0.1:0"

[[site]]
root = "root"

[[site.route]]
path = "/old"
redirect = "/new"

[[site.route]]
path = "/app/*"
pool = "fake"

[pool.fake]
command = ["python3", "-S", "-E", "fake.py"]
workers = 1
transport = "direct"
{pool}

[limits]
body_inline_bytes_max = "1MiB"
{limits}

[log]
access = "combined"
access_file = "access.log"
"#
    )
}

pub(crate) fn signal_pid(pid: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal);
}

/// The letter that proc(5) has for the state of a process.
pub(crate) fn process_state(pid: u32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}

/// CPU time of a process, in ticks of 10 ms.
pub(crate) fn cpu_ticks(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Open descriptors of a process.
pub(crate) fn descriptors(pid: u32) -> usize {
    fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")).unwrap().count()
}

/// Looks until `holds`, or fails.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::yield_now();
    }
}

/// A client's connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    received: Vec<u8>,
}

/// One response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) closes: bool,
}

impl Client {
    pub(crate) fn to(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client { stream, received: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn ask(&mut self, path: &str) -> Response {
        self.send(get(path));
        self.response()
    }

    pub(crate) fn finish_sending(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Resets the connection rather than close it.
    pub(crate) fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }

    fn read_more(&mut self) -> std::io::Result<usize> {
        let mut piece = [0; 65536];
        let got = self.stream.read(&mut piece)?;
        self.received.extend_from_slice(&piece[..got]);
        Ok(got)
    }

    /// The next response, to the end of its body.
    pub(crate) fn response(&mut self) -> Response {
        let end = loop {
            if let Some(at) = self.received.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            let got = self.read_more();
            let text = String::from_utf8_lossy(&self.received).into_owned();
            match got {
                Ok(0) => panic!("the connection ended after {text:?}"),
                Ok(_) => {}
                Err(error) => panic!("{error} after {text:?}"),
            }
        };
        let head = String::from_utf8(self.received.drain(..end).collect()).unwrap();
        let status = head.get(9..12).unwrap().parse().unwrap();
        let field = |name: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(": "));
            fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        let length: usize = field("content-length").map_or(0, |length| length.parse().unwrap());
        let closes = field("connection") == Some("close");
        while self.received.len() < length {
            assert!(self.read_more().unwrap() > 0, "the body of {head:?} is cut off");
        }
        Response { status, body: self.received.drain(..length).collect(), closes }
    }

    /// Checks that nothing more comes but an orderly end.
    pub(crate) fn ends(&mut self) {
        match self.read_more() {
            Ok(0) if self.received.is_empty() => {}
            other => panic!("{other:?}, {:?}", String::from_utf8_lossy(&self.received)),
        }
    }

    /// Whether anything comes within `time`.
    pub(crate) fn is_silent_for(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let result = self.read_more();
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

pub(crate) fn post(path: &str, body_bytes: usize) -> String {
    let body = "b".repeat(body_bytes);
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {body_bytes}\r\n\r\n{body}")
}
