//! The access log: exactly one line for each request, whatever becomes of it.

use std::time::Duration;

use crate::support::{Gate, Server, Setup, Stopped, eventually, pace};

/// A mixture of requests, each of which belongs into the log; how many there were.
fn mixture(server: &Server) -> usize {
    let mut client = server.connect();
    for target in
        ["/a.txt", "/large.bin", "/not-there", "/dir", "/old/x", "/app/hello?q=1", "/app/fail", "/app/stream"]
    {
        client.get(target);
        client.method("HEAD", target, "");
    }
    client.post("/app/echo", b"some body");
    client.post("/a.txt", b"not wanted");
    client.method("GET", "/a.txt", "If-None-Match: *\r\n");
    client.method("GET", "/large.bin", "Range: bytes=10-19\r\n");
    client.send("GET /b.txt HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(30));
    (0..30).for_each(|_| assert_eq!(client.response("GET").status, 200));
    client.ask("GET /a.txt HTTP/1.1\r\nHost: localhost\r\nReferer: http://example.com/\"x\r\nUser-Agent: a \\ b\r\n\r\n");
    client.ask("GET /%22quote%22 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answered = 2 * 8 + 4 + 30 + 2;

    let refused = [
        "\x16\x03\x01",
        "bad\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET /%zz HTTP/1.0\r\n\r\n",
        "G\"T / HTTP/1.1\r\n",
    ];
    for request in refused {
        let mut client = server.connect();
        client.send(request);
        assert_eq!(client.response("GET").status, 400, "{request:?}");
        client.end();
    }
    // A client that goes away in the middle of a response.
    let mut client = server.connect();
    client.send("GET /huge.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.head().unwrap();
    drop(client);
    eventually("the client is gone", || server.total("connections") <= 2);
    answered + refused.len() + 1
}

fn logged(format: &str) -> (usize, Stopped) {
    let setup = Setup::with_files()
        .log(&format!("access = \"{format}\""))
        .file("large.bin", &vec![b'x'; 100_000])
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
        .route("/old/*", "redirect = \"/new\"");
    let path = setup.directory.path().join("root/huge.bin");
    std::fs::File::create(path).unwrap().set_len(100_000_000).unwrap();
    let server = setup.start();
    let count = mixture(&server);
    (count, server.stop())
}

#[test]
fn combined_has_one_line_for_each_request() {
    let (count, stopped) = logged("combined");
    assert_eq!(stopped.access.len(), count, "{:#?}", stopped.access);
    for line in &stopped.access {
        assert!(line.starts_with("127.0.0.1 - - [") && line.is_ascii(), "{line}");
        // Outside of quotes there is exactly: address, date, status, bytes.
        let unescaped = line.replace("\\\\", "").replace("\\\"", "");
        let parts: Vec<_> = unescaped.split('"').collect();
        assert_eq!(parts.len(), 7, "{line}");
        let mut numbers = parts[2].split_whitespace();
        let status: u16 = numbers.next().unwrap().parse().unwrap();
        assert!((200..600).contains(&status), "{line}");
        let bytes = numbers.next().unwrap();
        assert!(bytes == "-" || bytes.parse::<u64>().unwrap() > 0, "{line}");
    }
    let has = |wanted: &str| {
        assert!(stopped.access.iter().any(|line| line.contains(wanted)), "{wanted}: {:#?}", stopped.access);
    };
    has("\"GET /a.txt HTTP/1.1\" 200 7 \"-\" \"-\"");
    has("\"HEAD /a.txt HTTP/1.1\" 200 - \"-\" \"-\"");
    has("\"GET /a.txt HTTP/1.1\" 304 - ");
    has("\"GET /large.bin HTTP/1.1\" 206 10 ");
    has("\"GET /app/hello?q=1 HTTP/1.1\" 200 10 ");
    has("\"POST /app/echo HTTP/1.1\" 200 9 ");
    has("\"GET /a.txt HTTP/1.1\" 200 7 \"http://example.com/\\\"x\" \"a \\\\ b\"");
    has("\"\\x16\\x03\\x01\" 400 ");
    has("\"bad\" 400 ");
    has("\"GET /%zz HTTP/1.0\" 400 ");
}

#[test]
fn json_has_one_object_for_each_request() {
    let (count, stopped) = logged("json");
    let lines = stopped.json_lines();
    assert_eq!(lines.len(), count, "{:#?}", stopped.access);
    for line in &lines {
        assert!(line["status"].as_u64().is_some_and(|status| (200..600).contains(&status)), "{line}");
        assert!(line["duration_us"].is_u64() && line["body_bytes"].is_u64(), "{line}");
        assert_eq!(line["remote"], "127.0.0.1");
        assert_eq!(line["time"].as_str().unwrap().len(), 27, "{line}");
        assert!(line["refused"].is_string() != line["target"].is_string(), "{line}");
    }
    let count_of = |key: &str, value: &str| lines.iter().filter(|line| line[key] == value).count();
    assert_eq!(count_of("target", "/b.txt"), 30);
    assert_eq!(count_of("pool", "app"), 7);
    assert_eq!(count_of("refused", "bad"), 1);
    assert_eq!(count_of("referer", "http://example.com/\"x"), 1);
    let huge = lines.iter().find(|line| line["target"] == "/huge.bin").unwrap();
    assert!(huge["body_bytes"].as_u64().unwrap() < 100_000_000, "{huge}");
}

#[test]
fn without_an_access_log_requests_are_answered_all_the_same() {
    let server = Setup::with_files()
        .log("access = \"off\"")
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").status, 200);
    assert_eq!(client.get("/app/hello").status, 200);
    assert_eq!(client.get("/app/fail").status, 500);
    let stopped = server.stop();
    assert_eq!(stopped.access, [""; 0]);
}

/// Requests that end before they are answered, because the client goes: 499, in the log alone.
#[test]
fn what_is_cut_off_in_its_head_or_body_is_in_the_log_once() {
    let server = Setup::with_files()
        .log("access = \"json\"")
        .limit("body_timeout = \"10m\"\nhead_timeout = \"10m\"")
        .listen("defer_accept = false")
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    let reading = |count| eventually("it was read", || server.total("reading") == count);
    let mut expected = Vec::new();
    // The client goes, in order or by a reset.
    for reset in [false, true] {
        for (target, request) in [
            ("/head", "GET /head HTTP/1.1\r\nHost: loc"),
            ("/app/length", "POST /app/length HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf"),
            (
                "/app/body",
                "POST /app/body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nha",
            ),
        ] {
            let mut client = server.connect();
            client.send(request);
            reading(1);
            if reset {
                rustix::net::sockopt::set_socket_linger(client.tcp(), Some(Duration::ZERO)).unwrap();
            }
            drop(client);
            reading(0);
            expected.push((target.to_owned(), 499));
        }
    }
    // Half of a request line is no request, and neither is nothing.
    for start in ["GET /line HTTP/1.", ""] {
        let mut client = server.connect();
        client.send(start);
        eventually("it is there", || server.total("connections") == 2);
        drop(client);
        eventually("it has gone", || server.total("connections") == 1);
    }
    // What follows a whole request is one of its own.
    let mut client = server.connect();
    client.send("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\nGET /next HTTP/1.1\r\n");
    assert_eq!(client.response("GET").status, 200);
    drop(client);
    expected.extend([("/a.txt".to_owned(), 200), ("/next".to_owned(), 499)]);
    eventually("it has gone", || server.total("connections") == 1);
    assert_eq!((server.total("client_aborts"), server.total("timeouts")), (7, 0));
    assert_eq!(targets_and_statuses(server.stop()), expected);
}

/// The client stays to receive the error.
#[test]
fn a_body_that_does_not_come_in_time_is_in_the_log_once() {
    let server = Setup::with_files()
        .log("access = \"json\"")
        .limit("body_timeout = \"200ms\"")
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    let mut client = server.connect();
    client.send("POST /app/slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf");
    assert_eq!(client.response("POST").status, 408);
    assert_eq!((server.total("client_aborts"), server.total("timeouts")), (0, 1));
    assert_eq!(targets_and_statuses(server.stop()), [("/app/slow".to_owned(), 408)]);
}

fn targets_and_statuses(stopped: Stopped) -> Vec<(String, u64)> {
    let of = |line: &serde_json::Value| {
        (line["target"].as_str().unwrap().to_owned(), line["status"].as_u64().unwrap())
    };
    stopped.json_lines().iter().map(of).collect()
}

/// What the client takes to send its body is no time in the queue; the application gets the time of the first byte all the
/// same.
#[test]
fn the_time_in_the_queue_is_that_of_a_whole_request() {
    let gate = Gate::new();
    let lines = "workers = 1\nqueue = { timeout = \"60s\" }";
    let server = Setup::with_files().log("access = \"json\"").pool("app", Some(&gate), lines).start();
    server.wait_for_processes();
    let mut slow = server.connect();
    slow.send("POST /app/show HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nha");
    eventually("a part of it is there", || server.total("reading") == 1);
    pace(Duration::from_millis(100));
    let before = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    slow.send("lf");
    let shown: serde_json::Value = serde_json::from_slice(&slow.response("POST").body).unwrap();
    let started: f64 = shown["HTTP_X_REQUEST_START"].as_str().unwrap()[2..].parse().unwrap();
    assert!(started + 0.05 < before, "{started} {before}");

    let mut first = server.connect();
    first.send("GET /app/wait HTTP/1.1\r\nHost: h\r\n\r\n");
    let waiting = gate.arrival();
    let mut second = server.connect();
    second.send("GET /app/hello HTTP/1.1\r\nHost: h\r\n\r\n");
    eventually("it is in the queue", || server.total("queued") == 1);
    pace(Duration::from_millis(50));
    waiting.release();
    assert_eq!(second.response("GET").status, 200);
    let lines = server.stop().json_lines();
    let queue_us = |target: &str| {
        lines.iter().find(|line| line["target"] == target).unwrap()["queue_us"].as_u64().unwrap()
    };
    assert_eq!(queue_us("/app/show"), 0, "a process was idle");
    assert!(queue_us("/app/hello") >= 50_000, "{}", queue_us("/app/hello"));
}
