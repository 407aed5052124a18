//! Requests that are passed on to an HTTP/1.1 server, and WebSockets by extended CONNECT (RFC 8441).

use std::sync::mpsc::channel;
use std::time::Duration;

use crate::support::h2::frame::{code, setting};
use crate::support::h2::{Connection, Lost};
use crate::support::upstream::{Asked, Peer, Upstream};
use crate::support::{Server, Setup, TIMEOUT, eventually};

fn start(upstream: &Upstream, lines: &str) -> Server {
    Setup::with_files()
        .route("/a.txt", "root = \"root\"")
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = [\"{}\"]\n{lines}\n", upstream.name()))
        .start()
}

fn say_target(peer: &mut Peer) -> std::io::Result<()> {
    loop {
        let asked = peer.request()?;
        peer.answer(asked.target())?;
    }
}

#[test]
fn streams_share_connections_to_the_server() {
    let upstream = Upstream::start(say_target);
    let server = start(&upstream, "");
    let mut connection = Connection::new(server.address);
    for round in 0..5 {
        let ids: Vec<u32> = (0..20)
            .map(|number| connection.request("GET", &format!("/page/{round}/{number}?q=%41"), &[], true))
            .collect();
        for (number, id) in ids.into_iter().enumerate() {
            assert_eq!(connection.response(id).text(), format!("/page/{round}/{number}?q=%41"));
        }
    }
    assert_eq!((upstream.requests(), server.total("upstream_requests")), (100, 100));
    assert!(upstream.connections() <= 20, "{}", upstream.connections());
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 100);
}

#[test]
fn the_server_gets_http_1() {
    let (sender, asked) = channel();
    let upstream = Upstream::start(move |peer| {
        loop {
            sender.send(peer.request()?).unwrap();
            peer.answer("")?;
        }
    });
    let server = start(&upstream, "");
    let mut connection = Connection::new(server.address);
    let fields =
        [("x-test", "one"), ("x-test", "two"), ("cookie", "a=b"), ("cookie", "c=d"), ("te", "trailers")];
    assert_eq!(connection.method("GET", "/shop//b/../c?x=1", &fields).status, 200);
    let request = asked.recv().unwrap();
    assert_eq!(request.line, "GET /shop/c?x=1 HTTP/1.1");
    assert_eq!(request.field("host"), Some("localhost"));
    assert_eq!(request.field("cookie"), Some("a=b; c=d"));
    assert_eq!(request.fields.iter().filter(|(name, _)| name == "x-test").count(), 2);
    assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(request.field("x-forwarded-proto"), Some("http"));
    for name in ["upgrade", "content-length", "transfer-encoding"] {
        assert_eq!(request.field(name), None, "{name}");
    }
    assert_eq!((request.field("te"), request.field("connection")), (Some("trailers"), Some("te")));
    let body = vec![b'x'; 200_000];
    assert_eq!(connection.post("/form", &body).status, 200);
    assert_eq!(asked.recv().unwrap().body, body);
    for (method, fields, length) in [
        ("POST", &[][..], Some("0")),
        ("PUT", &[("content-length", "0")], Some("0")),
        ("DELETE", &[], None),
        ("DELETE", &[("content-length", "0")], Some("0")),
    ] {
        connection.method(method, "/form", fields);
        assert_eq!(asked.recv().unwrap().field("content-length"), length, "{method} {fields:?}");
    }
    server.stop();
}

/// What Maitred says itself, and what it has checked, cannot be said by a client, in no spelling that is the same for an
/// application behind CGI variables; in both versions of HTTP.
#[test]
fn nobody_else_speaks_for_maitred() {
    let (sender, asked) = channel();
    let upstream = Upstream::start(move |peer| {
        loop {
            sender.send(peer.request()?).unwrap();
            peer.answer("")?;
        }
    });
    let server = start(&upstream, "request_headers = { keep = [\"api_key\"] }");
    const LIES: [&str; 18] = [
        "x-remote-user",
        "x_remote_user",
        "true-client-ip",
        "other_name",
        "x-ssl-client-verify",
        "x_ssl_client_verify",
        "x-ssl_client-verify",
        "x-ssl-anything",
        "x_forwarded_for",
        "x-forwarded_for",
        "x_forwarded_prefix",
        "x-forwarded-port",
        "x-real-ip",
        "x_real_ip",
        "x_request_id",
        "early_data",
        "content_length",
        "transfer_encoding",
    ];
    let check = |request: &Asked| {
        let lies = request.fields.iter().filter(|(_, value)| value == "17").map(|(name, _)| name.as_str());
        assert_eq!(lies.collect::<Vec<_>>(), ["api_key"], "all others are lies");
        assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.1"));
    };
    let lines: String = LIES.iter().chain(&["api_key"]).map(|name| format!("{name}: 17\r\n")).collect();
    assert_eq!(server.connect().method("GET", "/shop/", &lines).status, 200);
    check(&asked.recv().unwrap());
    let fields: Vec<(&str, &str)> = LIES.iter().chain(&["api_key"]).map(|name| (*name, "17")).collect();
    assert_eq!(Connection::new(server.address).method("GET", "/shop/", &fields).status, 200);
    check(&asked.recv().unwrap());
    server.stop();
}

#[test]
fn responses_of_every_framing_come_whole() {
    let upstream = Upstream::start(|peer| {
        loop {
            match peer.request()?.target() {
                "/chunks" => {
                    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")?;
                    peer.send("2\r\nde\r\n0\r\n\r\n")?;
                }
                "/early" => peer.send(
                    "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
                )?,
                "/cut" => {
                    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")?;
                    return Ok(());
                }
                "/close" => {
                    peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nKeep-Alive: 5\r\n\r\nto the end")?;
                    return Ok(());
                }
                "/large" => {
                    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                    for _ in 0..300 {
                        peer.send([&b"2710\r\n"[..], &[b'x'; 10_000], b"\r\n"].concat())?;
                    }
                    peer.send("0\r\n\r\n")?;
                }
                _ => peer.answer("ok")?,
            }
        }
    });
    let server = start(&upstream, "");
    let mut connection = Connection::new(server.address);
    for _ in 0..3 {
        assert_eq!(connection.get("/chunks").text(), "abcde");
        assert_eq!(connection.get("/close").text(), "to the end");
        assert_eq!(connection.get("/large").body.len(), 3_000_000);
        let early = connection.get("/early");
        assert_eq!((early.text(), early.interim.as_slice()), ("x", &[103][..]));
        let id = connection.request("GET", "/cut", &[], true);
        assert_eq!(connection.try_response(id), Err(Lost::Reset(code::INTERNAL_ERROR)));
    }
    server.stop();
}

/// The server is not read faster than the client reads.
#[test]
fn a_stream_that_is_not_read_slows_its_server_down() {
    let (sender, sent) = channel();
    let upstream = Upstream::start(move |peer| {
        peer.request()?;
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for _ in 0..2_000 {
            peer.send([&b"2710\r\n"[..], &[b'x'; 10_000], b"\r\n"].concat())?;
            sender.send(()).unwrap();
        }
        peer.send("0\r\n\r\n")
    });
    let server = start(&upstream, "");
    let mut connection = Connection::with(server.address, &[(setting::INITIAL_WINDOW_SIZE, 1000)]);
    connection.open_window(0, 1 << 30);
    connection.reads = false;
    let id = connection.request("GET", "/endless", &[], true);
    connection.content(id, 1000);
    for _ in 0..50 {
        let file = connection.request("GET", "/a.txt", &[], true);
        assert_eq!(connection.response(file).text(), "file a\n", "files come meanwhile");
    }
    let ahead = sent.try_iter().count() * 10_000;
    assert!(ahead < 12_000_000, "{ahead} bytes are with kernels and Maitred, which were not asked for");
    connection.open_window(id, 1 << 30);
    assert_eq!(connection.response(id).body.len(), 20_000_000);
    server.stop();
}

#[test]
fn a_cancelled_stream_frees_its_server() {
    let upstream = Upstream::start(|peer| {
        let asked = peer.request()?;
        if asked.target() == "/wait" {
            return peer.wait_for_end();
        }
        peer.answer("ok")
    });
    let server = start(&upstream, "");
    let mut connection = Connection::new(server.address);
    let id = connection.request("GET", "/wait", &[], true);
    eventually("it has the request", || upstream.requests() == 1);
    connection.cancel(id);
    eventually("the connection to it is closed", || upstream.open() == 0);
    assert_eq!(connection.get("/other").text(), "ok");
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
             Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: chat\r\n\r\nhello"
        ))?;
        peer.echo()
    })
}

#[test]
fn a_websocket_is_one_stream_among_others() {
    let upstream = echo();
    let server = start(&upstream, "request_timeout = \"1s\"");
    let mut connection = Connection::new(server.address);
    connection.sync();
    assert_eq!(connection.settings.get(&setting::ENABLE_CONNECT_PROTOCOL), Some(&1));
    let ids: Vec<u32> = (0..3).map(|_| connection.websocket("/ws")).collect();
    for id in &ids {
        let head = connection.head(*id);
        assert_eq!((head.status, head.field("sec-websocket-protocol")), (200, Some("chat")));
        assert_eq!(head.field("sec-websocket-accept"), None);
    }
    ids.iter().for_each(|id| connection.content(*id, 5));
    connection.socket().set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
    assert!(connection.next_frame().is_err(), "`request_timeout` passes, and is nothing to a tunnel");
    connection.socket().set_read_timeout(Some(TIMEOUT)).unwrap();
    for number in 0..20 {
        for id in &ids {
            let message = format!("message {number:04}");
            connection.upload(*id, message.as_bytes(), false);
            connection.content(*id, 5 + 12 * (number + 1));
            assert!(connection.stream(*id).body.ends_with(message.as_bytes()));
        }
        assert_eq!(connection.get("/a.txt").text(), "file a\n");
    }
    let large: Vec<u8> = (0..1_000_000).map(|at| (at % 251) as u8).collect();
    let at = connection.stream(ids[0]).body.len();
    connection.upload(ids[0], &large, false);
    connection.content(ids[0], at + large.len());
    assert!(connection.stream(ids[0]).body[at..] == large);
    // The client's end goes through, and so does the server's.
    connection.upload(ids[0], b"", true);
    assert!(connection.response(ids[0]).body.ends_with(b"bye"));
    // A reset ends the other side, too.
    connection.cancel(ids[1]);
    eventually("the connection to the server is closed", || upstream.open() == 1);
    connection.upload(ids[2], b"still there", false);
    let bytes = connection.stream(ids[2]).body.len();
    connection.content(ids[2], bytes + 11);
    drop(connection);
    eventually("all is closed", || upstream.open() == 0);
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 23, "{:?}", stopped.access);
}

#[test]
fn a_server_may_refuse_a_websocket() {
    let upstream = Upstream::start(|peer| {
        loop {
            peer.request()?;
            peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")?;
        }
    });
    let server = start(&upstream, "");
    let mut connection = Connection::new(server.address);
    for _ in 0..2 {
        let id = connection.websocket("/ws");
        let response = connection.response(id);
        assert_eq!((response.status, response.text()), (403, "no"));
    }
    assert_eq!(upstream.requests(), 2);
    for protocol in ["something-else", "h2c", "TLS/1.0"] {
        let id = connection.protocol(protocol, "/ws");
        assert_eq!(connection.response(id).status, 501, "a protocol that is not for this pool: {protocol}");
    }
    assert_eq!(upstream.requests(), 2, "it is not passed on as something else");
    server.stop();
}

/// 6455-4.1: the server that passes the handshake on is the client of the server. Maitred makes a new key each time, and checks
/// the answer.
#[test]
fn a_handshake_has_a_key_of_its_own_and_the_right_answer() {
    let (sender, keys) = channel();
    let upstream = Upstream::start(move |peer| {
        let asked = peer.request()?;
        sender.send(asked.field("sec-websocket-key").unwrap().to_owned()).unwrap();
        let good = format!("Sec-WebSocket-Accept: {}\r\n", asked.accept());
        let fields = match asked.target() {
            "/none" => String::new(),
            "/wrong" => "Sec-WebSocket-Accept: c3VyZWx5IG5vdCByaWdodCBhdCBhbGw=\r\n".to_owned(),
            "/constant" => "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n".to_owned(),
            "/twice" => good.repeat(2),
            "/protocol" => format!("{good}Sec-WebSocket-Protocol: other\r\n"),
            "/protocols" => format!("{good}Sec-WebSocket-Protocol: chat, chat\r\n"),
            "/extension" => format!("{good}Sec-WebSocket-Extensions: permessage-deflate\r\n"),
            _ => good,
        };
        peer.send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{fields}\r\nhello"
        ))?;
        peer.echo()
    });
    let server = start(&upstream, "");
    let mut connection = Connection::new(server.address);
    for path in ["/none", "/wrong", "/constant", "/twice", "/protocol", "/protocols", "/extension"] {
        let id = connection.websocket(path);
        assert_eq!(connection.response(id).status, 502, "{path}");
    }
    server.wait_for("without Sec-WebSocket-Accept");
    let ids: Vec<u32> = (0..5).map(|_| connection.websocket("/good")).collect();
    for id in ids {
        assert_eq!(connection.head(id).status, 200);
        connection.content(id, 5);
    }
    let mut all: Vec<String> = keys.try_iter().collect();
    assert!(all.len() >= 12 && all.iter().all(|key| key.len() == 24 && key.ends_with("==")), "{all:?}");
    all.sort();
    let made = all.len();
    all.dedup();
    assert_eq!(all.len(), made, "each has its own");
    drop(connection);
    server.stop();
}

/// 8441-5: any success would tell the client that the other protocol has begun.
#[test]
fn nothing_but_the_protocol_is_a_success() {
    let upstream = Upstream::start(|peer| {
        loop {
            match peer.request()?.target() {
                "/h2c" => peer.send(
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
                )?,
                _ => peer.answer("no")?,
            }
        }
    });
    let server = start(&upstream, "");
    let mut connection = Connection::new(server.address);
    for (path, status) in [("/a.txt", 501), ("/h2c", 502), ("/ws", 502)] {
        let id = connection.websocket(path);
        assert_eq!(connection.response(id).status, status, "{path}");
    }
    server.stop();
}

#[test]
fn a_pool_may_allow_other_protocols() {
    let upstream = Upstream::start(|peer| {
        let asked = peer.request()?;
        if asked.field("upgrade") != Some("derp") || asked.field("sec-websocket-key").is_some() {
            return peer.answer("no");
        }
        peer.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: DERP\r\nConnection: Upgrade\r\n\r\n")?;
        peer.echo()
    });
    let server = start(&upstream, "upgrade = [\"derp\"]");
    let mut connection = Connection::new(server.address);
    let id = connection.protocol("derp", "/ws");
    assert_eq!(connection.head(id).status, 200);
    connection.upload(id, b"message", true);
    assert_eq!(connection.response(id).text(), "messagebye");
    let id = connection.websocket("/ws");
    assert_eq!(connection.response(id).status, 501);
    server.stop();
}
