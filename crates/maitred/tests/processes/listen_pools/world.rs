//! A server with one listen pool, and what tests ask of it.

use std::net::SocketAddr;

use crate::support::{Client, Gate, Server, Setup};

/// The plain server in Python.
pub(crate) const PREFORK: &str = "command = [\"python3\", \"prefork.py\"]\n";

/// `[pool.plain]` on a port of the kernel's choice, with these further lines.
pub(crate) fn table(lines: &str, gate: Option<&Gate>) -> String {
    let gate = gate.map(|gate| gate.address().to_string()).unwrap_or_default();
    format!("[pool.plain]\nlisten = \"127.0.0.1:0\"\nenv = {{ GATE = \"{gate}\" }}\n{lines}\n")
}

pub(crate) fn start(lines: &str, gate: Option<&Gate>) -> Server {
    let program = include_bytes!("prefork.py");
    Setup::with_files().outside("prefork.py", program).table(&table(lines, gate)).start()
}

/// The pool's part of the status.
pub(crate) fn pool(server: &Server) -> serde_json::Value {
    server.status()["pools"][0].clone()
}

pub(crate) fn letters(server: &Server) -> String {
    pool(server)["letters"].as_str().unwrap().to_owned()
}

/// Processes that are ready.
pub(crate) fn ready(server: &Server) -> usize {
    letters(server).chars().filter(|letter| matches!(letter, '_' | 'W')).count()
}

pub(crate) fn pids(server: &Server) -> Vec<i64> {
    let pool = pool(server);
    let slots = pool["slots"].as_array().unwrap().iter();
    slots.filter_map(|slot| slot["pid"].as_i64().filter(|pid| *pid != 0)).collect()
}

pub(crate) fn address(server: &Server) -> SocketAddr {
    pool(server)["addresses"][0].as_str().unwrap().parse().unwrap()
}

/// One request on a connection of its own: process id, bucket, version and CPUs of the process that answered.
pub(crate) fn ask(address: SocketAddr, path: &str) -> Vec<String> {
    let response = Client::connect(address).get(path);
    assert_eq!(response.status, 200);
    response.text().split_whitespace().map(str::to_owned).collect()
}
