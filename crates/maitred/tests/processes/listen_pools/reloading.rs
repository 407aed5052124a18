//! Reloads, and the end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

use crate::listen_pools::world::{PREFORK, address, ask, pids, ready, start, table};
use crate::support::{Client, Gate, Setup, eventually};

#[test]
fn an_unchanged_pool_is_not_touched_by_a_reload() {
    let server = start(&format!("{PREFORK}workers = 2"), None);
    eventually("both are ready", || ready(&server) == 2);
    let (before, at) = (pids(&server), address(&server));
    server.signal(Signal::HUP);
    eventually("it has reloaded", || server.status()["master"]["reloads"] == 1);
    eventually("the new status knows them", || pids(&server) == before);
    assert_eq!(address(&server), at);
    assert_eq!(ask(at, "/")[2], "1");
    server.stop();
}

/// Ends the clients of a scope when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_changed_pool_takes_over_without_a_refused_connection() {
    let gate = Gate::new();
    let version = |version: u32, command: &str| {
        let env = format!("GATE = \"{}\", VERSION = \"{version}\"", gate.address());
        format!("env = {{ {env} }}\nworkers = 2\nstart_grace = \"200ms\"\n{command}")
    };
    let server = start(&format!("{PREFORK}workers = 2\nstart_grace = \"200ms\""), Some(&gate));
    eventually("both are ready", || ready(&server) == 2);
    let at = address(&server);
    let mut old = Client::connect(at);
    old.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let first = server.applications();
    let file = server.path("maitred.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let (head, _) = text.split_once("[pool.plain]").unwrap();
    let rewrite = |lines: &str| {
        let pool = format!("{head}[pool.plain]\nlisten = \"127.0.0.1:0\"\n{lines}");
        std::fs::write(&file, pool).unwrap();
        server.signal(Signal::HUP);
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A refused connection, or one that is reset, panics.
        let hammer = || {
            let mut count = 0;
            while !over.load(Ordering::Relaxed) {
                let mut stream = TcpStream::connect(at).expect("no connection is refused");
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
                count += 1;
            }
            count
        };
        let hammers = [scope.spawn(hammer), scope.spawn(hammer)];
        // Whatever fails below, they end, so that it is reported.
        let over = Over(&over);
        rewrite(&version(2, PREFORK));
        eventually("the new ones answer", || ask(at, "/")[2] == "2");
        server.wait_for_line(|line| line.contains("reloaded"));
        waiting.release();
        assert!(old.response("GET").text().contains(" 1 "), "the old one finishes what it has");
        eventually("the old ones have ended", || {
            server.applications().iter().all(|process| !first.contains(process))
        });
        // A successor that cannot start costs nothing: those that are there go on.
        rewrite(&version(3, "command = [\"./is-not-there\"]"));
        server.wait_for_line(|line| line.contains("reload refused") && line.contains("is-not-there"));
        assert_eq!(ask(at, "/")[2], "2");
        rewrite(&version(4, PREFORK));
        eventually("the next ones answer", || ask(at, "/")[2] == "4");
        drop(over);
        assert!(hammers.into_iter().map(|one| one.join().unwrap()).sum::<u32>() > 0);
    });
    let ended = server.terminate(Signal::TERM);
    assert!(ended.status.success(), "{:?}", ended.said);
}

#[test]
fn a_successor_that_dies_is_refused_and_costs_nothing() {
    // A machine may take longer than the usual second to get as far as the failure.
    const GRACE: &str = "workers = 1\nstart_grace = \"60s\"";
    let broken = "import sys\nsys.exit('the database is not configured')\n";
    let server = start(&format!("{PREFORK}workers = 1\nstart_grace = \"200ms\""), None);
    eventually("it is ready", || ready(&server) == 1);
    let (at, before) = (address(&server), pids(&server));
    // On a busy machine a process may count as ready before it has read its program.
    assert_eq!(ask(at, "/")[0], before[0].to_string());
    let (file, program) = (server.path("maitred.toml"), server.path("prefork.py"));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&program, broken).unwrap();
    let is_refused = |arguments: &[&str]| {
        let (status, said) = server.command(arguments);
        assert!(status.code() == Some(1) && said.contains("the database is not configured"), "{said}");
        assert_eq!(ask(at, "/")[0], before[0].to_string());
        eventually("the process before is the only one", || pids(&server) == before);
    };
    let changed = text.replace("workers = 1\nstart_grace = \"200ms\"", GRACE);
    let changed = changed.replace("GATE = \"\"", "GATE = \"\", NEW = \"1\"");
    assert_ne!(changed, text);
    std::fs::write(&file, changed).unwrap();
    is_refused(&["reload"]);
    std::fs::write(&file, text).unwrap();
    let ended = server.terminate(Signal::TERM);
    assert!(ended.status.success(), "{:?}", ended.said);
}

#[test]
fn a_restart_of_a_program_that_is_gone_is_refused_and_costs_nothing() {
    let setup = Setup::with_files().outside("prefork.py", include_bytes!("prefork.py"));
    let shell = "#!/bin/sh\nexec python3 prefork.py\n";
    let setup = setup.outside("serve", shell.as_bytes());
    let program = setup.directory.path().join("serve");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let lines = "command = [\"./serve\"]\nworkers = 1\nstart_grace = \"200ms\"";
    let server = setup.table(&table(lines, None)).start();
    eventually("it is ready", || ready(&server) == 1);
    let before = pids(&server);
    assert_eq!(ask(address(&server), "/")[0], before[0].to_string(), "it has read its program");
    std::fs::remove_file(&program).unwrap();
    let (status, said) = server.command(&["pool", "plain", "restart"]);
    assert!(status.code() == Some(1) && said.contains("No such file or directory"), "{said}");
    eventually("the process before is the only one", || pids(&server) == before);
    assert_eq!(ask(address(&server), "/")[0], before[0].to_string());
    let ended = server.terminate(Signal::TERM);
    assert!(ended.status.success(), "{:?}", ended.said);
}

#[test]
fn a_stop_lets_them_finish() {
    let gate = Gate::new();
    let server = start(&format!("{PREFORK}workers = 1"), Some(&gate));
    eventually("it is ready", || ready(&server) == 1);
    let at = address(&server);
    let mut client = Client::connect(at);
    client.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    server.signal(Signal::TERM);
    server.wait_for_line(|line| line.contains("stopping"));
    waiting.release();
    assert_eq!(client.response("GET").status, 200);
    let stopped = server.wait_for_exit();
    assert!(stopped.status.success());
    assert!(TcpStream::connect(at).is_err(), "there is no listener any more");
}
