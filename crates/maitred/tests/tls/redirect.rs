//! `redirect_http` and `hsts`.

use crate::stage::{Authority, connect, setup};
use crate::support::{Client, Server};

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
    for target in ["/.well-known/acme-challenge/../../a.txt", "/.well-known/acme-challenge/%2e%2e/a.txt"] {
        assert_ne!(connection.get(target).status, 200, "{target}");
    }
    drop(connection);
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
