//! What a request has that its key does not, and what it asks to be taken for.

use super::super::*;
use super::model::{head_text, read};
use crate::request::{Method, field_room};

/// The query, the cookies (`-` if they go along as they are), and whether something was left out.
fn reduced_as(target: &str, fields: &str, sent: Option<&str>, keys: &KeyRules) -> String {
    let (text, mut room) = (head_text(&format!("GET {target}"), fields), field_room());
    let request = read(&text, &mut room);
    let reduced = reduced(&request, sent.or(request.query), keys);
    let cookies = reduced.cookies.map_or("-".into(), |line| String::from_utf8(line).unwrap());
    format!("{} {cookies} {}", reduced.query.as_deref().unwrap_or("-"), reduced.any)
}

fn names(names: &[&str]) -> Box<[Box<str>]> {
    names.iter().map(|name| Box::from(*name)).collect()
}

#[test]
fn a_request_is_without_what_its_key_does_not_have() {
    let query = |query: QueryRule, sort: bool| KeyRules { query, sort, ..KeyRules::default() };
    let without = query(QueryRule::Without(names(&["utm_*"])), false);
    for (target, keys, expected) in [
        ("/a", &KeyRules::default(), "- - false"),
        ("/a?", &KeyRules::default(), " - false"),
        ("/a?b&a=1", &KeyRules::default(), "b&a=1 - false"),
        ("/a?b=2&a&b=1", &query(QueryRule::All, true), "a&b=2&b=1 - false"),
        ("/a?b=1", &query(QueryRule::Ignore, false), "- - true"),
        ("/a?", &query(QueryRule::Ignore, false), "- - false"),
        ("/a?utm_x=1&b=2&%75tm_y", &without, "b=2 - true"),
        ("/a?utm_x=1", &without, "- - true"),
        ("/a?b=1", &without, "b=1 - false"),
        ("/a?b=1&c=2&b=3", &query(QueryRule::Only(names(&["b"])), true), "b=1&b=3 - true"),
    ] {
        assert_eq!(reduced_as(target, "", None, keys), expected, "{target}");
    }
    // What a route has put there is not the client's.
    let sent = Some("utm_x=1&b=2");
    assert_eq!(reduced_as("/i?utm_z=1&utm_x=1&b=2", "", sent, &without), "utm_z=1&b=2 - true");
    let only = query(QueryRule::Only(names(&["b"])), false);
    assert_eq!(reduced_as("/i?title=Main", "", sent, &only), "title=Main - false");
    let none = query(QueryRule::Ignore, false);
    assert_eq!(reduced_as("/i?title=Main&b=2", "", sent, &none), "title=Main - true");
    let cookies = KeyRules { cookies: names(&["lang", "b"]), ..KeyRules::default() };
    for (fields, expected) in [
        ("", "-  false"),
        ("Cookie: lang=de", "- lang=de false"),
        ("Cookie: b=1; lang=de | Cookie: sid=2", "- lang=de; b=1 true"),
        ("Cookie: lang=de; lang=fr", "- lang=de true"),
        ("Cookie: sid=1", "-  true"),
    ] {
        assert_eq!(reduced_as("/", fields, None, &cookies), expected, "{fields}");
    }
    let sent = KeyRules { cookies: Box::default(), ..KeyRules::default() };
    assert_eq!(reduced_as("/", "Cookie: sid=1", None, &sent), "- - false");
}

#[test]
fn what_requests_with_the_same_key_are_reduced_to_is_the_same() {
    let keys = [
        KeyRules { query: QueryRule::Without(names(&["u*"])), sort: true, ..KeyRules::default() },
        KeyRules { query: QueryRule::Only(names(&["a", "b"])), sort: true, ..KeyRules::default() },
        KeyRules { query: QueryRule::Ignore, ..KeyRules::default() },
    ];
    let targets = ["/?a=1&b=2", "/?b=2&a=1", "/?b=2&u=9&a=1", "/?u&a=1&b=2&ux=%20"];
    for keys in &keys {
        let all = targets.map(|target| {
            let reduced = reduced_as(target, "", None, keys);
            reduced.split(' ').next().unwrap().to_owned()
        });
        assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    }
}

#[test]
fn a_request_may_stand_for_another_method() {
    for (fields, expected) in [
        ("", None),
        ("X-HTTP-Method-Override: POST", Some(Method::Post)),
        ("x_http_method_override: delete", Some(Method::Delete)),
        ("X-HTTP-Method: PUT", Some(Method::Put)),
        ("X-Method-Override: GET", Some(Method::Get)),
        ("X-Method-Override: PURGE", Some(Method::Other)),
        ("X-Method-Overrides: POST | X-HTTP-Methods: POST | X-Method: POST", None),
    ] {
        let (text, mut room) = (head_text("GET /", fields), field_room());
        let request = read(&text, &mut room);
        assert_eq!(overridden(&request), expected, "{fields}");
        let bypasses = Wanted::of(&request, &Rules::default()).consult() == Consult::Bypass(Why::Override);
        assert_eq!(bypasses, expected.is_some(), "{fields}");
    }
}

#[test]
fn what_connection_names_is_in_no_key() {
    let keys =
        KeyRules { fields: names(&["x-a", "x-b"]), answered_by: "pool app 0".into(), ..KeyRules::default() };
    let (text, mut room, mut key) =
        (head_text("GET /", "X-A: 1 | X-B: 2 | Connection: close, x-a"), field_room(), Vec::new());
    let request = read(&text, &mut room);
    let target = Target { scheme: "http", authority: "a.example", path: "/", query: None };
    put_key(&target, &request, (&keys, &Rules::default()), &mut key);
    assert_eq!(String::from_utf8_lossy(&key), "http://a.example/\npool app 0\nx-a\nx-b:2\n");
    let mut variant = Vec::new();
    put_variant_key("x-a,x-b", &request, &Rules::default(), &mut variant);
    assert_eq!(String::from_utf8_lossy(&variant), "x-a\nx-b:2\n");
}

#[test]
fn hosts_have_one_spelling() {
    for (authority, canonical) in [
        ("A.Test", "a.test"),
        ("a.test:443", "a.test"),
        ("a.test:", "a.test"),
        ("a.test:80", "a.test:80"),
        ("[::A]:443", "[::a]"),
    ] {
        assert_eq!(canonical_authority("https", authority), canonical);
    }
}
