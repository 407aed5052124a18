//! What else a route does applies to what is kept: compression, fields of its own. What is one client's is not given to others.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::cache::origin::{Origin, response};
use crate::cache::{HIT, start, status};
use crate::support::{Response, Server, Setup, eventually};

/// `rules` are further lines of the route.
fn with_rules(origin: &Origin, rules: &str) -> Server {
    Setup::with_files()
        .route("/*", &format!("pool = \"app\"\ncache = true\n{rules}"))
        .table("[cache]\ndirectory = \"store\"\n")
        .table(&format!("[pool.app]\nconnect = [\"{}\"]\n", origin.name()))
        .start()
}

/// What a pool compresses itself varies with `Accept-Encoding`.
#[test]
fn what_the_pool_compresses_is_kept_as_it_is() {
    let origin = Origin::start(move |peer, asked| {
        let fields = "Cache-Control: max-age=600\r\nContent-Type: text/html\r\nVary: Accept-Encoding\r\n";
        match asked.field("accept-encoding") {
            Some("gzip") => peer.send(response(&format!("{fields}Content-Encoding: gzip\r\n"), "zipped")),
            _ => peer.send(response(fields, "plain")),
        }
    });
    let server = with_rules(&origin, "compress = true");
    for _ in 0..3 {
        let zipped = server.connect().method("GET", "/page", "Accept-Encoding: gzip\r\n");
        assert_eq!((zipped.field("content-encoding"), zipped.text()), (Some("gzip"), "zipped"));
        let plain = server.connect().get("/page");
        assert_eq!((plain.field("content-encoding"), plain.text()), (None, "plain"));
    }
    let hit = server.connect().method("GET", "/page", "Accept-Encoding: gzip\r\n");
    assert_eq!((status(&hit).as_str(), origin.count()), (HIT, 2));
    server.stop();
}

/// What is short is coded at the first hit, what is long by a helper thread; ranges are those of the plain content.
#[test]
fn what_is_kept_is_given_in_codings() {
    for bytes in [5_000, 200_000] {
        let text: String = "The same words again. ".chars().cycle().take(bytes).collect();
        let sent = text.clone();
        let fields = "Cache-Control: max-age=600\r\nContent-Type: text/html\r\nETag: \"a\"\r\n";
        let origin = Origin::start(move |peer, _| peer.send(response(fields, sent.as_str())));
        let server = with_rules(&origin, "compress = true");
        let get = |accepted: &str| {
            server.connect().method("GET", "/page", &format!("Accept-Encoding: {accepted}\r\n"))
        };
        assert_eq!(get("identity").text(), text);
        for coding in ["gzip", "zstd", "br"] {
            let coded = || {
                let hit = get(coding);
                assert_eq!((status(&hit).as_str(), hit.need("vary")), (HIT, "Accept-Encoding"));
                hit.field("content-encoding").is_some_and(|field| field == coding).then_some(hit)
            };
            let mut found = None;
            eventually("the coding is there", || {
                found = coded();
                found.is_some()
            });
            let hit = found.unwrap();
            assert!(hit.body.len() < bytes / 10 && hit.need("etag") == "W/\"a\"", "{coding}");
        }
        let part = server.connect().method("GET", "/page", "Accept-Encoding: gzip\r\nRange: bytes=1-3\r\n");
        assert_eq!((part.status, part.text(), part.field("content-encoding")), (206, "he ", None));
        assert_eq!((get("identity").text(), origin.count()), (text.as_str(), 1));
        server.stop();
    }
}

/// Whether all of it comes in one piece with its head depends on time.
#[test]
fn the_request_that_fetches_a_response_gets_it_as_without_a_cache() {
    // What no coding makes shorter.
    let mut number = 1_u32;
    let mut next = || {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (number >> 24) as u8
    };
    let content: Vec<u8> = (0..2_000).map(|_| next()).collect();
    let fields = "Cache-Control: max-age=600\r\nContent-Type: text/html\r\nCache-Status: inner; hit\r\n";
    let origin = Origin::start(move |peer, _| peer.send(response(fields, &content)));
    let cached = with_rules(&origin, "compress = true");
    let plain = Setup::with_files()
        .route("/*", "pool = \"app\"\ncompress = true")
        .table(&format!("[pool.app]\nconnect = [\"{}\"]\n", origin.name()))
        .start();
    for number in 0..20 {
        for fields in ["Accept-Encoding: gzip\r\n", "Range: bytes=1-3\r\n"] {
            let target = format!("/{number}{}", fields.len());
            let [kept, without] =
                [&cached, &plain].map(|server| server.connect().method("GET", &target, fields));
            let coding = |response: &Response| response.field("content-encoding").map(str::to_owned);
            assert_eq!(coding(&kept), coding(&without), "{target}: {kept:?}");
            if fields.contains("gzip") {
                assert_eq!(coding(&kept).as_deref(), Some("gzip"));
            }
            let status = kept.need("cache-status");
            assert!(status.starts_with("inner; hit, maitred; fwd=uri-miss"), "{status}");
        }
    }
    cached.stop();
    plain.stop();
}

#[test]
fn fields_of_the_route_are_on_hits_as_on_misses() {
    let origin = Origin::numbered("Cache-Control: max-age=600\r\nX-Drop: 1\r\n");
    let rules = "cors = { origins = [\"https://a.example\"] }\n\
                 response_headers = { set = { X-Set = \"2\" }, remove = [\"X-Drop\"] }";
    let server = with_rules(&origin, rules);
    for _ in 0..3 {
        let other = server.connect().method("GET", "/a", "Origin: https://b.example\r\n");
        assert_eq!(other.field("access-control-allow-origin"), None);
        let own = server.connect().method("GET", "/a", "Origin: https://a.example\r\n");
        assert_eq!(own.need("access-control-allow-origin"), "https://a.example");
        for response in [&other, &own] {
            assert_eq!((response.text(), response.need("x-set")), ("/a 1", "2"));
            assert_eq!(response.field("x-drop"), None);
        }
    }
    assert_eq!(origin.count(), 1);
    server.stop();
}

#[test]
fn expires_is_for_clients_and_not_for_the_store() {
    let origin = Origin::numbered("CDN-Cache-Control: max-age=600\r\n");
    let server = with_rules(&origin, "expires = \"1h\"");
    for _ in 0..3 {
        let response = server.connect().get("/a");
        assert_eq!((response.text(), response.need("cache-control")), ("/a 1", "max-age=3600"));
    }
    let none = Origin::numbered("");
    let server = with_rules(&none, "expires = \"1h\"");
    assert_eq!((server.connect().get("/a").text(), server.connect().get("/a").text()), ("/a 1", "/a 2"));
    server.stop();
}

#[test]
fn what_is_for_one_client_is_not_given_to_others() {
    for fields in [
        "Cache-Control: private, max-age=600\r\n",
        "Cache-Control: no-store\r\n",
        "Cache-Control: max-age=600\r\nSet-Cookie: session=secret\r\n",
        "Content-Type: text/plain\r\n",
    ] {
        let origin = Origin::numbered(fields);
        let server = start(&origin, "true");
        for number in 1..=3 {
            assert_eq!(server.connect().get("/a").text(), format!("/a {number}"), "{fields:?}");
        }
        server.stop();
    }
}

#[test]
fn what_was_asked_for_with_authorization_is_for_one_client() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |peer, asked| {
        let number = count.fetch_add(1, SeqCst) + 1;
        let control = if asked.target() == "/public" { "public, max-age=600" } else { "max-age=600" };
        let user = asked.field("authorization").unwrap_or("none");
        peer.send(response(&format!("Cache-Control: {control}\r\n"), format!("{user} {number}")))
    });
    let server = start(&origin, "true");
    let get = |target: &str, user: &str| {
        let field = if user.is_empty() { String::new() } else { format!("Authorization: {user}\r\n") };
        server.connect().method("GET", target, &field).text().to_owned()
    };
    assert_eq!(
        (get("/own", "Bearer ann"), get("/own", "Bearer bob")),
        ("Bearer ann 1".into(), "Bearer bob 2".into())
    );
    assert_eq!((get("/own", ""), get("/own", "")), ("none 3".into(), "none 3".into()));
    assert_eq!(
        (get("/public", "Bearer ann"), get("/public", "")),
        ("Bearer ann 4".into(), "Bearer ann 4".into())
    );
    server.stop();
}

#[test]
fn cookies_are_kept_if_the_rules_say_so() {
    let origin = Origin::numbered("Cache-Control: max-age=600\r\nSet-Cookie: a=b\r\n");
    let server = start(&origin, "{ set_cookie = true }");
    for _ in 0..2 {
        let response = server.connect().get("/a");
        assert_eq!((response.text(), response.need("set-cookie")), ("/a 1", "a=b"));
    }
    server.stop();
}

#[test]
fn cache_status_can_be_left_out() {
    let origin = Origin::numbered("Cache-Control: max-age=600\r\nCache-Status: inner; hit\r\n");
    let server = start(&origin, "{ cache_status = false }");
    for _ in 0..2 {
        let response = server.connect().get("/a");
        assert_eq!((response.text(), response.need("cache-status")), ("/a 1", "inner; hit"));
    }
    let server = start(&origin, "true");
    server.connect().get("/a");
    let said = server.connect().get("/a").need("cache-status").to_owned();
    assert!(said.starts_with("inner; hit, maitred; hit; ttl="), "{said}");
    server.stop();
}
