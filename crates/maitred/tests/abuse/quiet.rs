//! A server that has nothing to do does nothing.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{SETUP, Server, Setup, cpu_ticks, get, wait_until};

/// How long the server is watched, and how much CPU time it may take in that time, in ticks of 10 ms. A loop that does not
/// wait takes all of it; one that wakes every millisecond several ticks.
const WATCHED: Duration = Duration::from_millis(600);
const TICKS_MAX: u64 = 3;

/// Watches while a client that waits in vain waits.
fn is_quiet(server: &Server, worker: u32, what: &str) {
    let mut client = server.idle();
    let before = cpu_ticks(worker);
    assert!(client.is_silent_for(WATCHED), "{what}");
    let ticks = cpu_ticks(worker) - before;
    assert!(ticks <= TICKS_MAX, "{what}: {ticks} ticks of CPU time");
}

#[test]
fn without_clients_with_slow_ones_and_with_a_stuck_application() {
    let server = Server::start(&SETUP);
    let worker = server.worker();
    assert_eq!(server.connect().ask("/small").status, 200);
    is_quiet(&server, worker, "idle");

    let mut slow = server.connect();
    slow.send(get("/large"));
    let mut half = server.connect();
    half.send("GET /sma");
    is_quiet(&server, worker, "a client that does not read");

    let mut stuck = server.connect();
    stuck.send(get("/app/never"));
    let mut queued = server.connect();
    queued.send(get("/app/ok") + &get("/app/ok"));
    queued.finish_sending();
    is_quiet(&server, worker, "an application that does not answer");
}

#[test]
fn at_the_limit_of_connections() {
    for limits in ["connections_per_thread_max = 1", "connections_per_thread_max = 20"] {
        let server = Server::start(&Setup { limits, ..SETUP });
        let worker = server.worker();
        let mut clients: Vec<_> = (0..30).map(|_| server.connect()).collect();
        assert_eq!(clients[0].ask("/small").status, 200);
        clients.iter_mut().skip(1).for_each(|client| client.send("GET /sm"));
        is_quiet(&server, worker, limits);
        // All of them come in as others go.
        for mut client in clients.drain(1..) {
            client.send("all HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            if limits.ends_with('1') {
                break;
            }
        }
        drop(clients);
        assert_eq!(server.connect().ask("/small").status, 200, "{limits}");
        server.stop();
    }
}

#[test]
fn while_it_drains() {
    let server = Server::start(&SETUP);
    let worker = server.worker();
    let mut held = server.connect();
    held.send(get("/app/hold"));
    let mut half = server.connect();
    half.send("POST /app/length HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
    assert_eq!(server.connect().ask("/small").status, 200);
    server.signal(Signal::TERM);
    wait_until("it stops listening", || std::net::TcpStream::connect(server.address).is_err());
    let before = cpu_ticks(worker);
    assert!(held.is_silent_for(WATCHED));
    let ticks = cpu_ticks(worker) - before;
    assert!(ticks <= TICKS_MAX, "draining: {ticks} ticks of CPU time");
    server.open_gate();
    assert_eq!(held.response().status, 200);
    half.send("cd");
    assert_eq!(half.response().body, b"4\n");
    server.stop();
}
