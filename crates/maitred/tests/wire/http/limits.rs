//! Every key of `[limits]`: what a peer meets at the bound, and that it is served below it. Keys about bodies are in
//! [`super::bodies`], those about the number of connections and requests in [`super::persistence`].

use std::fs;
use std::time::{Duration, Instant};

use crate::support::{End, Server, Setup, eventually, pace};

fn limited(line: &str) -> Server {
    Setup::with_files().limit(line).start()
}

/// Sends a whole request and expects a refusal.
#[track_caller]
fn refused(server: &Server, status: u16, request: &str) {
    let mut client = server.connect();
    client.send(request);
    let response = client.response("GET");
    assert_eq!((response.status, response.says_close()), (status, true), "{response:?}");
    assert_eq!(client.end(), End::Closed);
}

#[test]
fn a_head_over_head_bytes_max_gets_431() {
    let server = limited("head_bytes_max = 1024\ntarget_bytes_max = 512");
    let head = |bytes: usize| {
        let start = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nX: ";
        format!("{start}{}\r\n\r\n", "x".repeat(bytes - start.len() - 4))
    };
    assert_eq!(server.connect().ask(head(1024)).text(), "file a\n");
    refused(&server, 431, &head(1025));
    refused(&server, 431, &head(100_000));
    // Also one that never ends.
    refused(&server, 431, &head(2000)[..1500]);
    server.stop();
}

#[test]
fn more_than_header_count_max_get_431() {
    let server = limited("header_count_max = 10");
    let request = |count: usize| {
        let fields: String = (1..count).map(|number| format!("X-{number}: x\r\n")).collect();
        format!("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
    };
    assert_eq!(server.connect().ask(request(10)).text(), "file a\n");
    refused(&server, 431, &request(11));
    server.stop();
}

#[test]
fn a_target_over_target_bytes_max_gets_414() {
    let server = limited("target_bytes_max = 100");
    let request =
        |bytes: usize| format!("GET /a.txt?{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(bytes - 7));
    assert_eq!(server.connect().ask(request(100)).text(), "file a\n");
    refused(&server, 414, &request(101));
    refused(&server, 414, &request(12_000));
    server.stop();
}

#[test]
fn more_than_ranges_max_are_answered_with_the_whole() {
    let server = limited("ranges_max = 3");
    let mut client = server.connect();
    assert_eq!(client.method("GET", "/a.txt", "Range: bytes=0-0,2-2,4-4\r\n").status, 206);
    let response = client.method("GET", "/a.txt", "Range: bytes=0-0,2-2,4-4,6-6\r\n");
    assert_eq!((response.status, response.text()), (200, "file a\n"));
    server.stop();
}

#[test]
fn a_slow_head_gets_408_and_a_close() {
    // The kernel may hold back connections that say nothing; here it shall not. A slow machine gets from a connection to its
    // first request within this time.
    let server = Setup::with_files().limit("head_timeout = \"1s\"").listen("defer_accept = false").start();
    let mut client = server.connect();
    client.send("GET /a.txt HTTP/1.1\r\nHo");
    let response = client.response("GET");
    assert_eq!((response.status, response.says_close()), (408, true));
    assert_eq!(client.end(), End::Closed);
    // A client that never says anything is closed without an answer: there was no request.
    assert_eq!(server.connect().end(), End::Closed);
    // The time counts from the first byte of a head, so a second request has as much.
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").status, 200);
    client.send("GET");
    assert_eq!(client.response("GET").status, 408);
    server.stop();
}

/// A byte now and then does not keep a head alive: the bound is on the whole of it.
#[test]
fn a_head_that_trickles_gets_408() {
    let server = limited("head_timeout = \"300ms\"");
    let mut client = server.connect();
    client.send("GET /a.txt HTTP/1.1\r\nX: ");
    // As fast as the server turns: each round trip on the other connection lets one byte through.
    let mut other = server.connect();
    eventually("the answer is there", || {
        let open = client.is_quiet();
        if open {
            let _ = client.try_send("x");
            assert_eq!(other.get("/a.txt").status, 200);
        }
        !open
    });
    let status = client.response("GET").status;
    assert!(matches!(status, 408 | 431), "{status}");
    drop(client);
    server.stop();
}

#[test]
fn a_slow_body_gets_408_and_a_close() {
    let server = Setup::with_files()
        .limit("body_timeout = \"200ms\"")
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    for framing in ["Content-Length: 10\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nha"] {
        let mut client = server.connect();
        client.send(format!("POST /app/echo HTTP/1.1\r\nHost: localhost\r\n{framing}"));
        let response = client.response("POST");
        assert_eq!((response.status, response.says_close()), (408, true), "{framing:?}");
        assert_eq!(client.end(), End::Closed);
    }
    server.stop();
}

#[test]
fn a_client_that_reads_nothing_is_dropped_after_write_timeout() {
    let setup = Setup::with_files().limit("write_timeout = \"200ms\"");
    // Holes in a file take no disk.
    fs::File::create(setup.directory.path().join("root/zeros.bin")).unwrap().set_len(200_000_000).unwrap();
    let server = setup.start();
    let mut client = server.connect();
    client.send("GET /zeros.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
    eventually("the client is dropped", || server.total("timeouts") == 1);
    assert_eq!(client.head().unwrap().status, 200);
    assert!(client.exactly(200_000_000).is_err(), "it sees the end of the connection");
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 1, "{:?}", stopped.access);
}

/// So slowly that for longer than `write_timeout` the kernel has no room for more of the response.
#[test]
fn a_client_that_reads_slowly_is_not_dropped() {
    let (timeout, at_a_time, pause) = (Duration::from_secs(2), 8 * 1024, Duration::from_millis(50));
    let setup = Setup::with_files().limit("write_timeout = \"2s\"");
    fs::File::create(setup.directory.path().join("root/zeros.bin")).unwrap().set_len(200_000_000).unwrap();
    let server = setup.start();
    let mut client = server.connect();
    rustix::net::sockopt::set_socket_recv_buffer_size(client.tcp(), 64 * 1024).unwrap();
    client.send("GET /zeros.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.head().unwrap().status, 200);
    let began = Instant::now();
    while began.elapsed() < 3 * timeout {
        client.exactly(at_a_time).expect("the response goes on");
        pace(pause);
    }
    client.exactly(10_000_000).expect("the response goes on");
    assert_eq!(server.total("timeouts"), 0);
    server.stop();
}

/// Small responses, never read: they fill the socket too.
#[test]
fn pipelined_requests_of_a_client_that_reads_nothing_are_bounded() {
    let server =
        Setup::with_files().limit("write_timeout = \"200ms\"").file("page", &vec![b'p'; 30_000]).start();
    let mut client = server.connect();
    client.tcp().set_nonblocking(true).unwrap();
    let requests = "GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(500);
    // Until the server stops reading, or closes.
    eventually("the server does not take everything", || client.try_send(&requests).is_err());
    eventually("the client is dropped", || server.total("timeouts") == 1);
    assert_eq!(server.connect().get("/a.txt").status, 200);
    server.stop();
}

#[test]
fn what_comes_after_a_refusal_is_dropped_for_linger_timeout() {
    let server = limited("linger_timeout = \"200ms\"");
    let mut client = server.connect();
    client.send("bad\r\n\r\n");
    assert_eq!(client.response("GET").status, 400);
    // The client does not close, so the server waits for it, but not for ever.
    eventually("the connection is gone", || server.total("connections") == 1);
    assert_eq!(server.total("timeouts"), 1);
    server.stop();
}

#[test]
fn connections_that_are_idle_longer_than_keep_alive_timeout_are_closed() {
    let server = limited("keep_alive_timeout = \"200ms\"");
    let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").status, 200));
    clients.iter_mut().for_each(|client| assert_eq!(client.end(), End::Closed));
    server.stop();
}

/// The last request on a connection decides, also where a process has answered it.
#[test]
fn the_last_request_says_how_long_its_connection_may_be_idle() {
    let server = Setup::with_files()
        .limit("keep_alive_timeout = \"10m\"")
        .route("/short/*", "respond = { body = \"short\" }\nlimits = { keep_alive_timeout = \"1s\" }")
        .pool("app", None, "workers = 1")
        .route("/slow/*", "pool = \"app\"\nlimits = { keep_alive_timeout = \"1s\" }")
        .start();
    server.wait_for_processes();
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        // One connection is asked for a short time first, and may stay by what comes after it.
        let (first, last) = if at == 0 { ("/short/x", "/a.txt") } else { ("/a.txt", "/short/x") };
        client.get(first);
        assert_eq!(client.get(if at == 2 { "/slow/hello" } else { last }).status, 200);
    }
    let mut stays = clients.remove(0);
    clients.iter_mut().for_each(|client| assert_eq!(client.end(), End::Closed));
    assert_eq!(stays.get("/a.txt").status, 200);
    assert_eq!(server.total("timeouts"), 3);
    server.stop();
}

#[test]
fn the_file_cache_stays_within_its_limits() {
    let mut setup = Setup::with_files()
        .limit("file_cache_files_max = 10")
        .limit("file_cache_bytes_max = \"64KiB\"")
        .limit("inline_file_bytes_max = \"8KiB\"");
    for number in 0..100 {
        setup = setup.file(&format!("f{number}"), &vec![b'x'; 1000 + 100 * number]);
    }
    let server = setup.start();
    let mut client = server.connect();
    for _ in 0..2 {
        for number in 0..100 {
            assert_eq!(client.get(&format!("/f{number}")).body.len(), 1000 + 100 * number);
        }
    }
    assert!(server.total("cache_bytes") <= 64 * 1024, "{}", server.total("cache_bytes"));
    assert!(server.total("cache_misses") > 100, "ten at a time");
    server.stop();
}

#[test]
fn without_a_file_cache_files_are_served_all_the_same() {
    let server = Setup::with_files()
        .file("large.bin", &vec![b'x'; 100_000])
        .limit("file_cache_files_max = 0")
        .limit("file_cache_bytes_max = 0")
        .limit("inline_file_bytes_max = 0")
        .start();
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/a.txt").text(), "file a\n");
        assert_eq!(client.get("/large.bin").body.len(), 100_000);
        assert_eq!(client.method("HEAD", "/a.txt", "").need("content-length"), "7");
    }
    server.stop();
}

/// The log's buffers are small, and nothing is dropped as long as the writer keeps up.
#[test]
fn every_request_is_logged_with_small_log_buffers() {
    let server = limited("log_buffer_bytes_max = \"64KiB\"");
    let mut client = server.connect();
    (0..500).for_each(|_| assert_eq!(client.get("/a.txt").status, 200));
    let dropped = server.total("log_dropped") as usize;
    assert_eq!(server.stop().access.len() + dropped, 500);
}
