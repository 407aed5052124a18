//! What the pool is asked when its response is to be kept: nothing that the key does not have, and nothing that was for this hop.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::cache::origin::{Origin, response};
use crate::cache::{HIT, STORED, start, status};
use crate::support::Server;

const FRESH: &str = "Cache-Control: max-age=600\r\n";

/// Says what it was asked for: the target, and some fields.
fn echo(control: &'static str) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |peer, asked| {
        let number = count.fetch_add(1, SeqCst) + 1;
        let field = |name: &str| asked.field(name).unwrap_or("-").to_owned();
        let body = format!("{} {} {} {number}", asked.target(), field("cookie"), field("x-hop"));
        peer.send(response(control, body))
    })
}

fn get(server: &Server, target: &str, fields: &str) -> String {
    server.connect().method("GET", target, fields).text().to_owned()
}

#[test]
fn what_the_key_leaves_out_does_not_reach_the_pool() {
    for (cache, target, fields, expected) in [
        ("{ query_ignore = [\"utm_*\"] }", "/?utm_x=evil&a=1&utm_y", "", "/?a=1 - - 1"),
        ("{ query_ignore = [\"utm_*\"] }", "/?utm_x=1", "", "/ - - 1"),
        ("{ query_ignore = [\"a b\"] }", "/?a%20b=1&a+b=2&c", "", "/?c - - 1"),
        ("{ query_only = [\"a\"] }", "/?b=1&a=2&a=3&A=4", "", "/?a=2&a=3 - - 1"),
        ("{ query = \"none\" }", "/?a=1", "", "/ - - 1"),
        ("{ query = \"sorted\" }", "/?b=1&a=2", "", "/?a=2&b=1 - - 1"),
        ("{ key_cookies = [\"lang\"] }", "/", "Cookie: sid=ann; lang=de; x=1; lang=fr\r\n", "/ lang=de - 1"),
        ("{ key_cookies = [\"lang\", \"b\"] }", "/", "Cookie: sid=ann\r\n", "/ - - 1"),
        ("true", "/?utm_x=1", "Cookie: sid=ann\r\n", "/?utm_x=1 sid=ann - 1"),
    ] {
        let origin = echo(FRESH);
        let server = start(&origin, cache);
        for _ in 0..2 {
            assert_eq!(get(&server, target, fields), expected, "{cache}");
        }
        assert_eq!(origin.count(), 1);
        server.stop();
    }
}

/// What a route puts into a query is not what the client has sent.
#[test]
fn what_a_route_has_written_stays() {
    let origin = echo(FRESH);
    let server = crate::support::Setup::with_files()
        .route(
            "/*",
            "path_regex = \"^/w/(.*)$\"\nrewrite = \"/index.php?title={capture.1}&{query}\"\npool = \"app\"\n\
             cache = { query_only = [\"page\"] }",
        )
        .table("[cache]\ndirectory = \"store\"\n")
        .table(&format!("[pool.app]\nconnect = [\"{}\"]\n", origin.name()))
        .start();
    assert_eq!(get(&server, "/w/Main?utm=1&page=2", ""), "/index.php?title=Main&page=2 - - 1");
    assert_eq!(get(&server, "/w/Main?page=2&utm=3", ""), "/index.php?title=Main&page=2 - - 1");
    server.stop();
}

/// A client whose response is not kept gets the one to all that it has sent.
#[test]
fn a_response_that_is_not_kept_is_that_to_the_whole_request() {
    let origin = echo("Cache-Control: private\r\n");
    let server = start(&origin, "{ query_ignore = [\"utm_*\"], key_cookies = [\"lang\"] }");
    assert_eq!(get(&server, "/?utm_x=1&a", "Cookie: sid=ann\r\n"), "/?utm_x=1&a sid=ann - 2");
    // The cache knows now that the response is not kept.
    assert_eq!(get(&server, "/?utm_x=1&a", "Cookie: sid=ann\r\n"), "/?utm_x=1&a sid=ann - 3");
    assert_eq!(get(&server, "/b", ""), "/b - - 4", "nothing is left out of it: it is asked for once");
    server.stop();
}

#[test]
fn fields_of_the_hop_end_here_and_are_in_no_key() {
    let origin = echo(FRESH);
    let server = start(&origin, "{ key_headers = [\"X-Hop\"] }");
    let hop = "Connection: close, X-Hop\r\nX-Hop: poison\r\n";
    assert_eq!(get(&server, "/", hop), "/ - - 1");
    assert_eq!(get(&server, "/", "X-Hop: poison\r\n"), "/ - poison 2");
    assert_eq!((get(&server, "/", ""), get(&server, "/", hop)), ("/ - - 1".into(), "/ - - 1".into()));
    server.stop();

    let origin = echo("Cache-Control: max-age=600\r\nVary: X-Hop\r\n");
    let server = start(&origin, "true");
    assert_eq!(get(&server, "/", hop), "/ - - 1");
    assert_eq!(get(&server, "/", "X-Hop: poison\r\n"), "/ - poison 2");
    assert_eq!(get(&server, "/", ""), "/ - - 1");
    server.stop();
}

/// To an application that follows them, these requests are of another method.
#[test]
fn what_stands_for_another_method_is_neither_kept_nor_answered_from_what_is() {
    for field in [
        "X-HTTP-Method-Override: POST",
        "x-http-method: DELETE",
        "X-Method-Override: GET",
        "X-HTTP-Method-Override: post",
    ] {
        let fields = format!("{field}\r\n");
        let origin = echo(FRESH);
        let server = start(&origin, "true");
        assert_eq!(
            (get(&server, "/", &fields), get(&server, "/", &fields)),
            ("/ - - 1".into(), "/ - - 2".into())
        );
        let stored = server.connect().get("/");
        assert_eq!((stored.text(), status(&stored).as_str()), ("/ - - 3", STORED), "{field}");
        assert_eq!(get(&server, "/", &fields), "/ - - 4");
        // A method that is not safe makes what is kept invalid, however it is named.
        let hit = status(&server.connect().get("/")) == HIT;
        assert_eq!(hit, field.ends_with("GET"), "{field}");
        server.stop();
    }
}

#[test]
fn the_pool_gets_the_spelling_of_the_host_that_the_key_has() {
    for host in ["A.test", "a.TEST:80", "a.test:", "a.test"] {
        let origin = Origin::start(|peer, asked| {
            let told = |name: &str| asked.field(name).unwrap_or("-").to_owned();
            peer.send(response(FRESH, format!("{} {}", told("host"), told("x-forwarded-host"))))
        });
        let server = start(&origin, "true");
        let get = |host: &str| {
            let response = server.connect().ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            response.text().to_owned()
        };
        assert_eq!((get(host), get("a.test")), ("a.test a.test".into(), "a.test a.test".into()), "{host}");
        assert_eq!(get("a.test:8080"), "a.test:8080 a.test:8080", "another port is another site");
        assert_eq!(origin.count(), 2);
        server.stop();
    }
}
