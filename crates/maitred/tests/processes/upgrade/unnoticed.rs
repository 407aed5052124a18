//! What clients see of an upgrade: nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::process::Signal;

use crate::support::load::{Load, SetOnDrop, replace_under_load};
use crate::support::processes::send_signal;
use crate::support::{Client, Gate, Running, Setup, eventually};
use crate::upgrade::{busy, upgrade};

#[test]
fn what_is_under_way_is_finished_and_what_is_idle_is_kept() {
    let (server, mut busy, waiting) = busy();
    let (master, old) = (server.status()["master_pid"].clone(), server.answering_worker());
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").text(), "file a\n");

    upgrade(&server, 2);
    let status = server.status();
    assert_eq!(status["master_pid"], master, "the process is the same");
    assert_eq!(status["master"]["upgrades"], 1);
    assert_ne!(server.answering_worker(), old);
    assert_eq!(idle.get("/b.txt").text(), "file b\n", "on the connection that was there before");
    assert_eq!(idle.get("/app/hello?x").text(), "hello x\n", "the pool has a new process");

    waiting.release();
    assert_eq!(busy.response("GET").text(), "waited\n");
    assert_eq!(busy.get("/a.txt").text(), "file a\n", "its connection is kept as well");
    eventually("no process of the old image is left", || {
        server.children().len() == 2 && !server.children().contains(&old)
    });
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 5, "each is in the access log once: {:#?}", stopped.access);
}

/// The worker process in between was asked to go, too, and has nothing of its own.
#[test]
fn a_connection_that_comes_late_is_passed_on_by_those_in_between() {
    let (server, mut busy, waiting) = busy();
    upgrade(&server, 2);
    upgrade(&server, 3);
    waiting.release();
    assert_eq!(busy.response("GET").text(), "waited\n");
    for _ in 0..3 {
        assert_eq!(busy.get("/a.txt").text(), "file a\n", "on the same connection");
    }
    eventually("no process of the old images is left", || server.children().len() == 2);
    server.stop();
}

/// The processes were not started here, and their end is not reported.
#[test]
fn channels_to_a_server_that_runs_already_are_made_anew() {
    let setup = Running::setup("workers = 2\nqueue = { timeout = \"60s\" }");
    let _application = Running::start(setup.directory.path(), None);
    let server = setup.start();
    assert_eq!(server.connect().get("/app/hello?x").text(), "hello x\n");
    upgrade(&server, 2);
    assert_eq!(server.connect().get("/app/hello?y").text(), "hello y\n");
    // A master that waits for the old channels would stay.
    server.stop();
}

#[test]
fn no_request_fails_in_five_upgrades() {
    let server = Setup::with_files().server("threads = 2").pool(
        "app",
        None,
        "workers = 2\nqueue = { timeout = \"60s\" }",
    );
    let server = server.start();
    server.wait_for_processes();
    let targets = [("/a.txt", "file a\n"), ("/app/hello?x", "hello x\n")];
    let client = |load: &Load, (target, body): (&str, &str)| {
        let mut kept = server.connect();
        while !load.is_over() {
            // A refused connection, or one that is reset, panics.
            let new = server.connect().get(target);
            assert_eq!((new.status, new.text()), (200, body), "{target} on a new connection");
            let old = kept.get(target);
            assert_eq!((old.status, old.text()), (200, body), "{target} on a kept connection");
            load.answered(2);
        }
    };
    let answered = replace_under_load(&targets, client, 6, 10, |generation| upgrade(&server, generation));
    assert_eq!(server.status()["master"]["upgrades"], 5);
    eventually("no process of the old images is left", || server.children().len() == 3);
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), answered, "each is in the access log once");
}

#[test]
fn processes_that_accept_by_themselves_are_replaced_without_a_refused_connection() {
    let program = include_bytes!("../listen_pools/prefork.py");
    let pool = "[pool.plain]\nlisten = \"127.0.0.1:0\"\nenv = { GATE = \"\" }\nworkers = 2\n\
                start_grace = \"200ms\"\ncommand = [\"python3\", \"prefork.py\"]\n";
    let server = Setup::with_files().outside("prefork.py", program).table(pool).start();
    let pids = || -> Vec<i64> {
        let status = server.status();
        let slots = status["pools"][0]["slots"].as_array().unwrap().clone();
        slots.iter().filter_map(|slot| slot["pid"].as_i64().filter(|pid| *pid != 0)).collect()
    };
    eventually("both run", || pids().len() == 2);
    let before = pids();
    let address: std::net::SocketAddr =
        server.status()["pools"][0]["addresses"][0].as_str().unwrap().parse().unwrap();
    eventually("they answer", || TcpStream::connect(address).is_ok_and(|stream| ask(stream).contains("200")));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let hammer = scope.spawn(|| {
            while !over.load(Relaxed) {
                let answer = ask(TcpStream::connect(address).expect("no connection is refused"));
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
            }
        });
        let stop = SetOnDrop(&over);
        upgrade(&server, 2);
        // The worker process, and two processes of the pool.
        eventually("the old ones are gone", || {
            let children = server.children();
            children.len() == 3 && !before.iter().any(|old| children.contains(&(*old as i32)))
        });
        drop(stop);
        hammer.join().unwrap();
    });
    assert_eq!(server.status()["pools"][0]["addresses"][0], address.to_string());
    server.stop();
}

fn ask(mut stream: TcpStream) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The master of the worker process, which is there no more, could not report the end of an application process.
#[test]
fn a_process_that_dies_after_the_upgrade_is_missed_by_nobody() {
    let gate = Gate::new();
    let server =
        Setup::with_files().server("grace = \"50s\"").pool("app", Some(&gate), "workers = 1").start();
    server.wait_for_processes();
    let mut busy = server.connect();
    busy.send("POST /app/wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    let waiting = gate.arrival();
    upgrade(&server, 2);
    send_signal(waiting.pid, Signal::KILL);
    assert_eq!(busy.response("POST").status, 502);
    eventually("no process of the old image is left", || server.children().len() == 2);
    server.stop();
}

#[test]
fn what_application_processes_write_is_still_in_the_log() {
    let (server, mut busy, waiting) = busy();
    upgrade(&server, 2);
    // A line in the pipe that the old image has made.
    let mut errors =
        std::fs::File::options().write(true).open(format!("/proc/{}/fd/2", waiting.pid)).unwrap();
    errors.write_all(b"said after the upgrade\n").unwrap();
    drop(errors);
    server.wait_for_line(|line| line.contains("app/0") && line.contains("said after the upgrade"));
    waiting.release();
    assert_eq!(busy.response("GET").status, 200);
    server.stop();
}

#[test]
fn a_new_worker_process_that_is_killed_is_replaced() {
    let server = Setup::with_files().start();
    upgrade(&server, 2);
    send_signal(server.answering_worker(), Signal::KILL);
    eventually("another one answers", || server.status()["generation"] == 3);
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    let stopped = server.terminate(Signal::TERM);
    assert!(stopped.status.success());
}

#[test]
fn files_and_sockets_stay() {
    let server = Setup::with_files().server("pid_file = \"maitred.pid\"").start();
    let number = |name: &str| {
        use std::os::unix::fs::MetadataExt;
        std::fs::symlink_metadata(server.path(name)).unwrap().ino()
    };
    let before = (number("admin.sock"), number("maitred.pid"));
    upgrade(&server, 2);
    assert_eq!((number("admin.sock"), number("maitred.pid")), before);
    assert_eq!(Client::connect(server.address).get("/a.txt").text(), "file a\n");
    let (admin, pid_file) = (server.path("admin.sock"), server.path("maitred.pid"));
    let stopped = server.stop();
    assert!(!admin.exists() && !pid_file.exists(), "and go at the end");
    drop(stopped);
}
