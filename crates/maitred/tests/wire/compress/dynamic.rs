//! What applications and servers send.

use std::io;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::compress::{decoded, json, readable};
use crate::support::h2::Connection;
use crate::support::upstream::{Peer, Upstream};
use crate::support::{Client, Server, Setup};

const APPLICATION: &[u8] = br#"
def application(environ, start_response):
    body = ("[" + ",".join('{"id":%d,"name":"item number %d"}' % (at, at) for at in range(1000)) + "]").encode()
    fields = [("Content-Type", "application/json"), ("ETag", '"a"')]
    how = environ["PATH_INFO"].rsplit("/", 1)[-1]
    if how == "length":
        start_response("200 OK", fields + [("Content-Length", str(len(body)))])
        return [body]
    start_response("200 OK", fields)
    return (body[at:at + 3000] for at in range(0, len(body), 3000))
"#;

/// Each way in which a body of 1,000 items can come, by the path.
fn serve(peer: &mut Peer) -> io::Result<()> {
    loop {
        let asked = peer.request()?;
        let (body, head) =
            (json(1000), "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nETag: \"a\"\r\n");
        if asked.line.starts_with("HEAD") {
            peer.send(format!("{head}Content-Length: {}\r\n\r\n", body.len()))?;
            continue;
        }
        match asked.target() {
            "/app/length" => peer.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))?,
            "/app/trailers" => {
                peer.send(format!("{head}Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"))?;
                peer.send(format!("{:x}\r\n{body}\r\n0\r\nX-Sum: 7\r\n\r\n", body.len()))?;
            }
            "/app/end" => {
                peer.send(format!("{head}Connection: close\r\n\r\n{body}"))?;
                return peer.finish();
            }
            _ => {
                peer.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n"))?;
                for piece in body.as_bytes().chunks(777) {
                    peer.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat())?;
                }
                peer.send("0\r\n\r\n")?;
            }
        }
    }
}

fn start(upstream: &Upstream, site: &str) -> Server {
    Setup::new()
        .outside("items.py", APPLICATION)
        .site(site)
        .route("/python/*", "pool = \"python\"")
        .route("/app/*", "pool = \"app\"")
        .python("python", "items:application", "UNUSED = \"\"", "")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
        .start()
}

const TARGETS: [&str; 6] =
    ["/python/length", "/python/pieces", "/app/length", "/app/pieces", "/app/end", "/app/trailers"];

#[test]
fn a_response_comes_in_the_coding_that_the_client_likes_best() {
    let upstream = Upstream::start(serve);
    let server = start(&upstream, "compress = true");
    let content = json(1000);
    for target in TARGETS {
        let mut client = server.connect();
        for (accepts, coding) in [
            ("gzip, deflate, br, zstd", Some("zstd")),
            ("gzip, deflate", Some("gzip")),
            ("zstd;q=0.5, gzip", Some("gzip")),
            ("br", None),
        ] {
            let response = client.method("GET", target, &format!("Accept-Encoding: {accepts}\r\n"));
            assert_eq!((response.status, response.field("content-encoding")), (200, coding), "{target}");
            assert_eq!(response.need("vary"), "Accept-Encoding");
            assert_eq!(response.need("etag"), if coding.is_some() { "W/\"a\"" } else { "\"a\"" });
            assert_eq!(decoded(coding, &response.body), content.as_bytes(), "{target} {accepts}");
            if coding.is_some() {
                assert_eq!(response.field("content-length"), None);
                assert!(response.body.len() < content.len() / 5, "{} bytes", response.body.len());
            }
        }
        let plain = client.get(target);
        assert_eq!((plain.field("content-encoding"), plain.need("vary")), (None, "Accept-Encoding"));
    }
    server.stop();
}

#[test]
fn streams_of_http_2_have_codings_as_well() {
    let upstream = Upstream::start(serve);
    let server = start(&upstream, "compress = true");
    let mut connection = Connection::new(server.address);
    for target in TARGETS {
        for (accepts, coding) in [("zstd", Some("zstd")), ("gzip", Some("gzip")), ("deflate", None)] {
            let response = connection.method("GET", target, &[("accept-encoding", accepts)]);
            assert_eq!((response.status, response.field("content-encoding")), (200, coding), "{target}");
            assert_eq!(response.need("vary"), "Accept-Encoding");
            assert_eq!(decoded(coding, &response.body), json(1000).as_bytes(), "{target} {accepts}");
            let trailers: Vec<_> =
                response.trailers.iter().map(|(name, value)| (&**name, &**value)).collect();
            let sum: &[_] = if target.ends_with("trailers") { &[("x-sum", "7")] } else { &[] };
            assert_eq!(trailers, sum, "{target}");
        }
    }
    server.stop();
}

#[test]
fn trailers_follow_what_was_coded() {
    let upstream = Upstream::start(serve);
    let server = start(&upstream, "compress = true");
    let mut client = server.connect();
    client.send("GET /app/trailers HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
    assert_eq!(client.head().unwrap().field("content-encoding"), Some("gzip"));
    let mut received = Vec::new();
    while !received.ends_with(b"\r\n\r\n") {
        received.extend(client.exactly(1).unwrap());
    }
    let text = String::from_utf8_lossy(&received);
    assert!(text.ends_with("\r\n0\r\nX-Sum: 7\r\n\r\n"), "{text}");
    server.stop();
}

#[test]
fn head_says_what_get_would() {
    let upstream = Upstream::start(serve);
    let server = start(&upstream, "compress = true");
    let mut client = server.connect();
    for (target, accepts, coding) in [
        ("/app/length", "zstd", Some("zstd")),
        ("/python/length", "gzip", Some("gzip")),
        ("/app/length", "br", None),
    ] {
        let head = client.method("HEAD", target, &format!("Accept-Encoding: {accepts}\r\n"));
        assert_eq!((head.status, head.field("content-encoding")), (200, coding), "{target}");
        assert_eq!(head.field("content-length").is_none(), coding.is_some());
        assert_eq!(head.need("vary"), "Accept-Encoding");
    }
    server.stop();
}

#[test]
fn http_1_0_gets_what_it_can_tell_the_end_of() {
    let upstream = Upstream::start(serve);
    let server = start(&upstream, "compress = true");
    for (target, length) in [("/app/length", Some(json(1000).len().to_string())), ("/app/pieces", None)] {
        let mut client = server.connect();
        let request = format!("GET {target} HTTP/1.0\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
        let response = client.ask(request);
        assert_eq!(response.field("content-encoding"), None);
        assert_eq!(response.field("content-length").map(str::to_owned), length);
        assert_eq!((response.need("vary"), response.text()), ("Accept-Encoding", &*json(1000)));
    }
    server.stop();
}

/// The beginning of a response, up to where this many bytes of its content can be read.
fn read_content(client: &mut Client, body: &mut Vec<u8>, bytes: usize) {
    while readable(body).len() < bytes {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(client.exactly(1).unwrap());
        }
        let size = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
        body.extend(client.exactly(size).unwrap());
        assert_eq!(client.exactly(2).unwrap(), b"\r\n");
    }
}

#[test]
fn what_an_application_has_sent_is_there_while_it_waits() {
    let (go_on, next) = channel();
    let next = Mutex::new(next);
    let upstream = Upstream::start(move |peer| {
        peer.request()?;
        peer.send(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        for event in 0..5 {
            peer.send(format!("f\r\ndata: event {event}\n\n\r\n"))?;
            next.lock().unwrap().recv().unwrap();
        }
        peer.send("0\r\n\r\n")
    });
    let server = start(&upstream, "compress = { types = [\"text/event-stream\"] }");
    let ask = "GET /app/events HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";
    let mut client = server.connect();
    client.send(ask);
    let head = client.head().unwrap();
    assert_eq!((head.field("content-encoding"), head.field("content-length")), (Some("gzip"), None));
    let mut body = Vec::new();
    for event in 0..5 {
        read_content(&mut client, &mut body, (event + 1) * 15);
        assert!(readable(&body).ends_with(format!("data: event {event}\n\n").as_bytes()));
        go_on.send(()).unwrap();
    }
    // The last piece ends the coding.
    let mut rest = Vec::new();
    while !rest.ends_with(b"\r\n0\r\n\r\n") {
        rest.extend(client.exactly(1).unwrap());
    }
    let mut connection = Connection::new(server.address);
    let id = connection.request("GET", "/app/events", &[("accept-encoding", "gzip")], true);
    for event in 0..5 {
        while readable(&connection.stream(id).body).len() < (event + 1) * 15 {
            connection.step().unwrap();
        }
        go_on.send(()).unwrap();
    }
    assert_eq!(decoded(Some("gzip"), &connection.response(id).body).len(), 5 * 15);
    server.stop();
}

#[test]
fn fastcgi_applications_are_compressed_like_others() {
    // The records of a whole response: STDOUT, and END_REQUEST.
    let record = |kind: u8, content: &[u8]| {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
    };
    let body = json(1000);
    let head = "Content-Type: application/json\r\n\r\n";
    let answer = [
        record(6, head.as_bytes()),
        body.as_bytes().chunks(10_000).flat_map(|piece| record(6, piece)).collect(),
        record(6, b""),
        record(3, &[0; 8]),
    ]
    .concat();
    let upstream = Upstream::start(move |peer| {
        // The empty record that ends the request's body.
        let mut received = Vec::new();
        while !received.ends_with(&[1, 5, 0, 1, 0, 0, 0, 0]) {
            received.extend(peer.take(8)?);
        }
        peer.send(&answer)
    });
    let connect = upstream.name().replace("http://", "fastcgi://");
    let server = Setup::new()
        .site("compress = true")
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"{connect}\"\n"))
        .start();
    for coding in ["zstd", "gzip"] {
        let response = server.connect().method("GET", "/x", &format!("Accept-Encoding: {coding}\r\n"));
        assert_eq!((response.status, response.field("content-encoding")), (200, Some(coding)));
        assert_eq!(decoded(Some(coding), &response.body), body.as_bytes());
    }
    server.stop();
}

#[test]
fn a_response_that_breaks_off_does_not_look_whole() {
    let upstream = Upstream::start(|peer| {
        peer.request()?;
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5000\r\n\r\nbegun")?;
        peer.finish()
    });
    let server = start(&upstream, "compress = true");
    let mut client = server.connect();
    client.send("GET /app/x HTTP/1.1\r\nHost: a\r\nAccept-Encoding: zstd\r\n\r\n");
    assert_eq!(client.head().unwrap().need("content-encoding"), "zstd");
    // Up to the end of the connection, or its reset.
    let mut received = Vec::new();
    while let Ok(byte) = client.exactly(1) {
        received.extend(byte);
    }
    assert!(!received.ends_with(b"0\r\n\r\n"), "{received:?}");
    // The encoder is free again.
    let mut connection = Connection::new(server.address);
    let id = connection.request("GET", "/app/x", &[("accept-encoding", "zstd")], true);
    assert!(connection.try_response(id).is_err());
    server.stop();
}
