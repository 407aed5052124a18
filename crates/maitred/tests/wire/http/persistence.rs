//! The life of connections (RFC 9112 section 9).

use crate::support::{Client, End, Setup, eventually};

#[test]
fn http_1_1_connections_persist() {
    let server = Setup::with_files().start();
    let mut client = server.connect();
    for _ in 0..50 {
        let response = client.get("/a.txt");
        assert_eq!((response.text(), response.field("connection")), ("file a\n", None));
        assert_eq!(client.get("/not-there").field("connection"), None);
    }
    let response = client.method("GET", "/a.txt", "Connection: keep-alive\r\n");
    assert!(!response.says_close());
    assert!(client.is_quiet());
    assert_eq!(server.total("accepted"), 2, "one connection, and one to the admin address");
    server.stop();
}

#[test]
fn http_1_0_connections_close_unless_asked() {
    let server = Setup::with_files().start();
    let mut client = server.connect();
    assert_eq!(client.ask("GET /a.txt HTTP/1.0\r\n\r\n").text(), "file a\n");
    assert_eq!(client.end(), End::Closed);

    let mut client = server.connect();
    for _ in 0..3 {
        let response = client.ask("GET /a.txt HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
        assert_eq!((response.text(), response.need("connection")), ("file a\n", "keep-alive"));
    }
    assert_eq!(client.ask("GET /a.txt HTTP/1.0\r\n\r\n").text(), "file a\n");
    assert_eq!(client.end(), End::Closed);
    server.stop();
}

#[test]
fn the_last_response_says_close() {
    let server = Setup::with_files().limit("requests_per_connection_max = 3").start();
    for fields in ["Connection: close\r\n", "Connection: CLOSE\r\n", "Connection: x, close\r\nX: 1\r\n"] {
        for target in ["/a.txt", "/not-there", "/dir"] {
            let mut client = server.connect();
            let response = client.method("GET", target, fields);
            assert_eq!(response.need("connection"), "close", "{target} {fields:?}");
            assert_eq!(client.end(), End::Closed);
        }
    }
    let mut client = server.connect();
    let said: Vec<_> = (0..3).map(|_| client.get("/a.txt").says_close()).collect();
    assert_eq!(said, [false, false, true], "the last that the limit allows");
    assert_eq!(client.end(), End::Closed);
    server.stop();
}

#[test]
fn pipelined_responses_keep_their_order() {
    let server = Setup::with_files().file("large.bin", &vec![b'l'; 300_000]).start();
    let mut client = server.connect();
    let targets = ["/a.txt", "/large.bin", "/not-there", "/b.txt", "/large.bin", "/a.txt", "/dir"];
    let requests: String =
        targets.iter().map(|target| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")).collect();
    client.send(&requests);
    let answers: Vec<_> = targets
        .iter()
        .map(|_| {
            let response = client.response("GET");
            (response.status, response.body.len())
        })
        .collect();
    assert_eq!(answers[0], (200, 7));
    assert_eq!(answers[1], (200, 300_000));
    assert_eq!(answers[2].0, 404);
    assert_eq!(answers[3..6], [(200, 7), (200, 300_000), (200, 7)]);
    assert_eq!(answers[6].0, 301);
    assert!(client.is_quiet());
    server.stop();
}

#[test]
fn a_half_closed_client_gets_its_answer() {
    let server = Setup::with_files().file("large.bin", &vec![b'l'; 3_000_000]).start();
    for (target, bytes) in [("/a.txt", 7), ("/large.bin", 3_000_000)] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        client.finish_sending();
        assert_eq!(client.response("GET").body.len(), bytes);
        assert_eq!(client.end(), End::Closed);
    }
    let mut client = server.connect();
    // More than are answered in one turn.
    client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000));
    client.finish_sending();
    (0..1000).for_each(|_| assert_eq!(client.response("GET").text(), "file a\n"));
    assert_eq!(client.end(), End::Closed);
    server.stop();
}

#[test]
fn a_half_closed_client_gets_what_it_has_asked_for_behind_a_file_that_leaves_at_once() {
    let server = Setup::with_files().file("large.bin", &vec![b'l'; 100_000]).start();
    let mut client = server.connect();
    let target = |at: usize| if at.is_multiple_of(3) { "/a.txt" } else { "/large.bin" };
    let ask = |at| format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", target(at));
    client.send((0..12).map(ask).collect::<String>());
    client.finish_sending();
    let bytes = |at: usize| if at.is_multiple_of(3) { 7 } else { 100_000 };
    (0..12).for_each(|at| assert_eq!(client.response("GET").body.len(), bytes(at), "request {at}"));
    assert_eq!(client.end(), End::Closed);
    server.stop();
}

#[test]
fn half_a_head_and_the_end_get_a_close() {
    let server = Setup::with_files().start();
    let mut client = server.connect();
    client.send("GET /a.txt HTTP/1.1\r\nHost: loc");
    client.finish_sending();
    assert_eq!(client.end(), End::Closed);
    server.stop();
}

#[test]
fn an_idle_connection_is_closed() {
    let server = Setup::with_files().limit("keep_alive_timeout = \"100ms\"").start();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").status, 200);
    assert_eq!(client.end(), End::Closed);
    assert_eq!(server.total("timeouts"), 1);
    server.stop();
}

/// The default of `keep_alive_timeout` is longer than the timeout of these tests.
#[test]
fn the_close_of_a_client_is_answered() {
    let server = Setup::with_files().start();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").status, 200);
    client.finish_sending();
    assert_eq!(client.end(), End::Closed);

    let mut silent = server.connect();
    silent.finish_sending();
    assert_eq!(silent.end(), End::Closed);
    server.stop();
}

#[test]
fn nothing_is_answered_after_close() {
    let server = Setup::with_files().start();
    let mut client = server.connect();
    client.send(
        "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n\
         GET /b.txt HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    assert_eq!(client.response("GET").text(), "file a\n");
    assert_eq!(client.end(), End::Closed);

    let mut client = server.connect();
    client.send("GET /a.txt HTTP/1.0\r\n\r\nGET /b.txt HTTP/1.0\r\n\r\n");
    assert_eq!(client.response("GET").text(), "file a\n");
    assert_eq!(client.end(), End::Closed);

    let mut client = server.connect();
    client.send("bad\r\n\r\nGET /b.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.response("GET").status, 400);
    assert_eq!(client.end(), End::Closed);
    assert_eq!(server.stop().access.len(), 3, "what follows is not even looked at");
}

#[test]
fn a_refusal_reaches_a_client_that_is_still_sending() {
    let server =
        Setup::with_files().limit("body_bytes_max = \"1MiB\"").limit("linger_timeout = \"30s\"").start();
    let mut client = server.connect();
    client.send("POST /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n");
    let piece = [b'x'; 80_000];
    for _ in 0..100 {
        client.send(piece);
    }
    let response = client.response("POST");
    assert_eq!((response.status, response.says_close()), (413, true));
    client.finish_sending();
    assert_eq!(client.end(), End::Closed);
    server.stop();
}

#[test]
fn connections_over_the_limit_wait_in_the_queue() {
    let server = Setup::with_files().limit("connections_per_thread_max = 3").start();
    let mut held: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    // Each connection is always in the middle of a request, or it would be closed for the new one.
    let more = |client: &mut Client| {
        client.send("/a.txt HTTP/1.1\r\nHost: localhost\r\n\r\nGET ");
        assert_eq!(client.response("GET").status, 200);
    };
    held.iter_mut().for_each(|client| client.send("GET "));
    held.iter_mut().for_each(more);
    eventually("none of them is idle", || server.total("reading") == 3);
    // The kernel completes the connection, and takes the request; no thread answers yet.
    let mut waiting = server.connect();
    waiting.send("GET /b.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for _ in 0..20 {
        held.iter_mut().for_each(more);
    }
    assert!(waiting.is_quiet(), "it is not answered while the thread is full");
    drop(held.pop());
    assert_eq!(waiting.response("GET").text(), "file b\n");
    waiting.send("GET ");
    eventually("none of them is idle", || server.total("reading") == 3);
    let _over = server.connect();
    eventually("the thread is full again", || server.total("full") == 1);
    let before = server.total("turns");
    (0..10).for_each(|_| more(&mut held[0]));
    let turns = server.total("turns") - before;
    assert!(turns < 1000, "a full thread that has nothing to do waits: {turns} turns");
    server.stop();
}
