//! What is kept is given to others: as a whole, in parts, as 304, to HEAD, over HTTP/1 and HTTP/2.

use crate::cache::origin::{Origin, response};
use crate::cache::{HIT, STORED, start, status};
use crate::support::Client;
use crate::support::h2;

#[test]
fn a_response_is_fetched_once_and_given_to_all() {
    let origin = Origin::numbered("Cache-Control: max-age=600\r\nAge: 7\r\nX-Own: yes\r\n");
    let server = start(&origin, "true");
    let first = server.connect().get("/a");
    assert_eq!((first.status, first.text(), status(&first).as_str()), (200, "/a 1", STORED));
    for _ in 0..20 {
        let hit = server.connect().get("/a");
        assert_eq!((hit.status, hit.text(), status(&hit).as_str()), (200, "/a 1", HIT));
        assert_eq!((hit.need("x-own"), hit.need("content-length")), ("yes", "4"));
        let age: u32 = hit.need("age").parse().unwrap();
        assert!((7..600).contains(&age), "{age}");
        let ttl = hit.need("cache-status").rsplit("ttl=").next().unwrap().parse::<u32>().unwrap();
        // The second may pass between the two.
        assert_eq!(ttl + age, 600);
    }
    assert_eq!(origin.count(), 1);
    assert_eq!((server.total("response_cache_hits"), server.total("response_cache_misses")), (20, 1));
    server.stop();
}

#[test]
fn heads_conditions_and_ranges_are_answered_from_what_is_kept() {
    let origin = Origin::start(|peer, _| {
        let fields = "Cache-Control: max-age=600\r\nETag: \"one\"\r\nContent-Type: text/plain\r\n";
        peer.send(response(fields, "0123456789"))
    });
    let server = start(&origin, "true");
    let mut client = server.connect();
    assert_eq!(client.get("/a").text(), "0123456789");
    let head = client.method("HEAD", "/a", "");
    assert_eq!((head.status, head.need("content-length"), status(&head).as_str()), (200, "10", HIT));
    let same = client.method("GET", "/a", "If-None-Match: \"one\"\r\n");
    assert_eq!((same.status, same.need("etag"), status(&same).as_str()), (304, "\"one\"", HIT));
    let other = client.method("GET", "/a", "If-None-Match: \"two\"\r\n");
    assert_eq!((other.status, other.text()), (200, "0123456789"));
    for (range, status, content_range, body) in [
        ("2-4", 206, "bytes 2-4/10", "234"),
        ("-3", 206, "bytes 7-9/10", "789"),
        ("5-", 206, "bytes 5-9/10", "56789"),
        ("10-", 416, "bytes */10", ""),
    ] {
        let part = client.method("GET", "/a", &format!("Range: bytes={range}\r\n"));
        assert_eq!((part.status, part.need("content-range"), part.text()), (status, content_range, body));
    }
    let changed = client.method("GET", "/a", "Range: bytes=0-1\r\nIf-Range: \"two\"\r\n");
    assert_eq!((changed.status, changed.text()), (200, "0123456789"));
    assert_eq!(origin.count(), 1);
    server.stop();
}

#[test]
fn the_first_request_may_have_a_range_or_a_condition() {
    let origin = Origin::start(|peer, _| {
        peer.send(response("Cache-Control: max-age=600\r\nETag: \"one\"\r\n", "0123456789"))
    });
    let server = start(&origin, "true");
    let part = server.connect().method("GET", "/a", "Range: bytes=2-4\r\n");
    assert_eq!((part.status, part.text()), (206, "234"));
    let same = server.connect().method("GET", "/b", "If-None-Match: \"one\"\r\n");
    assert_eq!(same.status, 304);
    for target in ["/a", "/b"] {
        assert_eq!(server.connect().get(target).text(), "0123456789");
    }
    assert_eq!(origin.count(), 2);
    let conditional = |asked: &crate::support::upstream::Asked| {
        ["range", "if-none-match"].iter().any(|name| asked.field(name).is_some())
    };
    assert!(!origin.seen().iter().any(conditional), "{:?}", origin.seen());
    server.stop();
}

#[test]
fn long_responses_are_given_from_their_files() {
    let body: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
    let sent = body.clone();
    let origin = Origin::start(move |peer, _| peer.send(response("Cache-Control: max-age=600\r\n", &sent)));
    let server = start(&origin, "true");
    for _ in 0..3 {
        assert!(server.connect().get("/long").body == body);
    }
    let part = server.connect().method("GET", "/long", "Range: bytes=2000000-2000099\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &body[2_000_000..2_000_100]));
    let mut connection = h2::Connection::new(server.address);
    let whole = connection.get("/long");
    assert!(whole.body == body);
    assert_eq!(connection.method("HEAD", "/long", &[]).need("content-length"), "3000000");
    assert_eq!(origin.count(), 1);
    server.stop();
}

#[test]
fn both_versions_of_http_share_what_is_kept() {
    let origin = Origin::numbered("Cache-Control: max-age=600\r\nETag: \"one\"\r\n");
    let server = start(&origin, "true");
    let mut connection = h2::Connection::new(server.address);
    let miss = connection.get("/a");
    assert_eq!((miss.status, miss.text()), (200, "/a 1"));
    assert!(miss.need("cache-status").starts_with("maitred; fwd=uri-miss;"));
    let hit = server.connect().get("/a");
    assert_eq!((hit.text(), status(&hit).as_str()), ("/a 1", HIT));
    assert_eq!(server.connect().get("/b").text(), "/b 2");
    for target in ["/a", "/b"] {
        let hit = connection.get(target);
        assert!(hit.need("cache-status").starts_with(HIT) && hit.field("age").is_some(), "{hit:?}");
    }
    let part = connection.method("GET", "/a", &[("range", "bytes=1-1")]);
    assert_eq!((part.status, part.text()), (206, "a"));
    let same = connection.method("GET", "/a", &[("if-none-match", "\"one\"")]);
    assert_eq!((same.status, same.body.len()), (304, 0));
    assert_eq!(origin.count(), 2);
    server.stop();
}

#[test]
fn many_threads_give_the_same() {
    let origin = Origin::numbered("Cache-Control: max-age=600\r\n");
    let server = start(&origin, "true");
    assert_eq!(server.connect().get("/a").text(), "/a 1");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let mut client = server.connect();
                    for _ in 0..10 {
                        assert_eq!(client.get("/a").text(), "/a 1");
                    }
                }
            });
        }
    });
    let status = server.status();
    let threads = status["threads"].as_array().unwrap();
    let hits = threads.iter().map(|thread| thread["response_cache_hits"].as_u64().unwrap());
    assert_eq!(hits.clone().sum::<u64>(), 800, "{hits:?}");
    assert!(hits.filter(|hits| *hits > 0).count() > 1, "only one thread has answered: {status}");
    assert_eq!(origin.count(), 1);
    server.stop();
}

#[test]
fn requests_that_are_pipelined_are_answered_in_their_order() {
    let origin = Origin::numbered("Cache-Control: max-age=600\r\n");
    let server = start(&origin, "true");
    let mut client: Client = server.connect();
    let requests = ["/a", "/b", "/a", "/c", "/b"]
        .map(|target| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    client.send(requests.concat());
    for body in ["/a 1", "/b 2", "/a 1", "/c 3", "/b 2"] {
        assert_eq!(client.response("GET").text(), body);
    }
    server.stop();
}
