//! `connect = "unix:…"`: pools of an external server, which may start and stop at any time.

use std::path::Path;

use rustix::process::Signal;

use crate::support::processes::send_signal;
use crate::support::{Gate, Running, Server, eventually};

fn directory(server: &Server) -> &Path {
    server.setup.directory.path()
}

#[test]
fn a_server_that_runs_already_gets_requests_and_may_come_and_go() {
    for transport in ["direct", "relay"] {
        let gate = Gate::new();
        let lines =
            format!("workers = 2\ntransport = \"{transport}\"\nqueue = {{ max = 100, timeout = \"30s\" }}");
        let server = Running::setup(&lines).start();
        let mut early = server.connect();
        early.send("GET /app/hello?early HTTP/1.1\r\nHost: h\r\n\r\n");
        server.wait_for_line(|line| line.contains("connecting to"));
        let running = Running::start(directory(&server), Some(&gate));
        assert_eq!(early.response("GET").text(), "hello early\n", "it waited for the server");
        server.wait_for_processes();
        assert_eq!(early.get("/app/hello?again").text(), "hello again\n");
        assert_eq!(early.post("/app/length", &vec![b'x'; 300_000]).text(), "300000");

        // One of its processes leaves; the channel is replaced.
        let pid: i32 = early.get("/app/pid").text().parse().unwrap();
        send_signal(pid, Signal::TERM);
        eventually("it has left", || !Path::new(&format!("/proc/{pid}/fd/0")).exists());
        assert_eq!(early.get("/app/hello?on").text(), "hello on\n");

        // The whole server is restarted, with a request under way and one in the queue.
        let mut under_way = server.connect();
        under_way.send("GET /app/wait HTTP/1.1\r\nHost: h\r\n\r\n");
        drop(gate.arrival());
        assert_eq!(under_way.response("GET").text(), "waited\n");
        drop(running);
        let mut late = server.connect();
        late.send("GET /app/hello?late HTTP/1.1\r\nHost: h\r\n\r\n");
        let running = Running::start(directory(&server), Some(&gate));
        assert_eq!(late.response("GET").text(), "hello late\n", "{transport}");
        assert_eq!(early.get("/app/hello?still").text(), "hello still\n", "the connection was kept");
        server.stop();
        drop(running);
    }
}

#[test]
fn what_no_process_has_seen_goes_to_another_one_whatever_its_method() {
    let (direct, relay, streams) = (("direct", false), ("relay", false), ("auto", true));
    let cases = [(direct, 10), (direct, 1_000_000), (relay, 10), (relay, 1_000_000), (streams, 100_000)];
    for ((transport, sockets_only), bytes) in [&cases[..], &[(streams, 1_000_000)]].concat() {
        let gate = Gate::new();
        // Processes that are leaving would not answer, were they asked.
        let setup =
            Running::setup(&format!("workers = 4\nhealth_interval = \"0s\"\ntransport = \"{transport}\""));
        let running = Running::start_with(setup.directory.path(), Some(&gate), 3, sockets_only);
        let server = setup.start();
        server.wait_for_processes();
        // The only process that takes anything is busy, so that the second request meets all others.
        let mut busy = server.connect();
        busy.send("GET /app/wait HTTP/1.1\r\nHost: h\r\n\r\n");
        let arrival = gate.arrival();
        let mut client = server.connect();
        client.send(format!("POST /app/length HTTP/1.1\r\nHost: h\r\nContent-Length: {bytes}\r\n\r\n"));
        client.send(vec![b'x'; bytes]);
        eventually("it waits", || server.status()["pools"][0]["queued"].as_u64() == Some(1));
        drop(arrival);
        assert_eq!(client.response("POST").text(), bytes.to_string(), "{transport}");
        assert_eq!((server.total("handoff_retries"), server.total("handoff_lost")), (3, 0), "{transport}");
        server.stop();
        drop(running);
    }
}

#[test]
fn a_channel_lives_through_a_reload() {
    let gate = Gate::new();
    let setup = Running::setup("workers = 1\nqueue = { timeout = \"30s\" }");
    let running = Running::start(setup.directory.path(), Some(&gate));
    let server = setup.start();
    server.wait_for_processes();
    let mut client = server.connect();
    let before = client.get("/app/pid").text().to_owned();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    assert_eq!(client.get("/app/pid").text(), before);
    assert_eq!(server.connect().get("/app/pid").text(), before);
    server.stop();
    drop(running);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let server = Running::setup("workers = 1\nqueue = { timeout = \"60s\" }").start();
    let trouble = || server.status()["pools"][0]["trouble"].as_str().map(str::to_owned);
    eventually("the pool is in trouble", || trouble().is_some());
    let response = server.connect().get("/app/hello");
    assert_eq!(response.status, 503);
    assert!(
        !response.text().contains("app.sock"),
        "clients see nothing of what is inside: {}",
        response.text()
    );
    server.wait_for_line(|line| {
        line.contains("503") && line.contains("pool \"app\" cannot be reached") && line.contains("app.sock")
    });
    assert_eq!(server.connect().get("/a.txt").status, 200);
    // Once it is there, the log does not end with the failure.
    let running = Running::start(directory(&server), None);
    server.wait_for("pool \"app\" has recovered");
    assert_eq!(server.connect().get("/app/hello?x").text(), "hello x\n");
    server.stop();
    drop(running);
}
