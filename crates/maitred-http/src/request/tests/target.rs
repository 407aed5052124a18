//! Targets (9112-3.2) and hosts (9110-7.2).

use super::*;

fn status_of_target(method: &str, target: &str) -> u16 {
    status(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes())
}

/// Path, query and authority.
fn parts(method: &str, target: &str) -> (String, Option<String>, String) {
    inspect(&format!("{method} {target} HTTP/1.1\r\nHost: from-host\r\n\r\n"), |request| {
        (request.path.to_owned(), request.query.map(str::to_owned), request.authority.to_owned())
    })
}

fn expected(path: &str, query: Option<&str>, authority: &str) -> (String, Option<String>, String) {
    (path.to_owned(), query.map(str::to_owned), authority.to_owned())
}

#[test]
fn origin_form() {
    assert_eq!(parts("GET", "/"), expected("/", None, "from-host"));
    assert_eq!(parts("GET", "/a?"), expected("/a", Some(""), "from-host"));
    assert_eq!(parts("GET", "/a?b?c"), expected("/a", Some("b?c"), "from-host"));
    assert_eq!(parts("GET", "//x/y"), expected("//x/y", None, "from-host"));
    assert_eq!(parts("OPTIONS", "/*"), expected("/*", None, "from-host"));
}

#[test]
fn the_authority_of_an_absolute_form_replaces_host() {
    assert_eq!(parts("GET", "http://x:81/a?b"), expected("/a", Some("b"), "x:81"));
    assert_eq!(parts("GET", "HTTP://x"), expected("/", None, "x"));
    assert_eq!(parts("GET", "http://x?b"), expected("/", Some("b"), "x"));
    assert_eq!(parts("GET", "http://[::1]:80/"), expected("/", None, "[::1]:80"));
    assert_eq!(parts("OPTIONS", "http://x"), expected("*", None, "x"));
    assert_eq!(parts("OPTIONS", "http://x?b"), expected("/", Some("b"), "x"));
}

#[test]
fn an_absolute_form_needs_host_all_the_same() {
    assert_eq!(status(b"GET http://x/ HTTP/1.1\r\n\r\n"), 400);
    assert_eq!(status(b"GET http://x/ HTTP/1.1\r\nHost: a b\r\n\r\n"), 400);
    assert_eq!(status(b"GET http://x/ HTTP/1.0\r\n\r\n"), 200);
}

#[test]
fn an_absolute_form_is_for_http_and_valid_authorities_only() {
    for bad in [
        "ftp://x/",
        "http:/x",
        "http:x",
        "http:///a",
        "http://?a",
        "http://u@x/",
        "http://u:p@x/",
        "http://x:/y:z@/",
        "http://x:99999/",
        "http://x\\y/",
        "://x/",
        "ws://x/",
    ] {
        let valid = bad == "http://x:/y:z@/";
        assert_eq!(status_of_target("GET", bad), if valid { 200 } else { 400 }, "{bad}");
    }
}

#[test]
fn whether_a_target_says_https_is_for_the_connection_to_judge() {
    let https = |target: &str| {
        inspect(&format!("GET {target} HTTP/1.1\r\nHost: from-host\r\n\r\n"), |request| request.https)
    };
    assert!(https("https://a/") && https("HTTPS://a"));
    assert!(!https("http://a/https://b/") && !https("/https://a/"));
}

#[test]
fn the_asterisk_is_for_options() {
    assert_eq!(parts("OPTIONS", "*"), expected("*", None, "from-host"));
    assert_eq!(status_of_target("GET", "*"), 400);
    assert_eq!(status_of_target("OPTIONS", "**"), 400);
}

#[test]
fn the_authority_form_is_for_connect() {
    assert_eq!(parts("CONNECT", "x:443"), expected("", None, "x:443"));
    assert_eq!(parts("CONNECT", "[::1]:443"), expected("", None, "[::1]:443"));
    for bad in ["x", "x:", ":443", "/", "http://x:1/", "*", "[::1]", "u@x:1", "x:a"] {
        assert_eq!(status_of_target("CONNECT", bad), 400, "{bad}");
    }
    assert_eq!(status_of_target("GET", "x:443"), 400);
}

#[test]
fn targets_hold_visible_ascii_and_no_fragment() {
    for bad in
        ["/\u{e9}", "/a#b", "/a?b#c", "/#", "/a?b\u{e9}", "/a\tb", "/\u{7f}", "/a\0", "x", "a/b", "?a", "#"]
    {
        assert_eq!(status_of_target("GET", bad), 400, "{bad:?}");
    }
    let head = [b"GET /", &[0xff][..], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    assert_eq!(status(&head), 400);
    for bad in ["/a\\b", "/\\..\\a", "/<a", "/a>", "/\"", "http://x/a\\b"] {
        assert_eq!(status_of_target("GET", bad), 400, "{bad:?}");
    }
    // Browsers send these as they are, so that they pass.
    assert_eq!(status_of_target("GET", "/a|b^{}[]`;?c[]={\"d\"}^`\\<>"), 200);
}

#[test]
fn a_target_over_the_limit_is_refused_as_soon_as_it_is() {
    let head = |bytes: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(bytes - 1));
    assert_eq!(status(head(64).as_bytes()), 200);
    assert_eq!(status(head(65).as_bytes()), 414);
    assert_eq!(status(&head(65).as_bytes()[..68]), 100);
    assert_eq!(status(&head(65).as_bytes()[..69]), 414);
    // Also if the head as a whole is too big, or broken behind the target.
    assert_eq!(status(head(5000).as_bytes()), 414);
    assert_eq!(status(format!("GET /{}\0", "x".repeat(64)).as_bytes()), 414);
    // But not if it was broken before.
    assert_eq!(status(format!(" {}", "x".repeat(65)).as_bytes()), 400);
    assert_eq!(status(format!("G(T /{}", "x".repeat(65)).as_bytes()), 400);
}

#[test]
fn version_1_1_needs_exactly_one_host() {
    assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), 400);
    assert_eq!(status(b"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n"), 400);
    assert_eq!(status(b"GET / HTTP/1.0\r\n\r\n"), 200);
    assert_eq!(status(b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
}

#[test]
fn hosts_are_valid() {
    let host = |host: &str| status(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
    for good in [
        "a",
        "",
        "a.b-c_d~e",
        "127.0.0.1:80",
        "a:",
        "a:65535",
        "[::1]",
        "[2001:db8::1]:8080",
        "xn--e1a",
        "a%2Db:1",
        "%41",
    ] {
        assert_eq!(host(good), 200, "{good:?}");
    }
    for bad in [
        "a b",
        "a/b",
        "a@b",
        "a?b",
        "a#b",
        "a\\b",
        "a:b",
        "a:1:2",
        "a:65536",
        "a:-1",
        ":80",
        ":",
        "[::1",
        "::1",
        "[]",
        "[::g]",
        "[::1]a",
        "[::1]:x",
        "[v1.a]",
        "[1.2.3.4]",
        "a[b]",
        "a%",
        "a%4",
        "a%4g",
        "%zz",
        "a\"b",
        "a<b>",
        "a\u{e9}",
        "[::1%25eth0]",
        "http://a",
        "a\tb",
    ] {
        assert_eq!(host(bad), 400, "{bad:?}");
    }
}
