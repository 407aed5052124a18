//! What is stale: given while it is fetched anew or the pool fails, validated, or not given at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::cache::origin::{Origin, Steps, response};
use crate::cache::{HIT, start, status};
use crate::support::eventually;

const ERROR: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\ndown";

/// The first response has these fields; the later ones are errors while `fails` says so, and fresh otherwise.
fn failing_after_first(fields: &'static str, fails: &Arc<AtomicBool>) -> Origin {
    let (count, fails) = (AtomicUsize::new(0), Arc::clone(fails));
    Origin::start(move |peer, _| match count.fetch_add(1, SeqCst) {
        0 => peer.send(response(fields, "old")),
        _ if fails.load(SeqCst) => peer.send(ERROR),
        _ => peer.send(response("Cache-Control: max-age=600\r\n", "new")),
    })
}

#[test]
fn what_is_stale_is_given_at_once_and_fetched_once() {
    let steps = Steps::default();
    let (allowed, count) = (steps.clone(), AtomicUsize::new(0));
    let origin = Origin::start(move |peer, _| {
        if count.fetch_add(1, SeqCst) == 0 {
            let fields = "Cache-Control: max-age=10, stale-while-revalidate=1000\r\nAge: 20\r\n";
            return peer.send(response(fields, "old"));
        }
        allowed.wait_for(1)?;
        peer.send(response("Cache-Control: max-age=600\r\n", "new"))
    });
    let server = start(&origin, "true");
    assert_eq!(server.connect().get("/a").text(), "old");
    // The pool does not answer before all of these have.
    for _ in 0..50 {
        let stale = server.connect().get("/a");
        assert_eq!((stale.text(), status(&stale).as_str()), ("old", HIT));
        assert!(stale.need("age").parse::<u32>().unwrap() >= 20);
        assert!(stale.need("cache-status").contains("ttl=-"), "{stale:?}");
    }
    eventually("it is fetched anew", || origin.count() == 2);
    steps.allow();
    eventually("it is kept", || server.total("response_cache_stored") == 2);
    let fresh = server.connect().get("/a");
    assert_eq!((fresh.text(), status(&fresh).as_str(), origin.count()), ("new", HIT, 2));
    server.stop();
}

#[test]
fn attempts_that_fail_are_further_and_further_apart() {
    let fails = Arc::new(AtomicBool::new(true));
    let fields = "Cache-Control: max-age=10, stale-while-revalidate=1000\r\nAge: 20\r\n";
    let origin = failing_after_first(fields, &fails);
    let server = start(&origin, "true");
    let mut client = server.connect();
    assert_eq!(client.get("/a").text(), "old");
    let begin = Instant::now();
    eventually("it was tried three times", || {
        assert_eq!(client.get("/a").text(), "old");
        origin.count() == 4
    });
    assert!(begin.elapsed() >= Duration::from_secs(3), "{:?}", begin.elapsed());
    fails.store(false, SeqCst);
    eventually("it is fetched in the end", || client.get("/a").text() == "new");
    assert_eq!(origin.count(), 5);
    server.stop();
}

#[test]
fn what_is_stale_is_given_in_place_of_errors() {
    let fails = Arc::new(AtomicBool::new(true));
    let origin = failing_after_first("Cache-Control: max-age=10, stale-if-error=1000\r\nAge: 20\r\n", &fails);
    let server = start(&origin, "true");
    assert_eq!(server.connect().get("/a").text(), "old");
    // The first attempt is within this time, so that the seconds are those between attempts.
    let begin = Instant::now();
    let instead = server.connect().get("/a");
    assert_eq!((instead.status, instead.text()), (200, "old"));
    assert!(instead.need("cache-status").contains("the pool has failed"), "{instead:?}");
    // The pool does not fail with each client while it is down.
    for _ in 0..50 {
        assert_eq!(server.connect().get("/a").text(), "old");
    }
    let attempts = origin.count() - 1;
    assert!(attempts <= 1 + begin.elapsed().as_secs() as usize, "{attempts} in {:?}", begin.elapsed());
    fails.store(false, SeqCst);
    eventually("the pool is asked again", || server.connect().get("/a").text() == "new");
    server.stop();
}

#[test]
fn what_is_stale_is_given_when_the_pool_is_gone() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |peer, _| {
        if count.fetch_add(1, SeqCst) > 0 {
            return Err(std::io::ErrorKind::ConnectionAborted.into());
        }
        peer.send(response("Cache-Control: max-age=10, stale-if-error=1000\r\nAge: 20\r\n", "old"))
    });
    let server = start(&origin, "true");
    for _ in 0..3 {
        let given = server.connect().get("/a");
        assert_eq!((given.status, given.text()), (200, "old"));
    }
    server.stop();
}

#[test]
fn what_must_be_validated_is_never_given_stale() {
    for control in ["max-age=10, must-revalidate", "max-age=10, proxy-revalidate", "s-maxage=10"] {
        let count = AtomicUsize::new(0);
        let origin = Origin::start(move |peer, _| match count.fetch_add(1, SeqCst) {
            0 => {
                let fields = format!("Cache-Control: {control}\r\nETag: \"one\"\r\nAge: 20\r\n");
                peer.send(response(&fields, "old"))
            }
            _ => peer.send(ERROR),
        });
        let rules = "{ stale_while_revalidate = \"1h\", stale_if_error = \"1h\" }";
        let server = start(&origin, rules);
        assert_eq!(server.connect().get("/a").text(), "old");
        for fields in ["", "Cache-Control: max-stale=10000\r\n", "Cache-Control: stale-if-error=1000\r\n"] {
            let error = server.connect().method("GET", "/a", fields);
            assert_eq!((error.status, error.text()), (503, "down"), "{control}; {fields:?}");
        }
        assert_eq!(origin.count(), 4);
        assert_eq!(origin.seen()[1].field("if-none-match"), Some("\"one\""));
        server.stop();
    }
}

#[test]
fn what_was_validated_is_kept_for_longer() {
    let steps = Steps::default();
    let (allowed, count) = (steps.clone(), AtomicUsize::new(0));
    let origin = Origin::start(move |peer, asked| {
        if count.fetch_add(1, SeqCst) == 0 {
            let fields = "Cache-Control: max-age=10\r\nAge: 20\r\nETag: \"one\"\r\nX-Old: 1\r\n";
            return peer.send(response(fields, "body"));
        }
        allowed.wait_for(1)?;
        assert_eq!(asked.field("if-none-match"), Some("\"one\""));
        peer.send(
            "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\nETag: \"one\"\r\nX-New: 2\r\n\r\n",
        )
    });
    let server = start(&origin, "{ collapse_timeout = \"1h\" }");
    assert_eq!(server.connect().get("/a").text(), "body");
    let mut clients: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    eventually("requests wait for one of them", || server.total("response_cache_collapsed") == 9);
    steps.allow();
    for client in &mut clients {
        let validated = client.response("GET");
        assert_eq!((validated.status, validated.text()), (200, "body"));
        assert!(status(&validated).starts_with("maitred; fwd=stale; fwd-status=304"), "{validated:?}");
        assert_eq!((validated.need("x-old"), validated.need("x-new")), ("1", "2"));
    }
    assert_eq!((origin.count(), server.total("response_cache_validated")), (2, 1));
    let hit = server.connect().get("/a");
    assert_eq!((hit.text(), hit.need("x-new"), status(&hit).as_str()), ("body", "2", HIT));
    assert_eq!(origin.count(), 2);
    server.stop();
}

#[test]
fn what_has_changed_replaces_what_is_kept() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |peer, _| match count.fetch_add(1, SeqCst) {
        0 => peer.send(response("Cache-Control: no-cache\r\nETag: \"one\"\r\n", "old")),
        1 => peer.send("HTTP/1.1 304 Not Modified\r\nETag: \"one\"\r\n\r\n"),
        _ => peer.send(response("Cache-Control: max-age=600\r\nETag: \"two\"\r\n", "new")),
    });
    let server = start(&origin, "true");
    let said: Vec<_> = (0..4).map(|_| server.connect().get("/a").text().to_owned()).collect();
    assert_eq!(said, ["old", "old", "new", "new"]);
    let conditions: Vec<_> =
        origin.seen().iter().map(|asked| asked.field("if-none-match").map(str::to_owned)).collect();
    let one = Some("\"one\"".to_owned());
    assert_eq!(conditions, [None, one.clone(), one]);
    server.stop();
}

#[test]
fn micro_keeps_pages_that_say_nothing_for_a_second() {
    let origin = Origin::numbered("");
    let server = start(&origin, "\"micro\"");
    let begin = Instant::now();
    assert_eq!(server.connect().get("/a").text(), "/a 1");
    for _ in 0..50 {
        let page = server.connect().method("GET", "/a", "Cache-Control: no-cache\r\n");
        assert!(status(&page).starts_with(HIT), "{page:?}");
    }
    // As many fetches as seconds have passed, and one that may be under way.
    let seconds = begin.elapsed().as_secs() as usize;
    assert!(origin.count() <= seconds + 2, "{} in {seconds} s", origin.count());
    eventually("it is fetched anew", || {
        server.connect().get("/a");
        origin.count() >= 2
    });
    eventually("what is new is given", || server.connect().get("/a").text() != "/a 1");
    let cookie = Origin::numbered("Set-Cookie: a=b\r\n");
    let server = start(&cookie, "\"micro\"");
    assert_eq!((server.connect().get("/").text(), server.connect().get("/").text()), ("/ 1", "/ 2"));
    server.stop();
}
