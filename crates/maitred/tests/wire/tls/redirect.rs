//! `redirect_http` and `hsts`.

use crate::support::stage::{Authority, connect, setup};
use crate::support::{Client, End, Server};

const BOTH: &str = "[[listen]]\naddress = \"127.0.0.1:0\"\nredirect_http = true\n";

fn start(authority: &Authority) -> Server {
    setup(authority, "")
        .site("hsts = \"max-age=300\"")
        .file(".well-known/acme-challenge/token", b"challenge\n")
        .pool("app", None, "workers = 1")
        .table(BOTH)
        .start()
}

#[test]
fn the_status_of_these_redirects_can_be_chosen() {
    let authority = Authority::new();
    for status in [301_u16, 302, 307] {
        let server =
            setup(&authority, "").table(format!("{BOTH}redirect_status = {status}\n").as_str()).start();
        let mut connection = Client::connect(server.address_of("http"));
        assert_eq!(connection.method("GET", "/a", "").status, status);
    }
}

#[test]
fn cleartext_leads_to_the_same_place_over_tls() {
    let authority = Authority::new();
    let server = start(&authority);
    let port = server.address_of("https").port();
    let mut connection = Client::connect(server.address_of("http"));
    for (method, target) in [("GET", "/a.txt?x=%20y"), ("HEAD", "/no/such"), ("POST", "/app/show")] {
        let response = connection.method(method, target, "Content-Length: 0\r\n");
        assert_eq!(response.status, 308, "{method} {target}");
        assert_eq!(response.need("location"), format!("https://localhost:{port}{target}"));
        assert_eq!(response.field("strict-transport-security"), None, "not in cleartext (6797-7.2)");
    }
    let challenge = connection.get("/.well-known/acme-challenge/token");
    assert_eq!((challenge.status, challenge.text()), (200, "challenge\n"));
    // What leads out of that directory is no challenge.
    for target in ["/.well-known/acme-challenge/../../a.txt", "/.well-known/acme-challenge/%2e%2e/a.txt"] {
        let response = connection.get(target);
        assert_eq!(response.status, 308, "{target}");
        assert_eq!(response.need("location"), format!("https://localhost:{port}{target}"));
    }
    drop(connection);
    server.stop();
}

/// 9112-3.2.2: a server accepts the absolute form, which proxies send; its authority counts, whatever `Host` says. What is asked
/// of the server as a whole has no place that it could lead to.
#[test]
fn every_form_of_a_target_is_accepted() {
    let authority = Authority::new();
    let server = start(&authority);
    let port = server.address_of("https").port();
    let mut connection = Client::connect(server.address_of("http"));
    for (method, target, place) in [
        ("GET", "http://localhost/x", "localhost:PORT/x"),
        ("GET", "HTTP://localhost:80/x/../y?a=%7e&b=|", "localhost:PORT/x/../y?a=%7e&b=%7C"),
        ("GET", "http://a.example/?u=http://b.example/", "a.example:PORT/?u=http://b.example/"),
        ("HEAD", "http://localhost", "localhost:PORT/"),
        ("GET", "http://localhost?x=/y", "localhost:PORT/?x=/y"),
        ("POST", "http://[::1]:8080/x", "[::1]:PORT/x"),
        ("OPTIONS", "http://localhost/x", "localhost:PORT/x"),
        ("TRACE", "/x", "localhost:PORT/x"),
        ("GET", "/a|b{c}?d=\"<\"", "localhost:PORT/a%7Cb%7Bc%7D?d=%22%3C%22"),
        ("GET", "/caf\u{e9}?\u{e9}", "localhost:PORT/caf%C3%A9?%C3%A9"),
    ] {
        let response = connection.method(method, target, "Content-Length: 0\r\n");
        assert_eq!(response.status, 308, "{method} {target}");
        let place = format!("https://{}", place.replace("PORT", &port.to_string()));
        assert_eq!(response.need("location"), place, "{method} {target}");
    }
    let challenge = connection.get("http://localhost/.well-known/acme-challenge/token");
    assert_eq!((challenge.status, challenge.text()), (200, "challenge\n"));
    for target in ["*", "http://localhost"] {
        let options = connection.method("OPTIONS", target, "");
        assert_eq!((options.status, options.field("location")), (204, None), "{target}");
    }
    let nowhere = Client::connect(server.address_of("http")).ask("GET /x HTTP/1.0\r\n\r\n");
    assert_eq!(nowhere.status, 400, "there is no host that it could lead to");
    server.wait_for("the request names no host");
    drop(connection);
    server.stop();
}

/// Neither does it ask for the body of an upload, nor wait for it: nothing of it is to cross the network in cleartext.
#[test]
fn an_upload_is_sent_to_tls_before_it_begins() {
    let authority = Authority::new();
    let server = start(&authority);
    let address = server.address_of("http");
    let head = "POST /app/echo HTTP/1.1\r\nHost: localhost\r\n";
    for framing in ["Content-Length: 1000000\r\n", "Transfer-Encoding: chunked\r\n"] {
        for expect in ["Expect: 100-continue\r\n", ""] {
            let mut client = Client::connect(address);
            client.send(format!("{head}{framing}{expect}\r\n"));
            let first = String::from_utf8(client.raw_head().unwrap()).unwrap();
            assert!(first.starts_with("HTTP/1.1 308 "), "{framing}{expect}: {first}");
            let close = first.contains("\r\nConnection: close\r\n");
            assert_eq!(close, !expect.is_empty() || framing.starts_with('C'), "{framing}{expect}: {first}");
            assert_eq!(client.exactly(23).unwrap(), b"308 Permanent Redirect\n");
            if close {
                assert_eq!(client.end(), End::Closed);
            }
        }
    }
    // A short body is read behind the answer, and the connection goes on.
    let mut client = Client::connect(address);
    client.send(format!("{head}Content-Length: 10\r\n\r\n"));
    assert!(client.raw_head().unwrap().starts_with(b"HTTP/1.1 308 "));
    client.exactly(23).unwrap();
    client.send("0123456789");
    assert_eq!(client.get("/b.txt").status, 308);
    server.stop();
}

#[test]
fn every_response_over_tls_says_to_come_back_that_way() {
    let authority = Authority::new();
    let server = start(&authority);
    server.wait_for_processes();
    let mut connection = connect(&server, &authority.client());
    for target in ["/a.txt", "/a.txt", "/no/such", "/app/hello?x", "/app/no-such-page", "/app/large?5000000"]
    {
        let response = connection.get(target);
        assert_eq!(response.field("strict-transport-security"), Some("max-age=300"), "{target}");
    }
    let etag = connection.get("/a.txt").need("etag").to_owned();
    let unchanged = connection.method("GET", "/a.txt", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!(unchanged.status, 304);
    assert_eq!(unchanged.field("strict-transport-security"), Some("max-age=300"));
    drop(connection);
    server.stop();
}
