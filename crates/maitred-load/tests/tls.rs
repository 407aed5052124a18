//! `maitred-load` against servers that speak TLS, or should.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};
use support::*;

/// How a connection goes on after a response.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// The connection is kept.
    Keep,
    /// TLS ends it, then TCP.
    End,
    /// TCP ends it, and TLS says nothing.
    Cut,
}

/// A server with a certificate for `localhost` that it has signed itself.
struct TlsServer {
    address: SocketAddr,
    certificate: String,
    handshakes: Arc<Mutex<Vec<HandshakeKind>>>,
}

impl TlsServer {
    fn start(response: Vec<u8>, then: Then) -> TlsServer {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let handshakes = Arc::new(Mutex::new(Vec::new()));
        let (config, seen, response) = (Arc::new(config), handshakes.clone(), Arc::new(response));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (config, seen, response) = (config.clone(), seen.clone(), response.clone());
                std::thread::spawn(move || serve(stream, config, &seen, &response, then));
            }
        });
        TlsServer { address, certificate: made.cert.pem(), handshakes }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    fn count(&self, wanted: impl Fn(HandshakeKind) -> bool) -> usize {
        self.handshakes.lock().unwrap().iter().filter(|kind| wanted(**kind)).count()
    }
}

fn serve(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    seen: &Mutex<Vec<HandshakeKind>>,
    response: &[u8],
    then: Then,
) {
    // Tickets and the response are two small segments, and the second must not wait.
    stream.set_nodelay(true).unwrap();
    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let mut is_first = true;
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut piece = [0; 4096];
            match stream.read(&mut piece) {
                Ok(count @ 1..) => head.extend_from_slice(&piece[..count]),
                _ => return,
            }
        }
        // Of connections that bring a request: the program's first one only tries the handshake.
        if std::mem::take(&mut is_first) {
            seen.lock().unwrap().push(stream.conn.handshake_kind().unwrap());
        }
        if stream.write_all(response).and_then(|()| stream.flush()).is_err() {
            return;
        }
        match then {
            Then::Keep => {}
            Then::Cut => return,
            Then::End => {
                stream.conn.send_close_notify();
                let _ = stream.flush();
                return;
            }
        }
    }
}

#[test]
fn a_kept_connection_is_one_session() {
    let body = "x".repeat(300_000);
    let server = TlsServer::start(response(200, &body), Then::Keep);
    let directory = tempfile::tempdir().unwrap();
    let authority = write(directory.path(), "ca.pem", server.certificate.as_bytes());
    let log = log_of(directory.path(), 30);
    let (code, report) = json(&["replay", &log, "--to", &server.url(), "--ca", &authority, "-c", "1"]);
    assert_eq!(code, 0);
    assert_eq!(
        (&report["responses"], &report["failures"], &report["connections"]),
        (&30.into(), &0.into(), &1.into())
    );
    assert_eq!(report["body_bytes"], 30 * 300_000);
    assert!(report["received_bytes"].as_u64().unwrap() > 30 * 300_000, "what TLS adds is received, too");
    assert_eq!(server.count(|_| true), 1);
}

#[test]
fn sessions_are_resumed_unless_whole_handshakes_are_wanted() {
    let server = TlsServer::start(response(200, "ok"), Then::Keep);
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 20);
    let common = [
        "replay",
        &log,
        "--to",
        &server.url(),
        "--insecure",
        "--no-keep-alive",
        "-c",
        "1",
        "--per-client",
        "1",
    ];
    let (_, report) = json(&common);
    assert_eq!((&report["responses"], &report["connections"]), (&20.into(), &20.into()));
    let resumed = server.count(|kind| kind == HandshakeKind::Resumed);
    assert!(resumed >= 15, "only {resumed} of 20 were resumed");
    let (_, report) = json(&[&common[..], &["--full-handshakes"]].concat());
    assert_eq!(report["responses"], 20);
    // Nothing waits for a delayed acknowledgement, which takes 40 ms at least.
    let fastest = report["latency_us"]["min"].as_f64().unwrap();
    assert!(fastest < 35_000.0, "{fastest}");
    assert_eq!(server.count(|kind| kind == HandshakeKind::Resumed), resumed);
    assert_eq!(server.count(|_| true), 40);
}

#[test]
fn a_stranger_s_certificate_is_told() {
    let server = TlsServer::start(response(200, "ok"), Then::Keep);
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 3);
    // Another authority.
    let other = TlsServer::start(Vec::new(), Then::Keep);
    let authority = write(directory.path(), "ca.pem", other.certificate.as_bytes());
    let (code, message) = failing(&["replay", &log, "--to", &server.url(), "--ca", &authority]);
    assert_eq!(code, 1);
    assert!(message.contains("invalid peer certificate") && message.contains("--insecure"), "{message}");
    // The right authority, and another name.
    let own = write(directory.path(), "own.pem", server.certificate.as_bytes());
    let url = format!("https://{}", server.address);
    let (code, message) = failing(&["replay", &log, "--to", &url, "--ca", &own]);
    assert!(code == 1 && message.contains("invalid peer certificate"), "{message}");
    assert_eq!(server.count(|_| true), 0);
    let none = write(directory.path(), "none.pem", b"no certificate\n");
    let (code, message) = failing(&["replay", &log, "--to", &server.url(), "--ca", &none]);
    assert!(code == 2 && message.contains("no certificate of an authority"), "{message}");
}

#[test]
fn a_server_without_tls_is_told() {
    let server = Server::answering("ok");
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 3);
    let url = format!("https://{}", server.address);
    let (code, message) = failing(&["replay", &log, "--to", &url, "--insecure"]);
    assert!(code == 1 && message.contains("no TLS session with 127.0.0.1"), "{message}");
    assert!(message.contains("it says nothing within 5s"), "it waits for the end of a request: {message}");
    for option in ["--insecure", "--full-handshakes"] {
        let (code, message) = failing(&["replay", &log, "--to", &server.url(), option]);
        assert!(code == 2 && message.contains("for https:// only"), "{message}");
    }
}

/// Speaks TLS to the first connection and not to others: failed handshakes are counted, and the reason is shown.
#[test]
fn failed_handshakes_are_counted() {
    let server = TlsServer::start(response(200, "ok"), Then::Keep);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, upstream) = (listener.local_addr().unwrap(), server.address);
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().map_while(Result::ok).enumerate() {
            std::thread::spawn(move || pass_on(client, upstream, number < 2));
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 3);
    let url = format!("https://{address}");
    let output = program(&["replay", &log, "--to", &url, "--insecure", "--no-keep-alive", "-c", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("failed          2: 2 without a TLS session"), "{text}");
    assert!(text.contains("TLS: received corrupt message"), "{text}");
}

/// Passes bytes on, or answers with some that are no TLS.
fn pass_on(mut client: TcpStream, upstream: SocketAddr, is_sound: bool) {
    if !is_sound {
        let _ = client.read(&mut [0; 4096]);
        let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = client.read(&mut [0; 4096]);
        return;
    }
    let mut server = TcpStream::connect(upstream).unwrap();
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    let _ = std::io::copy(&mut server, &mut client);
    let _ = client.shutdown(std::net::Shutdown::Write);
}

#[test]
fn what_was_cut_off_is_told_from_what_has_ended() {
    let until_close = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it?".to_vec();
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), 3);
    let ending = TlsServer::start(until_close.clone(), Then::End);
    let (code, report) = json(&["replay", &log, "--to", &ending.url(), "--insecure", "-c", "1"]);
    assert_eq!((code, &report["responses"], &report["body_bytes"]), (0, &3.into(), &30.into()));
    let cutting = TlsServer::start(until_close, Then::Cut);
    let (code, report) = json(&["replay", &log, "--to", &cutting.url(), "--insecure", "-c", "1"]);
    assert_eq!((code, &report["responses"]), (1, &0.into()));
    assert_eq!(report["failed"], serde_json::json!([["cut", 3]]));
}

#[test]
fn the_mix_runs_over_tls() {
    let server = TlsServer::start(response(200, &"x".repeat(5000)), Then::Keep);
    let (code, report) = json(&["specweb", "--to", &server.url(), "--insecure", "-c", "3", "-d", "1s"]);
    assert_eq!((code, &report["failures"]), (0, &0.into()), "{report}");
    assert!(report["responses"].as_u64().unwrap() > 5, "{report}");
}
