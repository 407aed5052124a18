//! Configurations and commands that several tests use.

use std::path::Path;

use rustix::process::Signal;

use crate::support::libraries::{example, faulty, probe};
use crate::support::{Client, Server, Setup, Stopped, eventually};

/// One table of `module`. `config` and `keys` are lines of TOML, as in `a = 1, b = 2`.
pub(crate) fn table(library: &Path, config: &str, keys: &str) -> String {
    let keys = if keys.is_empty() { String::new() } else { format!(", {keys}") };
    format!("{{ path = \"{}\", config = {{ {config} }}{keys} }}", library.display())
}

/// A `module` of this library.
pub(crate) fn module(library: &Path, config: &str, keys: &str) -> String {
    format!("module = {}", table(library, config, keys))
}

/// Several of them.
pub(crate) fn modules(tables: &[String]) -> String {
    format!("module = [{}]", tables.join(", "))
}

/// `hello` with this greeting.
pub(crate) fn hello(greeting: &str) -> String {
    table(&example("hello"), &format!("greeting = \"{greeting}\""), "")
}

/// A site with files, and `faulty` at `/faulty/*`.
pub(crate) fn with_faulty(keys: &str) -> Setup {
    let setup = Setup::with_files();
    let library = faulty(setup.directory.path());
    setup.route("/faulty/*", &module(&library, "", keys))
}

/// A site with files, and `probe` at `/probe`, where it is told what to do; `keys` are those of its table.
pub(crate) fn with_probe(keys: &str) -> Setup {
    let setup = Setup::with_files();
    let library = probe(setup.directory.path());
    setup.route("/probe", &module(&library, "", keys))
}

/// The library that [`with_probe`] has compiled.
pub(crate) fn probe_of(setup: &Setup) -> std::path::PathBuf {
    setup.directory.path().join("libprobe.so")
}

/// Tells the probe to do something; what it says. With one thread, it has the requests of all connections.
#[track_caller]
pub(crate) fn tell(client: &mut Client, what: &str) -> String {
    let response = client.get(&format!("/probe?{what}"));
    assert_eq!(response.status, 200, "{what}: {response:?}");
    response.text().trim_end().to_owned()
}

/// Waits until so many requests wait in the probe.
#[track_caller]
pub(crate) fn wait_for_waiting(client: &mut Client, count: usize) {
    eventually("the requests wait", || tell(client, "waiting") == count.to_string());
}

/// Sends a GET, and does not wait for the response.
pub(crate) fn ask_only(client: &mut Client, target: &str) {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
}

/// Waits for a line of the error log that has all of these.
#[track_caller]
pub(crate) fn wait_for_all(server: &Server, parts: &[&str]) -> String {
    server.wait_for_line(|line| parts.iter().all(|part| line.contains(part)))
}

/// Stops a server that has said errors, which are what the test is about.
pub(crate) fn finish(server: Server) -> Stopped {
    let stopped = server.terminate(Signal::TERM);
    assert!(stopped.status.success(), "{}; it said:\n{}", stopped.status, stopped.said.join("\n"));
    stopped
}

/// The value of a metric without labels.
#[track_caller]
pub(crate) fn metric(server: &Server, name: &str) -> u64 {
    let metrics = server.admin("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").text().to_owned();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
}

/// Waits until it has this value: the master writes what it knows when it comes to it.
#[track_caller]
pub(crate) fn wait_for_metric(server: &Server, name: &str, value: u64) {
    eventually(name, || metric(server, name) == value);
}
