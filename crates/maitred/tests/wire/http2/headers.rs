//! `response_headers` and `request_headers` of sites and routes, for whatever answers; and trailers.

use std::sync::mpsc::channel;

use crate::support::upstream::{Peer, Upstream};
use crate::support::{Server, Setup};

const RULES: &str = "response_headers = { set = { X-Frame-Options = \"DENY\" }, remove = [\"X-Powered-By\"], \
                     if_absent = { Cache-Control = \"no-cache\" } }";

/// Says two fields that a site may want otherwise.
fn boast(peer: &mut Peer) -> std::io::Result<()> {
    loop {
        peer.request()?;
        peer.send("HTTP/1.1 200 OK\r\nX-Powered-By: PHP\r\nx-frame-options: ALLOWALL\r\nContent-Length: 2\r\n\r\nok")?;
    }
}

fn start(upstream: &Upstream) -> Server {
    Setup::with_files()
        .site(RULES)
        .route("/a.txt", "root = \"root\"\nresponse_headers = { add = { Link = \"</b>\" } }")
        .route("/old", "redirect = \"/new\"")
        .route("/gone", "respond = { status = 410 }")
        .route("/said", "respond = { status = 200, body = \"hi\" }")
        .route("/get", "methods = [\"GET\"]\nrespond = { status = 200 }")
        .route("/own/*", "pool = \"app\"\nresponse_headers = { set = { X-Frame-Options = \"SAMEORIGIN\" } }")
        .route("/app/*", "pool = \"app\"")
        .pool("python", None, "transport = \"direct\"\nqueue = { timeout = \"60s\" }")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
        .start()
}

/// What a response says of the fields that the rules name.
fn said(field: impl Fn(&str) -> Option<String>) -> String {
    let names = ["x-frame-options", "x-powered-by", "cache-control", "link"];
    names.map(|name| field(name).unwrap_or_else(|| "-".to_owned())).join(" ")
}

const TARGETS: [(&str, u16, &str); 10] = [
    ("/a.txt", 200, "DENY - no-cache </b>"),
    ("/b.txt", 200, "DENY - no-cache -"),
    ("/none", 404, "DENY - no-cache -"),
    ("/dir", 301, "DENY - no-cache -"),
    ("/old", 302, "DENY - no-cache -"),
    ("/gone", 410, "DENY - no-cache -"),
    ("/said", 200, "DENY - no-cache -"),
    ("/own/", 200, "SAMEORIGIN - no-cache -"),
    ("/app/", 200, "DENY - no-cache -"),
    ("/python/hello?x", 200, "DENY - no-cache -"),
];

#[test]
fn responses_of_all_kinds_have_the_fields_of_their_route() {
    let upstream = Upstream::start(boast);
    let server = start(&upstream);
    let mut client = server.connect();
    for (target, status, expected) in TARGETS {
        let response = client.get(target);
        let field = |name: &str| response.field(name).map(str::to_owned);
        assert_eq!((response.status, said(field).as_str()), (status, expected), "{target}");
        let again = client.method("HEAD", target, "");
        let field = |name: &str| again.field(name).map(str::to_owned);
        assert_eq!((again.status, said(field).as_str()), (status, expected), "HEAD {target}");
    }
    let refused = client.post("/get", b"");
    assert_eq!((refused.status, refused.need("x-frame-options")), (405, "DENY"));
    let part = client.method("GET", "/b.txt", "Range: bytes=0-1\r\n");
    assert_eq!((part.status, part.need("x-frame-options"), part.text()), (206, "DENY", "fi"));
    let etag = part.need("etag").to_owned();
    let known = client.method("GET", "/b.txt", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!((known.status, known.need("x-frame-options")), (304, "DENY"));
    // Where they are changed, the application cannot write to the client's socket itself.
    assert_eq!(server.total("relayed"), 2);
    server.stop();
}

#[test]
fn streams_of_http_2_have_them_as_well() {
    let upstream = Upstream::start(boast);
    let server = start(&upstream);
    let mut connection = crate::support::h2::Connection::new(server.address);
    for (target, status, expected) in TARGETS {
        let response = connection.get(target);
        let field = |name: &str| response.field(name).map(str::to_owned);
        assert_eq!((response.status, said(field).as_str()), (status, expected), "{target}");
    }
    server.stop();
}

#[test]
fn without_rules_an_application_writes_to_the_socket_itself() {
    let server = Setup::with_files()
        .route("/own/*", "pool = \"python\"\nresponse_headers = { add = { X-A = \"b\" } }")
        .pool("python", None, "transport = \"direct\"\nqueue = { timeout = \"60s\" }")
        .start();
    let mut client = server.connect();
    let response = client.get("/python/hello?x");
    assert_eq!((response.text(), response.field("x-a")), ("hello x\n", None));
    assert_eq!((server.total("handoffs"), server.total("relayed")), (1, 0));
    assert_eq!(client.get("/own/hello?x").need("x-a"), "b");
    assert_eq!((server.total("handoffs"), server.total("relayed")), (2, 1));
    server.stop();
}

#[test]
fn a_pool_gets_the_fields_of_its_route() {
    let (sender, asked) = channel();
    let upstream = Upstream::start(move |peer| {
        loop {
            sender.send(peer.request()?).unwrap();
            peer.answer("")?;
        }
    });
    let server = Setup::with_files()
        .site("request_headers = { remove = [\"Cookie\"], set = { X-Tenant = \"blue\" } }")
        .route(
            "/other/*",
            "pool = \"app\"\nrequest_headers = { set = { Host = \"inner:8080\", X-Tenant = \"red\" } }",
        )
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
        .start();
    let mut client = server.connect();
    client.method("GET", "/page", "Cookie: a=b\r\nX-Tenant: mine\r\nX-Own: c\r\n");
    let request = asked.recv().unwrap();
    let tenants: Vec<_> = request.fields.iter().filter(|(name, _)| name == "x-tenant").collect();
    assert_eq!(tenants, [&("x-tenant".to_owned(), "blue".to_owned())]);
    assert_eq!((request.field("cookie"), request.field("x-own")), (None, Some("c")));
    assert_eq!(request.field("host"), Some("localhost"));
    client.get("/other/page");
    let request = asked.recv().unwrap();
    assert_eq!((request.field("host"), request.field("x-tenant")), (Some("inner:8080"), Some("red")));
    server.stop();
}

/// Content in chunks, with a checksum behind it.
fn sum_up(peer: &mut Peer) -> std::io::Result<()> {
    loop {
        peer.request()?;
        peer.send("HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        peer.send("4\r\nbody\r\n0\r\nX-Sum: 7\r\nContent-Length: 9\r\n\r\n")?;
    }
}

#[test]
fn trailers_reach_clients_that_take_them() {
    let upstream = Upstream::start(sum_up);
    let server = Setup::with_files()
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
        .start();
    let mut connection = crate::support::h2::Connection::new(server.address);
    for _ in 0..3 {
        let response = connection.get("/sum");
        assert_eq!(response.text(), "body");
        assert_eq!(response.trailers, [("x-sum".to_owned(), "7".to_owned())]);
    }
    let mut client = server.connect();
    client.send("GET /sum HTTP/1.1\r\nHost: a\r\nTE: gzip, trailers\r\n\r\n");
    let head = client.raw_head().unwrap();
    let head = String::from_utf8(head).unwrap();
    assert!(head.contains("\r\nTrailer: X-Sum\r\n"), "{head}");
    let content = client.exactly(24).unwrap();
    assert_eq!(String::from_utf8(content).unwrap(), "4\r\nbody\r\n0\r\nX-Sum: 7\r\n\r\n");
    let response = client.get("/sum");
    assert_eq!((response.text(), response.field("trailer")), ("body", None));
    server.stop();
}

#[test]
fn a_server_gets_as_many_trailers_as_over_http_1() {
    let (sender, coding) = channel();
    // A connection that ended behind the first response could be taken for the second request before its end is seen.
    let upstream = Upstream::start(move |peer| {
        loop {
            let coding = peer.request()?.field("transfer-encoding").map(str::to_owned);
            // The body is empty, and its trailers end it: read, or they would be taken for the next request.
            let mut rest = Vec::new();
            while coding.is_some() && !rest.ends_with(b"\r\n\r\n") {
                let piece = peer.piece()?;
                if piece.is_empty() {
                    return Ok(());
                }
                rest.extend(piece);
            }
            sender.send(coding).unwrap();
            peer.answer("ok")?;
        }
    });
    let server = Setup::with_files()
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
        .start();
    let mut connection = crate::support::h2::Connection::new(server.address);
    for (trailers, expected) in [(32, Some("chunked")), (33, None)] {
        let id = connection.request("POST", "/", &[], false);
        let block = crate::support::h2::hpack::block(&vec![("x-a", "1"); trailers]);
        connection.send(crate::support::h2::frame::headers(id, &block, true));
        assert_eq!(connection.response(id).text(), "ok");
        assert_eq!(coding.recv().unwrap().as_deref(), expected, "{trailers} trailers");
    }
    drop(connection);
    server.stop();
}
