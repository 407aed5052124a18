//! Clients over a Unix socket: who they are, and how they are served.

use std::io::IoSlice;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::Value;

use crate::support::stage::Authority;
use crate::support::{Client, Response, Server, Setup, eventually, skip_missing};
use crate::unix::{connect, is_served, setup};

const TRUSTING: &str = "trusted_proxies = [\"unix\", \"10.0.0.0/8\"]";

/// With a pool `app`, whose application shows its environment.
fn with_application(setup: Setup) -> Server {
    let server = setup.pool("app", None, "workers = 1\ntransport = \"direct\"").start();
    server.wait_for_processes();
    server
}

#[track_caller]
fn assert_shown(response: &Response, expected: &[(&str, &str)]) {
    assert_eq!(response.status, 200, "{response:?}");
    let shown: Value = serde_json::from_slice(&response.body).unwrap();
    for (key, value) in expected {
        assert_eq!(shown[key].as_str().unwrap_or("(none)"), *value, "{key} of {shown}");
    }
}

#[test]
fn one_without_an_address_is_told_of_and_not_believed() {
    let server = with_application(setup());
    let mut client = connect(&server);
    let response =
        client.method("GET", "/app/show", "X-Forwarded-For: 192.0.2.7\r\nForwarded: for=192.0.2.7\r\n");
    assert_shown(
        &response,
        &[
            ("REMOTE_ADDR", "0.0.0.0"),
            ("SERVER_PORT", "80"),
            ("HTTP_X_FORWARDED_FOR", "(none)"),
            ("HTTP_FORWARDED", "(none)"),
            ("HTTP_X_FORWARDED_PROTO", "http"),
        ],
    );
    // A process would have to expect descriptors of the client on such a socket.
    assert_eq!(server.total("relayed_not_tcp"), 1);
    assert_eq!(client.post("/app/echo", &[7; 300_000]).body, [7; 300_000]);
    server.stop();
}

#[test]
fn a_trusted_proxy_names_the_client() {
    let server = with_application(setup().server(TRUSTING).log("access = \"json\""));
    let mut client = connect(&server);
    let fields = "X-Forwarded-For: 203.0.113.5, 192.0.2.7, 10.1.1.1\r\nX-Forwarded-Proto: https\r\n";
    assert_shown(
        &client.method("GET", "/app/show", fields),
        &[
            ("REMOTE_ADDR", "192.0.2.7"),
            ("wsgi.url_scheme", "https"),
            ("SERVER_PORT", "443"),
            ("HTTP_X_FORWARDED_FOR", "203.0.113.5, 192.0.2.7, 10.1.1.1"),
            ("HTTP_X_FORWARDED_PROTO", "https"),
        ],
    );
    // The same fields from a peer that is not trusted.
    assert_shown(&server.connect().method("GET", "/app/show", fields), &[("REMOTE_ADDR", "127.0.0.1")]);
    let stopped = server.stop();
    let first: Value = serde_json::from_str(&stopped.access[0]).unwrap();
    assert!(first.to_string().contains("192.0.2.7"), "{first}");
}

#[test]
fn addresses_are_allowed_and_denied_by_what_the_proxy_says() {
    let server = setup().server(TRUSTING).site("allow = [\"192.0.2.0/24\"]").start();
    let mut client = connect(&server);
    assert_eq!(client.method("GET", "/a.txt", "X-Forwarded-For: 192.0.2.7\r\n").status, 200);
    assert_eq!(client.method("GET", "/a.txt", "X-Forwarded-For: 198.51.100.7\r\n").status, 403);
    // Nothing says that it is in the list.
    assert_eq!(client.get("/a.txt").status, 403);
    server.stop();
}

#[test]
fn a_socket_is_not_one_client() {
    let limit = "[limit.few]\nrate = \"2/1h\"\n";
    let server = setup()
        .server(TRUSTING)
        .limit("connections_per_address_max = 1\nconnections_per_address_exempt = []")
        .site("limit = [\"few\"]")
        .table(limit)
        .start();
    let mut clients: Vec<Client> = (0..5).map(|_| connect(&server)).collect();
    clients.iter_mut().for_each(is_served);
    let client = &mut clients[0];
    let mut statuses = |address: &str| {
        let fields = format!("X-Forwarded-For: {address}\r\n");
        [(); 3].map(|()| client.method("GET", "/a.txt", &fields).status)
    };
    assert_eq!(statuses("192.0.2.7"), [200, 200, 429]);
    assert_eq!(statuses("192.0.2.8"), [200, 200, 429]);
    server.stop();
}

#[test]
fn a_proxy_header_names_the_client() {
    let server = with_application(setup().listen("proxy_protocol = true"));
    let mut client = connect(&server);
    client.send(b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n");
    assert_shown(&client.get("/app/show"), &[("REMOTE_ADDR", "192.0.2.1"), ("REMOTE_PORT", "56324")]);
    assert_eq!(server.total("relayed_not_tcp"), 1);
    let mut client = connect(&server);
    client.send(b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(client.head().is_err());
    server.stop();
}

/// A front server that connects as often as it has requests is served by all threads, though there is one queue.
#[test]
fn threads_share_one_queue() {
    let server = setup().server("threads = 2").start();
    server.wait_for("http.sock  2 threads, 1 bucket");
    let mut clients = Vec::new();
    eventually("both threads have connections", || {
        let mut client = connect(&server);
        is_served(&mut client);
        clients.push(client);
        let status = server.status();
        let threads = status["threads"].as_array().unwrap();
        assert_eq!(threads.len(), 2);
        threads.iter().all(|thread| thread["connections"].as_u64() >= Some(4))
    });
    drop(clients);
    server.stop();
}

#[test]
fn descriptors_of_a_client_end_its_connection_and_nothing_else() {
    let server = setup().start();
    let stream = UnixStream::connect(server.path("http.sock")).unwrap();
    let passed = [stream.as_fd()];
    let mut room = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    assert!(control.push(SendAncillaryMessage::ScmRights(&passed)));
    let request = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // From Linux 6.16 on, the kernel refuses to send them.
    let sent = sendmsg(&stream, &[IoSlice::new(request)], &mut control, SendFlags::empty());
    if sent.is_ok() {
        let answer = std::io::read_to_string(&stream);
        assert!(answer.as_deref().unwrap_or_default().is_empty(), "{answer:?}");
    }
    is_served(&mut connect(&server));
    server.stop();
}

/// `curl` with these arguments, at the name of the server's certificate. What it says, with the version of HTTP.
fn curl(server: &Server, arguments: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "60", "-w", " %{http_version}", "--unix-socket"]);
    let output = command.arg(server.path("http.sock")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn http2_and_tls_are_spoken_over_it() {
    if Command::new("curl").arg("--version").output().is_err() {
        return skip_missing("there is no curl");
    }
    let server = setup().start();
    let (h1, h2) = ("--http1.1", "--http2-prior-knowledge");
    assert_eq!(curl(&server, &[h1, "http://localhost/a.txt"]), "file a\n 1.1");
    assert_eq!(curl(&server, &[h2, "http://localhost/a.txt"]), "file a\n 2");
    server.stop();
    let authority = Authority::new();
    let made = authority.sign(&["app.example"], &rcgen::PKCS_ECDSA_P256_SHA256);
    let server = Setup::with_files()
        .outside("ca.pem", authority.pem.as_bytes())
        .outside("cert.pem", made.certificate.as_bytes())
        .outside("key.pem", made.key.as_bytes())
        .listen("address = \"127.0.0.1:0\"")
        .site("certificates = [{ certificate = \"cert.pem\", key = \"key.pem\" }]")
        .table("[[listen]]\naddress = \"unix:http.sock\"\ntls = {}\n")
        .start();
    server.wait_for("https+unix:");
    let authority = server.path("ca.pem");
    let authority = ["--cacert", authority.to_str().unwrap()];
    let with = |rest: &[&str]| curl(&server, &[&authority, rest].concat());
    assert_eq!(with(&["--http2", "https://app.example/a.txt"]), "file a\n 2");
    assert_eq!(with(&["--http1.1", "https://app.example/a.txt"]), "file a\n 1.1");
    server.stop();
}
