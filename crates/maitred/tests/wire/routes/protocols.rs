//! What sites and routes say otherwise than the server holds for streams of HTTP/2 as for requests of HTTP/1: the same cases over
//! both.

use crate::support::h2::Connection;
use crate::support::{Gate, Server, Setup, eventually};

/// A request, and what is expected of its response.
struct Case {
    method: &'static str,
    target: &'static str,
    fields: &'static [(&'static str, &'static str)],
    body: usize,
    status: u16,
    /// Fields of the response; `""` is one that is not there.
    says: &'static [(&'static str, &'static str)],
    /// What its content begins with.
    text: &'static str,
}

const GET: Case = Case { method: "GET", target: "/", fields: &[], body: 0, status: 200, says: &[], text: "" };
const POST: Case = Case { method: "POST", ..GET };

const CASES: &[Case] = &[
    // limits
    Case { target: "/app/length", body: 1000, text: "1000", ..POST },
    Case { target: "/app/length", body: 1001, status: 413, ..POST },
    Case { target: "/up/length", body: 60_000, text: "60000", ..POST },
    Case { target: "/up/length", body: 70_000, status: 413, ..POST },
    // methods
    Case { method: "PUT", target: "/app/hello", status: 405, says: &[("allow", "GET, POST")], ..GET },
    Case { method: "PUT", target: "/own/hello", ..GET },
    Case { target: "/own/hello", status: 404, text: "of the site", ..GET },
    // error_pages
    Case { target: "/a/x", status: 404, text: "of the route", ..GET },
    Case { target: "/files/none", status: 404, text: "of the site", ..GET },
    // server_header
    Case { target: "/named", says: &[("server", "maitred")], ..GET },
    Case { target: "/plain", says: &[("server", "")], ..GET },
    // response_headers
    Case { target: "/plain", says: &[("x-site", "yes"), ("x-route", "")], ..GET },
    Case { target: "/named", says: &[("x-site", "yes"), ("x-route", "yes")], ..GET },
    Case { target: "/files/none", status: 404, says: &[("x-site", "yes")], ..GET },
    // compress
    Case {
        target: "/long",
        fields: &[("accept-encoding", "gzip")],
        says: &[("content-encoding", "gzip")],
        ..GET
    },
    Case {
        target: "/long",
        says: &[("content-encoding", ""), ("vary", "Accept-Encoding")],
        text: "long ",
        ..GET
    },
    Case {
        target: "/asis",
        fields: &[("accept-encoding", "gzip")],
        says: &[("content-encoding", "")],
        ..GET
    },
    // access_log
    Case { target: "/quiet", ..GET },
];

fn start() -> Server {
    let long = "long ".repeat(300);
    Setup::with_files()
        .file("site.html", b"of the site")
        .file("route.html", b"of the route")
        .pool("app", None, "")
        .site("limits = { body_bytes_max = 1000 }\nmethods = [\"GET\", \"POST\"]\nserver_header = false")
        .site("error_pages = { 404 = \"/site.html\" }\nresponse_headers = { set = { X-Site = \"yes\" } }")
        .route("/up/*", "pool = \"app\"\nlimits = { body_bytes_max = \"64k\" }")
        .route("/own/*", "pool = \"app\"\nmethods = [\"PUT\"]")
        .route("/a/*", "respond = { status = 404 }\nerror_pages = { 404 = \"/route.html\" }")
        .route("/files/*", "root = \"root\"")
        .route(
            "/named",
            "respond = {}\nserver_header = true\nresponse_headers = { set = { X-Route = \"yes\" } }",
        )
        .route("/plain", "respond = {}")
        .route("/long", &format!("respond = {{ body = \"{long}\" }}\ncompress = true"))
        .route("/asis", &format!("respond = {{ body = \"{long}\" }}"))
        .route("/quiet", "respond = {}\naccess_log = false")
        .start()
}

/// Compares what came with what was expected.
fn check(case: &Case, over: &str, status: u16, field: impl Fn(&str) -> Option<String>, body: &[u8]) {
    let place = format!("{} {} of {} bytes over {over}", case.method, case.target, case.body);
    assert_eq!(status, case.status, "{place}");
    for (name, value) in case.says {
        assert_eq!(field(name).unwrap_or_default(), *value, "{place}: {name}");
    }
    assert!(body.starts_with(case.text.as_bytes()), "{place}: {}", String::from_utf8_lossy(body));
}

#[test]
fn what_a_route_says_holds_for_both_protocols() {
    let server = start();
    for case in CASES {
        let body = vec![b'x'; case.body];
        let lines: String = case.fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        // A body that is refused ends a connection of HTTP/1.
        let mut one = server.connect();
        let response = match case.method {
            "POST" => one.post(case.target, &body),
            method => one.method(method, case.target, &lines),
        };
        let field = |name: &str| response.field(name).map(str::to_owned);
        check(case, "HTTP/1", response.status, field, &response.body);
        let mut two = Connection::new(server.address);
        let response = match case.method {
            "POST" => two.post(case.target, &body),
            method => two.method(method, case.target, case.fields),
        };
        let field = |name: &str| response.field(name).map(str::to_owned);
        check(case, "HTTP/2", response.status, field, &response.body);
    }
    let log = server.stop().access;
    let lines = |target: &str| log.iter().filter(|line| line.contains(target)).count();
    assert_eq!((lines("/plain"), lines("/quiet")), (4, 0), "{log:?}");
}

#[test]
fn times_of_a_route_hold_for_both_protocols() {
    let gate = Gate::new();
    let server = Setup::with_files()
        .pool("app", Some(&gate), "workers = 1\nrequest_timeout = \"1h\"")
        .limit("body_timeout = \"1h\"")
        .route(
            "/soon/*",
            // A process that is ended never gets to the gate: it has so long on a slow machine.
            "pool = \"app\"\nlimits = { request_timeout = \"2s\", body_timeout = \"300ms\" }",
        )
        .start();
    let mut one = server.connect();
    one.send("GET /soon/wait HTTP/1.1\r\nHost: h\r\n\r\n");
    let waiting = gate.arrival();
    assert_eq!(one.response("GET").status, 504);
    drop(waiting);
    let mut two = Connection::new(server.address);
    let id = two.request("GET", "/soon/wait", &[], true);
    let waiting = gate.arrival();
    assert_eq!(two.response(id).status, 504);
    drop(waiting);
    let mut one = server.connect();
    one.send("POST /soon/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
    assert_eq!(one.response("POST").status, 408);
    let mut two = Connection::new(server.address);
    let id = two.request("POST", "/soon/echo", &[("content-length", "10")], false);
    assert_eq!(two.response(id).status, 408);
    eventually("each is counted", || server.total("timeouts") >= 2);
    server.stop();
}
