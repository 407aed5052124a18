//! A server that has nothing to do does nothing.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::process::Signal;

use crate::abuse::{get, next, open_gate, setup};
use crate::support::load::SetOnDrop;
use crate::support::processes::{cpu_ticks, send_signal};
use crate::support::{eventually, pace};

/// How long the server is watched, and how much CPU time it may take in that time, in ticks of 10 ms. A loop that does not
/// wait takes all of it; one that wakes every millisecond several ticks.
const WATCHED: Duration = Duration::from_millis(600);
const TICKS_MAX: u64 = 3;

/// Watches a worker process until it has been quiet for [`WATCHED`], once it has done what it was given: on a busy machine
/// that takes its time. Meanwhile the test does nothing, as its clients do.
fn becomes_quiet(worker: i32, what: &str) {
    eventually(&format!("{what}: it is quiet"), || {
        let before = cpu_ticks(worker);
        pace(WATCHED);
        cpu_ticks(worker) - before <= TICKS_MAX
    });
}

/// Nothing that a test can do makes a turn long but stopping the process in the middle of one, so that it is given much to do and
/// stopped until that has happened.
#[test]
fn a_slow_turn_is_counted_and_logged() {
    let server = setup("").start();
    let worker = server.worker();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.connect();
            while !over.load(Relaxed) {
                client.send(get("/small").repeat(300));
                (0..300).for_each(|_| assert_eq!(next(&mut client).status, 200));
            }
        });
        let _ends = SetOnDrop(&over);
        eventually("it was stopped in the middle of a turn", || {
            send_signal(worker, Signal::STOP);
            pace(Duration::from_millis(120));
            send_signal(worker, Signal::CONT);
            server.total("slow_turns") > 0
        });
    });
    assert!(server.total("longest_turn_us") > 100_000);
    // Which source was slow is not the test's choice: that of the client, one that has just accepted or closed an operator's …
    let names = ["connection", "listener", "messages of other threads", "what is done once per turn"];
    server.wait_for_line(|line| {
        let what = line.split("slow iteration of the event loop: ").nth(1);
        what.is_some_and(|what| names.iter().any(|name| what.contains(name)) && what.contains(" took_ms="))
    });
    server.stop();
}

#[test]
fn without_clients_with_slow_ones_and_with_a_stuck_application() {
    let server = setup("").start();
    let worker = server.worker();
    assert_eq!(server.connect().get("/small").status, 200);
    becomes_quiet(worker, "idle");

    let mut slow = server.connect();
    slow.send(get("/large"));
    let mut half = server.connect();
    half.send("GET /sma");
    becomes_quiet(worker, "a client that does not read");

    let mut stuck = server.connect();
    stuck.send(get("/app/never"));
    let mut queued = server.connect();
    queued.send(get("/app/ok") + &get("/app/ok"));
    queued.finish_sending();
    becomes_quiet(worker, "an application that does not answer");
}

#[test]
fn at_the_limit_of_connections() {
    for limits in ["connections_per_thread_max = 1", "connections_per_thread_max = 20"] {
        let server = setup("").limit(limits).start();
        let worker = server.worker();
        let mut clients: Vec<_> = (0..30).map(|_| server.connect()).collect();
        assert_eq!(clients[0].get("/small").status, 200);
        clients.iter_mut().skip(1).for_each(|client| client.send("GET /sm"));
        becomes_quiet(worker, limits);
        // All clients come in as others go.
        for mut client in clients.drain(1..) {
            client.send("all HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            if limits.ends_with('1') {
                break;
            }
        }
        drop(clients);
        assert_eq!(server.connect().get("/small").status, 200, "{limits}");
        server.stop();
    }
}

#[test]
fn while_it_drains() {
    let server = setup("").start();
    let worker = server.worker();
    let mut held = server.connect();
    held.send(get("/app/hold"));
    let mut half = server.connect();
    half.send("POST /app/length HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
    assert_eq!(server.connect().get("/small").status, 200);
    server.signal(Signal::TERM);
    eventually("it stops listening", || std::net::TcpStream::connect(server.address).is_err());
    becomes_quiet(worker, "draining");
    assert!(held.is_quiet());
    open_gate(&server);
    assert_eq!(next(&mut held).status, 200);
    half.send("cd");
    assert_eq!(next(&mut half).body, b"4\n");
    server.stop();
}
