//! `proxy_protocol` of a pool: connections that begin with who the client is.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use maitred_http::proxy_protocol::{Header, parse};

use crate::proxy::fastcgi;
use crate::proxy::secure::{Authority, config};
use crate::support::h2::Connection;
use crate::support::upstream::{Peer, Upstream};
use crate::support::{Client, Server, Setup, eventually};

/// What connections began with, in their order.
type Seen = Arc<Mutex<Vec<Vec<u8>>>>;

/// Takes a header of either version.
fn header(peer: &mut Peer, seen: &Seen) -> io::Result<()> {
    let mut bytes = Vec::new();
    while parse(&bytes).unwrap().is_none() {
        bytes.extend(peer.take(1)?);
    }
    seen.lock().unwrap().push(bytes);
    Ok(())
}

/// A server that keeps its connections, and says what it was told of them.
fn telling(seen: &Seen) -> Upstream {
    let seen = seen.clone();
    Upstream::start(move |peer| {
        header(peer, &seen)?;
        loop {
            let asked = peer.request()?;
            peer.answer(asked.field("connection").unwrap_or("-"))?;
        }
    })
}

fn start(app: &Upstream, version: &str) -> Server {
    let trusts = "trusted_proxies = [\"127.0.0.0/8\"]";
    crate::proxy::setup(&[app], &format!("proxy_protocol = \"{version}\"")).server(trusts).start()
}

fn clients(seen: &Seen) -> Vec<Option<SocketAddr>> {
    let seen = seen.lock().unwrap();
    seen.iter()
        .map(|bytes| {
            let (Header { client }, used) = parse(bytes).unwrap().unwrap();
            assert_eq!(used, bytes.len());
            client
        })
        .collect()
}

#[test]
fn each_request_has_a_connection_that_names_its_client() {
    let seen = Seen::default();
    let app = telling(&seen);
    let server = start(&app, "v2");
    let mut client = server.connect();
    for number in 1..4 {
        assert_eq!(client.get("/x").text(), "close");
        assert_eq!(app.connections(), number);
    }
    eventually("they are closed", || app.open() == 0);
    let own = client.tcp().local_addr().unwrap();
    assert_eq!(clients(&seen), [Some(own); 3]);
    let to = server.address_of("http").port().to_be_bytes();
    let whole = [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", [127, 0, 0, 1, 127, 0, 0, 1].as_slice()].concat();
    let whole = [whole.as_slice(), &own.port().to_be_bytes(), &to].concat();
    assert_eq!(seen.lock().unwrap()[0], whole);
    let trailers = client.method("GET", "/x", "TE: trailers\r\nConnection: te\r\n");
    assert_eq!(trailers.text(), "te, close");
    // Streams of one connection.
    seen.lock().unwrap().clear();
    let mut client = Connection::new(server.address_of("http"));
    let streams = [(); 3].map(|()| client.request("GET", "/x", &[], true));
    streams.iter().for_each(|stream| assert_eq!(client.response(*stream).text(), "close"));
    let ends: Vec<_> = seen.lock().unwrap().iter().map(|bytes| bytes[26..].to_vec()).collect();
    assert_eq!(ends, [to; 3]);
    server.stop();
}

#[test]
fn behind_a_proxy_the_client_is_the_one_that_it_names() {
    for version in ["v1", "v2"] {
        let seen = Seen::default();
        let app = telling(&seen);
        let server = start(&app, version);
        let mut client = server.connect();
        for address in ["192.0.2.7", "2001:db8::7"] {
            let fields = format!("X-Forwarded-For: {address}\r\n");
            assert_eq!(client.method("GET", "/x", &fields).text(), "close");
        }
        let named = ["192.0.2.7:0", "[2001:db8::7]:0"].map(|named| Some(named.parse().unwrap()));
        assert_eq!(clients(&seen), named);
        if version == "v1" {
            let port = server.address_of("http").port();
            let line = format!("PROXY TCP6 2001:db8::7 ::ffff:127.0.0.1 0 {port}\r\n");
            assert_eq!(seen.lock().unwrap()[1], line.as_bytes());
        }
        server.stop();
    }
}

#[test]
fn a_client_of_a_unix_socket_has_no_address() {
    let seen = Seen::default();
    let app = telling(&seen);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("http.sock");
    let listen = format!("address = \"unix:{}\"", path.display());
    let server = crate::proxy::setup(&[&app], "proxy_protocol = \"v2\"").listen(&listen).launch();
    eventually("it listens", || std::os::unix::net::UnixStream::connect(&path).is_ok());
    assert_eq!(Client::connect_unix(&path).get("/x").text(), "close");
    assert_eq!(clients(&seen), [None]);
    server.stop();
}

#[test]
fn a_request_that_is_retried_names_its_client_again() {
    let seen = Seen::default();
    let closing = {
        let seen = seen.clone();
        Upstream::start(move |peer| {
            header(peer, &seen)?;
            peer.request().map(|_| ())
        })
    };
    let good = telling(&seen);
    let lines = "proxy_protocol = \"v2\"\nbalance = \"round_robin\"";
    let server = crate::proxy::setup(&[&closing, &good], lines).start();
    let mut client = server.connect();
    let own = client.tcp().local_addr().unwrap();
    for _ in 0..4 {
        assert_eq!(client.get("/x").text(), "close");
    }
    assert!(closing.connections() > 0 && good.connections() == 4);
    let expected = vec![Some(own); closing.connections() + 4];
    assert_eq!(clients(&seen), expected);
    server.stop();
}

#[test]
fn the_header_comes_before_tls() {
    let authority = Authority::new();
    let tls = config(&authority.sign("inner.example", 2100), None);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving = std::thread::spawn(move || -> io::Result<Vec<u8>> {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(crate::support::TIMEOUT))?;
        let mut header = vec![0; 28];
        stream.read_exact(&mut header)?;
        let session = rustls::ServerConnection::new(tls).map_err(io::Error::other)?;
        let mut stream = rustls::StreamOwned::new(session, stream);
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.extend(byte);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret")?;
        stream.flush()?;
        Ok(header)
    });
    let pool = format!(
        "[pool.app]\nconnect = \"https://{address}\"\nproxy_protocol = \"v2\"\n\
         tls = {{ ca = \"ca.pem\", server_name = \"inner.example\" }}\n"
    );
    let server = Setup::with_files()
        .outside("ca.pem", authority.pem.as_bytes())
        .route("/*", "pool = \"app\"")
        .table(&pool)
        .start();
    let mut client = server.connect();
    assert_eq!(client.get("/x").text(), "secret");
    let header = serving.join().unwrap().unwrap();
    let (Header { client: named }, _) = parse(&header).unwrap().unwrap();
    assert_eq!(named, Some(client.tcp().local_addr().unwrap()));
    server.stop();
}

#[test]
fn applications_of_fastcgi_get_it_too() {
    let seen = Seen::default();
    let app = {
        let seen = seen.clone();
        Upstream::start(move |peer| {
            header(peer, &seen)?;
            fastcgi::head(peer)?;
            fastcgi::record(peer)?;
            fastcgi::answer(peer, "hello")
        })
    };
    let server = fastcgi::setup(&[&app], "proxy_protocol = \"v1\"").start();
    let mut client = server.connect();
    assert_eq!(client.get("/x").text(), "hello");
    assert_eq!(clients(&seen), [Some(client.tcp().local_addr().unwrap())]);
    server.stop();
}

#[test]
fn a_check_is_the_servers_own() {
    let seen = Seen::default();
    let app = telling(&seen);
    let health = "health = { interval = \"100ms\", healthy_after = 1, unhealthy_after = 1 }";
    let server = crate::proxy::setup(&[&app], &format!("proxy_protocol = \"v2\"\n{health}")).start();
    eventually("it is checked", || app.requests() >= 3);
    server.stop();
    assert!(clients(&seen).iter().all(|client| client.is_none()), "{seen:?}");
    assert!(seen.lock().unwrap().iter().all(|bytes| bytes[12..] == [0x20, 0, 0, 0]), "{seen:?}");
}

/// From one Maitred to another one, which logs the client.
#[test]
fn another_server_of_this_kind_understands_it() {
    for version in ["v1", "v2"] {
        let inner = Setup::with_files().listen("proxy_protocol = true").start();
        let inner_address = inner.address_of("http");
        let server = Setup::with_files()
            .server("trusted_proxies = [\"127.0.0.0/8\"]")
            .route("/*", "pool = \"app\"")
            .table(&format!(
                "[pool.app]\nconnect = \"http://{inner_address}\"\nproxy_protocol = \"{version}\"\n"
            ))
            .start();
        let mut client = server.connect();
        let response = client.method("GET", "/a.txt", "X-Forwarded-For: 192.0.2.9\r\n");
        assert_eq!((response.status, response.text()), (200, "file a\n"));
        server.stop();
        let log = inner.stop().access;
        assert!(log.iter().any(|line| line.starts_with("192.0.2.9 ")), "{log:?}");
    }
}

/// A server that takes nothing yet has its header later.
#[test]
fn a_server_that_accepts_late_gets_all_of_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let table = format!("[pool.app]\nconnect = \"http://{address}\"\nproxy_protocol = \"v2\"\n");
    let server = Setup::with_files().route("/*", "pool = \"app\"").table(&table).start();
    let mut client = server.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.is_silent_for(Duration::from_millis(100)));
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(crate::support::TIMEOUT)).unwrap();
    let mut bytes = [0; 28 + 15];
    stream.read_exact(&mut bytes).unwrap();
    assert!(parse(&bytes).unwrap().is_some() && bytes.ends_with(b"GET /x HTTP/1.1"));
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    assert_eq!(client.response("GET").status, 204);
    server.stop();
}
