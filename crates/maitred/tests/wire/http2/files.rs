//! Files, redirects and fixed responses: what HTTP/2 brings is what HTTP/1.1 brings.

use std::fs;

use crate::support::h2::{self, Connection};
use crate::support::{Server, Setup};

/// A site with something of everything.
fn site() -> Server {
    let large: Vec<u8> = (0..1_000_000_usize).map(|at| (at ^ at >> 8) as u8).collect();
    Setup::with_files()
        .file("large.bin", &large)
        .file("page.css", b"body { color: black }\n")
        .file("page.css.br", b"not really brotli")
        .file("empty.txt", b"")
        .file("404.html", b"<p>not here</p>\n")
        .file("list/one", b"1")
        .site("precompressed = [\"br\", \"gzip\"]")
        .site("error_pages = { 404 = \"/404.html\" }")
        .site("headers = { set = { \"X-Test\" = \"A value\", \"Cache-Control\" = \"max-age=60\" } }")
        .route("/old/*", "redirect = \"https://example.com{uri}\"\nstatus = 308")
        .route("/fixed", "respond = { status = 410, body = \"gone\\n\" }")
        .route("/list/*", "root = \"root\"\nlisting = true")
        .start()
}

/// Method, path, fields, status.
type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], u16);
type Essence = (u16, Vec<(String, String)>, Vec<u8>);

/// The same in both versions: names in lower case, in the order of the names, without what belongs to a connection and
/// without the time of day.
fn essence(status: u16, fields: &[(String, String)], body: Vec<u8>) -> Essence {
    let of_connection = ["connection", "transfer-encoding", "date"];
    let mut fields: Vec<_> =
        fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
    fields.retain(|(name, _)| !of_connection.contains(&name.as_str()));
    fields.sort();
    (status, fields, body)
}

fn by_1(server: &Server, method: &str, path: &str, fields: &[(&str, &str)]) -> Essence {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let response = server.connect().method(method, path, &lines);
    essence(response.status, &response.fields, response.body)
}

fn by_2(connection: &mut Connection, method: &str, path: &str, fields: &[(&str, &str)]) -> Essence {
    let response = connection.method(method, path, fields);
    assert!(response.field("date").is_some(), "{response:?}");
    essence(response.status, &response.fields, response.body)
}

#[test]
fn every_kind_of_answer_is_the_one_of_http_1() {
    let server = site();
    let etag = server.connect().get("/a.txt").need("etag").to_owned();
    let modified = server.connect().get("/a.txt").need("last-modified").to_owned();
    let cases: &[Case<'_>] = &[
        ("GET", "/a.txt", &[], 200),
        ("HEAD", "/a.txt", &[], 200),
        ("GET", "/a.txt?a=1&b=%20", &[], 200),
        ("GET", "/", &[], 200),
        ("GET", "/empty.txt", &[], 200),
        ("HEAD", "/empty.txt", &[], 200),
        ("GET", "/large.bin", &[], 200),
        ("HEAD", "/large.bin", &[], 200),
        ("GET", "/page.css", &[], 200),
        ("GET", "/page.css", &[("accept-encoding", "gzip, br")], 200),
        ("GET", "/a.txt", &[("if-none-match", &etag)], 304),
        ("GET", "/a.txt", &[("if-modified-since", &modified)], 304),
        ("HEAD", "/a.txt", &[("if-none-match", &etag)], 304),
        ("GET", "/a.txt", &[("if-match", "\"other\"")], 412),
        ("GET", "/a.txt", &[("range", "bytes=2-4")], 206),
        ("GET", "/large.bin", &[("range", "bytes=10-600000")], 206),
        ("GET", "/a.txt", &[("range", "bytes=100-")], 416),
        ("GET", "/not-there", &[], 404),
        ("HEAD", "/not-there", &[], 404),
        ("GET", "/dir", &[], 301),
        ("GET", "/old/x?y", &[], 308),
        ("GET", "/fixed", &[], 410),
        ("GET", "/list/", &[], 200),
        ("DELETE", "/a.txt", &[], 405),
        ("OPTIONS", "/a.txt", &[], 204),
        ("OPTIONS", "*", &[], 204),
        ("BREW", "/a.txt", &[], 405),
        ("GET", "/a%2F../b", &[], 404),
        ("GET", "/%zz", &[], 400),
    ];
    let mut connection = Connection::new(server.address);
    for round in 0..2 {
        for (method, path, fields, status) in cases {
            let expected = by_1(&server, method, path, fields);
            let found = by_2(&mut connection, method, path, fields);
            let what = format!("{method} {path} {fields:?}, round {round}");
            assert_eq!(expected.0, *status, "{what}: HTTP/1.1 is not what this test expects");
            assert_eq!((found.0, &found.1), (expected.0, &expected.1), "{what}");
            assert!(found.2 == expected.2, "{what}: the body of {} bytes is another", found.2.len());
        }
    }
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 2 + 4 * cases.len(), "each is in the access log once");
}

#[test]
fn several_ranges_come_in_one_message() {
    let server = site();
    let mut connection = Connection::new(server.address);
    let response = connection.method("GET", "/large.bin", &[("range", "bytes=0-9,100000-399999")]);
    assert_eq!(response.status, 206);
    let boundary = response.need("content-type").strip_prefix("multipart/byteranges; boundary=").unwrap();
    let begin = format!("--{boundary}\r\n");
    let body = &response.body;
    assert!(body.windows(begin.len()).any(|window| window == begin.as_bytes()));
    assert!(body.len() > 300_010 && body.len() < 301_000, "{}", body.len());
    server.stop();
}

/// Larger than all windows together, and than what a kernel keeps.
#[test]
fn a_file_of_thirty_megabytes_comes_as_it_is() {
    let setup = Setup::with_files();
    let content: Vec<u8> =
        (0..30_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let setup = setup.file("huge.bin", &content);
    let server = setup.start();
    let mut connection = Connection::new(server.address);
    assert!(connection.get("/huge.bin").body == content, "the first time, when it is not open yet");
    assert!(connection.get("/huge.bin").body == content);
    let tail = connection.method("GET", "/huge.bin", &[("range", "bytes=-1000")]);
    assert!(tail.body == content[content.len() - 1000..]);
    server.stop();
}

#[test]
fn a_file_that_shrinks_resets_its_stream_only() {
    let setup = Setup::with_files();
    let path = setup.directory.path().join("root/shrinking.bin");
    fs::File::create(&path).unwrap().set_len(50_000_000).unwrap();
    let server = setup.start();
    let mut connection = Connection::new(server.address);
    connection.reads = false;
    let id = connection.request("GET", "/shrinking.bin", &[], true);
    assert_eq!(connection.head(id).need("content-length"), "50000000");
    fs::File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
    connection.reads = true;
    connection.open_window(0, 1 << 30);
    connection.open_window(id, 1 << 30);
    match connection.try_response(id) {
        Err(h2::Lost::Reset(code)) => assert_eq!(code, h2::frame::code::INTERNAL_ERROR),
        other => panic!("{other:?}"),
    }
    assert_eq!(connection.get("/a.txt").text(), "file a\n", "the connection goes on");
    server.stop();
}

#[test]
fn both_versions_are_spoken_at_one_address_at_the_same_time() {
    let server = site();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut connection = Connection::new(server.address);
                (0..50).for_each(|_| assert_eq!(connection.get("/a.txt").text(), "file a\n"));
            });
            scope.spawn(|| {
                let mut client = server.connect();
                (0..50).for_each(|_| assert_eq!(client.get("/a.txt").text(), "file a\n"));
            });
        }
    });
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 400);
    assert_eq!(stopped.access.iter().filter(|line| line.contains("HTTP/2.0\"")).count(), 200);
    assert_eq!(stopped.access.iter().filter(|line| line.contains("HTTP/1.1\"")).count(), 200);
}

#[test]
fn requests_are_counted_as_those_of_http_1_are() {
    let server = site();
    let mut connection = Connection::new(server.address);
    (0..7).for_each(|_| assert_eq!(connection.get("/a.txt").status, 200));
    (0..3).for_each(|_| assert_eq!(connection.get("/none").status, 404));
    let responses = &server.status()["totals"]["responses"];
    assert_eq!((responses["2xx"].as_u64(), responses["4xx"].as_u64()), (Some(7), Some(3)));
    assert_eq!(server.total("connections"), 2, "that one, and the one that asks");
    server.stop();
}
