//! Requests of an application behind the handoff protocol: bodies, clients that go, early data, certificates of clients.

use std::collections::BTreeMap;

use maitred_http::h3::Code;
use maitred_load::client::Tls;
use maitred_load::http3::client::{Connector, Failed, headers};
use rustls::version::TLS13;

use crate::support::h3::{Asks, Guest, PATIENT, Text, connect, connector, early, head, join, setup};
use crate::support::stage::{self, Authority};
use crate::support::{Gate, Server, TIMEOUT, eventually};

fn start(gate: Option<&Gate>, lines: &str) -> Server {
    let server = setup("").pool("app", gate, lines).log("access = \"json\"").start();
    server.wait_for_processes();
    server
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

#[test]
fn pages_of_all_kinds_come() {
    let server = start(None, PATIENT);
    let mut client = connect(&server);
    assert_eq!(client.get("/app/hello?q=1").unwrap().text(), "hello q=1\n");
    let pieces: String = (0..20).map(|number| format!("piece {number}\n")).collect();
    let stream = client.get("/app/stream").unwrap();
    assert_eq!((stream.text(), stream.field("content-length")), (pieces.as_str(), None));
    assert_eq!(client.get("/app/large?5000000").unwrap().body.len(), 5_000_000);
    assert_eq!(client.get("/app/nothing").unwrap().status, 204);
    assert_eq!(client.get("/app/fail").unwrap().status, 500);
    assert!(client.ask("HEAD", "/app/large?70000", &[], b"").body.is_empty());
    drop(client);
    let lines = server.stop().json_lines();
    assert_eq!(lines.len(), 6);
    assert!(lines.iter().all(|line| line["version"] == "HTTP/3.0" && line["pool"] == "app"), "{lines:#?}");
}

#[test]
fn the_application_sees_who_asks_and_how() {
    let server = start(None, PATIENT);
    let mut client = connect(&server);
    let fields =
        [("x-test", "a value"), ("cookie", "a=1"), ("cookie", "b=2"), ("x-forwarded-for", "6.6.6.6")];
    let response = client.ask("GET", "/app/%41/show?q=%20", &fields, b"");
    let seen: BTreeMap<String, String> = serde_json::from_slice(&response.body).unwrap();
    let value = |name: &str| seen.get(name).map(String::as_str);
    assert_eq!(value("REQUEST_METHOD"), Some("GET"));
    assert_eq!(value("PATH_INFO"), Some("/app/A/show"));
    assert_eq!(value("QUERY_STRING"), Some("q=%20"));
    assert_eq!(value("HTTP_HOST"), Some("localhost"));
    assert_eq!(value("HTTP_X_TEST"), Some("a value"));
    assert_eq!(value("HTTP_COOKIE"), Some("a=1; b=2"), "crumbs are joined (9114-4.2.1)");
    assert_eq!(value("REMOTE_ADDR"), Some("127.0.0.1"));
    assert_eq!(value("HTTP_X_FORWARDED_PROTO"), Some("https"));
    assert_eq!(value("HTTP_X_SSL_PROTOCOL"), Some("TLSv1.3"));
    assert_ne!(value("HTTP_X_FORWARDED_FOR"), Some("6.6.6.6"));
    drop(client);
    server.stop();
}

#[test]
fn a_hundred_requests_at_once_share_two_processes() {
    let server = start(None, "workers = 2\nqueue = { max = 1024, timeout = \"60s\" }");
    let mut client = connect(&server);
    let streams: Vec<_> =
        (0..100).map(|number| client.send_get(&format!("/app/hello?{number}"), &[])).collect();
    for (number, stream) in streams.into_iter().enumerate() {
        assert_eq!(client.response(stream).unwrap().text(), format!("hello {number}\n"));
    }
    drop(client);
    assert_eq!(server.stop().access.len(), 100);
}

/// Inline, in a memory file, in a file; with a length and without.
#[test]
fn bodies_of_all_sizes_reach_the_application() {
    let server = start(None, PATIENT);
    let mut client = connect(&server);
    for bytes in [1, 1000, 65_537, 1_048_577] {
        let body = pattern(bytes);
        let length = bytes.to_string();
        let response = client.ask("POST", "/app/echo", &[("content-length", &length)], &body);
        assert!(response.status == 200 && response.body == body, "{bytes}: {}", response.status);
        let stream = client.begin("POST", "/app/echo", &[]);
        body.chunks(300_000).for_each(|piece| client.upload(stream, piece));
        client.finish(stream).unwrap();
        assert!(client.response(stream).unwrap().body == body, "{bytes} bytes without a length");
    }
    drop(client);
    server.stop();
}

#[test]
fn a_body_may_end_with_trailers() {
    let server = start(None, PATIENT);
    let mut client = connect(&server);
    for fields in [&[][..], &[("content-length", "5")]] {
        let stream = client.begin("POST", "/app/echo", fields);
        client.upload(stream, b"hello");
        client.write(stream, &headers(&[("x-checksum", "abc")])).unwrap();
        client.finish(stream).unwrap();
        assert_eq!(client.response(stream).unwrap().text(), "hello");
    }
    // 9114-4.1.2: a length that is not what comes is an error of the stream, and no application sees the request.
    let before = server.total("handoffs");
    for (length, sent) in [("10", &b"hello"[..]), ("3", b"hello")] {
        let stream = client.begin("POST", "/app/echo", &[("content-length", length)]);
        client.upload(stream, sent);
        client.finish(stream).unwrap();
        let failed = client.response(stream).unwrap_err();
        assert!(
            matches!(failed, Failed::Reset(code) if code == Code::MessageError.number()),
            "{length}: {failed:?}"
        );
    }
    assert_eq!(server.total("handoffs"), before);
    drop(client);
    server.stop();
}

/// RESET_STREAM and STOP_SENDING, as browsers send them together.
fn cancel(client: &mut Guest, stream: maitred_load::http3::quinn_proto::StreamId) {
    let code = Code::RequestCancelled.number();
    // The stream has been finished, and all of it may have been acknowledged.
    let _ = client.reset(stream, code);
    client.stop_sending(stream, code).unwrap();
}

#[test]
fn a_cancelled_request_is_said_to_the_application() {
    let gate = Gate::new();
    let server = start(Some(&gate), PATIENT);
    let mut client = connect(&server);
    let first = client.send_get("/app/wait", &[]);
    let waiting = gate.arrival();
    let queued = client.send_get("/app/wait", &[]);
    eventually("it is queued", || server.total("queued") == 1);
    cancel(&mut client, first);
    cancel(&mut client, queued);
    // A process that has answered nothing yet gets one request at a time: the second one has never left the server.
    eventually("the request was cancelled", || server.total("cancelled") == 1);
    waiting.release();
    assert_eq!(client.get("/app/hello?x").unwrap().text(), "hello x\n");
    assert!(gate.is_empty() && server.total("cancelled") == 1);
    drop(client);
    assert_eq!(server.stop().access.len(), 3, "each is logged, also what was cancelled");
}

#[test]
fn a_connection_that_goes_cancels_all_its_requests() {
    let gate = Gate::new();
    let server = start(Some(&gate), "workers = 3\nqueue = { timeout = \"60s\" }");
    let mut client = connect(&server);
    for _ in 0..3 {
        client.send_get("/app/wait", &[]);
    }
    let standing: Vec<_> = (0..3).map(|_| gate.arrival()).collect();
    drop(client);
    eventually("the requests were cancelled", || server.total("cancelled") == 3);
    standing.into_iter().for_each(crate::support::Waiting::release);
    assert_eq!(connect(&server).get("/app/hello?x").unwrap().text(), "hello x\n");
    server.stop();
}

/// Streams that are reset, or lost with their connection, before their body is whole.
#[test]
fn a_stream_that_ends_in_its_body_is_in_the_log_once() {
    let server = start(None, PATIENT);
    let mut client = connect(&server);
    let stream = client.begin("POST", "/app/reset", &[("content-length", "10")]);
    client.upload(stream, b"half");
    eventually("it is there", || server.total("http3_streams") == 1);
    cancel(&mut client, stream);
    eventually("it is counted", || server.total("client_aborts") == 1);
    let stream = client.begin("POST", "/app/lost", &[]);
    client.upload(stream, b"half");
    eventually("it is there", || server.total("http3_streams") == 2);
    drop(client);
    eventually("the client is gone", || server.total("client_aborts") == 2);
    let lines = server.stop().json_lines();
    let logged: Vec<_> = lines.iter().map(|line| (line["target"].clone(), line["status"].clone())).collect();
    assert_eq!(logged, ["/app/reset", "/app/lost"].map(|path| (path.into(), 499.into())));
}

#[test]
fn a_response_that_is_aborted_resets_its_stream() {
    let server = start(None, PATIENT);
    let mut client = connect(&server);
    let stream = client.send_get("/app/fail-late", &[]);
    let failed = client.response(stream).unwrap_err();
    assert!(matches!(failed, Failed::Reset(code) if code == Code::InternalError.number()), "{failed:?}");
    assert_eq!(client.get("/app/hello?x").unwrap().text(), "hello x\n", "the connection goes on");
    drop(client);
    server.terminate(rustix::process::Signal::TERM);
}

#[test]
fn early_requests_are_answered_if_they_are_safe() {
    let server = setup("early_data = true").pool("app", None, PATIENT).start();
    server.wait_for_processes();
    let connector = connector(&server);
    let mut client = early(&connector);
    let stream = client.send_get("/app/show", &[]);
    let response = client.response(stream).unwrap();
    let seen: BTreeMap<String, String> = serde_json::from_slice(&response.body).unwrap();
    assert!(client.early_data_accepted());
    assert_eq!(seen.get("HTTP_EARLY_DATA").map(String::as_str), Some("1"), "{seen:?}");
    let later = client.get("/app/show").unwrap();
    let seen: BTreeMap<String, String> = serde_json::from_slice(&later.body).unwrap();
    assert_eq!(seen.get("HTTP_EARLY_DATA"), None, "this one came later");

    let mut client = early(&connector);
    let stream = client.send(&head("POST", "/app/show", &[]), b"body").unwrap();
    assert_eq!(client.response(stream).unwrap().status, 425);
    assert!(client.early_data_accepted());
    assert_eq!(client.ask("POST", "/app/show", &[], b"body").status, 200, "behind the handshake");
    drop(client);
    server.stop();
}

#[test]
fn early_data_is_off_unless_it_is_configured() {
    let server = setup("").start();
    let connector = connector(&server);
    for _ in 0..3 {
        let mut client = join(&connector);
        assert!(!client.has_early_data());
        assert_eq!(client.get("/a.txt").unwrap().status, 200);
    }
    server.stop();
}

#[test]
fn certificates_of_clients_reach_the_application() {
    let authority = Authority::new();
    let alice = authority.sign(&["alice"], &rcgen::PKCS_ECDSA_P256_SHA256);
    let mallory = Authority::new().sign(&["mallory"], &rcgen::PKCS_ECDSA_P256_SHA256);
    let server = stage::setup(&authority, "client_auth = \"optional\", client_ca = \"ca.pem\"")
        .listen("http3 = true")
        .pool("app", None, PATIENT)
        .start();
    server.wait_for_processes();
    let connect_as = |own| {
        let tls = Tls::of("localhost", authority.client_of(&[&TLS13], own)).unwrap();
        let mut connector = Connector::with(server.address_of("https"), &tls, &[b"h3"]).unwrap();
        connector.timeout = TIMEOUT;
        connector.connect().map(Guest)
    };
    let told = |client: &mut Guest| {
        let lies = [("x-ssl-client-verify", "SUCCESS"), ("x-ssl-client-s-dn", "CN=root")];
        let response = client.ask("GET", "/app/show", &lies, b"");
        let seen: BTreeMap<String, String> = serde_json::from_slice(&response.body).unwrap();
        let own = |(name, _): &(String, String)| name.starts_with("HTTP_X_SSL_CLIENT_");
        seen.into_iter().filter(own).collect::<BTreeMap<_, _>>()
    };
    let seen = told(&mut connect_as(Some(&alice)).unwrap());
    assert_eq!(seen["HTTP_X_SSL_CLIENT_VERIFY"], "SUCCESS", "{seen:?}");
    assert_eq!(seen["HTTP_X_SSL_CLIENT_S_DN"], "CN=alice,O=Example\\, Inc.", "{seen:?}");
    assert_eq!(seen["HTTP_X_SSL_CLIENT_FINGERPRINT"].len(), 64, "{seen:?}");
    assert_eq!(told(&mut connect_as(None).unwrap()), BTreeMap::new(), "without one there is no identity");
    // A client only learns with its first answer that it was refused.
    let answer = connect_as(Some(&mallory)).and_then(|mut client| client.get("/a.txt"));
    assert!(matches!(answer, Err(Failed::Closed(_))), "{answer:?}");
    server.stop();
}
