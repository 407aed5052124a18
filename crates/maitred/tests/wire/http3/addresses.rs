//! Addresses that a client only says, and those that it has proved. Datagrams come from other addresses of the loopback, where a
//! test may receive, or no client does.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use maitred_http::h3::Code;
use maitred_load::http3::Buffers;
use maitred_load::http3::client::{Client, Connector, Failed, Read, headers};
use maitred_load::http3::quinn_proto::{Dir, StreamId};
use rustix::net::{AddressFamily, SocketType};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::support::h3::{Asks, Guest, Incoming, PATIENT, Text, connector, early, head, join, setup};
use crate::support::stage::{self, Authority};
use crate::support::{Server, Setup, TIMEOUT, eventually};

/// Where the clients of these tests are.
const HERE: &str = "127.0.0.1:0";

/// A route for the address 127.0.0.2 alone.
fn start(setup: Setup) -> Server {
    setup.route("/inner/*", "respond = { body = \"inner\" }\nallow = [\"127.0.0.2\"]").start()
}

fn from_here(server: &Server) -> Connector {
    let mut connector = connector(server);
    connector.dialer.local = HERE.parse().unwrap();
    connector
}

/// A socket at this address, with all that has come there.
struct Elsewhere {
    socket: UdpSocket,
    sent: usize,
    received: usize,
}

impl Elsewhere {
    fn at(address: &str) -> Elsewhere {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        Elsewhere { socket, sent: 0, received: 0 }
    }

    /// Sends from there what a client has to send.
    fn send(&mut self, client: &mut Client, server: SocketAddr) {
        let mut buffer = Vec::new();
        let connection = &mut client.link().connection;
        while let Some(transmit) = connection.poll_transmit(Instant::now(), 1, &mut buffer) {
            self.sent += self.socket.send_to(&buffer[..transmit.size], server).unwrap();
            buffer.clear();
        }
    }

    fn drain(&mut self) {
        while let Ok((bytes, _)) = self.socket.recv_from(&mut [0; 2000]) {
            self.received += bytes;
        }
    }

    #[track_caller]
    fn judge(&mut self, what: &str) {
        self.drain();
        let Elsewhere { sent, received, .. } = *self;
        assert!(sent > 0 && received <= 3 * sent, "{what}: {received} for {sent} bytes");
    }
}

/// Has a request ready to be sent, and does not send it.
fn prepare(client: &mut Client, method: &str, path: &str) -> StreamId {
    let connection = &mut client.link().connection;
    let stream = connection.streams().open(Dir::Bi).unwrap();
    let bytes = headers(&head(method, path, &[]));
    assert_eq!(connection.send_stream(stream).write(&bytes).unwrap(), bytes.len());
    connection.send_stream(stream).finish().unwrap();
    stream
}

#[track_caller]
fn assert_rejected(failed: &Failed) {
    let rejected = Code::RequestRejected.number();
    assert!(matches!(failed, Failed::Reset(code) if *code == rejected), "{failed:?}");
}

/// The client never hears of it at the other address, so that this is not proved. When it goes on from its own, its request was
/// refused, and it may send it again.
#[test]
fn a_request_from_an_address_that_is_not_proved_is_refused() {
    let server = start(setup(""));
    let address = server.address_of("https");
    let mut client = join(&from_here(&server));
    assert_eq!(client.get("/inner/own").unwrap().status, 403);
    let mut elsewhere = Elsewhere::at("127.0.0.2");
    let stream = prepare(&mut client, "GET", "/inner/false");
    elsewhere.send(&mut client, address);
    // What has come before that is done.
    assert_eq!(join(&from_here(&server)).get("/inner/other").unwrap().status, 403);
    client.ping();
    assert_rejected(&client.response(stream).unwrap_err());
    assert_eq!(client.get("/inner/again").unwrap().status, 403, "the connection goes on");
    elsewhere.judge("one request");
    drop(client);
    let stopped = server.stop();
    let lines = stopped.access;
    assert!(!lines.iter().any(|line| line.contains("/inner/false")), "{lines:#?}");
    assert!(lines.iter().all(|line| line.starts_with("127.0.0.1 ")), "{lines:#?}");
}

/// The same with a client that never comes back: the library gives the address up.
#[test]
fn an_address_that_does_not_answer_is_given_up() {
    let server = start(setup(""));
    let mut client = join(&from_here(&server));
    assert_eq!(client.get("/inner/own").unwrap().status, 403);
    let mut elsewhere = Elsewhere::at("127.0.0.2");
    let stream = prepare(&mut client, "POST", "/inner/false");
    elsewhere.send(&mut client, server.address_of("https"));
    let mut buffers = Buffers::default();
    let rejected = Some(Read::Reset(Code::RequestRejected.number()));
    eventually("the server goes back to the client's own address", || {
        // The client only listens.
        client.link().receive(Instant::now(), &mut buffers).unwrap();
        client.try_read(stream) == rejected
    });
    elsewhere.judge("one request");
    drop(client);
    let lines = server.stop().access;
    assert!(!lines.iter().any(|line| line.contains("/inner/false")), "{lines:#?}");
}

/// The client waits for the proof, and is judged and logged by the new address then. The first datagram is long enough for a
/// challenge to be sent back.
#[test]
fn a_client_that_moves_is_judged_by_its_new_address() {
    let server = start(setup(""));
    let mut client = join(&from_here(&server));
    let long = "x".repeat(600);
    let get = |client: &mut Guest, path: &str| client.ask("GET", path, &[("x-long", &long)], b"");
    assert_eq!(get(&mut client, "/inner/old").status, 403);
    client.rebind("127.0.0.2:0".parse().unwrap()).unwrap();
    assert_eq!(get(&mut client, "/inner/new").text(), "inner");
    assert_eq!(get(&mut client, "/inner/next").text(), "inner");
    client.migrate(HERE.parse().unwrap()).unwrap();
    assert_eq!(get(&mut client, "/inner/back").status, 403);
    drop(client);
    let lines = server.stop().access;
    let seen = [("127.0.0.1 ", "old"), ("127.0.0.2 ", "new"), ("127.0.0.2 ", "next"), ("127.0.0.1 ", "back")];
    for (address, path) in seen {
        let of = |line: &&String| line.contains(&format!("/inner/{path} "));
        assert!(lines.iter().find(of).is_some_and(|line| line.starts_with(address)), "{path}: {lines:#?}");
    }
}

/// What comes in many datagrams is proved as well: a download goes on at the new address.
#[test]
fn a_download_goes_on_at_another_address() {
    const BYTES: usize = 3_000_000;
    let server = start(setup("").file("large.bin", &vec![b'x'; BYTES]));
    let mut client = join(&from_here(&server));
    let mut incoming = Incoming::new(client.send_get("/large.bin", &[]));
    incoming.wait(&mut client, |incoming| !incoming.body.is_empty()).unwrap();
    client.rebind("127.0.0.2:0".parse().unwrap()).unwrap();
    let upload = client.begin("POST", "/inner/new", &[]);
    client.upload(upload, &[b'y'; 2000]);
    client.finish(upload).unwrap();
    incoming.wait(&mut client, |incoming| incoming.end.is_some()).unwrap();
    assert_eq!((incoming.status, incoming.body.len()), (Some(200), BYTES));
    assert_eq!(client.response(upload).unwrap().text(), "inner");
    drop(client);
    server.stop();
}

/// RFC 9000 sections 8.2.1 and 9.3.1: three times what has come from an address, whatever brought it about. The connection goes
/// on for seconds, in which probes are sent as well.
#[test]
fn addresses_that_are_not_proved_get_three_times_what_they_have_sent() {
    let server = start(setup("").limit("keep_alive_timeout = \"3s\"").file("large.bin", &[b'x'; 500_000]));
    let address = server.address_of("https");
    let is_over = || server.total("connections") == 1;
    for (what, others) in [("PINGs", &["127.0.0.2", "127.0.0.3"][..]), ("a request", &["127.0.0.4"])] {
        let mut client = join(&from_here(&server));
        assert_eq!(client.get("/a.txt").unwrap().status, 200);
        let mut others: Vec<_> = others.iter().map(|other| Elsewhere::at(other)).collect();
        for turn in 0..200 {
            match what {
                "PINGs" => client.ping(),
                _ if turn == 0 => drop(prepare(&mut client, "GET", "/large.bin")),
                _ => break,
            }
            let next = turn % others.len();
            others[next].send(&mut client, address);
        }
        eventually("the connection is over", || {
            others.iter_mut().for_each(Elsewhere::drain);
            is_over()
        });
        others.iter_mut().for_each(|other| other.judge(what));
    }
    server.stop();
}

/// A handshake of one that only says that it is there; the first datagram is longer than it has to be.
#[test]
fn an_address_that_ends_no_handshake_gets_three_times_what_it_has_sent() {
    let server = start(setup("").limit("head_timeout = \"4s\""));
    let mut connector = from_here(&server);
    let mut transport = maitred_load::http3::transport();
    transport.initial_mtu(1250);
    connector.dialer.set_transport(Arc::new(transport));
    let mut elsewhere = Elsewhere::at("127.0.0.2");
    let mut client = Guest(connector.begin().unwrap());
    elsewhere.send(&mut client, server.address_of("https"));
    assert!(elsewhere.sent > 1200, "{}", elsewhere.sent);
    eventually("it is answered", || {
        elsewhere.drain();
        elsewhere.received > 0
    });
    eventually("the handshake is over", || {
        elsewhere.drain();
        server.total("connections") == 1
    });
    elsewhere.judge("a handshake");
    assert!(elsewhere.received > elsewhere.sent, "{}", elsewhere.received);
    server.stop();
}

/// What is asked for in the first flight counts as from nowhere until the handshake is over.
#[test]
fn early_requests_wait_for_the_proof_of_their_address() {
    let setup = setup("early_data = true").limit("head_timeout = \"4s\"").pool("app", None, PATIENT);
    let server = start(setup);
    server.wait_for_processes();
    let mut connector = from_here(&server);
    let mut absent = early(&connector);
    let mut elsewhere = Elsewhere::at("127.0.0.2");
    prepare(&mut absent, "GET", "/inner/early");
    elsewhere.send(&mut absent, server.address_of("https"));
    assert_eq!(join(&connector).get("/inner/other").unwrap().status, 403);
    elsewhere.judge("0-RTT");
    // A client that is there, and has no token. What waits for the end of the handshake cannot be a repetition.
    connector.dialer.forget_tokens();
    connector.dialer.local = "127.0.0.2:0".parse().unwrap();
    let mut client = early(&connector);
    let stream = prepare(&mut client, "GET", "/inner/late");
    assert_eq!(client.response(stream).unwrap().text(), "inner");
    assert!(client.early_data_accepted());
    let mut client = early(&connector);
    let stream = prepare(&mut client, "POST", "/app/length");
    assert_eq!(client.response(stream).unwrap().status, 200);
    drop(client);
    let lines = server.stop().access;
    assert!(!lines.iter().any(|line| line.contains("/inner/early")), "{lines:#?}");
    let late = lines.iter().find(|line| line.contains("/inner/late")).unwrap();
    assert!(late.starts_with("127.0.0.2 "), "{late}");
}

/// Datagrams that begin connections, from an address that did not send them, count for nothing there.
#[test]
fn false_beginnings_take_nothing_from_an_address() {
    let limits = "connections_per_address_max = 5\nconnections_per_address_exempt = []\nhead_timeout = \"60s\"\n\
                  tls_handshakes_per_address_per_second_max = 20";
    let authority = Authority::new();
    let stage = stage::setup(&authority, "").listen("http3 = true").limit(limits).server("threads = 2");
    let server = stage.start();
    let address = server.address_of("https");
    let connector = from_here(&server);
    let mut elsewhere = Elsewhere::at("127.0.0.9");
    for _ in 0..300 {
        elsewhere.send(&mut connector.begin().unwrap(), address);
    }
    eventually("the last are asked for a proof", || server.total("quic_retries") > 0);
    assert_eq!(server.total("refused_by_address"), 0);
    let mut there = connector;
    there.dialer.local = "127.0.0.9:0".parse().unwrap();
    let mut clients: Vec<Guest> = (0..4).map(|_| join(&there)).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/a.txt").unwrap().status, 200));
    assert_eq!(over_tcp("127.0.0.9:0", address, &authority).get("/a.txt").text(), "file a\n");
    elsewhere.judge("beginnings");
    drop(clients);
    // Connections that never end their handshakes would be waited for.
    drop(server);
}

/// A connection from this address with TLS over TCP.
fn over_tcp(from: &str, server: SocketAddr, authority: &Authority) -> crate::support::Client {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &from.parse::<SocketAddr>().unwrap()).unwrap();
    rustix::net::connect(&socket, &server).unwrap();
    let socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let session = ClientConnection::new(authority.client(), ServerName::try_from("localhost").unwrap());
    crate::support::Client::over_tls(StreamOwned::new(session.unwrap(), socket))
}
