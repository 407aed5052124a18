//! `request_buffering = "off"`: bodies that go to an application process while they come (STREAMS).

use std::io;
use std::os::unix::net::UnixListener;

use crate::requests::worker::{Heard, Worker, listen};
use crate::support::h2::{Connection, frame, hpack};
use crate::support::{Client, End, Server, Setup, eventually};

/// More than the sockets between client, Maitred and worker take.
const MUCH: usize = 32 << 20;

/// A server whose bodies go to a listening worker while they come.
fn setup(lines: &str) -> Setup {
    Setup::with_files()
        .log("access = \"json\"")
        .limit(&format!("body_bytes_max = {MUCH}"))
        .site("request_buffering = \"off\"")
        .route("/*", &format!("pool = \"app\"\n{lines}"))
}

/// Started, with one worker.
fn start_with(setup: Setup, pool: &str, capacity: u32, streams: bool) -> (Server, Worker, UnixListener) {
    let listener = listen(&setup);
    let path = setup.directory.path().join("worker.sock");
    let pool = format!("[pool.app]\nconnect = \"unix:{}\"\nworkers = 1\n{pool}\n", path.display());
    let server = setup.table(&pool).start();
    let worker = Worker::accept(&listener, capacity, streams);
    server.wait_for_processes();
    if streams {
        wait_until_known(&server);
    }
    (server, worker, listener)
}

/// What the worker has said behind HELLO is read with it; a look at the status comes after it.
fn wait_until_known(server: &Server) {
    server.status();
}

fn start(lines: &str) -> (Server, Worker, UnixListener) {
    start_with(setup(lines), "", 100, true)
}

/// A client that has sent the head of a request.
fn post(server: &Server, framing: &str) -> Client {
    let mut client = server.connect();
    client.send(format!("POST /a HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n"));
    client
}

#[test]
fn a_body_goes_to_the_worker_while_it_comes() {
    for transport in ["auto", "direct", "relay"] {
        let (server, mut worker, _) =
            start_with(setup(""), &format!("transport = \"{transport}\""), 100, true);
        let mut client = server.connect();
        for _ in 0..3 {
            client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n");
            let mut given = worker.request();
            assert!(given.flags.body_stream && given.body.is_empty(), "{given:?}");
            assert!(given.head.contains("\r\ncontent-length: 11\r\n"), "{}", given.head);
            assert!(!given.meta.contains("continue"), "{}", given.meta);
            client.send("first");
            assert_eq!(given.take(5), b"first");
            // What comes behind the body belongs to the next request.
            client.send("secondGET /next HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(given.take(6), b"second");
            worker.answer(&mut given, "thanks");
            assert_eq!(client.response("POST").text(), "thanks");
            let mut next = worker.request();
            // A relay that was used for a body is not used again.
            assert!(!next.flags.body_stream && (next.passed || next.connection != given.connection));
            worker.answer(&mut next, "next");
            assert_eq!(client.response("GET").text(), "next");
        }
        server.stop();
    }
}

#[test]
fn a_body_of_unknown_length_comes_in_chunks_and_with_its_trailers() {
    let (server, mut worker, _) = start("");
    let mut client = post(&server, "Transfer-Encoding: chunked");
    let mut given = worker.request();
    assert!(given.flags.body_stream && !given.head.contains("content-length"), "{}", given.head);
    assert!(!given.head.contains("transfer-encoding"), "{}", given.head);
    client.send("5\r\nfirst\r\n");
    assert_eq!(given.take(10), b"5\r\nfirst\r\n");
    client.send("0\r\nX-Sum: 17\r\nHost: evil\r\n\r\n");
    assert_eq!(given.take(16), b"0\r\nx-sum: 17\r\n\r\n", "those that a frame would have");
    worker.answer(&mut given, "thanks");
    assert_eq!(client.response("POST").text(), "thanks");
    // More of them than the protocol allows.
    for (many, got) in [(32, "0\r\nx-a: 1\r\n"), (33, "0\r\n\r\n")] {
        let mut client = post(&server, "Transfer-Encoding: chunked");
        let mut given = worker.request();
        client.send(format!("0\r\n{}\r\n", "X-A: 1\r\n".repeat(many)));
        assert_eq!(given.take(got.len()), got.as_bytes(), "{many}");
        worker.answer(&mut given, "thanks");
        assert_eq!(client.response("POST").text(), "thanks");
    }
    server.stop();
}

#[test]
fn streams_of_http2_go_on_while_they_come() {
    let (server, mut worker, _) = start_with(setup("").listen("http2 = true"), "", 100, true);
    let mut client = Connection::new(server.address);
    for length in [false, true] {
        let fields: &[(&str, &str)] = if length { &[("content-length", "11")] } else { &[] };
        let id = client.request("POST", "/a", fields, false);
        let mut given = worker.request();
        assert_eq!(given.head.contains("content-length: 11\r\n"), length);
        let pieces: [(&[u8], &[u8]); 2] = match length {
            true => [(b"first", b"first"), (b"second", b"second")],
            false => [(b"first", b"5\r\nfirst\r\n"), (b"second", b"6\r\nsecond\r\n")],
        };
        for (sent, got) in pieces {
            client.send(frame::data(id, sent, false));
            assert_eq!(given.take(got.len()), got);
        }
        client.send(frame::headers(id, &hpack::block(&[("x-sum", "17")]), true));
        if !length {
            assert_eq!(given.take(16), b"0\r\nx-sum: 17\r\n\r\n");
        }
        worker.answer(&mut given, "thanks");
        assert_eq!(client.response(id).text(), "thanks");
    }
    // A request that the client takes back.
    let id = client.request("POST", "/a", &[], false);
    let mut given = worker.request();
    client.send(frame::data(id, b"first", false));
    assert_eq!(given.take(10), b"5\r\nfirst\r\n");
    client.cancel(id);
    while !matches!(worker.hear(), Heard::Cancel(request) if request == given.request) {}
    assert_eq!(given.rest(), b"", "the end is no last chunk");
    worker.done(&given, 0);
    drop(client);
    server.stop();
}

#[test]
fn client_and_worker_may_talk_to_one_another() {
    let (server, mut worker, _) = start("");
    let mut client = post(&server, "Content-Length: 40");
    let mut given = worker.request();
    given.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(client.head().unwrap().status, 200);
    for number in 0..10 {
        let word = format!("wor{number}");
        client.send(&word);
        assert_eq!(given.take(4), word.as_bytes());
        given.write(format!("4\r\n{word}\r\n"));
        assert_eq!(client.exactly(9).unwrap(), format!("4\r\n{word}\r\n").as_bytes());
    }
    given.write("0\r\n\r\n");
    worker.done(&given, 200);
    assert_eq!(client.exactly(5).unwrap(), b"0\r\n\r\n");
    client.send("GET /next HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut next = worker.request();
    worker.answer(&mut next, "next");
    assert_eq!(client.response("GET").text(), "next");
    server.stop();
}

/// Sends until nothing more goes for a while; how many bytes that were.
fn send_until_refused(client: &Client, most: usize) -> usize {
    client.tcp().set_nonblocking(true).unwrap();
    let (piece, mut sent, mut refused) = (vec![b'x'; 1 << 20], 0, 0);
    eventually("the client cannot send more", || {
        let before = sent;
        while sent < most {
            match io::Write::write(&mut client.tcp(), &piece[..piece.len().min(most - sent)]) {
                Ok(bytes) => sent += bytes,
                Err(_) => break,
            }
        }
        refused = if sent == before { refused + 1 } else { 0 };
        refused > 20
    });
    client.tcp().set_nonblocking(false).unwrap();
    sent
}

/// Of one that reads nothing, the client is held, and nothing is kept but what one read brought.
#[test]
fn a_client_sends_no_faster_than_the_worker_reads() {
    let (server, mut worker, _) = start("");
    let mut client = post(&server, &format!("Content-Length: {MUCH}"));
    let mut given = worker.request();
    let sent = send_until_refused(&client, MUCH);
    assert!(sent < MUCH, "the sockets do not take all of it");
    let status = server.status();
    assert!(status["budgets"]["unsent"]["used"].as_u64().unwrap() <= 1 << 20, "{}", status["budgets"]);
    for place in ["memory", "disk"] {
        assert_eq!(status["bodies"][place]["bytes"].as_u64(), Some(0), "{place}");
    }
    let reader = std::thread::spawn(move || {
        let mut read = 0;
        while read < MUCH {
            let piece = given.take((MUCH - read).min(1 << 20));
            assert!(piece.iter().all(|byte| *byte == b'x'));
            read += piece.len();
        }
        given
    });
    client.send(vec![b'x'; MUCH - sent]);
    let mut given = reader.join().unwrap();
    worker.answer(&mut given, "all");
    assert_eq!(client.response("POST").text(), "all");
    server.stop();
}

#[test]
fn the_worker_asks_for_the_body() {
    let (server, mut worker, _) = start("");
    let mut client = post(&server, "Expect: 100-continue\r\nContent-Length: 5");
    let mut given = worker.request();
    assert!(given.meta.contains("\ncontinue=1\n") && !given.head.contains("expect"), "{given:?}");
    given.write("HTTP/1.1 100 Continue\r\n\r\n");
    assert!(client.raw_head().unwrap().starts_with(b"HTTP/1.1 100 Continue\r\n"));
    client.send("hello");
    assert_eq!(given.take(5), b"hello");
    worker.answer(&mut given, "thanks");
    assert_eq!(client.response("POST").text(), "thanks");
    // An application that sends no 100 Continue.
    let mut client = post(&server, "Expect: 100-continue\r\nContent-Length: 5");
    let mut given = worker.request();
    given.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    worker.done(&given, 403);
    let refused = client.response("POST");
    assert_eq!((refused.status, refused.interim), (403, vec![]));
    server.stop();
}

/// A response may come before everything has been read: a short rest is read, and a long one ends the connection.
#[test]
fn an_early_response_is_passed_on() {
    let (server, mut worker, _) = start("");
    let mut client = post(&server, "Content-Length: 9");
    client.send("four");
    let mut given = worker.request();
    worker.answer(&mut given, "early");
    assert_eq!(client.response("POST").text(), "early");
    client.send("otherGET /next HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut next = worker.request();
    assert!(next.head.starts_with("GET /next "), "{}", next.head);
    assert!(next.passed || next.connection != given.connection, "the relay may hold a part of the body");
    worker.answer(&mut next, "next");
    assert_eq!(client.response("GET").text(), "next");
    let mut client = post(&server, &format!("Content-Length: {MUCH}"));
    client.send("four");
    let mut given = worker.request();
    worker.answer(&mut given, "early");
    assert_eq!(client.response("POST").text(), "early");
    // The connection ends behind it, however much comes.
    while client.try_send(vec![b'x'; 65536]).is_ok() {}
    server.stop();
}

/// The worker has to see that a request is not whole.
#[test]
fn a_client_that_goes_too_early_ends_the_body_without_its_end() {
    let (server, mut worker, _) = start("");
    for framing in ["Content-Length: 50", "Transfer-Encoding: chunked"] {
        for resets in [false, true] {
            let mut client = post(&server, framing);
            client.send("5\r\nfirst\r\n");
            let mut given = worker.request();
            assert_eq!(given.take(10), b"5\r\nfirst\r\n");
            match resets {
                true => client.reset(),
                false => {
                    client.finish_sending();
                    let end = client.end();
                    assert!(matches!(end, End::Closed | End::Reset), "{end:?}");
                }
            }
            assert_eq!(given.rest(), b"");
            while !matches!(worker.hear(), Heard::Cancel(request) if request == given.request) {}
            worker.done(&given, 0);
        }
    }
    let lines = server.stop().json_lines();
    assert_eq!(lines.len(), 4, "{lines:?}");
}

#[test]
fn what_is_no_body_or_too_much_of_it_is_refused() {
    let (server, mut worker, _) = start("limits = { body_bytes_max = 1000 }");
    let long = format!("400\r\n{}\r\n0\r\n\r\n", "x".repeat(1024));
    for (body, status) in [("zz\r\n", 400), (long.as_str(), 413)] {
        let mut client = post(&server, "Transfer-Encoding: chunked");
        let mut given = worker.request();
        client.send(body);
        assert_eq!(client.response("POST").status, status);
        assert!(!given.rest().ends_with(b"0\r\n\r\n"));
        while !matches!(worker.hear(), Heard::Cancel(_)) {}
        worker.done(&given, 0);
    }
    // What is announced to be too long is not given away at all.
    assert_eq!(post(&server, "Content-Length: 1001").response("POST").status, 413);
    server.stop();
}

#[test]
fn a_client_that_says_nothing_is_too_slow_and_a_worker_that_does_is_late() {
    let limits = "limits = { body_timeout = \"1s\", body_bytes_per_second_min = 0 }";
    let (server, mut worker, _) = start_with(setup(limits), "request_timeout = \"1s\"", 100, true);
    let mut client = post(&server, "Content-Length: 10");
    client.send("first");
    let mut given = worker.request();
    assert_eq!(client.response("POST").status, 408);
    assert_eq!(given.rest(), b"first");
    while !matches!(worker.hear(), Heard::Cancel(_)) {}
    worker.done(&given, 0);
    // The same after the worker has asked for it.
    let mut client = post(&server, "Content-Length: 10\r\nExpect: 100-continue");
    let mut given = worker.request();
    given.write("HTTP/1.1 100 Continue\r\n\r\n");
    let refused = client.response("POST");
    assert_eq!((refused.status, refused.interim), (408, vec![100]));
    while !matches!(worker.hear(), Heard::Cancel(_)) {}
    worker.done(&given, 0);
    let mut client = post(&server, "Content-Length: 10");
    client.send("first more");
    let given = worker.request();
    assert_eq!(client.response("POST").status, 504);
    while !matches!(worker.hear(), Heard::Cancel(_)) {}
    worker.done(&given, 0);
    server.stop();
}

/// What has left cannot be given to another worker; what has not been read at all can.
#[test]
fn a_worker_that_ends_takes_a_request_along_only_if_it_has_begun() {
    let (server, mut worker, listener) = start("");
    let mut client = post(&server, "Content-Length: 11");
    client.send("first");
    let mut given = worker.request();
    assert_eq!(given.take(5), b"first");
    drop((given, worker));
    assert_eq!(client.response("POST").status, 502);
    let mut worker = Worker::accept(&listener, 100, true);
    server.wait_for_processes();
    let mut client = post(&server, "Content-Length: 5");
    let mut given = worker.request();
    client.send("hello");
    assert_eq!(given.take(5), b"hello");
    worker.answer(&mut given, "thanks");
    assert_eq!(client.response("POST").text(), "thanks");
    server.stop();
}

#[test]
fn a_worker_that_does_not_say_streams_gets_whole_bodies() {
    let (server, mut worker, _) = start_with(setup(""), "", 100, false);
    let mut client = post(&server, "Content-Length: 11\r\nExpect: 100-continue");
    assert!(client.raw_head().unwrap().starts_with(b"HTTP/1.1 100 Continue\r\n"), "Maitred asks by itself");
    client.send("first");
    client.send("second");
    let mut given = worker.request();
    assert!(!given.flags.body_stream && given.body == b"firstsecond", "{given:?}");
    worker.answer(&mut given, "thanks");
    assert_eq!(client.response("POST").text(), "thanks");
    let mut client = post(&server, &format!("Content-Length: {MUCH}"));
    client.send(vec![b'x'; MUCH]);
    let mut given = worker.request();
    assert!(given.flags.body_fd && given.body.len() == MUCH, "{} bytes", given.body.len());
    worker.answer(&mut given, "thanks");
    assert_eq!(client.response("POST").text(), "thanks");
    server.stop();
}

/// The pool is known to take streams, and its next worker does not: the body is read when the request has found it.
#[test]
fn a_request_may_find_a_worker_that_takes_no_streams() {
    for tls in [false, true] {
        let setup = if tls { setup("").listen("http2 = true") } else { setup("") };
        let (server, worker, listener) = start_with(setup, "", 100, true);
        drop(worker);
        let mut worker = Worker::accept(&listener, 100, false);
        server.wait_for_processes();
        let mut client = post(&server, "Content-Length: 11\r\nExpect: 100-continue");
        assert!(client.raw_head().unwrap().starts_with(b"HTTP/1.1 100 Continue\r\n"));
        client.send("first");
        client.send("secondGET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        for (text, method) in [("firstsecond", "POST"), ("", "GET")] {
            let mut given = worker.request();
            assert!(!given.flags.body_stream && given.body == text.as_bytes(), "{given:?}");
            worker.answer(&mut given, "thanks");
            assert_eq!(client.response(method).text(), "thanks");
        }
        if tls {
            let mut client = Connection::new(server.address);
            let id = client.request("POST", "/a", &[], false);
            client.upload(id, b"first", false);
            client.upload(id, b"second", true);
            let mut given = worker.request();
            assert!(!given.flags.body_stream && given.body == b"firstsecond", "{given:?}");
            worker.answer(&mut given, "thanks");
            assert_eq!(client.response(id).text(), "thanks");
        }
        server.stop();
    }
}

/// The body follows its request to the thread that has the worker: with its connection, or, from a stream of HTTP/2, behind it.
#[test]
fn a_request_that_changes_its_thread_has_its_body_follow() {
    let setup = setup("").server("threads = 2").listen("buckets = 1").listen("http2 = true");
    let (server, mut worker, _) = start_with(setup, "", 100, true);
    let mut connections = Vec::new();
    eventually("a stream has to change its thread", || {
        let mut client = post(&server, "Content-Length: 11");
        let mut given = worker.request();
        client.send("first");
        assert_eq!(given.take(5), b"first");
        client.send("second");
        assert_eq!(given.take(6), b"second");
        worker.answer(&mut given, "thanks");
        assert_eq!(client.response("POST").text(), "thanks");
        let mut client = Connection::new(server.address);
        for fields in [&[][..], &[("content-length", "11")]] {
            let id = client.request("POST", "/a", fields, false);
            let mut given = worker.request();
            let framed = fields.is_empty();
            client.send(frame::data(id, b"first", false));
            let first: &[u8] = if framed { b"5\r\nfirst\r\n" } else { b"first" };
            assert_eq!(given.take(first.len()), first);
            client.send(frame::data(id, b"second", true));
            let second: &[u8] = if framed { b"6\r\nsecond\r\n0\r\n\r\n" } else { b"second" };
            assert_eq!(given.take(second.len()), second);
            worker.answer(&mut given, "thanks");
            assert_eq!(client.response(id).text(), "thanks");
        }
        // And one that is broken off there.
        let id = client.request("POST", "/a", &[], false);
        let mut given = worker.request();
        client.send(frame::data(id, b"first", false));
        assert_eq!(given.take(10), b"5\r\nfirst\r\n");
        client.cancel(id);
        assert_eq!(given.rest(), b"");
        while !matches!(worker.hear(), Heard::Cancel(request) if request == given.request) {}
        worker.done(&given, 0);
        connections.push(client);
        server.total("requests_transferred") > 0
    });
    drop(connections);
    server.stop();
}

#[test]
fn by_default_processes_get_whole_bodies() {
    let setup = Setup::with_files()
        .route("/*", "pool = \"app\"")
        .limit("body_inline_bytes_max = 4\nbody_memory_bytes_max = 9");
    let (server, mut worker, _) = start_with(setup, "", 100, true);
    let mut client = post(&server, "Content-Length: 10");
    client.send("0123456789");
    let mut given = worker.request();
    assert!(!given.flags.body_stream, "{given:?}");
    worker.answer(&mut given, "thanks");
    assert_eq!(client.response("POST").text(), "thanks");
    server.stop();
}
