//! The access log: exactly one line for each request, whatever becomes of its stream.

use crate::support::h2::frame::setting;
use crate::support::h2::{Connection, frame, hpack};
use crate::support::{Setup, Stopped, eventually};

/// A mixture of requests, each of which belongs into the log; how many there were.
fn logged(format: &str) -> (usize, Stopped) {
    let server = Setup::with_files()
        .log(&format!("access = \"{format}\""))
        .file("large.bin", &vec![b'x'; 1_000_000])
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
        .route("/old/*", "redirect = \"/new\"")
        .start();
    let mut connection = Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 100_000)]);
    let paths = [
        "/a.txt",
        "/large.bin",
        "/not-there",
        "/dir",
        "/old/x",
        "/app/hello?q=1",
        "/app/fail",
        "/app/stream",
    ];
    for path in paths {
        connection.get(path);
        connection.method("HEAD", path, &[]);
    }
    connection.post("/app/echo", b"some body");
    connection.post("/a.txt", b"not wanted");
    connection.method("GET", "/a.txt", &[("if-none-match", "*")]);
    connection.method("GET", "/large.bin", &[("range", "bytes=10-19")]);
    connection.method("GET", "/a.txt", &[("referer", "http://example.com/\"x"), ("user-agent", "a \\ b")]);
    connection.method("GET", "/%22quote%22", &[]);
    let ids: Vec<u32> = (0..30).map(|_| connection.request("GET", "/b.txt", &[], true)).collect();
    ids.into_iter().for_each(|id| assert_eq!(connection.response(id).status, 200));
    let mut count = 2 * paths.len() + 6 + 30;
    // Half of a response, and then a reset.
    connection.reads = false;
    let id = connection.request("GET", "/large.bin", &[], true);
    connection.content(id, 65_535);
    connection.cancel(id);
    connection.sync();
    count += 1;
    // What is malformed is logged as far as it could be read.
    let scheme = (":scheme", "http");
    let host = (":authority", "localhost");
    for fields in [
        &[(":method", "GET")][..],
        &[(":method", "GET"), scheme, host, (":path", "/bad-name"), ("Capital", "x")],
        &[(":method", "GET"), scheme, host, (":path", "/connection"), ("connection", "close")],
    ] {
        let id = connection.open();
        connection.send(frame::headers(id, &hpack::block(fields), true));
        connection.reset_of(id);
    }
    count += 3;
    drop(connection);
    // A connection that goes in the middle of a response.
    let mut connection = Connection::new(server.address);
    connection.reads = false;
    let id = connection.request("GET", "/large.bin", &[], true);
    connection.content(id, 1);
    drop(connection);
    eventually("the client is gone", || server.total("connections") <= 1);
    (count + 1, server.stop())
}

#[test]
fn combined_says_the_version_once_per_request() {
    let (count, stopped) = logged("combined");
    assert_eq!(stopped.access.len(), count, "{:#?}", stopped.access);
    let has = |wanted: &str| {
        assert!(stopped.access.iter().any(|line| line.contains(wanted)), "{wanted}: {:#?}", stopped.access);
    };
    has("\"GET /a.txt HTTP/2.0\" 200 7 \"-\" \"-\"");
    has("\"HEAD /a.txt HTTP/2.0\" 200 - \"-\" \"-\"");
    has("\"GET /a.txt HTTP/2.0\" 304 - ");
    has("\"GET /large.bin HTTP/2.0\" 200 1000000 ");
    has("\"GET /large.bin HTTP/2.0\" 206 10 ");
    has("\"GET /app/hello?q=1 HTTP/2.0\" 200 10 ");
    has("\"POST /app/echo HTTP/2.0\" 200 9 ");
    has("\"GET /app/stream HTTP/2.0\" 200 170 ");
    has("\"GET /a.txt HTTP/2.0\" 200 7 \"http://example.com/\\\"x\" \"a \\\\ b\"");
    has("\"GET /bad-name HTTP/2.0\" 400 - ");
    has("\"GET /connection HTTP/2.0\" 400 - ");
    has("\"-\" 400 - ");
    let with_version = stopped.access.iter().filter(|line| line.contains(" HTTP/2.0\" "));
    assert_eq!(with_version.count(), count - 1, "all but one without a request line: {:#?}", stopped.access);
    let cut = |line: &&String| line.contains("/large.bin HTTP/2.0\" 200 ") && !line.contains(" 1000000 ");
    assert_eq!(stopped.access.iter().filter(cut).count(), 3, "HEAD, a reset, and a lost connection");
}

#[test]
fn json_says_the_version_too() {
    let (count, stopped) = logged("json");
    let lines = stopped.json_lines();
    assert_eq!(lines.len(), count, "{:#?}", stopped.access);
    assert_eq!(lines.iter().filter(|line| line["version"] == "HTTP/2.0").count(), count - 1, "{lines:#?}");
    let count_of = |key: &str, value: &str| lines.iter().filter(|line| line[key] == value).count();
    assert_eq!((count_of("target", "/b.txt"), count_of("pool", "app")), (30, 7));
}

/// Streams that are reset, or lost with their connection, before their body is whole.
#[test]
fn a_stream_that_ends_in_its_body_is_in_the_log_once() {
    let server = Setup::with_files()
        .log("access = \"json\"")
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
        .start();
    let mut connection = Connection::new(server.address);
    for path in ["/app/reset", "/app/empty"] {
        let id = connection.request("POST", path, &[("content-length", "10")], false);
        if path == "/app/reset" {
            connection.upload(id, b"half", false);
        }
        connection.cancel(id);
        connection.sync();
    }
    let id = connection.request("POST", "/app/lost", &[], false);
    connection.upload(id, b"half", false);
    connection.sync();
    assert_eq!(server.total("client_aborts"), 2);
    drop(connection);
    eventually("the client is gone", || server.total("client_aborts") == 3);
    let lines = server.stop().json_lines();
    let logged: Vec<_> = lines.iter().map(|line| (line["target"].clone(), line["status"].clone())).collect();
    let expected = ["/app/reset", "/app/empty", "/app/lost"].map(|path| (path.into(), 499.into()));
    assert_eq!(logged, expected);
}
