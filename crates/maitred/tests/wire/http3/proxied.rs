//! Requests that are passed on to an HTTP/1.1 server, WebSockets by extended CONNECT (RFC 9220), codings, and priorities.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::mpsc::channel;

use maitred_http::h3::Code;
use maitred_http::h3::frame::kind;
use maitred_load::http3::client::{Failed, frame, headers};
use maitred_load::http3::quinn_proto::{StreamId, VarInt};

use crate::support::h3::{Asks, Guest, Incoming, PATIENT, Text, connect, connector, join, setup};
use crate::support::upstream::Upstream;
use crate::support::{Server, eventually};

fn start(upstream: &Upstream) -> Server {
    setup("")
        .route("/a.txt", "root = \"root\"")
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = [\"{}\"]\n", upstream.name()))
        .start()
}

#[test]
fn another_server_gets_http_1() {
    let (sender, asked) = channel();
    let upstream = Upstream::start(move |peer| {
        loop {
            sender.send(peer.request()?).unwrap();
            peer.answer("answer")?;
        }
    });
    let server = start(&upstream);
    let mut client = connect(&server);
    let fields = [("x-test", "one"), ("x-test", "two"), ("cookie", "a=b"), ("cookie", "c=d")];
    let response = client.ask("GET", "/shop/c?x=1", &fields, b"");
    assert_eq!((response.status, response.text()), (200, "answer"));
    let request = asked.recv().unwrap();
    assert_eq!(request.line, "GET /shop/c?x=1 HTTP/1.1");
    assert_eq!(request.field("host"), Some("localhost"));
    assert_eq!(request.field("cookie"), Some("a=b; c=d"));
    assert_eq!(request.field("x-forwarded-proto"), Some("https"));
    assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.1"));
    let body = vec![b'x'; 200_000];
    assert_eq!(client.ask("POST", "/form", &[], &body).status, 200);
    assert_eq!(asked.recv().unwrap().body, body);
    let streams: Vec<_> = (0..100).map(|number| client.send_get(&format!("/page/{number}"), &[])).collect();
    streams.into_iter().for_each(|stream| assert_eq!(client.response(stream).unwrap().text(), "answer"));
    drop(client);
    assert_eq!(server.stop().access.len(), 102);
}

#[test]
fn responses_of_every_framing_come_whole() {
    let upstream = Upstream::start(|peer| {
        loop {
            match peer.request()?.target() {
                "/trailers" => {
                    peer.send("HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                    peer.send("4\r\nbody\r\n0\r\nX-Sum: 7\r\n\r\n")?;
                }
                "/early" => peer.send(
                    "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
                )?,
                "/truncated" => {
                    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")?;
                    return Ok(());
                }
                "/close" => {
                    peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nKeep-Alive: 5\r\n\r\nto the end")?;
                    return Ok(());
                }
                _ => peer.answer("ok")?,
            }
        }
    });
    let server = start(&upstream);
    let mut client = connect(&server);
    let sum = vec![(b"x-sum".to_vec(), b"7".to_vec())];
    for _ in 0..3 {
        let response = client.ask("GET", "/trailers", &[("te", "trailers")], b"");
        assert_eq!((response.text(), response.trailers.clone()), ("body", sum.clone()));
        let closed = client.get("/close").unwrap();
        assert_eq!((closed.text(), closed.field("keep-alive")), ("to the end", None));
        let early = client.get("/early").unwrap();
        assert_eq!((early.text(), early.interim.len()), ("x", 1));
        assert_eq!(early.interim[0].0, 103);
        let failed = client.get("/truncated").unwrap_err();
        assert!(matches!(failed, Failed::Reset(code) if code == Code::InternalError.number()), "{failed:?}");
    }
    drop(client);
    server.stop();
}

#[test]
fn a_cancelled_stream_frees_its_server() {
    let upstream = Upstream::start(|peer| {
        if peer.request()?.target() == "/wait" {
            return peer.wait_for_end();
        }
        peer.answer("ok")
    });
    let server = start(&upstream);
    let mut client = connect(&server);
    let stream = client.send_get("/wait", &[]);
    eventually("it has the request", || upstream.requests() == 1);
    client.stop_sending(stream, Code::RequestCancelled.number()).unwrap();
    eventually("the connection to it is closed", || upstream.open() == 0);
    assert_eq!(client.get("/other").unwrap().text(), "ok");
    drop(client);
    server.stop();
}

/// Agrees, and says everything again.
fn echo() -> Upstream {
    Upstream::start(|peer| {
        let asked = peer.request()?;
        let key = asked.field("sec-websocket-key").is_some_and(|key| key.len() == 24);
        if asked.field("upgrade") != Some("websocket") || !asked.line.starts_with("GET ") || !key {
            return peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
        }
        let accept = asked.accept();
        peer.send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\nhello"
        ))?;
        peer.echo()
    })
}

/// Begins a WebSocket, and waits for the answer.
fn websocket(client: &mut Guest, path: &str) -> Incoming {
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", path),
        ("sec-websocket-version", "13"),
    ];
    let stream: StreamId = client.open_bidi().unwrap();
    client.write(stream, &headers(&fields)).unwrap();
    let mut incoming = Incoming::new(stream);
    incoming.wait(client, |incoming| incoming.status.is_some()).unwrap();
    incoming
}

/// 6455-4.1
#[test]
fn a_wrong_answer_to_a_handshake_is_no_websocket() {
    let upstream = Upstream::start(|peer| {
        let asked = peer.request()?;
        let accept = match asked.target() {
            "/good" => asked.accept(),
            _ => "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".to_owned(),
        };
        peer.send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        ))?;
        peer.echo()
    });
    let server = start(&upstream);
    let mut client = connect(&server);
    client.wait(|client| client.settings()).unwrap();
    assert_eq!(websocket(&mut client, "/wrong").status, Some(502));
    assert_eq!(websocket(&mut client, "/good").status, Some(200));
    drop(client);
    server.stop();
}

#[test]
fn a_websocket_is_one_stream_among_others() {
    let upstream = echo();
    let server = start(&upstream);
    let mut client = connect(&server);
    client.wait(|client| client.settings()).unwrap();
    assert!(client.settings().unwrap().connect_protocol);
    let mut sockets: Vec<Incoming> = (0..3).map(|_| websocket(&mut client, "/ws")).collect();
    for number in 0..20 {
        for socket in &mut sockets {
            assert_eq!(socket.status, Some(200));
            let message = format!("message {number:04}");
            client.upload(socket.stream, message.as_bytes());
            socket.wait(&mut client, |socket| socket.body.len() >= 5 + 12 * (number + 1)).unwrap();
            assert!(socket.body.ends_with(message.as_bytes()));
        }
        assert_eq!(client.get("/a.txt").unwrap().text(), "file a\n");
    }
    let large: Vec<u8> = (0..1_000_000).map(|at| (at % 251) as u8).collect();
    let [first, second, third] = &mut sockets[..] else { panic!("there are three") };
    let at = first.body.len();
    // In pieces: what comes back has to be read meanwhile.
    for piece in large.chunks(50_000) {
        client.write(first.stream, &frame(kind::DATA, piece)).unwrap();
        first.take(&mut client);
    }
    first.wait(&mut client, |first| first.body.len() >= at + large.len()).unwrap();
    assert!(first.body[at..] == large);
    // The client's end goes through, and so does the server's.
    client.finish(first.stream).unwrap();
    first.wait(&mut client, |first| first.end.is_some()).unwrap();
    assert!(first.body.ends_with(b"bye"));
    // A reset ends the other side, too.
    client.reset(second.stream, Code::RequestCancelled.number()).unwrap();
    client.stop_sending(second.stream, Code::RequestCancelled.number()).unwrap();
    eventually("the connection to the server is closed", || upstream.open() == 1);
    client.upload(third.stream, b"still there");
    third.wait(&mut client, |third| third.body.ends_with(b"still there")).unwrap();
    drop(client);
    eventually("all is closed", || upstream.open() == 0);
    assert_eq!(server.stop().access.len(), 23);
}

/// The process gets one end of a relay.
#[test]
fn a_websocket_reaches_an_application() {
    let server = setup("")
        .outside("upgrades.py", include_bytes!("../http/upgrades.py"))
        .route("/echo", "pool = \"app\"")
        .table(&format!("[pool.app]\ncommand = [\"python3\", \"-u\", \"upgrades.py\"]\n{PATIENT}\n"))
        .start();
    server.wait_for_processes();
    let mut client = connect(&server);
    let mut socket = websocket(&mut client, "/echo");
    assert_eq!(socket.status, Some(200));
    client.upload(socket.stream, b"message");
    socket.wait(&mut client, |socket| socket.body == b"message").unwrap();
    client.finish(socket.stream).unwrap();
    socket.wait(&mut client, |socket| socket.end.is_some()).unwrap();
    assert_eq!(socket.body, b"messagebye");
    drop(client);
    server.stop();
}

#[test]
fn responses_are_compressed_for_those_who_accept_that() {
    let server = setup("").site("compress = true").pool("app", None, PATIENT).start();
    server.wait_for_processes();
    let mut client = connect(&server);
    for path in ["/app/large?70000", "/app/large?3000000"] {
        let plain = client.get(path).unwrap();
        assert_eq!((plain.status, plain.field("content-encoding")), (200, None), "{path}");
        let coded = client.ask("GET", path, &[("accept-encoding", "gzip")], b"");
        assert_eq!(coded.field("content-encoding"), Some("gzip"), "{path}");
        assert!(coded.body.len() < plain.body.len() / 4, "{}", coded.body.len());
        let mut content = Vec::new();
        flate2::read::GzDecoder::new(&coded.body[..]).read_to_end(&mut content).unwrap();
        assert!(content == plain.body, "{path}");
    }
    drop(client);
    server.stop();
}

/// The window of the connection is closed while requests come, so that what the server sends then is its choice alone.
#[test]
fn what_is_urgent_overtakes_what_is_not() {
    const BYTES: usize = 3_000_000;
    const WINDOW: u32 = 100_000;
    let server = setup("").file("large.bin", &vec![b'x'; BYTES]).start();
    let mut connector = connector(&server);
    let mut transport = maitred_load::http3::transport();
    transport.stream_receive_window(VarInt::from_u32(1 << 30)).receive_window(VarInt::from_u32(WINDOW));
    connector.dialer.set_transport(Arc::new(transport));
    let mut client = join(&connector);
    let ask = |client: &mut Guest, priority| {
        Incoming::new(client.send_get("/large.bin", &[("priority", priority)]))
    };
    let mut slow = ask(&mut client, "u=7");
    slow.wait(&mut client, |slow| !slow.body.is_empty()).unwrap();
    let mut urgent = ask(&mut client, "u=0");
    let mut usual = ask(&mut client, "");
    while urgent.end.is_none() {
        client
            .wait(|client| {
                let all = [slow.take(client), urgent.take(client), usual.take(client)];
                all.contains(&true).then_some(())
            })
            .unwrap();
    }
    assert_eq!(urgent.body.len(), BYTES);
    // What was under way, and what QUIC had been given before.
    assert!(slow.body.len() < BYTES / 2, "{}", slow.body.len());
    assert!(usual.body.len() < BYTES / 2, "{}", usual.body.len());
    usual.wait(&mut client, |usual| usual.end.is_some()).unwrap();
    assert!(slow.body.len() < BYTES && slow.end.is_none());
    slow.wait(&mut client, |slow| slow.end.is_some()).unwrap();
    assert_eq!((slow.body.len(), usual.body.len()), (BYTES, BYTES));
    drop(client);
    server.stop();
}
