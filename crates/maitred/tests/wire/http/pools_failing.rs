//! Applications that fail, in all the ways that they have; no other client is disturbed.

use rustix::process::Signal;

use crate::support::processes::send_signal;
use crate::support::{End, Gate, Server, Setup, eventually};

const PATIENT: &str = "queue = { timeout = \"60s\" }";

fn with_pool(workers: u32) -> (Gate, Server) {
    let gate = Gate::new();
    let lines = format!("workers = {workers}\n{PATIENT}");
    let server = Setup::with_files().pool("app", Some(&gate), &lines).start();
    server.wait_for_processes();
    (gate, server)
}

#[test]
fn an_application_that_raises_gets_500() {
    let (_gate, server) = with_pool(1);
    let mut client = server.connect();
    let before = client.get("/app/pid").text().to_owned();
    for _ in 0..3 {
        let response = client.get("/app/fail");
        assert_eq!(response.status, 500);
        assert!(!response.text().contains("as asked"), "what went wrong is for the log, not for the client");
        if response.says_close() {
            assert_eq!(client.end(), End::Closed);
            client = server.connect();
        }
    }
    assert_eq!(client.method("HEAD", "/app/fail", "").status, 500);
    assert_eq!(server.connect().get("/app/pid").text(), before, "the process goes on");
    let stopped = server.stop();
    assert!(stopped.said.iter().any(|line| line.contains("as asked")), "{:#?}", stopped.said);
}

#[test]
fn an_application_that_breaks_off_closes_the_connection() {
    let (_gate, server) = with_pool(1);
    let mut client = server.connect();
    client.send("GET /app/fail-late HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let error = client.try_response("GET").unwrap_err();
    assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "the client is left waiting");
    assert_eq!(server.connect().get("/app/hello?x").text(), "hello x\n");
    server.stop();
}

/// No client has lost anything by it, and the log does not say so.
#[test]
fn a_process_that_ends_in_order_is_not_called_lost() {
    let (_gate, server) = with_pool(1);
    let [pid] = server.applications()[..] else { panic!("one process") };
    send_signal(pid, Signal::TERM);
    let said = server.wait_for_line(|line| line.contains("application process has ended"));
    assert!(
        said.contains("INFO") && said.contains("pool=app") && said.contains("exited with status 0"),
        "{said}"
    );
    assert_eq!(server.connect().get("/app/hello?x").text(), "hello x\n", "another one takes its place");
    let stopped = server.stop();
    assert!(!stopped.said.iter().any(|line| line.contains("lost")), "{:#?}", stopped.said);
}

#[test]
fn a_process_that_dies_costs_its_own_request_only() {
    let (gate, server) = with_pool(2);
    let mut waits = server.connect();
    waits.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let mut file = server.connect();
    assert_eq!(file.get("/a.txt").status, 200);

    let mut client = server.connect();
    let response = client.get("/app/die");
    assert_eq!((response.status, response.says_close()), (502, true));
    assert_eq!(client.end(), End::Closed);

    assert_eq!(file.get("/a.txt").status, 200);
    waiting.release();
    assert_eq!(waits.response("GET").text(), "waited\n");
    assert_eq!(waits.get("/app/hello?x").text(), "hello x\n");
    // The request went to a second process, which ended as well; there is no third.
    assert_eq!((server.total("handoff_lost"), server.total("handoff_retries")), (2, 1));
    server.stop();
}

#[test]
fn a_process_that_dies_in_a_response_cuts_it_off() {
    let (_gate, server) = with_pool(1);
    let mut client = server.connect();
    client.send("GET /app/die-late HTTP/1.1\r\nHost: localhost\r\n\r\n");
    match client.try_response("GET") {
        Ok(response) => assert_eq!(response.status, 502),
        Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "the client is left waiting"),
    }
    assert_eq!(server.connect().get("/app/hello?x").text(), "hello x\n", "the process is replaced");
    server.stop();
}

/// Killed from outside, in the middle of a request, while others wait for it in the queue.
#[test]
fn requests_that_wait_for_a_process_that_is_killed_get_the_next() {
    let (gate, server) = with_pool(1);
    let mut first = server.connect();
    first.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let mut queued: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for (number, client) in queued.iter_mut().enumerate() {
        client.send(format!("GET /app/hello?{number} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    }
    eventually("the requests are queued", || server.total("queued") == 5);
    send_signal(waiting.pid, Signal::KILL);
    gate.arrival().release();
    assert_eq!(first.response("GET").text(), "waited\n", "the next process was asked");
    for (number, client) in queued.iter_mut().enumerate() {
        assert_eq!(client.response("GET").text(), format!("hello {number}\n"));
    }
    server.stop();
}

#[test]
fn a_full_queue_gets_503_with_retry_after() {
    let gate = Gate::new();
    let lines = "workers = 1\nqueue = { max = 1, timeout = \"60s\" }";
    let server = Setup::with_files().pool("app", Some(&gate), lines).start();
    server.wait_for_processes();
    let mut first = server.connect();
    first.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let mut second = server.connect();
    second.send("GET /app/hello?2 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually("the second request is queued", || server.total("queued") == 1);
    let mut third = server.connect();
    let response = third.get("/app/hello?3");
    assert_eq!((response.status, response.need("retry-after")), (503, "1"));
    assert_eq!(third.method("HEAD", "/app/hello", "").status, 503, "the connection is kept");
    waiting.release();
    assert_eq!(first.response("GET").text(), "waited\n");
    assert_eq!(second.response("GET").text(), "hello 2\n");
    assert_eq!(third.get("/app/hello?3").text(), "hello 3\n");
    assert_eq!(server.total("queue_refused"), 2);
    server.stop();
}

#[test]
fn a_request_that_waits_too_long_gets_503() {
    let gate = Gate::new();
    let lines = "workers = 1\nqueue = { timeout = \"300ms\" }";
    let server = Setup::with_files().pool("app", Some(&gate), lines).start();
    server.wait_for_processes();
    let mut first = server.connect();
    first.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let response = server.connect().get("/app/hello");
    assert_eq!((response.status, response.need("retry-after")), (503, "1"));
    waiting.release();
    assert_eq!(first.response("GET").text(), "waited\n");
    assert!(gate.is_empty());
    server.stop();
}

#[test]
fn a_request_that_takes_too_long_gets_504_and_the_process_is_replaced() {
    let gate = Gate::new();
    let lines = format!("workers = 1\nrequest_timeout = \"500ms\"\n{PATIENT}");
    let server = Setup::with_files().pool("app", Some(&gate), &lines).start();
    server.wait_for_processes();
    let before = server.applications();
    // At the gate, or on the way to it: it is not released.
    let mut client = server.connect();
    client.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = client.response("GET");
    assert_eq!((response.status, response.says_close()), (504, true));
    assert_eq!(client.end(), End::Closed);
    let is_new = |pid: &i32| !before.contains(pid);
    eventually("the process is replaced", || matches!(&server.applications()[..], [pid] if is_new(pid)));
    server.stop();
}

/// The client has gone: the process finishes into the void, and the next client gets its own answer.
#[test]
fn a_client_that_goes_away_costs_nobody_else_anything() {
    let (gate, server) = with_pool(1);
    let mut gone = server.connect();
    gone.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    drop(gone);
    waiting.release();
    let mut client = server.connect();
    (0..5).for_each(|number| {
        assert_eq!(client.get(&format!("/app/hello?{number}")).text(), format!("hello {number}\n"));
    });
    // And one that does not read what it asked for.
    let mut gone = server.connect();
    gone.send("GET /app/large?20000000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    gone.head().unwrap();
    drop(gone);
    assert_eq!(client.get("/app/hello?x").text(), "hello x\n");
    server.stop();
}

/// While its process is busy, a client sends more, or closes its side: both are noticed when the process is done.
#[test]
fn what_a_client_sends_while_its_request_is_handed_off_is_not_lost() {
    let (gate, server) = with_pool(1);
    let mut client = server.connect();
    client.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    client.send(
        "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\nGET /app/hello?x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    waiting.release();
    assert_eq!(client.response("GET").text(), "waited\n");
    assert_eq!(client.response("GET").text(), "file a\n");
    assert_eq!(client.response("GET").text(), "hello x\n");

    client.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    client.finish_sending();
    waiting.release();
    assert_eq!(client.response("GET").text(), "waited\n");
    assert_eq!(client.end(), End::Closed);
    server.stop();
}
