//! Which responses get a coding.

use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use crate::compress::{decoded, json};
use crate::support::upstream::{Peer, Upstream};
use crate::support::{Client, Server, Setup};

/// Answers with the status, and the fields, that the query says.
fn serve(peer: &mut Peer) -> io::Result<()> {
    loop {
        let asked = peer.request()?;
        let query = asked.target().split_once('?').map_or("", |(_, query)| query);
        let fields = query.replace("+", " ").replace("!", "\"").replace(":", ": ").replace(";", "\r\n");
        let (status, fields) = fields.split_once("\r\n").unwrap_or((&fields, "Content-Type: text/html"));
        let body = if matches!(status, "204" | "304") { String::new() } else { json(100) };
        let length =
            if body.is_empty() { String::new() } else { format!("\r\nContent-Length: {}", body.len()) };
        peer.send(format!("HTTP/1.1 {status} X\r\n{fields}{length}\r\n\r\n{body}"))?;
    }
}

fn setup(upstream: &Upstream, site: &str) -> Setup {
    Setup::new()
        .site(site)
        .route("/plain/*", "pool = \"app\"\ncompress = false")
        .route("/short/*", "pool = \"app\"\ncompress = { bytes_min = \"1MiB\" }")
        .route("/json/*", "pool = \"app\"\ncompress = { types = [\"application/json\"] }")
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
}

fn coding(client: &mut Client, target: &str) -> (Option<String>, Option<String>) {
    let response = client.method("GET", target, "Accept-Encoding: zstd, gzip\r\n");
    let field = |name: &str| response.field(name).map(str::to_owned);
    let coding = field("content-encoding");
    if matches!(coding.as_deref(), Some("zstd")) {
        assert_eq!(decoded(Some("zstd"), &response.body), json(100).as_bytes());
    }
    (coding, field("vary"))
}

#[test]
fn responses_that_must_not_be_changed_are_not() {
    let upstream = Upstream::start(serve);
    let server = setup(&upstream, "compress = true").start();
    let mut client = server.connect();
    let (zstd, vary) = (Some("zstd".to_owned()), Some("Accept-Encoding".to_owned()));
    for target in [
        "/?200",
        "/?201",
        "/json/?200;Content-Type:application/json",
        "/?200;Content-Type:text/css;Set-Cookie:a=b",
    ] {
        assert_eq!(coding(&mut client, target), (zstd.clone(), vary.clone()), "{target}");
    }
    for target in [
        "/?404",
        "/?206;Content-Type:text/html;Content-Range:bytes+0-1/2",
        "/?204",
        "/?200;Content-Type:image/png",
        "/?200;X-No:type",
        "/?200;Content-Type:text/html;Cache-Control:no-transform",
        "/plain/?200",
        "/short/?200",
        "/json/?200",
    ] {
        assert_eq!(coding(&mut client, target), (None, None), "{target}");
    }
    let own = "/?200;Content-Type:text/html;Content-Encoding:br";
    assert_eq!(coding(&mut client, own), (Some("br".to_owned()), None));
    let varies = "/?200;Content-Type:text/html;Vary:accept-encoding";
    assert_eq!(coding(&mut client, varies), (zstd, Some("accept-encoding".to_owned())));
    let known = client.method("GET", "/?304;ETag:!a!", "Accept-Encoding: gzip\r\n");
    assert_eq!((known.status, known.need("etag"), known.need("vary")), (304, "W/\"a\"", "Accept-Encoding"));
    server.stop();
}

/// A server with an address for TLS, and what connects to it.
fn start_tls(upstream: &Upstream, site: &str) -> (Server, impl Fn() -> Client) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let server = setup(upstream, site)
        .outside("certificate.pem", made.cert.pem().as_bytes())
        .outside("key.pem", made.signing_key.serialize_pem().as_bytes())
        .site("certificates = [{ certificate = \"certificate.pem\", key = \"key.pem\" }]")
        .table("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = {}\n")
        .start();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(made.cert.der().to_vec())).unwrap();
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let (address, config) = (server.address_of("https"), Arc::new(config));
    (server, move || Client::try_connect_tls(address, &config, "localhost").unwrap())
}

#[test]
fn over_tls_what_sets_a_cookie_is_not_compressed_unless_told() {
    let upstream = Upstream::start(serve);
    let cookie = "/?200;Content-Type:text/html;Set-Cookie:a=b";
    for (site, over_tls) in
        [("compress = true", None), ("compress = { cookies_over_tls = true }", Some("zstd"))]
    {
        let (server, connect) = start_tls(&upstream, site);
        let mut secure = connect();
        assert_eq!(coding(&mut secure, "/?200").0.as_deref(), Some("zstd"));
        assert_eq!(coding(&mut secure, cookie).0.as_deref(), over_tls, "{site}");
        assert_eq!(coding(&mut server.connect(), cookie).0.as_deref(), Some("zstd"), "in cleartext");
        server.stop();
    }
}

#[test]
fn a_proxy_that_ends_tls_counts_as_tls() {
    let upstream = Upstream::start(serve);
    let server = setup(&upstream, "compress = true").server("trusted_proxies = [\"127.0.0.1\"]").start();
    let cookie = "/?200;Content-Type:text/html;Set-Cookie:a=b";
    for (scheme, coding) in [("https", None), ("http", Some("gzip"))] {
        let fields =
            format!("Accept-Encoding: gzip\r\nX-Forwarded-Proto: {scheme}\r\nX-Forwarded-For: 192.0.2.1\r\n");
        let response = server.connect().method("GET", cookie, &fields);
        assert_eq!(response.field("content-encoding"), coding, "{scheme}");
    }
    server.stop();
}

#[test]
fn without_the_key_nothing_is_compressed() {
    let upstream = Upstream::start(serve);
    let server = setup(&upstream, "").start();
    assert_eq!(coding(&mut server.connect(), "/?200"), (None, None));
    server.stop();
}

#[test]
fn what_finds_no_encoder_goes_out_as_it_is() {
    let (go_on, next) = channel::<()>();
    let next = Mutex::new(next);
    let upstream = Upstream::start(move |peer| {
        let asked = peer.request()?;
        peer.send(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        )?;
        if asked.target() == "/held" {
            next.lock().unwrap().recv().unwrap();
        }
        peer.send("0\r\n\r\n")
    });
    let server =
        setup(&upstream, "compress = true").server("threads = 1").limit("compress_encoders_max = 1").start();
    let mut held = server.connect();
    held.send("GET /held HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(held.head().unwrap().field("content-encoding"), Some("gzip"));
    let get = || server.connect().method("GET", "/x", "Accept-Encoding: gzip\r\n");
    let meanwhile = get();
    assert_eq!((meanwhile.field("content-encoding"), meanwhile.text()), (None, "ab"));
    assert_eq!(meanwhile.need("vary"), "Accept-Encoding");
    go_on.send(()).unwrap();
    let mut rest = Vec::new();
    while !rest.ends_with(b"\r\n0\r\n\r\n") {
        rest.extend(held.exactly(1).unwrap());
    }
    let later = get();
    assert_eq!(later.field("content-encoding"), Some("gzip"));
    assert_eq!(decoded(Some("gzip"), &later.body), b"ab");
    server.stop();
}

#[test]
fn the_processes_of_a_compressed_route_do_not_get_the_clients_socket() {
    let server = Setup::new()
        .outside("application.py", include_bytes!("../../support/application.py"))
        .route("/python/*", "pool = \"python\"\ncompress = true")
        .route("/own/*", "pool = \"python\"")
        .python("python", "application:application", "UNUSED = \"\"", "transport = \"direct\"")
        .start();
    let mut client = server.connect();
    assert_eq!(client.get("/own/hello").status, 200);
    assert_eq!((server.total("handoffs"), server.total("relayed")), (1, 0));
    // As long as text can be compressed, and in a file that the process returns, if it does not fit into the relay.
    let response = client.method("GET", "/python/large?1000000", "Accept-Encoding: zstd\r\n");
    assert_eq!(response.need("content-encoding"), "zstd");
    let block: Vec<u8> = (0..=255).collect();
    assert_eq!(decoded(Some("zstd"), &response.body), block.repeat(4000)[..1_000_000]);
    assert_eq!((server.total("handoffs"), server.total("relayed")), (2, 1));
    server.stop();
}
