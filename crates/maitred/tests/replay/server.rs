//! The real binary, from its start to its end.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::site::{APPLICATION, Site};

/// How long starting and stopping may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// `maitred run`; killed when dropped.
pub(crate) struct Server {
    child: Child,
    lines: Receiver<String>,
    /// What it said so far.
    pub(crate) said: Vec<String>,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Makes the site in `directory`, starts the server, and waits for its address.
    pub(crate) fn start(directory: &Path, site: &Site) -> Server {
        // A server that was started as root may serve as somebody else.
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
        let root = directory.join("root");
        fs::create_dir(&root).unwrap();
        site.make(&root, &directory.join("pages")).unwrap();
        fs::write(directory.join("pages.py"), include_str!("pages.py")).unwrap();
        let configuration = directory.join("maitred.toml");
        fs::write(&configuration, configure()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_maitred"));
        command.args(["run", "-c"]).arg(&configuration).current_dir(directory);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        read_lines(child.stdout.take().unwrap(), sender.clone());
        read_lines(child.stderr.take().unwrap(), sender);
        let mut server = Server { child, lines, said: Vec::new(), address: ([127, 0, 0, 1], 0).into() };
        server.address = server.wait_for_address();
        server
    }

    /// The first `http://ADDRESS` that it prints.
    fn wait_for_address(&mut self) -> SocketAddr {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            let address = line.split("http://").nth(1).and_then(|rest| {
                let end = rest.find(|byte: char| !byte.is_ascii_digit() && byte != '.' && byte != ':');
                rest[..end.unwrap_or(rest.len())].parse().ok()
            });
            self.said.push(line);
            if let Some(address) = address {
                return address;
            }
        }
        panic!("no address; it said:\n{}", self.said.join("\n"));
    }

    /// Stops it gracefully, and waits for its end.
    pub(crate) fn stop(mut self) -> (ExitStatus, Vec<String>) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let deadline = Instant::now() + PATIENCE;
        // Both pipes end when the last of its processes has ended.
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("it does not stop; it said:\n{}", self.said.join("\n"))
                }
            }
        }
        let status = self.child.wait().unwrap();
        (status, std::mem::take(&mut self.said))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Without a master its other processes end by themselves: their control sockets close.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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

fn configure() -> String {
    let adapter = fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../../adapters/python")).unwrap();
    let routes = APPLICATION
        .map(|prefix| format!("[[site.route]]\npath = \"{prefix}*\"\npool = \"pages\"\n"))
        .join("\n");
    format!(
        r#"[server]
threads = 2

[[listen]]
address = "127.0.0.1:0"

[[site]]
root = "root"

{routes}
[pool.pages]
command = ["python3", "-m", "maitred", "pages:application"]
workers = 2
env = {{ PAGES = "pages", PYTHONPATH = "{}:." }}

[log]
access = "combined"
access_file = "access.log"
"#,
        adapter.display()
    )
}
