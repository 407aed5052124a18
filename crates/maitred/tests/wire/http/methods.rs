//! Methods and expectations (RFC 9110 sections 9 and 10.1.1).

use crate::support::{End, Setup};

#[test]
fn get_serves_a_file() {
    let server = Setup::with_files().start();
    let mut client = server.connect();
    let response = client.get("/a.txt");
    assert_eq!((response.status, response.reason.as_str(), response.text()), (200, "OK", "file a\n"));
    assert_eq!(response.need("content-type"), "text/plain; charset=utf-8");
    let response = client.get("/dir/");
    assert_eq!((response.status, response.text()), (200, "<p>dir</p>\n"));
    server.stop();
}

#[test]
fn head_gets_the_fields_of_get_and_nothing_else() {
    let server = Setup::with_files()
        .file("large.bin", &vec![7; 100_000])
        .route("/fixed", "respond = { status = 200, body = \"fixed\\n\" }")
        .route("/old/*", "redirect = \"/new{uri}\"")
        .start();
    let mut client = server.connect();
    for target in ["/", "/a.txt", "/large.bin", "/dir", "/dir/", "/fixed", "/old/x", "/not-there"] {
        for fields in ["", "If-None-Match: *\r\n"] {
            let get = client.method("GET", target, fields).undated();
            let head = client.method("HEAD", target, fields).undated();
            assert_eq!((head.status, &head.fields), (get.status, &get.fields), "{target} {fields:?}");
            assert!(head.body.is_empty());
        }
    }
    assert!(client.is_quiet(), "no body follows the head of an answer to HEAD");
    server.stop();
}

#[test]
fn an_error_to_head_has_no_body() {
    let server = Setup::with_files().route("/get", "root = \"root\"\nmethods = [\"POST\"]").start();
    let mut client = server.connect();
    for (target, status) in [("/not-there", 404), ("/get", 404), ("/gone/", 404)] {
        let response = client.method("HEAD", target, "");
        assert_eq!(response.status, status, "{target}");
        // Had a body come, the next answer would not begin where it has to.
        assert_eq!(client.get("/a.txt").text(), "file a\n");
    }
    server.stop();
}

#[test]
fn a_method_that_files_have_not_gets_405_with_allow() {
    let server = Setup::with_files().start();
    let mut client = server.connect();
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let response = client.method(method, "/a.txt", "");
        assert_eq!((response.status, response.need("allow")), (405, "GET, HEAD, OPTIONS"), "{method}");
    }
    assert_eq!(client.get("/a.txt").status, 200);
    server.stop();
}

#[test]
fn connect_and_trace_get_405() {
    let server = Setup::with_files().start();
    let response = server.connect().method("TRACE", "/a.txt", "Cookie: secret=1\r\n");
    assert_eq!(response.status, 405);
    assert!(!response.text().contains("secret") && response.field("allow").is_some());
    let response = server.connect().ask("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n");
    assert_eq!(response.status, 405);
    assert!(response.field("allow").is_some());
    server.stop();
}

#[test]
fn options_asterisk_tells_allow() {
    let server = Setup::with_files().start();
    let mut client = server.connect();
    let response = client.method("OPTIONS", "*", "");
    assert_eq!(response.status, 204);
    assert!(response.need("allow").contains("GET, HEAD"), "{response:?}");
    let response = client.method("OPTIONS", "/a.txt", "");
    assert_eq!((response.status, response.need("allow")), (204, "GET, HEAD, OPTIONS"));
    server.stop();
}

#[test]
fn an_unknown_expectation_gets_417() {
    let server = Setup::with_files().start();
    let mut client = server.connect();
    let response = client.method("GET", "/a.txt", "Expect: a-miracle\r\n");
    assert_eq!(response.status, 417);
    assert!(response.says_close());
    assert_eq!(client.end(), End::Closed);
    server.stop();
}

#[test]
fn upgrade_is_ignored_by_files() {
    let server = Setup::with_files().start();
    let mut client = server.connect();
    for fields in [
        "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
    ] {
        let response = client.method("GET", "/a.txt", fields);
        assert_eq!((response.status, response.text()), (200, "file a\n"));
        assert_eq!(response.field("upgrade"), None);
    }
    assert_eq!(client.get("/b.txt").text(), "file b\n");
    server.stop();
}
