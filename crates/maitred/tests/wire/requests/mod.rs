//! Black-box tests of what becomes of a request once a process, or an HTTP server, has it: how long it may be silent, what it may
//! say beforehand, and what it gets. The real binary, and a process (`process.py`) that does what the path of a request says.

mod early_hints;
mod meta;
mod retired;
mod silent;
mod streams;
mod trailers;
mod uploads;
mod worker;

use crate::support::{Server, Setup};

/// A server with one process; `lines` are further lines of its pool.
fn setup(transport: &str, lines: &str) -> Setup {
    setup_with("", transport, lines)
}

/// The same; `rules` are further lines of its route.
fn setup_with(rules: &str, transport: &str, lines: &str) -> Setup {
    let queue = if lines.contains("queue") { "" } else { "queue = { max = 1000, timeout = \"60s\" }" };
    let workers = if lines.contains("workers") { "" } else { "workers = 1\n" };
    Setup::with_files()
        .outside("process.py", include_bytes!("process.py"))
        .log("access = \"json\"")
        .route("/*", &format!("pool = \"app\"\n{rules}"))
        .table(&format!(
            "[pool.app]\ncommand = [\"python3\", \"-u\", \"process.py\"]\n{workers}transport = \"{transport}\"\n\
             {queue}\n{lines}\n"
        ))
}

fn start(transport: &str, lines: &str) -> Server {
    let server = setup(transport, lines).start();
    server.wait_for_processes();
    server
}
