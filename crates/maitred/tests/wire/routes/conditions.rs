//! Conditions of routes besides path and method.

use crate::routes::named;
use crate::support::{Response, Server};

fn ask(server: &Server, path: &str, fields: &str) -> Response {
    server.connect().ask(format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"))
}

#[test]
fn a_route_is_for_requests_that_meet_its_conditions() {
    let server = named(&[
        ("regex", "path_regex = '^/user/\\d+$'"),
        ("header", "path = \"/x\"\nmatch = { header = { X-A = \"v*\" } }"),
        ("query", "path = \"/x\"\nmatch = { query = { debug = \"*\" } }"),
        ("cookie", "path = \"/x\"\nmatch = { cookie = { beta = \"~^(1|yes)$\" } }"),
        ("tls", "path = \"/x\"\nmatch = { scheme = \"https\" }"),
        ("far", "path = \"/x\"\nmatch = { client = [\"192.0.2.0/24\"] }"),
        (
            "any",
            "match = { any = [{ path = \"/y\" }, { header = { X-B = \"1\" } }], not = [{ query = { no = \"*\" } }] }",
        ),
        ("near", "path = [\"/x\", \"/z\"]\nmatch = { client = [\"127.0.0.0/8\"] }"),
    ]);
    for (path, fields, expected) in [
        ("/user/17", "", "regex"),
        ("/user/17a", "X-B: 1\r\n", "any"),
        ("/x", "X-A: value\r\n", "header"),
        ("/x", "X-A: w\r\nx-a: v\r\n", "header"),
        ("/x?a=1&debug", "", "query"),
        ("/x?%64ebug=1", "", "query"),
        ("/x", "Cookie: a=1; beta=yes\r\n", "cookie"),
        ("/x", "Cookie: beta=yes1\r\n", "near"),
        ("/y", "", "any"),
        ("/z", "X-B: 1\r\n", "any"),
        ("/z?no=", "X-B: 1\r\n", "near"),
        ("/x", "", "near"),
    ] {
        assert_eq!(ask(&server, path, fields).text(), expected, "{path} {fields:?}");
    }
    assert_eq!(ask(&server, "/other", "").status, 404);
    server.stop();
}

#[test]
fn a_route_takes_a_share_of_the_clients() {
    let server = named(&[
        ("fifth", "path = \"/x\"\nmatch = { share = \"20%\", share_by = \"cookie:id\" }"),
        ("half", "path = \"/x\"\nmatch = { share = \"50%\", share_by = \"cookie:id\" }"),
        ("rest", "path = \"/x\""),
    ]);
    let mut seen = std::collections::BTreeMap::new();
    for id in 0..600 {
        let fields = format!("Cookie: id={id}\r\n");
        let name = ask(&server, "/x", &fields).text().to_owned();
        if id < 50 {
            assert_eq!(ask(&server, "/x", &fields).text(), name, "the same one again");
        }
        *seen.entry(name).or_insert(0) += 1;
    }
    // The second share has those of the first, which took them before.
    let expected = [("fifth", 120), ("half", 180), ("rest", 300)];
    for (name, count) in expected {
        assert!(seen[name] > count - 60 && seen[name] < count + 60, "{seen:?}");
    }
    server.stop();
}

#[test]
fn a_trusted_proxy_says_who_the_client_is_and_how_it_came() {
    let routes = [
        ("tls", "path = \"/\"\nmatch = { scheme = \"https\", client = [\"192.0.2.0/24\"] }"),
        ("plain", "path = \"/\"\nmatch = { scheme = \"http\" }"),
    ];
    let server = named(&routes);
    let fields = "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n";
    assert_eq!(ask(&server, "/", fields).text(), "plain", "anybody can write that");
    server.stop();
    let route = |setup: crate::routes::Setup, (name, lines): &(&str, &str)| {
        setup.table(&format!("[[site.route]]\n{lines}\nrespond = {{ body = \"{name}\" }}\n"))
    };
    let setup = crate::routes::Setup::with_files().server("trusted_proxies = [\"127.0.0.1\"]");
    let server = routes.iter().fold(setup, route).start();
    assert_eq!(ask(&server, "/", fields).text(), "tls");
    assert_eq!(ask(&server, "/", "").text(), "plain");
    server.stop();
}

#[test]
fn many_routes_are_chosen_in_their_order() {
    let prefixes: Vec<String> = (0..300).map(|number| format!("path = \"/r{number}/*\"")).collect();
    let names: Vec<String> = (0..300).map(|number| format!("r{number}")).collect();
    let mut routes: Vec<(&str, &str)> =
        names.iter().zip(&prefixes).map(|(name, lines)| (name.as_str(), lines.as_str())).collect();
    routes.insert(0, ("first", "path = \"*.first\""));
    routes.push(("last", "path = \"/*\""));
    let server = named(&routes);
    for (path, expected) in
        [("/r7/x", "r7"), ("/r299/", "r299"), ("/r7/x.first", "first"), ("/r300/x", "last"), ("/r7", "last")]
    {
        assert_eq!(ask(&server, path, "").text(), expected, "{path}");
    }
    server.stop();
}
