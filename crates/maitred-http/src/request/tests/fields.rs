//! Field syntax (9112-5), and the fields that say something about the connection.

use super::super::List;
use super::*;

#[test]
fn names_are_tokens() {
    for bad in [
        "X : a\r\n",
        "X\t: a\r\n",
        ": a\r\n",
        "X(: a\r\n",
        "X\u{e9}: a\r\n",
        "X\0: a\r\n",
        "X\r\n",
        "X y: a\r\n",
    ] {
        assert_eq!(status_with(bad), 400, "{bad:?}");
    }
    assert_eq!(status_with("!#$%&'*+-.^_`|~09azAZ: a\r\n"), 200);
}

#[test]
fn values_hold_no_control_characters() {
    for byte in (0..0x20).chain([0x7f]).filter(|byte| *byte != b'\t') {
        let head = [b"GET / HTTP/1.1\r\nHost: a\r\nX: a", &[byte][..], b"b\r\n\r\n"].concat();
        assert_eq!(status(&head), 400, "byte {byte}");
    }
    assert_eq!(status_with("X: a\tb \u{e9}\r\n"), 200);
}

#[test]
fn folded_lines_are_refused() {
    assert_eq!(status_with("X: a\r\n b\r\n"), 400);
    assert_eq!(status_with("X: a\r\n\tb\r\n"), 400);
    assert_eq!(status_with("X:\r\n b\r\n"), 400);
}

#[test]
fn white_space_before_the_first_field_is_refused() {
    assert_eq!(status(b"GET / HTTP/1.1\r\n Host: a\r\n\r\n"), 400);
    assert_eq!(status(b"GET / HTTP/1.1\r\n \r\nHost: a\r\n\r\n"), 400);
}

#[test]
fn connections_persist_by_version_and_option() {
    let keeps = |version, lines| inspect_with(version, lines, |request| request.keep_alive);
    assert!(keeps("HTTP/1.1", ""));
    assert!(keeps("HTTP/1.1", "Connection: upgrade\r\n"));
    assert!(keeps("HTTP/1.1", "Connection: not-close\r\n"));
    assert!(!keeps("HTTP/1.1", "Connection: close\r\n"));
    assert!(!keeps("HTTP/1.1", "Connection: keep-alive, Close\r\n"));
    assert!(!keeps("HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n"));
    assert!(!keeps("HTTP/1.0", ""));
    assert!(keeps("HTTP/1.0", "connection: Keep-Alive\r\n"));
    assert!(keeps("HTTP/1.0", "Connection: x,\tkeep-alive ,\r\n"));
    assert!(!keeps("HTTP/1.0", "Connection: keep-alive, close\r\n"));
}

#[test]
fn connection_has_a_bounded_number_of_options() {
    let status =
        |count| status_with(&format!("Connection: {}\r\nConnection: b\r\n", vec!["a"; count].join(",")));
    assert_eq!(status(31), 200);
    assert_eq!(status(32), 400);
}

#[test]
fn upgrade_needs_to_be_named_by_connection() {
    let upgrades = |version, lines| inspect_with(version, lines, |request| request.upgrade);
    assert!(upgrades("HTTP/1.1", "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"));
    assert!(!upgrades("HTTP/1.1", "Upgrade: websocket\r\n"));
    assert!(!upgrades("HTTP/1.1", "Connection: upgrade\r\n"));
    assert!(!upgrades("HTTP/1.0", "Connection: upgrade\r\nUpgrade: websocket\r\n"));
}

#[test]
fn a_wish_for_100_is_seen_if_there_is_a_body() {
    let expects = |version, lines: &str| inspect_with(version, lines, |request| request.expects_continue);
    assert!(expects("HTTP/1.1", "Expect: 100-Continue\r\nContent-Length: 1\r\n"));
    assert!(expects("HTTP/1.1", "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n"));
    assert!(!expects("HTTP/1.1", "Expect: 100-continue\r\n"));
    assert!(!expects("HTTP/1.1", "Content-Length: 1\r\n"));
    assert!(!expects("HTTP/1.0", "Expect: 100-continue\r\nContent-Length: 1\r\n"));
}

#[test]
fn other_expectations_fail() {
    for lines in [
        "Expect: x\r\n",
        "Expect: , x\r\n",
        "Expect: 100-continue, x\r\n",
        "Expect: 100-continue\r\nExpect: x\r\n",
    ] {
        assert_eq!(status_with(lines), 417, "{lines:?}");
    }
    for lines in ["Expect:\r\n", "Expect: 100-continue, ,100-Continue\r\nExpect: 100-continue\r\n"] {
        assert_eq!(status_with(lines), 200, "{lines:?}");
    }
    assert_eq!(status(b"GET / HTTP/1.0\r\nExpect: x\r\n\r\n"), 200);
}

#[test]
fn fields_for_handlers_are_found_whatever_their_case() {
    let lines = "if-MATCH: 1\r\nIF-none-match: 2\r\nIf-Modified-Since: 3\r\nif-unmodified-since: 4\r\n\
                 If-Range: 5\r\nRANGE: 6\r\nAccept-Encoding: 7\r\n";
    inspect_with("HTTP/1.1", lines, |request| {
        let known = request.known;
        let values = [known.if_modified_since, known.if_unmodified_since, known.if_range, known.range];
        assert_eq!(values, [b"3", b"4", b"5", b"6"].map(|value| Some(&value[..])));
        let lists = [known.if_match, known.if_none_match, known.accept_encoding];
        assert_eq!(lists.map(|list| list.unwrap().joined().into_owned()), [b"1", b"2", b"7"]);
    });
    inspect_with("HTTP/1.1", "Referer: 1\r\nUser-Agent: 2\r\nUser-Agent: 3\r\n", |request| {
        assert_eq!((request.known.referer, request.known.user_agent), (Some(&b"1"[..]), Some(&b"2"[..])));
    });
}

#[test]
fn conditions_and_ranges_that_stand_twice_are_invalid() {
    let lines = "Range: bytes=0-1\r\nRange: bytes=2-3\r\nIf-Range: 1\r\nIf-Range: 1\r\nIf-Modified-Since: 1\r\n\
                 If-Modified-Since: 1\r\nHost: a\r\n\r\n";
    inspect(&format!("GET / HTTP/1.1\r\n{lines}"), |request| {
        let known = request.known;
        assert_eq!([known.range, known.if_range, known.if_modified_since], [Some(&b""[..]); 3]);
        assert_eq!(crate::range::parse(b"", 10, 8), crate::range::Ranges::Ignore);
        assert_eq!(crate::date::parse(b"", 0), None);
        assert_eq!(crate::etag::EntityTag::parse(b""), None);
    });
}

#[test]
fn fields_that_only_look_alike_are_not_taken() {
    inspect_with("HTTP/1.1", "Rangs: 1\r\nX-Range: 2\r\nReferrer: 3\r\nIf-Matcg: 4\r\n", |request| {
        let known = request.known;
        assert_eq!([known.range, known.referer, known.if_range], [None; 3]);
        assert!(known.if_match.is_none());
    });
}

/// 9110-5.2, 5.3
#[test]
fn the_lines_of_a_list_are_one_list() {
    let lines = "If-None-Match: \"a\"\r\nAccept-Encoding: gzip;q=0\r\nIF-NONE-MATCH: \"b\", \"c\"\r\nIf-Match:\r\n\
                 accept-encoding: br\r\nif-none-match: W/\"d\"\r\nIf-Match: *\r\n";
    inspect_with("HTTP/1.1", lines, |request| {
        let known = request.known;
        let joined = |list: Option<List<'_>>| String::from_utf8(list.unwrap().joined().into_owned()).unwrap();
        assert_eq!(joined(known.if_none_match), "\"a\", \"b\", \"c\", W/\"d\"");
        assert_eq!(joined(known.accept_encoding), "gzip;q=0, br");
        assert_eq!(joined(known.if_match), ", *");
    });
}
