//! `response_head_bytes_max` and `response_fields_max` of a pool: at each bound, and just beyond it.

use crate::proxy::fastcgi;
use crate::support::framed;
use crate::support::h2::Connection;
use crate::support::h2::frame;
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup};

/// What a path such as `/fields/20` or `/bytes/2048` asks for.
fn wanted(target: &str) -> (bool, usize) {
    let (kind, count) = target[1..].split_once('/').unwrap();
    (kind == "fields", count.parse().unwrap())
}

/// A head of lines, with so many fields, or bytes; it begins with `first` and one field.
fn lines(first: &str, field: &str, target: &str) -> String {
    let start = format!("{first}{field}\r\n");
    match wanted(target) {
        (true, count) => format!("{start}{}\r\n", "Set-Cookie: b\r\n".repeat(count - 1)),
        (false, count) => format!("{start}X-A: {}\r\n\r\n", "a".repeat(count - start.len() - 9)),
    }
}

fn http1() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let head = lines("HTTP/1.1 200 OK\r\n", "Content-Length: 2", asked.target());
            peer.send(format!("{head}ok"))?;
        }
    })
}

fn application() -> Upstream {
    Upstream::start(|peer| {
        let asked = fastcgi::head(peer)?;
        fastcgi::record(peer)?;
        let head = lines("", "Content-Type: text/plain", asked.get("REQUEST_URI").unwrap());
        fastcgi::answer_with(peer, &format!("{head}ok"))
    })
}

fn http2() -> Upstream {
    framed::start(&[], |far| {
        loop {
            let (id, fields, _) = far.request()?;
            let target = framed::field(&fields, ":path").unwrap();
            let value;
            let fields = match wanted(target) {
                (true, count) => [vec![(":status", "200")], vec![("set-cookie", "b"); count]].concat(),
                (false, count) => {
                    // Each field counts as 32 bytes more than it has (RFC 7541 section 4.1).
                    value = "a".repeat(count - (":status".len() + 3 + 32) - ("x-a".len() + 32));
                    vec![(":status", "200"), ("x-a", &value)]
                }
            };
            let head = framed::head(id, &fields, false);
            far.send([head, frame::data(id, b"ok", true)].concat())?;
        }
    })
}

fn start(connect: &str, lines: &str) -> Server {
    Setup::with_files()
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"{connect}\"\n{lines}\n"))
        .start()
}

#[test]
fn heads_of_responses_are_bounded_for_all_kinds_of_servers() {
    let (plain, cgi, streams) = (http1(), application(), http2());
    let connects = [
        (plain.name().to_owned(), "fields in a response head", "response head over 2048 bytes"),
        (
            format!("fastcgi://{}", cgi.address()),
            "fields in a response head",
            "response head over 2048 bytes",
        ),
        (framed::name(&streams), "", ""),
    ];
    for (connect, fields, bytes) in connects {
        let server = start(&connect, "response_fields_max = 20\nresponse_head_bytes_max = \"2k\"");
        for (target, status, message) in [
            ("/fields/20", 200, ""),
            ("/fields/21", 502, fields),
            ("/bytes/2048", 200, ""),
            ("/bytes/2049", 502, bytes),
        ] {
            let response = server.connect().get(target);
            assert_eq!(response.status, status, "{connect} {target}");
            let response = Connection::new(server.address_of("http")).get(target);
            assert_eq!(response.status, status, "{connect} {target} over HTTP/2");
            server.wait_for(message);
        }
        server.stop();
    }
}

#[test]
fn heads_may_be_longer_than_by_default() {
    let plain = http1();
    let server = start(plain.name(), "response_fields_max = 4096\nresponse_head_bytes_max = \"1m\"");
    for (target, status) in
        [("/fields/4096", 200), ("/fields/4097", 502), ("/bytes/1048576", 200), ("/bytes/1048577", 502)]
    {
        let response = server.connect().get(target);
        assert_eq!(response.status, status, "{target}");
        if target == "/fields/4096" {
            assert_eq!(response.fields.iter().filter(|(name, _)| name == "Set-Cookie").count(), 4095);
        }
        let response = Connection::new(server.address_of("http")).get(target);
        assert_eq!(response.status, status, "{target} over HTTP/2");
    }
    server.stop();
    let server = start(plain.name(), "");
    for (target, status) in
        [("/fields/1000", 200), ("/fields/1001", 502), ("/bytes/65536", 200), ("/bytes/65537", 502)]
    {
        assert_eq!(server.connect().get(target).status, status, "{target}");
    }
    server.stop();
}
