//! Commands about responses that are kept: purges, and what is kept for a URL.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use serde_json::Value;

use crate::proxy::setup;
use crate::support::upstream::{Peer, Upstream};
use crate::support::{Server, eventually};

/// An application that numbers its responses, so that a kept one is seen to be one.
fn counting() -> (Upstream, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let upstream = Upstream::start(move |peer: &mut Peer| {
        loop {
            let asked = peer.request()?;
            let number = counted.fetch_add(1, SeqCst) + 1;
            let target = asked.target().to_owned();
            if asked.field("if-none-match").is_some() {
                peer.send("HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nCache-Control: max-age=600\r\n\r\n")?;
                continue;
            }
            let fields = match target.as_str() {
                "/private" => "Cache-Control: private",
                "/tagged" => "Cache-Control: max-age=600\r\nSurrogate-Key: news sport",
                "/varies" => "Cache-Control: max-age=600\r\nVary: Accept-Language",
                "/stale" => "Cache-Control: max-age=600, stale-while-revalidate=600\r\nETag: \"1\"",
                _ => "Cache-Control: max-age=600",
            };
            let body = number.to_string();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ))?;
        }
    });
    (upstream, count)
}

fn start(upstream: &Upstream) -> Server {
    let directory = tempfile::tempdir().unwrap().keep();
    setup(&[upstream], "")
        .site("cache = true")
        .table(&format!("[cache]\ndirectory = \"{}\"\n", directory.display()))
        .start()
}

fn get(server: &Server, host: &str, target: &str, fields: &str) -> String {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
    let response = server.connect().ask(request);
    assert_eq!(response.status, 200, "{}", response.text());
    response.text().to_owned()
}

/// The answer of the admin address, as JSON.
fn ask(server: &Server, method: &str, target: &str) -> Value {
    let answer = server.admin(&format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_str(answer.text()).unwrap()
}

fn purge(server: &Server, query: &str) -> u64 {
    ask(server, "POST", &format!("/cache/purge?{query}"))["files"].as_u64().unwrap()
}

/// What is known of a URL that has one key.
fn show(server: &Server, query: &str) -> Value {
    let answer = ask(server, "GET", &format!("/cache?url={query}"));
    let keys = answer["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 1, "{answer}");
    keys[0].clone()
}

/// Waits until so many files are written: only these are counted.
fn written(server: &Server, files: u64) {
    eventually("files are written", || server.status()["cache"]["writes"].as_u64() >= Some(files));
}

#[test]
fn what_was_purged_is_fetched_again() {
    let (upstream, _) = counting();
    let server = start(&upstream);
    let all =
        || [("a.example", "/x/1"), ("a.example", "/x/2"), ("b.example", "/x/1"), ("a.example", "/tagged")];
    let look = || all().map(|(host, target)| get(&server, host, target, "").parse::<u32>().unwrap());
    let first = look();
    assert_eq!(first, [1, 2, 3, 4]);
    assert_eq!(look(), first);
    written(&server, 4);
    assert_eq!(purge(&server, "url=http://A.example:80/x/%31"), 1);
    assert_eq!(look(), [5, 2, 3, 4]);
    written(&server, 5);
    assert_eq!(purge(&server, "prefix=http://a.example/x/"), 2);
    assert_eq!(look(), [6, 7, 3, 4]);
    written(&server, 7);
    assert_eq!(purge(&server, "host=B.example"), 1);
    assert_eq!(look(), [6, 7, 8, 4]);
    written(&server, 8);
    assert_eq!(purge(&server, "tag=sport"), 1);
    assert_eq!(purge(&server, "tag=sports"), 0);
    assert_eq!(look(), [6, 7, 8, 9]);
    written(&server, 9);
    assert_eq!(purge(&server, "all"), 4);
    assert_eq!(look(), [10, 11, 12, 13]);
    written(&server, 13);
    let cache = &server.status()["cache"];
    assert_eq!((&cache["entries"], &cache["purged"], &cache["off"]), (&4.into(), &9.into(), &false.into()));
    server.stop();
}

#[test]
fn a_soft_purge_leaves_what_is_stale() {
    let (upstream, count) = counting();
    let server = start(&upstream);
    assert_eq!(get(&server, "a", "/stale", ""), "1");
    written(&server, 1);
    assert_eq!(show(&server, "http://a/stale")["state"], "fresh");
    assert_eq!(purge(&server, "url=http://a/stale&soft"), 1);
    let shown = show(&server, "http://a/stale");
    assert_eq!((&shown["state"], &shown["soft_purged"]), (&"stale".into(), &true.into()));
    // The response is not given before the application was asked about it, and need not be fetched.
    assert_eq!(get(&server, "a", "/stale", ""), "1");
    assert_eq!(count.load(SeqCst), 2);
    assert_eq!(show(&server, "http://a/stale")["state"], "fresh");
    assert_eq!((get(&server, "a", "/stale", "").as_str(), count.load(SeqCst)), ("1", 2));
    server.stop();
}

#[test]
fn what_is_kept_for_a_url_is_shown() {
    let (upstream, _) = counting();
    let server = start(&upstream);
    assert_eq!(show(&server, "http://a/tagged")["state"], "nothing");
    get(&server, "a", "/tagged", "");
    let shown = show(&server, "http://a/tagged");
    assert_eq!(
        (&shown["state"], &shown["status"], &shown["bytes"]),
        (&"fresh".into(), &200.into(), &1.into())
    );
    assert!(shown["ttl"].as_u64() > Some(500) && shown["age"].as_u64() < Some(100), "{shown}");
    assert_eq!(shown["tags"], serde_json::json!(["news", "sport"]));
    get(&server, "a", "/private", "");
    let shown = show(&server, "http://a/private");
    assert_eq!((&shown["state"], &shown["why"]), (&"not kept".into(), &"the response says private".into()));
    get(&server, "a", "/varies", "Accept-Language: de\r\n");
    let shown = show(&server, "http://a/varies");
    assert_eq!((&shown["state"], &shown["varies"][0]), (&"nothing".into(), &"accept-language".into()));
    assert_eq!(show(&server, "http://a/varies&field=Accept-Language:+de")["state"], "fresh");
    assert_eq!(get(&server, "a", "/varies", "Accept-Language: de\r\n"), "3");
    purge(&server, "url=http://a/varies");
    assert_eq!(
        get(&server, "a", "/varies", "Accept-Language: de\r\n"),
        "4",
        "a note takes its variants along"
    );
    let (status, text) = server.command(&["cache", "show", "http://a/tagged"]);
    assert!(
        status.success() && text.contains("fresh for another") && text.contains("tags: news, sport"),
        "{text}"
    );
    written(&server, 2);
    let (status, text) = server.command(&["cache", "purge", "http://a/tagged", "--tag", "none"]);
    assert!(status.success(), "{text}");
    assert_eq!(text.trim_end(), "purged; files that were removed: 1");
    assert_eq!(show(&server, "http://a/tagged")["state"], "nothing");
    let (status, text) = server.command(&["status"]);
    assert!(status.success() && text.contains("\ncache       "), "{text}");
    server.stop();
}

#[test]
fn commands_that_cannot_be_carried_out_say_why() {
    let (upstream, _) = counting();
    let server = start(&upstream);
    let ask = |server: &Server, request: &str| {
        let answer = server.admin(&format!("{request} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        (answer.status, answer.text().to_owned())
    };
    for (request, status, expected) in [
        ("POST /cache/purge?url=/a", 400, "begins with `http://` or `https://`"),
        ("POST /cache/purge?host=http://a", 400, "such as example.com or example.com:8080"),
        ("POST /cache/purge", 400, "`url`, `prefix`, `host`, `tag` or `all`"),
        ("GET /cache?url=http://a/&field=x", 400, "`Accept-Language: de`"),
        ("GET /cache/purge?all", 405, ""),
        ("POST /cache?url=http://a/", 405, ""),
    ] {
        let (found, text) = ask(&server, request);
        assert!(found == status && text.contains(expected), "{request}: {found} {text}");
    }
    server.stop();
    let server = setup(&[&upstream], "").start();
    for request in ["POST /cache/purge?all", "GET /cache?url=http://a/"] {
        let (status, text) = ask(&server, request);
        assert!(
            status == 409 && text.contains("`cache` of a site or a route turns that on"),
            "{status} {text}"
        );
    }
    assert!(server.status()["cache"].is_null());
    server.stop();
}

#[test]
fn the_access_log_says_what_the_cache_did() {
    let (upstream, _) = counting();
    let directory = tempfile::tempdir().unwrap();
    let server = setup(&[&upstream], "")
        .site("cache = true")
        .site("access_log = \"cache\"")
        .table("[access_log.cache]\nto = \"cache.log\"\nformat = \"{target} {cache}\"\n")
        .table(&format!("[cache]\ndirectory = \"{}\"\n", directory.path().display()))
        .start();
    for target in ["/x", "/x", "/a.txt", "/stale"] {
        server.connect().get(target);
    }
    assert_eq!(server.connect().method("POST", "/y", "Content-Length: 0\r\n").status, 200);
    ask(&server, "POST", "/cache/purge?all&soft");
    server.connect().get("/stale");
    let expected = "/x miss\n/x hit\n/a.txt -\n/stale miss\n/y bypass\n/stale validated\n";
    let path = server.path("cache.log");
    eventually("lines are written", || std::fs::read_to_string(&path).unwrap_or_default() == expected);
    server.stop();
}
