//! The variables of a request, read back from the records.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::super::encode::put_params;
use super::super::record::kind;
use super::super::script::Script;
use super::super::variables::{Variables, is_own, put};
use crate::fuzzing::fastcgi::{read_pairs, stream};

type Map = HashMap<String, String>;

fn map(variables: &Variables<'_>, fields: &[(&str, &str)]) -> Map {
    let mut out = Vec::new();
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    put_params(&mut out, |params| put(params, variables, fields)).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let pairs = read_pairs(&stream(&out, kind::PARAMS).0);
    let count = pairs.len();
    let map: Map = pairs.into_iter().map(|(name, value)| (text(name), text(value))).collect();
    assert_eq!(map.len(), count, "a variable comes twice");
    map
}

fn of_fields(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut found: Vec<_> =
        map(&Variables::default(), fields).into_iter().filter(|pair| pair.0.starts_with("HTTP_")).collect();
    found.sort();
    found
}

fn expect(found: &Map, expected: &[(&str, &str)]) {
    let expected: Map = expected.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let mut wrong: Vec<_> =
        expected.keys().chain(found.keys()).filter(|name| expected.get(*name) != found.get(*name)).collect();
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{:?}", wrong.iter().map(|name| (name, found.get(*name))).collect::<Vec<_>>());
}

#[test]
fn a_script_of_php_gets_all_of_them() {
    let variables = Variables {
        method: "POST",
        target: "/app.php/page%20one?x=%31",
        query: "x=%31",
        protocol: "HTTP/2.0",
        software: "maitred/1",
        server_name: "a.example",
        https: true,
        client: Some("[2001:db8::7]:50000".parse().unwrap()),
        server: Some("192.0.2.1:8443".parse().unwrap()),
        document_root: Some(b"/srv/www"),
        mount: b"",
        script: Script { name: b"/app.php", index: b"", path_info: b"/page one" },
        content_length: Some(12),
        length_sent: true,
        program: Some(b"/not/for/scripts"),
        further: &[("APP_MODE", b"test".to_vec()), ("EMPTY", Vec::new())],
        authenticated: Some(("Basic", "ann")),
    };
    let found = map(
        &variables,
        &[("Host", "a.example:8443"), ("content-type", "text/plain"), ("Content-Length", "12")],
    );
    expect(
        &found,
        &[
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("SERVER_SOFTWARE", "maitred/1"),
            ("SERVER_PROTOCOL", "HTTP/2.0"),
            ("REQUEST_METHOD", "POST"),
            ("REQUEST_URI", "/app.php/page%20one?x=%31"),
            ("QUERY_STRING", "x=%31"),
            ("REDIRECT_STATUS", "200"),
            ("CONTENT_TYPE", "text/plain"),
            ("HTTP_CONTENT_TYPE", "text/plain"),
            ("CONTENT_LENGTH", "12"),
            ("HTTP_CONTENT_LENGTH", "12"),
            ("AUTH_TYPE", "Basic"),
            ("REMOTE_USER", "ann"),
            ("SCRIPT_NAME", "/app.php"),
            ("SCRIPT_FILENAME", "/srv/www/app.php"),
            ("DOCUMENT_URI", "/app.php"),
            ("DOCUMENT_ROOT", "/srv/www"),
            ("PATH_INFO", "/page one"),
            ("PATH_TRANSLATED", "/srv/www/page one"),
            ("REQUEST_SCHEME", "https"),
            ("HTTPS", "on"),
            ("SERVER_NAME", "a.example"),
            ("SERVER_ADDR", "192.0.2.1"),
            ("SERVER_PORT", "8443"),
            ("REMOTE_ADDR", "2001:db8::7"),
            ("REMOTE_PORT", "50000"),
            ("HTTP_HOST", "a.example:8443"),
            ("APP_MODE", "test"),
            ("EMPTY", ""),
        ],
    );
    let further = |name: &str| variables.further.iter().any(|(further, _)| *further == name);
    for name in found.keys().filter(|name| !further(name)) {
        assert!(is_own(name), "an operator could override {name}");
    }
    assert!(!is_own("APP_MODE") && is_own("HTTP_PROXY"));
}

#[test]
fn a_wrapper_is_told_its_program() {
    let script = Script { path_info: b"/a.git/HEAD", ..Script::default() };
    let variables = Variables { program: Some(b"/bin/a"), mount: b"/git", script, ..Variables::default() };
    let found = map(&variables, &[]);
    for (name, value) in
        [("SCRIPT_FILENAME", "/bin/a"), ("SCRIPT_NAME", "/git"), ("PATH_INFO", "/a.git/HEAD")]
    {
        assert_eq!(found[name], value);
    }
    assert!(!found.contains_key("DOCUMENT_ROOT") && !found.contains_key("PATH_TRANSLATED"));
}

#[test]
fn what_is_not_there_is_not_sent() {
    let found = map(&Variables::default(), &[]);
    expect(
        &found,
        &[
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("SERVER_SOFTWARE", "maitred"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("REQUEST_METHOD", "GET"),
            ("REQUEST_URI", "/"),
            ("QUERY_STRING", ""),
            ("REDIRECT_STATUS", "200"),
            ("SCRIPT_NAME", ""),
            ("DOCUMENT_URI", ""),
            ("PATH_INFO", ""),
            ("REQUEST_SCHEME", "http"),
            ("SERVER_NAME", ""),
            ("SERVER_PORT", "80"),
            ("REMOTE_ADDR", "unix:"),
        ],
    );
    let https = map(&Variables { https: true, ..Variables::default() }, &[]);
    assert_eq!(https["SERVER_PORT"], "443");
}

#[test]
fn a_user_whom_another_server_has_found_has_no_scheme() {
    let user = |kind| map(&Variables { authenticated: Some((kind, "ann")), ..Variables::default() }, &[]);
    for (kind, sent) in [("Bearer", Some("Bearer")), ("", None)] {
        let found = user(kind);
        assert_eq!(found.get("AUTH_TYPE").map(String::as_str), sent);
        assert_eq!(found.get("REMOTE_USER").map(String::as_str), Some("ann"));
    }
}

#[test]
fn the_index_belongs_to_the_script() {
    let script = Script { name: b"/blog/", index: b"index.php", path_info: b"" };
    let found = map(&Variables { document_root: Some(b"/srv"), script, ..Variables::default() }, &[]);
    for (name, value) in [
        ("SCRIPT_NAME", "/blog/index.php"),
        ("SCRIPT_FILENAME", "/srv/blog/index.php"),
        ("DOCUMENT_URI", "/blog/index.php"),
    ] {
        assert_eq!(found[name], value);
    }
    assert!(!found.contains_key("PATH_TRANSLATED"));
}

#[test]
fn a_mount_is_part_of_urls_and_not_of_files() {
    let script = Script { name: b"/dir/", index: b"index.php", path_info: b"" };
    let mounted = Variables { document_root: Some(b"/srv"), mount: b"/blog", script, ..Variables::default() };
    let found = map(&mounted, &[]);
    for (name, value) in [
        ("SCRIPT_NAME", "/blog/dir/index.php"),
        ("DOCUMENT_URI", "/blog/dir/index.php"),
        ("SCRIPT_FILENAME", "/srv/dir/index.php"),
        ("PATH_INFO", ""),
    ] {
        assert_eq!(found[name], value);
    }
    let script = Script { path_info: b"/page", ..Script::default() };
    let found = map(&Variables { mount: b"/app", script, ..Variables::default() }, &[]);
    assert_eq!((&*found["SCRIPT_NAME"], &*found["PATH_INFO"]), ("/app", "/page"));
    assert!(!found.contains_key("SCRIPT_FILENAME"));
}

#[test]
fn addresses_are_written_without_brackets() {
    for (address, text, port) in [
        ("127.0.0.1:1", "127.0.0.1", "1"),
        ("[::ffff:192.0.2.1]:65535", "192.0.2.1", "65535"),
        ("[2001:db8:1111:2222:3333:4444:5555:6666]:0", "2001:db8:1111:2222:3333:4444:5555:6666", "0"),
        ("[fe80::1%3]:80", "fe80::1", "80"),
    ] {
        let address: SocketAddr = address.parse().unwrap();
        let found =
            map(&Variables { client: Some(address), server: Some(address), ..Variables::default() }, &[]);
        for (name, value) in
            [("REMOTE_ADDR", text), ("REMOTE_PORT", port), ("SERVER_ADDR", text), ("SERVER_PORT", port)]
        {
            assert_eq!(found[name], value);
        }
    }
}

#[test]
fn fields_of_one_name_become_one_variable() {
    let found = of_fields(&[
        ("Accept", "a"),
        ("cookie", "x=1"),
        ("ACCEPT", "b"),
        ("Cookie", "y=2"),
        ("X-Long-Name-2", ""),
        ("accept", ""),
    ]);
    let expected = [("HTTP_ACCEPT", "a, b, "), ("HTTP_COOKIE", "x=1; y=2"), ("HTTP_X_LONG_NAME_2", "")];
    assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn no_field_becomes_http_proxy() {
    assert_eq!(of_fields(&[("Proxy", "http://evil.example"), ("PROXY", "x"), ("proxy", "x")]), []);
    let found = of_fields(&[("Proxy-Authorization", "x")]);
    assert_eq!(found, [("HTTP_PROXY_AUTHORIZATION".to_owned(), "x".to_owned())]);
}

#[test]
fn names_that_would_collide_are_not_passed() {
    let fields = [
        "X_User",
        "X.User",
        "_",
        "X User",
        "X+User",
        "X~User",
        "X-\u{fc}",
        "",
        "Content_Length",
        "HTTP_PROXY",
    ];
    let fields = fields.map(|name| (name, "spoofed"));
    assert_eq!(of_fields(&fields), []);
    let found = map(&Variables::default(), &fields);
    assert!(found.values().all(|value| value != "spoofed"));
}

#[test]
fn fields_of_one_hop_are_not_passed() {
    let names =
        ["Connection", "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "upgrade"];
    assert_eq!(of_fields(&names.map(|name| (name, "x"))), []);
    let names = ["Upgrade-Insecure-Requests", "Authorization", "Expect", "Content-Encoding"];
    assert_eq!(of_fields(&names.map(|name| (name, "x"))).len(), 4);
}

#[test]
fn what_the_client_says_of_content_has_two_names_and_one_value() {
    let fields = [("Content-Type", "a/b"), ("content-length", "7"), ("Content-Type", "c/d")];
    let found = map(&Variables::default(), &fields);
    assert_eq!((found["CONTENT_TYPE"].as_str(), found["HTTP_CONTENT_TYPE"].as_str()), ("a/b", "a/b"));
    let lengths = ["CONTENT_LENGTH", "HTTP_CONTENT_LENGTH"];
    assert_eq!(lengths.map(|name| found.get(name)), [None, None], "the server says it, not the field");
    for (length_sent, second) in [(true, Some("9")), (false, None)] {
        let found = map(&Variables { content_length: Some(9), length_sent, ..Variables::default() }, &fields);
        assert_eq!(lengths.map(|name| found.get(name).map(String::as_str)), [Some("9"), second]);
    }
}

#[test]
fn long_names_and_values_are_whole() {
    let (name, value) = ("a-".repeat(100) + "z", "v".repeat(65_000));
    let found = of_fields(&[(&name, &value), ("B", "b")]);
    assert_eq!(found[0].0, format!("HTTP_{}Z", "A_".repeat(100)));
    assert_eq!((found[0].1.len(), found[1].1.as_str()), (65_000, "b"));
}
