//! `health`: servers that are checked, and get requests only while they are well.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering::SeqCst};

use rustix::process::Signal;
use serde_json::Value;

use crate::proxy::secure::{Authority, config};
use crate::support::framed::{self, Far, field, head};
use crate::support::h2::frame;
use crate::support::upstream::{Peer, Upstream};
use crate::support::{Client, Server, Setup, eventually};

const QUICK: &str = "interval = \"100ms\", healthy_after = 2, unhealthy_after = 2";

/// What a server says to checks, changed by the test; to all else it says its name.
struct Checked {
    upstream: Upstream,
    status: Arc<AtomicU16>,
    checks: Arc<AtomicUsize>,
}

/// A server that is asked for `/healthz?deep`.
fn checked(name: &'static str) -> Checked {
    let (status, checks) = (Arc::new(AtomicU16::new(200)), Arc::new(AtomicUsize::new(0)));
    let (says, counts) = (status.clone(), checks.clone());
    let upstream = Upstream::start(move |peer: &mut Peer| {
        loop {
            let asked = peer.request()?;
            if asked.target() != "/healthz?deep" {
                peer.answer(name)?;
                continue;
            }
            assert_eq!(
                (asked.field("host"), asked.line.as_str()),
                (Some("up.example"), "GET /healthz?deep HTTP/1.1")
            );
            counts.fetch_add(1, SeqCst);
            peer.send(format!("HTTP/1.1 {} X\r\nContent-Length: 2\r\n\r\nok", says.load(SeqCst)))?;
        }
    });
    Checked { upstream, status, checks }
}

impl Checked {
    /// Waits until so many more checks have begun; all but the last have ended.
    fn wait_for_checks(&self, more: usize) {
        let before = self.checks.load(SeqCst);
        eventually("it is checked", || self.checks.load(SeqCst) >= before + more);
    }
}

fn start(servers: &[&Checked], lines: &str) -> Server {
    let upstreams: Vec<&Upstream> = servers.iter().map(|server| &server.upstream).collect();
    let health =
        format!("{{ path = \"/healthz?deep\", host = \"up.example\", statuses = \"200\", {QUICK} }}");
    crate::proxy::setup(&upstreams, &format!("health = {health}\n{lines}")).start()
}

/// Who answers ten requests.
fn answers(client: &mut Client) -> BTreeSet<String> {
    (0..10).map(|_| client.get("/x").text().to_owned()).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// `health` and `why` of each server.
fn listed(server: &Server) -> Vec<(String, Option<String>)> {
    let (status, text) = server.command(&["upstream", "app", "--json"]);
    assert!(status.success(), "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let show = |one: &Value| (text(&one["health"]).unwrap(), text(&one["why"]));
    document["servers"].as_array().unwrap().iter().map(show).collect()
}

#[test]
fn a_server_whose_checks_fail_gets_no_requests_until_it_is_well() {
    let (one, two, three) = (checked("one"), checked("two"), checked("three"));
    let server = start(&[&one, &two, &three], "");
    let mut client = server.connect();
    one.wait_for_checks(4);
    assert_eq!(answers(&mut client), names(&["one", "two", "three"]));
    one.status.store(301, SeqCst);
    eventually("it gets none", || answers(&mut client) == names(&["two", "three"]));
    let well = ("well".to_owned(), None);
    let unwell = ("unwell".to_owned(), Some("it answers with 301".to_owned()));
    assert_eq!(listed(&server), [unwell.clone(), well.clone(), well.clone()]);
    let (_, text) = server.command(&["upstream", "app"]);
    assert!(text.contains("active, unwell") && text.contains("is unwell: it answers with 301"), "{text}");
    server.wait_for("a server is unwell: it answers with 301");
    // A new worker process knows it from its beginning on.
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    assert_eq!(answers(&mut server.connect()), names(&["two", "three"]));
    assert_eq!(listed(&server), [unwell, well.clone(), well.clone()]);
    one.status.store(200, SeqCst);
    let mut client = server.connect();
    eventually("it gets requests again", || answers(&mut client).contains("one"));
    server.wait_for("a server is well again");
    assert_eq!(listed(&server), [well.clone(), well.clone(), well]);
    assert_eq!(server.total("upstream_failures"), 0, "no request has failed");
    server.stop();
}

#[test]
fn if_most_are_unwell_that_is_not_believed() {
    let servers = [checked("one"), checked("two"), checked("three")];
    let all: Vec<&Checked> = servers.iter().collect();
    let server = start(&all, "");
    let mut client = server.connect();
    servers[0].status.store(500, SeqCst);
    eventually("one is out", || answers(&mut client) == names(&["two", "three"]));
    servers[1].status.store(500, SeqCst);
    eventually("two of three are", || answers(&mut client) == names(&["one", "two", "three"]));
    servers[2].status.store(500, SeqCst);
    eventually("all are", || listed(&server).iter().all(|(health, _)| health == "unwell"));
    assert_eq!(answers(&mut client), names(&["one", "two", "three"]));
    server.stop();
}

#[test]
fn servers_that_come_are_checked_and_those_that_go_are_not() {
    let (one, two, three) = (checked("one"), checked("two"), checked("three"));
    three.status.store(404, SeqCst);
    let server = start(&[&one, &two], "");
    let told = |action: &str| {
        let target = format!("/upstreams/app/{action}?address={}", three.upstream.address());
        let answer = server.admin(&format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    told("add");
    eventually("it is unwell", || listed(&server).iter().any(|(health, _)| health == "unwell"));
    told("remove");
    eventually("it has gone", || listed(&server).len() == 2);
    // A check may have begun before that was said.
    eventually("it is checked no more", || {
        let before = three.checks.load(SeqCst);
        one.wait_for_checks(3);
        three.checks.load(SeqCst) == before
    });
    // What was found before is forgotten.
    three.status.store(200, SeqCst);
    told("add");
    assert_eq!(listed(&server).iter().filter(|(health, _)| health == "well").count(), 3);
    three.wait_for_checks(2);
    server.stop();
}

#[test]
fn a_process_that_checks_is_replaced_and_what_it_has_found_stays() {
    let (one, two, three) = (checked("one"), checked("two"), checked("three"));
    let server = start(&[&one, &two, &three], "");
    one.status.store(500, SeqCst);
    let mut client = server.connect();
    eventually("it gets none", || answers(&mut client) == names(&["two", "three"]));
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid())).unwrap();
    let is_agent = |pid: &&str| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"maitred: checks"))
    };
    let agent: i32 = children.split_whitespace().find(is_agent).unwrap().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(agent).unwrap(), Signal::KILL).unwrap();
    server.wait_for("the process that checks servers");
    assert_eq!(answers(&mut client), names(&["two", "three"]));
    one.status.store(200, SeqCst);
    eventually("the next one finds it well", || answers(&mut client).contains("one"));
    // The server has logged an error.
    assert!(server.terminate(Signal::TERM).status.success());
}

/// A pool with a server of which nothing is known but its address, beside one that says nothing; gives back what is said of it.
fn found(setup: Setup, connect: &str, lines: &str) -> Server {
    setup
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = [{connect}]\n{lines}\n"))
        .start()
}

/// Waits until the only server is in this state.
fn expect(server: &Server, health: &str, why: &str) {
    eventually(health, || {
        let now = listed(server);
        now[0].0 == health && now[0].1.as_deref().unwrap_or_default().contains(why)
    });
}

#[test]
fn a_connection_is_a_check_too() {
    let here = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = here.local_addr().unwrap();
    for scheme in ["http", "fastcgi"] {
        let health = format!("health = {{ kind = \"tcp\", {QUICK} }}");
        let server = found(Setup::with_files(), &format!("\"{scheme}://{address}\""), &health);
        let (connection, _) = here.accept().unwrap();
        drop(connection);
        here.accept().unwrap();
        assert_eq!(listed(&server), [("well".to_owned(), None)]);
        server.stop();
    }
    let health = format!("health = {{ {QUICK} }}");
    let server = found(Setup::with_files(), &format!("\"fastcgi://{address}\""), &health);
    here.accept().unwrap();
    drop(here);
    expect(&server, "unwell", "no connection: Connection refused");
    server.stop();
}

#[test]
fn another_port_says_how_the_server_is() {
    let app = Upstream::start(|peer| {
        loop {
            peer.request()?;
            peer.answer("app")?;
        }
    });
    let (status, checks) = (Arc::new(AtomicU16::new(200)), Arc::new(AtomicUsize::new(0)));
    let (says, counts) = (status.clone(), checks.clone());
    let beside = Upstream::start(move |peer| {
        let asked = peer.request()?;
        // The name of the server itself, and no header of the PROXY protocol.
        assert!(asked.line.starts_with("GET /up ") && asked.field("host").is_some());
        counts.fetch_add(1, SeqCst);
        peer.send(format!("HTTP/1.1 {} X\r\nContent-Length: 0\r\n\r\n", says.load(SeqCst)))
    });
    let health = format!("health = {{ path = \"/up\", port = {}, {QUICK} }}", beside.address().port());
    let server = found(Setup::with_files(), &format!("\"{}\"", app.name()), &health);
    eventually("it is checked", || checks.load(SeqCst) >= 3);
    assert_eq!(listed(&server), [("well".to_owned(), None)]);
    assert_eq!((server.connect().get("/").text(), app.requests()), ("app", 1));
    status.store(503, SeqCst);
    expect(&server, "unwell", "it answers with 503");
    server.stop();
    let server = found(
        Setup::with_files(),
        &format!("\"http://127.0.0.1:{}\"", app.address().port()),
        &format!("proxy_protocol = \"v2\"\n{health}"),
    );
    status.store(200, SeqCst);
    let before = checks.load(SeqCst);
    eventually("it is checked", || checks.load(SeqCst) >= before + 3);
    assert_eq!(listed(&server), [("well".to_owned(), None)]);
    server.stop();
}

#[test]
fn a_body_is_good_that_contains_a_text() {
    const KIB: usize = 1024;
    for (body, well) in [
        ("state: fine".to_owned(), true),
        (format!("{}fine", "x".repeat(64 * KIB - 4)), true),
        (format!("{}fine", "x".repeat(64 * KIB - 3)), false),
        (format!("{}fine", "x".repeat(KIB * KIB)), false),
        ("FINE".to_owned(), false),
        (String::new(), false),
    ] {
        // In pieces, which a text may lie across.
        let pieces: Vec<String> =
            body.as_bytes().chunks(10_001).map(|piece| String::from_utf8(piece.to_vec()).unwrap()).collect();
        let app = Upstream::start(move |peer| {
            peer.request()?;
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for piece in &pieces {
                peer.send(format!("{:x}\r\n{piece}\r\n", piece.len()))?;
            }
            peer.send("0\r\n\r\n")
        });
        let health = format!("health = {{ body_contains = \"fine\", {QUICK} }}");
        let server = found(Setup::with_files(), &format!("\"{}\"", app.name()), &health);
        match well {
            true => {
                eventually("it is checked", || app.requests() >= 4);
                assert_eq!(listed(&server), [("well".to_owned(), None)], "{}", body.len());
            }
            false => expect(&server, "unwell", "its body does not contain \"fine\""),
        }
        server.stop();
    }
}

#[test]
fn a_server_that_does_not_end_its_answer_in_time_is_unwell() {
    let silent = Upstream::start(|peer| {
        peer.request()?;
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbegun")?;
        peer.wait_for_end()
    });
    let health = format!("health = {{ {QUICK}, timeout = \"50ms\" }}");
    let server = found(Setup::with_files(), &format!("\"{}\"", silent.name()), &health);
    expect(&server, "unwell", "no answer within 50 ms");
    // The connection of a check is not kept.
    eventually("no more than one is open", || silent.open() <= 1);
    server.stop();
}

#[test]
fn a_server_is_checked_as_it_is_spoken_to() {
    let ok = |peer: &mut Peer| {
        let asked = peer.request()?;
        peer.answer(asked.field("host").unwrap())
    };
    let health = format!("health = {{ path = \"/up\", {QUICK} }}");
    // On a Unix socket.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.sock");
    let unix = Upstream::unix(&path, ok);
    let server = found(Setup::with_files(), &format!("\"{}\"", unix.name()), &health);
    eventually("it is checked", || unix.requests() >= 3);
    assert_eq!(listed(&server), [("well".to_owned(), None)]);
    std::fs::remove_file(&path).unwrap();
    expect(&server, "unwell", "no connection");
    server.stop();
    // Over TLS: its certificate is verified as for requests.
    let authority = Authority::new();
    let secure = Upstream::secure(config(&authority.sign("inner.example", 2100), None), ok);
    let other = Authority::new();
    for (ca, well) in [(&authority, true), (&other, false)] {
        let setup = Setup::with_files().outside("ca.pem", ca.pem.as_bytes());
        let tls = "tls = { ca = \"ca.pem\", server_name = \"inner.example\" }";
        let server = found(setup, &format!("\"{}\"", secure.name()), &format!("{health}\n{tls}"));
        match well {
            true => {
                let before = secure.requests();
                eventually("it is checked", || secure.requests() >= before + 3);
                assert_eq!(listed(&server), [("well".to_owned(), None)]);
            }
            false => expect(&server, "unwell", "TLS: invalid peer certificate"),
        }
        server.stop();
    }
    // By HTTP/2.
    let streams = framed::start(&[], |far| {
        let (id, fields, _) = far.request()?;
        let good = field(&fields, ":path") == Some("/up");
        far.answer(id, if good { "ok" } else { "" })?;
        far.peer.wait_for_end()
    });
    let server = found(Setup::with_files(), &format!("\"{}\"", framed::name(&streams)), &health);
    eventually("it is checked", || streams.connections() >= 3);
    assert_eq!(listed(&server), [("well".to_owned(), None)]);
    server.stop();
}

#[test]
fn a_server_of_grpc_is_asked_whether_a_service_serves() {
    let state = Arc::new(AtomicU16::new(1));
    let says = state.clone();
    let serve = move |far: &mut Far<'_>| {
        let (id, fields, content) = far.request()?;
        assert_eq!(field(&fields, ":path"), Some("/grpc.health.v1.Health/Check"));
        assert_eq!(
            (field(&fields, "te"), content.as_slice()),
            (Some("trailers"), &b"\0\0\0\0\x06\x0a\x04shop"[..])
        );
        let first = head(id, &[(":status", "200"), ("content-type", "application/grpc")], false);
        let message = [0, 0, 0, 0, 2, 8, says.load(SeqCst) as u8];
        let trailers = head(id, &[("grpc-status", "0")], true);
        let trailers_only = head(id, &[(":status", "200"), ("grpc-status", "12")], true);
        match says.load(SeqCst) {
            12 => far.send(trailers_only)?,
            _ => far.send([first, frame::data(id, &message, false), trailers].concat())?,
        }
        far.peer.wait_for_end()
    };
    let upstream = framed::start(&[], serve);
    let health = format!("health = {{ kind = \"grpc\", service = \"shop\", {QUICK} }}");
    let server = found(Setup::with_files(), &format!("\"{}\"", framed::name(&upstream)), &health);
    eventually("it is checked", || upstream.connections() >= 3);
    assert_eq!(listed(&server), [("well".to_owned(), None)]);
    state.store(2, SeqCst);
    expect(&server, "unwell", "it says NOT_SERVING");
    state.store(1, SeqCst);
    expect(&server, "well", "");
    state.store(12, SeqCst);
    expect(&server, "unwell", "gRPC status 12");
    server.stop();
}
