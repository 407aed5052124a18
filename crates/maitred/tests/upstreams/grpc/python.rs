//! grpcio of Python on both sides: the calls of `calls.py`, which has the server, too. Without grpcio nothing is tested here.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Setup, skip_missing};

/// The Python that `cargo xtask test` has made, or the usual one, if it has grpcio.
fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_maitred")).ancestors().nth(2).unwrap().to_owned();
    let all = [target.join("python/bin/python3"), PathBuf::from("python3")];
    all.into_iter().find(|python| {
        let imports = Command::new(python).args(["-c", "import grpc"]).output();
        imports.is_ok_and(|output| output.status.success())
    })
}

#[test]
fn calls_of_grpcio_pass() {
    let Some(python) = python() else {
        return skip_missing("no grpcio (pip; `cargo xtask test` has it)");
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstreams/grpc/calls.py");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.arg(&script).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut far = run(&["server"]);
    let mut said = BufReader::new(far.stdout.take().unwrap());
    let mut port = String::new();
    said.read_line(&mut port).unwrap();
    let server = Setup::new()
        .server("threads = 1")
        .limit("head_bytes_max = \"64KiB\"")
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"h2://127.0.0.1:{}\"\n", port.trim()))
        .start();
    let at = server.address.to_string();
    let output = run(&["client", &at]).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    // The server ends with its standard input.
    drop(far.stdin.take());
    far.wait().unwrap();
    let output = run(&["client", &at, "stopped"]).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    server.stop();
}
