//! Requests of HTTP/2 streams whose process belongs to another thread than their connection.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use maitred_http::h2::hpack::{Bounds, Decoder};
use rustix::process::Signal;

use crate::support::processes::send_signal;
use crate::support::{Gate, Server, Setup, TIMEOUT, eventually};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Connections, which the threads share.
const CLIENTS: usize = 12;

/// One HTTP/2 connection with one stream at a time.
struct Client {
    socket: TcpStream,
    decoder: Decoder,
    stream: u32,
}

/// What came on a stream.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    body: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

impl Client {
    fn connect(server: &Server) -> Client {
        let mut socket = TcpStream::connect(server.address).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        // Windows as large as they can be.
        let settings = frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
        let window = frame(WINDOW_UPDATE, 0, 0, &0x7000_0000_u32.to_be_bytes());
        socket.write_all(&[PREFACE, &settings, &window].concat()).unwrap();
        Client { socket, decoder: Decoder::new(4096), stream: 0 }
    }

    /// Opens the next stream; its body follows unless it `ended`.
    fn open(&mut self, fields: &[(&str, &str)], ended: bool) {
        self.stream = if self.stream == 0 { 1 } else { self.stream + 2 };
        let mut block = Vec::new();
        for (name, value) in fields {
            block.extend([0, name.len() as u8]);
            block.extend(name.as_bytes());
            block.push(value.len() as u8);
            block.extend(value.as_bytes());
        }
        let flags = END_HEADERS | if ended { END_STREAM } else { 0 };
        self.socket.write_all(&frame(HEADERS, flags, self.stream, &block)).unwrap();
    }

    fn ask(&mut self, method: &str, path: &str, body: &[u8]) {
        let fields = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "h")];
        self.open(&fields, body.is_empty());
        if !body.is_empty() {
            self.data(body, true);
        }
    }

    fn data(&mut self, bytes: &[u8], ended: bool) {
        let mut pieces = bytes.chunks(16_384).peekable();
        if bytes.is_empty() {
            self.socket.write_all(&frame(DATA, END_STREAM, self.stream, b"")).unwrap();
        }
        while let Some(piece) = pieces.next() {
            let flags = if ended && pieces.peek().is_none() { END_STREAM } else { 0 };
            self.socket.write_all(&frame(DATA, flags, self.stream, piece)).unwrap();
        }
    }

    /// The next frame of the present stream: kind, flags, payload.
    fn next(&mut self) -> (u8, u8, Vec<u8>) {
        loop {
            let mut head = [0; 9];
            self.socket.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            self.socket.read_exact(&mut payload).unwrap();
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            assert_ne!(head[3], GOAWAY, "the server ends the connection: {}", payload.escape_ascii());
            if stream == self.stream && [DATA, HEADERS, RESET].contains(&head[3]) {
                return (head[3], head[4], payload);
            }
            if head[3] == HEADERS {
                // Of a stream that was reset: what follows may refer to it.
                self.decode(&payload);
            }
        }
    }

    /// Status of the response, and whether it has no body.
    fn head(&mut self) -> (u16, bool) {
        let (kind, flags, block) = self.next();
        assert_eq!(kind, HEADERS, "{block:?}");
        (self.decode(&block), flags & END_STREAM != 0)
    }

    /// The status that a block of fields tells.
    fn decode(&mut self, block: &[u8]) -> u16 {
        let mut status = 0;
        let bounds = Bounds { list_bytes_max: 65_536, fields_max: 100 };
        let field = |name: &[u8], value: &[u8]| {
            if name == b":status" {
                status = std::str::from_utf8(value).unwrap().parse().unwrap();
            }
        };
        self.decoder.decode(block, bounds, field).unwrap();
        status
    }

    /// The whole response.
    fn answer(&mut self) -> Answer {
        let (status, mut ended) = self.head();
        let mut body = Vec::new();
        while !ended {
            let (kind, flags, payload) = self.next();
            assert_eq!(kind, DATA, "the response is aborted");
            body.extend(payload);
            ended = flags & END_STREAM != 0;
        }
        Answer { status, body }
    }

    /// So many bytes of the present stream.
    fn exactly(&mut self, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < count {
            all.extend(self.next().2);
        }
        all
    }

    fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, b"");
        self.answer()
    }
}

fn two_threads(setup: Setup) -> Server {
    let server = setup.server("threads = 2").listen("http2 = true").start();
    server.wait_for_processes();
    server
}

/// So many connections, of which some are not the thread's that has the only process.
fn clients(server: &Server, path: &str) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(server)).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get(path).status, 200));
    assert!(server.total("requests_transferred") > 0, "all connections are at home");
    clients
}

/// A connection that is not the thread's that has the only process.
fn abroad(server: &Server) -> Client {
    let mut others = Vec::new();
    loop {
        let (mut client, before) = (Client::connect(server), server.total("requests_transferred"));
        assert_eq!(client.get("/app/hello?0").status, 200);
        if server.total("requests_transferred") > before {
            return client;
        }
        others.push(client);
        assert!(others.len() < 10 * CLIENTS, "all connections are at home");
    }
}

#[test]
fn every_stream_is_answered_by_the_only_process() {
    for transport in ["direct", "relay"] {
        let lines = format!("workers = 1\ntransport = \"{transport}\"\nqueue = {{ timeout = \"60s\" }}");
        let setup = Setup::with_files().pool("app", None, &lines).limit("body_bytes_max = \"8MiB\"");
        let server = two_threads(setup);
        let mut clients = clients(&server, "/app/hello?0");
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(
                client.get(&format!("/app/hello?{number}")).body,
                format!("hello {number}\n").as_bytes()
            );
            assert_eq!(client.get("/app/large?700000").body.len(), 700_000, "{transport}");
            assert_eq!(client.get("/app/stream").body.len(), 170);
            assert_eq!(client.get("/app/fail").status, 500);
            assert_eq!(client.get("/app/nothing"), Answer { status: 204, body: Vec::new() });
            client.ask("HEAD", "/app/large?1000", b"");
            assert_eq!(client.answer(), Answer { status: 200, body: Vec::new() });
            for size in [10, 300_000] {
                client.ask("POST", "/app/length", &vec![b'x'; size]);
                assert_eq!(client.answer().body, size.to_string().as_bytes(), "{transport}");
            }
            let shown: serde_json::Value = serde_json::from_slice(&client.get("/app/show").body).unwrap();
            assert_eq!(shown["HTTP_X_FORWARDED_FOR"], "127.0.0.1");
            let port = client.socket.local_addr().unwrap().port().to_string();
            assert_eq!((&shown["REMOTE_ADDR"], &shown["REMOTE_PORT"]), (&"127.0.0.1".into(), &port.into()));
        }
        // All at once, into the queue of the one process.
        clients.iter_mut().for_each(|client| client.ask("GET", "/app/hello?x", b""));
        clients.iter_mut().for_each(|client| assert_eq!(client.answer().body, b"hello x\n"));
        assert_eq!(server.total("connections"), CLIENTS as u64 + 1, "what goes across is no client");
        drop(clients);
        eventually("nothing is left", || server.total("connections") == 1 && server.total("handed_off") == 0);
        assert_eq!(server.stop().access.len(), CLIENTS * 11, "{transport}: each request is logged once");
    }
}

#[test]
fn what_is_lost_with_the_process_is_given_again_or_told() {
    let gate = Gate::new();
    let server = two_threads(Setup::with_files().pool(
        "app",
        Some(&gate),
        "workers = 1\nqueue = { timeout = \"60s\" }",
    ));
    let mut client = abroad(&server);
    client.ask("POST", "/app/wait", b"x");
    let waiting = gate.arrival();
    send_signal(waiting.pid, Signal::KILL);
    assert_eq!(client.answer().status, 502);
    client.ask("GET", "/app/wait", b"");
    let waiting = gate.arrival();
    send_signal(waiting.pid, Signal::KILL);
    drop(waiting);
    gate.arrival().release();
    assert_eq!(client.answer().body, b"waited\n");
    server.stop();
}

#[test]
fn a_stream_that_takes_too_long_gets_504() {
    let gate = Gate::new();
    let lines = "workers = 1\nrequest_timeout = \"3s\"\nqueue = { timeout = \"60s\" }";
    let server = two_threads(Setup::with_files().pool("app", Some(&gate), lines));
    let mut client = abroad(&server);
    // At the gate, or on the way to it: it is not released.
    client.ask("GET", "/app/wait", b"");
    assert_eq!(client.answer().status, 504);
    server.stop();
}

#[test]
fn a_stream_that_is_reset_is_told_to_the_process() {
    let gate = Gate::new();
    let server = two_threads(Setup::with_files().pool("app", Some(&gate), "workers = 1"));
    let mut client = abroad(&server);
    client.ask("GET", "/app/wait", b"");
    let waiting = gate.arrival();
    client.socket.write_all(&frame(RESET, 0, client.stream, &8_u32.to_be_bytes())).unwrap();
    eventually("the request is cancelled", || server.total("cancelled") > 0);
    waiting.release();
    assert_eq!(client.get("/app/hello?x").body, b"hello x\n");
    server.stop();
}

/// Extended CONNECT (RFC 8441), which an application sees as an upgrade.
#[test]
fn a_tunnel_goes_across() {
    for transport in ["direct", "relay"] {
        let setup = Setup::with_files()
            .outside("upgrades.py", include_bytes!("upgrades.py"))
            .route("/*", "pool = \"app\"")
            .table(&format!(
                "[pool.app]\ncommand = [\"python3\", \"-u\", \"upgrades.py\"]\nworkers = 1\n\
                 transport = \"{transport}\"\nrequest_timeout = \"2s\"\nqueue = {{ timeout = \"60s\" }}\n"
            ));
        let server = two_threads(setup);
        for client in &mut clients(&server, "/heard") {
            let fields = [
                (":method", "CONNECT"),
                (":protocol", "websocket"),
                (":path", "/echo"),
                (":scheme", "http"),
                (":authority", "h"),
                ("sec-websocket-version", "13"),
            ];
            client.open(&fields, false);
            assert_eq!(client.head(), (200, false), "{transport}");
            for size in [1, 1000, 200_000] {
                client.data(&vec![b'x'; size], false);
                assert_eq!(client.exactly(size), vec![b'x'; size], "{transport}");
            }
            client.data(b"", true);
            assert_eq!(client.exactly(3), b"bye");
        }
        let stopped = server.stop();
        let switched =
            stopped.access.iter().filter(|line| line.contains("\" 101 ") || line.contains("\" 200 "));
        assert_eq!(switched.count(), 2 * CLIENTS, "{transport}: {:?}", stopped.access);
    }
}
