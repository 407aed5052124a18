//! Clients that ask for more than they read: the server stops reading, waits without doing anything, and goes on.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use crate::support::h2::Connection;
use crate::support::processes::cpu_ticks;
use crate::support::{Server, Setup, eventually};

/// How long the server is watched, and what it may do meanwhile: turns of its event loop, and CPU time. A loop that does not
/// wait makes thousands of turns, also on a machine that has little time for it.
const WATCHED: Duration = Duration::from_millis(500);
const TURNS_MAX: u64 = 100;
const CPU_MS_MAX: u64 = 100;
/// Requests, of eight kilobytes as their responses are: more than the kernel keeps for a connection in both directions.
const REQUESTS: usize = 3000;

/// What the worker process has done so far: requests, turns, CPU time in milliseconds.
fn figures(server: &Server) -> (u64, u64, u64) {
    let status = server.status();
    let sum = |key: &str| status["totals"][key].as_u64().unwrap();
    (sum("http2_streams"), sum("turns"), 10 * cpu_ticks(server.worker()))
}

/// Watches once nothing moves any more.
fn is_quiet(server: &Server) {
    // A connection that waits in vain: that is how the time passes.
    let waiting = server.connect();
    waiting.tcp().set_read_timeout(Some(WATCHED)).unwrap();
    loop {
        let before = figures(server);
        assert!(waiting.tcp().read(&mut [0]).is_err(), "unasked");
        let after = figures(server);
        if after.0 != before.0 {
            continue;
        }
        let (turns, cpu_ms) = (after.1 - before.1, after.2 - before.2);
        assert!(turns <= TURNS_MAX && cpu_ms <= CPU_MS_MAX, "{turns} turns, {cpu_ms} ms of CPU time");
        return;
    }
}

#[test]
fn a_client_that_stops_reading_costs_nothing_and_gets_everything_later() {
    let server = Setup::with_files().limit("write_timeout = \"10m\"").server("threads = 1").start();
    let mut connection = Connection::new(server.address);
    rustix::net::sockopt::set_socket_recv_buffer_size(connection.socket(), 64 * 1024).unwrap();
    connection.sync();
    let (mut ids, mut bytes) = (Vec::new(), Vec::new());
    for number in 0..REQUESTS {
        let id = connection.open();
        let path = format!("/dir?{number}{}", "x".repeat(8000));
        bytes.extend(connection.request_bytes(id, "HEAD", &path, &[], true));
        ids.push(id);
    }
    let mut socket = connection.socket().try_clone().unwrap();
    let sender = std::thread::spawn(move || socket.write_all(&bytes));
    eventually("requests are answered", || server.total("http2_streams") > 100);
    is_quiet(&server);
    assert!(server.total("http2_streams") < REQUESTS as u64, "it has not stopped reading");
    for id in ids {
        assert_eq!(connection.response(id).status, 301);
    }
    sender.join().unwrap().unwrap();
    assert_eq!(connection.get("/a.txt").text(), "file a\n");
    assert_eq!(connection.goaway, None);
    server.stop();
}
