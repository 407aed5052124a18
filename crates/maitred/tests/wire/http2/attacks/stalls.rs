//! Clients that ask for much and take nothing.

use std::io::Write as _;

use super::{Bounds, Stage};
use crate::http2::secure::Door;
use crate::support::h2::frame::{self, code, setting};
use crate::support::h2::{Connection, Lost, QUIET};
use crate::support::{Gate, eventually};

/// Windows of nothing: a hundred streams of 50 MB on each of twenty connections. What is kept for each must not be its content.
#[test]
fn windows_that_never_open() {
    let bounds = Bounds { memory_bytes_max: 48 << 20, ..Bounds::default() };
    Stage::new(Stage::site()).play(bounds, |server| {
        let mut connections: Vec<_> =
            (0..20).map(|_| Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 0)])).collect();
        for connection in &mut connections {
            let ids: Vec<u32> =
                (0..100).map(|_| connection.request("GET", "/zeros.bin", &[], true)).collect();
            for id in ids {
                assert_eq!(connection.head(id).status, 200);
            }
        }
        // And they still are there.
        connections.iter_mut().for_each(Connection::sync);
    });
}

/// Opens the window of the connection and asks for a hundred large files, in one piece: what follows later might come when the
/// server has had enough.
fn ask_for_everything(connection: &mut Connection) {
    connection.open_window(0, 1 << 30);
    let mut bytes = Vec::new();
    for _ in 0..100 {
        let id = connection.open();
        bytes.extend(connection.request_bytes(id, "GET", "/zeros.bin", &[], true));
    }
    connection.send(bytes);
}

/// The windows are open, and the socket is not read: what is sent ahead is bounded by connection, not by stream.
#[test]
fn sockets_that_nobody_reads() {
    let setup = Stage::site().limit("write_timeout = \"1s\"");
    Stage::new(setup).play(Bounds { memory_bytes_max: 48 << 20, ..Bounds::default() }, |server| {
        let mut connections: Vec<_> = (0..20)
            .map(|_| {
                let mut connection =
                    Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, (1 << 31) - 1)]);
                ask_for_everything(&mut connection);
                connection
            })
            .collect();
        eventually("they are dropped", || server.total("timeouts") >= 20);
        connections.clear();
    });
}

/// The same over TLS: what is encrypted and not taken is bounded, too.
#[test]
fn sockets_that_nobody_reads_over_tls() {
    let (setup, roots) = Door::prepare(Stage::site().limit("write_timeout = \"1s\""), "");
    let bounds = Bounds { memory_bytes_max: 48 << 20, ..Bounds::default() };
    Stage::new(setup).play(bounds, |server| {
        let door = Door::of(server, roots);
        let mut connections: Vec<_> = (0..20)
            .map(|_| {
                let mut connection = door.connect_with(&[(setting::INITIAL_WINDOW_SIZE, (1 << 31) - 1)]);
                ask_for_everything(&mut connection);
                connection
            })
            .collect();
        eventually("they are dropped", || server.total("timeouts") >= 20);
        connections.clear();
    });
}

/// HTTP/1.1 over TLS: request behind request, and not one response is read. What waits is in the kernel's buffers.
#[test]
fn pipelines_that_nobody_reads_over_tls() {
    let (setup, roots) = Door::prepare(Stage::site(), "");
    let bounds = Bounds { memory_bytes_max: 32 << 20, ..Bounds::default() };
    Stage::new(setup).play(bounds, |server| {
        let door = Door::of(server, roots);
        let request = format!("GET /zeros.bin?{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(4000));
        let burst = request.repeat(16).into_bytes();
        let mut streams: Vec<_> = (0..4).map(|_| door.offer(&["http/1.1"]).unwrap()).collect();
        for stream in &mut streams {
            stream.sock.set_write_timeout(Some(QUIET)).unwrap();
            // Up to 100 MB, if they were taken.
            let taken = (0..1500).take_while(|_| stream.write_all(&burst).is_ok()).count();
            assert!(taken < 1500, "all requests were taken, and no response");
        }
    });
}

/// A byte of window now and then, for ever (CVE-2019-9511): each byte would be a frame.
#[test]
fn windows_that_drip() {
    Stage::new(Stage::site()).play(Bounds::default(), |server| {
        let mut connection = Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 0)]);
        connection.reads = false;
        let ids: Vec<u32> = (0..50).map(|_| connection.request("GET", "/zeros.bin", &[], true)).collect();
        for _ in 0..200 {
            let bytes: Vec<u8> = ids.iter().flat_map(|id| frame::window_update(*id, 1)).collect();
            ids.iter().for_each(|id| connection.stream(*id).window += 1);
            if connection.try_send(bytes).is_err() || connection.try_sync().is_err() {
                // To have had enough of it is right, too.
                return;
            }
        }
        let sent: usize = ids.iter().map(|id| connection.stream(*id).body.len()).sum();
        assert!(sent <= 50 * 200, "no more than the windows: {sent}");
    });
}

/// Stalled streams have a deadline, however active their connection is.
#[test]
fn a_connection_that_pings_does_not_keep_stalled_streams_for_ever() {
    let setup = Stage::site().limit("write_timeout = \"500ms\"");
    Stage::new(setup).play(Bounds::default(), |server| {
        let mut connection = Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 0)]);
        let id = connection.request("GET", "/zeros.bin", &[], true);
        connection.head(id);
        loop {
            if connection.stream(id).reset.is_some() || connection.goaway.is_some() {
                break;
            }
            let other = connection.request("GET", "/none", &[], true);
            match connection.try_response(other) {
                Ok(_) | Err(Lost::Reset(_)) => {}
                Err(Lost::Ended) => break,
            }
            // The body of that one needs a window, too.
            connection.open_window(other, 1 << 16);
        }
    });
}

/// Bodies that have begun and do not go on: their windows bound what is kept, `body_timeout` how long.
#[test]
fn bodies_that_stop() {
    let setup = Stage::site().limit("body_timeout = \"500ms\"").pool(
        "app",
        None,
        "workers = 1\nqueue = { timeout = \"60s\" }",
    );
    Stage::new(setup).play(Bounds { memory_bytes_max: 64 << 20, ..Bounds::default() }, |server| {
        for _ in 0..5 {
            let mut connection = Connection::new(server.address);
            let ids: Vec<u32> = (0..100)
                .map(|_| connection.request("POST", "/app/length", &[("content-length", "100000")], false))
                .collect();
            for id in &ids {
                connection.upload(*id, &[b'x'; 5_000], false);
            }
            for id in ids {
                match connection.try_response(id) {
                    Ok(response) => assert_eq!(response.status, 408),
                    Err(Lost::Reset(_)) => {}
                    Err(Lost::Ended) => break,
                }
            }
        }
    });
}

/// Half a header block, and half a frame, end after `head_timeout` however many streams are open and however much moves on
/// them; until then they cost their bytes.
#[test]
fn halves_that_are_never_made_whole() {
    let gate = Gate::new();
    let setup = Stage::site().limit("head_timeout = \"2s\"").pool(
        "app",
        Some(&gate),
        "workers = 1\nqueue = { timeout = \"60s\" }",
    );
    Stage::new(setup).play(Bounds::default(), |server| {
        server.wait_for_processes();
        let begun = frame::frame(1, 1, 3, &[0x82]);
        let halves = [
            begun.clone(),
            [begun, frame::frame(9, 0, 3, &[0x87])].concat(),
            frame::ping(1)[..12].to_vec(),
            frame::frame(1, 1, 3, &[0x82; 200])[..100].to_vec(),
        ];
        for half in halves {
            let mut connection = Connection::new(server.address);
            connection.sync();
            let waits = connection.request("GET", "/app/wait", &[], true);
            let waiting = gate.arrival();
            connection.send(half);
            assert_eq!(connection.end(), Some(code::ENHANCE_YOUR_CALM));
            assert_eq!(connection.goaway.map(|(last, _)| last), Some(waits));
            waiting.release();
        }
    });
}

/// A block that comes slowly, but is whole in time, and frames that are cut anywhere, are no error.
#[test]
fn halves_that_are_made_whole() {
    let gate = Gate::new();
    let server = Stage::site()
        .limit("head_timeout = \"60s\"")
        .pool("app", Some(&gate), "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    server.wait_for_processes();
    let mut connection = Connection::new(server.address);
    let waits = connection.request("GET", "/app/wait", &[], true);
    let waiting = gate.arrival();
    let id = connection.open();
    let bytes = connection.request_bytes(id, "GET", "/a.txt", &[], true);
    for piece in bytes.chunks(7) {
        connection.send(piece);
    }
    assert_eq!(connection.response(id).text(), "file a\n");
    waiting.release();
    assert_eq!(connection.response(waits).text(), "waited\n");
    server.stop();
}
