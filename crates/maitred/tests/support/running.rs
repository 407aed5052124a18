//! A server of an application that Maitred did not start: it listens at a socket, and has the application of `application.py`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Gate, Setup};

/// An application that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Running {
    /// What the application and Maitred need: a route `/app/*` to it, with these lines in its pool.
    pub(crate) fn setup(lines: &str) -> Setup {
        Setup::with_files()
            .outside("application.py", include_bytes!("application.py"))
            .route("/app/*", "pool = \"app\"")
            .table(&format!("[pool.app]\nconnect = \"unix:app.sock\"\n{lines}\n"))
    }

    /// Started, and listening at `app.sock` in the directory of the configuration. `gate` is where its requests to `/wait`
    /// report.
    pub(crate) fn start(directory: &Path, gate: Option<&Gate>) -> Running {
        Running::start_with(directory, gate, 0, false)
    }

    /// The same; so many of the first workers leave before they have seen any request, and say that they take no files.
    pub(crate) fn start_with(
        directory: &Path,
        gate: Option<&Gate>,
        leaving: u32,
        sockets_only: bool,
    ) -> Running {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let adapter = manifest.join("../../adapters/python").canonicalize().unwrap();
        let mut child = Command::new("python3")
            .arg(manifest.join("tests/support/channels.py"))
            .args([directory.join("app.sock").as_os_str(), "application:application".as_ref()])
            .current_dir(directory)
            .env("PYTHONPATH", format!("{}:.", adapter.display()))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("LEAVING", leaving.to_string())
            .env("LEAVING_FLAGS", u8::from(sockets_only).to_string())
            .env("GATE", gate.map(|gate| gate.address().to_string()).unwrap_or_default())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "listening\n");
        Running(child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}
