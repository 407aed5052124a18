//! `grpc_web`: calls of browsers become calls of gRPC, and come back as such of gRPC-Web.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::support::framed::{self, Came, Fields, field, head};
use crate::support::h2::Connection;
use crate::support::h2::frame::data;
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup, TIMEOUT};

const MESSAGE: &[u8] = b"\0\0\0\0\x04some";

fn start(upstream: &Upstream, lines: &str) -> Server {
    Setup::with_files()
        .route("/plain", "pool = \"app\"")
        .route("/*", &format!("pool = \"app\"\ngrpc_web = true\n{lines}"))
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", framed::name(upstream)))
        .start()
}

/// A server that answers with what it has got, in two messages, with trailers.
fn echoing() -> (Upstream, Receiver<(Fields, Vec<u8>)>) {
    let (sender, asked) = channel();
    let sender = Mutex::new(sender);
    let upstream = framed::start(&[], move |far| {
        loop {
            let (id, fields, content) = match far.request() {
                // A stream that was reset; others go on.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => continue,
                asked => asked?,
            };
            let kind = field(&fields, "content-type").unwrap_or_default().to_owned();
            let begin =
                [(":status", "200"), ("content-type", &kind), ("trailer", "grpc-status"), ("x-a", "b")];
            far.send(head(id, &begin, false))?;
            far.send([data(id, &content, false), data(id, MESSAGE, false)].concat())?;
            far.send(head(id, &[("grpc-status", "0"), ("grpc-message", "fine"), ("x-sum", "17")], true))?;
            sender.lock().unwrap().send((fields, content)).unwrap();
        }
    });
    (upstream, asked)
}

/// The messages of a body, and its trailers.
fn parts(body: &[u8], text: bool) -> (Vec<u8>, String) {
    let mut body = body.to_vec();
    if text {
        // Pieces have padding of their own.
        body = body.chunks(4).flat_map(|group| STANDARD.decode(group).unwrap()).collect();
    }
    let (mut messages, mut rest) = (Vec::new(), &body[..]);
    loop {
        let (&[kind, a, b, c, d], behind) = rest.split_first_chunk::<5>().unwrap();
        let (content, behind) = behind.split_at(u32::from_be_bytes([a, b, c, d]) as usize);
        if kind == 0x80 {
            assert!(behind.is_empty(), "trailers are the last");
            return (messages, String::from_utf8(content.to_vec()).unwrap());
        }
        messages.extend_from_slice(content);
        rest = behind;
    }
}

const TRAILERS: &str = "grpc-status: 0\r\ngrpc-message: fine\r\nx-sum: 17\r\n";

#[test]
fn calls_become_calls_of_grpc_and_come_back() {
    let (upstream, asked) = echoing();
    let server = start(&upstream, "");
    for (kind, towards) in [
        ("application/grpc-web+proto", "application/grpc+proto"),
        ("application/grpc-web", "application/grpc"),
        ("application/grpc-web-text+proto", "application/grpc+proto"),
        ("application/grpc-web-text", "application/grpc"),
    ] {
        let text = kind.contains("text");
        let body = if text { STANDARD.encode(MESSAGE).into_bytes() } else { MESSAGE.to_vec() };
        let judge = |version: &str, answered: Option<&str>, body: &[u8]| {
            assert_eq!(answered, Some(kind), "{version}");
            assert_eq!(parts(body, text), (b"somesome".to_vec(), TRAILERS.to_owned()), "{version} {kind}");
            let (fields, content) = asked.recv_timeout(TIMEOUT).unwrap();
            let is = |name: &str| field(&fields, name).map(str::to_owned);
            assert_eq!(
                (is("content-type").as_deref(), is("te").as_deref()),
                (Some(towards), Some("trailers"))
            );
            assert_eq!((is("content-length"), is("x-grpc-web").as_deref()), (None, Some("1")));
            assert_eq!(fields.iter().filter(|(name, _)| name == "content-type").count(), 1);
            assert_eq!(content, MESSAGE, "{version} {kind}");
        };
        let begin = format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nX-Grpc-Web: 1\r\n");
        let length = format!("Content-Length: {}\r\n\r\n", body.len());
        let mut client = server.connect();
        let response = client.ask([begin.as_bytes(), length.as_bytes(), &body].concat());
        assert_eq!((response.field("trailer"), response.field("x-a")), (None, Some("b")));
        judge("HTTP/1.1, whole", response.field("content-type"), &response.body);
        // The rest of the body comes later, in chunks that end anywhere.
        client.send(format!("{begin}Transfer-Encoding: chunked\r\n\r\n"));
        for piece in body.chunks(3) {
            client.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
        }
        client.send("0\r\n\r\n");
        let response = client.response("POST");
        judge("HTTP/1.1, in pieces", response.field("content-type"), &response.body);
        let mut connection = Connection::new(server.address);
        let fields = [("content-type", kind), ("x-grpc-web", "1")];
        let id = connection.request("POST", "/a", &fields, false);
        body.chunks(5).for_each(|piece| connection.upload(id, piece, false));
        connection.upload(id, b"", true);
        let response = connection.response(id);
        assert!(response.trailers.is_empty());
        judge("HTTP/2", field(&response.fields, "content-type"), &response.body);
    }
    server.stop();
}

#[test]
fn messages_arrive_while_the_call_goes_on() {
    let upstream = framed::start(&[], |far| {
        loop {
            match far.next()? {
                Came::Head { id, .. } => {
                    let begin = [(":status", "200"), ("content-type", "application/grpc")];
                    far.send(head(id, &begin, false))?
                }
                Came::Data { id, bytes, ended: false } => far.send(data(id, &bytes, false))?,
                Came::Data { id, .. } => far.send(head(id, &[("grpc-status", "0")], true))?,
                Came::Reset { .. } => {}
            }
        }
    });
    let server = start(&upstream, "");
    let mut connection = Connection::new(server.address);
    let id = connection.request("POST", "/", &[("content-type", "application/grpc-web-text")], false);
    let text = STANDARD.encode(MESSAGE);
    for round in 1..=5 {
        connection.upload(id, text.as_bytes(), false);
        connection.content(id, round * text.len());
    }
    connection.upload(id, b"", true);
    let response = connection.response(id);
    assert_eq!(parts(&response.body, true), (b"some".repeat(5), "grpc-status: 0\r\n".to_owned()));
    server.stop();
}

#[test]
fn a_response_that_is_all_head_stays_one() {
    let upstream = framed::start(&[], |far| {
        loop {
            let (id, ..) = far.request()?;
            let fields = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "5")];
            far.send(head(id, &fields, true))?;
        }
    });
    let server = start(&upstream, "");
    let request =
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc-web\r\nContent-Length: 0\r\n\r\n";
    let response = server.connect().ask(request);
    assert_eq!((response.need("grpc-status"), response.need("content-type")), ("5", "application/grpc-web"));
    assert!(response.body.is_empty());
    server.stop();
}

#[test]
fn what_is_no_base64_is_refused() {
    let (upstream, _asked) = echoing();
    let server = start(&upstream, "");
    let begin = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc-web-text\r\n";
    for rest in [
        "Content-Length: 4\r\n\r\n*aaa",
        "Content-Length: 5\r\n\r\naaaaa",
        "Transfer-Encoding: chunked\r\n\r\n4\r\n*aaa\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\naaaaa\r\n0\r\n\r\n",
    ] {
        let response = server.connect().ask(format!("{begin}{rest}"));
        assert_eq!((response.status, response.need("grpc-status")), (200, "13"), "{rest}");
        assert!(response.need("grpc-message").starts_with("400"), "{rest}");
    }
    server.stop();
}

#[test]
fn other_routes_and_other_requests_are_not_changed() {
    let (upstream, asked) = echoing();
    let server = start(&upstream, "");
    for (path, kind) in
        [("/plain", "application/grpc-web-text"), ("/a", "application/json"), ("/a", "application/grpc")]
    {
        let mut connection = Connection::new(server.address);
        let id = connection.request("POST", path, &[("content-type", kind)], false);
        connection.upload(id, MESSAGE, true);
        let response = connection.response(id);
        assert_eq!(field(&response.fields, "content-type"), Some(kind), "{path}");
        assert_eq!((response.body, response.trailers.len()), (MESSAGE.repeat(2), 3), "{path} {kind}");
        let (fields, content) = asked.recv_timeout(TIMEOUT).unwrap();
        assert_eq!((field(&fields, "content-type"), content.as_slice()), (Some(kind), MESSAGE), "{path}");
    }
    server.stop();
}

/// What docs/grpc.md says of `cors`.
#[test]
fn another_origin_may_call() {
    let (upstream, _asked) = echoing();
    let server = start(
        &upstream,
        "cors = { origins = [\"https://app.example\"], methods = [\"POST\"], \
         headers = [\"content-type\", \"x-grpc-web\", \"x-user-agent\", \"grpc-timeout\"], \
         expose = [\"grpc-status\", \"grpc-message\", \"grpc-status-details-bin\"] }",
    );
    let mut client = server.connect();
    let response = client.method(
        "OPTIONS",
        "/a",
        "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n\
         Access-Control-Request-Headers: content-type,x-grpc-web,x-user-agent\r\n",
    );
    assert_eq!((response.status, response.need("access-control-allow-methods")), (204, "POST"));
    let request = "POST /a HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n\
         Content-Type: application/grpc-web\r\nContent-Length: 0\r\n\r\n";
    let response = client.ask(request);
    assert_eq!(response.need("access-control-allow-origin"), "https://app.example");
    assert!(response.need("access-control-expose-headers").contains("grpc-status"));
    server.stop();
}
