//! HTTP/2 over TLS: which version is spoken, and that a stream over TLS is a stream like any other.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::h2::frame::code;
use crate::support::h2::{self, Connection, Wire};
use crate::support::{Gate, Server, Setup, TIMEOUT, eventually, skip_missing};

pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// An address with TLS, and what its clients have to know.
pub(crate) struct Door {
    address: SocketAddr,
    roots: RootCertStore,
}

/// A server with such a one.
struct Secure {
    server: Server,
    door: Door,
}

impl Secure {
    /// `lines` are further lines of the address with TLS.
    fn start(setup: Setup, lines: &str) -> Secure {
        let (setup, roots) = Door::prepare(setup, lines);
        let server = setup.start();
        let door = Door::of(&server, roots);
        Secure { server, door }
    }
}

impl Door {
    /// A setup with an address with TLS, and the roots that its clients trust. `lines` are further lines of the address.
    pub(crate) fn prepare(setup: Setup, lines: &str) -> (Setup, RootCertStore) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let setup = setup
            .outside("certificate.pem", made.cert.pem().as_bytes())
            .outside("key.pem", made.signing_key.serialize_pem().as_bytes())
            .site("certificates = [{ certificate = \"certificate.pem\", key = \"key.pem\" }]")
            .table(&format!("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = {{}}\n{lines}"));
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(made.cert.der().to_vec())).unwrap();
        (setup, roots)
    }

    /// The door of a server that [`Door::prepare`] has prepared.
    pub(crate) fn of(server: &Server, roots: RootCertStore) -> Door {
        let line = server.wait_for_line(|line| line.contains("https://127"));
        let address = line.split("https://").nth(1).and_then(|rest| rest.split_whitespace().next());
        Door { address: address.unwrap().parse().unwrap(), roots }
    }

    /// A handshake in which the client offers these protocols.
    pub(crate) fn offer(&self, protocols: &[&str]) -> std::io::Result<Tls> {
        let mut config =
            ClientConfig::builder().with_root_certificates(self.roots.clone()).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(session, self.socket());
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }

    fn socket(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.set_write_timeout(Some(TIMEOUT)).unwrap();
        socket.set_nodelay(true).unwrap();
        socket
    }

    /// A connection that speaks HTTP/2.
    fn connect(&self) -> Connection {
        self.connect_with(&[])
    }

    /// The same with settings.
    pub(crate) fn connect_with(&self, settings: &[(u16, u32)]) -> Connection {
        self.connect_to_socket(settings).0
    }

    /// The same, and the socket below it.
    pub(crate) fn connect_to_socket(&self, settings: &[(u16, u32)]) -> (Connection, TcpStream) {
        let stream = self.offer(&["h2", "http/1.1"]).unwrap();
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
        let socket = stream.sock.try_clone().unwrap();
        let wire: Box<dyn Wire> = Box::new(stream);
        let mut connection = Connection::on(wire, socket.try_clone().unwrap());
        connection.scheme = "https";
        connection.begin(settings);
        (connection, socket)
    }
}

/// One request of HTTP/1.1 that is the last; all that comes.
fn ask_1(stream: &mut Tls) -> String {
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_client_chooses_the_version() {
    let secure = Secure::start(Setup::with_files(), "");
    assert_eq!(secure.door.connect().get("/a.txt").text(), "file a\n");
    for (protocols, chosen) in [
        (&["http/1.1"][..], Some(&b"http/1.1"[..])),
        (&[], None),
        (&["http/1.1", "h2"], Some(b"h2")),
        (&["something", "http/1.1"], Some(b"http/1.1")),
    ] {
        let mut stream = secure.door.offer(protocols).unwrap();
        assert_eq!(stream.conn.alpn_protocol(), chosen, "{protocols:?}");
        if chosen != Some(b"h2") {
            let text = ask_1(&mut stream);
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("file a\n"), "{text}");
        }
    }
    // RFC 7301, 3.2: without a protocol in common there is no connection.
    assert!(secure.door.offer(&["something-else"]).is_err());
    secure.server.stop();
}

#[test]
fn an_address_may_do_without_http_2() {
    let secure = Secure::start(Setup::with_files().listen("http2 = false"), "http2 = false\n");
    let mut stream = secure.door.offer(&["h2", "http/1.1"]).unwrap();
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(ask_1(&mut stream).starts_with("HTTP/1.1 200 OK\r\n"));
    // In cleartext, the preface is what HTTP/1.1 takes it for.
    let mut client = secure.server.connect();
    client.send(h2::frame::PREFACE);
    let status = client.response("GET").status;
    assert!((400..600).contains(&status), "{status}");
    secure.server.stop();
}

#[test]
fn streams_over_tls_are_streams() {
    let large: Vec<u8> = (0..3_000_000_usize).map(|at| (at ^ at >> 8) as u8).collect();
    let setup = Setup::with_files().file("large.bin", &large).pool(
        "app",
        None,
        "workers = 2\nqueue = { timeout = \"60s\" }",
    );
    let secure = Secure::start(setup, "");
    secure.server.wait_for_processes();
    let mut connection = secure.door.connect();
    for _ in 0..3 {
        let ids: Vec<u32> = (0..100)
            .map(|number| {
                let path = ["/a.txt", "/app/hello?x", "/none", "/large.bin"][number % 4];
                connection.request("GET", path, &[], true)
            })
            .collect();
        for (number, id) in ids.into_iter().enumerate() {
            let response = connection.response(id);
            match number % 4 {
                0 => assert_eq!(response.text(), "file a\n"),
                1 => assert_eq!(response.text(), "hello x\n"),
                2 => assert_eq!(response.status, 404),
                _ => assert!(response.body == large, "{} bytes", response.body.len()),
            }
        }
    }
    assert!(connection.post("/app/echo", &large).body == large);
    let response = connection.get("/app/show");
    let seen: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(seen["wsgi.url_scheme"], "https");
    let id = connection.request("GET", "/large.bin", &[], true);
    connection.content(id, 1);
    connection.cancel(id);
    assert_eq!(connection.get("/a.txt").text(), "file a\n");
    drop(connection);
    let stopped = secure.server.stop();
    assert_eq!(stopped.access.len(), 304);
    assert!(stopped.access.iter().all(|line| line.contains("HTTP/2.0\"")));
}

#[test]
fn a_reload_ends_connections_in_order() {
    let gate = Gate::new();
    let setup = Setup::with_files().pool("app", Some(&gate), "workers = 2\nqueue = { timeout = \"60s\" }");
    let secure = Secure::start(setup, "");
    secure.server.wait_for_processes();
    let mut connection = secure.door.connect();
    let id = connection.request("GET", "/app/wait", &[], true);
    let waiting = gate.arrival();
    let (status, said) = secure.server.command(&["reload"]);
    assert!(status.success(), "{said}");
    while connection.goaway.is_none() {
        connection.step().unwrap();
    }
    waiting.release();
    assert_eq!(connection.response(id).text(), "waited\n");
    assert_eq!(connection.end(), Some(code::NO_ERROR));
    assert_eq!(secure.door.connect().get("/app/hello?x").text(), "hello x\n");
    secure.server.stop();
}

/// Whatever a client does in place of a handshake, it costs the others nothing, and it is closed in time.
#[test]
fn handshakes_that_are_none() {
    // Long enough for what must come in time, on a machine that is slow.
    let setup = Setup::with_files().limit("head_timeout = \"4s\"");
    let secure = Secure::start(setup, "defer_accept = false\n");
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let mut sockets = Vec::new();
    for bytes in [
        &b""[..],
        &hello[..1],
        &hello,
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        h2::frame::PREFACE,
        &[0; 5000],
    ] {
        for _ in 0..10 {
            let mut socket = secure.door.socket();
            socket.write_all(bytes).unwrap();
            sockets.push(socket);
        }
    }
    assert_eq!(secure.door.connect().get("/a.txt").text(), "file a\n");
    for mut socket in sockets {
        // An alert, or nothing; a reset is an end, too.
        if let Err(error) = socket.read_to_end(&mut Vec::new()) {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "it stays open");
        }
    }
    eventually("all are closed", || secure.server.total("connections") <= 1);
    // Bytes that are no record, after a good handshake.
    let mut connection = secure.door.connect();
    connection.get("/a.txt");
    connection.socket().try_clone().unwrap().write_all(&[0xff; 100]).unwrap();
    let ended = loop {
        if let Err(error) = connection.step() {
            break error;
        }
    };
    assert_ne!(ended.kind(), ErrorKind::WouldBlock, "it stays open");
    secure.server.stop();
}

/// The smallest records that there are: each byte of the connection in one of its own.
#[test]
fn records_of_one_byte() {
    let secure = Secure::start(Setup::with_files(), "");
    let stream = secure.door.offer(&["h2"]).unwrap();
    let socket = stream.sock.try_clone().unwrap();
    let mut connection = Connection::on(Box::new(stream), socket);
    let id = connection.open();
    let request = connection.request_bytes(id, "GET", "/a.txt", &[], true);
    for byte in [h2::frame::PREFACE, &h2::frame::settings(&[]), &request].concat() {
        connection.send([byte]);
    }
    assert_eq!(connection.response(id).text(), "file a\n");
    secure.server.stop();
}

/// curl 7.88 (Debian 12) takes a stream that is reset while it uploads for an error, whatever came before: the answer has to be
/// read by then.
#[test]
fn curl_sees_an_answer_that_comes_before_its_upload_has_ended() {
    if Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip_missing("curl is not installed (Debian: curl)");
    }
    let setup = Setup::with_files().pool("app", None, "workers = 1").limit("body_bytes_max = \"1MiB\"");
    let Secure { server, door } = Secure::start(setup, "");
    server.wait_for_processes();
    let body = server.path("upload");
    std::fs::write(&body, vec![b'x'; 20 << 20]).unwrap();
    let body = format!("@{}", body.display());
    // With a length, and without one, when so much has come that it is known to be too long.
    for fields in ["Expect:", "Transfer-Encoding: chunked"] {
        for round in 0..10 {
            let url = format!("https://{}/app/length", door.address);
            let output = Command::new("curl")
                .args([
                    "-sSk",
                    "--http2",
                    "-o",
                    "/dev/null",
                    "-w",
                    "%{http_code} %{http_version}",
                    "-H",
                    fields,
                ])
                .args(["--max-time", "60", "--data-binary", &body, &url])
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{fields}, round {round}: {said}, {errors}");
            assert_eq!(said, "413 2", "{fields}, round {round}");
        }
    }
    server.stop();
}
