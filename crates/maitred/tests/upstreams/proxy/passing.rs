//! What goes through when all is well.

use std::sync::mpsc::channel;

use crate::proxy::{setup, start};
use crate::support::upstream::{Peer, Upstream};
use crate::support::{End, eventually};

/// Says what it was asked, again and again.
fn say_target(peer: &mut Peer) -> std::io::Result<()> {
    loop {
        let asked = peer.request()?;
        peer.answer(asked.target())?;
    }
}

#[test]
fn one_connection_serves_many_requests() {
    let upstream = Upstream::start(say_target);
    let server = start(&upstream, "");
    let mut client = server.connect();
    for number in 0..20 {
        assert_eq!(client.get(&format!("/page/{number}?q=%41")).text(), format!("/page/{number}?q=%41"));
        assert_eq!(client.get("/a.txt").text(), "file a\n");
    }
    let mut other = server.connect();
    assert_eq!(other.get("/other").text(), "/other");
    assert_eq!((upstream.connections(), upstream.requests()), (1, 21));
    assert_eq!((server.total("upstream_connections"), server.total("upstream_requests")), (1, 21));
    let stopped = server.stop();
    assert_eq!(stopped.access.len(), 41);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let upstream = Upstream::start(say_target);
    let server = start(&upstream, "");
    let mut client = server.connect();
    let requests = |number: usize| {
        format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n")
    };
    client.send((0..20).map(requests).collect::<String>());
    for number in 0..20 {
        assert_eq!(client.response("GET").text(), format!("/{number}"));
        assert_eq!(client.response("GET").text(), "file a\n");
    }
    assert_eq!(upstream.connections(), 1);
    server.stop();
}

#[test]
fn the_server_gets_the_request_and_what_maitred_knows_of_it() {
    let (sender, asked) = channel();
    let upstream = Upstream::start(move |peer| {
        loop {
            sender.send(peer.request()?).unwrap();
            peer.answer("")?;
        }
    });
    let server = crate::support::Setup::with_files()
        .route("/shop/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"{}\"\nmount = \"/shop\"\n", upstream.name()))
        .log("access = \"json\"")
        .start();
    let mut client = server.connect();
    client.ask(
        "GET /shop//b/../c?x=1 HTTP/1.1\r\nHost: example.org:81\r\nX-Test: one\r\nX-Test: two\r\nCookie: a=b\r\n\
         Connection: x-hop\r\nX-Hop: 1\r\nX-Forwarded-For: 6.6.6.6\r\nTE: trailers\r\nUpgrade: h2c\r\n\r\n",
    );
    let request = asked.recv().unwrap();
    assert_eq!(request.line, "GET /shop/c?x=1 HTTP/1.1");
    assert_eq!(request.field("host"), Some("example.org:81"));
    assert_eq!(request.fields.iter().filter(|(name, _)| name == "x-test").count(), 2);
    assert_eq!(request.field("cookie"), Some("a=b"));
    assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(request.field("x-forwarded-proto"), Some("http"));
    assert_eq!(request.field("x-forwarded-prefix"), Some("/shop"));
    for name in ["x-hop", "upgrade", "content-length", "transfer-encoding"] {
        assert_eq!(request.field(name), None, "{name}");
    }
    // The server is told anew that the client takes trailers (9110-10.1.4).
    assert_eq!((request.field("te"), request.field("connection")), (Some("trailers"), Some("te")));
    let id = request.field("x-request-id").unwrap().to_owned();
    let response = client.post("/shop/form", b"a=b");
    assert_eq!(response.status, 200);
    let request = asked.recv().unwrap();
    assert_eq!((request.field("te"), request.field("connection")), (None, None));
    assert_eq!(
        (request.line.as_str(), request.body.as_slice()),
        ("POST /shop/form HTTP/1.1", b"a=b".as_slice())
    );
    client.ask(
        "POST /shop/form HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
    let request = asked.recv().unwrap();
    assert_eq!((request.field("content-length"), request.body.as_slice()), (Some("3"), b"abc".as_slice()));
    client.post("/shop/form", b"");
    assert_eq!(asked.recv().unwrap().field("content-length"), Some("0"), "nothing, but said");
    let lines = server.stop().json_lines();
    assert_eq!(lines.len(), 4);
    assert_eq!((&lines[0]["pool"], &lines[0]["request_id"]), (&"app".into(), &id.into()), "{:?}", lines[0]);
}

#[test]
fn every_framing_of_a_response_comes_through() {
    let upstream = Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            match asked.target() {
                "/chunked" => {
                    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")?;
                    peer.send("4\r\nnext\r\n0\r\nX-Trailer: 1\r\n\r\n")?;
                }
                "/until-end" => return peer.send("HTTP/1.1 200 OK\r\n\r\nuntil the end"),
                "/old" => return peer.send("HTTP/1.0 200 OK\r\n\r\nold"),
                "/old-kept" => peer.send(
                    "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\nkept",
                )?,
                "/closes" => {
                    return peer
                        .send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\ncloses");
                }
                "/nothing" => peer.send("HTTP/1.1 204 No Content\r\n\r\n")?,
                "/unchanged" => peer.send("HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n")?,
                "/early" => peer.send(
                    "HTTP/1.1 103 Early Hints\r\nLink: </s>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                )?,
                _ => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")?,
            }
        }
    });
    let server = start(&upstream, "early_hints = \"always\"");
    let mut client = server.connect();
    for _ in 0..2 {
        for (target, status, body) in [
            ("/chunked", 200, "firstnext"),
            ("/until-end", 200, "until the end"),
            ("/old", 200, "old"),
            ("/old-kept", 200, "kept"),
            ("/closes", 200, "closes"),
            ("/nothing", 204, ""),
            ("/unchanged", 304, ""),
            ("/early", 200, "ok"),
        ] {
            let response = client.get(target);
            assert_eq!((response.status, response.text()), (status, body), "{target}");
            assert!(!response.says_close(), "{target}: the server's connection is not the client's");
            assert_eq!(response.interim.len(), usize::from(target == "/early"));
        }
        let response = client.method("HEAD", "/head", "");
        assert_eq!((response.need("content-length"), response.body.len()), ("1000", 0));
    }
    // Three of the nine responses of a round end their connection.
    assert_eq!(upstream.connections(), 7);
    for target in ["/chunked", "/until-end", "/old", "/early"] {
        let mut client = server.connect();
        let response = client.ask(format!("GET {target} HTTP/1.0\r\nHost: h\r\n\r\n"));
        assert!(["firstnext", "until the end", "old", "ok"].contains(&response.text()), "{target}");
        assert_eq!(client.end(), End::Closed);
    }
    server.stop();
}

/// docs/applications.md says how many.
#[test]
fn a_response_may_set_many_cookies_but_not_any_number() {
    let upstream = Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            let count: usize = asked.target()[1..].parse().unwrap();
            // With the length.
            let cookies: String = (1..count).map(|number| format!("Set-Cookie: c{number}=1\r\n")).collect();
            peer.send(format!("HTTP/1.1 200 OK\r\n{cookies}Content-Length: 2\r\n\r\nok"))?;
        }
    });
    let server = start(&upstream, "");
    for count in [150, 1000] {
        let response = server.connect().get(&format!("/{count}"));
        assert_eq!((response.status, response.text()), (200, "ok"), "{count}");
        let cookies = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        assert_eq!(cookies.count(), count - 1);
    }
    assert_eq!(server.connect().get("/1001").status, 502);
    server.wait_for("more than 1000 fields in a response head");
    server.stop();
}

#[test]
fn large_bodies_go_both_ways() {
    const BYTES: usize = 10_000_000;
    let upstream = Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            peer.answer(asked.body)?;
        }
    });
    let server = setup(&[&upstream], "").limit("body_bytes_max = \"20MiB\"").start();
    let body: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
    let mut client = server.connect();
    for bytes in [0, 1, 60_000, 100_000, 1_000_000, BYTES] {
        let response = client.post("/echo", &body[..bytes]);
        assert!(response.body == body[..bytes], "{bytes} bytes: {} came back", response.body.len());
    }
    assert_eq!(upstream.connections(), 1);
    server.stop();
}

#[test]
fn a_streamed_response_is_sent_on_as_it_comes() {
    let (go, gate) = channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let upstream = Upstream::start(move |peer| {
        peer.request()?;
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for piece in ["one", "two"] {
            peer.send(format!("3\r\n{piece}\r\n"))?;
            gate.lock().unwrap().recv().unwrap();
        }
        peer.send("0\r\n\r\n")
    });
    let server = start(&upstream, "");
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.head().unwrap().need("transfer-encoding"), "chunked");
    assert_eq!(client.exactly(8).unwrap(), b"3\r\none\r\n");
    go.send(()).unwrap();
    assert_eq!(client.exactly(8).unwrap(), b"3\r\ntwo\r\n");
    go.send(()).unwrap();
    assert_eq!(client.exactly(5).unwrap(), b"0\r\n\r\n");
    server.stop();
}

#[test]
fn a_slow_client_holds_its_server_back() {
    const BYTES: usize = 64 << 20;
    let (sender, sent) = channel();
    let upstream = Upstream::start(move |peer| {
        peer.request()?;
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n"))?;
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..BYTES >> 20 {
            peer.send(&piece)?;
            sender.send(()).unwrap();
        }
        Ok(())
    });
    let server = start(&upstream, "");
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.head().unwrap().status, 200);
    // The response comes to a stop long before the end: there is room in sockets only.
    let mut taken = 0;
    while sent.recv_timeout(std::time::Duration::from_secs(1)).is_ok() {
        taken += 1;
    }
    assert!(taken < 40, "{taken} MiB of 64 are nowhere");
    // Meanwhile others are served.
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    assert_eq!(client.exactly(BYTES).unwrap().len(), BYTES);
    server.stop();
}

#[test]
fn a_unix_socket_will_do() {
    let directory = tempfile::tempdir().unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = directory.path().join("app.sock");
    let upstream = Upstream::unix(&path, say_target);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    let server = start(&upstream, "");
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/x").text(), "/x");
    }
    assert_eq!(upstream.connections(), 1);
    server.stop();
}

#[test]
fn idle_connections_are_closed_when_the_server_stops() {
    let upstream = Upstream::start(say_target);
    let server = start(&upstream, "");
    let mut client = server.connect();
    client.get("/x");
    assert_eq!(upstream.open(), 1);
    server.stop();
    eventually("the connection is closed", || upstream.open() == 0);
}

/// A server may see fields as variables, or trust fields that only a proxy may set.
#[test]
fn names_that_an_application_could_mistake_are_removed() {
    let names = "api_key: 1\r\nv1.key: 1\r\nX_Remote_User: root\r\nx.remote.user: root\r\nX-Remote-User: root\r\n\
                 X.Forwarded.For: 1\r\nContent_Length: 5\r\nX-Own: 1\r\n";
    let underscores = "request_headers = { underscores = true }";
    let keep = "request_headers = { keep = [\"api_key\", \"x-remote-user\"] }";
    let both = "request_headers = { underscores = true, keep = [\"x_remote_user\"] }";
    for (lines, trusts, expected) in [
        ("", false, &["X-Own"][..]),
        (underscores, false, &["api_key", "v1.key", "X-Own"]),
        (keep, false, &["api_key", "X-Remote-User", "X-Own"]),
        (both, false, &["api_key", "v1.key", "X_Remote_User", "X-Own"]),
        ("", true, &["X-Remote-User", "X-Own"]),
        // A proxy passes on what its clients send, too.
        ("trusted_fields = [\"X-Other\"]", true, &["X-Own"]),
        ("trusted_fields = [\"X-Remote-User\"]", true, &["X-Remote-User", "X-Own"]),
        ("trusted_fields = [\"X-Remote-*\", \"x-own\"]", true, &["X-Remote-User", "X-Own"]),
        ("trusted_fields = [\"X-Remote-*\", \"x-own\"]", false, &[]),
    ] {
        let upstream = Upstream::start(|peer| {
            let asked = peer.request()?;
            let names: Vec<_> = asked.fields.iter().map(|(name, _)| name.as_str()).collect();
            peer.answer(names.join(" "))
        });
        let mut setup = setup(&[&upstream], lines);
        if trusts {
            setup = setup.server("trusted_proxies = [\"127.0.0.0/8\"]");
        }
        let server = setup.start();
        let response = server.connect().method("GET", "/x", names);
        let sent: Vec<_> = names.lines().filter_map(|line| line.split(": ").next()).collect();
        let seen = response.text().split(' ');
        let seen: Vec<_> =
            seen.filter_map(|name| sent.iter().find(|sent| sent.eq_ignore_ascii_case(name))).collect();
        assert_eq!(seen, expected.iter().collect::<Vec<_>>(), "{lines} {trusts}");
        server.stop();
    }
}

/// Fields of proxies, gateways and login services that an application may trust.
const FAMILIES: [&str; 40] = [
    "X-Consumer-Username",
    "X-Consumer-Custom-ID",
    "X-Credential-Identifier",
    "OIDC-CLAIM-sub",
    "WL-Proxy-Client-IP",
    "Proxy-Client-IP",
    "IV-User",
    "IV-Groups",
    "SM-User",
    "X-Vouch-User",
    "X-Pomerium-Claim-Email",
    "X-TLS-Client-Cert",
    "X-Matched-Path",
    "X-Invoke-Path",
    "X-Amzn-Oidc-Identity",
    "X-Goog-Authenticated-User-Email",
    "X-Goog-IAP-JWT-Assertion",
    "Tailscale-User-Login",
    "Remote-User",
    "Remote-Groups",
    "X-Auth-Request-User",
    "X-Auth-Request-Email",
    "X-Remote-User",
    "X-WebAuth-User",
    "X-Authentik-Username",
    "X-MS-Client-Principal",
    "CF-Connecting-IP",
    "CF-Access-Authenticated-User-Email",
    "True-Client-IP",
    "X-Client-IP",
    "X-Real-IP",
    "X-Original-URL",
    "X-Rewrite-URL",
    "X-Envoy-External-Address",
    "X-Forwarded-Client-Cert",
    "X-Forwarded-User",
    "X-SSL-Client-Verify",
    "SSL-Client-Verify",
    "Client-Cert",
    "X-Middleware-Subrequest",
];

#[test]
fn no_client_sends_fields_of_proxies_and_login_services() {
    let names = |peer: &mut Peer| {
        let asked = peer.request()?;
        let values = asked.fields.iter().filter(|(_, value)| value.contains("forged"));
        let names: Vec<_> = values.map(|(name, _)| name.to_lowercase()).collect();
        peer.answer(names.join(" "))
    };
    let lines = |spell: &dyn Fn(&str) -> String| -> String {
        FAMILIES.iter().map(|name| format!("{}: forged\r\n", spell(name))).collect()
    };
    let spellings: [&dyn Fn(&str) -> String; 4] = [
        &|name| name.to_owned(),
        &|name| name.replace('-', "_"),
        &|name| name.replacen('-', ".", 1).to_uppercase(),
        &|name| name.replacen('-', "_", 1).to_lowercase(),
    ];
    for (more, trusts, expected) in [
        ("", false, ""),
        ("request_headers = { underscores = true }\n", false, ""),
        ("trusted_fields = [\"X-Auth-Request-*\", \"Remote-User\"]\n", false, ""),
        (
            "trusted_fields = [\"X-Auth-Request-*\", \"Remote-User\"]\n",
            true,
            "remote-user x-auth-request-user x-auth-request-email",
        ),
    ] {
        let upstream = Upstream::start(names);
        let mut setup = setup(&[&upstream], more);
        if trusts {
            setup = setup.server("trusted_proxies = [\"127.0.0.0/8\"]");
        }
        let server = setup.start();
        for (number, spell) in spellings.iter().enumerate() {
            let response = server.connect().method("GET", "/x", &lines(spell));
            let told = ["x-real-ip", "x-ssl-", "x-forwarded-"];
            let seen = response
                .text()
                .split(' ')
                .filter(|name| !(trusts && told.iter().any(|told| name.starts_with(told))));
            let expected = if number == 0 { expected } else { "" };
            assert_eq!(seen.collect::<Vec<_>>().join(" "), expected, "{more} {trusts} {number}");
        }
        server.stop();
    }
}

/// The lengths of a body in chunks, and what comes behind it.
fn chunks(peer: &mut Peer) -> std::io::Result<(Vec<usize>, String)> {
    let line = |peer: &mut Peer| {
        let mut line = String::new();
        while !line.ends_with("\r\n") {
            line.push(char::from(peer.take(1)?[0]));
        }
        Ok::<_, std::io::Error>(line)
    };
    let mut lengths = Vec::new();
    loop {
        let length = usize::from_str_radix(line(peer)?.trim_end(), 16).unwrap();
        if length == 0 {
            break;
        }
        lengths.push(length);
        assert!(peer.take(length + 2)?.ends_with(b"\r\n"));
    }
    let mut trailers = String::new();
    while !trailers.ends_with("\r\n\r\n") && trailers != "\r\n" {
        trailers += &line(peer)?;
    }
    Ok((lengths, trailers))
}

#[test]
fn trailers_of_a_request_reach_the_server() {
    let (sender, got) = channel();
    let upstream = Upstream::start(move |peer| {
        loop {
            let asked = peer.request()?;
            let behind = match asked.field("transfer-encoding") {
                Some(coding) => {
                    assert_eq!((coding, asked.field("content-length")), ("chunked", None));
                    Some((asked.field("trailer").unwrap_or_default().to_owned(), chunks(peer)?))
                }
                None => None,
            };
            sender.send(behind).unwrap();
            peer.answer("ok")?;
        }
    });
    let server = start(&upstream, "");
    let mut client = server.connect();
    // The last body is kept in a file, and sent from there.
    for bytes in [0, 5, 3_000_000] {
        let head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunk = if bytes > 0 { format!("{bytes:x}\r\n{}\r\n", "x".repeat(bytes)) } else { String::new() };
        let trailers = "0\r\nX-Sum: 17\r\nHost: evil\r\nX-B: c\r\n\r\n";
        assert_eq!(client.ask(format!("{head}{chunk}{trailers}")).text(), "ok");
        let (names, (lengths, behind)) = got.recv().unwrap().expect("no chunks");
        assert_eq!(behind, "x-sum: 17\r\nx-b: c\r\n\r\n", "{bytes} bytes");
        assert_eq!((names.as_str(), lengths.iter().sum()), ("x-sum, x-b", bytes));
        // A body without trailers has a length.
        assert_eq!(client.ask(format!("{head}{chunk}0\r\n\r\n")).text(), "ok");
        assert_eq!(got.recv().unwrap(), None);
    }
    assert_eq!(upstream.connections(), 1, "the connection was good for all of them");
    server.stop();
}
