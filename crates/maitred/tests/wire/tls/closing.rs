//! How connections end: `close_notify` is to TLS what FIN is to TCP (RFC 8446, 6.1).

use std::io::Write as _;

use crate::support::stage::{Authority, connect, setup};
use crate::support::{Client, End, eventually};
use rustls::version::{TLS12, TLS13};

/// Long enough that a server which waits for it fails the test.
const LIMITS: [&str; 2] = ["keep_alive_timeout = \"10m\"", "head_timeout = \"10m\""];

/// Sends bytes and `close_notify` in one write, so that one read brings both.
fn send_and_close(client: &mut Client, bytes: &[u8]) {
    let session = client.tls();
    session.writer().write_all(bytes).unwrap();
    session.send_close_notify();
    let mut records = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut records).unwrap();
    }
    client.tcp().write_all(&records).unwrap();
}

#[test]
fn a_close_notify_behind_requests_ends_the_connection_when_they_are_answered() {
    let authority = Authority::new();
    let setup = setup(&authority, "").pool("app", None, "workers = 1");
    let server = LIMITS.iter().fold(setup, |setup, line| setup.limit(line)).start();
    server.wait_for_processes();
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for version in [&TLS12, &TLS13] {
        for path in ["/a.txt", "/app/hello?x"] {
            let mut client = connect(&server, &authority.client_of(&[version], None));
            send_and_close(&mut client, (request(path) + &request(path)).as_bytes());
            for _ in 0..2 {
                let text = client.response("GET").text().to_owned();
                assert!(["file a\n", "hello x\n"].contains(&text.as_str()), "{text}");
            }
            assert_eq!(client.end(), End::Closed, "{version:?} {path}");
        }
    }
    server.stop();
}

#[test]
fn half_a_request_and_a_close_notify_end_the_connection() {
    let authority = Authority::new();
    let server = LIMITS.iter().fold(setup(&authority, ""), |setup, line| setup.limit(line)).start();
    for version in [&TLS12, &TLS13] {
        for bytes in ["", "G", "GET /a.txt HTT"] {
            let mut client = connect(&server, &authority.client_of(&[version], None));
            send_and_close(&mut client, bytes.as_bytes());
            assert_eq!(client.end(), End::Closed, "{version:?} {bytes}");
        }
    }
    server.stop();
}

#[test]
fn a_client_that_breaks_the_protocol_is_not_told_that_nothing_is_missing() {
    let authority = Authority::new();
    let server = setup(&authority, "").start();
    let mut client = connect(&server, &authority.client_of(&[&TLS13], None));
    assert_eq!(client.get("/a.txt").status, 200);
    // Of nothing but updates of keys rustls tells the client nothing (docs/upstream-notes.md).
    let mut records = Vec::new();
    for _ in 0..40 {
        client.tls().refresh_traffic_keys().unwrap();
        client.tls().write_tls(&mut records).unwrap();
    }
    client.tcp().write_all(&records).unwrap();
    let ended = client.try_response("GET").unwrap_err().to_string();
    assert!(ended.contains("without sending TLS close_notify"), "{ended}");
    server.stop();
}

#[test]
fn an_idle_connection_ends_with_close_notify() {
    let authority = Authority::new();
    let server = setup(&authority, "").limit("keep_alive_timeout = \"1s\"").start();
    let mut client = connect(&server, &authority.client());
    client.get("/a.txt");
    assert_eq!(client.end(), End::Closed, "a client of TLS takes an end without it for an attack");
    server.stop();
}

/// A connection of TLS cannot be passed on: it has the grace period from its last request on, at an application, too, whatever
/// goes on beside it.
#[test]
fn after_a_reload_an_idle_connection_is_closed_and_an_upload_goes_on() {
    let authority = Authority::new();
    let server = setup(&authority, "").server("grace = \"300ms\"").pool("app", None, "workers = 1").start();
    server.wait_for_processes();
    let mut idle = connect(&server, &authority.client());
    let pid = idle.get("/app/pid").text().to_owned();
    let mut upload = connect(&server, &authority.client());
    upload.send("POST /app/length HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nx");
    eventually("it is being read", || server.total("reading") == 1);
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    assert!(idle.try_response("GET").is_err(), "it is closed");
    assert_eq!(connect(&server, &authority.client()).get("/app/pid").text(), pid, "one process is enough");
    upload.send("123456789");
    let response = upload.response("POST");
    assert_eq!((response.text(), response.says_close()), ("10", true));
    server.stop();
}
