//! Clients that are slow rather than silent: minimal rates of what they send and take, and bounds on the whole.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::{Client, End, Gate, Setup, eventually, pace};

/// Between two pieces of a slow client.
const PAUSE: Duration = Duration::from_millis(50);
/// More than all buffers take.
const LARGE: usize = 200_000_000;

/// Sends a byte now and then, until there is an answer.
#[track_caller]
fn trickle(client: &mut Client) -> u16 {
    eventually("the answer is there", || {
        let open = client.is_quiet();
        if open {
            let _ = client.try_send("x");
            pace(PAUSE);
        }
        !open
    });
    client.response("POST").status
}

fn with_pool(limits: &str) -> Setup {
    Setup::with_files().limit(limits).pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
}

#[test]
fn a_body_that_trickles_gets_408_and_a_slow_one_does_not() {
    let limits = "body_bytes_per_second_min = 1000\nbody_rate_grace = \"1s\"\nbody_timeout = \"10m\"";
    let server = with_pool(limits).start();
    server.wait_for_processes();
    // Kept in memory, and on the disk, whose time does not count.
    for bytes in [50_000, 5_000_000] {
        let mut client = server.connect();
        client.send(format!("POST /app/length HTTP/1.1\r\nHost: h\r\nContent-Length: {bytes}\r\n\r\n"));
        assert_eq!(trickle(&mut client), 408, "{bytes} bytes");
        // Twice as long as the grace period, at forty times the rate.
        let mut client = server.connect();
        client.send(format!("POST /app/length HTTP/1.1\r\nHost: h\r\nContent-Length: {bytes}\r\n\r\n"));
        let (piece, began) = (vec![b'x'; bytes / 25], Instant::now());
        for _ in 0..25 {
            client.send(&piece);
            pace(2 * PAUSE);
        }
        assert!(began.elapsed() > Duration::from_secs(2));
        assert_eq!(client.response("POST").text(), bytes.to_string());
    }
    server.stop();
}

#[test]
fn a_head_has_more_time_the_more_of_it_comes() {
    // A second for each byte, so that a client on a busy machine is quick enough.
    let with_end = |max: &str| {
        let limits =
            format!("head_timeout = \"500ms\"\nhead_bytes_per_second_min = 1\nhead_timeout_max = \"{max}\"");
        Setup::with_files().limit(&limits).start()
    };
    let server = with_end("10m");
    let mut client = server.connect();
    let began = Instant::now();
    for piece in "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n".as_bytes().chunks(2) {
        client.send(piece);
        pace(PAUSE);
    }
    assert!(began.elapsed() > Duration::from_millis(500));
    assert_eq!(client.response("GET").status, 200);
    server.stop();
    // The time for a head has an end.
    let server = with_end("2s");
    let (mut client, began) = (server.connect(), Instant::now());
    client.send("GET /a.txt HTTP/1.1\r\nX: ");
    assert_eq!(trickle(&mut client), 408);
    assert!(began.elapsed() >= Duration::from_secs(2));
    server.stop();
}

#[test]
fn a_request_is_bounded_as_a_whole() {
    let server = with_pool("request_total_timeout = \"500ms\"").start();
    for head in ["", "Content-Length: 1000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nfffff\r\n"] {
        let mut client = server.connect();
        client.send(format!("POST /app/length HTTP/1.1\r\nHost: h\r\n{head}X:"));
        assert_eq!(trickle(&mut client), 408, "{head:?}");
    }
    server.stop();
}

/// Reads a little now and then, until the server has aborted the response.
fn reads_slowly(client: &mut Client, target: &str, until: impl Fn() -> bool) {
    rustix::net::sockopt::set_socket_recv_buffer_size(client.tcp(), 64 * 1024).unwrap();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    eventually("the response is aborted", || {
        let _ = client.exactly(4096);
        pace(PAUSE);
        until()
    });
}

#[test]
fn a_client_that_takes_less_than_the_minimal_rate_is_dropped() {
    let gate = Gate::new();
    let setup = Setup::with_files()
        .limit("response_bytes_per_second_min = 500000\nresponse_rate_window = \"1s\"")
        .pool("app", Some(&gate), "workers = 1\ntransport = \"relay\"\nqueue = { timeout = \"60s\" }");
    fs::File::create(setup.directory.path().join("root/zeros.bin")).unwrap().set_len(LARGE as u64).unwrap();
    let server = setup.start();
    server.wait_for_processes();
    // The server has nothing to send to this client.
    let mut waits = server.connect();
    waits.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let mut slow = server.connect();
    reads_slowly(&mut slow, "/zeros.bin", || server.total("slow") == 1);
    assert!(slow.exactly(LARGE).is_err(), "it sees the end of the connection");
    server.wait_for("it takes less than response_bytes_per_second_min");
    assert_eq!(server.connect().get("/zeros.bin").body.len(), LARGE, "one that reads gets everything");
    waiting.release();
    assert_eq!(waits.response("GET").text(), "waited\n");
    assert_eq!(server.total("slow"), 1);
    server.stop();
}

/// An application that writes to the client's own socket: what the kernel has of it is looked at. An application that has
/// little to say, or nothing, is not the client's fault.
#[test]
fn a_client_that_takes_too_little_of_what_an_application_writes_to_its_socket_is_dropped() {
    let (gate, other_gate) = (Gate::new(), Gate::new());
    let lines = "workers = 2\ntransport = \"direct\"";
    let server = Setup::with_files()
        .limit("response_bytes_per_second_min = 500000\nresponse_rate_window = \"1s\"")
        .pool("app", Some(&gate), lines)
        .pool("other", Some(&other_gate), lines)
        .start();
    server.wait_for_processes();
    let mut waits = server.connect();
    waits.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let mut trickles = server.connect();
    trickles.send("GET /app/trickle HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(trickles.head().unwrap().status, 200);
    let passed = || server.total("descriptors_passed");
    let before = passed();
    let (mut slow, began) = (server.connect(), Instant::now());
    reads_slowly(&mut slow, "/other/held", || server.total("slow") == 1);
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(passed(), before + 1, "it had the client's socket");
    drop(other_gate);
    server.wait_for("it takes less than response_bytes_per_second_min");
    // Fifty bytes a second, all that time.
    trickles.exactly(20).unwrap();
    waiting.release();
    assert_eq!(waits.response("GET").text(), "waited\n");
    assert_eq!(server.total("slow"), 1);
    drop(trickles);
    // The process has received CANCEL.
    assert_eq!(server.connect().get("/other/hello?2").text(), "hello 2\n");
    let cut_off: Vec<_> = server.stop().access.into_iter().filter(|line| line.contains("\" 499 ")).collect();
    assert!(cut_off.iter().any(|line| line.contains("\"GET /other/held ")), "{cut_off:?}");
}

#[test]
fn a_response_is_bounded_as_a_whole() {
    let gate = Gate::new();
    let setup = Setup::with_files().limit("response_total_timeout = \"1s\"").pool(
        "app",
        Some(&gate),
        "workers = 1\nqueue = { timeout = \"60s\" }",
    );
    fs::File::create(setup.directory.path().join("root/zeros.bin")).unwrap().set_len(LARGE as u64).unwrap();
    let server = setup.start();
    server.wait_for_processes();
    reads_slowly(&mut server.connect(), "/zeros.bin", || server.total("slow") == 1);
    let mut waits = server.connect();
    waits.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    assert_eq!(waits.end(), End::Closed);
    waiting.release();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").status, 200);
    server.wait_for("its response is not out within response_total_timeout");
    let cut_off = server.stop().access.iter().filter(|line| line.contains("\" 499 ")).count();
    assert_eq!(cut_off, 1, "the first one had its head");
}
