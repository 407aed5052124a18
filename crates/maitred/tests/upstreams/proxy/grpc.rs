//! Calls of gRPC: the answers that are Maitred's own.

use crate::support::framed::{self, field, head};
use crate::support::h2::Connection;
use crate::support::h2::frame::{code, rst_stream};
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup};

/// Routes that fail in every way, the path of each, its status, and what gRPC calls it.
const FAILURES: [(&str, u16, u8); 11] = [
    ("/bad/%00", 400, 13),
    ("/closed/x", 401, 16),
    ("/shut/x", 403, 7),
    ("/none", 404, 12),
    ("/a.txt", 405, 2),
    ("/limited", 429, 14),
    ("/broken/x", 502, 14),
    ("/gone/x", 502, 14),
    ("/busy", 503, 14),
    ("/silent/x", 504, 14),
    ("/old", 302, 2),
];

/// Of no password in particular.
const BCRYPT: &str = "$2b$04$IYX5m6kVh8zJ7ZJ2UqyMIuC7F8s7wzqgbqOXuS8dVqO8pVqzVZK1a";

const GRPC: &str = "application/grpc";

fn server(broken: &Upstream, silent: &Upstream) -> Server {
    let setup = Setup::with_files();
    let gone = setup.directory.path().join("none").display().to_string();
    setup
        .server("threads = 1")
        .file("404.html", b"<p>a page")
        .file("502.html", &[b'x'; 300_000])
        .limit("body_bytes_max = 1000")
        .table("[site.error_pages]\n404 = \"/404.html\"\n502 = \"/502.html\"\n403 = \"/404.html\"\n")
        .route("/a.txt", "root = \"root\"")
        .route("/404.html", "root = \"root\"")
        .route("/502.html", "root = \"root\"")
        .route("/bad/*", "root = \"root\"")
        .route(
            "/closed/*",
            &format!("respond = {{ status = 200 }}\nbasic_auth = {{ users = {{ ann = \"{BCRYPT}\" }} }}"),
        )
        .route("/shut/*", "root = \"root\"\ndeny = [\"@all\"]")
        .route("/none", "respond = { status = 404 }")
        .route("/limited", "respond = { status = 429 }")
        .route("/broken/*", "pool = \"broken\"")
        .route("/gone/*", "pool = \"gone\"")
        .route("/busy", "respond = { status = 503, body = \"come later\" }")
        .route("/silent/*", "pool = \"silent\"")
        .route("/old", "redirect = \"/new\"")
        .route("/fine", "respond = { status = 200, body = \"some text\" }")
        .table(&format!("[pool.broken]\nconnect = \"{}\"\n", framed::name(broken)))
        .table(&format!(
            "[pool.silent]\nconnect = \"{}\"\nrequest_timeout = \"200ms\"\n",
            framed::name(silent)
        ))
        .table(&format!("[pool.gone]\nconnect = \"h2+unix:{gone}\"\n"))
        .start()
}

fn servers() -> (Upstream, Upstream) {
    let broken = framed::start(&[], |far| {
        loop {
            let (id, ..) = far.request()?;
            far.send(rst_stream(id, code::INTERNAL_ERROR))?;
        }
    });
    let silent = framed::start(&[], |far| {
        far.request()?;
        far.peer.wait_for_end()
    });
    (broken, silent)
}

#[test]
fn an_answer_of_this_server_to_a_call_is_a_status_of_grpc() {
    let (broken, silent) = servers();
    let server = server(&broken, &silent);
    for (path, status, expected) in FAILURES {
        let mut connection = Connection::new(server.address);
        let id = connection.request("POST", path, &[("te", "trailers"), ("content-type", GRPC)], false);
        connection.upload(id, b"\0\0\0\0\0", true);
        let response = connection.response(id);
        let is = |name: &str| field(&response.fields, name).map(str::to_owned);
        assert_eq!((response.status, is("grpc-status")), (200, Some(expected.to_string())), "{path}");
        assert!(is("grpc-message").unwrap().starts_with(&status.to_string()), "{path}: {response:?}");
        assert_eq!((is("content-type").as_deref(), is("content-length")), (Some(GRPC), None), "{path}");
        // The whole response is one frame: what comes behind a head that is none of all would have to be trailers.
        assert!(response.body.is_empty() && response.trailers.is_empty(), "{path}");
        assert_eq!(is("location").is_some(), status == 302, "{path}");
        assert_eq!(is("www-authenticate").is_some(), status == 401, "{path}");
    }
    server.stop();
}

#[test]
fn a_browser_gets_it_over_both_versions() {
    let (broken, silent) = servers();
    let server = server(&broken, &silent);
    for (kind, answered) in [
        ("application/grpc-web", "application/grpc-web+proto"),
        ("application/grpc-web-text+proto", "application/grpc-web-text+proto"),
    ] {
        for (path, status, expected) in FAILURES {
            let fields = format!("Host: a\r\nContent-Type: {kind}\r\nContent-Length: 5\r\n");
            let request = format!("POST {path} HTTP/1.1\r\n{fields}\r\n\0\0\0\0\0");
            let response = server.connect().ask(request);
            assert_eq!(
                (response.status, response.need("grpc-status")),
                (200, &*expected.to_string()),
                "{path}"
            );
            assert_eq!((response.need("content-type"), response.need("content-length")), (answered, "0"));
            assert!(response.need("grpc-message").starts_with(&status.to_string()), "{path}");
            let mut connection = Connection::new(server.address);
            let id = connection.request("POST", path, &[("content-type", kind)], true);
            let response = connection.response(id);
            assert_eq!(field(&response.fields, "grpc-status"), Some(&*expected.to_string()), "{path}");
        }
    }
    server.stop();
}

#[test]
fn what_is_no_failure_and_no_call_stays_what_it_is() {
    let (broken, silent) = servers();
    let server = server(&broken, &silent);
    let mut connection = Connection::new(server.address);
    let id = connection.request("POST", "/fine", &[("content-type", GRPC)], true);
    let response = connection.response(id);
    assert_eq!((response.text(), field(&response.fields, "grpc-status")), ("some text", None));
    for (method, path, kind, status) in [
        ("GET", "/none", GRPC, 404),
        ("POST", "/none", "application/json", 404),
        ("POST", "/none", "application/grpcx", 404),
        ("POST", "/a.txt", "text/plain", 405),
    ] {
        let response = connection.method(method, path, &[("content-type", kind)]);
        assert_eq!(
            (response.status, field(&response.fields, "grpc-status")),
            (status, None),
            "{path} {kind}"
        );
    }
    assert_eq!(server.connect().method("POST", "/none", "Content-Type: application/grpc\r\n").status, 404);
    server.stop();
}

#[test]
fn a_call_that_is_too_large_has_a_status() {
    let upstream = framed::start(&[], |far| {
        far.request()?;
        far.peer.wait_for_end()
    });
    let server = Setup::with_files()
        .limit("body_bytes_max = 1000")
        .log("access = \"combined\"")
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", framed::name(&upstream)))
        .start();
    for announced in [true, false] {
        let mut connection = Connection::new(server.address);
        let fields = [("content-type", GRPC), ("content-length", "2000")];
        let id = connection.request("POST", "/", if announced { &fields } else { &fields[..1] }, false);
        if !announced {
            connection.upload(id, &[0; 2000], false);
        }
        let response = connection.response(id);
        assert_eq!((response.status, field(&response.fields, "grpc-status")), (200, Some("2")));
        assert!(field(&response.fields, "grpc-message").unwrap().starts_with("413"), "{response:?}");
    }
    // The log has what was decided, not what gRPC calls it.
    let stopped = server.stop();
    assert_eq!(
        stopped.access.iter().filter(|line| line.contains("\" 413 - ")).count(),
        2,
        "{:?}",
        stopped.access
    );
}

/// What a server says itself stays as it is, whatever its status.
#[test]
fn the_answer_of_a_server_is_not_changed() {
    let upstream = framed::start(&[], |far| {
        loop {
            let (id, ..) = far.request()?;
            far.send(head(id, &[(":status", "503"), ("content-type", "text/plain")], true))?;
        }
    });
    let server = Setup::with_files()
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", framed::name(&upstream)))
        .start();
    let mut connection = Connection::new(server.address);
    let id = connection.request("POST", "/", &[("content-type", GRPC)], true);
    let response = connection.response(id);
    assert_eq!((response.status, field(&response.fields, "grpc-status")), (503, None));
    server.stop();
}
