//! Many clients ask for what is not kept yet: one request goes to the pool, and all are answered with what it brings.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::cache::origin::{Origin, Steps, response};
use crate::cache::{HIT, setup, start, status};
use crate::support::upstream::Asked;
use crate::support::{Client, Server, eventually};

const CLIENTS: usize = 200;
const HELD: &str = "{ collapse_timeout = \"1h\" }";

/// So many clients that have asked for the same.
fn ask(server: &Server, count: usize, target: &str) -> Vec<Client> {
    let client = |_| {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        client
    };
    (0..count).map(client).collect()
}

/// Waits until so many requests wait for that of another client.
fn wait_for_collapsed(server: &Server, count: usize) {
    eventually("requests wait for another one", || server.total("response_cache_collapsed") == count as u64);
}

#[test]
fn one_request_is_for_all_who_wait() {
    let steps = Steps::default();
    let allowed = steps.clone();
    let origin = Origin::start(move |peer, _| {
        allowed.wait_for(1)?;
        peer.send(response("Cache-Control: max-age=600\r\n", "for all"))
    });
    let server = start(&origin, HELD);
    let mut clients = ask(&server, CLIENTS, "/cold");
    wait_for_collapsed(&server, CLIENTS - 1);
    steps.allow();
    let mut stored = 0;
    for client in &mut clients {
        let response = client.response("GET");
        assert_eq!((response.status, response.text()), (200, "for all"));
        let said = status(&response);
        stored += usize::from(!said.contains("collapsed"));
        assert!(said.starts_with("maitred; fwd=uri-miss; stored"), "{said}");
    }
    assert_eq!((stored, origin.count()), (1, 1));
    assert_eq!(status(&clients[0].get("/cold")), HIT);
    server.stop();
}

/// Pieces of a response, of which each is sent when the test allows it.
fn in_pieces(steps: &Steps, head: &'static str, pieces: Vec<Vec<u8>>) -> Origin {
    let allowed = steps.clone();
    Origin::start(move |peer, _| {
        allowed.wait_for(1)?;
        peer.send(head)?;
        for (at, piece) in pieces.iter().enumerate() {
            allowed.wait_for(at + 1)?;
            peer.send(piece)?;
        }
        Ok(())
    })
}

/// Each client gets each piece before the next one is sent.
fn pieces_reach_all(piece_bytes: usize) {
    let pieces: Vec<_> = (0..4u8).map(|at| vec![b'a' + at; piece_bytes]).collect();
    let length = piece_bytes * 4;
    let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {length}\r\n\r\n");
    let steps = Steps::default();
    let origin = in_pieces(&steps, head.leak(), pieces.clone());
    let server = start(&origin, HELD);
    let mut clients = ask(&server, 30, "/slow");
    wait_for_collapsed(&server, 29);
    steps.allow();
    for client in &mut clients {
        let head = client.head().unwrap();
        assert_eq!((head.status, head.need("content-length")), (200, length.to_string().as_str()));
    }
    for (at, piece) in pieces.iter().enumerate() {
        for client in &mut clients {
            assert!(client.exactly(piece_bytes).unwrap() == *piece, "piece {at}");
        }
        // A client that comes late gets what is there.
        let mut late = ask(&server, 1, "/slow").remove(0);
        late.head().unwrap();
        assert!(late.exactly(piece_bytes * (at + 1)).unwrap() == pieces[..=at].concat());
        clients.push(late);
        steps.allow();
    }
    assert!(clients.iter().all(Client::is_quiet));
    assert!(server.connect().get("/slow").body == pieces.concat());
    assert_eq!(origin.count(), 1);
    server.stop();
}

#[test]
fn short_content_reaches_all_as_it_comes() {
    pieces_reach_all(1000);
}

#[test]
fn long_content_reaches_all_as_it_comes() {
    pieces_reach_all(200_000);
}

#[test]
fn a_response_that_is_not_kept_releases_all() {
    let steps = Steps::default();
    let allowed = steps.clone();
    let all = Steps::default();
    let (arrived, together) = (all.clone(), all.clone());
    let begun = AtomicBool::new(false);
    let origin = Origin::start(move |peer, asked| {
        if !begun.swap(true, SeqCst) {
            allowed.wait_for(1)?;
        } else {
            // All others are there at the same time.
            arrived.allow();
            together.wait_for(CLIENTS - 1)?;
        }
        peer.send(response("Cache-Control: private\r\n", asked.target()))
    });
    let server = start(&origin, HELD);
    let mut clients = ask(&server, CLIENTS, "/own");
    wait_for_collapsed(&server, CLIENTS - 1);
    steps.allow();
    for client in &mut clients {
        assert_eq!(client.response("GET").text(), "/own");
    }
    assert_eq!(origin.count(), CLIENTS);
    server.stop();
}

#[test]
fn later_requests_for_what_is_not_kept_do_not_wait_for_each_other() {
    let both = Steps::default();
    let (arrived, together) = (both.clone(), both.clone());
    let origin = Origin::start(move |peer, asked| {
        if asked.field("x-both").is_some() {
            arrived.allow();
            together.wait_for(2)?;
        }
        peer.send(response("Cache-Control: no-store\r\n", "never kept"))
    });
    let server = start(&origin, HELD);
    assert_eq!(server.connect().get("/live").text(), "never kept");
    let mut clients: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /live HTTP/1.1\r\nHost: localhost\r\nX-Both: 1\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.response("GET").text(), "never kept");
    }
    assert_eq!((origin.count(), server.total("response_cache_collapsed")), (3, 0));
    server.stop();
}

#[test]
fn a_request_that_has_waited_long_enough_goes_by_itself() {
    let steps = Steps::default();
    let allowed = steps.clone();
    let origin = Origin::start(move |peer, _| {
        if peer.number == 0 {
            allowed.wait_for(1)?;
        }
        peer.send(response("Cache-Control: max-age=600\r\n", format!("{}", peer.number)))
    });
    let server = start(&origin, "{ collapse_timeout = \"300ms\" }");
    let begin = Instant::now();
    let mut first = ask(&server, 1, "/slow").remove(0);
    eventually("the first request is there", || origin.count() == 1);
    let mut second = server.connect();
    assert_ne!(second.get("/slow").text(), "0");
    assert!(begin.elapsed() >= Duration::from_millis(300));
    steps.allow();
    assert_eq!(first.response("GET").status, 200);
    eventually("the response is kept", || server.total("response_cache_stored") == 1);
    assert_eq!((server.connect().get("/slow").text(), status(&second.get("/slow")).as_str()), ("0", HIT));
    server.stop();
}

/// The first client leaves at each stage.
fn the_first_one_leaves(resets: bool, after_head: bool) {
    let pieces: Vec<_> = (0..2u8).map(|at| vec![b'a' + at; 100_000]).collect();
    let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 200000\r\n\r\n";
    let steps = Steps::default();
    let origin = in_pieces(&steps, head, pieces.clone());
    let server = start(&origin, HELD);
    let mut first = ask(&server, 1, "/slow").remove(0);
    eventually("the first request is there", || origin.count() == 1);
    let mut others = ask(&server, 10, "/slow");
    wait_for_collapsed(&server, 10);
    if after_head {
        steps.allow();
        first.head().unwrap();
        first.exactly(100_000).unwrap();
    }
    if resets {
        first.reset()
    } else {
        drop(first)
    }
    steps.allow();
    steps.allow();
    for other in &mut others {
        assert!(other.response("GET").body == pieces.concat());
    }
    eventually("the response is kept", || server.total("response_cache_stored") == 1);
    let hit = server.connect().get("/slow");
    assert!(hit.body == pieces.concat());
    assert_eq!((status(&hit).as_str(), origin.count()), (HIT, 1));
    server.stop();
}

#[test]
fn a_client_that_leaves_takes_nothing_from_others() {
    for resets in [false, true] {
        for after_head in [false, true] {
            the_first_one_leaves(resets, after_head);
        }
    }
}

#[test]
fn what_only_a_client_that_left_has_asked_for_is_kept_all_the_same() {
    let steps = Steps::default();
    let allowed = steps.clone();
    let origin = Origin::start(move |peer, _| {
        allowed.wait_for(1)?;
        peer.send(response("Cache-Control: max-age=600\r\n", "kept"))
    });
    let server = start(&origin, HELD);
    let client = ask(&server, 1, "/alone").remove(0);
    eventually("the request is there", || origin.count() == 1);
    client.reset();
    steps.allow();
    eventually("the response is kept", || server.total("response_cache_stored") == 1);
    assert_eq!((server.connect().get("/alone").text(), origin.count()), ("kept", 1));
    server.stop();
}

#[test]
fn requests_of_different_kinds_wait_for_the_same() {
    let steps = Steps::default();
    let allowed = steps.clone();
    let origin = Origin::start(move |peer, _: &Asked| {
        allowed.wait_for(1)?;
        peer.send(response("Cache-Control: max-age=600\r\nETag: \"one\"\r\n", "0123456789"))
    });
    let server = setup(&origin, HELD).start();
    let mut clients: Vec<Client> = Vec::new();
    for fields in ["", "Range: bytes=1-2\r\n", "If-None-Match: \"one\"\r\n", "If-None-Match: \"two\"\r\n"] {
        let mut client = server.connect();
        client.send(format!("GET /cold HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        clients.push(client);
    }
    wait_for_collapsed(&server, 3);
    steps.allow();
    let answers: Vec<_> = clients.iter_mut().map(|client| client.response("GET")).collect();
    let said: Vec<_> = answers.iter().map(|answer| (answer.status, answer.text())).collect();
    assert_eq!(said, [(200, "0123456789"), (206, "12"), (304, ""), (200, "0123456789")]);
    assert_eq!(origin.count(), 1);
    server.stop();
}
