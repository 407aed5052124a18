//! The client whose request has fetched a response: it gets what the pool has sent for it, and the same however that comes.

use std::io;

use crate::cache::origin::{Origin, Steps, response};
use crate::cache::{HIT, STORED, start, status};
use crate::support::upstream::{Asked, Peer};
use crate::support::{Client, Response, Server, eventually};

/// Heads that name fields which may not be kept.
const OWN: [&str; 4] = [
    "Cache-Control: max-age=600, no-cache=\"Set-Cookie\"\r\n",
    "Cache-Control: max-age=600, private=\"set-cookie, X-Own\"\r\n",
    "CDN-Cache-Control: max-age=600, no-cache=\"Set-Cookie\"\r\nCache-Control: no-store\r\n",
    "Cache-Control: max-age=600, no-cache=\"X-Own\", private=\"Set-Cookie\"\r\n",
];

#[test]
fn fields_that_are_not_kept_reach_the_client_that_has_fetched_them() {
    for control in OWN {
        for bytes in [10, 300_000] {
            let head = format!("{control}Set-Cookie: session=ann\r\nX-Own: 1\r\n");
            let body = "x".repeat(bytes);
            let origin = Origin::start(move |peer, _| peer.send(response(&head, &body)));
            let server = start(&origin, "true");
            let first = server.connect().get("/a");
            assert_eq!((first.need("set-cookie"), first.need("x-own")), ("session=ann", "1"), "{control}");
            assert_eq!((status(&first).as_str(), first.body.len()), (STORED, bytes));
            let hit = server.connect().get("/a");
            assert_eq!((hit.field("set-cookie"), status(&hit).as_str()), (None, HIT), "{control}");
            assert_eq!(hit.field("x-own").is_none(), control.contains("X-Own"), "{control}");
            server.stop();
        }
    }
}

/// Clients that wait for a response get what is kept of it, also while it comes.
#[test]
fn fields_for_one_client_do_not_reach_those_who_wait() {
    let steps = Steps::default();
    let allowed = steps.clone();
    let origin = Origin::start(move |peer, _| {
        allowed.wait_for(1)?;
        let head = format!("{}Set-Cookie: session=ann\r\n", OWN[0]);
        let all = response(&head, vec![b'x'; 200_000]);
        let (first, rest) = all.split_at(all.len() - 100_000);
        peer.send(first)?;
        allowed.wait_for(2)?;
        peer.send(rest)
    });
    let server = start(&origin, "{ collapse_timeout = \"1h\" }");
    let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
        eventually("it is asked for", || server.total("response_cache_collapsed") == number as u64);
        eventually("the pool is asked", || origin.count() == 1);
    }
    steps.allow();
    let cookies: Vec<bool> =
        clients.iter_mut().map(|client| client.head().unwrap().field("set-cookie").is_some()).collect();
    assert_eq!(cookies, [true, false, false]);
    steps.allow();
    server.terminate(rustix::process::Signal::TERM);
}

#[test]
fn the_fields_of_a_304_reach_the_client_that_has_asked() {
    let origin = Origin::start(|peer, asked| {
        match asked.field("if-none-match") {
        None => {
            let fields = "Cache-Control: max-age=10\r\nAge: 20\r\nETag: \"one\"\r\n";
            peer.send(response(fields, "kept"))
        }
        Some(_) => peer.send(
            "HTTP/1.1 304 Not Modified\r\nETag: \"one\"\r\nCache-Control: max-age=600, no-cache=\"Set-Cookie\"\r\n\
             Set-Cookie: session=ann\r\n\r\n",
        ),
    }
    });
    let server = start(&origin, "true");
    assert_eq!(server.connect().get("/a").text(), "kept");
    let validated = server.connect().get("/a");
    assert_eq!((validated.text(), validated.need("set-cookie")), ("kept", "session=ann"));
    assert!(status(&validated).starts_with("maitred; fwd=stale; fwd-status=304"), "{validated:?}");
    let hit = server.connect().get("/a");
    assert_eq!((hit.field("set-cookie"), status(&hit).as_str()), (None, HIT));
    server.stop();
}

/// Sends a response in one piece, or its head, then the content when the first client has the head or waits.
fn in_pieces(head: &'static str, body: &'static [u8], pieces: bool, steps: &Steps) -> Origin {
    let allowed = steps.clone();
    Origin::start(move |peer: &mut Peer, _: &Asked| -> io::Result<()> {
        if !pieces {
            return peer.send([head.as_bytes(), body].concat());
        }
        peer.send(head)?;
        allowed.wait_for(1)?;
        peer.send(body)
    })
}

/// Asks once. The rest of the content comes when the server has had time to see the head: it has counted it, or has answered.
fn ask(server: &Server, fields: &str, steps: &Steps) -> Response {
    let mut client = server.connect();
    client.send(format!("GET /a HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
    eventually("the pool is asked", || server.total("response_cache_fills") == 1);
    steps.allow();
    client.response("GET")
}

const MEASURED: &str = "Content-Length: 10\r\n\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n";

/// What the first client gets is decided by the head of the response, and not by how soon its content follows.
#[test]
fn what_the_first_client_gets_does_not_depend_on_timing() {
    let kept = "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nETag: \"one\"\r\n\
                Cache-Control: max-age=600000000, no-cache=\"X-Own\"\r\nX-Own: 1\r\n";
    for (length, body) in [(MEASURED, &b"0123456789"[..]), (CHUNKED, b"a\r\n0123456789\r\n0\r\n\r\n")] {
        let head: &'static str = format!("{kept}{length}").leak();
        for fields in [
            "",
            "If-None-Match: *\r\n",
            "If-None-Match: \"one\"\r\n",
            "If-None-Match: \"two\"\r\n",
            "If-Modified-Since: Fri, 01 Jan 2027 00:00:00 GMT\r\n",
            "Range: bytes=2-4\r\n",
            "Range: bytes=-3\r\n",
            "Range: bytes=20-\r\n",
            "Range: bytes=0-1\r\nIf-Range: \"two\"\r\n",
        ] {
            let answers = [false, true].map(|pieces| {
                let steps = Steps::default();
                let origin = in_pieces(head, body, pieces, &steps);
                let server = start(&origin, "true");
                let answer = ask(&server, fields, &steps);
                eventually("it is kept", || status(&server.connect().get("/a")) == HIT);
                assert_eq!(origin.count(), 1, "{fields:?}");
                server.stop();
                let names = ["etag", "x-own", "content-range", "cache-control"];
                let told = names.map(|name| answer.field(name).map(str::to_owned));
                (answer.status, answer.text().to_owned(), told)
            });
            assert_eq!(answers[0], answers[1], "{fields:?} {length:?}");
            let expected = match fields.split(": ").next().unwrap() {
                "If-None-Match" if fields.contains("two") => 200,
                "If-None-Match" | "If-Modified-Since" => 304,
                "Range" if length == CHUNKED || fields.contains("If-Range") => 200,
                "Range" if fields.contains("20-") => 416,
                "Range" => 206,
                _ => 200,
            };
            assert_eq!(answers[0].0, expected, "{fields:?} {length:?}");
        }
    }
}

#[test]
fn something_that_is_not_kept_is_asked_for_once() {
    for (pieces, control) in [(false, "private"), (true, "private"), (false, "no-store"), (true, "max-age=0")]
    {
        let kept =
            format!("HTTP/1.1 200 OK\r\nETag: \"one\"\r\nCache-Control: {control}, no-store\r\n{MEASURED}");
        let head: &'static str = kept.leak();
        for (fields, expected) in [
            ("Range: bytes=2-4\r\n", (206, "234")),
            ("Range: bytes=-2\r\n", (206, "89")),
            ("Range: bytes=10-\r\n", (416, "")),
            ("If-None-Match: \"one\"\r\n", (304, "")),
            ("If-None-Match: \"two\"\r\n", (200, "0123456789")),
            ("", (200, "0123456789")),
        ] {
            let steps = Steps::default();
            let origin = in_pieces(head, b"0123456789", pieces, &steps);
            let server = start(&origin, "true");
            let answer = ask(&server, fields, &steps);
            assert_eq!((answer.status, answer.text()), expected, "{fields:?} {control} {pieces}");
            assert_eq!(origin.count(), 1, "{fields:?}");
            server.stop();
        }
    }
}

/// What lies far behind the beginning is asked of the pool, which need not send what comes before.
#[test]
fn a_part_far_behind_the_beginning_is_asked_of_the_pool() {
    let origin = Origin::start(|peer, asked| {
        match asked.field("range") {
        None => peer.send("HTTP/1.1 200 OK\r\nCache-Control: private\r\nContent-Length: 100000000\r\n\r\n"),
        Some(_) => peer.send(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 90000000-90000001/100000000\r\nContent-Length: 2\r\n\r\nab",
        ),
    }
    });
    let server = start(&origin, "true");
    let part = server.connect().method("GET", "/a", "Range: bytes=90000000-90000001\r\n");
    assert_eq!((part.status, part.text(), origin.count()), (206, "ab", 2));
    server.stop();
}

#[test]
fn what_is_stale_and_cannot_be_validated_is_said_to_be_stale() {
    let origin = Origin::numbered("Cache-Control: max-age=10\r\nAge: 9\r\n");
    let server = start(&origin, "true");
    assert_eq!(status(&server.connect().get("/a")), STORED);
    eventually("it is stale", || {
        let said = status(&server.connect().get("/a"));
        assert_ne!(said, STORED, "something was there");
        said == "maitred; fwd=stale; stored"
    });
    server.stop();
}

/// Short text whose length the head does not say is compressed as it comes, whether it comes with the head or after it.
#[test]
fn codings_of_the_first_client_do_not_depend_on_timing() {
    for (length, body, coded) in [
        (CHUNKED, &b"a\r\n0123456789\r\n0\r\n\r\n"[..], Some("gzip".to_owned())),
        (MEASURED, b"0123456789", None),
    ] {
        let fields = "Cache-Control: max-age=600\r\nContent-Type: text/plain\r\n";
        let head: &'static str = format!("HTTP/1.1 200 OK\r\n{fields}{length}").leak();
        for pieces in [false, true] {
            let steps = Steps::default();
            let origin = in_pieces(head, body, pieces, &steps);
            let server = crate::support::Setup::with_files()
                .route("/*", "pool = \"app\"\ncache = true\ncompress = true")
                .table("[cache]\ndirectory = \"store\"\n")
                .table(&format!("[pool.app]\nconnect = [\"{}\"]\n", origin.name()))
                .start();
            let first = ask(&server, "Accept-Encoding: gzip\r\n", &steps);
            assert_eq!(first.field("content-encoding").map(str::to_owned), coded, "{length:?} {pieces}");
            server.stop();
        }
    }
}
