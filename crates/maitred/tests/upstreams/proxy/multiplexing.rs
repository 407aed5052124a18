//! `connect = "h2://…"`: requests of many clients as streams of few connections.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;

use crate::proxy::secure::{self, Authority};
use crate::support::framed::{self, Came, Far, field, head};
use crate::support::h2::Connection;
use crate::support::h2::frame::{self, code, setting};
use crate::support::h2::hpack;
use crate::support::upstream::Upstream;
use crate::support::{Server, Setup, TIMEOUT, eventually};

fn setup(upstreams: &[&Upstream], route: &str, lines: &str) -> Setup {
    let names: Vec<String> = upstreams.iter().map(|one| format!("\"{}\"", framed::name(one))).collect();
    Setup::with_files()
        .server("threads = 1")
        .route("/*", &format!("pool = \"app\"\n{route}"))
        .table(&format!("[pool.app]\nconnect = [{}]\n{lines}\n", names.join(", ")))
}

fn start(upstream: &Upstream, lines: &str) -> Server {
    setup(&[upstream], "", lines).start()
}

/// Answers each request with its path and the length of its content.
fn say(far: &mut Far<'_>) -> io::Result<()> {
    loop {
        let (id, fields, content) = far.request()?;
        far.answer(id, &format!("{} {}", field(&fields, ":path").unwrap(), content.len()))?;
    }
}

#[test]
fn clients_share_a_connection_and_each_gets_its_response() {
    let upstream = framed::start(&[], |far| {
        let mut waiting = Vec::new();
        for _ in 0..20 {
            waiting.push(far.request()?);
        }
        // The last one first: no response waits for another.
        for (id, fields, _) in waiting.into_iter().rev() {
            far.answer(id, field(&fields, ":path").unwrap())?;
        }
        say(far)
    });
    let server = start(&upstream, "");
    let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response("GET").text(), format!("/{number}"));
    }
    assert_eq!(clients[0].get("/again").text(), "/again 0");
    assert_eq!(upstream.connections(), 1);
    assert_eq!((server.total("upstream_connections"), server.total("upstream_requests")), (1, 21));
    server.stop();
}

#[test]
fn a_request_becomes_a_stream() {
    let (sender, asked) = channel();
    let upstream = framed::start(&[], move |far| {
        loop {
            let (id, fields, content) = far.request()?;
            sender.send((fields, content)).unwrap();
            far.answer(id, "")?;
        }
    });
    let server = start(&upstream, "");
    let mut client = server.connect();
    let response = client.ask("GET /a?b=1 HTTP/1.1\r\nHost: a.example\r\nX-One: 1\r\nConnection: x-two\r\nX-Two: 2\r\nTE: trailers\r\n\r\n");
    assert_eq!(response.status, 200);
    let (fields, _) = asked.recv_timeout(TIMEOUT).unwrap();
    let is = |name: &str| field(&fields, name);
    assert_eq!((is(":method"), is(":scheme")), (Some("GET"), Some("http")));
    assert_eq!((is(":path"), is(":authority")), (Some("/a?b=1"), Some("a.example")));
    assert_eq!((is("x-one"), is("x-two"), is("te")), (Some("1"), None, Some("trailers")));
    assert_eq!((is("x-forwarded-for"), is("host"), is("connection")), (Some("127.0.0.1"), None, None));
    for bytes in [0, 1000, 70_000, 3_000_000] {
        let body = vec![b'x'; bytes];
        assert_eq!(client.post("/form", &body).status, 200, "{bytes}");
        let (fields, content) = asked.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(field(&fields, "content-length"), Some(bytes.to_string().as_str()));
        assert!(content == body, "{bytes}");
    }
    let chunks =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n0\r\nx-sum: 1\r\n\r\n";
    assert_eq!(client.ask(chunks).status, 200);
    let (fields, content) = asked.recv_timeout(TIMEOUT).unwrap();
    assert_eq!((field(&fields, "transfer-encoding"), content.as_slice()), (None, &b"some"[..]));
    server.stop();
}

/// Servers written in Go give their applications no trailers that were not announced (`Trailer`, 9110-6.6.2).
#[test]
fn trailers_of_a_request_are_announced_to_the_server() {
    let (sender, asked) = channel();
    let upstream = framed::start(&[], move |far| {
        loop {
            // The request as a whole, and its trailers, which are another head.
            let mut heads = Vec::new();
            let id = loop {
                match far.next()? {
                    Came::Head { id, fields, ended } => {
                        heads.push(fields);
                        if ended {
                            break id;
                        }
                    }
                    Came::Data { id, ended: true, .. } => break id,
                    _ => {}
                }
            };
            sender.send(heads).unwrap();
            far.answer(id, "ok")?;
        }
    });
    for buffering in ["auto", "off"] {
        let server = setup(&[&upstream], &format!("request_buffering = \"{buffering}\""), "").start();
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: x-hop\r\n";
        let body = "4\r\nsome\r\n0\r\nX-Sum: 1\r\nX-Hop: 2\r\nX-B: 3\r\n\r\n";
        let announced = "Trailer: X-Sum, X-Hop, Content-Length, a b\r\nTrailer: x-b\r\n\r\n";
        assert_eq!(server.connect().ask(format!("{head}{announced}{body}")).text(), "ok");
        let heads = asked.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(field(&heads[0], "trailer"), Some("x-sum, x-b"), "{buffering}");
        assert_eq!((field(&heads[1], "x-sum"), field(&heads[1], "x-b")), (Some("1"), Some("3")));
        assert_eq!(field(&heads[1], "x-hop"), None, "{buffering}");

        let mut connection = Connection::new(server.address);
        let id = connection.request("POST", "/", &[("trailer", "x-sum"), ("te", "trailers")], false);
        connection.send(frame::data(id, b"some", false));
        connection.send(frame::headers(id, &hpack::block(&[("x-sum", "17")]), true));
        assert_eq!(connection.response(id).text(), "ok");
        let heads = asked.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(field(&heads[0], "trailer"), Some("x-sum"), "{buffering} over HTTP/2");
        assert_eq!(field(&heads[1], "x-sum"), Some("17"), "{buffering} over HTTP/2");

        // A request that has none announces none.
        assert_eq!(server.connect().post("/", b"some").text(), "ok");
        let heads = asked.recv_timeout(TIMEOUT).unwrap();
        assert_eq!((field(&heads[0], "trailer"), heads.len()), (None, 1), "{buffering}");
        drop(connection);
        server.stop();
    }
}

#[test]
fn trailers_and_interim_responses_reach_clients_of_both_versions() {
    let upstream = framed::start(&[], |far| {
        loop {
            let (id, ..) = far.request()?;
            far.send(
                [
                    head(id, &[(":status", "103"), ("link", "</a>")], false),
                    head(id, &[(":status", "200"), ("trailer", "x-sum")], false),
                    frame::data(id, b"some", false),
                    head(id, &[("x-sum", "17")], true),
                ]
                .concat(),
            )?;
        }
    });
    let server = start(&upstream, "");
    let response = Connection::new(server.address).get("/");
    assert_eq!((response.text(), response.interim.as_slice()), ("some", &[103][..]));
    assert_eq!(response.trailers, [("x-sum".to_owned(), "17".to_owned())]);
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: te\r\n\r\n");
    let head = String::from_utf8(client.raw_head().unwrap()).unwrap();
    assert!(head.to_ascii_lowercase().contains("transfer-encoding: chunked"), "{head}");
    let rest = "4\r\nsome\r\n0\r\nx-sum: 17\r\n\r\n";
    assert_eq!(client.exactly(rest.len()).unwrap(), rest.as_bytes());
    assert_eq!(server.connect().get("/").text(), "some", "a client that takes none");
    server.stop();
}

/// 9113-8.7: also one that may not be sent twice.
#[test]
fn what_a_server_has_not_looked_at_is_sent_over_another_connection() {
    let connections = AtomicUsize::new(0);
    let upstream = framed::start(&[], move |far| {
        if connections.fetch_add(1, SeqCst) == 0 {
            far.request()?;
            far.send(frame::goaway(0, code::NO_ERROR))?;
            return far.peer.wait_for_end();
        }
        say(far)
    });
    let server = start(&upstream, "");
    assert_eq!(server.connect().post("/form", b"some").text(), "/form 4");
    assert_eq!((upstream.connections(), server.total("upstream_failures")), (2, 0));
    assert_eq!(server.total("upstream_retries"), 1);
    server.stop();
}

#[test]
fn a_refused_stream_goes_to_another_server() {
    let refusing = || {
        framed::start(&[], |far| {
            loop {
                let (id, ..) = far.request()?;
                far.send(frame::rst_stream(id, code::REFUSED_STREAM))?;
            }
        })
    };
    let (one, other) = (refusing(), framed::start(&[], say));
    let server = setup(&[&one, &other], "", "").start();
    let mut client = server.connect();
    for _ in 0..4 {
        assert_eq!(client.post("/form", b"some").text(), "/form 4");
    }
    server.stop();
    let alone = refusing();
    let server = start(&alone, "");
    assert_eq!(server.connect().post("/form", b"some").status, 503, "there is no other one");
    server.stop();
}

#[test]
fn a_request_that_may_have_been_acted_on_is_not_sent_again() {
    let upstream = framed::start(&[], |far| {
        let (id, fields, _) = far.request()?;
        match field(&fields, ":path").unwrap() {
            "/reset" => far.send(frame::rst_stream(id, code::INTERNAL_ERROR))?,
            "/broken" => far.send(head(id, &[("x-no", "status")], false))?,
            _ => return Ok(()),
        }
        far.peer.wait_for_end()
    });
    for path in ["/reset", "/broken", "/close"] {
        let server = start(&upstream, "");
        let before = upstream.connections();
        assert_eq!(server.connect().post(path, b"some").status, 502, "{path}");
        assert_eq!(upstream.connections(), before + 1, "{path}");
        server.stop();
    }
}

#[test]
fn a_response_that_is_cut_does_not_look_whole() {
    let upstream = framed::start(&[], |far| {
        loop {
            let (id, ..) = far.request()?;
            far.send([head(id, &[(":status", "200")], false), frame::data(id, b"some", false)].concat())?;
            far.send(frame::rst_stream(id, code::INTERNAL_ERROR))?;
        }
    });
    let server = start(&upstream, "");
    assert!({
        let mut client = server.connect();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.try_response("GET").is_err()
    });
    let mut connection = Connection::new(server.address);
    let id = connection.request("GET", "/", &[], true);
    assert_ne!(connection.reset_of(id), code::NO_ERROR);
    server.stop();
}

#[test]
fn a_client_that_takes_nothing_does_not_stop_the_others() {
    let upstream = framed::start(&[], |far| {
        let mut sent = 0;
        loop {
            let (id, fields, _) = far.request()?;
            if field(&fields, ":path") != Some("/large") {
                far.answer(id, &format!("{sent} bytes"))?;
                continue;
            }
            far.send(head(id, &[(":status", "200")], false))?;
            // All that the stream's window allows.
            while sent < 256 << 10 {
                far.send(frame::data(id, &[b'x'; 16 << 10], false))?;
                sent += 16 << 10;
            }
        }
    });
    let server = start(&upstream, "");
    let mut slow = Connection::new(server.address);
    let id = slow.request("GET", "/large", &[], true);
    slow.head(id);
    let mut client = server.connect();
    for _ in 0..10 {
        assert_eq!(client.get("/").text(), "262144 bytes");
    }
    assert_eq!(upstream.connections(), 1);
    slow.content(id, 100_000);
    slow.cancel(id);
    server.stop();
}

/// Both directions go on at the same time, as calls of gRPC need.
#[test]
fn a_body_goes_on_while_its_response_comes() {
    let upstream = framed::start(&[], |far| {
        loop {
            match far.next()? {
                Came::Head { id, .. } => far.send(head(id, &[(":status", "200")], false))?,
                Came::Data { id, bytes, ended: false } => far.send(frame::data(id, &bytes, false))?,
                Came::Data { id, .. } => far.send(head(id, &[("x-end", "yes")], true))?,
                Came::Reset { .. } => {}
            }
        }
    });
    for (route, kind) in [("request_buffering = \"off\"", "text/plain"), ("", "application/grpc+proto")] {
        let server = setup(&[&upstream], route, "").start();
        let mut connection = Connection::new(server.address);
        let fields = [("te", "trailers"), ("content-type", kind)];
        let id = connection.request("POST", "/", &fields, false);
        assert_eq!(connection.head(id).status, 200, "before anything of the body");
        for round in 1..=10 {
            connection.upload(id, b"ping", false);
            connection.content(id, 4 * round);
        }
        connection.upload(id, b"", true);
        let response = connection.response(id);
        assert_eq!((response.body.len(), response.trailers.len()), (40, 1), "{kind}");
        server.stop();
    }
}

#[test]
fn a_client_that_goes_away_cancels_its_stream_and_no_other() {
    let (sender, came) = channel();
    let sender = Mutex::new(sender);
    let upstream = framed::start(&[], move |far| {
        loop {
            let next = far.next()?;
            if let Came::Head { id, fields, .. } = &next
                && field(fields, ":path") == Some("/quick")
            {
                far.answer(*id, "quick")?;
            }
            sender.lock().unwrap().send(next).unwrap();
        }
    });
    let server = start(&upstream, "");
    let mut connection = Connection::new(server.address);
    let id = connection.request("GET", "/slow", &[], true);
    let slow = match came.recv_timeout(TIMEOUT).unwrap() {
        Came::Head { id, .. } => id,
        other => panic!("{other:?}"),
    };
    connection.cancel(id);
    assert_eq!(came.recv_timeout(TIMEOUT).unwrap(), Came::Reset { id: slow, code: code::CANCEL });
    assert_eq!(connection.get("/quick").text(), "quick");
    assert_eq!(upstream.connections(), 1);
    server.stop();
}

#[test]
fn a_server_that_takes_few_streams_gets_more_connections() {
    let came = AtomicUsize::new(0);
    let upstream = framed::start(&[(setting::MAX_CONCURRENT_STREAMS, 2)], move |far| {
        let asked = [far.request()?, far.request()?];
        came.fetch_add(2, SeqCst);
        eventually("all requests have come", || came.load(SeqCst) == 6);
        asked.iter().try_for_each(|(id, ..)| far.answer(*id, "said"))?;
        say(far)
    });
    let server = start(&upstream, "");
    let mut clients: Vec<_> = (0..6).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    for client in &mut clients {
        assert_eq!(client.response("GET").status, 200);
    }
    assert_eq!(upstream.connections(), 3);
    server.stop();
}

#[test]
fn a_server_that_does_not_speak_http_2_is_not_used() {
    let upstream = Upstream::start(|peer| {
        peer.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")?;
        peer.wait_for_end()
    });
    let server = start(&upstream, "");
    assert_eq!(server.connect().post("/", b"some").status, 502);
    server.wait_for("SETTINGS");
    server.stop();
}

#[test]
fn a_server_that_says_nothing_is_given_up_in_time() {
    let upstream = Upstream::start(|peer| peer.wait_for_end());
    let server = start(&upstream, "connect_timeout = \"200ms\"");
    assert_eq!(server.connect().get("/").status, 504);
    eventually("the connection is closed", || upstream.open() == 0);
    server.stop();
}

/// A connection that ends with many requests is one failure of its server, not one for each of them.
#[test]
fn the_end_of_a_connection_is_one_failure() {
    let upstream = framed::start(&[], |far| {
        for _ in 0..10 {
            far.request()?;
        }
        Ok(())
    });
    let server = start(&upstream, "");
    let mut clients: Vec<_> = (0..10).map(|_| server.connect()).collect();
    clients
        .iter_mut()
        .for_each(|client| client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"));
    for client in &mut clients {
        assert_eq!(client.response("POST").status, 502);
    }
    assert_eq!((upstream.connections(), server.total("upstream_failures")), (1, 1));
    server.stop();
}

/// `tls.http2`: chosen in the handshake, or not used.
#[test]
fn http_2_is_chosen_by_alpn() {
    let authority = Authority::new();
    let with = |protocols: &[&[u8]]| {
        let mut config = (*secure::config(&authority.sign("inner.example", 2100), None)).clone();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        std::sync::Arc::new(config)
    };
    let begin = |upstream: &Upstream| {
        Setup::with_files()
            .server("threads = 1")
            .outside("ca.pem", authority.pem.as_bytes())
            .route("/*", "pool = \"app\"")
            .table(&format!(
                "[pool.app]\nconnect = \"{}\"\n\
                 tls = {{ http2 = true, ca = \"ca.pem\", server_name = \"inner.example\" }}\n",
                upstream.name()
            ))
            .start()
    };
    let upstream = Upstream::secure(with(&[b"h2", b"http/1.1"]), |peer| {
        let mut far = Far::new(peer, &[])?;
        loop {
            let (id, fields, content) = far.request()?;
            assert_eq!(field(&fields, ":scheme"), Some("https"));
            far.answer(id, &format!("{} {}", field(&fields, ":path").unwrap(), content.len()))?;
        }
    });
    let server = begin(&upstream);
    let mut client = server.connect();
    for bytes in [0, 1000, 3_000_000] {
        assert_eq!(client.post("/form", &vec![b'x'; bytes]).text(), format!("/form {bytes}"));
    }
    assert_eq!(upstream.connections(), 1);
    server.stop();
    for other in [&[b"http/1.1".as_slice()][..], &[]] {
        let upstream = Upstream::secure(with(other), |peer| peer.wait_for_end());
        let server = begin(&upstream);
        assert_eq!(server.connect().get("/").status, 502, "{other:?}");
        server.stop();
    }
}

#[test]
fn a_server_may_listen_on_a_unix_socket() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.sock");
    let upstream = Upstream::unix(&path, |peer| say(&mut Far::new(peer, &[])?));
    for (path, mode) in [(directory.path(), 0o755), (&path, 0o777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let server = Setup::with_files()
        .server("threads = 1")
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"h2+unix:{}\"\n", path.display()))
        .start();
    let mut client = server.connect();
    for _ in 0..5 {
        assert_eq!(client.post("/form", b"some").text(), "/form 4");
    }
    assert_eq!(upstream.connections(), 1);
    server.stop();
}
