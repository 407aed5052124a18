//! Where a request has come in: sites of one listener, and conditions about the connection. What a client writes changes nothing.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rcgen::PKCS_ECDSA_P256_SHA256;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::support::h2::{Connection, frame, hpack};
use crate::support::h3;
use crate::support::stage::{self, Authority, certificates, is, shown};
use crate::support::{Client, Server, Setup, TIMEOUT, eventually};
use maitred_load::client::Trust;
use maitred_load::http3::client::Connector;

/// Where the listeners are bound, in the order of the file.
fn listeners(server: &Server) -> Vec<SocketAddr> {
    let listens = server.status()["listens"].clone();
    let listens = listens.as_array().unwrap().iter();
    listens.map(|listen| listen["address"].as_str().unwrap().parse().unwrap()).collect()
}

/// A site that answers with its name.
fn named(hosts: &str, listen: &str, name: &str) -> String {
    format!(
        "[[site]]\nhosts = [{hosts}]\n{listen}\n[[site.route]]\npath = \"/*\"\nrespond = {{ body = \"{name}\" }}\n"
    )
}

/// Two listeners, `outside` and `inside`; `lines` are further lines of each.
fn two(setup: Setup, outside: &str, inside: &str) -> Setup {
    setup
        .listen(&format!("name = \"outside\"\n{outside}"))
        .table(&format!("[[listen]]\nname = \"inside\"\naddress = \"127.0.0.1:0\"\n{inside}\n"))
        .site("hosts = [\"public.example\"]\nlisten = \"outside\"")
        .route("/*", "respond = { body = \"public\" }")
        .table(&named("\"internal.example\", \"*.wide.example\"", "listen = \"inside\"", "internal"))
        .table(&named("\"both.example\", \"*.both.example\"", "listen = \"outside\"", "both, outside"))
        .table(&named("\"both.example\", \"x.both.example\"", "listen = [\"inside\"]", "both, inside"))
        .table(&named("\"every.example\"", "", "every"))
}

/// What each listener answers for a name.
const ANSWERS: [(&str, &str, &str); 10] = [
    ("public.example", "public", "internal"),
    ("internal.example", "public", "internal"),
    ("INTERNAL.example.", "public", "internal"),
    ("a.wide.example", "public", "internal"),
    ("both.example", "both, outside", "both, inside"),
    ("x.both.example", "both, outside", "both, inside"),
    ("y.both.example", "both, outside", "internal"),
    ("every.example", "every", "every"),
    ("no.such.example", "public", "internal"),
    ("", "public", "internal"),
];

#[test]
fn a_site_answers_at_its_listeners_whatever_the_client_writes() {
    let server = two(Setup::new(), "", "").server("trusted_proxies = [\"127.0.0.0/8\"]").start();
    let at = listeners(&server);
    for (host, outside, inside) in ANSWERS {
        for (place, expected) in [outside, inside].into_iter().enumerate() {
            let mut client = Client::connect(at[place]);
            let other = at[1 - place].port();
            let host_and_port = if host.is_empty() { String::new() } else { format!("{host}:{other}") };
            for request in [
                format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"),
                format!("GET / HTTP/1.1\r\nHost: {host_and_port}\r\n\r\n"),
                format!(
                    "GET / HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Host: internal.example\r\nX-Forwarded-Port: {other}\r\n\
                     Forwarded: for=192.0.2.1;host=internal.example;by=\"127.0.0.1:{other}\"\r\n\r\n"
                ),
            ] {
                let response = client.ask(&request);
                assert_eq!((response.status, response.text()), (200, expected), "{place} {request}");
            }
            if !host.is_empty() {
                let target = format!("GET http://{host}/ HTTP/1.1\r\nHost: public.example\r\n\r\n");
                assert_eq!(client.ask(&target).text(), expected, "{place} {target}");
                let mut client = Connection::new(at[place]);
                assert_eq!(over_http2(&mut client, host), (200, expected.to_owned()), "{place} {host}");
            }
        }
    }
    let mut client = Client::connect(at[0]);
    assert_eq!(client.ask("GET / HTTP/1.0\r\n\r\n").text(), "public");
    server.stop();
}

#[test]
fn a_proxy_header_does_not_say_where_a_connection_has_come_in() {
    let server = two(Setup::new(), "proxy_protocol = true", "").start();
    let at = listeners(&server);
    let mut client = Client::connect(at[0]);
    let header = format!("PROXY TCP4 192.0.2.1 127.0.0.1 56324 {}\r\n", at[1].port());
    client.send(&header);
    for (host, expected, _) in ANSWERS {
        assert_eq!(client.ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).text(), expected, "{host}");
    }
    server.stop();
}

/// One request of HTTP/2 for a host.
fn over_http2(client: &mut Connection, host: &str) -> (u16, String) {
    let scheme = client.scheme;
    let id = client.open();
    let head = [(":method", "GET"), (":scheme", scheme), (":path", "/"), (":authority", host)];
    client.send(frame::headers(id, &hpack::block(&head), true));
    let response = client.response(id);
    (response.status, String::from_utf8_lossy(&response.body).into_owned())
}

/// A connection that speaks HTTP/2 over TLS.
fn http2(address: SocketAddr, config: &Arc<ClientConfig>, name: &str) -> Connection {
    let mut config = (**config).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.set_write_timeout(Some(TIMEOUT)).unwrap();
    let below = socket.try_clone().unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut connection = Connection::on(Box::new(StreamOwned::new(session, socket)), below);
    connection.scheme = "https";
    connection.begin(&[]);
    connection
}

/// The same with TLS: all clients may come from outside, and who has a certificate from inside.
fn over_tls(authority: &Authority, outside: &str) -> Setup {
    let setup = Setup::new().outside("ca.pem", authority.pem.as_bytes());
    let sign = |names: &[&str]| authority.sign(names, &PKCS_ECDSA_P256_SHA256);
    sign(&["localhost", "public.example", "every.example", "both.example"])
        .write(setup.directory.path(), "public");
    sign(&["localhost", "internal.example"]).write(setup.directory.path(), "internal");
    let inside = "tls = { client_auth = \"required\", client_ca = \"ca.pem\" }\nhttp3 = true";
    let outside =
        format!("tls = {{ client_auth = \"optional\", client_ca = \"ca.pem\" }}\nhttp3 = true\n{outside}");
    two(setup.site(&certificates(&["public"])), &outside, inside).table(&named(
        "\"own.example\"",
        &format!("listen = \"inside\"\n{}", certificates(&["internal"])),
        "own",
    ))
}

#[test]
fn a_name_of_another_listener_is_misdirected_over_tls_and_the_connection_goes_on() {
    let authority = Authority::new();
    for (misdirected, status) in [("", 421), ("misdirected = \"default_site\"", 200)] {
        let server = over_tls(&authority, misdirected).start();
        let outside = listeners(&server)[0];
        let config = authority.client();
        let mut http1 = Client::try_connect_tls(outside, &config, "public.example").unwrap();
        let mut http2 = http2(outside, &config, "public.example");
        let trust = Trust::Authorities(server.path("ca.pem"));
        let mut connector = Connector::new(outside, "public.example", &trust).unwrap();
        connector.timeout = TIMEOUT;
        let mut http3 = connector.connect().unwrap();
        for (host, expected, _) in ANSWERS.into_iter().filter(|(host, ..)| !host.is_empty()) {
            let elsewhere = host.to_lowercase().starts_with("internal") || host.contains("wide");
            let status = if elsewhere { status } else { 200 };
            let response = http1.ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            let second = over_http2(&mut http2, host);
            let head = [(":method", "GET"), (":scheme", "https"), (":authority", host), (":path", "/")];
            let third = http3.request(&head, b"").unwrap();
            assert_eq!([response.status, second.0, third.status], [status; 3], "{misdirected} {host}");
            if status == 200 {
                let texts = [response.text(), &second.1, std::str::from_utf8(&third.body).unwrap()];
                assert_eq!(texts, [expected; 3], "{misdirected} {host}");
            }
        }
        // A body of such a request is no other request.
        let post = http1.ask("POST / HTTP/1.1\r\nHost: internal.example\r\nContent-Length: 3\r\n\r\nabc");
        assert_eq!(post.status, status);
        assert_eq!(http1.ask("GET / HTTP/1.1\r\nHost: public.example\r\n\r\n").text(), "public");
        server.stop();
    }
}

#[test]
fn a_certificate_is_shown_where_its_site_answers() {
    let authority = Authority::new();
    let server = over_tls(&authority, "").start();
    let at = listeners(&server);
    let read = |name: &str| stage::Made {
        certificate: std::fs::read_to_string(server.path(&format!("{name}.pem"))).unwrap(),
        key: String::new(),
    };
    let (config, picky) = authority.picky(&[rustls::SignatureScheme::ECDSA_NISTP256_SHA256]);
    for (place, name, expected) in [(0, "own.example", "public"), (0, "public.example", "public")] {
        let _ = Client::try_connect_tls(at[place], &config, name);
        let seen = picky.seen.lock().unwrap().take().unwrap();
        assert!(is(&seen, &read(expected)), "{place} {name}");
    }
    let alice = authority.sign(&["alice"], &PKCS_ECDSA_P256_SHA256);
    let own = authority.client_of(&[&TLS13], Some(&alice));
    let mut inside = Client::try_connect_tls(at[1], &own, "internal.example").unwrap();
    assert!(is(&shown(&mut inside), &read("internal")));
    assert_eq!(inside.ask("GET / HTTP/1.1\r\nHost: internal.example\r\n\r\n").text(), "internal");
    // The site that asks for certificates cannot be had from where there is none.
    assert_eq!(inside.ask("GET / HTTP/1.1\r\nHost: public.example\r\n\r\n").status, 421);
    server.stop();
}

#[test]
fn a_connection_stays_at_its_listener_over_a_reload() {
    let server = two(Setup::new(), "", "").start();
    let at = listeners(&server);
    let mut clients = at.iter().map(|address| Client::connect(*address)).collect::<Vec<_>>();
    let mut ask = |place: usize, host: &str| {
        clients[place].ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).text().to_owned()
    };
    assert_eq!(
        (ask(0, "internal.example"), ask(1, "internal.example")),
        ("public".into(), "internal".into())
    );
    // The listeners change their names.
    let text = std::fs::read_to_string(server.path("maitred.toml")).unwrap();
    let name = |text: &str, from: &str, to: &str| {
        text.replace(&format!("name = \"{from}\""), &format!("name = \"{to}\""))
    };
    let swapped = name(&name(&name(&text, "outside", "third"), "inside", "outside"), "third", "inside");
    std::fs::write(server.path("maitred.toml"), swapped).unwrap();
    h3::reload(&server, 2);
    eventually("the connections are there", || server.total("adopted") == 2);
    // What was inside is outside now.
    assert_eq!(
        (ask(0, "internal.example"), ask(1, "internal.example")),
        ("internal".into(), "public".into())
    );
    server.stop();
}

#[test]
fn a_listener_without_the_site_still_leads_to_tls() {
    let authority = Authority::new();
    let setup = stage::setup(&authority, "")
        .listen("name = \"secure\"")
        .site("hosts = [\"localhost\"]\nlisten = \"secure\"");
    let server = setup.table("[[listen]]\naddress = \"127.0.0.1:0\"\nredirect_http = true\n").start();
    let at = listeners(&server);
    let mut client = Client::connect(at[1]);
    let response = client.get("/a.txt");
    assert_eq!(response.status, 308);
    assert_eq!(response.need("location"), format!("https://localhost:{}/a.txt", at[0].port()));
    assert_eq!(client.get("/.well-known/acme-challenge/x").status, 404);
    let mut secure = Client::try_connect_tls(at[0], &authority.client(), "localhost").unwrap();
    assert_eq!(secure.get("/a.txt").text(), "file a\n");
    server.stop();
}

#[test]
fn conditions_ask_the_connection() {
    let authority = Authority::new();
    let setup = stage::setup(&authority, "client_auth = \"optional\", client_ca = \"ca.pem\"");
    let route = |conditions: &str, name: &str| {
        format!(
            "[[site.route]]\npath = \"/x\"\nmatch = {{ {conditions} }}\nrespond = {{ body = \"{name}\" }}\n"
        )
    };
    let server = setup
        .listen("name = \"secure\"\nhttp3 = true")
        .server("trusted_proxies = [\"127.0.0.0/8\"]")
        .table("[[listen]]\nname = \"plain\"\naddress = \"127.0.0.1:0\"\n")
        .table("[[listen]]\nname = \"other\"\naddress = \"127.0.0.1:0\"\n")
        .table(&route("client_certificate = true", "certificate"))
        .table(&route("tls = true", "tls"))
        .table(&route("any = [{ listener = \"other\" }]", "other"))
        .route("/x", "respond = { body = \"rest\" }")
        .start();
    let at = listeners(&server);
    let lies = format!(
        "X-SSL-Client-Verify: SUCCESS\r\nX-SSL-Protocol: TLSv1.3\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: {}\r\n",
        at[2].port()
    );
    for (address, expected) in [(at[1], "rest"), (at[2], "other")] {
        assert_eq!(Client::connect(address).method("GET", "/x", &lies).text(), expected);
        let mut client = Connection::new(address);
        assert_eq!(
            client.method("GET", "/x", &[("x-ssl-client-verify", "SUCCESS")]).body,
            expected.as_bytes()
        );
    }
    let alice = authority.sign(&["alice"], &PKCS_ECDSA_P256_SHA256);
    for version in [&TLS12, &TLS13] {
        for (own, expected) in [(None, "tls"), (Some(&alice), "certificate")] {
            let config = authority.client_of(&[version], own);
            let mut client = Client::try_connect_tls(at[0], &config, "localhost").unwrap();
            assert_eq!(client.method("GET", "/x", &lies).text(), expected, "{version:?}");
            let mut client = http2(at[0], &config, "localhost");
            assert_eq!(client.get("/x").body, expected.as_bytes(), "{version:?}");
        }
    }
    let trust = Trust::Authorities(server.path("ca.pem"));
    let mut connector = Connector::new(at[0], "localhost", &trust).unwrap();
    connector.timeout = TIMEOUT;
    let mut http3 = connector.connect().unwrap();
    let head = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/x")];
    assert_eq!(http3.request(&head, b"").unwrap().body, b"tls");
    server.stop();
}

#[test]
fn a_port_is_the_listeners_and_not_that_of_host() {
    let server = Setup::new()
        .table("[[listen]]\naddress = \"127.0.0.1:0\"\n")
        .table("[[site.route]]\npath = \"/x\"\nmatch = { local_port = 1 }\nrespond = { body = \"this\" }\n")
        .route("/x", "respond = { body = \"another\" }")
        .start();
    let at = listeners(&server);
    let port = at[0].port();
    let text = std::fs::read_to_string(server.path("maitred.toml")).unwrap();
    std::fs::write(
        server.path("maitred.toml"),
        text.replace("local_port = 1 ", &format!("local_port = {port} ")),
    )
    .unwrap();
    h3::reload(&server, 2);
    for host in ["h".to_owned(), format!("h:{port}"), format!("h:{}", at[1].port())] {
        let request = format!("GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(Client::connect(at[0]).ask(&request).text(), "this", "{host}");
        assert_eq!(Client::connect(at[1]).ask(&request).text(), "another", "{host}");
    }
    server.stop();
}
