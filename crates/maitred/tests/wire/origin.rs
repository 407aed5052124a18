//! The client's address, from outside: fields of proxies, PROXY headers, and what applications and logs make of them.

use std::collections::HashSet;

use serde_json::Value;

use crate::support::{Client, End, Response, Server, Setup};

/// All clients here connect from 127.0.0.1: this makes a trusted proxy of them.
const TRUSTING: &str = "trusted_proxies = [\"127.0.0.0/8\"]";
const SHOW: &str = "GET /app/show HTTP/1.1\r\nHost: example.com:8080\r\n\r\n";
/// The client that the PROXY headers below name.
const V1: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f\xc0\0\x02\x01\xc6\x33\x64\x01\xdc\x04\x01\xbb\x04\0\0";
const V2_LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

fn setup() -> Setup {
    Setup::with_files().log("access = \"json\"")
}

/// With a pool `app`, whose application shows its environment.
fn with_application(setup: Setup) -> Server {
    let server = setup.pool("app", None, "workers = 1\nqueue = { timeout = \"60s\" }").start();
    server.wait_for_processes();
    server
}

/// The application's environment.
fn shown(response: &Response) -> Value {
    assert_eq!(response.status, 200, "{response:?}");
    serde_json::from_slice(&response.body).unwrap()
}

#[track_caller]
fn assert_shown(shown: &Value, expected: &[(&str, &str)]) {
    for (key, value) in expected {
        assert_eq!(shown[key].as_str(), Some(*value), "{key} of {shown}");
    }
}

fn is_hexadecimal(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[test]
fn a_client_is_told_of_and_not_believed() {
    let server = with_application(setup());
    let fields = "X-Forwarded-For: 10.9.8.7\r\nForwarded: for=10.9.8.7\r\nx-forwarded-proto: https\r\n\
                  X_Forwarded_For: 10.9.8.7\r\nX-Real-IP: 10.9.8.7\r\nX-Request-Id: mine\r\nX-Request-Start: t=1\r\n\
                  traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\ntracestate: a=1,b=2\r\n\
                  X-Real: 1\r\nContent_Length: 5\r\nX_SSL_Client_Verify: SUCCESS\r\nEarly_Data: 1\r\n\
                  Early-Data: 1\r\n";
    let mut client = server.connect();
    let seen = shown(&client.method("GET", "/app/show", fields));
    assert_shown(
        &seen,
        &[
            ("REMOTE_ADDR", "127.0.0.1"),
            ("REMOTE_PORT", &client.tcp().local_addr().unwrap().port().to_string()),
            ("wsgi.url_scheme", "http"),
            ("HTTP_X_FORWARDED_FOR", "127.0.0.1"),
            ("HTTP_X_FORWARDED_PROTO", "http"),
            ("HTTP_X_FORWARDED_HOST", "localhost"),
            ("HTTP_FORWARDED", "for=127.0.0.1;host=localhost;proto=http"),
            ("HTTP_TRACEPARENT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            ("HTTP_TRACESTATE", "a=1,b=2"),
            ("HTTP_X_REAL", "1"),
        ],
    );
    for lie in [
        "HTTP_X_REAL_IP",
        "CONTENT_LENGTH",
        "HTTP_CONTENT_LENGTH",
        "HTTP_X_SSL_CLIENT_VERIFY",
        "HTTP_EARLY_DATA",
    ] {
        assert!(seen[lie].is_null(), "{lie}: {seen}");
    }
    let start = seen["HTTP_X_REQUEST_START"].as_str().unwrap();
    let (secs, millis) = start.strip_prefix("t=").unwrap().split_once('.').unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(now.abs_diff(secs.parse().unwrap()) < 3600 && millis.len() == 3, "{start}");

    let mut ids: Vec<String> =
        (0..20).map(|_| shown(&client.ask(SHOW))["HTTP_X_REQUEST_ID"].as_str().unwrap().to_owned()).collect();
    ids.insert(0, seen["HTTP_X_REQUEST_ID"].as_str().unwrap().to_owned());
    client.method("GET", "/a.txt", "X-Request-Id: mine\r\n");
    let lines = server.stop().json_lines();
    let logged: Vec<&str> = lines.iter().filter_map(|line| line["request_id"].as_str()).collect();
    assert_eq!(logged, ids);
    assert!(ids.iter().all(|id| is_hexadecimal(id)), "{ids:?}");
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    assert!(lines.iter().all(|line| line["remote"] == "127.0.0.1"));
}

/// Cloudflare's field, and one of the operator's own: of a proxy it is the client, of another peer no application sees it.
#[test]
fn the_field_that_names_the_client_can_be_chosen() {
    for field in ["CF-Connecting-IP", "X-Edge-Client"] {
        let chosen = format!("client_address_from = \"{field}\"");
        let fields =
            format!("X-Forwarded-For: 203.0.113.1\r\nForwarded: for=203.0.113.1\r\n{field}: 2001:db8::7\r\n");
        let key = format!("HTTP_{}", field.to_uppercase().replace('-', "_"));
        let server = with_application(setup().server(TRUSTING).server(&chosen));
        let seen = shown(&server.connect().method("GET", "/app/show", &fields));
        assert_shown(
            &seen,
            &[
                ("REMOTE_ADDR", "2001:db8::7"),
                ("HTTP_X_FORWARDED_FOR", "2001:db8::7, 127.0.0.1"),
                ("HTTP_FORWARDED", "for=\"[2001:db8::7]\", for=127.0.0.1;host=localhost;proto=http"),
                (&key, "2001:db8::7"),
            ],
        );
        server.connect().method("GET", "/a.txt", &fields);
        let lines = server.stop().json_lines();
        assert!(lines.iter().all(|line| line["remote"] == "2001:db8::7"), "{lines:?}");

        let server = with_application(setup().server("trusted_proxies = [\"10.0.0.0/8\"]").server(&chosen));
        let seen = shown(&server.connect().method("GET", "/app/show", &fields));
        assert_shown(&seen, &[("REMOTE_ADDR", "127.0.0.1"), ("HTTP_X_FORWARDED_FOR", "127.0.0.1")]);
        assert!(seen[&key].is_null(), "{seen}");
        let lines = server.stop().json_lines();
        assert!(lines.iter().all(|line| line["remote"] == "127.0.0.1"), "{lines:?}");
    }
}

#[test]
fn a_trusted_proxy_is_believed() {
    let server = with_application(setup().server(TRUSTING));
    let mut proxy = server.connect();
    let fields = "X-Forwarded-For: 203.0.113.1, 2001:db8::7, 127.0.0.2\r\nX-Forwarded-Proto: https\r\n\
                  X-Forwarded-Host: shop.example\r\nX-Request-Id: from-the-proxy\r\n";
    let seen = shown(&proxy.method("GET", "/app/show", fields));
    assert_shown(
        &seen,
        &[
            ("REMOTE_ADDR", "2001:db8::7"),
            ("wsgi.url_scheme", "https"),
            ("HTTP_HOST", "localhost"),
            ("HTTP_X_FORWARDED_FOR", "203.0.113.1, 2001:db8::7, 127.0.0.2, 127.0.0.1"),
            ("HTTP_X_FORWARDED_PROTO", "https"),
            ("HTTP_X_FORWARDED_HOST", "shop.example"),
            ("HTTP_X_REQUEST_ID", "from-the-proxy"),
        ],
    );
    // Another client by the same connection, and no application.
    proxy.method("GET", "/a.txt", "Forwarded: for=\"192.0.2.8:99\"\r\nX-Request-Id: second\r\n");
    proxy.get("/a.txt");
    let lines = server.stop().json_lines();
    let logged: Vec<_> =
        lines.iter().map(|line| (line["remote"].as_str(), line["request_id"].as_str())).collect();
    assert_eq!(
        logged,
        [
            (Some("2001:db8::7"), Some("from-the-proxy")),
            (Some("192.0.2.8"), Some("second")),
            (Some("127.0.0.1"), None),
        ]
    );
}

#[test]
fn a_proxy_header_says_who_connects() {
    let server = with_application(setup().listen("proxy_protocol = true"));
    for header in [V1, V2] {
        let mut client = server.connect();
        client.send([header, SHOW.as_bytes(), SHOW.as_bytes()].concat());
        for _ in 0..2 {
            let seen = shown(&client.response("GET"));
            assert_shown(
                &seen,
                &[
                    ("REMOTE_ADDR", "192.0.2.1"),
                    ("REMOTE_PORT", "56324"),
                    ("HTTP_X_FORWARDED_FOR", "192.0.2.1"),
                    ("HTTP_FORWARDED", "for=192.0.2.1;host=\"example.com:8080\";proto=http"),
                ],
            );
        }
        assert_eq!(client.get("/a.txt").text(), "file a\n");
    }
    // The proxy speaks for itself.
    for header in [V2_LOCAL, b"PROXY UNKNOWN\r\n"] {
        let mut client = server.connect();
        client.send(header);
        assert_shown(&shown(&client.ask(SHOW)), &[("REMOTE_ADDR", "127.0.0.1")]);
    }
    let lines = server.stop().json_lines();
    let of = |remote: &str| lines.iter().filter(|line| line["remote"] == remote).count();
    assert_eq!((lines.len(), of("192.0.2.1"), of("127.0.0.1")), (8, 6, 2));
}

#[test]
fn a_proxy_header_may_come_in_pieces() {
    let server = setup().listen("proxy_protocol = true").listen("defer_accept = false").start();
    for header in [V1, V2] {
        let mut client = server.connect();
        for byte in header {
            client.send([*byte]);
        }
        assert_eq!(client.get("/a.txt").text(), "file a\n");
    }
    assert_eq!(server.stop().json_lines().iter().filter(|line| line["remote"] == "192.0.2.1").count(), 2);
}

#[test]
fn the_client_of_a_proxy_header_may_be_a_trusted_proxy() {
    let server = with_application(
        setup().listen("proxy_protocol = true").server("trusted_proxies = [\"192.0.2.0/24\"]"),
    );
    let show = SHOW.replace("\r\n\r\n", "\r\nX-Forwarded-For: 203.0.113.5\r\n\r\n");
    let mut client = server.connect();
    client.send([V1, show.as_bytes()].concat());
    let seen = shown(&client.response("GET"));
    assert_shown(
        &seen,
        &[("REMOTE_ADDR", "203.0.113.5"), ("HTTP_X_FORWARDED_FOR", "203.0.113.5, 192.0.2.1")],
    );
    // A peer outside of that network is not trusted, though it may send the header.
    let mut client = server.connect();
    client.send([V2_LOCAL, show.as_bytes()].concat());
    assert_shown(&shown(&client.response("GET")), &[("HTTP_X_FORWARDED_FOR", "127.0.0.1")]);
    server.stop();
}

/// Asserts that a connection is closed without an answer. What it has sent may not have been read, so a reset is as good.
#[track_caller]
fn assert_closed(client: &mut Client) {
    assert!(matches!(client.end(), End::Closed | End::Reset));
}

#[test]
fn a_connection_without_a_proxy_header_is_closed() {
    let server = setup().listen("proxy_protocol = true").start();
    let requests: [&[u8]; 4] =
        [SHOW.as_bytes(), b"PROXY TCP4 192.0.2.1\r\n", b"PROXY TCP4 x y 1 1\r\nGET / HTTP/1.1\r\n", &V2[1..]];
    for request in requests {
        let mut client = server.connect();
        client.send(request);
        assert_closed(&mut client);
    }
    // A second one is not a header any more.
    let mut client = server.connect();
    client.send([V1, V1].concat());
    assert_eq!(client.response("GET").status, 400);
    assert_eq!(server.total("malformed"), 5);
    let stopped = server.stop();
    let closed: Vec<_> = stopped.said.iter().filter(|line| line.contains("connection closed: ")).collect();
    assert_eq!(closed.len(), 4, "{:#?}", stopped.said);
    assert!(
        closed.iter().all(|line| line.contains("PROXY header") && line.contains("127.0.0.1")),
        "{closed:#?}"
    );
    assert_eq!(stopped.access.len(), 1);
}

#[test]
fn a_proxy_header_has_to_come_in_time() {
    let server = setup()
        .listen("proxy_protocol = true")
        .listen("defer_accept = false")
        .limit("head_timeout = \"1s\"")
        .start();
    let (mut silent, mut slow) = (server.connect(), server.connect());
    slow.send(&V1[..20]);
    assert_closed(&mut silent);
    assert_closed(&mut slow);
    let stopped = server.stop();
    let closed =
        stopped.said.iter().filter(|line| line.contains("connection closed: no PROXY header in time"));
    assert_eq!(closed.count(), 2, "{:#?}", stopped.said);
}

#[test]
fn only_named_proxies_may_connect_with_a_proxy_header() {
    let server =
        setup().listen("proxy_protocol = true").listen("proxy_protocol_from = [\"192.0.2.0/24\"]").start();
    let mut client = server.connect();
    let _ = client.try_send([V1, SHOW.as_bytes()].concat());
    assert_closed(&mut client);
    server.wait_for_line(|line| line.contains("127.0.0.1") && line.contains("`proxy_protocol_from`"));
    assert!(server.stop().access.is_empty());
}

#[test]
fn a_reload_keeps_who_the_client_is() {
    let server = with_application(
        setup().server("threads = 2").listen("proxy_protocol = true").listen("defer_accept = false"),
    );
    let mut used: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for client in &mut used {
        client.send([V1, SHOW.as_bytes()].concat());
        assert_shown(&shown(&client.response("GET")), &[("REMOTE_ADDR", "192.0.2.1")]);
    }
    let mut fresh = server.connect();
    let (status, said) = server.command(&["reload"]);
    assert!(status.success(), "{said}");
    server.wait_for_processes();
    for client in &mut used {
        let seen = shown(&client.ask(SHOW));
        assert_shown(&seen, &[("REMOTE_ADDR", "192.0.2.1"), ("REMOTE_PORT", "56324")]);
    }
    fresh.send(V2);
    assert_shown(&shown(&fresh.ask(SHOW)), &[("REMOTE_ADDR", "192.0.2.1")]);
    let lines = server.stop().json_lines();
    assert_eq!(lines.len(), 9);
    assert!(lines.iter().all(|line| line["remote"] == "192.0.2.1"));
}

/// Fields that a client may not write, since applications trust them.
const CLAIMS: &str = "X-Remote-User: root\r\nRemote-User: root\r\nX-Original-URL: /admin\r\nX-Rewrite-URL: /admin\r\n\
                      Front-End-Https: on\r\nX-Scheme: https\r\nX-URL-Scheme: https\r\nTrue-Client-IP: 10.9.8.7\r\n\
                      X-Client-IP: 10.9.8.7\r\nSSL-Client-Cert: x\r\nX-Auth-Request-Email: a@b\r\nX-Own: 1\r\n";

#[test]
fn only_a_trusted_proxy_says_who_the_user_is() {
    let start = |pool: &str, setup: Setup| {
        let server =
            setup.pool("app", None, &format!("workers = 1\nqueue = {{ timeout = \"60s\" }}\n{pool}")).start();
        server.wait_for_processes();
        server
    };
    let claimed = |server: &Server| {
        let seen = shown(&server.connect().method("GET", "/app/show", CLAIMS));
        assert_eq!(seen["HTTP_X_OWN"].as_str(), Some("1"), "all others go on");
        let names = CLAIMS.lines().filter_map(|line| line.split(": ").next()).filter(|name| *name != "X-Own");
        let variable = |name: &str| format!("HTTP_{}", name.replace('-', "_").to_ascii_uppercase());
        names.filter(|name| !seen[variable(name)].is_null()).map(str::to_owned).collect::<Vec<_>>()
    };
    for transport in ["direct", "relay"] {
        let transport = format!("transport = \"{transport}\"\n");
        let server = start(&transport, setup());
        assert_eq!(claimed(&server), [""; 0], "{transport}");
        server.stop();
        let server =
            start(&format!("{transport}request_headers = {{ keep = [\"X-Remote-User\"] }}\n"), setup());
        assert_eq!(claimed(&server), ["X-Remote-User"], "{transport}");
        server.stop();
        let server = start(&transport, setup().server(TRUSTING));
        assert_eq!(claimed(&server).len(), 11, "{transport}");
        server.stop();
    }
}
