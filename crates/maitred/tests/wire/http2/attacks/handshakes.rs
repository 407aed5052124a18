//! Connections that do not begin as HTTP/2 does, or that stop in the middle of something.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{Bounds, Stage};
use crate::support::h2::Connection;
use crate::support::h2::frame::{self, PREFACE, code, kind};
use crate::support::{Server, TIMEOUT};

/// Sends something, and reads whatever comes until the server closes.
fn answer(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut connection = Connection::silent(server.address);
    // The connection may be closed before all of it is taken.
    let _ = connection.try_send(bytes);
    let mut received = Vec::new();
    // A reset is an end, too.
    let _ = connection.socket().read_to_end(&mut received);
    received
}

#[test]
fn garbage_after_the_preface() {
    Stage::new(Stage::site()).play(Bounds::default(), |server| {
        let noise: Vec<u8> =
            (0..100_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for bytes in [
            &b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"[..],
            b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n",
            &noise,
            &[0; 100_000],
            PREFACE,
        ] {
            let mut connection = Connection::silent(server.address);
            let _ = connection.try_send([PREFACE, bytes].concat());
            connection.end();
            let right = [code::PROTOCOL_ERROR, code::FRAME_SIZE_ERROR];
            let found = connection.goaway.map(|(_, code)| code);
            assert!(found.is_none_or(|found| right.contains(&found)), "{found:?}");
        }
    });
}

/// 9113-3.4: SETTINGS come first.
#[test]
fn a_connection_without_settings() {
    Stage::new(Stage::site()).play(Bounds::default(), |server| {
        for bytes in [frame::ping(1), frame::window_update(0, 1), frame::frame(kind::SETTINGS, 1, 0, &[])] {
            let mut connection = Connection::silent(server.address);
            connection.send([PREFACE, &bytes].concat());
            assert_eq!(connection.end(), Some(code::PROTOCOL_ERROR));
        }
    });
}

/// What looks like the preface and is none is no request of HTTP/1.1 either.
#[test]
fn a_preface_that_is_almost_right() {
    Stage::new(Stage::site()).play(Bounds::default(), |server| {
        for bytes in [
            &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX"[..],
            b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
            b"PRI * HTTP/2.0\r\nHost: localhost\r\n\r\n",
            b"PRI / HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"PRI * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n",
            b"PRJ * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ] {
            let received = answer(server, bytes);
            let text = String::from_utf8_lossy(&received);
            assert!(!text.contains(" 200 "), "{:?}: {text}", String::from_utf8_lossy(bytes));
        }
    });
}

/// The way by `Upgrade: h2c` is gone (9113-3.1): the request is answered as it is.
#[test]
fn an_upgrade_to_h2c_is_not_taken() {
    Stage::new(Stage::site()).play(Bounds::default(), |server| {
        let fields = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n";
        let mut client = server.connect();
        let response = client.method("GET", "/a.txt", fields);
        assert_eq!((response.status, response.text()), (200, "file a\n"));
        assert_eq!(response.field("upgrade"), None);
        assert_eq!(client.get("/b.txt").text(), "file b\n", "HTTP/1.1 goes on");
    });
}

/// A connection has one version for life.
#[test]
fn the_preface_comes_first_or_never() {
    Stage::new(Stage::site()).play(Bounds::default(), |server| {
        let get = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let received = answer(server, &[get.as_bytes(), PREFACE, &frame::settings(&[])].concat());
        let text = String::from_utf8_lossy(&received);
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
        assert_eq!(text.matches(" 200 ").count(), 1, "{text}");
    });
}

/// Hundreds of connections that stop in the middle, all at once: they are closed in time, and others are served.
#[test]
fn connections_that_stop_in_the_middle() {
    // Others have as long for their first requests, also on a machine that is slow.
    let setup = Stage::site().limit("head_timeout = \"3s\"").listen("defer_accept = false");
    Stage::new(setup).play(Bounds::default(), |server| {
        let half_frame = [PREFACE, &frame::settings(&[]), &frame::ping(1)[..11]].concat();
        let half_head =
            [PREFACE, &frame::settings(&[]), &frame::frame(kind::HEADERS, 0, 1, &[0x82])].concat();
        let promised = [PREFACE, &frame::settings(&[]), &[0, 0x40, 0, 0, 0, 0, 0, 0, 1]].concat();
        let parts = [&PREFACE[..3], &PREFACE[..23], PREFACE, &half_frame, &half_head, &promised];
        // Not so many that a limit of 1024 descriptors would be in the way of the other tests.
        let sockets: Vec<_> = (0..400)
            .map(|number| {
                let mut socket = TcpStream::connect(server.address).unwrap();
                socket.set_read_timeout(Some(TIMEOUT)).unwrap();
                socket.write_all(parts[number % parts.len()]).unwrap();
                socket
            })
            .collect();
        for mut socket in sockets {
            if let Err(error) = socket.read_to_end(&mut Vec::new()) {
                assert!(crate::support::h2::is_end(&error), "{error}");
            }
        }
    });
}

/// One byte at a time of a head that never ends: the bound is on the whole of it.
#[test]
fn a_head_that_trickles() {
    Stage::new(Stage::site().limit("head_timeout = \"3s\"")).play(Bounds::default(), |server| {
        let mut connection = Connection::new(server.address);
        connection.sync();
        connection.open();
        connection.send(frame::frame(kind::HEADERS, 0, 1, &[0x82]));
        let mut others = server.connect();
        // As fast as the server turns, each round trip of the other connection lets a piece through.
        while connection.try_send(frame::frame(kind::CONTINUATION, 0, 1, &[])).is_ok() {
            assert_eq!(others.get("/a.txt").status, 200);
        }
        connection.end();
    });
}
