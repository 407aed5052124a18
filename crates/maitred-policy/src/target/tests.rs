use maitred_http::request::{self, HeadLimits};

use super::*;

const LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 4096, header_count_max: 16, target_bytes_max: 1000, body_bytes_max: 0 };

fn with_target<R>(target: &str, act: impl FnOnce(&Request<'_, '_>) -> R) -> R {
    let text = format!("GET {target} HTTP/1.1\r\nHost: example.com\r\n\r\n");
    let mut room = request::field_room();
    let (request, _) = request::parse(text.as_bytes(), &mut room, &LIMITS).unwrap().unwrap();
    act(&request)
}

fn canonical(target: &str, slashes: Slashes) -> String {
    with_target(target, |request| {
        let routed = Target::routed(request, slashes).canonical().into_owned();
        assert_eq!(Target::asked(request, slashes).canonical(), routed, "{target}: no route has changed it");
        let path = routed.split('?').next().unwrap();
        assert_eq!(Target::asked(request, slashes).canonical_path(), path, "{target}");
        routed
    })
}

#[test]
fn an_application_sees_the_path_that_the_route_was_chosen_by() {
    for (target, expected) in [
        ("/", "/"),
        ("/a/b?x=1&y", "/a/b?x=1&y"),
        ("/a?", "/a?"),
        ("/a/../b", "/b"),
        ("/a/./b/", "/a/b/"),
        ("/.well-known/x", "/.well-known/x"),
        ("/a//b", "/a/b"),
        ("/%61%7e", "/a~"),
        ("/%e2%82%ac", "/%E2%82%AC"),
        ("/a%20b?c%20d", "/a%20b?c%20d"),
        ("/%3F?%3f", "/%3F?%3f"),
        ("/%3B%25", "/%3B%25"),
        ("http://example.com/a/../b?c", "/b?c"),
        ("http://example.com?c", "/?c"),
        ("http://example.com", "/"),
    ] {
        assert_eq!(canonical(target, Slashes::Decode), expected, "{target}");
    }
    assert_eq!(canonical("/a%2fb", Slashes::Decode), "/a/b");
    assert_eq!(canonical("/a%2fb", Slashes::Keep), "/a%2Fb", "what is kept is no separator");
}

/// What was made canonical once stays as it is: an application behind a second server gets the same.
#[test]
fn a_canonical_target_is_its_own_canonical_form() {
    for target in ["/a%20b", "/%61?%61", "/x/../%C3%A4", "/a%2Fb", "/a;b=1?c=[d]", "/a:b@c"] {
        let once = canonical(target, Slashes::Keep);
        assert_eq!(canonical(&once, Slashes::Keep), once, "{target}");
    }
}

#[test]
fn what_a_client_asked_for_stays_whatever_its_route_makes_of_it() {
    for sent in ["/a/../b?x=1", "http://example.com/a/../b?x=1"] {
        with_target(sent, |request| {
            let seen = Request { path: "/index.php", query: Some("q=b"), ..*request };
            assert_eq!(Target::asked(&seen, Slashes::Decode).canonical(), "/b?x=1", "{sent}");
            assert_eq!(Target::routed(&seen, Slashes::Decode).canonical(), "/index.php?q=b", "{sent}");
        });
    }
}
