//! The suite as npm has it: its origin, and its cases.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde::Serialize;
use tempfile::TempDir;

use super::report::Case;
use crate::Result;
use xtask::step::{client, step};

/// The package.
const PACKAGE: &str = "http-cache-tests@0.4.5";
/// How long the origin may take until it listens.
const START: Duration = Duration::from_secs(30);

/// Where the suite is installed.
#[derive(Debug)]
pub(super) struct Suite {
    directory: PathBuf,
    /// `bench/cache-tests`
    scripts: PathBuf,
}

/// How the cases are run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Options {
    /// Cases at the same time.
    pub(super) concurrency: u32,
    /// How long a request may take.
    pub(super) timeout_ms: u64,
    /// Whether those that have failed are run once more: most of them are about seconds, which a busy machine does not keep.
    pub(super) again: bool,
    /// Cases that are run; all, if it is empty.
    pub(super) only: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options { concurrency: 50, timeout_ms: 20_000, again: true, only: Vec::new() }
    }
}

impl Suite {
    /// Installs it under the target directory, unless it is there.
    pub(super) fn install(target: &Path) -> Result<Suite> {
        let directory = std::path::absolute(target.join("cache-tests"))?;
        let note = directory.join("versions");
        if !std::fs::read_to_string(&note).is_ok_and(|found| found == PACKAGE) {
            std::fs::create_dir_all(&directory)?;
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-audit", "--no-fund", "--omit=dev", "--ignore-scripts", "--prefix"]);
            step("the suite of cache rules", npm.arg(&directory).arg(PACKAGE))?;
            std::fs::write(&note, PACKAGE)?;
        }
        let scripts = xtask::root().join("bench/cache-tests");
        Ok(Suite { directory: directory.join("node_modules/http-cache-tests"), scripts })
    }

    /// Name and version.
    pub(super) fn name(&self) -> &'static str {
        PACKAGE
    }

    /// Node.js with a script of `bench/cache-tests`, in the suite's directory.
    fn node(&self, script: &str) -> Command {
        let mut node = Command::new("node");
        node.arg("--no-warnings").arg(self.scripts.join(script)).arg(&self.directory);
        node.current_dir(&self.directory);
        node
    }

    /// Runs the cases on a proxy that listens there.
    pub(super) fn run(&self, proxy: SocketAddr, options: &Options) -> Result<Vec<Case>> {
        let mut node = self.node("run.mjs");
        node.arg(format!("http://{proxy}")).arg(serde_json::to_string(options)?);
        let (status, said) = client("the cases", &mut node)?;
        let line = said.lines().find(|line| line.starts_with('['));
        match line.filter(|_| status.success()) {
            Some(line) => Ok(serde_json::from_str(line)?),
            None => Err(format!("the cases: {status}: {said}").into()),
        }
    }
}

/// The suite's origin, which ends with this.
#[derive(Debug)]
pub(super) struct Origin {
    child: Child,
    address: SocketAddr,
    /// The origin's standard input: the origin ends when this is closed, even if this process is killed.
    input: Option<ChildStdin>,
    _directory: TempDir,
}

impl Origin {
    /// Starts it, and waits until it listens.
    pub(super) fn start(suite: &Suite) -> Result<Origin> {
        let directory = TempDir::new()?;
        let mut node = suite.node("origin.mjs");
        node.env("npm_config_protocol", "http").env("npm_config_port", "0");
        node.env("npm_config_pidfile", directory.path().join("pid"));
        let mut child = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("the origin has no output")?;
        let (sender, lines) = channel();
        // To its end: it says a line for each request that it did not expect.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(|line| line.ok()) {
                let _ = sender.send(line);
            }
        });
        let address = ([127, 0, 0, 1], 0).into();
        let mut origin = Origin { child, address, input, _directory: directory };
        let deadline = Instant::now() + START;
        loop {
            let line = lines.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            let line = line.map_err(|_| "the origin does not listen")?;
            let url = line.strip_prefix("Listening on http://").and_then(|rest| rest.strip_suffix('/'));
            if let Some(address) = url {
                origin.address = address.parse()?;
                return Ok(origin);
            }
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
