//! Statuses: the same ones pass from every kind of pool to clients of every version, and those that are none do not.

use crate::proxy::fastcgi;
use crate::support::h2::{self, frame};
use crate::support::h3::{self, Asks as _, connect};
use crate::support::upstream::Upstream;
use crate::support::{Client, Server, framed};

const STATUSES: &str = r#"
def application(environ, start_response):
    start_response(environ["PATH_INFO"].rsplit("/", 1)[-1] + " Odd", [("Content-Length", "2")])
    return [b"ok"]
"#;

/// What stands behind the last slash.
fn last(target: &str) -> &str {
    target.rsplit('/').next().unwrap()
}

fn http1() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let status = last(asked.target());
            peer.send(format!("HTTP/1.1 {status} Odd\r\nContent-Length: 2\r\n\r\nok"))?;
        }
    })
}

fn cgi() -> Upstream {
    Upstream::start(|peer| {
        let asked = fastcgi::request(peer)?;
        let status = last(asked.get("REQUEST_URI").unwrap()).to_owned();
        fastcgi::answer_with(peer, &format!("Status: {status} Odd\r\nContent-Type: a/b\r\n\r\nok"))
    })
}

fn http2() -> Upstream {
    framed::start(&[], |far| {
        loop {
            let (id, fields, _) = far.request()?;
            let status = last(framed::field(&fields, ":path").unwrap()).to_owned();
            let head = framed::head(id, &[(":status", &status), ("content-length", "2")], false);
            far.send([head, frame::data(id, b"ok", true)].concat())?;
        }
    })
}

/// A server with a pool of each kind, by the name of its path; HTTP/1 and HTTP/2 without TLS, and HTTP/3.
fn start(upstreams: [&str; 3]) -> Server {
    let pools = ["h1", "cgi", "h2"].into_iter().zip(upstreams);
    let mut setup = h3::setup("").outside("statuses.py", STATUSES.as_bytes());
    for (name, connect) in pools {
        setup = setup
            .route(&format!("/{name}/*"), &format!("pool = \"{name}\""))
            .table(&format!("[pool.{name}]\nconnect = \"{connect}\"\n"));
    }
    for transport in ["direct", "relay"] {
        setup = setup.route(&format!("/{transport}/*"), &format!("pool = \"{transport}\"")).python(
            transport,
            "statuses:application",
            "",
            &format!("transport = \"{transport}\"\nworkers = 1"),
        );
    }
    let server = setup.table("[[listen]]\naddress = \"127.0.0.1:0\"\n").start();
    server.wait_for_processes();
    server
}

const KINDS: [&str; 5] = ["h1", "cgi", "h2", "direct", "relay"];

#[test]
fn every_kind_of_server_may_say_every_status() {
    let (plain, application, streams) = (http1(), cgi(), http2());
    let names =
        [plain.name().to_owned(), format!("fastcgi://{}", application.address()), framed::name(&streams)];
    let server = start([&names[0], &names[1], &names[2]]);
    let address = server.address_of("http");
    let mut guest = connect(&server);
    let mut asked = 0;
    for kind in KINDS {
        for status in [200, 299, 418, 450, 599, 600, 777, 999] {
            let target = format!("/{kind}/{status}");
            let response = Client::connect(address).get(&target);
            assert_eq!((response.status, response.text()), (status, "ok"), "{target}");
            // HTTP/2 has no phrases, and what is not registered has none.
            let phrase = match (kind, status) {
                ("h2", 200) => "OK",
                ("h2", 418) => "I'm a teapot",
                ("h2", _) => "",
                _ => "Odd",
            };
            assert_eq!(response.reason, phrase, "{target}");
            let response = h2::get(address, &target);
            assert_eq!((response.status, response.text()), (status, "ok"), "{target} over HTTP/2");
            let response = guest.ask("GET", &target, &[], b"");
            assert_eq!((response.status, &response.body[..]), (status, &b"ok"[..]), "{target} over HTTP/3");
            asked += 3;
        }
    }
    let status = server.status();
    let text = status.to_string();
    drop(guest);
    let lines = server.stop().access;
    assert_eq!(
        lines.iter().filter(|line| line.contains("/999 HTTP/") && line.contains("\" 999 ")).count(),
        15
    );
    assert_eq!(lines.len(), asked);
    // Clients take what is beyond for an error of the server (9110-15), and so it is counted.
    let beyond = 4 * 3 * KINDS.len() as u64;
    assert_eq!(status["totals"]["responses"]["5xx"].as_u64(), Some(beyond), "{text}");
}

#[test]
fn what_is_no_status_is_no_response() {
    let (plain, application, streams) = (http1(), cgi(), http2());
    let names =
        [plain.name().to_owned(), format!("fastcgi://{}", application.address()), framed::name(&streams)];
    let server = start([&names[0], &names[1], &names[2]]);
    let address = server.address_of("http");
    let mut guest = connect(&server);
    for kind in ["h1", "cgi", "h2"] {
        for status in ["000", "099", "20", "2000", "2x0", "-20", "101"] {
            let target = format!("/{kind}/{status}");
            assert_eq!(Client::connect(address).get(&target).status, 502, "{target}");
            assert_eq!(h2::get(address, &target).status, 502, "{target} over HTTP/2");
            assert_eq!(guest.ask("GET", &target, &[], b"").status, 502, "{target} over HTTP/3");
        }
    }
    drop(guest);
    server.stop();
}

/// PHP sends an empty `Content-Type` for `default_mimetype = ""`.
#[test]
fn an_empty_content_type_reaches_nobody() {
    let plain = Upstream::start(|peer| {
        loop {
            peer.request()?;
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: \r\nContent-Length: 2\r\n\r\nok")?;
        }
    });
    let application = Upstream::start(|peer| {
        fastcgi::request(peer)?;
        fastcgi::answer_with(peer, "Content-type: \r\nX-A: b\r\n\r\nok")
    });
    let streams = framed::start(&[], |far| {
        loop {
            let (id, ..) = far.request()?;
            let head = framed::head(id, &[(":status", "200"), ("content-type", "")], false);
            far.send([head, frame::data(id, b"ok", true)].concat())?;
        }
    });
    let names =
        [plain.name().to_owned(), format!("fastcgi://{}", application.address()), framed::name(&streams)];
    let server = start([&names[0], &names[1], &names[2]]);
    let address = server.address_of("http");
    let mut guest = connect(&server);
    for kind in ["h1", "cgi", "h2"] {
        let target = format!("/{kind}/");
        let response = Client::connect(address).get(&target);
        assert_eq!((response.text(), response.field("content-type")), ("ok", None), "{kind}");
        let response = h2::get(address, &target);
        assert_eq!((response.text(), response.field("content-type")), ("ok", None), "{kind} over HTTP/2");
        let response = guest.ask("GET", &target, &[], b"");
        assert_eq!(response.field("content-type"), None, "{kind} over HTTP/3");
    }
    drop(guest);
    server.stop();
}
