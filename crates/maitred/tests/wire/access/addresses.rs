//! `allow` and `deny`.

use crate::support::h2::Connection;
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup};

/// All clients here connect from 127.0.0.1, and say who they are.
const TRUSTING: &str = "trusted_proxies = [\"127.0.0.0/8\"]";

fn start(upstream: &Upstream) -> Server {
    Setup::with_files()
        .file("403.html", b"no entry\n")
        .server(TRUSTING)
        .site("error_pages = { 403 = \"/403.html\" }")
        .site("allow = [\"@office\"]")
        .site("deny = [\"192.0.2.66\"]")
        .site("cors = { origins = [\"*\"] }")
        .route("/open/*", "root = \"root\"\nstrip_prefix = \"/open/\"\nallow = [\"@all\"]")
        .route("/shut/*", "root = \"root\"\nstrip_prefix = \"/shut/\"\ndeny = [\"@all\"]")
        .route("/guests/*", "respond = { status = 200, body = \"hi\" }\ndeny = [\"192.0.2.0/24\"]")
        .route("/old", "redirect = \"/new\"")
        .route("/inner", "reroute = \"/shut/a.txt\"")
        .route("/app/*", "pool = \"app\"")
        .table("[networks]\noffice = [\"192.0.2.0/24\", \"2001:db8::/32\"]\n")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
        .start()
}

const OFFICE: &str = "192.0.2.1";
const WATCHED: &str = "192.0.2.66";
const OUTSIDE: &str = "198.51.100.1";

/// Target, client, status.
const CASES: [(&str, &str, u16); 18] = [
    ("/a.txt", OFFICE, 200),
    ("/a.txt", "2001:db8::9", 200),
    ("/a.txt", WATCHED, 403),
    ("/a.txt", OUTSIDE, 403),
    ("/none", OFFICE, 404),
    ("/none", OUTSIDE, 403),
    ("/old", OFFICE, 302),
    ("/old", OUTSIDE, 403),
    ("/app/x", OFFICE, 200),
    ("/app/x", OUTSIDE, 403),
    // What a route says takes the place of both lists of its site.
    ("/open/a.txt", OUTSIDE, 200),
    ("/open/a.txt", WATCHED, 200),
    ("/shut/a.txt", OFFICE, 403),
    ("/guests/x", OFFICE, 403),
    ("/guests/x", OUTSIDE, 200),
    // The route that a request is sent to decides.
    ("/inner", OFFICE, 403),
    ("/open/none", OUTSIDE, 404),
    ("/", OFFICE, 200),
];

fn answering() -> Upstream {
    Upstream::start(|peer| {
        loop {
            peer.request()?;
            peer.answer("app")?;
        }
    })
}

#[test]
fn clients_are_refused_by_their_addresses() {
    let upstream = answering();
    let server = start(&upstream);
    let mut client = server.connect();
    for (target, from, status) in CASES {
        let response = client.method("GET", target, &format!("X-Forwarded-For: {from}\r\n"));
        assert_eq!(response.status, status, "{target} from {from}");
        if status == 403 {
            assert_eq!(response.text(), "no entry\n");
        }
    }
    assert_eq!(upstream.requests(), 1, "a request that is refused goes nowhere");
    // A browser that asks what it may do shows nothing of who asks, and learns nothing of the site.
    let fields = "Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n";
    assert_eq!(client.method("OPTIONS", "/a.txt", fields).status, 204);
    server.stop();
}

#[test]
fn streams_are_refused_like_requests_of_http_1() {
    let upstream = answering();
    let server = start(&upstream);
    let mut connection = Connection::new(server.address);
    for (target, from, status) in CASES {
        let response = connection.method("GET", target, &[("x-forwarded-for", from)]);
        assert_eq!(response.status, status, "{target} from {from}");
    }
    // A body goes with the request to its end.
    let id = connection.request("POST", "/app/x", &[("x-forwarded-for", OUTSIDE)], false);
    connection.upload(id, &[b'x'; 100_000], true);
    assert_eq!(connection.response(id).status, 403);
    let id = connection.request("POST", "/app/x", &[("x-forwarded-for", OFFICE)], false);
    connection.upload(id, b"x", true);
    assert_eq!(connection.response(id).text(), "app");
    assert_eq!(upstream.requests(), 2);
    server.stop();
}

#[test]
fn a_body_is_neither_asked_for_nor_waited_for_when_its_request_is_refused() {
    let upstream = answering();
    let server = start(&upstream);
    let post = |from: &str, fields: &str| {
        format!("POST /app/x HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {from}\r\n{fields}\r\n")
    };
    let mut client = server.connect();
    client.send(post(OUTSIDE, "Content-Length: 5\r\nExpect: 100-continue\r\n"));
    let response = client.response("POST");
    assert_eq!(response.status, 403, "and not 100");
    client.end();

    // A short one is dropped, and the connection goes on.
    let mut client = server.connect();
    client.send(post(OUTSIDE, "Content-Length: 5\r\n"));
    assert_eq!(client.response("POST").status, 403);
    client.send(b"hello");
    client.send([post(OFFICE, "Content-Length: 5\r\n").as_bytes(), b"hello"].concat());
    assert_eq!(client.response("POST").text(), "app");

    // A client that may, is asked for its body.
    let mut client = server.connect();
    client.send(post(OFFICE, "Content-Length: 5\r\nExpect: 100-continue\r\n"));
    assert_eq!(client.head().unwrap().status, 100);
    client.send(b"hello");
    assert_eq!(client.response("POST").text(), "app");
    server.stop();
}

#[test]
fn pipelined_requests_are_refused_one_by_one() {
    let upstream = answering();
    let server = start(&upstream);
    let get = |target: &str, from: &str| {
        format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {from}\r\n\r\n")
    };
    let mut client = server.connect();
    let all: String = CASES.iter().map(|(target, from, _)| get(target, from)).collect();
    client.send(all.repeat(3));
    for _ in 0..3 {
        for (target, from, status) in CASES {
            assert_eq!(client.response("GET").status, status, "{target} from {from}");
        }
    }
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 3 * CASES.len(), "each is logged once");
    let refused = CASES.iter().filter(|(.., status)| *status == 403).count();
    assert_eq!(stopped.access.iter().filter(|line| line.contains(" 403 ")).count(), 3 * refused);
}

#[test]
fn a_list_without_a_network_and_keys_without_a_meaning_are_errors() {
    let setup = Setup::with_files()
        .site("allow = []")
        .route("/a", "reroute = \"/b\"\nallow = [\"@privat\"]")
        .table("[networks]\nall = []\n");
    let server = setup.launch();
    let stopped = server.wait_for_exit();
    let said = stopped.said.join("\n");
    assert!(!stopped.status.success(), "{said}");
    for expected in [
        "`allow` has no network, so that every client would be refused",
        "`allow` goes with `root` or `redirect` or `respond` or `pool`, which this route does not have",
        "there is no list \"@privat\"",
        "\"@all\" is always there and cannot be changed",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
