//! Files as clients get them: validators, conditions, ranges, large ones (RFC 9110 sections 8, 13, 14).

use std::fs;
use std::io::Read;

use crate::support::{End, Response, Server, Setup, eventually};

/// Bytes in which every part is different.
fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect()
}

fn cached() -> Server {
    let site = "headers = { set = { \"Cache-Control\" = \"max-age=60\", \"Vary\" = \"Accept-Encoding\" } }";
    Setup::with_files().site(site).start()
}

/// 9110-5.2: what comes in two lines means what it would in one.
#[test]
fn a_list_may_go_on_in_another_line() {
    let server =
        Setup::with_files().site("precompressed = [\"gzip\"]").file("a.txt.gz", b"not really gzip").start();
    let mut client = server.connect();
    let etag = client.get("/a.txt").need("etag").to_owned();
    let mut ask = |lines: &str| client.method("GET", "/a.txt", lines);
    assert_eq!(ask(&format!("If-None-Match: \"x\"\r\nX: 1\r\nIf-None-Match: {etag}\r\n")).status, 304);
    assert_eq!(ask("If-None-Match: \"x\"\r\nIf-None-Match: *\r\n").status, 200, "no list has an asterisk");
    assert_eq!(ask(&format!("If-Match: \"x\"\r\nIf-Match: {etag}\r\n")).status, 200);
    assert_eq!(ask("If-Match: \"x\"\r\nIf-Match: \"y\"\r\n").status, 412);
    let coded = ask("Accept-Encoding: br\r\nAccept-Encoding: gzip\r\n");
    assert_eq!((coded.status, coded.field("content-encoding")), (200, Some("gzip")));
    let refused = ask("Accept-Encoding: gzip;q=0\r\nAccept-Encoding: *\r\n");
    assert_eq!(refused.field("content-encoding"), None);
    // What is no list cannot stand twice: it is invalid, and as if it were not there (9110-14.2).
    assert_eq!(ask("Range: bytes=0-1\r\nRange: bytes=2-3\r\n").status, 200);
    server.stop();
}

#[test]
fn files_state_their_length() {
    let server =
        Setup::with_files().file("empty", b"").file("one", b"1").file("large.bin", &pattern(200_000)).start();
    let mut client = server.connect();
    for (target, length) in [("/empty", "0"), ("/one", "1"), ("/a.txt", "7"), ("/large.bin", "200000")] {
        let response = client.get(target);
        assert_eq!(response.need("content-length"), length);
        assert_eq!(response.body.len().to_string(), length);
        assert_eq!(client.method("HEAD", target, "").need("content-length"), length);
    }
    server.stop();
}

#[test]
fn files_have_validators() {
    let server = Setup::with_files().start();
    let mut client = server.connect();
    let response = client.get("/a.txt");
    let etag = response.need("etag");
    assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 2, "a strong tag: {etag}");
    assert_eq!(response.need("last-modified").len(), 29);
    let again = client.get("/a.txt");
    assert_eq!(again.need("etag"), etag);
    assert_ne!(client.get("/b.txt").need("etag"), etag);
    server.stop();
}

#[test]
fn a_changed_file_has_another_etag() {
    let server = Setup::with_files().start();
    let mut client = server.connect();
    let before = client.get("/a.txt");
    // The same length, and very likely the same second.
    fs::write(server.path("root/a.txt"), "FILE A\n").unwrap();
    let mut after = before.clone();
    eventually("the change is served", || {
        after = client.get("/a.txt");
        assert!(after.text() == "FILE A\n" || after.need("etag") == before.need("etag"), "{after:?}");
        after.text() == "FILE A\n"
    });
    assert_ne!(after.need("etag"), before.need("etag"));
    let condition = format!("If-None-Match: {}\r\n", before.need("etag"));
    assert_eq!(client.method("GET", "/a.txt", &condition).status, 200);
    server.stop();
}

/// Fields that a response to a condition or a range has in common with the whole.
fn same(response: &Response, whole: &Response, names: &[&str]) {
    for name in names {
        assert_eq!(response.need(name), whole.need(name), "{name}");
    }
    assert!(response.field("date").is_some());
}

#[test]
fn a_304_has_the_fields_of_the_200() {
    let server = cached();
    let mut client = server.connect();
    let whole = client.get("/a.txt");
    let conditions = [
        format!("If-None-Match: {}\r\n", whole.need("etag")),
        format!("If-None-Match: \"other\", W/{}\r\n", whole.need("etag")),
        format!("If-Modified-Since: {}\r\n", whole.need("last-modified")),
    ];
    for condition in conditions {
        let response = client.method("GET", "/a.txt", &condition);
        assert_eq!(response.status, 304, "{condition}");
        same(&response, &whole, &["etag", "last-modified", "cache-control", "vary"]);
        assert_eq!((response.field("content-type"), response.field("content-range")), (None, None));
    }
    server.stop();
}

#[test]
fn a_304_has_no_body() {
    let server = cached();
    let mut client = server.connect();
    let request = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\n\r\n";
    client.send(request.repeat(3));
    for _ in 0..3 {
        let response = client.response("GET");
        assert_eq!(response.status, 304);
        assert!(response.field("content-length").is_none_or(|length| length == "7"));
    }
    assert!(client.is_quiet());
    server.stop();
}

#[test]
fn conditions_do_not_change_an_error() {
    let server = Setup::with_files()
        .route("/gone", "respond = { status = 410 }")
        .route("/to", "redirect = \"/\"")
        .start();
    let mut client = server.connect();
    for condition in ["If-None-Match: *", "If-Match: *", "If-Modified-Since: Sun, 06 Nov 2044 08:49:37 GMT"] {
        let fields = format!("{condition}\r\n");
        assert_eq!(client.method("GET", "/not-there", &fields).status, 404, "{condition}");
        assert_eq!(client.method("GET", "/gone", &fields).status, 410, "{condition}");
        assert_eq!(client.method("GET", "/to", &fields).status, 302, "{condition}");
        assert_eq!(client.method("POST", "/a.txt", &fields).status, 405, "{condition}");
        assert_eq!(client.method("GET", "/dir", &fields).status, 301, "{condition}");
    }
    server.stop();
}

#[test]
fn a_range_gets_206() {
    let bytes = pattern(200_000);
    let server = Setup::with_files().file("large.bin", &bytes).start();
    let mut client = server.connect();
    let end = bytes.len() - 1;
    for (range, from, to) in [
        ("0-0", 0, 0),
        ("0-99", 0, 99),
        ("100-", 100, end),
        ("-1", end, end),
        ("65000-66000", 65_000, 66_000),
        ("199999-300000", end, end),
        ("-300000", 0, end),
    ] {
        let response = client.method("GET", "/large.bin", &format!("Range: bytes={range}\r\n"));
        assert_eq!(response.status, 206, "{range}");
        assert_eq!(response.need("content-range"), format!("bytes {from}-{to}/200000"));
        assert_eq!(response.body, &bytes[from..=to], "{range}");
    }
    assert_eq!(client.method("GET", "/large.bin", "Range: bytes=200000-\r\n").status, 416);
    assert_eq!(client.method("HEAD", "/large.bin", "Range: bytes=0-1\r\n").status, 200);
    server.stop();
}

#[test]
fn a_206_has_the_fields_of_the_200() {
    let server = cached();
    let mut client = server.connect();
    let whole = client.get("/a.txt");
    let if_range = format!("Range: bytes=0-1\r\nIf-Range: {}\r\n", whole.need("etag"));
    for fields in ["Range: bytes=0-1\r\n", "Range: bytes=0-0,3-4\r\n", &if_range] {
        let response = client.method("GET", "/a.txt", fields);
        assert_eq!(response.status, 206);
        same(&response, &whole, &["etag", "last-modified", "cache-control", "vary"]);
    }
    server.stop();
}

#[test]
fn several_ranges_are_parts() {
    let bytes = pattern(200_000);
    let server = Setup::with_files().file("large.bin", &bytes).start();
    let response = server.connect().method("GET", "/large.bin", "Range: bytes=5-9,100000-170000,-3\r\n");
    assert_eq!(response.status, 206);
    let boundary = response.need("content-type").strip_prefix("multipart/byteranges; boundary=").unwrap();
    let mut rest = response.body.as_slice();
    for (from, to) in [(5, 9), (100_000, 170_000), (199_997, 199_999)] {
        let end = rest.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&rest[..end]).unwrap();
        assert!(
            head.starts_with(&format!("--{boundary}\r\n"))
                || head.starts_with(&format!("\r\n--{boundary}\r\n"))
        );
        assert!(head.contains(&format!("Content-Range: bytes {from}-{to}/200000")), "{head}");
        rest = &rest[end + 4..];
        assert_eq!(rest[..to - from + 1], bytes[from..=to]);
        rest = &rest[to - from + 1..];
    }
    assert_eq!(rest, format!("\r\n--{boundary}--\r\n").as_bytes());
    server.stop();
}

#[test]
fn precompressed_siblings_are_negotiated() {
    let server = Setup::with_files()
        .site("precompressed = [\"br\", \"gzip\"]")
        .file("a.txt.br", b"as brotli")
        .file("a.txt.gz", b"as gzip")
        .start();
    let mut client = server.connect();
    for (accepted, coding, text) in [
        ("gzip, br", Some("br"), "as brotli"),
        ("gzip", Some("gzip"), "as gzip"),
        ("br;q=0, gzip;q=0.1", Some("gzip"), "as gzip"),
        ("zstd", None, "file a\n"),
    ] {
        let response = client.method("GET", "/a.txt", &format!("Accept-Encoding: {accepted}\r\n"));
        assert_eq!((response.field("content-encoding"), response.text()), (coding, text), "{accepted}");
        assert_eq!(response.need("vary").to_ascii_lowercase(), "accept-encoding");
    }
    server.stop();
}

#[test]
fn error_pages_are_sent_with_the_status_of_the_error() {
    let server = Setup::with_files()
        .site("error_pages = { 404 = \"/missing.html\" }")
        .file("missing.html", b"<p>not here</p>\n")
        .start();
    let mut client = server.connect();
    let response = client.get("/nowhere");
    assert_eq!((response.status, response.text()), (404, "<p>not here</p>\n"));
    let head = client.method("HEAD", "/nowhere", "");
    assert_eq!((head.status, head.need("content-length")), (404, "16"));
    assert_eq!(client.get("/missing.html").status, 200);
    server.stop();
}

#[test]
fn a_slow_reader_of_a_large_file_gets_every_byte() {
    let bytes = pattern(8_000_000);
    let server = Setup::with_files().file("large.bin", &bytes).start();
    let mut client = server.connect();
    rustix::net::sockopt::set_socket_recv_buffer_size(client.tcp(), 64 * 1024).unwrap();
    client.send("GET /large.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let head = client.head().unwrap();
    assert_eq!(head.need("content-length"), "8000000");
    // Small pieces, and a request on another connection now and then, which must not wait for this one.
    let mut other = server.connect();
    assert_eq!(other.get("/a.txt").status, 200);
    let mut received = client.take_received();
    let mut piece = [0; 10_001];
    let mut reads = 0;
    loop {
        let got = client.tcp().read(&mut piece).unwrap();
        if got == 0 {
            break;
        }
        received.extend_from_slice(&piece[..got]);
        reads += 1;
        if reads % 50 == 0 {
            assert_eq!(other.get("/a.txt").text(), "file a\n");
        }
    }
    assert!(received == bytes, "{} of {} bytes are right", received.len(), bytes.len());
    let line = server.stop().access.into_iter().find(|line| line.contains("large.bin")).unwrap();
    assert!(line.contains(" 200 8000000 "), "{line}");
}

#[test]
fn large_files_are_sent_to_several_at_once() {
    let bytes = pattern(10_000_000);
    let server = Setup::with_files().server("threads = 2").file("large.bin", &bytes).start();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = server.connect();
                for _ in 0..2 {
                    let response = client.get("/large.bin");
                    assert!(response.body == bytes, "{} bytes", response.body.len());
                }
            });
        }
        scope.spawn(|| {
            let mut client = server.connect();
            (0..100).for_each(|_| assert_eq!(client.get("/a.txt").text(), "file a\n"));
        });
    });
    server.stop();
}

/// A file that shrinks while it is sent cannot be sent as promised; the client must see that, and the server survive it.
#[test]
fn a_file_that_shrinks_ends_the_connection() {
    let setup = Setup::with_files();
    let path = setup.directory.path().join("root/shrinks.bin");
    fs::File::create(&path).unwrap().set_len(100_000_000).unwrap();
    let server = setup.start();
    let mut client = server.connect();
    client.send("GET /shrinks.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = client.head().unwrap();
    assert_eq!(head.need("content-length"), "100000000");
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let error = client.exactly(100_000_000).unwrap_err();
    assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "the connection hangs");
    assert_eq!(server.connect().get("/a.txt").status, 200);
    server.stop();
}

/// A client that goes away in the middle of a file.
#[test]
fn a_client_that_goes_away_leaves_nothing_behind() {
    let setup = Setup::with_files();
    fs::File::create(setup.directory.path().join("root/zeros.bin")).unwrap().set_len(100_000_000).unwrap();
    let server = setup.start();
    let mut client = server.connect();
    client.send("GET /zeros.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.head().unwrap();
    drop(client);
    eventually("the connection is gone", || server.total("connections") == 1);
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 1, "it is logged, as far as it came: {:?}", stopped.access);
    assert!(!stopped.access[0].contains(" 100000000 "), "{:?}", stopped.access);
}

#[test]
fn listings_escape_names() {
    let server = Setup::with_files()
        .site("listing = true")
        .file("list/<b>&\"'%41.txt", b"1")
        .file("list/two", b"2")
        .start();
    let mut client = server.connect();
    let response = client.get("/list/");
    assert!(!response.text().contains("<b>"), "{}", response.text());
    assert!(response.text().contains("two"));
    let response = client.get("/list/%3Cb%3E&%22'%2541.txt");
    assert_eq!((response.status, response.text()), (200, "1"));
    let mut http10 = server.connect();
    assert_eq!(http10.ask("GET /list/ HTTP/1.0\r\n\r\n").status, 200);
    assert_eq!(http10.end(), End::Closed);
    server.stop();
}
