//! `concurrent`: a request counts until its response has ended, in every way in which it can end.

use rustix::process::Signal;

use crate::limits::count;
use crate::support::h2::Connection;
use crate::support::processes::send_signal;
use crate::support::{Client, Gate, Response, Server, Setup, Waiting, eventually};

const LIMIT: &str = "[limit.x]\nconcurrent = 2\nkeys_max = 1000\n";

/// A server whose application processes answer `/app/wait` when the test lets them.
fn setup(gate: &Gate, pool: &str) -> Setup {
    Setup::with_files()
        .server("threads = 2")
        .site("limit = [\"x\"]")
        .pool("app", Some(gate), &format!("workers = 3\n{pool}"))
        .table(LIMIT)
}

/// A client whose request is under way.
fn under_way(server: &Server, gate: &Gate) -> (Client, Waiting) {
    let mut client = server.connect();
    client.send("GET /app/wait HTTP/1.1\r\nHost: h\r\n\r\n");
    (client, gate.arrival())
}

#[track_caller]
fn is_refused(response: &Response) {
    assert_eq!(response.status, 429);
    assert_eq!(response.need("retry-after"), "1");
    assert_eq!(response.need("ratelimit-policy"), "\"x\";q=2;qu=\"concurrent-requests\"");
}

#[track_caller]
fn none_is_left(server: &Server) {
    eventually("no request is under way", || {
        (count(server, "x", "under_way"), count(server, "x", "keys")) == (0, 0)
    });
}

#[test]
fn requests_beyond_the_limit_are_refused_until_one_has_ended() {
    for transport in ["direct", "relay"] {
        let gate = Gate::new();
        let server = setup(&gate, &format!("transport = \"{transport}\"")).start();
        let (mut first, waiting) = under_way(&server, &gate);
        let (second, other) = under_way(&server, &gate);
        assert_eq!((count(&server, "x", "under_way"), count(&server, "x", "keys")), (2, 1));
        is_refused(&server.connect().get("/app/hello"));
        is_refused(&server.connect().get("/a.txt"));
        assert_eq!(Connection::new(server.address).get("/a.txt").status, 429);
        waiting.release();
        assert_eq!(first.response("GET").status, 200);
        eventually("another one passes", || server.connect().get("/a.txt").status == 200);
        // The next one on the same connection.
        eventually("and one of the application", || first.get("/app/hello").status == 200);
        // A client that goes away; its process finds that out later.
        drop(second);
        other.release();
        none_is_left(&server);
        assert!(count(&server, "x", "refused") >= 3);
        let stopped = server.stop();
        let said = &stopped.said;
        assert!(
            said.iter().any(|line| line.contains("429: beyond its limit of requests at a time")),
            "{said:?}"
        );
    }
}

#[test]
fn each_stream_counts() {
    let gate = Gate::new();
    let server = setup(&gate, "").start();
    let mut connection = Connection::new(server.address);
    let first = connection.request("GET", "/app/wait", &[], true);
    let waiting = gate.arrival();
    let second = connection.request("GET", "/app/wait", &[], true);
    let other = gate.arrival();
    let third = connection.request("GET", "/a.txt", &[], true);
    assert_eq!(connection.response(third).status, 429);
    connection.cancel(second);
    connection.sync();
    eventually("the stream that was reset does not count", || connection.get("/a.txt").status == 200);
    waiting.release();
    other.release();
    assert_eq!(connection.response(first).status, 200);
    none_is_left(&server);
    server.stop();
}

#[test]
fn a_response_counts_until_its_client_has_taken_it() {
    let gate = Gate::new();
    let server = setup(&gate, "").file("large", &vec![b'x'; 30_000_000]).start();
    let mut slow: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for client in &mut slow {
        client.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
        client.exactly(100).unwrap();
    }
    is_refused(&server.connect().get("/a.txt"));
    slow.pop().unwrap().reset();
    eventually("it does not count when its client is gone", || server.connect().get("/a.txt").status == 200);
    drop(slow);
    none_is_left(&server);
    // Small ones, in one burst: they do not come at a time.
    let mut client = server.connect();
    let burst = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n".repeat(10);
    // What is there of a next one does not keep the last one.
    client.send(format!("{burst}GET /a"));
    assert!((0..10).all(|_| client.response("GET").status == 200));
    none_is_left(&server);
    server.stop();
}

#[test]
fn what_fails_does_not_count_any_longer() {
    let gate = Gate::new();
    let server = setup(&gate, "request_timeout = \"1s\"")
        .route("/none/*", "pool = \"none\"")
        .table("[pool.none]\nconnect = \"http://127.0.0.1:1\"\n")
        .start();
    for target in ["/app/die", "/app/die-late", "/app/fail", "/none/x", "/missing", "/app/wait"] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let _ = client.try_response("GET");
        none_is_left(&server);
    }
    // A body that never comes as a whole.
    let mut client = server.connect();
    client.send("POST /app/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nx");
    eventually("it counts while its body comes", || count(&server, "x", "under_way") == 1);
    drop(client);
    none_is_left(&server);
    server.terminate(Signal::TERM);
}

#[test]
fn a_killed_worker_process_leaves_no_count() {
    let gate = Gate::new();
    let server = setup(&gate, "").start();
    let kept: Vec<_> = (0..2).map(|_| under_way(&server, &gate)).collect();
    is_refused(&server.connect().get("/a.txt"));
    let old = server.worker();
    send_signal(old, Signal::KILL);
    eventually("there is another one", || server.worker_is_not(old));
    eventually("its requests do not count", || server.connect().get("/a.txt").status == 200);
    none_is_left(&server);
    drop(kept);
    server.terminate(Signal::TERM);
}

/// Has the server get another worker process while two requests are under way in the present one.
fn replaced(command: &str) {
    let gate = Gate::new();
    let server = setup(&gate, "").start();
    let (mut first, waiting) = under_way(&server, &gate);
    let (mut second, other) = under_way(&server, &gate);
    let (status, said) = server.command(&[command]);
    assert!(status.success(), "{said}");
    eventually("the new worker process answers", || server.status()["generation"] == 2);
    assert_eq!((count(&server, "x", "under_way"), count(&server, "x", "keys")), (0, 1));
    is_refused(&server.connect().get("/a.txt"));
    waiting.release();
    assert_eq!(first.response("GET").status, 200);
    eventually("one has ended", || server.connect().get("/a.txt").status == 200);
    other.release();
    assert_eq!(second.response("GET").status, 200);
    none_is_left(&server);
    server.stop();
}

#[test]
fn requests_of_the_worker_process_before_a_reload_count() {
    replaced("reload");
}

#[test]
fn requests_of_the_worker_process_before_an_upgrade_count() {
    replaced("upgrade");
}

#[test]
fn a_dry_run_and_another_status() {
    let gate = Gate::new();
    let server = Setup::with_files()
        .pool("app", Some(&gate), "workers = 2")
        .route("/dry/*", "pool = \"app\"\nlimit = [\"dry\"]")
        .route("/one/*", "pool = \"app\"\nlimit = [\"one\"]")
        .table("[limit.dry]\nconcurrent = 1\ndry_run = true\n[limit.one]\nconcurrent = 1\nstatus = 503\n")
        .start();
    let mut client = server.connect();
    client.send("GET /dry/wait HTTP/1.1\r\nHost: h\r\n\r\n");
    let waiting = gate.arrival();
    assert_eq!(server.connect().get("/dry/hello").status, 200);
    assert_eq!((count(&server, "dry", "refused"), count(&server, "dry", "dry_run")), (0, 1));
    waiting.release();
    assert_eq!(client.response("GET").status, 200);
    client.send("GET /one/wait HTTP/1.1\r\nHost: h\r\n\r\n");
    let waiting = gate.arrival();
    let refused = server.connect().get("/one/hello");
    assert_eq!((refused.status, refused.need("retry-after")), (503, "1"));
    waiting.release();
    assert_eq!(client.response("GET").status, 200);
    server.stop();
}
