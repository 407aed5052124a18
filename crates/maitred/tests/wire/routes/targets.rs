//! Targets in forms and with bytes that hardly any client sends: what is decided, answered and passed on is that of the plain
//! form.

use std::sync::{Arc, Mutex};

use crate::support::h2::{self, Connection};
use crate::support::h3::{self, Asks as _, connect};
use crate::support::upstream::Upstream;
use crate::support::{Client, Setup};

/// The absolute form (9112-3.2.2), by all that answers with a target, or looks at one.
#[test]
fn the_absolute_form_is_as_good_as_the_origin_form() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&asked);
    let upstream = Upstream::start(move |peer| {
        loop {
            let target = peer.request()?.target().to_owned();
            seen.lock().unwrap().push(target.clone());
            let (head, length) = ("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n", target.len());
            peer.send(format!("{head}Content-Length: {length}\r\n\r\n{target}"))?;
        }
    });
    let server = Setup::with_files()
        .file("dir/index.html", b"index\n")
        .route("/old/*", "redirect = \"/new{uri}\"")
        .route("/new/*", "rewrite = \"/to?from={uri}\"\npool = \"app\"")
        .route("/app/*", "pool = \"app\"\ncache = true")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
        .start();
    for prefix in ["", "http://localhost", "HTTP://LOCALHOST:80"] {
        let mut client = server.connect();
        assert_eq!(client.get(&format!("{prefix}/a.txt")).text(), "file a\n", "{prefix}");
        let moved = client.get(&format!("{prefix}/dir?x=1"));
        assert_eq!((moved.status, moved.need("location")), (301, "/dir/?x=1"), "{prefix}");
        let moved = client.get(&format!("{prefix}/old/a%20b?x=1"));
        assert_eq!(moved.need("location"), "/new/old/a%20b?x=1", "{prefix}");
        let rewritten = client.get(&format!("{prefix}/new/x"));
        assert_eq!(rewritten.text(), "/to?from=/new/x", "{prefix}");
        let kept = client.get(&format!("{prefix}/app/x?y=1"));
        assert_eq!(kept.text(), "/app/x?y=1", "{prefix}");
    }
    // The cache has one response for all that name the resource.
    let fetched = asked.lock().unwrap().clone();
    assert!(fetched.iter().filter(|target| *target == "/app/x?y=1").count() < 3, "{fetched:?}");
    let mut client = server.connect();
    assert_eq!(client.get("http://localhost").status, 200, "the root");
    assert_eq!(client.get("https://localhost/a.txt").status, 421, "what was not secured");
    server.stop();
}

/// Says which target came.
fn echo() -> Upstream {
    Upstream::start(|peer| {
        loop {
            let asked = peer.request()?;
            peer.answer(asked.target())?;
        }
    })
}

/// Text beyond ASCII, as many clients send what a user has typed, is encoded where it arrives.
#[test]
fn text_beyond_ascii_is_that_text_encoded() {
    let upstream = echo();
    let server = h3::setup("")
        .file("caf\u{e9}.txt", b"coffee\n")
        .route("/old/*", "redirect = \"/new{uri}\"")
        .route("/app/\u{65e5}\u{672c}/*", "respond = { body = \"route\" }")
        .route("/app/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
        .table("[[listen]]\naddress = \"127.0.0.1:0\"\n")
        .start();
    let address = server.address_of("http");
    let mut guest = connect(&server);
    let mut asked = 0;
    for (raw, encoded) in [
        ("/caf\u{e9}.txt", "/caf%C3%A9.txt"),
        ("/app/\u{fc}?q=\u{65e5}\u{672c}&r=|", "/app/%C3%BC?q=%E6%97%A5%E6%9C%AC&r=|"),
        ("/app/%C3%BC\u{fc}?%41=\u{fc}", "/app/%C3%BC%C3%BC?%41=%C3%BC"),
        ("/app/\u{65e5}\u{672c}/x", "/app/%E6%97%A5%E6%9C%AC/x"),
        ("/old/\u{e9}", "/old/%C3%A9"),
        ("/none/\u{e9}", "/none/%C3%A9"),
    ] {
        let mut client = Client::connect(address);
        let plain = client.get(encoded).undated();
        let sent = client.get(raw).undated();
        assert_eq!(sent, plain, "{raw}");
        let absolute = client.get(&format!("http://localhost{raw}")).undated();
        assert_eq!(absolute, plain, "{raw} in absolute form");
        let framed = h2::get(address, raw);
        assert_eq!((framed.status, &framed.body), (plain.status, &plain.body), "{raw} over HTTP/2");
        let framed = guest.ask("GET", raw, &[], b"");
        assert_eq!((framed.status, &framed.body), (plain.status, &plain.body), "{raw} over HTTP/3");
        asked += 5;
    }
    drop(guest);
    let lines = server.stop().access;
    let logged = lines.iter().filter(|line| line.contains("GET /caf%C3%A9.txt ")).count();
    assert_eq!((logged, lines.len()), (4, asked), "{lines:?}");
}

/// The text is encoded in any number of requests, and makes nothing good that is wrong besides.
#[test]
fn text_beyond_ascii_is_bounded_as_what_it_becomes() {
    let upstream = echo();
    let server = Setup::with_files()
        .file("caf\u{e9}.txt", b"coffee\n")
        .route("/app/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = \"{}\"\n", upstream.name()))
        .start();
    let address = server.address_of("http");
    assert_eq!(Client::connect(address).get("/caf\u{e9}.txt").text(), "coffee\n");
    // Many at once, with a body behind each: as many as one turn takes, and more.
    let mut client = Client::connect(address);
    let one = "POST /app/\u{fc} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\n\u{fc}\u{fc}xx";
    client.send(one.repeat(40));
    for _ in 0..40 {
        assert_eq!(client.response("POST").text(), "/app/%C3%BC");
    }
    // What is no text, and what no target may hold besides, is refused.
    for bad in [&b"/app/\xe9"[..], b"/\xc3\xa9#x", b"/\xc3\xa9<x>", b"/\xc3\xa9\\x", b"/app/?\xff"] {
        let mut client = Client::connect(address);
        client.send([b"GET ", bad, b" HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat());
        assert_eq!(client.response("GET").status, 400, "{:?}", String::from_utf8_lossy(bad));
    }
    let mut connection = Connection::new(address);
    assert_eq!(connection.get("/\u{e9}#x").status, 400);
    assert_eq!(connection.get("/\u{e9}<x>").status, 400);
    // A target counts as long as it is when it is encoded.
    let long = "\u{e9}".repeat(2_000);
    let encoded = long.replace('\u{e9}', "%C3%A9");
    assert_eq!(Client::connect(address).get(&format!("/{long}")).status, 414);
    assert_eq!(Client::connect(address).get(&format!("/{encoded}")).status, 414);
    assert_eq!(h2::get(address, &format!("/{long}")).status, 414);
    drop(connection);
    server.stop();
}
