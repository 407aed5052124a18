//! Streams that are reset as soon as they are open, by the client or, as it wants, by the server.

use super::{Bounds, Stage};
use crate::support::Server;
use crate::support::h2::frame::{self, code, kind};
use crate::support::h2::{Connection, Lost, hpack};

/// So many streams are tried; the server has to have had enough long before.
const STREAMS: usize = 50_000;

/// Sends what `make` makes for a new stream, again and again, until the server ends the connection. How many it took.
fn flood(connection: &mut Connection, mut make: impl FnMut(&mut Connection, u32) -> Vec<u8>) -> usize {
    for number in 0..STREAMS / 50 {
        let mut bytes = Vec::new();
        for _ in 0..50 {
            let id = connection.open();
            connection.stream(id).cancelled = true;
            bytes.extend(make(connection, id));
        }
        if connection.try_send(bytes).is_err() || connection.try_sync().is_err() {
            return number * 50;
        }
    }
    STREAMS
}

#[track_caller]
fn is_calmed(connection: &mut Connection, streams: usize) {
    assert!(streams < STREAMS, "it let {streams} streams pass");
    connection.end();
    assert_eq!(connection.goaway.map(|(_, code)| code), Some(code::ENHANCE_YOUR_CALM));
}

/// CVE-2023-44487
#[test]
fn rapid_reset() {
    for path in ["/zeros.bin", "/a.txt", "/none"] {
        Stage::new(Stage::site()).play(Bounds::default(), |server| {
            for _ in 0..5 {
                let mut connection = Connection::new(server.address);
                let streams = flood(&mut connection, |connection, id| {
                    let head = connection.request_bytes(id, "GET", path, &[], true);
                    [head, frame::rst_stream(id, code::CANCEL)].concat()
                });
                is_calmed(&mut connection, streams);
            }
        });
    }
}

/// The same with bodies that have begun, and requests that wait in a pool.
#[test]
fn rapid_reset_of_an_application() {
    let lines = "workers = 1\nqueue = { max = 100, timeout = \"60s\" }";
    Stage::new(Stage::site().pool("app", None, lines)).play(Bounds::default(), |server| {
        let mut connection = Connection::new(server.address);
        let streams = flood(&mut connection, |connection, id| {
            let head = connection.request_bytes(id, "POST", "/app/echo", &[], false);
            [head, frame::data(id, b"half", false), frame::rst_stream(id, code::CANCEL)].concat()
        });
        is_calmed(&mut connection, streams);
        eventually_well(server);
    });
}

fn eventually_well(server: &Server) {
    assert_eq!(Connection::new(server.address).get("/app/hello?x").text(), "hello x\n");
}

/// CVE-2025-8671: the client does what makes the server reset the stream, so that no RST_STREAM of its own is counted.
#[test]
fn made_you_reset() {
    type Make = fn(&mut Connection, u32) -> Vec<u8>;
    let ways: [(&str, Make); 5] = [
        ("an update of 0", |connection, id| {
            let head = connection.request_bytes(id, "GET", "/zeros.bin", &[], true);
            [head, frame::window_update(id, 0)].concat()
        }),
        ("a window that overflows", |connection, id| {
            let head = connection.request_bytes(id, "GET", "/zeros.bin", &[], true);
            [head, frame::window_update(id, (1 << 31) - 1)].concat()
        }),
        ("DATA after the end", |connection, id| {
            let head = connection.request_bytes(id, "GET", "/zeros.bin", &[], true);
            [head, frame::data(id, b"x", false)].concat()
        }),
        ("a head that is malformed", |_, id| frame::headers(id, &hpack::block(&[(":method", "GET")]), true)),
        ("a length that is wrong", |connection, id| {
            connection.request_bytes(id, "POST", "/a.txt", &[("content-length", "5")], true)
        }),
    ];
    for (what, make) in ways {
        println!("{what}");
        Stage::new(Stage::site()).play(Bounds::default(), |server| {
            let mut connection = Connection::new(server.address);
            let streams = flood(&mut connection, make);
            assert!(streams < STREAMS, "{what}: it let {streams} streams pass");
            connection.end();
            // Some of these may be errors of the connection.
            let found = connection.goaway.map(|(_, code)| code);
            let right = [code::ENHANCE_YOUR_CALM, code::STREAM_CLOSED, code::PROTOCOL_ERROR];
            assert!(found.is_some_and(|found| right.contains(&found)), "{what}: {found:?}");
        });
    }
}

/// Streams beyond SETTINGS_MAX_CONCURRENT_STREAMS are refused, and that costs something, too.
#[test]
fn refused_streams() {
    Stage::new(Stage::site()).play(Bounds::default(), |server| {
        let mut connection = Connection::with(server.address, &[(frame::setting::INITIAL_WINDOW_SIZE, 0)]);
        let streams =
            flood(&mut connection, |connection, id| connection.request_bytes(id, "GET", "/a.txt", &[], true));
        is_calmed(&mut connection, streams);
    });
}

/// What a browser does when a page is left: it resets everything, once. The resets are no attack.
#[test]
fn a_page_that_is_left_is_no_attack() {
    Stage::new(Stage::site()).play(Bounds::default(), |server| {
        let mut connection = Connection::new(server.address);
        for _ in 0..3 {
            let ids: Vec<u32> = (0..60).map(|_| connection.request("GET", "/zeros.bin", &[], true)).collect();
            for id in &ids {
                assert_eq!(connection.head(*id).status, 200);
            }
            ids.into_iter().for_each(|id| connection.cancel(id));
            for _ in 0..60 {
                assert_eq!(connection.get("/a.txt").text(), "file a\n");
            }
        }
        assert_eq!(connection.goaway, None);
    });
}

/// A frame on a stream that has been closed for long is no error that ends the connection, and nothing to answer for ever.
#[test]
fn frames_of_streams_that_have_ended() {
    for name in ["RST_STREAM", "WINDOW_UPDATE", "PRIORITY"] {
        Stage::new(Stage::site()).play(Bounds::default(), |server| {
            let mut connection = Connection::new(server.address);
            let id = connection.request("GET", "/a.txt", &[], true);
            connection.response(id);
            let piece = match name {
                "RST_STREAM" => frame::rst_stream(id, code::CANCEL),
                "WINDOW_UPDATE" => frame::window_update(id, 1),
                _ => frame::frame(kind::PRIORITY, 0, id, &[0, 0, 0, 0, 16]),
            };
            for _ in 0..200 {
                if connection.try_send(piece.repeat(500)).is_err() || connection.try_sync().is_err() {
                    connection.end();
                    let found = connection.goaway.map(|(_, code)| code);
                    let right = [Some(code::ENHANCE_YOUR_CALM), Some(code::STREAM_CLOSED)];
                    assert!(right.contains(&found), "{name}: {found:?}");
                    return;
                }
            }
            let id = connection.request("GET", "/a.txt", &[], true);
            match connection.try_response(id) {
                Ok(response) => assert_eq!(response.text(), "file a\n"),
                Err(lost) => assert_eq!(lost, Lost::Ended),
            }
        });
    }
}
