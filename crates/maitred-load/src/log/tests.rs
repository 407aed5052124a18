use proptest::prelude::*;

use super::*;

fn owned(text: &str) -> Cow<'_, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

#[test]
fn common_and_combined_lines_are_read() {
    let common = r#"192.0.2.1 - frank [06/Nov/1994:08:49:37 +0000] "GET /a?b HTTP/1.0" 200 2326"#;
    let entry = parse(common.as_bytes()).unwrap();
    assert_eq!(entry.client, owned("192.0.2.1"));
    assert_eq!(entry.time_us, 784_111_777_000_000);
    assert_eq!(entry.request, Some(RequestLine { method: owned("GET"), target: owned("/a?b") }));
    assert_eq!((entry.status, entry.body_bytes), (200, Some(2326)));
    assert_eq!((entry.referer, entry.user_agent), (None, None));

    let combined = format!(r#"{common} "http://example.com/" "An \"agent\" \x41\\""#);
    let entry = parse(combined.as_bytes()).unwrap();
    assert_eq!(entry.referer, Some(owned("http://example.com/")));
    assert_eq!(entry.user_agent, Some(owned(r#"An "agent" A\"#)));
}

#[test]
fn what_is_absent_is_absent() {
    let line = r#"::1 - - [06/Nov/1994:08:49:37 +0000] "-" 408 - "-" "-""#;
    let entry = parse(line.as_bytes()).unwrap();
    assert_eq!((entry.request, entry.body_bytes), (None, None));
    assert_eq!((entry.referer, entry.user_agent), (None, None));
}

#[test]
fn a_cut_line_keeps_what_it_has() {
    let line = r#"::1 - - [06/Nov/1994:08:49:37 +0000] "GET / HTTP/1.1" 200 5 "-" "Mozilla"#;
    assert_eq!(parse(line.as_bytes()).unwrap().user_agent, Some(owned("Mozilla")));
}

#[test]
fn targets_with_spaces_and_requests_without_version_are_kept() {
    let target = |request: &str| {
        let line = format!("h - - [06/Nov/1994:08:49:37 +0000] \"{request}\" 400 0");
        parse(line.as_bytes()).unwrap().request.map(|request| request.target.into_owned())
    };
    assert_eq!(target("GET /a b HTTP/1.1"), Some(b"/a b".to_vec()));
    assert_eq!(target("GET /"), Some(b"/".to_vec()));
    assert_eq!(target("GET"), None);
    assert_eq!(target(r"\x16\x03\x01 / HTTP/1.1"), None);
}

#[test]
fn malformed_lines_say_what_is_wrong() {
    for (line, wrong) in [
        ("word", Malformed::Client),
        ("h - - nothing", Malformed::Time),
        ("h - - [yesterday] \"GET / HTTP/1.1\" 200 5", Malformed::Time),
        ("h - - [06/Nov/1994:08:49:37 +0000] GET / HTTP/1.1 200 5", Malformed::Request),
        ("h - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" OK 5", Malformed::Status),
        ("h - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 99 5", Malformed::Status),
        ("h - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 200 many", Malformed::Length),
        ("{\"time\":1}", Malformed::Json),
        ("{", Malformed::Json),
    ] {
        assert_eq!(parse(line.as_bytes()), Err(wrong), "{line}");
    }
}

#[test]
fn json_lines_are_read() {
    let line =
        r#"{"time":"1994-11-06T08:49:37.004321Z","remote":"192.0.2.7","host":"example.com","method":"GET",
        "target":"/a\"b","version":"HTTP/1.1","status":200,"body_bytes":1234,"duration_us":1530,
        "user_agent":"curl/8.0","pool":"web","queue_us":3}"#
            .replace('\n', "");
    let entry = parse(line.as_bytes()).unwrap();
    assert_eq!((entry.time_us, entry.is_precise), (784_111_777_004_321, true));
    assert_eq!(entry.request, Some(RequestLine { method: owned("GET"), target: owned("/a\"b") }));
    assert_eq!((entry.host, entry.user_agent), (Some(owned("example.com")), Some(owned("curl/8.0"))));
    assert_eq!((entry.status, entry.body_bytes), (200, Some(1234)));
}

/// As httpd, nginx and Maitred escape a quoted field.
fn escaped(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| match byte {
            b'"' | b'\\' => format!("\\{}", char::from(*byte)),
            0x20..=0x7e => char::from(*byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        })
        .collect()
}

fn field() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..40).prop_filter("a dash means absent", |bytes| bytes != b"-")
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes: Vec<u8>) {
        let _ = parse(&bytes);
    }

    #[test]
    fn no_line_like_bytes_make_the_parser_panic(
        line in r#"[a-z0-9.:]{0,12} ?-? - ?\[?[0-9]{0,2}/?[A-Z][a-z]{2}/[0-9:]{0,14} ?[+-]?[0-9]{0,5}\]? ?"?[ -~]{0,30}"?.{0,20}"#
    ) {
        let _ = parse(line.as_bytes());
        let _ = parse(format!("{{{line}").as_bytes());
    }

    #[test]
    fn what_was_written_is_read(
        client in "[0-9a-f.:]{1,20}",
        seconds in 0_u64..4_000_000_000,
        method in "[A-Z]{1,8}",
        target in field(),
        status in 100_u16..1000,
        bytes: Option<u32>,
        referer in field(),
        agent in field(),
    ) {
        // A target that seems to end in a version is split as a request line is.
        prop_assume!(!target.windows(6).any(|piece| piece == b" HTTP/"));
        let stamp = maitred_http::date::format_clf(seconds);
        let length = bytes.map_or("-".to_owned(), |bytes| bytes.to_string());
        let line = format!(
            "{client} - - [{}] \"{method} {} HTTP/1.1\" {status} {length} \"{}\" \"{}\"",
            String::from_utf8_lossy(&stamp), escaped(&target), escaped(&referer), escaped(&agent),
        );
        let entry = parse(line.as_bytes()).expect("it is a line");
        prop_assert_eq!(&*entry.client, client.as_bytes());
        prop_assert_eq!(entry.time_us, seconds * 1_000_000);
        let request = entry.request.expect("it has a request");
        prop_assert_eq!(&*request.method, method.as_bytes());
        prop_assert_eq!(&*request.target, &*target);
        prop_assert_eq!((entry.status, entry.body_bytes), (status, bytes.map(u64::from)));
        prop_assert_eq!(entry.referer.as_deref(), Some(&*referer));
        prop_assert_eq!(entry.user_agent.as_deref(), Some(&*agent));
    }

    #[test]
    fn what_was_written_as_json_is_read(target in "\\PC{1,30}", agent in "\\PC{1,30}", micros in 0_u32..1_000_000) {
        let line = serde_json::json!({
            "time": format!("1994-11-06T08:49:37.{micros:06}Z"), "remote": "::1", "method": "GET",
            "target": target, "status": 200, "body_bytes": 7, "user_agent": agent,
        });
        let line = line.to_string();
        let entry = parse(line.as_bytes()).expect("it is a line");
        prop_assert_eq!(entry.time_us, 784_111_777_000_000 + u64::from(micros));
        prop_assert_eq!(&*entry.request.expect("it has a request").target, target.as_bytes());
        prop_assert_eq!(entry.user_agent.as_deref(), Some(agent.as_bytes()));
    }
}
