//! Which requests are for the same response: by site, query, fields and cookies.

use crate::cache::origin::Origin;
use crate::cache::start;
use crate::support::{Client, Setup};

const FRESH: &str = "Cache-Control: max-age=600\r\n";

/// Asks for each of these, which have to be given what the request of this number was.
#[track_caller]
fn ask(cache: &str, cases: &[(&str, &str, usize)]) {
    let origin = Origin::numbered(FRESH);
    let server = start(&origin, cache);
    for (target, fields, number) in cases {
        let response = server.connect().method("GET", target, fields);
        let said = response.text().rsplit(' ').next().unwrap().parse::<usize>().unwrap();
        assert_eq!(said, *number, "{cache}: {target} {fields:?}");
    }
    assert_eq!(origin.count(), cases.iter().map(|case| case.2).max().unwrap());
    server.stop();
}

#[test]
fn queries_distinguish_as_the_rules_say() {
    ask(
        "true",
        &[("/?a=1&b=2", "", 1), ("/?b=2&a=1", "", 2), ("/?a=1&b=2", "", 1), ("/", "", 3), ("/?", "", 4)],
    );
    ask("{ query = \"sorted\" }", &[("/?a=1&b=2", "", 1), ("/?b=2&a=1", "", 1), ("/?b=1&a=2", "", 2)]);
    ask("{ query = \"none\" }", &[("/x?a=1", "", 1), ("/x?b", "", 1), ("/x", "", 1), ("/y?a=1", "", 2)]);
    let ignored = "{ query_ignore = [\"utm_*\", \"id\"] }";
    let cases = [("/?a=1", "", 1), ("/?utm_x=9&a=1", "", 1), ("/?a=1&id=3", "", 1), ("/?a=2&id=3", "", 2)];
    ask(ignored, &cases);
    ask(ignored, &[("/?idx=1", "", 1), ("/?idx=2", "", 2), ("/?id=2&idx=2", "", 2)]);
    let only = "{ query_only = [\"page\"] }";
    ask(only, &[("/?page=1&a=1", "", 1), ("/?a=2&page=1", "", 1), ("/?page=2", "", 2), ("/?a=3", "", 3)]);
}

#[test]
fn fields_and_cookies_distinguish_if_they_are_named() {
    let by_field = "{ key_headers = [\"X-Shop\"] }";
    let cases = [
        ("/", "X-Shop: a\r\n", 1),
        ("/", "X-Shop: b\r\n", 2),
        ("/", "x-shop: a\r\nX-Other: c\r\n", 1),
        ("/", "", 3),
        ("/", "X-Other: a\r\n", 3),
    ];
    ask(by_field, &cases);
    let by_cookie = "{ key_cookies = [\"lang\"] }";
    let cases = [
        ("/", "Cookie: lang=de\r\n", 1),
        ("/", "Cookie: a=b; lang=de; c=d\r\n", 1),
        ("/", "Cookie: a=b; lang=fr\r\n", 2),
        ("/", "Cookie: xlang=de\r\n", 3),
        ("/", "", 3),
    ];
    ask(by_cookie, &cases);
    ask("true", &[("/", "Cookie: a=b\r\n", 1), ("/", "Cookie: c=d\r\n", 1), ("/", "X-Any: 1\r\n", 1)]);
}

#[test]
fn sites_and_hosts_do_not_mix() {
    let (one, two) =
        (Origin::numbered(FRESH), Origin::numbered("Cache-Control: max-age=600\r\nX-Two: 2\r\n"));
    let server = Setup::with_files()
        .site("hosts = [\"one.example\", \"alias.example\"]\ncache = true")
        .route("/*", "pool = \"one\"")
        .table("[[site]]\nhosts = [\"two.example\"]\ncache = true")
        .route("/*", "pool = \"two\"")
        .table("[cache]\ndirectory = \"store\"\n")
        .table(&format!(
            "[pool.one]\nconnect = [\"{}\"]\n[pool.two]\nconnect = [\"{}\"]\n",
            one.name(),
            two.name()
        ))
        .start();
    let get = |host: &str| server.connect().ask(format!("GET /same HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    for _ in 0..2 {
        assert_eq!(get("one.example").field("x-two"), None);
        assert_eq!(get("two.example").need("x-two"), "2");
        assert_eq!(get("alias.example").text(), "/same 2", "a host of its own may have content of its own");
        assert_eq!(get("ONE.example").text(), "/same 1");
    }
    assert_eq!((one.count(), two.count()), (2, 1));
    server.stop();
}

#[test]
fn a_route_without_a_cache_keeps_nothing() {
    let origin = Origin::numbered(FRESH);
    let server = Setup::with_files()
        .site("cache = true")
        .route("/live/*", "pool = \"app\"\ncache = false")
        .route("/*", "pool = \"app\"")
        .table("[cache]\ndirectory = \"store\"\n")
        .table(&format!("[pool.app]\nconnect = [\"{}\"]\n", origin.name()))
        .start();
    let mut client: Client = server.connect();
    assert_eq!((client.get("/live/a").text(), client.get("/live/a").text()), ("/live/a 1", "/live/a 2"));
    assert_eq!(client.get("/live/a").field("cache-status"), None);
    assert_eq!((client.get("/kept").text(), client.get("/kept").text()), ("/kept 4", "/kept 4"));
    server.stop();
}

#[test]
fn what_requests_say_about_caches_counts_unless_told_otherwise() {
    let fresh = "Cache-Control: no-cache\r\n";
    ask(
        "true",
        &[
            ("/", "", 1),
            ("/", "", 1),
            ("/", fresh, 2),
            ("/", "", 2),
            ("/", "Cache-Control: min-fresh=1000\r\n", 3),
        ],
    );
    ask("{ request_control = false }", &[("/", "", 1), ("/", fresh, 1), ("/", "Pragma: no-cache\r\n", 1)]);
    let origin = Origin::numbered(FRESH);
    let server = start(&origin, "true");
    let only = "Cache-Control: only-if-cached\r\n";
    assert_eq!(server.connect().method("GET", "/", only).status, 504);
    assert_eq!(origin.count(), 0);
    assert_eq!(server.connect().get("/").text(), "/ 1");
    assert_eq!(server.connect().method("GET", "/", only).text(), "/ 1");
    server.stop();
}
