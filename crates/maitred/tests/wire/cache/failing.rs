//! The pool does not answer, or not as a whole, or with more than is kept: clients get what there is, and nothing is kept of it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::cache::origin::{Origin, response};
use crate::cache::{HIT, start, status, with_pool};
use crate::support::{Client, Response, Server, eventually};

/// Files of entries, in the directory of the store.
pub(crate) fn entries(directory: &Path) -> usize {
    let Ok(names) = std::fs::read_dir(directory) else { return 0 };
    let paths: Vec<_> = names.map(|name| name.unwrap()).collect();
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().unwrap().is_dir();
    let folders = paths.iter().filter(|entry| is_folder(entry));
    folders.map(|folder| std::fs::read_dir(folder.path()).unwrap().count()).sum()
}

fn try_get(server: &Server, target: &str) -> io::Result<Response> {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    client.try_response("GET")
}

/// Responses are aborted after this, until the test lets them be whole.
fn aborted(sent: Vec<u8>) {
    let works = Arc::new(AtomicBool::new(false));
    let whole = Arc::clone(&works);
    let origin = Origin::start(move |peer, _| {
        if whole.load(SeqCst) {
            return peer.send(response("Cache-Control: max-age=600\r\n", "whole"));
        }
        peer.send(&sent)?;
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    let server = start(&origin, "true");
    for _ in 0..3 {
        let before = origin.count();
        let result = try_get(&server, "/cut");
        assert!(result.is_err(), "{:?}", result.map(|response| (response.status, response.body.len())));
        // Twice, if the fill has failed before anything was passed on.
        assert!((1..=2).contains(&(origin.count() - before)));
    }
    works.store(true, SeqCst);
    let before = origin.count();
    let whole = try_get(&server, "/cut").unwrap();
    assert_eq!((whole.status, whole.text(), origin.count()), (200, "whole", before + 1));
    let hit = try_get(&server, "/cut").unwrap();
    assert_eq!((hit.text(), status(&hit).as_str(), origin.count()), ("whole", HIT, before + 1));
    eventually("one file is there", || entries(&server.path("store")) == 1);
    assert_eq!(server.total("response_cache_stored"), 1);
    server.stop();
}

#[test]
fn an_aborted_response_with_a_length_is_not_kept() {
    for bytes in [1000, 200_000] {
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n", bytes + 1);
        aborted([head.as_bytes(), &vec![b'x'; bytes]].concat());
    }
}

#[test]
fn an_aborted_response_in_chunks_is_not_kept() {
    for bytes in [1000, 200_000] {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunk = format!("{bytes:x}\r\n{}\r\n", "x".repeat(bytes));
        aborted([head.as_bytes(), chunk.as_bytes()].concat());
    }
}

#[test]
fn no_answer_is_no_response_to_keep() {
    let origin = Origin::start(|peer, asked| match (asked.target(), peer.number) {
        ("/silent", _) => peer.wait_for_end(),
        ("/closes", _) => Err(io::ErrorKind::ConnectionAborted.into()),
        ("/bad", _) => peer.send("no HTTP at all\r\n\r\n").and_then(|()| peer.wait_for_end()),
        _ => peer.send(response("Cache-Control: max-age=600\r\n", "good")),
    });
    let server = with_pool(&origin, "{ ttl = \"10m\" }", "request_timeout = \"1s\"").start();
    for (target, status) in [("/silent", 504), ("/closes", 502), ("/bad", 502)] {
        for _ in 0..2 {
            assert_eq!(server.connect().get(target).status, status, "{target}");
        }
        let seen = origin.seen().iter().filter(|asked| asked.target() == target).count();
        assert!(seen >= 2, "{target}: {seen}");
    }
    assert_eq!(server.connect().get("/good").text(), "good");
    assert_eq!(server.total("response_cache_stored"), 1);
    server.stop();
}

#[test]
fn no_server_is_no_response_to_keep() {
    let origin = Origin::start(|peer, _| {
        peer.send(response("Cache-Control: max-age=600\r\nConnection: close\r\n", "kept"))?;
        Err(io::ErrorKind::ConnectionAborted.into())
    });
    let address = origin.upstream.address();
    let server = start(&origin, "true");
    assert_eq!(server.connect().get("/kept").text(), "kept");
    drop(origin);
    eventually("connections are refused", || std::net::TcpStream::connect(address).is_err());
    assert_eq!(server.connect().get("/other").status, 502);
    assert_eq!(server.connect().get("/other").status, 502);
    let hit = server.connect().get("/kept");
    assert_eq!((hit.text(), status(&hit).as_str()), ("kept", HIT));
    server.stop();
}

/// Responses with so many bytes, of which `limit` may be kept.
fn larger_than_what_is_kept(head: &'static str, chunked: bool, bytes: usize) {
    let body = vec![b'x'; bytes];
    let sent = body.clone();
    let origin = Origin::start(move |peer, _| {
        peer.send(head)?;
        if !chunked {
            return peer.send(&sent);
        }
        for piece in sent.chunks(10_000) {
            peer.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat())?;
        }
        peer.send("0\r\n\r\n")
    });
    let server = start(&origin, "{ object_bytes_max = \"100KiB\" }");
    for count in 1..=2 {
        assert!(server.connect().get("/large").body == body);
        assert_eq!(origin.count(), count);
    }
    assert_eq!((entries(&server.path("store")), server.total("response_cache_stored")), (0, 0));
    server.stop();
}

#[test]
fn what_is_too_large_is_passed_on() {
    let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 500000\r\n\r\n";
    larger_than_what_is_kept(head, false, 500_000);
    let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n";
    larger_than_what_is_kept(head, true, 500_000);
    larger_than_what_is_kept(head, true, 102_401);
}

#[test]
fn what_is_as_large_as_allowed_is_kept() {
    let origin =
        Origin::start(|peer, _| peer.send(response("Cache-Control: max-age=600\r\n", vec![b'x'; 102_400])));
    let server = start(&origin, "{ object_bytes_max = \"100KiB\" }");
    for _ in 0..2 {
        assert_eq!(server.connect().get("/").body.len(), 102_400);
    }
    assert_eq!(origin.count(), 1);
    server.stop();
}

#[test]
fn a_short_limit_holds_for_chunks_that_fit_in_memory() {
    let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n";
    let origin = Origin::start(move |peer, _| {
        peer.send(head)?;
        peer.send("a\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n")
    });
    let server = start(&origin, "{ object_bytes_max = 10 }");
    let mut client: Client = server.connect();
    for count in 1..=2 {
        assert_eq!((client.get("/").text(), origin.count()), ("0123456789x", count));
    }
    server.stop();
}

#[test]
fn those_who_wait_for_a_response_that_fails_go_by_themselves() {
    let steps = crate::cache::origin::Steps::default();
    let allowed = steps.clone();
    let origin = Origin::start(move |peer, _| {
        if peer.number == 0 {
            allowed.wait_for(1)?;
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        peer.send(response("Cache-Control: max-age=600\r\n", "good"))
    });
    let server = with_pool(&origin, "{ collapse_timeout = \"1h\" }", "").start();
    let mut clients: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    eventually("requests wait for another one", || server.total("response_cache_collapsed") == 4);
    steps.allow();
    let answers: Vec<_> = clients.iter_mut().map(|client| client.response("GET")).collect();
    let good = answers.iter().filter(|answer| answer.status == 200 && answer.text() == "good").count();
    assert!(good >= 4, "{answers:?}");
    assert_eq!(server.connect().get("/x").text(), "good");
    server.stop();
}
