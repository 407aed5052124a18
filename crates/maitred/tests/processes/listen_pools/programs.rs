//! Servers that know nothing of Maitred, and the example of the document.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::listen_pools::world::{address, ask, ready};
use crate::support::{Client, Server, Setup, binary, eventually};

/// Runs a pool of two processes of this command; both have to answer, and to end when they are asked to.
fn serves(setup: Setup, command: &str) {
    let table =
        format!("[pool.plain]\nlisten = \"127.0.0.1:0\"\ncommand = {command}\nworkers = 2\nbuckets = 2\n");
    let server = setup.table(&table).start();
    eventually("both are ready", || ready(&server) == 2);
    let address = address(&server);
    let mut answered = BTreeSet::new();
    // Each bucket has one process, and the kernel chooses the bucket by the client's port.
    eventually("both answer", || {
        let response = Client::connect(address).get("/");
        assert_eq!(response.status, 200);
        answered.insert(response.text().trim().to_owned());
        answered.len() == 2
    });
    stop(server);
}

fn stop(server: Server) {
    let stopped = server.stop();
    assert!(!stopped.said.iter().any(|line| line.contains("did not finish in time")), "{:#?}", stopped.said);
}

/// Has a compiler write `program` beside the configuration. `None` if there is no such compiler, which is said.
fn compiled(source: &str, text: &[u8], compiler: &str, arguments: &[&str]) -> Option<Setup> {
    let setup = Setup::with_files().outside(source, text);
    let mut command = Command::new(compiler);
    command.args(arguments).arg(source).current_dir(setup.directory.path());
    match command.status() {
        Ok(status) => assert!(status.success(), "{compiler}: {status}"),
        Err(error) => {
            crate::support::skip_missing(format_args!("{compiler} cannot be run: {error}"));
            return None;
        }
    }
    Some(setup)
}

#[test]
fn a_server_in_c_that_takes_a_number() {
    let text = include_bytes!("prefork.c");
    if let Some(setup) = compiled("prefork.c", text, "cc", &["-o", "program"]) {
        serves(setup, "[\"./program\", \"{fd}\"]");
    }
}

#[test]
fn a_server_in_go() {
    let text = include_bytes!("server.go");
    if let Some(setup) = compiled("server.go", text, "go", &["build", "-o", "program"]) {
        serves(setup, "[\"./program\"]");
    }
}

/// The environment of `cargo xtask test` has it, under the target directory.
fn gunicorn() -> Option<PathBuf> {
    let target = Path::new(&binary()).parent()?.parent()?.to_owned();
    let program = target.join("python/bin/gunicorn");
    program.exists().then_some(program)
}

#[test]
fn gunicorn_as_it_is() {
    let Some(gunicorn) = gunicorn() else {
        return crate::support::skip_missing(
            "there is no gunicorn below the target directory; `cargo xtask test` installs it",
        );
    };
    let application = b"import os\n\ndef application(environ, start_response):\n    \
        start_response('200 OK', [('Content-Type', 'text/plain')])\n    return [b'%d\\n' % os.getpid()]\n";
    let command = format!("[{gunicorn:?}, \"--workers\", \"1\", \"--no-control-socket\", \"plain\"]");
    let command = if takes(&gunicorn, "--no-control-socket") {
        command
    } else {
        command.replace("\"--no-control-socket\", ", "")
    };
    serves(Setup::with_files().outside("plain.py", application), &command);
}

/// Whether a program's help names this option.
fn takes(program: &Path, option: &str) -> bool {
    let help = Command::new(program).arg("--help").output().unwrap();
    String::from_utf8_lossy(&help.stdout).contains(option)
}

#[test]
fn the_example_of_the_document() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pools.md");
    let document = std::fs::read_to_string(path).unwrap();
    let section = document.split("## Listen pools").nth(1).unwrap();
    let example = section.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let table = example.replace("\":8000\"", "\"127.0.0.1:0\"");
    assert_ne!(table, example, "the example listens on port 8000");
    let setup = Setup::with_files().outside("prefork.py", include_bytes!("prefork.py"));
    let server = setup.table(&table).start();
    eventually("it is ready", || ready(&server) == 2);
    assert_eq!(ask(address(&server), "/")[2], "1");
    stop(server);
}
