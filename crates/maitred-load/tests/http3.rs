//! HTTP/3: the client that tests use, and `maitred-load repeat --http3`, against a server in this process.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may panic as the test may")]

mod support;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use maitred_http::h3::Code;
use maitred_http::h3::frame::kind;
use maitred_load::client::Trust;
use maitred_load::http3::client::{Client, Closed, Connector, Failed, Read, frame, headers};
use quinn_proto::VarInt;
use serde_json::json;
use support::quic::{Act, QuicServer, answer};
use support::{failing, write};

fn trusting(server: &QuicServer) -> (Connector, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let ca = write(directory.path(), "ca.pem", server.certificate.as_bytes());
    let trust = Trust::Authorities(ca.into());
    (Connector::new(server.address, "localhost", &trust).unwrap(), directory)
}

fn connected(server: &QuicServer) -> Client {
    Connector::new(server.address, "localhost", &Trust::Anyone).unwrap().connect().unwrap()
}

fn anywhere() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

#[test]
fn requests_are_answered_with_all_that_a_response_can_have() {
    let server = QuicServer::start(|seen, _| {
        let mut bytes = headers(&[(":status", "103"), ("link", "</a>")]);
        bytes.extend(headers(&[(":status", "201"), ("x-path", seen.path.as_str())]));
        bytes.extend(frame(kind::DATA, &seen.body));
        bytes.extend(headers(&[("x-sum", "7")]));
        Act::Answer(bytes)
    });
    let (connector, _directory) = trusting(&server);
    let mut client = connector.connect().unwrap();
    // More than any window at its start.
    let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at >> 7) as u8).collect();
    let head = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/a")];
    let response = client.request(&head, &body).unwrap();
    assert_eq!((response.status, response.field("x-path")), (201, Some("/a")));
    assert_eq!(response.interim, [(103, vec![(b"link".to_vec(), b"</a>".to_vec())])]);
    assert_eq!(response.trailers, [(b"x-sum".to_vec(), b"7".to_vec())]);
    assert!(response.body == body);
    assert_eq!(client.settings().unwrap().list_bytes_max, Some(65_536));
    assert_eq!(client.get("/b").unwrap().field("x-path"), Some("/b"));
    assert!(client.stats().path.sent_packets > 2000);
}

#[test]
fn certificates_are_verified_unless_that_is_off() {
    let server = QuicServer::start(|_, _| Act::Answer(answer(200, b"ok")));
    let (mut connector, _directory) = trusting(&server);
    assert!(connector.connect().is_ok());
    let other = QuicServer::start(|_, _| Act::Hang);
    connector.dialer.remote = other.address;
    let failed = connector.connect().unwrap_err().to_string();
    assert!(failed.contains("certificate"), "{failed}");
    assert!(connected(&other).closed().is_none());
}

#[test]
fn streams_are_at_hand_as_they_are() {
    let server = QuicServer::start(|_, number| match number {
        0 => Act::Reset(b"half".to_vec(), 0x77),
        _ => Act::Close(Code::GeneralProtocolError.number()),
    });
    let mut connector = Connector::new(server.address, "localhost", &Trust::Anyone).unwrap();
    connector.settings = None;
    let mut client = connector.connect().unwrap();
    let uni = client.open_uni().unwrap();
    client.write(uni, &[0, 4, 0]).unwrap();
    let control = client.accept_uni().unwrap();
    assert!(matches!(client.read(control).unwrap(), Read::Bytes(bytes) if bytes[..2] == [0, 4]));
    let request = headers(&[(":method", "GET"), (":path", "/")]);
    let stream = client.open_bidi().unwrap();
    client.write(stream, &request[..3]).unwrap();
    client.write(stream, &request[3..]).unwrap();
    client.finish(stream).unwrap();
    assert!(matches!(client.read_to_end(stream), Err(Failed::Reset(0x77))));
    let given_up = client.open_bidi().unwrap();
    client.write(given_up, b"x").unwrap();
    client.stop_sending(given_up, 0x10c).unwrap();
    client.reset(given_up, 0x10c).unwrap();
    let stream = client.open_bidi().unwrap();
    client.write(stream, &request).unwrap();
    client.finish(stream).unwrap();
    let reason = "enough".to_owned();
    assert_eq!(client.wait_closed().unwrap(), Closed::Application { code: 0x101, reason });
    assert!(matches!(client.get("/"), Err(Failed::Closed(_))));
}

#[test]
fn connections_go_on_from_another_address_and_with_other_keys() {
    let server = QuicServer::start(|_, _| Act::Answer(answer(200, b"ok")));
    let mut client = connected(&server);
    let mut addresses = Vec::new();
    for step in 0..4 {
        match step {
            1 => client.rebind(anywhere()).unwrap(),
            2 => client.update_keys(),
            3 => client.migrate(anywhere()).unwrap(),
            _ => {}
        }
        assert_eq!(client.get("/").unwrap().body, b"ok");
        addresses.push(server.seen()[step].from);
    }
    assert!(addresses[0] != addresses[1] && addresses[1] == addresses[2] && addresses[2] != addresses[3]);
    assert!(server.seen().iter().all(|seen| seen.connection == 0));
}

#[test]
fn a_second_connection_can_ask_before_its_handshake_has_ended() {
    let server = QuicServer::start(|_, _| Act::Answer(answer(200, b"ok")));
    let (connector, _directory) = trusting(&server);
    let mut first = connector.connect().unwrap();
    assert!(!first.has_early_data());
    assert_eq!(first.get("/").unwrap().status, 200);
    let mut second = connector.begin().unwrap();
    assert!(second.has_early_data());
    assert_eq!(second.get("/early").unwrap().status, 200);
    second.wait(|client| client.early_data_accepted().then_some(())).unwrap();
    let seen = server.seen();
    assert_eq!((seen[1].path.as_str(), seen[1].early), ("/early", true));
}

#[test]
fn transport_is_settable_and_nothing_is_read_unasked() {
    let server = QuicServer::start(|_, _| Act::Answer(answer(200, &[7; 100_000])));
    let mut connector = Connector::new(server.address, "localhost", &Trust::Anyone).unwrap();
    let mut transport = maitred_load::http3::transport();
    transport.stream_receive_window(VarInt::from_u32(10_000)).initial_mtu(1400);
    connector.dialer.set_transport(Arc::new(transport));
    let mut client = connector.connect().unwrap();
    assert_eq!(client.stats().path.current_mtu, 1400);
    let stream = client.send(&[(":method", "GET"), (":path", "/")], b"").unwrap();
    let bytes = loop {
        // Long enough for all that may come unasked, once something has.
        client.run_for(Duration::from_millis(50));
        match client.try_read(stream) {
            Some(Read::Bytes(bytes)) => break bytes,
            None => {}
            Some(_) => panic!("it has ended"),
        }
        assert!(client.closed().is_none(), "nothing has come");
    };
    assert!(bytes.len() <= 10_000);
    let more = client.read_to_end(stream).unwrap();
    assert_eq!(bytes.len() + more.len(), answer(200, &[7; 100_000]).len());
}

/// Runs `repeat --http3` with `--json`; its exit code and what it printed.
fn repeat(server: &QuicServer, arguments: &[&str]) -> (i32, serde_json::Value) {
    let url = server.url();
    support::json(&[&["repeat", "--http3", "--insecure", "--quiet", "--to", &url], arguments].concat())
}

#[test]
fn requests_are_repeated_on_all_streams_of_all_connections() {
    let server = QuicServer::start(|_, _| Act::Answer(answer(200, &[1; 5000])));
    let (code, report) = repeat(&server, &["/x?y", "-c", "3", "-s", "8", "-n", "600", "-H", "x-a: b"]);
    assert_eq!((code, &report["responses"], &report["failures"]), (0, &json!(600), &json!(0)));
    assert_eq!((&report["connections"], &report["body_bytes"]), (&json!(3), &json!(3_000_000)));
    assert_eq!(report["statuses"], json!([[200, 600]]));
    let seen = server.seen();
    assert_eq!(seen.len(), 600);
    assert!(seen.iter().all(|seen| seen.path == "/x?y" && seen.fields.contains(&("x-a".into(), "b".into()))));
    // The first connection of all is the program's probe.
    assert!((1..=3).all(|number| seen.iter().any(|seen| seen.connection == number)));
}

#[test]
fn content_is_sent_and_idle_connections_stay() {
    let server =
        QuicServer::start(|seen, _| Act::Answer(answer(200, seen.body.len().to_string().as_bytes())));
    let (_, report) = repeat(&server, &["-c", "2", "-s", "2", "-n", "20", "--body-bytes", "300K"]);
    assert_eq!((&report["responses"], &report["body_bytes"]), (&json!(20), &json!(120)));
    let (_, report) = repeat(&server, &["-c", "0", "--idle", "40", "--duration", "1s"]);
    assert_eq!((&report["responses"], &report["connections"]), (&json!(40), &json!(40)));
    assert_eq!(server.seen().iter().filter(|seen| seen.body.is_empty()).count(), 40);
}

#[test]
fn what_a_server_that_leaves_has_not_processed_is_sent_again() {
    let server = QuicServer::start(|_, number| match number % 10 {
        7 => Act::Leave,
        9 => Act::Last(answer(200, b"last")),
        _ => Act::Answer(answer(200, b"ok")),
    });
    let (_, report) = repeat(&server, &["-c", "2", "-s", "4", "-n", "100"]);
    assert_eq!((&report["responses"], &report["failed"]), (&json!(100), &json!([])));
    assert!(report["sent_again"].as_u64().unwrap() >= 10);
    assert!(report["connections"].as_u64().unwrap() >= 10);
}

#[test]
fn failures_are_counted_by_their_reason() {
    let server = QuicServer::start(|_, number| match number {
        0 => Act::Reset(b"".to_vec(), Code::InternalError.number()),
        1 => Act::Answer(frame(kind::DATA, b"no head")),
        2 => Act::Answer(headers(&[(":status", "200"), ("content-length", "9")])),
        3 => Act::Hang,
        4 => Act::Close(Code::NoError.number()),
        _ => Act::Answer(answer(204, b"")),
    });
    let (_, report) = repeat(&server, &["-c", "1", "-n", "8", "--timeout", "500ms"]);
    let failed = json!([["timeout", 1], ["reset", 1], ["closed", 1], ["malformed", 2]]);
    assert_eq!((&report["failed"], &report["responses"]), (&failed, &json!(3)));
}

#[test]
fn servers_that_are_not_there_are_told_at_once() {
    let nobody = UdpSocket::bind(anywhere()).unwrap();
    let address = format!("https://{}", nobody.local_addr().unwrap());
    let arguments = ["repeat", "--http3", "--insecure", "-n", "1", "--to", &address];
    let (code, message) = failing(&arguments);
    assert_eq!(code, 1);
    assert!(message.contains("no HTTP/3 with 127.0.0.1"), "{message}");
    let clear = ["repeat", "--http3", "--to", "http://127.0.0.1:1"];
    assert_eq!(failing(&clear), (2, "maitred-load: --http3 is for https:// only\n".to_owned()));
}

#[test]
fn requests_are_repeated_over_http_1_too() {
    let server = support::Server::answering("hello");
    let url = server.url();
    let arguments =
        ["repeat", "/a", "--to", &url, "-c", "3", "-n", "30", "--body-bytes", "5", "-H", "X-A: b", "--quiet"];
    let (code, report) = support::json(&arguments);
    assert_eq!((code, &report["responses"], &report["body_bytes"]), (0, &json!(30), &json!(150)));
    assert_eq!(report["connections"], json!(3));
    let seen = server.seen();
    assert!(
        seen.iter()
            .all(|seen| seen.head.starts_with("POST /a HTTP/1.1\r\n") && seen.head.contains("x-a: b\r\n"))
    );
}

#[test]
fn several_paths_are_asked_for_in_turn() {
    let server = QuicServer::start(|_, _| Act::Answer(answer(200, b"ok")));
    let (code, report) = repeat(&server, &["/a", "/b", "/c", "-c", "2", "-s", "2", "-n", "30"]);
    assert_eq!((code, &report["responses"]), (0, &json!(30)));
    let seen = server.seen();
    assert!(
        ["/a", "/b", "/c"].iter().all(|path| seen.iter().filter(|seen| seen.path == *path).count() == 10)
    );
    let server = support::Server::answering("hello");
    let (url, [a, b]) = (server.url(), ["/a", "/b"]);
    let (code, _) = support::json(&["repeat", a, b, "--to", &url, "-c", "1", "-n", "4", "--quiet"]);
    assert_eq!(code, 0);
    let seen = server.seen();
    // What asks whether the server is there sends no request.
    assert!(seen.iter().zip([a, b, a, b]).all(|(seen, path)| seen.head.starts_with(&format!("GET {path} "))));
}
