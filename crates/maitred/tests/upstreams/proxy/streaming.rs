//! `request_buffering = "off"`: bodies that go to a server while they come.

use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::proxy::fastcgi;
use crate::support::h2::{Connection, frame};
use crate::support::upstream::{Peer, Upstream};
use crate::support::{Client, End, Server, TIMEOUT, eventually};

/// More than the sockets between client, Maitred and server take.
const MUCH: usize = 32 << 20;

/// A server to which bodies go while they come.
fn start(upstreams: &[&Upstream], lines: &str) -> Server {
    let server = crate::proxy::setup(upstreams, "").limit(&format!("body_bytes_max = {MUCH}\n"));
    server.site(&format!("request_buffering = \"off\"\n{lines}")).start()
}

/// What a server says to the test.
fn told<T: Send + 'static>() -> (impl Fn(T) + Send + Sync + 'static, Receiver<T>) {
    let (sender, receiver) = channel();
    let sender: Mutex<Sender<T>> = Mutex::new(sender);
    (move |value| sender.lock().unwrap().send(value).unwrap(), receiver)
}

/// A head up to its empty line, in lower case.
fn head(peer: &mut Peer) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(peer.take(1)?);
    }
    Ok(String::from_utf8(head).unwrap().to_lowercase())
}

/// A server that says the body of each request as it comes, in pieces of so many bytes with their framing.
fn piecewise(pieces: &'static [usize]) -> (Upstream, Receiver<String>) {
    let (tell, said) = told();
    let upstream = Upstream::start(move |peer| {
        loop {
            tell(head(peer)?);
            for bytes in pieces {
                tell(String::from_utf8(peer.take(*bytes)?).unwrap());
            }
            peer.answer("thanks")?;
        }
    });
    (upstream, said)
}

fn hear(said: &Receiver<String>) -> String {
    said.recv_timeout(TIMEOUT).expect("the server has got it")
}

#[test]
fn a_body_goes_to_the_server_while_it_comes() {
    let (upstream, said) = piecewise(&[5, 6]);
    let server = start(&[&upstream], "");
    let mut client = server.connect();
    for _ in 0..2 {
        client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n");
        let head = hear(&said);
        assert!(head.contains("content-length: 11\r\n") && !head.contains("expect"), "{head}");
        client.send("first");
        assert_eq!(hear(&said), "first");
        // What comes behind the body belongs to the next request.
        client.send("secondGET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(hear(&said), "second");
        assert_eq!(client.response("POST").text(), "thanks");
        assert_eq!(client.response("GET").text(), "file a\n");
    }
    assert_eq!(upstream.connections(), 1, "both connections are kept");
    server.stop();
}

#[test]
fn a_body_of_unknown_length_goes_on_in_chunks() {
    let (upstream, said) = piecewise(&[10, 11, 5]);
    let server = start(&[&upstream], "");
    let mut client = server.connect();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfi");
    let head = hear(&said);
    assert!(head.contains("transfer-encoding: chunked\r\n") && !head.contains("content-length"), "{head}");
    client.send("rst\r\n");
    // As the pieces have come: two of them, or one.
    let first = hear(&said);
    assert!(["2\r\nfi\r\n3\r\n", "5\r\nfirst\r\n"].contains(&first.as_str()), "{first:?}");
    server.terminate(rustix::process::Signal::KILL);
}

/// The other protocol, and what only it has: an end of its own, and trailers.
#[test]
fn streams_of_http2_go_on_while_they_come() {
    let (tell, said) = told();
    let upstream = Upstream::start(move |peer| {
        tell(head(peer)?);
        for piece in ["5\r\nfirst\r\n", "6\r\nsecond\r\n", "0\r\nx-sum: 17\r\n\r\n"] {
            let got = String::from_utf8(peer.take(piece.len())?).unwrap();
            assert_eq!(got, piece);
            tell(got);
        }
        peer.answer("thanks")?;
        peer.wait_for_end()
    });
    let server = crate::proxy::setup(&[&upstream], "")
        .listen("http2 = true")
        .site("request_buffering = \"off\"\n")
        .start();
    let mut client = Connection::new(server.address);
    let id = client.request("POST", "/a", &[("te", "trailers"), ("trailer", "x-sum, te")], false);
    let head = hear(&said);
    assert!(
        head.contains("transfer-encoding: chunked\r\n") && head.contains("\r\ntrailer: x-sum\r\n"),
        "{head}"
    );
    client.send(frame::data(id, b"first", false));
    assert_eq!(hear(&said), "5\r\nfirst\r\n");
    client.send(frame::data(id, b"second", false));
    assert_eq!(hear(&said), "6\r\nsecond\r\n");
    client.send(frame::headers(id, &crate::support::h2::hpack::block(&[("x-sum", "17")]), true));
    assert_eq!(hear(&said), "0\r\nx-sum: 17\r\n\r\n");
    assert_eq!(client.response(id).text(), "thanks");
    server.stop();
}

/// Both directions at once, for as long as both sides like.
#[test]
fn client_and_server_may_talk_to_one_another() {
    let upstream = Upstream::start(|peer| {
        head(peer)?;
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for _ in 0..10 {
            let word = peer.take(4)?;
            peer.send([b"4\r\n", word.as_slice(), b"\r\n"].concat())?;
        }
        peer.send("0\r\n\r\n")?;
        peer.wait_for_end()
    });
    let server = start(&[&upstream], "");
    let mut client = server.connect();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 40\r\n\r\n");
    assert_eq!(client.head().unwrap().status, 200);
    for number in 0..10 {
        let word = format!("wor{number}");
        client.send(&word);
        assert_eq!(client.exactly(9).unwrap(), format!("4\r\n{word}\r\n").as_bytes());
    }
    assert_eq!(client.exactly(5).unwrap(), b"0\r\n\r\n");
    assert_eq!(client.get("/a.txt").text(), "file a\n");
    server.stop();
}

/// A server that reads nothing stops the client, and nothing of the body is kept.
#[test]
fn a_client_sends_no_faster_than_the_server_takes() {
    let (go, goes) = channel::<()>();
    let goes = Mutex::new(goes);
    let upstream = Upstream::start(move |peer| {
        head(peer)?;
        let _ = goes.lock().unwrap().recv();
        let mut left = MUCH;
        while left > 0 {
            left -= peer.piece()?.len();
        }
        peer.answer("all")
    });
    let server = start(&[&upstream], "");
    let mut client = server.connect();
    client.send(format!("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: {MUCH}\r\n\r\n"));
    client.tcp().set_nonblocking(true).unwrap();
    let (piece, mut sent) = (vec![b'x'; 1 << 20], 0);
    let mut refused = 0;
    eventually("the client cannot send more", || {
        let before = sent;
        while sent < MUCH {
            match io::Write::write(&mut client.tcp(), &piece[..piece.len().min(MUCH - sent)]) {
                Ok(bytes) => sent += bytes,
                Err(_) => break,
            }
        }
        refused = if sent == before { refused + 1 } else { 0 };
        // A while in which nothing more goes.
        refused > 20
    });
    assert!(sent < MUCH, "the sockets do not take all of it");
    let status = server.status();
    assert!(status["budgets"]["unsent"]["used"].as_u64().unwrap() <= 1 << 20, "{}", status["budgets"]);
    assert_eq!(status["bodies"]["disk"]["bytes"].as_u64(), Some(0));
    client.tcp().set_nonblocking(false).unwrap();
    drop(go);
    client.send(vec![b'x'; MUCH - sent]);
    assert_eq!(client.response("POST").text(), "all");
    server.stop();
}

#[test]
fn a_server_asks_for_the_body_by_itself() {
    let upstream = Upstream::start(|peer| {
        let head = head(peer)?;
        assert!(head.contains("expect: 100-continue\r\n"), "{head}");
        if head.starts_with("post /no") {
            return peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
        peer.send("HTTP/1.1 100 Continue\r\n\r\n")?;
        assert_eq!(peer.take(5)?, b"hello");
        // The server behind closes the connection, which would otherwise be kept for the next request.
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nthanks")
    });
    let server = start(&[&upstream], "");
    let ask = |target| {
        let mut client = server.connect();
        let fields = "Host: h\r\nExpect: 100-continue\r\nContent-Length: 5";
        client.send(format!("POST {target} HTTP/1.1\r\n{fields}\r\n\r\n"));
        client
    };
    let mut client = ask("/yes");
    assert!(client.raw_head().unwrap().starts_with(b"HTTP/1.1 100 Continue\r\n"));
    client.send("hello");
    assert_eq!(client.response("POST").text(), "thanks");
    let refused = ask("/no").response("POST");
    assert_eq!((refused.status, refused.interim), (403, vec![]));
    server.stop();
}

/// A response may come before the server has read everything: a short rest is read, and a long one ends the connection.
#[test]
fn an_early_response_is_passed_on() {
    let upstream = Upstream::start(|peer| {
        head(peer)?;
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly")?;
        peer.wait_for_end()
    });
    let server = start(&[&upstream], "");
    let mut client = server.connect();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nfour");
    assert_eq!(client.response("POST").text(), "early");
    client.send("other");
    assert_eq!(client.get("/a.txt").text(), "file a\n", "the rest was short");
    client.send(format!("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: {MUCH}\r\n\r\nfour"));
    assert_eq!(client.response("POST").text(), "early");
    // The connection ends behind it, however much comes.
    while client.try_send(vec![b'x'; 65536]).is_ok() {}
    server.stop();
}

/// The server has to see that a request is not whole.
#[test]
fn a_client_that_goes_too_early_ends_the_connection_to_the_server() {
    let (tell, said) = told();
    let upstream = Upstream::start(move |peer| {
        tell(head(peer)?);
        let mut got = String::new();
        loop {
            let piece = peer.piece()?;
            if piece.is_empty() {
                tell(got);
                return Ok(());
            }
            got.push_str(&String::from_utf8(piece).unwrap());
        }
    });
    let server = start(&[&upstream], "");
    for framing in ["Content-Length: 50", "Transfer-Encoding: chunked"] {
        for resets in [false, true] {
            let mut client = server.connect();
            client.send(format!("POST /a HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n5\r\nfirst\r\n"));
            hear(&said);
            match resets {
                true => client.reset(),
                false => {
                    client.finish_sending();
                    let end = client.end();
                    assert!(matches!(end, End::Closed | End::Reset), "{end:?}");
                }
            }
            let got = hear(&said);
            assert!(!got.ends_with("0\r\n\r\n") && got.len() < 50, "{got:?}");
        }
    }
    server.stop();
}

#[test]
fn a_server_that_fails_has_its_request_sent_to_another_one_only_if_nothing_has_left() {
    let (tell, said) = told();
    let failing = Upstream::start(move |peer| {
        head(peer)?;
        peer.take(5)?;
        tell(());
        Ok(())
    });
    let (good, heard) = piecewise(&[5]);
    let refusing = {
        // A port at which nothing listens.
        let gone = Upstream::start(|_| Ok(()));
        format!("http://{}", gone.address())
    };
    let server = start(&[&failing], "");
    let mut client = server.connect();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\nfirst");
    said.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(client.response("POST").status, 502);
    server.stop();
    let server = crate::support::Setup::with_files()
        .site("request_buffering = \"off\"\n")
        .route("/*", "pool = \"app\"")
        .table(&format!("[pool.app]\nconnect = [\"{refusing}\", \"{}\"]\n", good.name()))
        .start();
    for _ in 0..4 {
        let mut client = server.connect();
        client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nfirst");
        assert_eq!(client.response("POST").text(), "thanks");
        hear(&heard);
        assert_eq!(hear(&heard), "first");
    }
    server.stop();
}

#[test]
fn what_is_no_body_or_too_much_of_it_is_refused() {
    let (tell, ended) = told();
    let upstream = Upstream::start(move |peer| {
        head(peer)?;
        let end = peer.wait_for_end();
        tell(());
        end
    });
    let server = start(&[&upstream], "limits = { body_bytes_max = 1000 }\n");
    let long = format!("400\r\n{}\r\n0\r\n\r\n", "x".repeat(1024));
    for (body, status) in [("zz\r\n", 400), (long.as_str(), 413)] {
        let mut client = server.connect();
        client.send("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
        eventually("the request is there", || upstream.connections() > 0);
        client.send(body);
        assert_eq!(client.response("POST").status, status);
        ended.recv_timeout(TIMEOUT).expect("the server sees the end");
    }
    // What is announced to be too long is not sent at all.
    let before = upstream.connections();
    let mut client = server.connect();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n");
    assert_eq!((client.response("POST").status, upstream.connections()), (413, before));
    server.stop();
}

#[test]
fn a_client_that_says_nothing_is_too_slow_and_a_server_that_does_is_late() {
    let upstream = Upstream::start(|peer| {
        head(peer)?;
        peer.wait_for_end()
    });
    let server = crate::proxy::setup(&[&upstream], "request_timeout = \"1s\"")
        .site("request_buffering = \"off\"\nlimits = { body_timeout = \"1s\", body_bytes_per_second_min = 0 }\n")
        .start();
    let mut client = server.connect();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nfirst");
    assert_eq!(client.response("POST").status, 408);
    let mut client = server.connect();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nfirst more");
    assert_eq!(client.response("POST").status, 504);
    server.stop();
}

/// The server's 100 (Continue) is not yet its response: a client that is silent after it is as slow as any other.
#[test]
fn a_client_that_says_nothing_after_a_100_is_too_slow() {
    let upstream = Upstream::start(|peer| {
        head(peer)?;
        peer.send("HTTP/1.1 100 Continue\r\n\r\n")?;
        peer.wait_for_end()
    });
    let limits = "limits = { body_timeout = \"1s\", body_bytes_per_second_min = 0 }\n";
    let server = start(&[&upstream], limits);
    let mut client = server.connect();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n");
    let refused = client.response("POST");
    assert_eq!((refused.status, refused.interim), (408, vec![100]));
    server.stop();
}

/// What is too long for memory goes on at once, and everything else as a whole.
#[test]
fn by_default_only_long_bodies_go_on_while_they_come() {
    let (tell, said) = told();
    let upstream = Upstream::start(move |peer| {
        loop {
            tell(head(peer)?);
            peer.take(10)?;
            peer.answer("thanks")?;
        }
    });
    let server = crate::proxy::setup(&[&upstream], "")
        .limit("body_inline_bytes_max = 4\nbody_memory_bytes_max = 9\n")
        .start();
    let mut client = server.connect();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n");
    assert!(hear(&said).contains("content-length: 10"));
    client.send("0123456789");
    assert_eq!(client.response("POST").text(), "thanks");
    // The length of a chunked body is not known beforehand.
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\na\r\n01234");
    assert_eq!(server.connect().get("/a.txt").text(), "file a\n");
    assert!(said.try_recv().is_err(), "the server does not get what is not there as a whole");
    client.send("56789\r\n0\r\n\r\n");
    assert!(hear(&said).contains("content-length: 10"));
    assert_eq!(client.response("POST").text(), "thanks");
    server.stop();
}

/// A FastCGI application is told the length beforehand, and what has come of the content.
#[test]
fn content_goes_to_a_fastcgi_application_while_it_comes() {
    let (tell, said) = told();
    let upstream = Upstream::start(move |peer| {
        let asked = fastcgi::head(peer)?;
        tell(asked.get("CONTENT_LENGTH").unwrap_or_default().to_owned());
        let mut got = String::new();
        loop {
            let (_, content) = fastcgi::record(peer)?;
            if content.is_empty() {
                break;
            }
            got.push_str(&String::from_utf8(content).unwrap());
            tell(got.clone());
        }
        fastcgi::answer(peer, &got)
    });
    let server = fastcgi::setup(&[&upstream], "").site("request_buffering = \"off\"\n").start();
    let mut client: Client = server.connect();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n");
    assert!(client.raw_head().unwrap().starts_with(b"HTTP/1.1 100 Continue\r\n"));
    assert_eq!(hear(&said), "11");
    client.send("first");
    assert_eq!(hear(&said), "first");
    client.send("second");
    assert_eq!(hear(&said), "firstsecond");
    assert_eq!(client.response("POST").text(), "firstsecond");
    server.stop();
}
