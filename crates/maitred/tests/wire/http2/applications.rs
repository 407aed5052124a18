//! Requests of an application behind the handoff protocol.

use std::collections::BTreeMap;

use crate::support::h2::frame::{code, setting};
use crate::support::h2::{Connection, Lost};
use crate::support::{Gate, Server, Setup, eventually};

const PATIENT: &str = "queue = { max = 1024, timeout = \"60s\" }";

fn start(gate: Option<&Gate>, lines: &str) -> Server {
    let server = Setup::with_files()
        .pool("app", gate, &format!("{lines}\n{PATIENT}"))
        .log("access = \"json\"")
        .start();
    server.wait_for_processes();
    server
}

#[test]
fn pages_of_all_kinds_come() {
    let server = start(None, "workers = 2");
    let mut connection = Connection::new(server.address);
    for _ in 0..3 {
        assert_eq!(connection.get("/app/hello?q=1").text(), "hello q=1\n");
        let pieces: String = (0..20).map(|number| format!("piece {number}\n")).collect();
        let stream = connection.get("/app/stream");
        assert_eq!((stream.text(), stream.field("content-length")), (pieces.as_str(), None));
        assert_eq!(connection.get("/app/large?5000000").body.len(), 5_000_000);
        assert_eq!(connection.get("/app/nothing").status, 204);
        assert_eq!(connection.get("/app/no-such-page").status, 404);
        assert_eq!(connection.get("/app/fail").status, 500);
        for page in ["hello", "stream", "large?70000", "nothing", "fail"] {
            let response = connection.method("HEAD", &format!("/app/{page}"), &[]);
            assert!(response.body.is_empty(), "{page}");
        }
    }
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 33);
}

#[test]
fn the_application_sees_who_asks_and_how() {
    let server = start(None, "workers = 1");
    let mut connection = Connection::new(server.address);
    let fields = [
        ("x-test", "a value"),
        ("cookie", "a=1"),
        ("cookie", "b=2"),
        ("x-forwarded-for", "6.6.6.6"),
        ("te", "trailers"),
        ("user-agent", "test"),
    ];
    let response = connection.method("GET", "/app/%41/show?q=%20", &fields);
    let seen: BTreeMap<String, String> = serde_json::from_slice(&response.body).unwrap();
    let value = |name: &str| seen.get(name).map(String::as_str);
    assert_eq!(value("REQUEST_METHOD"), Some("GET"));
    assert_eq!(value("PATH_INFO"), Some("/app/A/show"));
    assert_eq!(value("QUERY_STRING"), Some("q=%20"));
    assert_eq!(value("HTTP_HOST"), Some("localhost"));
    assert_eq!(value("HTTP_X_TEST"), Some("a value"));
    assert_eq!(value("HTTP_COOKIE"), Some("a=1; b=2"), "crumbs are joined (9113-8.2.3)");
    assert_eq!(value("REMOTE_ADDR"), Some("127.0.0.1"));
    assert_eq!(value("SERVER_PROTOCOL"), Some("HTTP/1.1"), "what an adapter reads is an HTTP/1.1 head");
    assert_ne!(value("HTTP_X_FORWARDED_FOR"), Some("6.6.6.6"));
    assert!(!seen.keys().any(|name| name.starts_with("HTTP_:") || name == "HTTP_CONNECTION"), "{seen:?}");
    let lines = server.stop().json_lines();
    assert_eq!(lines.len(), 1);
    assert_eq!((&lines[0]["version"], &lines[0]["pool"]), (&"HTTP/2.0".into(), &"app".into()));
}

#[test]
fn slow_requests_hold_no_quick_ones_up() {
    let gate = Gate::new();
    let server = start(Some(&gate), "workers = 3");
    let mut connection = Connection::new(server.address);
    let waits: Vec<u32> = (0..2).map(|_| connection.request("GET", "/app/wait", &[], true)).collect();
    let standing: Vec<_> = waits.iter().map(|_| gate.arrival()).collect();
    for number in 0..30 {
        assert_eq!(connection.get(&format!("/app/hello?{number}")).text(), format!("hello {number}\n"));
        assert_eq!(connection.get("/a.txt").text(), "file a\n");
    }
    standing.into_iter().for_each(crate::support::Waiting::release);
    for id in waits {
        assert_eq!(connection.response(id).text(), "waited\n");
    }
    server.stop();
}

#[test]
fn a_hundred_requests_at_once_share_two_processes() {
    let server = start(None, "workers = 2");
    let mut connection = Connection::new(server.address);
    let ids: Vec<u32> = (0..100)
        .map(|number| connection.request("GET", &format!("/app/hello?{number}"), &[], true))
        .collect();
    for (number, id) in ids.into_iter().enumerate() {
        assert_eq!(connection.response(id).text(), format!("hello {number}\n"));
    }
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 100);
}

#[test]
fn a_cancelled_request_is_told_to_the_application() {
    for transport in ["auto", "direct", "relay"] {
        let gate = Gate::new();
        let server = start(Some(&gate), &format!("workers = 1\ntransport = \"{transport}\""));
        let mut connection = Connection::new(server.address);
        let id = connection.request("GET", "/app/wait", &[], true);
        let waiting = gate.arrival();
        let queued = connection.request("GET", "/app/wait", &[], true);
        connection.cancel(id);
        connection.cancel(queued);
        connection.sync();
        // A process that has answered nothing yet gets one request at a time: the second one has never left the server.
        eventually("the request was cancelled", || server.total("cancelled") == 1);
        waiting.release();
        assert_eq!(connection.get("/app/hello?x").text(), "hello x\n", "{transport}");
        assert!(gate.is_empty() && server.total("cancelled") == 1, "{transport}");
        drop(connection);
        let stopped = server.stop();
        assert_eq!(stopped.access.len(), 3, "{transport}: each is logged, also what was cancelled");
    }
}

#[test]
fn a_connection_that_goes_cancels_all_its_requests() {
    let gate = Gate::new();
    let server = start(Some(&gate), "workers = 4");
    let mut connection = Connection::new(server.address);
    (0..4).for_each(|_| {
        connection.request("GET", "/app/wait", &[], true);
    });
    let standing: Vec<_> = (0..4).map(|_| gate.arrival()).collect();
    drop(connection);
    eventually("the requests were cancelled", || server.total("cancelled") == 4);
    standing.into_iter().for_each(crate::support::Waiting::release);
    assert_eq!(Connection::new(server.address).get("/app/hello?x").text(), "hello x\n");
    server.stop();
}

#[test]
fn a_response_that_breaks_off_resets_its_stream() {
    let server = start(None, "workers = 2");
    let mut connection = Connection::new(server.address);
    for page in ["fail-late", "die-late"] {
        let id = connection.request("GET", &format!("/app/{page}"), &[], true);
        assert_eq!(connection.try_response(id), Err(Lost::Reset(code::INTERNAL_ERROR)), "{page}");
    }
    assert_eq!(connection.get("/app/die").status, 502);
    assert_eq!(connection.get("/app/hello?x").text(), "hello x\n", "the connection goes on");
    let stopped = server.terminate(rustix::process::Signal::TERM);
    assert_eq!(stopped.access.len(), 4);
}

/// The response waits in Maitred and in the application's socket, and the process is free for others.
#[test]
fn a_stream_that_is_not_read_holds_no_process() {
    let server = start(None, "workers = 1");
    let mut connection = Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 1000)]);
    connection.open_window(0, 1 << 30);
    connection.reads = false;
    let ids: Vec<u32> = (0..10).map(|_| connection.request("GET", "/app/large?3000000", &[], true)).collect();
    for id in &ids {
        connection.content(*id, 1000);
    }
    for number in 0..20 {
        let id = connection.request("GET", &format!("/app/hello?{number}"), &[], true);
        assert_eq!(connection.response(id).text(), format!("hello {number}\n"));
    }
    for id in ids {
        connection.open_window(id, 1 << 30);
        assert_eq!(connection.response(id).body.len(), 3_000_000);
    }
    server.stop();
}

#[test]
fn a_full_queue_gets_503() {
    let gate = Gate::new();
    let lines = "workers = 1\nqueue = { max = 1, timeout = \"60s\" }";
    let server = Setup::with_files().pool("app", Some(&gate), lines).start();
    server.wait_for_processes();
    let mut connection = Connection::new(server.address);
    let first = connection.request("GET", "/app/wait", &[], true);
    let waiting = gate.arrival();
    let ids: Vec<u32> = (0..20).map(|_| connection.request("GET", "/app/hello?x", &[], true)).collect();
    connection.sync();
    waiting.release();
    assert_eq!(connection.response(first).text(), "waited\n");
    let responses: Vec<_> = ids.into_iter().map(|id| connection.response(id)).collect();
    let refused: Vec<_> = responses.iter().filter(|response| response.status == 503).collect();
    assert!(!refused.is_empty() && refused.len() < 20, "{}", refused.len());
    assert!(refused.iter().all(|response| response.field("retry-after").is_some()));
    server.stop();
}

/// Processes belong to threads, streams do not move: every thread reaches every pool.
#[test]
fn every_thread_reaches_every_process() {
    let setup = Setup::with_files().server("threads = 4");
    let server = setup.pool("app", None, &format!("workers = 2\n{PATIENT}")).start();
    server.wait_for_processes();
    let mut connections: Vec<_> = (0..16).map(|_| Connection::new(server.address)).collect();
    for round in 0..3 {
        let ids: Vec<Vec<u32>> = connections
            .iter_mut()
            .map(|connection| {
                (0..10)
                    .map(|_| connection.request("GET", &format!("/app/hello?{round}"), &[], true))
                    .collect()
            })
            .collect();
        for (connection, ids) in connections.iter_mut().zip(ids) {
            for id in ids {
                assert_eq!(connection.response(id).text(), format!("hello {round}\n"));
            }
        }
    }
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 480);
}

/// A connection on which three WebSockets are used; one of them stays open.
fn websockets(server: &Server) -> Connection {
    let mut connection = Connection::new(server.address);
    let ids: Vec<u32> = (0..3).map(|_| connection.websocket("/echo")).collect();
    for id in &ids {
        assert_eq!(connection.head(*id).status, 200);
    }
    for number in 1..=20 {
        for id in &ids {
            connection.upload(*id, format!("message {number:04}").as_bytes(), false);
            connection.content(*id, 12 * number);
        }
    }
    let large: Vec<u8> = (0..1_000_000).map(|at| (at % 251) as u8).collect();
    connection.upload(ids[0], &large, false);
    connection.content(ids[0], 240 + large.len());
    assert!(connection.stream(ids[0]).body[240..] == large);
    connection.upload(ids[0], b"", true);
    assert!(connection.response(ids[0]).body.ends_with(b"bye"), "both have finished");
    connection.cancel(ids[1]);
    connection.upload(ids[2], b"still there", false);
    connection.content(ids[2], 251);
    assert_eq!(connection.get("/a.txt").text(), "file a\n");
    connection
}

/// The process gets one end of a relay, whichever thread has it.
#[test]
fn a_websocket_reaches_an_application() {
    for threads in [1, 4] {
        let server = Setup::with_files()
            .server(&format!("threads = {threads}"))
            .outside("upgrades.py", include_bytes!("../http/upgrades.py"))
            .route("/echo", "pool = \"app\"")
            .table(
                "[pool.app]\ncommand = [\"python3\", \"-u\", \"upgrades.py\"]\nworkers = 1\n\
                 queue = { timeout = \"60s\" }\n",
            )
            .start();
        server.wait_for_processes();
        // The connections stay, so that the thread that took the first of them leaves some to the others.
        let mut connections = Vec::new();
        eventually("one has to reach another thread's process", || {
            connections.push(websockets(&server));
            connections.len() >= 4 && (threads == 1 || server.total("requests_transferred") > 0)
        });
        drop(connections);
        eventually("all is closed", || server.total("connections") == 1);
        server.stop();
    }
}

#[test]
fn what_fails_has_the_page_of_the_site() {
    let gate = Gate::new();
    let server = Setup::with_files()
        .site("error_pages = { 413 = \"/413.html\", 502 = \"/502.html\", 503 = \"/503.html\" }")
        .file("413.html", b"<p>long</p>")
        .file("502.html", &[b'2'; 200_000])
        .file("503.html", b"<p>busy</p>")
        .limit("body_bytes_max = 1000")
        .pool("app", Some(&gate), "workers = 1\nqueue = { max = 1, timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    let mut connection = Connection::new(server.address);
    let lost = connection.get("/app/die");
    assert_eq!((lost.status, lost.body.len()), (502, 200_000));
    let long = connection.post("/app/echo", &[b'x'; 2000]);
    assert_eq!((long.status, long.text()), (413, "<p>long</p>"));

    let waits = connection.request("GET", "/app/wait", &[], true);
    let waiting = gate.arrival();
    let queued = connection.request("GET", "/app/hello?q", &[], true);
    eventually("it is queued", || server.total("queued") == 1);
    let busy = connection.get("/app/hello");
    assert_eq!((busy.status, busy.text(), busy.need("retry-after")), (503, "<p>busy</p>", "1"));
    let head = connection.method("HEAD", "/app/hello", &[]);
    assert_eq!((head.status, head.need("content-length"), head.body.len()), (503, "11", 0));
    waiting.release();
    assert_eq!(connection.response(waits).text(), "waited\n");
    assert_eq!(connection.response(queued).text(), "hello q\n");
    server.stop();
}
