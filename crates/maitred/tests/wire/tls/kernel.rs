//! `ktls`: the kernel encrypts what is sent. Where the kernel has no TLS, the same clients see the same, and these tests are
//! about what happens then; `cargo xtask vm-test` runs them on a machine that has it.

use std::fs;

use rustls::version::{TLS12, TLS13};

use crate::support::stage::{Authority, connect, setup};
use crate::support::{Client, End, Server, Setup, eventually};

const LARGE: usize = 3_000_000;

/// Whether this kernel encrypts TLS for an unprivileged process.
fn has_kernel() -> bool {
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp").unwrap_or_default();
    let has = available.split_whitespace().any(|name| name == "tls");
    assert!(
        has || std::env::var_os("MAITRED_TEST_KTLS").is_none(),
        "the machine was to have it: {available}"
    );
    has
}

fn large() -> Vec<u8> {
    (0..LARGE).map(|at| (at % 251) as u8).collect()
}

fn start(authority: &Authority, keys: &str) -> Server {
    let setup: Setup = setup(authority, keys).file("large.bin", &large());
    setup.pool("app", None, "workers = 1").start()
}

/// Counts of connections: those that the kernel has taken, and those that it has not.
fn taken(server: &Server) -> (u64, u64) {
    (server.total("tls_by_kernel"), server.total("tls_kernel_refused"))
}

/// So many connections were offered to the kernel.
#[track_caller]
fn assert_offered(server: &Server, connections: u64) {
    let expected = if has_kernel() { (connections, 0) } else { (0, connections) };
    assert_eq!(taken(server), expected);
}

#[test]
fn files_are_whole_and_connections_go_on() {
    let authority = Authority::new();
    let server = start(&authority, "ktls = \"on\"");
    let mut client = connect(&server, &authority.client());
    // Short ones come from memory, through the session.
    assert_eq!(client.get("/a.txt").text(), "file a\n");
    assert_eq!(taken(&server), (0, 0));
    let large = large();
    for _ in 0..3 {
        assert!(client.get("/large.bin").body == large);
        assert_eq!(client.get("/a.txt").text(), "file a\n");
        let part = client.method("GET", "/large.bin", "Range: bytes=1000001-1900000\r\n");
        assert!(part.status == 206 && part.body == large[1_000_001..=1_900_000]);
        let missing = client.get("/missing");
        assert_eq!(missing.status, 404);
    }
    assert_offered(&server, 1);
    let last = client.method("GET", "/large.bin", "Connection: close\r\n");
    assert!(last.body == large);
    assert_eq!(client.end(), End::Closed, "with close_notify");
    server.stop();
}

#[test]
fn each_suite_and_several_connections_at_a_time() {
    let authority = Authority::new();
    let server = start(&authority, "ktls = \"on\"");
    let large = large();
    let suites = rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES.iter().filter(|suite| suite.tls13().is_some());
    let mut clients: Vec<Client> = suites
        .map(|suite| {
            let mut provider = rustls::crypto::aws_lc_rs::default_provider();
            provider.cipher_suites = vec![*suite];
            connect(&server, &authority.client_with(provider))
        })
        .collect();
    assert_eq!(clients.len(), 3);
    for _ in 0..2 {
        for client in &mut clients {
            client.send("GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
        for client in &mut clients {
            assert!(client.response("GET").body == large);
        }
    }
    assert_offered(&server, 3);
    server.stop();
}

/// Connections that it is not for: TLS 1.2, HTTP/2, an address without it.
#[test]
fn others_are_encrypted_by_the_server() {
    let authority = Authority::new();
    let server = start(&authority, "ktls = \"on\"");
    let mut client = connect(&server, &authority.client_of(&[&TLS12], None));
    assert!(client.get("/large.bin").body == large());
    assert!(client.get("/app/large?3000000").body.len() == LARGE);
    assert_eq!(taken(&server), (0, 0));
    assert_eq!(server.total("relayed_framed"), 1);
    server.stop();
    let server = start(&authority, "");
    let mut client = connect(&server, &authority.client());
    assert!(client.get("/large.bin").body == large());
    assert!(client.get("/app/large?3000000").body.len() == LARGE);
    assert_eq!((taken(&server), server.total("relayed_framed")), ((0, 0), 1));
    server.stop();
}

#[test]
fn a_process_answers_on_the_clients_own_connection() {
    let authority = Authority::new();
    let server = start(&authority, "ktls = \"on\"");
    server.wait_for_processes();
    let mut client = connect(&server, &authority.client());
    for _ in 0..3 {
        assert_eq!(client.get("/app/hello?x").text(), "hello x\n");
        let made = client.get("/app/large?3000000");
        assert!(made.body.len() == LARGE && made.body[..256] == (0..=255).collect::<Vec<u8>>()[..]);
        assert_eq!(client.post("/app/echo", b"what was sent").text(), "what was sent");
        let stream = client.get("/app/stream");
        assert!(stream.text().ends_with("piece 19\n"), "{}", stream.text());
        assert_eq!(client.get("/a.txt").text(), "file a\n");
        assert!(client.get("/large.bin").body == large());
    }
    assert_offered(&server, 1);
    let relayed = server.total("relayed_framed");
    assert_eq!(relayed, if has_kernel() { 0 } else { 12 });
    let last = client.method("GET", "/app/hello?x", "Connection: close\r\n");
    assert_eq!((last.text(), client.end()), ("hello x\n", End::Closed));
    server.stop();
}

#[test]
fn requests_that_are_pipelined_are_answered_in_their_order() {
    let authority = Authority::new();
    let server = start(&authority, "ktls = \"on\"");
    server.wait_for_processes();
    let mut client = connect(&server, &authority.client());
    let request = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let targets = ["/app/hello?1", "/large.bin", "/a.txt", "/app/large?200000", "/app/hello?2"];
    client.send(targets.map(request).concat());
    let lengths = targets.map(|_| client.response("GET").body.len());
    assert_eq!(lengths, [8, LARGE, 7, 200_000, 8]);
    server.stop();
}

/// A response that breaks must not end as one that is whole (RFC 8446 section 6.1).
#[test]
fn a_response_that_breaks_is_not_taken_for_whole() {
    let authority = Authority::new();
    let server = start(&authority, "ktls = \"on\"");
    for path in ["/app/die-late", "/app/fail-late"] {
        server.wait_for_processes();
        let mut client = connect(&server, &authority.client());
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        match client.try_response("GET") {
            // What a relay had of it may be thrown away.
            Ok(response) => assert!(response.status == 502 && !has_kernel(), "{path}: {}", response.status),
            Err(error) => {
                let reset = error.kind() == std::io::ErrorKind::ConnectionReset;
                assert!(
                    reset || error.to_string().contains("without sending TLS close_notify"),
                    "{path}: {error}"
                );
            }
        }
    }
    server.terminate(rustix::process::Signal::TERM);
}

#[test]
fn clients_that_leave_disturb_nobody() {
    let authority = Authority::new();
    let server = start(&authority, "ktls = \"on\"");
    for path in ["/large.bin", "/app/large?30000000", "/app/flood"] {
        server.wait_for_processes();
        for resets in [false, true] {
            let mut client = connect(&server, &authority.client());
            client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            assert_eq!(client.head().unwrap().status, 200);
            client.exactly(100_000).unwrap();
            if resets {
                client.reset();
            } else {
                drop(client);
            }
            let mut next = connect(&server, &authority.client());
            assert_eq!(next.get("/app/hello?y").text(), "hello y\n", "{path}");
        }
    }
    server.stop();
}

/// Whether this kernel takes other keys for a socket that has some: from Linux 6.14 on.
fn changes_keys() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next().unwrap(), numbers.next().unwrap()) >= (6, 14)
}

#[test]
fn a_client_may_change_its_keys_before_the_kernel_has_any() {
    let authority = Authority::new();
    let server = start(&authority, "ktls = \"on\"");
    server.wait_for_processes();
    let mut client = connect(&server, &authority.client_of(&[&TLS13], None));
    assert_eq!(client.get("/a.txt").text(), "file a\n");
    for _ in 0..2 {
        client.tls().refresh_traffic_keys().unwrap();
    }
    assert!(client.get("/large.bin").body == large());
    assert_eq!(client.get("/app/hello?x").text(), "hello x\n");
    assert_offered(&server, 1);
    server.stop();
}

#[test]
fn a_client_may_change_its_keys_where_the_kernel_can() {
    let authority = Authority::new();
    let server = start(&authority, "ktls = \"on\"");
    let mut client = connect(&server, &authority.client_of(&[&TLS13], None));
    assert!(client.get("/large.bin").body == large());
    client.tls().refresh_traffic_keys().unwrap();
    let ends = has_kernel() && !changes_keys();
    for _ in 0..2 {
        // A client that writes may see the end first.
        let asked = client.try_send("GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
        match asked.and_then(|()| client.try_response("GET")) {
            Ok(response) => assert!(!ends && response.body == large()),
            Err(error) => assert!(ends, "{error}"),
        }
    }
    // Another one is served.
    assert!(connect(&server, &authority.client()).get("/large.bin").body == large());
    server.stop();
}

#[test]
fn a_reload_lets_responses_end_and_closes_with_notice() {
    let authority = Authority::new();
    let server = start(&authority, "ktls = \"on\"");
    let mut client = connect(&server, &authority.client());
    client.send("GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.head().unwrap();
    assert!(server.command(&["reload"]).0.success());
    assert!(client.exactly(LARGE).unwrap() == large());
    eventually("the new process answers", || server.status()["generation"] == 2);
    assert_eq!(client.get("/a.txt").text(), "file a\n", "its next response is the last");
    assert_eq!(client.end(), End::Closed);
    server.stop();
}
