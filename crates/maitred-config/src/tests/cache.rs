//! `cache` of sites and routes.

use super::*;

const POOL: &str = "listen = [{ address = \":8080\" }]\n[pool.a]\nconnect = \"http://127.0.0.1:3000\"\n[[site]]\n[[site.route]]\npath = \"/*\"\npool = \"a\"\n";

fn of_route(line: &str) -> (Option<Caching>, bool) {
    let config = good(&format!("{POOL}{line}\n"));
    (config.sites[0].routes[0].cache.clone(), config.cache.is_some())
}

#[test]
fn a_word_stands_for_a_table() {
    assert_eq!(of_route(""), (None, false));
    assert_eq!(of_route("cache = false"), (Some(Caching::Off), false));
    assert_eq!(of_route("cache = true"), (Some(Caching::On(Box::default())), true));
    assert_eq!(of_route("cache = \"micro\""), (Some(Caching::On(Box::new(CacheRules::micro()))), true));
    assert_eq!(of_route("cache = {}"), (Some(Caching::On(Box::default())), true));
}

#[test]
fn what_has_a_lifetime_from_here_is_not_for_requests_with_cookies() {
    for (line, expected) in [
        ("cache = true", true),
        ("cache = \"micro\"", false),
        ("cache = { ttl = \"1s\" }", false),
        ("cache = { ttl_by_status = { 404 = \"1m\" } }", false),
        ("cache = { ttl = \"1s\", cookies = true }", true),
        ("cache = { ttl = \"1s\", key_cookies = [\"lang\"] }", true),
        ("cache = { cookies = false }", false),
    ] {
        let Some(Caching::On(rules)) = of_route(line).0 else { panic!("{line}") };
        assert_eq!(rules.cookies, expected, "{line}");
    }
}

#[test]
fn what_makes_no_sense_is_an_error() {
    for (line, expected) in [
        ("cache = \"mikro\"", "did you mean \"micro\"?"),
        ("cache = 3", "`cache`: expected true, false, \"micro\" or a table, found a whole number"),
        ("cache = { ttl_by_status = { 206 = \"1m\" } }", "\"206\" is no status of a whole response"),
        ("cache = { ttl_by_status = { 404 = \"soon\" } }", "\"soon\" is no time"),
        ("cache = { key_headers = [\"a b\"] }", "\"a b\" is not the name of a field"),
        ("cache = { query_only = [\"a\"], query_ignore = [\"b\"] }", "no effect beside `query_only`"),
    ] {
        let shown = errors(&format!("{POOL}{line}\n"));
        assert!(shown.contains(expected), "{line}: {shown}");
    }
    let shown = errors(
        "listen = [{ address = \":8080\" }]\n[[site]]\n[[site.route]]\npath = \"/\"\nrespond = { status = 200 }\ncache = true\n",
    );
    assert!(shown.contains("`cache` keeps responses of pools, and this route has none"), "{shown}");
}

/// What is said of a route with these lines.
fn warned(lines: &str) -> String {
    super::tls::warnings(&format!("{POOL}{lines}\n")).join("\n")
}

#[test]
fn what_gives_one_clients_responses_to_others_is_warned_of() {
    let forward = "forward_auth = { pool = \"a\", path = \"/auth\" }";
    let users = "basic_auth = \"off\"";
    for (lines, expected) in [
        (format!("cache = true\n{forward}"), "behind `forward_auth` keeps only what says `public`"),
        (format!("cache = {{ ttl = \"1s\" }}\n{forward}"), "behind `forward_auth` keeps only"),
        (
            format!("cache = {{ authorization = true }}\n{forward}"),
            "gives all whom `forward_auth` admits what one of them has got",
        ),
        ("cache = { set_cookie = true }".to_owned(), "every client the cookie that the first one has got"),
        (
            "cache = { ttl = \"1s\", response_control = false, cookies = true }".to_owned(),
            "gives every client what one with a session has got",
        ),
    ] {
        let said = warned(&lines);
        assert!(said.contains(expected), "{lines}: {said}");
    }
    for lines in [
        "cache = true",
        &format!("cache = true\n{users}"),
        &format!("cache = false\n{forward}"),
        &format!("cache = {{ key_identity = true }}\n{forward}"),
        "cache = { ttl = \"1s\", response_control = false }",
    ] {
        assert_eq!(warned(lines), "", "{lines}");
    }
}
