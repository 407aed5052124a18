//! The real server, if its binary can be found.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Maitred's binary: beside this test's, where `cargo build` or `cargo test --workspace` puts it.
pub(crate) fn maitred() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_maitred-load")).with_file_name("maitred");
    path.exists().then_some(path)
}

/// A server that is stopped and reaped whatever the test does.
pub(crate) struct Maitred {
    process: Child,
    pub(crate) url: String,
}

impl Maitred {
    /// Starts it with a free port, and waits until it tells its address.
    pub(crate) fn start(binary: &Path, arguments: &[&str]) -> Maitred {
        let mut process = Command::new(binary)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // `serve` tells its address on standard output, `run` in its log.
        let (found, addresses) = mpsc::channel();
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            process.stdout.take().map(|stream| Box::new(stream) as _),
            process.stderr.take().map(|stream| Box::new(stream) as _),
        ];
        for stream in streams.into_iter().flatten() {
            let found = found.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let at =
                        ["https://127.0.0.1:", "http://127.0.0.1:"].iter().find_map(|start| line.find(start));
                    let url = at.and_then(|at| line[at..].split_whitespace().next());
                    if let Some(url) = url {
                        let _ = found.send(url.to_owned());
                    }
                }
            });
        }
        let url = addresses.recv_timeout(Duration::from_secs(60)).unwrap();
        Maitred { process, url }
    }
}

impl Drop for Maitred {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.process.wait();
    }
}
