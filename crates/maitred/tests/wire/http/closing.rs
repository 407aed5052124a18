//! A response after which the server closes the connection says so, whenever that is known before it leaves, and the connection
//! goes on behind any other (RFC 9112 sections 9.3 and 9.6).

use crate::support::{Client, End, Gate, Server, Setup};

const HOST: &str = "Host: localhost\r\n";
const CHUNKED: &str = "Host: localhost\r\nTransfer-Encoding: chunked\r\n";
/// More than is read behind an answer, and less than a body may have.
const LONG: usize = 3000;

fn start() -> Server {
    let server = Setup::with_files()
        .file("large.bin", &vec![b'l'; 300_000])
        .limit("body_inline_bytes_max = 1024")
        .limit("body_memory_bytes_max = 1024")
        .limit("body_bytes_max = 10000")
        .route("/old", "redirect = \"/new\"")
        .route("/fixed", "respond = { status = 200, body = \"fixed\" }")
        .pool("app", None, "workers = 1\ntransport = \"relay\"\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    server
}

/// Sends all of `bytes` at once, and reads a response for each of `expected`: its status, and whether it says that it is the
/// last. What it says has to be what happens.
#[track_caller]
fn answers(server: &Server, bytes: &str, expected: &[(u16, bool)]) {
    let mut client = server.connect();
    client.send(bytes);
    let shown: String = bytes.chars().take(150).collect();
    for (status, last) in expected {
        let response = client.response("GET");
        assert_eq!((response.status, response.says_close()), (*status, *last), "{shown:?}");
        assert!(response.interim.is_empty(), "{shown:?}");
    }
    match expected.last() {
        Some((_, true)) => assert_eq!(client.end(), End::Closed, "{shown:?}"),
        _ => goes_on(&mut client, &shown),
    }
}

#[track_caller]
fn goes_on(client: &mut Client, shown: &str) {
    assert_eq!(client.get("/b.txt").text(), "file b\n", "{shown:?}");
}

/// Requests whose body is not needed, with the status of their answer.
const BODILESS: [(&str, &str, u16); 6] = [
    ("GET", "/a.txt", 200),
    ("GET", "/large.bin", 200),
    ("POST", "/a.txt", 405),
    ("GET", "/old", 302),
    ("POST", "/fixed", 200),
    ("GET", "/gone", 404),
];

#[test]
fn a_body_that_ends_the_connection_is_told_of_in_the_answer_before_it() {
    let server = start();
    let long = format!("{LONG:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(LONG));
    let extended = format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(20_000));
    for (method, target, status) in BODILESS {
        let start = format!("{method} {target} HTTP/1.1\r\n");
        for body in ["zz\r\n", "5\r\nhelloX\r\n", "1\r\nx\r\n-", "0\r\n:x\r\n\r\n", &extended, &long] {
            answers(&server, &format!("{start}{CHUNKED}\r\n{body}"), &[(status, true)]);
        }
        // A body that is whole, one that may still become so, and none at all.
        answers(&server, &format!("{start}{CHUNKED}\r\n5\r\nhello\r\n0\r\nT: x\r\n\r\n"), &[(status, false)]);
        answers(&server, &format!("{start}{HOST}Content-Length: 5\r\n\r\nhello"), &[(status, false)]);
        answers(&server, &format!("{start}{HOST}\r\n"), &[(status, false)]);
        // Announced, and longer than is read.
        answers(&server, &format!("{start}{HOST}Content-Length: {LONG}\r\n\r\nhello"), &[(status, true)]);
        answers(&server, &format!("{start}{HOST}Content-Length: 10001\r\n\r\nhello"), &[(413, true)]);
        let expects = format!("{start}{HOST}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
        answers(&server, &expects, &[(status, true)]);
    }
    server.stop();
}

/// Each byte that comes after the answer is too late to change it; those that come with it are not.
#[test]
fn what_comes_later_ends_the_connection_without_another_answer() {
    let server = start();
    let body = "3\r\nabc\r\n2;x=y\r\nde\r\nz";
    for at in 0..body.len() {
        let (now, later) = body.split_at(at);
        let mut client = server.connect();
        let response = client.ask(format!("GET /a.txt HTTP/1.1\r\n{CHUNKED}\r\n{now}"));
        assert_eq!((response.status, response.says_close()), (200, false), "{now:?}");
        client.send(later);
        client.send("\r\n\r\nGET /b.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(client.end(), End::Closed, "{now:?}");
    }
    server.stop();
}

#[test]
fn a_bad_body_for_an_application_is_told_of() {
    let server = start();
    let start = "POST /app/echo HTTP/1.1\r\n";
    let long = format!("2710\r\n{}\r\n1\r\nx\r\n0\r\n\r\n", "x".repeat(10_000));
    answers(&server, &format!("{start}{CHUNKED}\r\n{long}"), &[(413, true)]);
    answers(&server, &format!("{start}{CHUNKED}\r\n5\r\nhelloX"), &[(400, true)]);
    answers(&server, &format!("{start}{CHUNKED}\r\n1;{}\r\nx", "e".repeat(20_000)), &[(400, true)]);
    answers(&server, &format!("{start}{HOST}Content-Length: 10001\r\n\r\n"), &[(413, true)]);
    let expects = format!("{start}{HOST}Expect: 100-continue\r\nContent-Length: 10001\r\n\r\n");
    answers(&server, &expects, &[(413, true)]);
    answers(&server, &format!("{start}{HOST}Content-Length: 5\r\n\r\nhello"), &[(200, false)]);
    answers(
        &server,
        &format!("{start}{HOST}Connection: close\r\nContent-Length: 5\r\n\r\nhello"),
        &[(200, true)],
    );
    server.stop();
}

#[test]
fn pipelined_requests_go_on_up_to_the_one_that_ends_the_connection() {
    let server = start();
    let (good, app) =
        (format!("GET /a.txt HTTP/1.1\r\n{HOST}\r\n"), format!("GET /app/hello HTTP/1.1\r\n{HOST}\r\n"));
    let short = format!("POST /a.txt HTTP/1.1\r\n{CHUNKED}\r\n1\r\nx\r\n0\r\n\r\n");
    for (bad, status) in [
        (format!("GET /a.txt HTTP/1.1\r\n{CHUNKED}\r\nzz\r\n"), 200),
        (format!("GET /large.bin HTTP/1.1\r\n{CHUNKED}\r\nzz\r\n"), 200),
        (format!("POST /app/echo HTTP/1.1\r\n{CHUNKED}\r\nzz\r\n"), 400),
        (format!("GET /a.txt HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n"), 200),
        ("GET /a.txt HTTP/1.1\r\n\r\n".to_owned(), 400),
    ] {
        let expected = [(200, false), (200, false), (405, false), (200, false), (status, true)];
        answers(&server, &[&good, &app, &short, &good, &bad, &good].map(String::as_str).concat(), &expected);
    }
    server.stop();
}

#[test]
fn a_client_of_version_1_0_is_told_either_way() {
    let server = start();
    let kept = "Connection: keep-alive\r\n";
    for (target, status) in
        [("/a.txt", 200), ("/large.bin", 200), ("/gone", 404), ("/old", 302), ("/app/hello", 200)]
    {
        answers(&server, &format!("GET {target} HTTP/1.0\r\n{HOST}\r\n"), &[(status, true)]);
        answers(&server, &format!("GET {target} HTTP/1.0\r\n{HOST}{kept}\r\n"), &[(status, false)]);
        let length = "Content-Length: 5\r\n\r\nhello";
        answers(&server, &format!("GET {target} HTTP/1.0\r\n{HOST}{kept}{length}"), &[(status, false)]);
        answers(&server, &format!("GET {target} HTTP/1.0\r\n{HOST}{length}"), &[(status, true)]);
    }
    // The length of a stream is not known, so that its end is that of the connection.
    answers(&server, &format!("GET /app/stream HTTP/1.0\r\n{HOST}{kept}\r\n"), &[(200, true)]);
    server.stop();
}

#[test]
fn the_last_request_of_a_connection_is_told_of_on_every_path() {
    let server = Setup::with_files()
        .file("large.bin", &vec![b'l'; 300_000])
        .limit("requests_per_connection_max = 3")
        .pool("app", None, "workers = 1\ntransport = \"relay\"\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    for target in ["/a.txt", "/large.bin", "/gone", "/app/hello", "/app/stream"] {
        let request = format!("GET {target} HTTP/1.1\r\n{HOST}\r\n");
        let status = if target == "/gone" { 404 } else { 200 };
        answers(&server, &request.repeat(4), &[(status, false), (status, false), (status, true)]);
    }
    server.stop();
}

/// A response that an application begins while the server stops.
#[test]
fn a_server_that_stops_says_so_in_what_it_still_answers() {
    let gate = Gate::new();
    let lines = "workers = 1\ntransport = \"relay\"\nqueue = { timeout = \"60s\" }";
    let server = Setup::with_files().pool("app", Some(&gate), lines).start();
    server.wait_for_processes();
    let mut client = server.connect();
    client.send("GET /app/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let waiting = gate.arrival();
    let mut idle = server.connect();
    assert_eq!(idle.get("/a.txt").status, 200);
    rustix::process::kill_process(server.pid(), rustix::process::Signal::TERM).unwrap();
    assert_eq!(idle.end(), End::Closed, "it has begun to stop");
    waiting.release();
    let response = client.response("GET");
    assert_eq!((response.text(), response.says_close()), ("waited\n", true));
    assert_eq!(client.end(), End::Closed);
    server.wait_for_exit();
}
