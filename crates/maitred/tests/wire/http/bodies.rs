//! Request bodies, their framing, and which clients get a 100 (RFC 9112 sections 6 and 7; 9110-10.1.1).

use crate::support::{End, Server, Setup};

fn with_application() -> Server {
    let server = Setup::with_files().pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }").start();
    server.wait_for_processes();
    server
}

#[test]
fn a_body_is_not_taken_for_the_next_request() {
    let server = with_application();
    let smuggled = "GET /b.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut client = server.connect();
    for (method, target, status) in
        [("POST", "/a.txt", 405), ("GET", "/a.txt", 200), ("POST", "/app/echo", 200), ("POST", "/gone", 405)]
    {
        let length = smuggled.len();
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
        let response = client.ask(format!("{head}{smuggled}"));
        assert_eq!(response.status, status, "{method} {target}");
        assert_eq!(client.get("/a.txt").text(), "file a\n", "{method} {target}");

        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
        let response = client.ask(format!("{head}{length:x}\r\n{smuggled}\r\n0\r\n\r\n"));
        assert_eq!(response.status, status, "{method} {target}");
        assert_eq!(client.get("/a.txt").text(), "file a\n", "{method} {target}");
    }
    assert!(client.is_quiet());
    server.stop();
}

#[test]
fn a_body_may_come_byte_by_byte() {
    let server = with_application();
    let mut client = server.connect();
    let requests = "POST /app/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
                    3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n\
                    POST /app/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nfour";
    requests.bytes().for_each(|byte| client.send([byte]));
    assert_eq!(client.response("POST").text(), "abcde");
    assert_eq!(client.response("POST").text(), "four");
    server.stop();
}

#[test]
fn a_chunked_body_is_accepted() {
    let server = with_application();
    let mut client = server.connect();
    let head = "POST /app/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let response = client.ask(format!("{head}5\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\n\r\n"));
    assert_eq!((response.status, response.text()), (200, "hello 0123456789"));
    let many: String = (0..1000).map(|_| "10\r\n0123456789abcdef\r\n").collect();
    let response = client.ask(format!("{head}{many}0\r\n\r\n"));
    assert_eq!(response.body.len(), 16_000);
    assert_eq!(client.ask(format!("{head}0\r\n\r\n")).text(), "");
    for bad in
        ["x\r\n", "5\r\nhelloX\r\n", "ffffffffffffffffff\r\n", "-1\r\n", "5\nhello\r\n", " 5\r\nhello\r\n"]
    {
        let mut client = server.connect();
        let response = client.ask(format!("{head}{bad}"));
        assert!(matches!(response.status, 400 | 413) && response.says_close(), "{bad:?}: {response:?}");
        assert_eq!(client.end(), End::Closed);
    }
    server.stop();
}

/// Some applications answer 411 to a POST that does not say how long its body is (CherryPy).
#[test]
fn a_length_of_nothing_reaches_the_application() {
    let server = with_application();
    let mut client = server.connect();
    for (fields, expected) in [
        ("Content-Length: 0\r\n", Some("0")),
        ("", None),
        ("Transfer-Encoding: chunked\r\n", Some("0")),
        ("Content-Length: 000\r\n", Some("0")),
    ] {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let end = if fields.contains("chunked") { "0\r\n\r\n" } else { "" };
            let response =
                client.ask(format!("{method} /app/show HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{end}"));
            let seen: serde_json::Value = serde_json::from_str(response.text()).unwrap();
            assert_eq!(seen["CONTENT_LENGTH"].as_str(), expected, "{method} {fields:?}");
        }
    }
    server.stop();
}

#[test]
fn conflicting_framing_gets_400_and_a_close() {
    let server = with_application();
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 5x\r\n",
        "Content-Length: \r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let mut client = server.connect();
        client.send(format!(
            "POST /app/echo HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n0\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"
        ));
        let response = client.response("POST");
        assert_eq!((response.status, response.says_close()), (400, true), "{fields:?}");
        assert_eq!(client.end(), End::Closed, "{fields:?}");
    }
    // In 1.0 there is no coding, so no two parsers agree on what this means.
    let mut client = server.connect();
    let response = client.ask("POST /app/echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!((response.status, response.says_close()), (400, true));
    assert_eq!(client.end(), End::Closed);
    server.stop();
}

#[test]
fn a_body_over_the_limit_gets_413_and_a_close() {
    let server = Setup::with_files()
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
        .limit("body_bytes_max = 1000")
        .start();
    let mut client = server.connect();
    assert_eq!(client.post("/app/length", &[b'x'; 1000]).text(), "1000");
    let response = client.post("/app/length", &[b'x'; 1001]);
    assert_eq!((response.status, response.says_close()), (413, true));
    assert_eq!(client.end(), End::Closed);

    let mut client = server.connect();
    let head = "POST /app/length HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("1f4\r\n{}\r\n", "x".repeat(500));
    assert_eq!(client.ask(format!("{head}{chunk}{chunk}0\r\n\r\n")).text(), "1000");
    let response = client.ask(format!("{head}{chunk}{chunk}1\r\nx\r\n0\r\n\r\n"));
    assert_eq!((response.status, response.says_close()), (413, true));
    assert_eq!(client.end(), End::Closed);
    server.stop();
}

#[test]
fn a_cut_body_is_not_acted_on() {
    let server = with_application();
    let before = server.total("handoffs");
    for body in ["Content-Length: 10\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
        let mut client = server.connect();
        client.send(format!("POST /app/echo HTTP/1.1\r\nHost: localhost\r\n{body}"));
        client.finish_sending();
        match client.try_response("POST") {
            Ok(response) => assert_eq!((response.status, response.says_close()), (400, true)),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof),
        }
    }
    assert_eq!(server.total("handoffs"), before);
    server.stop();
}

#[test]
fn large_bodies_reach_the_application() {
    let server = Setup::with_files()
        .pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }")
        .limit("body_bytes_max = \"20MiB\"")
        .start();
    let body: Vec<u8> = (0..3_000_000_usize).map(|at| (at ^ at >> 8) as u8).collect();
    let mut client = server.connect();
    assert!(client.post("/app/echo", &body).body == body);
    assert_eq!(client.post("/app/length", &[b'x'; 15_000_000]).text(), "15000000");
    server.stop();
}

#[test]
fn a_client_that_waits_gets_100() {
    let server = with_application();
    let mut client = server.connect();
    for framing in ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"] {
        client.send(format!(
            "POST /app/echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n{framing}\r\n"
        ));
        let interim = client.head().unwrap();
        assert_eq!((interim.status, interim.reason.as_str()), (100, "Continue"));
        assert!(client.is_quiet(), "the final status waits for the body");
        client.send(if framing.starts_with('C') { "hello" } else { "5\r\nhello\r\n0\r\n\r\n" });
        assert_eq!(client.response("POST").text(), "hello");
    }
    // A client that does not wait needs no 100, and may not mind one.
    let response = client.ask(
        "POST /app/echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
    );
    assert_eq!(response.text(), "hello");
    server.stop();
}

#[test]
fn a_100_keeps_its_place_among_pipelined_responses() {
    let server = with_application();
    let mut client = server.connect();
    let waits =
        "POST /app/echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    for before in ["GET /a.txt", "GET /app/hello?x"] {
        client.send(format!("{before} HTTP/1.1\r\nHost: localhost\r\n\r\n{waits}"));
        assert_eq!(client.response("GET").interim, [0; 0], "{before}");
        assert_eq!(client.head().unwrap().status, 100, "{before}");
        client.send("helloGET /b.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(client.response("POST").text(), "hello");
        assert_eq!(client.response("GET").text(), "file b\n");
    }
    server.stop();
}

#[test]
fn a_client_that_waits_may_get_the_final_status_at_once() {
    let server = with_application();
    for (target, length, status) in [("/a.txt", 5, 405), ("/app/echo", 100_000_000, 413)] {
        let mut client = server.connect();
        client.send(format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
        ));
        let response = client.response("POST");
        assert_eq!((response.status, response.interim.as_slice()), (status, &[][..]), "{target}");
        assert!(response.says_close(), "{target}");
    }
    server.stop();
}

#[test]
fn an_unread_body_closes_the_connection() {
    let server = with_application();
    let mut client = server.connect();
    client.send(
        "POST /a.txt HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 39\r\n\r\n",
    );
    assert!(client.response("POST").says_close());
    // What comes now is the body, whatever it looks like.
    client.try_send("GET /b.txt HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(client.end(), End::Closed);
    server.stop();
}

#[test]
fn http_1_0_never_gets_a_100() {
    let server = with_application();
    let mut client = server.connect();
    client.send("POST /app/echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    client.send("hello");
    let response = client.response("POST");
    assert_eq!((response.text(), response.interim.as_slice()), ("hello", &[][..]));
    assert_eq!(client.end(), End::Closed);
    server.stop();
}

#[test]
fn no_transfer_encoding_is_sent_to_http_1_0() {
    let server = with_application();
    let pieces: String = (0..20).map(|number| format!("piece {number}\n")).collect();
    for fields in ["", "Connection: keep-alive\r\n"] {
        let mut client = server.connect();
        let response = client.ask(format!("GET /app/stream HTTP/1.0\r\n{fields}\r\n"));
        assert_eq!((response.field("transfer-encoding"), response.text()), (None, pieces.as_str()));
    }
    let mut client = server.connect();
    let response = client.get("/app/stream");
    assert_eq!((response.field("transfer-encoding"), response.text()), (Some("chunked"), pieces.as_str()));
    assert_eq!(client.method("HEAD", "/app/stream", "").body, b"");
    assert_eq!(client.get("/app/hello?x").text(), "hello x\n");
    server.stop();
}

/// A file has no use for a body, and a client that sends one gets the answer before its end.
#[test]
fn a_body_that_nobody_wants_is_not_waited_for() {
    let server = Setup::with_files()
        .limit("body_inline_bytes_max = \"4KiB\"\nbody_timeout = \"60s\"")
        .log("access = \"json\"")
        .route("/redirect", "redirect = \"/a.txt\"")
        .start();
    // A short one is dropped when it comes, and the connection goes on.
    for framing in ["Content-Length: 10\r\n\r\n01234", "Transfer-Encoding: chunked\r\n\r\na\r\n01234"] {
        let mut client = server.connect();
        for (target, status) in [("/a.txt", 405), ("/redirect", 302), ("/not-there/", 405)] {
            client.send(format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n{framing}"));
            let response = client.response("POST");
            assert_eq!((response.status, response.says_close()), (status, false), "{target} {framing}");
            assert!(client.is_quiet());
            client.send("56789");
            if framing.contains("chunked") {
                client.send("\r\n0\r\n\r\n");
            }
            assert_eq!(client.get("/b.txt").text(), "file b\n");
        }
        // The same of a file that is sent, although a body comes with the request.
        client.send(format!("GET /a.txt HTTP/1.1\r\nHost: localhost\r\n{framing}"));
        assert_eq!(client.response("GET").text(), "file a\n");
        drop(client);
    }
    // A longer one is not, whether it is announced or not.
    let mut client = server.connect();
    client.send("POST /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n01234");
    let response = client.response("POST");
    assert_eq!((response.status, response.says_close()), (405, true));
    assert_eq!(client.end(), End::Closed);
    let mut client = server.connect();
    client.send("POST /a.txt HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(client.response("POST").status, 405);
    client.send(format!("1389\r\n{}", "x".repeat(5001)));
    assert_eq!(client.end(), End::Closed);
    // Each request is in the log once, with its answer.
    assert_eq!(server.total("client_aborts"), 0);
    assert_eq!(server.stop().json_lines().len(), 2 * (3 * 2 + 1) + 2);
}
