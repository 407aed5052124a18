//! `host` of a pool: what `Host` says to a server.

use crate::proxy::setup;
use crate::support::upstream::{Asked, Peer, Upstream};
use crate::support::{Server, Setup};

/// What a server was told.
fn told(asked: &Asked) -> String {
    let field = |name| asked.field(name).unwrap_or("-");
    format!("{} {}", field("host"), field("x-forwarded-host"))
}

fn echo(peer: &mut Peer) -> std::io::Result<()> {
    loop {
        let asked = peer.request()?;
        assert_eq!(asked.fields.iter().filter(|(name, _)| name == "host").count(), 1);
        peer.answer(told(&asked))?;
    }
}

fn authority(upstream: &Upstream) -> &str {
    upstream.name().trim_start_matches("http://")
}

fn get(server: &Server) -> String {
    server.connect().get("/x").text().to_owned()
}

#[test]
fn a_server_is_told_the_host_that_its_pool_names() {
    let upstream = Upstream::start(echo);
    let own = format!("{} localhost", authority(&upstream));
    for (keys, expected) in [
        ("", "localhost localhost"),
        ("host = \"client\"", "localhost localhost"),
        ("host = \"server\"", own.as_str()),
        ("host = \"inner.example:81\"", "inner.example:81 localhost"),
    ] {
        let server = setup(&[&upstream], keys).start();
        assert_eq!(get(&server), expected, "{keys}");
        server.stop();
    }
}

#[test]
fn a_host_may_be_made_of_the_clients() {
    let upstream = Upstream::start(echo);
    for (rule, asked, expected) in [
        ("{host}", "a.example:81", "a.example"),
        ("{host}", "[::1]:81", "[::1]"),
        ("{host}", "a.example", "a.example"),
        ("{host}:PORT", "a.example:81", "a.example:PORT"),
        ("www.{host}:{port}", "a.example:81", "www.a.example:PORT"),
    ] {
        let server = setup(&[&upstream], &format!("host = \"{}\"", rule.replace("PORT", "{port}"))).start();
        let port = server.address.port().to_string();
        let said = server.connect().ask(format!("GET /x HTTP/1.1\r\nHost: {asked}\r\n\r\n"));
        assert_eq!(said.text(), format!("{} {asked}", expected.replace("PORT", &port)), "{rule} {asked}");
        server.stop();
    }
    let server = setup(&[&upstream], "host = \"{host}\"").start();
    let own = authority(&upstream).split(':').next().unwrap_or_default();
    assert_eq!(server.connect().ask("GET /x HTTP/1.0\r\n\r\n").text(), format!("{own} -"));
    server.stop();
}

#[test]
fn a_route_overrides_its_pool() {
    let upstream = Upstream::start(echo);
    let server = Setup::with_files()
        .route("/*", "pool = \"app\"\nrequest_headers = { set = { Host = \"route.example\" } }")
        .table(&format!("[pool.app]\nconnect = \"{}\"\nhost = \"server\"\n", upstream.name()))
        .start();
    assert_eq!(get(&server), "route.example localhost");
    server.stop();
}

#[test]
fn the_next_server_is_told_its_own_name() {
    // Servers that take the request and end: it is sent to the next one, whose name has another length.
    let directory = tempfile::tempdir().unwrap();
    let path = |number| directory.path().join(format!("{number}"));
    let ends = |number| Upstream::unix(&path(number), |peer| peer.request().map(drop));
    let gone: Vec<Upstream> = (0..3).map(ends).collect();
    let last = Upstream::start(echo);
    let mut all: Vec<&Upstream> = gone.iter().collect();
    all.push(&last);
    let server = setup(&all, "host = \"server\"").start();
    for _ in 0..4 {
        assert_eq!(get(&server), format!("{} localhost", authority(&last)));
    }
    assert!(server.total("upstream_retries") >= 1, "others were tried");
    server.stop();
}
