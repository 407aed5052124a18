//! A purge is about everything that was asked for before it: what is being stored at that moment, too, by whichever process.

use crate::cache::lasting::{LONG, in_two, reload};
use crate::cache::origin::{Origin, Steps, response};
use crate::cache::{HIT, setup, start, status};
use crate::support::{Client, Server, eventually};

fn purge(server: &Server, query: &str) {
    let answer = server.admin(&format!("POST /cache/purge?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// A client that has the first half of a response that is being stored.
fn half(server: &Server) -> Client {
    let mut client = server.connect();
    client.send("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.head().unwrap();
    assert!(client.exactly(LONG).unwrap() == vec![b'x'; LONG]);
    client
}

/// The next response is fetched, and kept again.
fn is_fetched_anew(server: &Server, origin: &Origin) {
    let before = origin.count();
    assert_eq!(server.connect().get("/long").body.len(), 2 * LONG);
    assert_eq!(origin.count(), before + 1, "it was purged");
    let hit = server.connect().get("/long");
    assert_eq!((hit.body.len(), status(&hit).as_str(), origin.count()), (2 * LONG, HIT, before + 1));
}

#[test]
fn what_is_being_stored_is_purged_too() {
    for query in ["all", "url=http://localhost/long", "prefix=http://localhost/", "host=localhost"] {
        let steps = Steps::default();
        let origin = in_two(&steps);
        let server = start(&origin, "true");
        let mut client = half(&server);
        purge(&server, query);
        // The client that has begun to read it gets the rest.
        steps.allow();
        assert!(client.exactly(LONG).unwrap() == vec![b'x'; LONG]);
        is_fetched_anew(&server, &origin);
        server.stop();
    }
}

#[test]
fn what_the_process_before_is_storing_is_purged_too() {
    let steps = Steps::default();
    let origin = in_two(&steps);
    let server = setup(&origin, "true").start();
    let mut client = half(&server);
    reload(&server, 2);
    purge(&server, "prefix=http://localhost/");
    steps.allow();
    assert!(client.exactly(LONG).unwrap() == vec![b'x'; LONG]);
    is_fetched_anew(&server, &origin);
    server.stop();
}

/// More purges than are remembered, while one response is being stored: it counts as purged.
#[test]
fn what_was_asked_for_before_more_purges_than_are_remembered_is_not_kept() {
    let steps = Steps::default();
    let origin = in_two(&steps);
    let server = start(&origin, "true");
    let mut client = half(&server);
    for number in 0..130 {
        purge(&server, &format!("prefix=http://other/{number}/"));
    }
    steps.allow();
    assert!(client.exactly(LONG).unwrap() == vec![b'x'; LONG]);
    is_fetched_anew(&server, &origin);
    server.stop();
}

#[test]
fn the_access_log_says_who_waited_and_what_was_stale() {
    let steps = Steps::default();
    let allowed = steps.clone();
    let origin = Origin::start(move |peer, asked| {
        if asked.target() == "/cold" {
            allowed.wait_for(1)?;
        }
        let fields = "Cache-Control: max-age=10, stale-while-revalidate=1000\r\nAge: 20\r\n";
        peer.send(response(fields, "old"))
    });
    let server = setup(&origin, "{ collapse_timeout = \"1h\" }")
        .site("access_log = \"cache\"")
        .table("[access_log.cache]\nto = \"cache.log\"\nformat = \"{target} {cache}\"\n")
        .start();
    let mut clients: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /cold HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    eventually("one waits for the other", || server.total("response_cache_collapsed") == 1);
    steps.allow();
    for client in &mut clients {
        assert_eq!(client.response("GET").text(), "old");
    }
    assert_eq!(server.connect().get("/cold").text(), "old");
    let path = server.path("cache.log");
    let lines = || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    eventually("lines are written", || lines() == ["/cold collapsed", "/cold miss", "/cold stale"]);
    server.stop();
}
