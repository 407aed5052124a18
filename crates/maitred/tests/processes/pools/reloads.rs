//! A reload, and what becomes of pools that are unchanged, changed, new and gone. And the end of the worker process.

use std::fs;

use rustix::process::Signal;

use crate::pools::load::under_load;
use crate::pools::look::{breathing, letters, pids, processes_of, ready, settled, starts_and_crashes};
use crate::support::processes::send_signal;
use crate::support::{Gate, Server, Setup, eventually};

const LINES: &str =
    "workers = { start = 2, min_spare = 1, max_spare = 8, max = 8 }\nqueue = { timeout = \"60s\" }";

fn reload(server: &Server) {
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
}

/// Waits until the admin address leads to the new worker process.
fn is_generation(server: &Server, number: u64) {
    eventually("the new worker process answers", || server.status()["generation"] == number);
}

fn change(server: &Server, from: &str, to: &str) {
    let path = server.path("maitred.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from} in {text}");
    fs::write(&path, text.replace(from, to)).unwrap();
}

#[test]
fn an_unchanged_pool_lives_through_ten_reloads_under_load() {
    let gate = Gate::new();
    let server = breathing(Setup::new(), "app", Some(&gate), "", LINES).start();
    server.wait_for_processes();
    let mut slow = server.connect();
    slow.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    under_load(&server, 3, "/app/hello?x", |found| {
        found.more(50);
        let before = pids(&server, "app");
        for generation in 2..=11 {
            reload(&server);
            is_generation(&server, generation);
            found.more(20);
        }
        // The load may have called for more of them, and none of them had to go.
        let now = processes_of(&server);
        assert!(before.iter().all(|pid| now.contains(pid)), "{before:?} before, {now:?} now");
        // One more process may start between the two looks.
        eventually("as many are there as were started: none has ended", || {
            starts_and_crashes(&server) == (processes_of(&server).len() as u64, 0)
        });
    });
    waiting.release();
    assert_eq!(slow.response("GET").text(), "waited\n", "what was under way is answered");
    server.stop();
}

/// The request comes to its end at the old worker process, whose one application process is busy, when all others have gone to
/// the new one.
#[test]
fn a_request_that_was_half_there_at_a_reload_is_lent_a_process() {
    let gate = Gate::new();
    let lines = "workers = 2\nqueue = { timeout = \"60s\" }";
    let server = breathing(Setup::new(), "app", Some(&gate), "", lines).start();
    server.wait_for_processes();
    let mut slow = server.connect();
    slow.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let mut half = server.connect();
    half.send("POST /app/pid HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nab");
    assert_eq!(server.connect().get("/app/hello?x").status, 200, "it has been read");
    reload(&server);
    is_generation(&server, 2);
    eventually("the other process has gone over", || ready(&letters(&server, "app")) == 1);
    half.send("cd");
    let lent: i32 = half.response("POST").text().parse().unwrap();
    assert_ne!(lent, waiting.pid);
    eventually("and has come back", || ready(&letters(&server, "app")) == 1);
    waiting.release();
    assert_eq!(slow.response("GET").text(), "waited\n");
    settled(&server, "app", 2);
    assert_eq!(starts_and_crashes(&server), (2, 0));
    server.stop();
}

/// What replaces a process does not start, as when a file of the application is broken. The process that is left has
/// a request, at the old worker process: requests at the new one wait for it.
#[test]
fn requests_wait_for_what_is_left_of_a_pool_that_cannot_start_more() {
    let gate = Gate::new();
    let lines = "workers = 2\nqueue = { timeout = \"60s\" }";
    let server = breathing(Setup::new(), "app", Some(&gate), "", lines).start();
    server.wait_for_processes();
    settled(&server, "app", 2);
    let mut slow = server.connect();
    slow.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    fs::write(server.path("breathing.py"), "raise SystemExit(3)\n").unwrap();
    let other = pids(&server, "app").into_iter().find(|pid| *pid != waiting.pid).unwrap();
    send_signal(other, Signal::KILL);
    eventually("two have not started", || starts_and_crashes(&server).1 >= 3);
    reload(&server);
    is_generation(&server, 2);
    let mut client = server.connect();
    client.send("GET /app/hello?x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually("it waits, or is refused", || server.total("queued") + server.total("queue_refused") == 1);
    waiting.release();
    assert_eq!(slow.response("GET").text(), "waited\n");
    assert_eq!(client.response("GET").text(), "hello x\n");
    server.stop();
}

#[test]
fn a_changed_pool_is_replaced_and_no_request_fails() {
    let server = breathing(Setup::new(), "app", None, "WHICH = \"first\"", LINES).start();
    server.wait_for_processes();
    let before = pids(&server, "app");
    under_load(&server, 4, "/app/hello?x", |found| {
        found.more(50);
        change(&server, "first", "second");
        reload(&server);
        is_generation(&server, 2);
        eventually("the former processes are gone", || {
            let now = processes_of(&server);
            !now.is_empty() && before.iter().all(|pid| !now.contains(pid))
        });
        found.more(50);
    });
    let around = server.connect().get("/app/around");
    let around: serde_json::Value = serde_json::from_slice(&around.body).unwrap();
    assert_eq!(around["env"]["WHICH"], "second");
    server.stop();
}

#[test]
fn a_pool_comes_and_goes_with_the_configuration() {
    let server = breathing(Setup::with_files(), "app", None, "", LINES).start();
    server.wait_for_processes();
    let app = pids(&server, "app");
    under_load(&server, 3, "/app/hello?x", |found| {
        found.more(20);
        let text = fs::read_to_string(server.path("maitred.toml")).unwrap();
        let other = text[text.find("[pool.app]").unwrap()..].replace("[pool.app]", "[pool.other]");
        let route = "[[site.route]]\npath = \"/other/*\"\npool = \"other\"\n[pool.app]";
        fs::write(server.path("maitred.toml"), text.replace("[pool.app]", route) + &other).unwrap();
        reload(&server);
        is_generation(&server, 2);
        // The old worker process may still take what was on its way to it.
        eventually("the new pool answers", || server.connect().get("/other/hello?o").text() == "hello o\n");
        let others = pids(&server, "other");
        assert!(others.len() >= 2, "{others:?}");

        fs::write(server.path("maitred.toml"), text).unwrap();
        reload(&server);
        is_generation(&server, 3);
        eventually("its processes are gone", || {
            let now = processes_of(&server);
            others.iter().all(|pid| !now.contains(pid))
        });
        eventually("its route is gone", || server.connect().get("/other/hello?o").status == 404);
        found.more(20);
        let now = processes_of(&server);
        assert!(app.iter().all(|pid| now.contains(pid)), "the other pool is what it was");
    });
    server.stop();
}

#[test]
fn a_pool_is_whole_when_its_worker_process_was_killed_and_ends_with_the_server() {
    let server = breathing(Setup::new(), "app", None, "", LINES).start();
    server.wait_for_processes();
    let before = processes_of(&server);
    for generation in 2..=3 {
        send_signal(server.answering_worker(), Signal::KILL);
        assert_eq!(server.connect().get("/app/hello?x").text(), "hello x\n");
        is_generation(&server, generation);
    }
    eventually("the pool is whole", || {
        let now = processes_of(&server);
        let shown = pids(&server, "app");
        before.iter().all(|pid| now.contains(pid))
            && now.len() == shown.len()
            && ready(&letters(&server, "app")) == now.len()
    });
    settled(&server, "app", 2);
    let directory = server.path("");
    server.terminate(Signal::TERM);
    let left: Vec<_> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == directory))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
