//! Processes that are retired (`max_requests` and the like) while something is under way at them.

use std::time::{Duration, Instant};

use crate::requests::setup;
use crate::support::processes::runs;
use crate::support::{Client, Server, eventually, pace};

/// What a retired process has had in any case, with `request_timeout = "1s"`: until here nothing was ever cut.
const TIMEOUT: Duration = Duration::from_secs(6);

/// A pool of one process, which is replaced after so many requests.
fn start(transport: &str, requests: u32) -> Server {
    let workers = format!(
        "workers = {{ start = 1, min_spare = 1, max_spare = 1, max = 1, max_requests = {requests} }}\nrequest_timeout = \"1s\""
    );
    let server = setup(transport, &workers).start();
    server.wait_for_processes();
    server
}

fn ask(server: &Server, path: &str) -> Client {
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
    client
}

/// A stream that goes on by itself.
fn stream(server: &Server) -> Client {
    let mut client = ask(server, "/ticking");
    assert_eq!(client.head().unwrap().status, 200);
    client.exactly(10).unwrap();
    client
}

fn pid(server: &Server) -> i32 {
    server.connect().get("/pid").text().parse().unwrap()
}

/// Asks until the process that answers has been replaced.
fn replaced(server: &Server, before: i32) -> i32 {
    let mut now = before;
    eventually("another one answers", || {
        now = pid(server);
        now != before
    });
    now
}

/// Reads what comes for so long.
fn goes_on(client: &mut Client, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        client.exactly(9).unwrap();
        client.take_received();
    }
}

fn is_cut(client: &mut Client) {
    while client.exactly(1).is_ok() {
        client.take_received();
    }
}

/// Letters of the pool's slots.
fn letters(server: &Server) -> String {
    server.status()["pools"][0]["letters"].as_str().unwrap().to_owned()
}

#[test]
fn a_retired_process_keeps_its_streams_and_no_silent_request() {
    std::thread::scope(|scope| {
        for transport in ["direct", "relay"] {
            scope.spawn(move || {
                let server = start(transport, 6);
                let first = pid(&server);
                let mut live = stream(&server);
                let mut silent = ask(&server, "/silent");
                let second = replaced(&server, first);
                assert_eq!(silent.response("GET").status, 504, "{transport}");
                goes_on(&mut live, TIMEOUT + Duration::from_secs(2));
                assert!(runs(first), "{transport}");
                assert!(letters(&server).contains('D'), "{transport}: {}", letters(&server));
                assert_eq!(server.status()["pools"][0]["retired_max"], 1, "{transport}");
                // One more process that stays is one too many: the oldest ends.
                let mut next = stream(&server);
                let third = replaced(&server, second);
                server.wait_for("more than retired_max (1) would stay");
                is_cut(&mut live);
                goes_on(&mut next, Duration::from_secs(2));
                eventually("the first one is gone", || !runs(first));
                assert!(runs(second), "{transport}");
                // The last stream of a retired process is the end of the process.
                drop(next);
                eventually("the second one is gone", || !runs(second));
                assert!(runs(third) || pid(&server) != third, "{transport}");
                assert_eq!(server.status()["master"]["slot_crashes"], 0, "{transport}");
                server.stop();
            });
        }
    });
}

#[test]
fn grace_streams_bounds_the_streams_of_a_retired_process() {
    let server =
        setup("relay", "request_timeout = \"1s\"").server("grace = \"1s\"\ngrace_streams = \"2s\"").start();
    server.wait_for_processes();
    let first = pid(&server);
    let mut live = stream(&server);
    assert!(server.command(&["pool", "app", "drain", "0"]).0.success());
    is_cut(&mut live);
    server.wait_for("grace_streams is over");
    assert_ne!(pid(&server), first);
    server.stop();
}

/// A connection that the process has taken over through a relay is not over because it gets no more requests.
#[test]
fn tunnels_of_a_retired_process_go_on() {
    let server = start("relay", 4);
    let first = pid(&server);
    let mut client = server.connect();
    client.send("GET /detach HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert!(client.raw_head().unwrap().starts_with(b"HTTP/1.1 101 "));
    replaced(&server, first);
    let end = Instant::now() + TIMEOUT + Duration::from_secs(1);
    while Instant::now() < end {
        client.send("abc");
        assert_eq!(client.exactly(3).unwrap(), b"abc");
        client.take_received();
        pace(Duration::from_millis(100));
    }
    assert!(runs(first));
    drop(client);
    eventually("it has nothing more to do", || !runs(first));
    server.stop();
}
