//! Bodies of requests, and windows that the server opens.

use crate::support::h2::frame::{self, code, setting};
use crate::support::h2::{Connection, Lost};
use crate::support::{Server, Setup, eventually};

fn start(lines: &str) -> Server {
    let mut setup =
        Setup::with_files().pool("app", None, "workers = 1\nqueue = { max = 1024, timeout = \"60s\" }");
    for line in lines.lines() {
        setup = setup.limit(line);
    }
    let server = setup.start();
    server.wait_for_processes();
    server
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

/// Inline, in a memory file, in a file; with a length and without.
#[test]
fn bodies_of_all_sizes_reach_the_application() {
    let server = start("body_bytes_max = \"20MiB\"");
    let mut connection = Connection::new(server.address);
    for bytes in [0, 1, 1000, 65_536, 65_537, 300_000, 1_048_577, 3_000_000] {
        let body = pattern(bytes);
        let response = connection.post("/app/echo", &body);
        assert!(response.status == 200 && response.body == body, "{bytes}: {}", response.status);
        let id = connection.request("POST", "/app/echo", &[], false);
        connection.upload(id, &body, true);
        assert!(connection.response(id).body == body, "{bytes} bytes without a length");
    }
    let id = connection.request("POST", "/app/length", &[], false);
    connection.upload(id, &pattern(15_000_000), true);
    assert_eq!(connection.response(id).text(), "15000000");
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 17);
}

#[test]
fn an_end_may_come_in_an_empty_frame_or_with_trailers() {
    let server = start("");
    let mut connection = Connection::new(server.address);
    let id = connection.request("POST", "/app/echo", &[], false);
    connection.upload(id, b"hello", false);
    connection.send(frame::data(id, b"", true));
    assert_eq!(connection.response(id).text(), "hello");
    for fields in [&[][..], &[("content-length", "5")]] {
        let id = connection.request("POST", "/app/echo", fields, false);
        connection.upload(id, b"hello", false);
        let trailers = crate::support::h2::hpack::block(&[("x-checksum", "abc")]);
        connection.send(frame::headers(id, &trailers, true));
        assert_eq!(connection.response(id).text(), "hello");
    }
    // Padding counts against the windows, and is no body.
    let id = connection.request("POST", "/app/echo", &[], false);
    let padded = [&[200][..], b"hello", &[0; 200]].concat();
    for _ in 0..10 {
        connection.send(frame::frame(frame::kind::DATA, frame::flag::PADDED, id, &padded));
    }
    connection.send(frame::data(id, b"", true));
    assert_eq!(connection.response(id).text(), "hello".repeat(10));
    server.stop();
}

/// How a body is framed is no question of how a head ends.
#[test]
fn a_field_that_looks_like_framing_is_none() {
    let server = start("");
    let mut connection = Connection::new(server.address);
    for fields in [
        &[("x-transfer-encoding", "chunked")][..],
        &[("content-length", "5"), ("x-transfer-encoding", "chunked")],
    ] {
        let id = connection.request("POST", "/app/echo", fields, false);
        connection.upload(id, b"he", false);
        connection.upload(id, b"llo", true);
        let response = connection.response(id);
        assert_eq!((response.status, response.text()), (200, "hello"), "{fields:?}");
    }
    server.stop();
}

#[test]
fn bodies_of_many_streams_may_be_mixed() {
    let server = start("");
    let mut connection = Connection::new(server.address);
    let ids: Vec<u32> = (0..50).map(|_| connection.request("POST", "/app/echo", &[], false)).collect();
    for piece in 0..5 {
        for id in &ids {
            connection.upload(*id, format!("{id}:{piece};").repeat(40).as_bytes(), piece == 4);
        }
    }
    for id in ids {
        let expected: String = (0..5).map(|piece| format!("{id}:{piece};").repeat(40)).collect();
        assert_eq!(connection.response(id).text(), expected);
    }
    server.stop();
}

#[test]
fn a_client_that_waits_gets_100() {
    let server = start("");
    let mut connection = Connection::new(server.address);
    for fields in [&[("expect", "100-continue"), ("content-length", "5")][..], &[("expect", "100-continue")]]
    {
        let id = connection.request("POST", "/app/echo", fields, false);
        while connection.stream(id).interim().is_empty() {
            connection.step().unwrap();
        }
        assert_eq!(connection.stream(id).interim(), [100]);
        connection.upload(id, b"hello", true);
        assert_eq!(connection.response(id).text(), "hello");
    }
    // A client that does not wait may get one all the same.
    let id = connection.open();
    let head = connection.request_bytes(id, "POST", "/app/echo", &[("expect", "100-continue")], false);
    connection.send([head, frame::data(id, b"hello", true)].concat());
    assert_eq!(connection.response(id).text(), "hello");
    // Where no body is wanted, the final status comes at once.
    let id = connection.request("POST", "/a.txt", &[("expect", "100-continue")], false);
    let response = connection.response(id);
    assert_eq!((response.status, response.interim.len()), (405, 0));
    assert_eq!(connection.get("/a.txt").text(), "file a\n");
    server.stop();
}

/// 9113-8.1.1: a length that is not what comes is an error of the stream; no application sees the request.
#[test]
fn a_length_that_is_wrong_resets_the_stream() {
    let server = start("");
    let mut connection = Connection::new(server.address);
    let before = server.total("handoffs");
    for (length, sent) in [("10", &b"hello"[..]), ("3", b"hello")] {
        let id = connection.request("POST", "/app/echo", &[("content-length", length)], false);
        connection.send(frame::data(id, sent, true));
        assert_eq!(connection.try_response(id), Err(Lost::Reset(code::PROTOCOL_ERROR)), "{length}");
    }
    let id = connection.request("POST", "/app/echo", &[("content-length", "5")], true);
    assert_eq!(connection.try_response(id), Err(Lost::Reset(code::PROTOCOL_ERROR)));
    assert_eq!(server.total("handoffs"), before);
    assert_eq!(connection.get("/app/hello?x").text(), "hello x\n");
    server.stop();
}

#[test]
fn a_body_that_is_too_long_gets_413() {
    let server = start("body_bytes_max = \"100KiB\"");
    let mut connection = Connection::new(server.address);
    let id = connection.request("POST", "/app/length", &[("content-length", "102401")], false);
    assert_eq!(connection.response(id).status, 413, "before a byte of it came");
    let id = connection.request("POST", "/app/length", &[], false);
    connection.upload(id, &pattern(150_000), false);
    assert_eq!(connection.response(id).status, 413, "as soon as it is too long");
    assert_eq!(connection.post("/app/length", &pattern(102_400)).text(), "102400");
    server.stop();
}

/// 9113-8.1: a complete response may come before the end of the request, which is then reset with NO_ERROR. The windows that
/// the unread body took come back.
#[test]
fn bodies_that_nobody_reads_do_not_use_up_the_connection() {
    let server = start("");
    let mut connection = Connection::new(server.address);
    for number in 0..20 {
        let expects = [("expect", "100-continue")];
        let fields: &[(&str, &str)] = if number % 2 == 0 { &[] } else { &expects };
        let id = connection.request("POST", "/a.txt", fields, false);
        connection.upload(id, &pattern(60_000), number % 2 == 0);
        let response = connection.response(id);
        assert_eq!(response.status, 405);
        assert!(matches!(response.reset, None | Some(code::NO_ERROR)), "{response:?}");
    }
    let body = pattern(500_000);
    assert!(connection.post("/app/echo", &body).body == body);
    server.stop();
}

#[test]
fn a_slow_body_loses_its_stream_and_no_other() {
    let server = start("body_timeout = \"200ms\"");
    let mut connection = Connection::new(server.address);
    let id = connection.request("POST", "/app/echo", &[("content-length", "10")], false);
    connection.upload(id, b"half", false);
    match connection.try_response(id) {
        Ok(response) => assert_eq!(response.status, 408),
        Err(lost) => assert!(matches!(lost, Lost::Reset(_)), "{lost:?}"),
    }
    assert_eq!(connection.get("/app/hello?x").text(), "hello x\n");
    server.stop();
}

/// Bodies that no process takes yet: what the server keeps is bounded by the windows and by `body_bytes_max`.
#[test]
fn a_client_that_sends_more_than_a_window_is_an_error() {
    let server = start("");
    let mut connection = Connection::new(server.address);
    connection.sync();
    let window = connection.settings.get(&setting::INITIAL_WINDOW_SIZE).copied().unwrap_or(65_535) as usize;
    let id = connection.request("POST", "/app/echo", &[("content-length", "1000000000")], false);
    let frames = window / 16_384 + 200;
    for _ in 0..frames {
        if connection.try_send(frame::data(id, &[0; 16_384], false)).is_err() {
            break;
        }
    }
    match connection.try_response(id) {
        Ok(response) => assert_eq!(response.status, 413),
        Err(Lost::Reset(found)) => assert_eq!(found, code::FLOW_CONTROL_ERROR),
        Err(Lost::Ended) => {
            assert_eq!(connection.goaway.map(|(_, code)| code), Some(code::FLOW_CONTROL_ERROR))
        }
    }
    assert_eq!(server.connect().get("/a.txt").status, 200);
    server.stop();
}

#[test]
fn a_client_that_goes_away_in_a_body_leaves_nothing() {
    let server = start("");
    for number in 0..50 {
        let mut connection = Connection::new(server.address);
        let id = connection.request("POST", "/app/echo", &[], false);
        connection.upload(id, &pattern(number * 2000), false);
        if number % 2 == 0 {
            connection.cancel(id);
            connection.sync();
        }
    }
    eventually("all is closed", || server.total("connections") == 1);
    assert_eq!(Connection::new(server.address).get("/app/hello?x").text(), "hello x\n");
    server.stop();
}

/// A file has no use for a body. The answer comes when the body is there, so that the stream need not be reset; a client that
/// sends `Expect` gets it at once.
#[test]
fn a_body_that_nobody_wants_is_dropped() {
    let server = start("");
    let mut connection = Connection::new(server.address);
    for fields in [&[][..], &[("content-length", "8")]] {
        let id = connection.request("POST", "/a.txt", fields, false);
        connection.upload(id, b"half", false);
        connection.upload(id, b"more", true);
        assert_eq!(connection.response(id).status, 405, "{fields:?}");
        assert_eq!(connection.get("/a.txt").text(), "file a\n");
    }
    let asks = [("content-length", "1000000"), ("expect", "100-continue")];
    let id = connection.request("POST", "/a.txt", &asks, false);
    assert_eq!(connection.response(id).status, 405);
    server.stop();
}

/// A body that finds no room costs its stream, not the connection.
#[test]
fn a_body_without_room_is_refused() {
    let server = start(
        "body_inline_bytes_max = \"1KiB\"\nbody_memory_bytes_max = \"1KiB\"\nbody_bytes_max = \"100KiB\"\n\
         bodies_disk_bytes_max = \"100KiB\"",
    );
    let mut connection = Connection::new(server.address);
    let first = connection.request("POST", "/app/length", &[("content-length", "90000")], false);
    connection.upload(first, &pattern(60_000), false);
    let disk = || server.status()["bodies"]["disk"]["bytes"].as_u64().unwrap();
    eventually("the first is on the disk", || disk() == 60_000);
    let second = connection.request("POST", "/app/length", &[("content-length", "50000")], false);
    connection.upload(second, &pattern(2_000), false);
    let response = connection.response(second);
    assert_eq!((response.status, response.field("retry-after")), (503, Some("10")));
    connection.upload(first, &pattern(30_000), true);
    assert_eq!(connection.response(first).text(), "90000");
    eventually("the first is given back", || disk() == 0);
    assert_eq!(connection.post("/app/length", &pattern(100_000)).text(), "100000");
    assert_eq!(server.total("bodies_refused"), 1);
    server.stop();
}
