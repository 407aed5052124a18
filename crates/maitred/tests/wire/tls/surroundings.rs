//! What is around TLS: which accounts may read keys, the file of session secrets, the PROXY protocol, the status.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::support::stage::{Authority, connect, setup};
use crate::support::{Client, Setup, eventually};

#[test]
fn a_key_that_only_root_can_read_serves_a_worker_process_of_somebody_else() {
    if !rustix::process::geteuid().is_root() {
        return crate::support::skip_here("only root can have a worker process of another user");
    }
    let authority = Authority::new();
    let server = setup(&authority, "").server("user = \"nobody\"").start();
    assert_eq!(fs::metadata(server.path("site-key.pem")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(connect(&server, &authority.client()).get("/a.txt").text(), "file a\n");
    let pid = server.status()["pid"].as_u64().unwrap();
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let uid = text.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    assert!(!uid.split_whitespace().any(|id| id == "0"), "{uid}");
    // proc(5): what belongs to root is that of a process that cannot be traced by its own user.
    assert_eq!(fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid(), 0);
    // Without keys as well: descriptors of clients are as good as what they carry.
    let without = Setup::with_files().server("user = \"nobody\"").start();
    let pid = without.status()["pid"].as_u64().unwrap();
    assert_eq!(fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid(), 0);
    without.stop();
    server.stop();
}

#[test]
fn session_secrets_are_written_where_and_only_where_they_are_asked_for() {
    let authority = Authority::new();
    let server = setup(&authority, "keylog = \"secrets.log\"").start();
    server.wait_for_line(|line| line.contains("the secrets of all TLS sessions are written to"));
    assert_eq!(connect(&server, &authority.client()).get("/a.txt").text(), "file a\n");
    let path = server.path("secrets.log");
    eventually("the secrets are written", || {
        let text = fs::read_to_string(&path).unwrap();
        ["CLIENT_TRAFFIC_SECRET_0 ", "SERVER_TRAFFIC_SECRET_0 "].iter().all(|label| text.contains(label))
    });
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    server.stop();
}

#[test]
fn a_proxy_says_who_the_client_is_before_tls_begins() {
    let authority = Authority::new();
    let server =
        setup(&authority, "").listen("proxy_protocol = true").pool("app", None, "workers = 1").start();
    server.wait_for_processes();
    let mut socket = TcpStream::connect(server.address_of("https")).unwrap();
    socket.write_all(b"PROXY TCP4 192.0.2.9 192.0.2.1 4711 443\r\n").unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(authority.client(), name).unwrap(), socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    let response = Client::over_tls(stream).get("/app/show");
    let seen: BTreeMap<String, String> = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(seen["HTTP_X_FORWARDED_FOR"], "192.0.2.9");
    server.stop();
}

#[test]
fn the_status_says_what_the_kernel_could_do() {
    let authority = Authority::new();
    let server = setup(&authority, "").start();
    assert!(server.status()["ktls"].is_string(), "{}", server.status());
    let (_, text) = server.command(&["status"]);
    assert!(text.contains("\nkTLS        "), "{text}");
    server.stop();
    let server = Setup::with_files().start();
    assert!(server.status()["ktls"].is_null(), "{}", server.status());
    server.stop();
}
