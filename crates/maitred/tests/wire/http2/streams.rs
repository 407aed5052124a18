//! Many streams on one connection, and their windows (9113-5).

use crate::support::h2::frame::{self, code, flag, kind, setting};
use crate::support::h2::hpack::{self, Literal};
use crate::support::h2::{Connection, Lost};
use crate::support::{Server, Setup};

fn start() -> Server {
    let large: Vec<u8> = (0..1_000_000_usize).map(|at| (at ^ at >> 8) as u8).collect();
    Setup::with_files().file("large.bin", &large).file("other.bin", &vec![b'o'; 300_000]).start()
}

/// What the server's SETTINGS allow at a time.
fn streams_max(connection: &mut Connection) -> u32 {
    connection.sync();
    connection.settings[&setting::MAX_CONCURRENT_STREAMS]
}

#[test]
fn a_hundred_requests_in_one_piece_are_all_answered() {
    let server = start();
    let mut connection = Connection::new(server.address);
    for _ in 0..3 {
        let mut bytes = Vec::new();
        let ids: Vec<u32> = (0..100)
            .map(|number| {
                let id = connection.open();
                let path = ["/a.txt", "/b.txt", "/none", "/other.bin"][number % 4];
                bytes.extend(connection.request_bytes(id, "GET", path, &[], true));
                id
            })
            .collect();
        connection.send(bytes);
        for (number, id) in ids.into_iter().enumerate() {
            let response = connection.response(id);
            match number % 4 {
                0 => assert_eq!(response.text(), "file a\n"),
                1 => assert_eq!(response.text(), "file b\n"),
                2 => assert_eq!(response.status, 404),
                _ => assert_eq!(response.body.len(), 300_000),
            }
        }
    }
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 300);
}

#[test]
fn more_streams_than_allowed_are_refused_and_the_others_are_answered() {
    let server = start();
    // With a window of nothing, no response with content ends, so that all streams stay open.
    let mut connection = Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    let most = streams_max(&mut connection);
    assert!((100..=1000).contains(&most), "RFC 9113 recommends at least 100: {most}");
    let ids: Vec<u32> = (0..most + 10).map(|_| connection.request("GET", "/other.bin", &[], true)).collect();
    let (allowed, refused) = ids.split_at(most as usize);
    for id in refused {
        assert_eq!(connection.try_response(*id), Err(Lost::Reset(code::REFUSED_STREAM)));
    }
    for id in allowed {
        assert_eq!(connection.head(*id).status, 200);
        connection.open_window(*id, 1 << 20);
        assert_eq!(connection.response(*id).body.len(), 300_000);
    }
    assert_eq!(connection.method("HEAD", "/a.txt", &[]).status, 200, "there is room again");
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), most as usize + 1, "what is refused is no request");
}

#[test]
fn a_stream_that_is_not_read_holds_no_other_up() {
    let server = start();
    let mut connection = Connection::new(server.address);
    connection.open_window(0, 1 << 30);
    connection.reads = false;
    let stalled: Vec<u32> = (0..10).map(|_| connection.request("GET", "/large.bin", &[], true)).collect();
    for id in &stalled {
        connection.content(*id, 65_535);
    }
    for _ in 0..20 {
        assert_eq!(connection.get("/a.txt").text(), "file a\n");
        let id = connection.request("GET", "/other.bin", &[], true);
        connection.open_window(id, 1 << 20);
        assert_eq!(connection.response(id).body.len(), 300_000);
    }
    let expected = server.connect().get("/large.bin").body;
    for id in stalled {
        assert_eq!(connection.stream(id).body.len(), 65_535, "no more than the window");
        connection.open_window(id, 1 << 30);
        assert!(connection.response(id).body == expected);
    }
    server.stop();
}

#[test]
fn the_window_of_the_connection_bounds_all_streams_together() {
    let server = start();
    let mut connection = Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 1 << 30)]);
    connection.reads = false;
    let ids: Vec<u32> = (0..3).map(|_| connection.request("GET", "/other.bin", &[], true)).collect();
    while connection.window() > 0 {
        connection.step().unwrap();
    }
    connection.sync();
    // What has no content needs no window.
    assert_eq!(connection.method("HEAD", "/a.txt", &[]).status, 200);
    let none = connection.request("GET", "/none", &[("if-none-match", "*")], true);
    assert_eq!(connection.head(none).status, 404);
    connection.open_window(0, 1 << 20);
    for id in ids {
        assert_eq!(connection.response(id).body, vec![b'o'; 300_000]);
    }
    connection.response(none);
    server.stop();
}

#[test]
fn a_window_may_be_a_single_byte() {
    let server = start();
    let mut connection = Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 1)]);
    let response = connection.get("/a.txt");
    assert_eq!(response.text(), "file a\n");
    let id = connection.request("GET", "/b.txt", &[], true);
    for bytes in 1..=7 {
        connection.content(id, bytes);
    }
    assert_eq!(connection.stream(id).frames, 7);
    assert_eq!(connection.response(id).text(), "file b\n");
    server.stop();
}

/// A smaller SETTINGS_INITIAL_WINDOW_SIZE takes away what streams have: their windows are negative then (9113-6.9.2).
#[test]
fn a_window_that_shrank_below_nothing_waits_until_it_has_grown() {
    let server = start();
    let mut connection = Connection::new(server.address);
    connection.reads = false;
    connection.open_window(0, 1 << 30);
    let id = connection.request("GET", "/large.bin", &[], true);
    connection.content(id, 65_535);
    let acks = connection.settings_acks;
    connection.send(frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 0)]));
    while connection.settings_acks == acks {
        connection.step().unwrap();
    }
    connection.stream(id).window -= 65_535;
    connection.open_window(id, 65_535);
    connection.sync();
    assert_eq!(connection.stream(id).body.len(), 65_535, "its window is 0 now");
    connection.open_window(id, 1000);
    connection.content(id, 66_535);
    connection.sync();
    assert_eq!(connection.stream(id).body.len(), 66_535);
    connection.open_window(id, 1 << 20);
    assert_eq!(connection.response(id).body.len(), 1_000_000);
    server.stop();
}

#[test]
fn larger_settings_open_streams_that_wait() {
    let server = start();
    let mut connection = Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    connection.open_window(0, 1 << 20);
    connection.reads = false;
    let id = connection.request("GET", "/other.bin", &[], true);
    connection.head(id);
    connection.sync();
    assert_eq!(connection.stream(id).body.len(), 0);
    connection.stream(id).window += 400_000;
    connection.send(frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 400_000)]));
    assert_eq!(connection.response(id).body.len(), 300_000);
    server.stop();
}

#[test]
fn a_stream_that_is_cancelled_ends_and_the_next_is_answered() {
    let server = start();
    let mut connection = Connection::new(server.address);
    for _ in 0..20 {
        let id = connection.request("GET", "/large.bin", &[], true);
        connection.content(id, 1);
        connection.cancel(id);
        assert_eq!(connection.get("/a.txt").text(), "file a\n");
    }
    // The windows of what was cancelled are whole again: there is room for everything.
    assert_eq!(connection.get("/large.bin").body.len(), 1_000_000);
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 41, "what was cancelled was answered in part, and is logged");
}

#[test]
fn heads_may_come_in_pieces_padded_and_with_a_priority() {
    let server = start();
    let mut connection = Connection::new(server.address);
    let block = hpack::block(&[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/a.txt"),
        (":authority", "localhost"),
        ("x-test", "value"),
    ]);
    // HEADERS without a byte, ten pieces of a byte each, and the rest.
    let id = connection.open();
    connection.send(frame::frame(kind::HEADERS, flag::END_STREAM, id, &[]));
    for byte in &block[..10] {
        connection.send(frame::frame(kind::CONTINUATION, 0, id, &[*byte]));
    }
    connection.send(frame::frame(kind::CONTINUATION, flag::END_HEADERS, id, &block[10..]));
    assert_eq!(connection.response(id).text(), "file a\n");

    let id = connection.open();
    let flags = flag::END_STREAM | flag::END_HEADERS | flag::PADDED | flag::PRIORITY;
    let payload = [&[7][..], &0x8000_0000u32.to_be_bytes(), &[200], &block, &[0; 7]].concat();
    connection.send(frame::frame(kind::HEADERS, flags, id, &payload));
    assert_eq!(connection.response(id).text(), "file a\n");

    // One byte at a time, as a slow network brings it.
    let id = connection.open();
    for byte in frame::headers(id, &block, true) {
        connection.send([byte]);
    }
    assert_eq!(connection.response(id).text(), "file a\n");
    server.stop();
}

#[test]
fn a_preface_may_come_byte_by_byte() {
    let server = start();
    let mut connection = Connection::silent(server.address);
    for byte in [frame::PREFACE, &frame::settings(&[])].concat() {
        connection.send([byte]);
    }
    assert_eq!(connection.get("/a.txt").text(), "file a\n");
    let mut connection = Connection::silent(server.address);
    let id = connection.open();
    let request = connection.request_bytes(id, "GET", "/a.txt", &[], true);
    connection.send([frame::PREFACE, &frame::settings(&[]), &request].concat());
    assert_eq!(connection.response(id).text(), "file a\n", "all of it in one piece");
    server.stop();
}

#[test]
fn what_nobody_knows_is_ignored() {
    let server = start();
    let mut connection = Connection::with(server.address, &[(0x7777, 12), (setting::ENABLE_PUSH, 0)]);
    connection.send(frame::frame(0x77, 0xff, 0, b"an extension"));
    connection.send(frame::frame(0x78, 0xff, 1, b"on a stream that is idle"));
    connection.send(frame::frame(kind::PING, 0x3e, 0, &[0; 8]));
    assert_eq!(connection.get("/a.txt").text(), "file a\n");
    assert_eq!(connection.goaway, None);
    server.stop();
}

/// The dynamic table of the request's fields: entries are added, named, and evicted.
#[test]
fn requests_may_use_a_dynamic_table() {
    let server = start();
    let mut connection = Connection::new(server.address);
    let mut block = Vec::new();
    for (name, value) in
        [(":method", "GET"), (":scheme", "http"), (":path", "/a.txt"), (":authority", "localhost")]
    {
        hpack::literal(Literal::Indexed, name.as_bytes(), value.as_bytes(), &mut block);
    }
    let id = connection.open();
    connection.send(frame::headers(id, &block, true));
    assert_eq!(connection.response(id).text(), "file a\n");
    // Entry 62 is the last one that was added.
    let again: Vec<u8> = [65, 64, 63, 62].into_iter().flat_map(one).collect();
    for _ in 0..3 {
        let id = connection.open();
        connection.send(frame::headers(id, &again, true));
        assert_eq!(connection.response(id).text(), "file a\n");
    }
    // A table of nothing, and then one of 4096 again: what was in it is gone.
    let mut block = vec![0x20];
    hpack::integer(0x20, 5, 4096, &mut block);
    let id = connection.open();
    connection.send(frame::headers(id, &[block, again].concat(), true));
    assert_eq!(connection.end(), Some(code::COMPRESSION_ERROR));
    server.stop();
}

fn one(index: usize) -> Vec<u8> {
    let mut out = Vec::new();
    hpack::indexed(index, &mut out);
    out
}

#[test]
fn responses_obey_the_clients_table() {
    let server = start();
    for bytes in [0, 100, 4096, 65_536] {
        let mut connection = Connection::with(server.address, &[(setting::HEADER_TABLE_SIZE, bytes)]);
        connection.sync();
        for _ in 0..20 {
            assert_eq!(connection.get("/a.txt").need("content-type"), "text/plain; charset=utf-8");
            assert_eq!(connection.get("/none").status, 404);
        }
    }
    server.stop();
}

#[test]
fn a_client_that_says_nothing_is_sent_nothing() {
    let server = start();
    let mut connection = Connection::new(server.address);
    connection.sync();
    assert!(connection.is_silent());
    server.stop();
}
