//! What a site answers over HTTP/3, what of it is in the access log, and how clients learn that it is there.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::support::h2;
use crate::support::h3::{Asks, Text, connect, setup};
use crate::support::stage::{self, Authority};
use crate::support::{Client, Server, Setup};

#[test]
fn files_come_as_over_any_other_version() {
    let server = setup("").file("large.bin", &vec![b'x'; 1_000_000]).start();
    let mut client = connect(&server);
    let whole = client.get("/a.txt").unwrap();
    assert_eq!((whole.status, whole.text(), whole.need("content-length")), (200, "file a\n", "7"));
    assert!(whole.field("connection").is_none() && whole.need("content-type").starts_with("text/plain"));
    let head = client.ask("HEAD", "/a.txt", &[], b"");
    assert_eq!((head.status, head.text(), head.need("content-length")), (200, "", "7"));
    let part = client.ask("GET", "/a.txt", &[("range", "bytes=1-3")], b"");
    assert_eq!((part.status, part.text(), part.need("content-range")), (206, "ile", "bytes 1-3/7"));
    let tag = whole.need("etag");
    let same = client.ask("GET", "/a.txt", &[("if-none-match", tag)], b"");
    assert_eq!((same.status, same.text()), (304, ""));
    assert_eq!(client.get("/dir/").unwrap().text(), "<p>dir</p>\n");
    assert_eq!(client.get("/dir").unwrap().status, 301);
    assert_eq!(client.get("/not-there").unwrap().status, 404);
    assert_eq!(client.ask("POST", "/a.txt", &[], b"not wanted").status, 405);
    assert_eq!(client.get("/large.bin").unwrap().body.len(), 1_000_000);
    drop(client);
    let stopped = server.stop();
    let has = |wanted: &str| {
        assert!(stopped.access.iter().any(|line| line.contains(wanted)), "{wanted}: {:#?}", stopped.access);
    };
    assert_eq!(stopped.access.len(), 9, "{:#?}", stopped.access);
    has("\"GET /a.txt HTTP/3.0\" 200 7 \"-\" \"-\"");
    has("\"HEAD /a.txt HTTP/3.0\" 200 - ");
    has("\"GET /a.txt HTTP/3.0\" 206 3 ");
    has("\"GET /a.txt HTTP/3.0\" 304 - ");
    has("\"GET /not-there HTTP/3.0\" 404 ");
    has("\"POST /a.txt HTTP/3.0\" 405 ");
    has("\"GET /large.bin HTTP/3.0\" 200 1000000 ");
}

#[test]
fn the_authority_chooses_the_site() {
    let other = "[[site]]\nhosts = [\"other.example\"]\nroot = \"other\"\n\
                 certificates = [{ certificate = \"site.pem\", key = \"site-key.pem\" }]\n";
    let server =
        setup("").site("hosts = [\"localhost\"]").outside("other/a.txt", b"other a\n").table(other).start();
    let mut client = connect(&server);
    for (authority, text) in [("localhost", "file a\n"), ("other.example", "other a\n")] {
        let fields =
            [(":method", "GET"), (":scheme", "https"), (":authority", authority), (":path", "/a.txt")];
        let response = client.request(&fields, b"").unwrap();
        assert_eq!((response.status, response.text()), (200, text), "{authority}");
    }
    drop(client);
    server.stop();
}

#[test]
fn json_has_the_version() {
    let server = setup("").log("access = \"json\"").start();
    let mut client = connect(&server);
    let fields = [("referer", "http://a.example/"), ("user-agent", "test/3")];
    assert_eq!(client.ask("GET", "/a.txt", &fields, b"").status, 200);
    drop(client);
    let lines = server.stop().json_lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["version"], "HTTP/3.0", "{lines:#?}");
    assert_eq!(lines[0]["user_agent"], "test/3", "{lines:#?}");
}

/// A connection of HTTP/2 over TLS.
fn http2(server: &Server, config: &Arc<ClientConfig>) -> h2::Connection {
    let mut config = ClientConfig::clone(config);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let socket = TcpStream::connect(server.address_of("https")).unwrap();
    socket.set_read_timeout(Some(crate::support::TIMEOUT)).unwrap();
    let stream = StreamOwned::new(session, socket.try_clone().unwrap());
    let mut connection = h2::Connection::on(Box::new(stream), socket);
    connection.scheme = "https";
    connection.begin(&[]);
    connection
}

/// `Alt-Svc` of a response over HTTP/1.1 with TLS, and of one over HTTP/2.
fn offered(server: &Server, config: &Arc<ClientConfig>) -> [Option<String>; 2] {
    let one = stage::connect(server, config).get("/a.txt");
    let two = http2(server, config).get("/a.txt");
    assert_eq!((one.status, two.status), (200, 200));
    [one.field("alt-svc").map(str::to_owned), two.field("alt-svc").map(str::to_owned)]
}

#[test]
fn alt_svc_names_the_port_where_http3_is() {
    let authority = Authority::new();
    let plain = "[[listen]]\naddress = \"127.0.0.2:0\"\n";
    let server = stage::setup(&authority, "").listen("http3 = true").table(plain).start();
    let port = server.address_of("https").port();
    for found in offered(&server, &authority.client()) {
        let found = found.expect("it is offered");
        assert!(found.starts_with(&format!("h3=\":{port}\"")), "{found}");
    }
    let address = server.address_of("http");
    let mut cleartext = Client::connect(address);
    assert_eq!(cleartext.get("/a.txt").field("alt-svc"), None, "in cleartext");
    // A response with an error has it, too: the client may come back all the same.
    let missing = stage::connect(&server, &authority.client()).get("/not-there");
    assert!(missing.need("alt-svc").contains(&format!(":{port}")), "{missing:?}");
    server.stop();
}

/// Whether the port of UDP is free.
fn is_free(address: SocketAddr) -> bool {
    UdpSocket::bind(address).is_ok()
}

#[test]
fn without_http3_nothing_is_offered_and_no_port_is_open() {
    let authority = Authority::new();
    for lines in ["http3 = false", "backlog = 100"] {
        let server = stage::setup(&authority, "").listen(lines).start();
        assert_eq!(offered(&server, &authority.client()), [None, None], "{lines}");
        assert!(is_free(server.address_of("https")), "{lines}");
        server.stop();
    }
    let server = stage::setup(&authority, "").listen("http3 = true").start();
    assert!(!is_free(server.address_of("https")));
    server.stop();
}

/// The operator's own word counts.
#[test]
fn a_site_may_say_something_else() {
    let authority = Authority::new();
    let server = stage::setup(&authority, "")
        .listen("http3 = true")
        .site("headers = { set = { Alt-Svc = \"clear\" } }")
        .start();
    assert_eq!(offered(&server, &authority.client()), [Some("clear".to_owned()), Some("clear".to_owned())]);
    server.stop();
}

/// A hundred on one connection, of all kinds of files.
#[test]
fn a_hundred_requests_at_once_are_answered() {
    let large: Vec<u8> = (0..300_000_u32).map(|at| (at ^ at >> 8) as u8).collect();
    let server = Setup::start(setup("").file("large.bin", &large));
    let mut client = connect(&server);
    let paths = ["/a.txt", "/b.txt", "/large.bin", "/none"];
    let streams: Vec<_> = (0..100).map(|number| client.send_get(paths[number % 4], &[])).collect();
    for (number, stream) in streams.into_iter().enumerate() {
        let response = client.response(stream).unwrap();
        match number % 4 {
            0 => assert_eq!(response.text(), "file a\n"),
            1 => assert_eq!(response.text(), "file b\n"),
            2 => assert!(response.body == large),
            _ => assert_eq!(response.status, 404),
        }
    }
    drop(client);
    assert_eq!(server.stop().access.len(), 100);
}
