//! `connect = "fastcgi://…"`: the records that an application gets, and what becomes of those that it sends.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::support::upstream::{Peer, Upstream};
use crate::support::{Server, Setup, eventually};

const PARAMS: u8 = 4;
const STDIN: u8 = 5;
pub(crate) const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const END_REQUEST: u8 = 3;

/// A request as the application sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    begin: Vec<u8>,
    params: HashMap<String, String>,
    content: Vec<u8>,
}

impl Asked {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.params.get(name).map(String::as_str)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.params.keys().map(String::as_str)
    }
}

/// Type and content of the next record.
pub(crate) fn record(peer: &mut Peer) -> io::Result<(u8, Vec<u8>)> {
    let header = peer.take(8)?;
    assert_eq!(
        (header[0], header[2], header[3], header[7]),
        (1, 0, 1, 0),
        "version, and the one request that there is"
    );
    let length = usize::from(header[4]) << 8 | usize::from(header[5]);
    assert!(length + usize::from(header[6]) <= 65_528, "flup and PHP read no more");
    let content = peer.take(length)?;
    peer.take(usize::from(header[6]))?;
    Ok((header[1], content))
}

/// All records of this type, up to the empty one.
fn stream(peer: &mut Peer, kind: u8) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let (found, content) = record(peer)?;
        assert_eq!(found, kind);
        if content.is_empty() {
            return Ok(all);
        }
        all.extend(content);
    }
}

pub(crate) fn head(peer: &mut Peer) -> io::Result<Asked> {
    let (kind, begin) = record(peer)?;
    assert_eq!(kind, 1);
    Ok(Asked { begin, params: pairs(&stream(peer, PARAMS)?), content: Vec::new() })
}

pub(crate) fn request(peer: &mut Peer) -> io::Result<Asked> {
    let head = head(peer)?;
    Ok(Asked { content: stream(peer, STDIN)?, ..head })
}

fn pairs(mut bytes: &[u8]) -> HashMap<String, String> {
    fn number(bytes: &mut &[u8]) -> usize {
        let (value, rest) = match *bytes {
            [long @ 128..=255, a, b, c, rest @ ..] => (u32::from_be_bytes([long & 127, *a, *b, *c]), rest),
            [short, rest @ ..] => (u32::from(*short), rest),
            [] => panic!("no length"),
        };
        *bytes = rest;
        value as usize
    }
    let mut found = HashMap::new();
    while !bytes.is_empty() {
        let (name, value) = (number(&mut bytes), number(&mut bytes));
        let text = |range: &[u8]| String::from_utf8_lossy(range).into_owned();
        let before = found.insert(text(&bytes[..name]), text(&bytes[name..name + value]));
        assert_eq!(before, None, "each variable stands once");
        bytes = &bytes[name + value..];
    }
    found
}

pub(crate) fn of(kind: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    let records = content.as_ref().chunks(60_000).map(|content| {
        let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
    });
    records.collect::<Vec<_>>().concat()
}

pub(crate) fn end(status: u8) -> Vec<u8> {
    of(END_REQUEST, [0, 0, 0, 0, status, 0, 0, 0])
}

pub(crate) fn answer(peer: &mut Peer, text: &str) -> io::Result<()> {
    answer_with(peer, &format!("Content-Type: text/plain\r\n\r\n{text}"))
}

/// The same with a header of its own.
pub(crate) fn answer_with(peer: &mut Peer, output: &str) -> io::Result<()> {
    peer.send([of(STDOUT, output), end(0)].concat())
}

pub(crate) fn setup(upstreams: &[&Upstream], lines: &str) -> Setup {
    let names = upstreams.iter().map(|upstream| format!("\"fastcgi://{}\"", upstream.address()));
    let connect = names.collect::<Vec<_>>().join(", ");
    Setup::with_files()
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = [{connect}]\n{lines}\n"))
}

fn start(upstream: &Upstream, lines: &str) -> Server {
    setup(&[upstream], lines).start()
}

#[test]
fn an_application_without_files_gets_every_path() {
    let (sender, seen) = channel();
    let sender = Mutex::new(sender);
    let upstream = Upstream::start(move |peer| {
        let asked = request(peer)?;
        sender.lock().unwrap().send(asked).unwrap();
        answer(peer, "hello")
    });
    let server = Setup::with_files()
        .site("request_headers = { set = { X-Set = \"by the site\" }, remove = [\"X-Gone\"] }")
        .route("/app/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"fastcgi://{}\"\nmount = \"/app\"\n", upstream.address()))
        .start();
    let mut client = server.connect();
    let fields = "X-Gone: 1\r\nX-Set: mine\r\nX-Remote-User: root\r\nX_Forwarded_For: 1.2.3.4\r\nX-Forwarded-For: 1.2.3.4\r\n\
                  Proxy: http://evil.example\r\nConnection: X-Hop\r\nX-Hop: 1\r\nPHP-VALUE: x\r\nAuthorization: Basic YTpi\r\n";
    assert_eq!(client.method("GET", "/app/a.php/b%20c?x=%20y", fields).text(), "hello");
    let asked = seen.recv().unwrap();
    assert_eq!(asked.begin, [0, 1, 0, 0, 0, 0, 0, 0], "a responder, whose connection ends with the request");
    for (name, value) in [
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", "/app/a.php/b%20c?x=%20y"),
        ("QUERY_STRING", "x=%20y"),
        ("SCRIPT_NAME", "/app"),
        ("PATH_INFO", "/a.php/b c"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("HTTP_X_FORWARDED_FOR", "127.0.0.1"),
        ("HTTP_X_SET", "by the site"),
        ("HTTP_PHP_VALUE", "x"),
        ("HTTP_AUTHORIZATION", "Basic YTpi"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("SERVER_PORT", &server.address.port().to_string()),
    ] {
        assert_eq!(asked.get(name), Some(value), "{name}");
    }
    for name in [
        "HTTP_X_GONE",
        "HTTP_X_REMOTE_USER",
        "HTTP_PROXY",
        "HTTP_X_HOP",
        "HTTP_CONNECTION",
        "PHP_VALUE",
        "SCRIPT_FILENAME",
        "DOCUMENT_ROOT",
        "CONTENT_LENGTH",
        "HTTPS",
        "REMOTE_USER",
    ] {
        assert_eq!(asked.get(name), None, "{name}");
    }
    assert_eq!(client.post("/app/", b"body").text(), "hello");
    let asked = seen.recv().unwrap();
    assert_eq!((asked.get("CONTENT_LENGTH"), &asked.content[..]), (Some("4"), &b"body"[..]));
    assert_eq!(asked.get("HTTP_CONTENT_LENGTH"), Some("4"));
    assert_eq!(upstream.connections(), 2, "one for each");
    drop(client);
    server.stop();
}

#[test]
fn large_content_comes_in_records() {
    let upstream = Upstream::start(|peer| {
        let asked = request(peer)?;
        let good = asked.content.iter().enumerate().all(|(at, byte)| *byte == (at ^ at >> 8) as u8);
        answer(
            peer,
            &format!("{} {} {good}", asked.get("CONTENT_LENGTH").unwrap_or("-"), asked.content.len()),
        )
    });
    let server = start(&upstream, "");
    let mut client = server.connect();
    // In the request's frame elsewhere, in memory, and on a disk; around the size of a record.
    for bytes in [1, 65_527, 65_528, 65_529, 100_000, 1 << 20, 3_000_001] {
        let body: Vec<u8> = (0..bytes).map(|at: usize| (at ^ at >> 8) as u8).collect();
        assert_eq!(client.post("/x", &body).text(), format!("{bytes} {bytes} true"));
        let chunked =
            format!("POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{bytes:x}\r\n");
        client.send([chunked.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat());
        assert_eq!(client.response("POST").text(), format!("{bytes} {bytes} true"));
    }
    drop(client);
    server.stop();
}

#[test]
fn a_request_that_was_refused_unseen_goes_to_another_one() {
    let busy = || {
        Upstream::start(|peer| {
            request(peer)?;
            peer.send(end(2))
        })
    };
    let upstreams = [busy(), busy()];
    let good = Upstream::start(|peer| {
        let asked = request(peer)?;
        answer(peer, &String::from_utf8(asked.content).unwrap())
    });
    let server = setup(&[&upstreams[0], &upstreams[1], &good], "").start();
    for _ in 0..6 {
        assert_eq!(server.connect().post("/x", b"body").text(), "body");
    }
    server.stop();
    let server = start(&upstreams[0], "");
    let response = server.connect().post("/x", b"body");
    assert_eq!((response.status, response.field("retry-after")), (503, Some("1")));
    server.stop();
}

#[test]
fn a_connection_that_is_reset_behind_the_end_was_good() {
    // The server behind closes without having read the content: the system sends a reset.
    let upstream = Upstream::start(|peer| {
        head(peer)?;
        answer(peer, "early")
    });
    let server = start(&upstream, "");
    let mut client = server.connect();
    for bytes in [10, 60_000, 3_000_000] {
        assert_eq!(client.post("/x", &vec![b'x'; bytes]).text(), "early", "{bytes}");
    }
    assert_eq!(server.total("upstream_failures"), 0);
    drop(client);
    server.stop();
}

#[test]
fn a_script_that_works_on_is_not_stopped() {
    let (proceed, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Upstream::start(move |peer| {
        request(peer)?;
        peer.send(of(STDOUT, "Content-Length: 5\n\nhello"))?;
        wait.lock().unwrap().recv().unwrap();
        peer.send([of(STDERR, "still at work"), end(0)].concat())?;
        peer.wait_for_end()
    });
    let server = start(&upstream, "");
    let mut client = server.connect();
    for _ in 0..2 {
        // The client has all of it before the script has ended.
        assert_eq!(client.get("/x").text(), "hello");
        proceed.send(()).unwrap();
        eventually("the script has ended", || upstream.open() == 0);
    }
    drop(client);
    let said = server.stop().said;
    let lines = said.iter().filter(|line| line.contains("still at work"));
    assert_eq!(lines.count(), 2, "its connection was closed before its end: {said:#?}");
}

/// A script that goes on for too long behind a response that is whole takes nothing from its client, and does not count as a
/// failure of the server.
#[test]
fn a_script_that_works_on_for_too_long_is_no_failure_of_its_response() {
    let upstream = Upstream::start(move |peer| {
        request(peer)?;
        peer.send(of(STDOUT, "Content-Length: 5\n\nhello"))?;
        peer.wait_for_end()
    });
    let server = start(&upstream, "request_timeout = \"1s\"");
    let mut client = server.connect();
    assert_eq!(client.get("/x").text(), "hello");
    eventually("the connection to the application is closed", || upstream.open() == 0);
    assert_eq!(client.get("/x").text(), "hello", "its connection goes on");
    assert_eq!(server.total("upstream_failures"), 0);
    server.stop();
}

#[test]
fn messages_are_logged_and_bounded() {
    const MOST: usize = 64 << 10;
    let messages = ["PHP message: one\n", "two \u{1b}[31m\n", &"x".repeat(200_000)];
    let records: Vec<u8> = messages.iter().flat_map(|message| of(STDERR, message)).collect();
    let upstream = Upstream::start(move |peer| {
        request(peer)?;
        peer.send(&records)?;
        answer(peer, "hello")
    });
    let server = start(&upstream, "");
    assert_eq!(server.connect().get("/x").text(), "hello");
    let said = server.stop().said;
    let lines: Vec<&String> = said.iter().filter(|line| line.contains("FastCGI: ")).collect();
    let find = |text: &str| lines.iter().find(|line| line.contains(text)).expect("it is said");
    assert!(find("PHP message: one").contains("pool=app"));
    assert!(!find("two").contains('\u{1b}'));
    // A log that is not read in time loses lines, as any other.
    let bytes: usize = lines.iter().map(|line| line.len()).sum();
    assert!(bytes < MOST * 5 / 4, "{bytes} bytes in {} lines", lines.len());
}

#[test]
fn what_is_no_response_is_502_or_aborted() {
    let upstream = Upstream::start(|peer| {
        let asked = request(peer)?;
        match asked.get("REQUEST_URI").unwrap() {
            "/silent" => Ok(()),
            "/http" => peer.send("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
            "/head" => peer.send([of(STDOUT, "Content-Type: text/pl"), end(0)].concat()),
            "/status" => peer.send([of(STDOUT, "Status: 99\n\n"), end(0)].concat()),
            "/role" => peer.send(end(3)),
            "/cut" => peer.send(of(STDOUT, "Content-Type: text/plain\n\nhalf of it")),
            "/short" => peer.send([of(STDOUT, "Content-Length: 50\n\nhalf of it"), end(0)].concat()),
            other => panic!("{other}"),
        }
    });
    let server = start(&upstream, "");
    for path in ["/silent", "/http", "/head", "/status", "/role"] {
        assert_eq!(server.connect().get(path).status, 502, "{path}");
    }
    for path in ["/cut", "/short"] {
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert!(client.try_response("GET").is_err(), "{path}: a response that is not whole does not look so");
    }
    let said = server.stop().said;
    for why in ["seems to be an HTTP server", "no FastCGI responder", "response ends inside its head"] {
        assert!(said.iter().any(|line| line.contains(why)), "{why}: {said:#?}");
    }
}

#[test]
fn a_client_that_leaves_takes_the_connection_with_it() {
    let (left, has_left) = channel();
    let left = Mutex::new(left);
    let upstream = Upstream::start(move |peer| {
        request(peer)?;
        peer.send(of(STDOUT, "Content-Type: text/plain\n\nfirst"))?;
        peer.wait_for_end()?;
        left.lock().unwrap().send(()).unwrap();
        Ok(())
    });
    let server = start(&upstream, "");
    let mut client = server.connect();
    client.send("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.head().unwrap().status, 200);
    assert_eq!(client.exactly(10).unwrap(), b"5\r\nfirst\r\n");
    drop(client);
    has_left.recv_timeout(crate::support::TIMEOUT).expect("the application sees the end");
    server.stop();
}

/// What a script says to the server, with and without `named_files`.
#[test]
fn a_script_names_a_file_and_says_how_fast_it_may_leave() {
    let upstream = Upstream::start(|peer| {
        let said = request(peer)?.get("QUERY_STRING").unwrap().replace('&', "\r\n").replace(':', ": ");
        peer.send([of(STDOUT, format!("{said}\r\n\r\ncontent")), end(0)].concat())
    });
    let fields = "X-Accel-Limit-Rate:1000&X-Accel-Buffering:no&X-Own:1";
    let server = setup(&[&upstream], "named_files = { \"/p/\" = \"protected\" }")
        .outside("protected/report.txt", b"the whole report\n")
        .limit("inline_file_bytes_max = 0")
        .site("response_headers = { set = { X-Accel-Buffering = \"no\" } }")
        .start();
    let mut client = server.connect();
    for (more, content) in [("", "content"), ("&X-Accel-Redirect:/p/report.txt", "the whole report\n")] {
        let said = client.get(&format!("/?{fields}{more}"));
        assert_eq!((said.status, said.text()), (200, content));
        assert_eq!(said.field("x-accel-limit-rate"), None);
        assert_eq!(said.field("x-accel-buffering"), Some("no"), "the operator wants it");
    }
    server.stop();
    let server = start(&upstream, "");
    let said = server.connect().get(&format!("/?{fields}&X-Accel-Redirect:/p/report.txt"));
    assert_eq!(said.text(), "content");
    for name in ["x-accel-limit-rate", "x-accel-buffering", "x-accel-redirect"] {
        assert!(said.field(name).is_some(), "{name} is a field as any other");
    }
    server.stop();
}
