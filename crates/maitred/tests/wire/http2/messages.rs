//! Requests that are malformed (9113-8.1.1, 8.2, 8.3), and what HTTP/1's rules refuse behind them.

use crate::support::Setup;
use crate::support::h2::frame::{self, code};
use crate::support::h2::{Connection, Lost, hpack};

type Fields = &'static [(&'static str, &'static str)];

const METHOD: (&str, &str) = (":method", "GET");
const SCHEME: (&str, &str) = (":scheme", "http");
const PATH: (&str, &str) = (":path", "/a.txt");
const AUTHORITY: (&str, &str) = (":authority", "localhost");

/// Whose stream is reset with PROTOCOL_ERROR.
const MALFORMED: &[(&str, Fields)] = &[
    ("no fields at all", &[]),
    ("no method", &[SCHEME, PATH, AUTHORITY]),
    ("no scheme", &[METHOD, PATH, AUTHORITY]),
    ("no path", &[METHOD, SCHEME, AUTHORITY]),
    ("an empty path", &[METHOD, SCHEME, (":path", ""), AUTHORITY]),
    ("a path without a slash", &[METHOD, SCHEME, (":path", "a.txt"), AUTHORITY]),
    ("a path with a space", &[METHOD, SCHEME, (":path", "/a b"), AUTHORITY]),
    ("a path with a line end", &[METHOD, SCHEME, (":path", "/a HTTP/1.1\r\nX: y"), AUTHORITY]),
    ("an asterisk of GET", &[METHOD, SCHEME, (":path", "*"), AUTHORITY]),
    ("two methods", &[METHOD, METHOD, SCHEME, PATH, AUTHORITY]),
    ("two paths", &[METHOD, SCHEME, PATH, PATH, AUTHORITY]),
    ("two authorities", &[METHOD, SCHEME, PATH, AUTHORITY, AUTHORITY]),
    ("a method that is no token", &[(":method", "GE T"), SCHEME, PATH, AUTHORITY]),
    ("an empty method", &[(":method", ""), SCHEME, PATH, AUTHORITY]),
    (
        "a method with a line end",
        &[(":method", "GET / HTTP/1.1\r\nX: y\r\n\r\nGET"), SCHEME, PATH, AUTHORITY],
    ),
    ("a pseudo-field of responses", &[METHOD, SCHEME, PATH, AUTHORITY, (":status", "200")]),
    ("an unknown pseudo-field", &[METHOD, SCHEME, PATH, AUTHORITY, (":what", "x")]),
    ("a pseudo-field after a field", &[METHOD, SCHEME, PATH, ("x-test", "y"), AUTHORITY]),
    ("a name in capitals", &[METHOD, SCHEME, PATH, AUTHORITY, ("X-Test", "y")]),
    ("an empty name", &[METHOD, SCHEME, PATH, AUTHORITY, ("", "y")]),
    ("a name with a space", &[METHOD, SCHEME, PATH, AUTHORITY, ("x test", "y")]),
    ("a name with a colon", &[METHOD, SCHEME, PATH, AUTHORITY, ("x:test", "y")]),
    ("a name with a line end", &[METHOD, SCHEME, PATH, AUTHORITY, ("x\r\ny", "y")]),
    ("a value with a line end", &[METHOD, SCHEME, PATH, AUTHORITY, ("x-test", "y\r\nz: a")]),
    ("a value with a lone LF", &[METHOD, SCHEME, PATH, AUTHORITY, ("x-test", "y\nz: a")]),
    ("a value with a NUL", &[METHOD, SCHEME, PATH, AUTHORITY, ("x-test", "y\0z")]),
    ("a space before a value", &[METHOD, SCHEME, PATH, AUTHORITY, ("x-test", " y")]),
    ("a tab after a value", &[METHOD, SCHEME, PATH, AUTHORITY, ("x-test", "y\t")]),
    ("connection", &[METHOD, SCHEME, PATH, AUTHORITY, ("connection", "close")]),
    ("keep-alive", &[METHOD, SCHEME, PATH, AUTHORITY, ("keep-alive", "timeout=5")]),
    ("proxy-connection", &[METHOD, SCHEME, PATH, AUTHORITY, ("proxy-connection", "close")]),
    ("transfer-encoding", &[METHOD, SCHEME, PATH, AUTHORITY, ("transfer-encoding", "chunked")]),
    ("upgrade", &[METHOD, SCHEME, PATH, AUTHORITY, ("upgrade", "h2c")]),
    ("te: gzip", &[METHOD, SCHEME, PATH, AUTHORITY, ("te", "gzip")]),
    ("a host that is another", &[METHOD, SCHEME, PATH, AUTHORITY, ("host", "other.example")]),
    ("two lengths", &[METHOD, SCHEME, PATH, AUTHORITY, ("content-length", "0"), ("content-length", "1")]),
    ("a length that is none", &[METHOD, SCHEME, PATH, AUTHORITY, ("content-length", "+0")]),
    (
        "a length beyond all numbers",
        &[METHOD, SCHEME, PATH, AUTHORITY, ("content-length", "99999999999999999999")],
    ),
    ("a protocol without CONNECT", &[METHOD, SCHEME, PATH, AUTHORITY, (":protocol", "websocket")]),
];

#[test]
fn malformed_requests_lose_their_stream_and_nothing_else() {
    let server = Setup::with_files().start();
    let mut connection = Connection::new(server.address);
    for (what, fields) in MALFORMED {
        let id = connection.open();
        connection.send(frame::headers(id, &hpack::block(fields), true));
        match connection.try_response(id) {
            Err(Lost::Reset(found)) => assert_eq!(found, code::PROTOCOL_ERROR, "{what}"),
            Ok(response) => assert_eq!(response.status, 400, "{what}: {response:?}"),
            Err(Lost::Ended) => panic!("{what}: the connection ended with {:?}", connection.goaway),
        }
        assert_eq!(connection.get("/a.txt").text(), "file a\n", "{what}: the connection goes on");
    }
    server.stop();
}

#[test]
fn trailers_may_not_have_pseudo_fields_and_end_the_stream() {
    let server = Setup::with_files().pool("app", None, "workers = 1").start();
    server.wait_for_processes();
    let before = server.total("handoffs");
    for (fields, end) in [(&[(":path", "/b.txt")][..], true), (&[("x-test", "y")], false)] {
        let mut connection = Connection::new(server.address);
        let id = connection.request("POST", "/app/echo", &[], false);
        connection.send(frame::headers(id, &hpack::block(fields), end));
        match connection.try_response(id) {
            Err(Lost::Reset(found)) => assert_eq!(found, code::PROTOCOL_ERROR, "{fields:?}"),
            other => panic!("{fields:?}: {other:?}"),
        }
        assert_eq!(connection.get("/a.txt").text(), "file a\n");
    }
    assert_eq!(server.total("handoffs"), before, "no application has seen a part of it");
    server.stop();
}

#[test]
fn what_the_rules_of_http_refuse_gets_its_status() {
    let server = Setup::with_files().limit("target_bytes_max = 200").start();
    let mut connection = Connection::new(server.address);
    let long = format!("/{}", "x".repeat(300));
    let cases: &[(&[(&str, &str)], u16)] = &[
        (&[METHOD, SCHEME, (":path", &long), AUTHORITY], 414),
        (&[METHOD, SCHEME, (":path", "/%zz"), AUTHORITY], 400),
        (&[METHOD, SCHEME, (":path", "/%00"), AUTHORITY], 400),
        (&[METHOD, SCHEME, PATH, (":authority", "bad host")], 400),
        (&[METHOD, SCHEME, PATH, (":authority", "localhost"), ("host", "localhost")], 200),
        (&[METHOD, SCHEME, PATH, ("host", "localhost")], 200),
        (&[(":method", "BREW"), SCHEME, PATH, AUTHORITY], 405),
        (&[METHOD, (":scheme", "ftp"), PATH, AUTHORITY], 200),
    ];
    for (fields, status) in cases {
        let id = connection.open();
        connection.send(frame::headers(id, &hpack::block(fields), true));
        match connection.try_response(id) {
            Ok(response) => assert_eq!(response.status, *status, "{fields:?}"),
            // What is malformed in HTTP/2's eyes already needs no answer.
            Err(Lost::Reset(found)) if *status == 400 => assert_eq!(found, code::PROTOCOL_ERROR),
            Err(lost) => panic!("{fields:?}: {lost:?}"),
        }
    }
    assert_eq!(connection.get("/a.txt").text(), "file a\n");
    server.stop();
}

#[test]
fn a_plain_connect_is_refused() {
    let server = Setup::with_files().start();
    let mut connection = Connection::new(server.address);
    let id = connection.open();
    connection.stream(id).method = "CONNECT".to_owned();
    let fields = [(":method", "CONNECT"), (":authority", "example.com:443")];
    connection.send(frame::headers(id, &hpack::block(&fields), false));
    let status = connection.response(id).status;
    assert!((400..600).contains(&status), "{status}");
    assert_eq!(connection.get("/a.txt").text(), "file a\n");
    server.stop();
}

/// Where the sections of the frames speak of an error of the connection, it ends, with the code that they name.
#[test]
fn errors_of_the_connection_end_it_with_their_code() {
    let server = Setup::with_files().start();
    let request = hpack::block(&[METHOD, SCHEME, PATH, AUTHORITY]);
    let cases: Vec<(&str, Vec<u8>, u32)> = vec![
        ("DATA on stream 0", frame::data(0, b"x", false), code::PROTOCOL_ERROR),
        ("DATA on an idle stream", frame::data(1, b"x", false), code::PROTOCOL_ERROR),
        ("HEADERS on stream 0", frame::headers(0, &request, true), code::PROTOCOL_ERROR),
        ("HEADERS on an even stream", frame::headers(2, &request, true), code::PROTOCOL_ERROR),
        ("RST_STREAM of an idle stream", frame::rst_stream(9, 0), code::PROTOCOL_ERROR),
        ("SETTINGS on a stream", frame::frame(4, 0, 1, &[]), code::PROTOCOL_ERROR),
        ("SETTINGS of 5 bytes", frame::frame(4, 0, 0, &[0; 5]), code::FRAME_SIZE_ERROR),
        ("an ACK with content", frame::frame(4, 1, 0, &[0; 6]), code::FRAME_SIZE_ERROR),
        ("a window of 2^31", frame::settings(&[(4, 1 << 31)]), code::FLOW_CONTROL_ERROR),
        ("frames of 100 bytes", frame::settings(&[(5, 100)]), code::PROTOCOL_ERROR),
        ("PUSH_PROMISE", frame::frame(5, 4, 1, &[0, 0, 0, 2]), code::PROTOCOL_ERROR),
        ("PING of 7 bytes", frame::frame(6, 0, 0, &[0; 7]), code::FRAME_SIZE_ERROR),
        ("PING on a stream", frame::frame(6, 0, 1, &[0; 8]), code::PROTOCOL_ERROR),
        ("GOAWAY on a stream", frame::frame(7, 0, 1, &[0; 8]), code::PROTOCOL_ERROR),
        ("an update of 0 on the connection", frame::window_update(0, 0), code::PROTOCOL_ERROR),
        ("an update of 3 bytes", frame::frame(8, 0, 0, &[0; 3]), code::FRAME_SIZE_ERROR),
        ("CONTINUATION without HEADERS", frame::frame(9, 4, 1, &request), code::PROTOCOL_ERROR),
        (
            "HEADERS that another frame interrupts",
            [frame::frame(1, 1, 1, &request), frame::ping(1)].concat(),
            code::PROTOCOL_ERROR,
        ),
        ("a frame that is too large", frame::frame(0x77, 0, 0, &[0; 16_385]), code::FRAME_SIZE_ERROR),
        ("padding that is all", frame::frame(1, 0x0d, 1, &[200, 0x82]), code::PROTOCOL_ERROR),
        ("an index of 0", frame::headers(1, &[0x80], true), code::COMPRESSION_ERROR),
        ("an index that nothing has", frame::headers(1, &[0xff, 0x7f], true), code::COMPRESSION_ERROR),
        (
            "a block that ends too early",
            frame::headers(1, &[0x40, 0x05, b'x'], true),
            code::COMPRESSION_ERROR,
        ),
        (
            "a table that is too large",
            frame::headers(1, &[0x3f, 0xff, 0xff, 0x7f], true),
            code::COMPRESSION_ERROR,
        ),
        (
            "a stream that goes back",
            [frame::headers(5, &request, true), frame::headers(3, &request, true)].concat(),
            code::PROTOCOL_ERROR,
        ),
    ];
    for (what, bytes, expected) in cases {
        let mut connection = Connection::new(server.address);
        connection.sync();
        // A PING that is answered would show that the server has gone on.
        connection.open();
        connection.open();
        connection.open();
        connection.send([bytes, frame::ping(77)].concat());
        assert_eq!(connection.end(), Some(expected), "{what}");
        assert_eq!(server.connect().get("/a.txt").status, 200, "{what}");
    }
    server.stop();
}
