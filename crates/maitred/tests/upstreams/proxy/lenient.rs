//! Responses that break a rule which other proxies (nginx, HAProxy, Apache, and those written in Go) let pass: they are delivered
//! where what goes on is framed anew, and no client could take it for two things.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::proxy::{setup, start};
use crate::support::upstream::Upstream;
use crate::support::{Client, h2};

/// A server that answers the request for `/N` with the Nth of these.
fn answering(responses: &'static [&'static str]) -> Upstream {
    Upstream::start(move |peer| {
        loop {
            let asked = peer.request()?;
            let number: usize = asked.target()[1..].parse().unwrap();
            peer.send(responses[number])?;
        }
    })
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Each response is 200 with `hello`; `true` if the connection to the server goes on behind it.
const DELIVERED: &[(&str, bool)] = &[
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5  \r\nhello\r\n0\r\n\r\n", true),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\t \r\nhello\r\n0       \r\n\r\n", true),
    ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", true),
    ("HTTP/1.1 200 OK\nContent-Length: 5\nX-A: b\n\nhello", true),
    ("HTTP/1.1 200 OK\r\nX-A: b\nContent-Length: 5\r\n\r\nhello", true),
    ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\nhello", true),
    ("HTTP/1.1  200 OK\r\nContent-Length: 5\r\n\r\nhello", true),
    ("HTTP/1.2 200 OK\r\nContent-Length: 5\r\n\r\nhello", true),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        false,
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 900\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        false,
    ),
    (
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        false,
    ),
];

#[test]
fn odd_responses_that_other_proxies_deliver_are_delivered() {
    static RESPONSES: [&str; DELIVERED.len()] = {
        let mut all = [""; DELIVERED.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = DELIVERED[at].0;
            at += 1;
        }
        all
    };
    for (number, (response, lasts)) in DELIVERED.iter().enumerate() {
        let upstream = answering(&RESPONSES);
        let server = start(&upstream, "");
        let mut client = server.connect();
        let target = format!("/{number}");
        for _ in 0..2 {
            let got = client.get(&target);
            assert_eq!((got.status, got.reason.as_str(), got.text()), (200, "OK", "hello"), "{response:?}");
        }
        assert_eq!(upstream.connections(), if *lasts { 1 } else { 2 }, "{response:?}");
        let got = client.ask(format!("GET {target} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
        assert_eq!((got.status, got.text()), (200, "hello"), "{response:?} to HTTP/1.0");
        let got = h2::get(server.address_of("http"), &target);
        assert_eq!((got.status, got.text()), (200, "hello"), "{response:?} over HTTP/2");
        server.stop();
    }
}

/// Some of the other servers deliver these responses, and some do not. Maitred makes them 502, or broken off.
#[test]
fn what_two_parties_could_read_in_two_ways_is_refused() {
    const REFUSED: &[&str] = &[
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-A : b\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nX-A: b\x01\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nX-A\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 099 Odd\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ];
    let upstream = answering(REFUSED);
    let server = start(&upstream, "");
    for (number, response) in REFUSED.iter().enumerate() {
        let target = format!("/{number}");
        assert_eq!(server.connect().get(&target).status, 502, "{response:?}");
        assert_eq!(h2::get(server.address_of("http"), &target).status, 502, "{response:?} over HTTP/2");
    }
    server.stop();
}

#[test]
fn chunks_that_end_otherwise_are_broken_off() {
    for body in [
        " 5\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\n",
        "5                                 \r\nhello\r\n0\r\n\r\n",
    ] {
        let response = format!("{CHUNKED}{body}");
        let upstream = Upstream::start(move |peer| {
            peer.request()?;
            peer.send(&response)?;
            peer.wait_for_end()
        });
        let server = start(&upstream, "");
        let mut client = server.connect();
        client.send("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
        match client.try_response("GET") {
            Ok(got) => assert_eq!(got.status, 502, "{body:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{body:?}: {error}"),
        }
        server.stop();
    }
}

/// What is behind a response whose end is not certain is no response to anyone.
#[test]
fn what_follows_an_ambiguous_response_is_nobodys() {
    const BOTH: &str = "HTTP/1.1 200 OK\r\nContent-Length: 38\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let upstream = Upstream::start(move |peer| {
        loop {
            peer.request()?;
            match counted.fetch_add(1, SeqCst) {
                0 => peer.send(BOTH)?,
                _ => peer.answer("good")?,
            }
        }
    });
    let server = setup(&[&upstream], "").start();
    let mut client: Client = server.connect();
    assert_eq!(client.get("/1").text(), "hello");
    assert_eq!(client.get("/2").text(), "good");
    assert_eq!(upstream.connections(), 2);
    server.stop();
}
