use std::time::Instant;

use maitred_http::request::Version;
use proptest::prelude::*;

use super::*;

pub(super) fn clock() -> Clock {
    Clock {
        now: Instant::now(),
        unix_secs: 784_111_777,
        unix_micros: 4_321,
        steady_us: 0,
        http_date: *b"Sun, 06 Nov 1994 08:49:37 GMT",
    }
}

fn line(clock: &Clock) -> Line<'_> {
    Line {
        clock,
        remote: b"192.0.2.7",
        user: None,
        request: RequestLine::Parsed { method: "GET", target: "/a?b=c", version: Version::Http11 },
        host: b"example.com",
        status: 200,
        body_bytes: 1234,
        head: None,
        referer: Some(b"http://example.com/"),
        user_agent: Some(b"curl/8.0"),
        request_id: None,
        duration_us: 1_530,
        pool: None,
        queue_us: 0,
        cache: "",
        upstream: None,
    }
}

fn text(format: impl Into<LogFormat>, line: &Line<'_>) -> String {
    let mut out = Vec::new();
    Formatter::new(format).plain().append(line, &mut out);
    String::from_utf8(out).expect("every format is UTF-8")
}

#[test]
fn combined_is_the_format_of_the_field() {
    let clock = clock();
    assert_eq!(
        text(AccessFormat::Combined, &line(&clock)),
        "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b=c HTTP/1.1\" 200 1234 \
         \"http://example.com/\" \"curl/8.0\"\n"
    );
}

#[test]
fn combined_marks_what_is_absent() {
    let clock = clock();
    let absent = Line {
        request: RequestLine::Refused(b""),
        status: 408,
        body_bytes: 0,
        referer: None,
        user_agent: None,
        ..line(&clock)
    };
    assert_eq!(
        text(AccessFormat::Combined, &absent),
        "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"-\" 408 - \"-\" \"-\"\n"
    );
}

#[test]
fn combined_escapes_what_could_forge_a_line() {
    let clock = clock();
    let hostile = Line {
        request: RequestLine::Refused(b"GET /\x01\" 200 1 \"\xff"),
        user_agent: Some(b"a\\\"\n127.0.0.1 - - [x] \x1b[31m\x7f"),
        ..line(&clock)
    };
    assert_eq!(
        text(AccessFormat::Combined, &hostile),
        "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /\\x01\\\" 200 1 \\\"\\xff\" 200 1234 \
         \"http://example.com/\" \"a\\\\\\\"\\x0a127.0.0.1 - - [x] \\x1b[31m\\x7f\"\n"
    );
}

#[test]
fn json_names_every_field() {
    let clock = clock();
    let handed_off = Line {
        pool: Some("web"),
        queue_us: 7,
        cache: "collapsed",
        request_id: Some(b"a\"1"),
        ..line(&clock)
    };
    assert_eq!(
        text(AccessFormat::Json, &handed_off),
        "{\"time\":\"1994-11-06T08:49:37.004321Z\",\"remote\":\"192.0.2.7\",\"host\":\"example.com\",\
         \"method\":\"GET\",\"target\":\"/a?b=c\",\"version\":\"HTTP/1.1\",\"status\":200,\"body_bytes\":1234,\
         \"duration_us\":1530,\"referer\":\"http://example.com/\",\"user_agent\":\"curl/8.0\",\"request_id\":\"a\\\"1\",\"pool\":\"web\",\
         \"queue_us\":7,\"cache\":\"collapsed\"}\n"
    );
}

#[test]
fn a_line_says_what_the_server_did_as_far_as_it_did() {
    let clock = clock();
    let tried = UpstreamLine {
        server: "a:80".into(),
        status: None,
        attempts: 2,
        connect_us: 5,
        header_us: None,
        response_us: None,
    };
    let answered =
        UpstreamLine { status: Some(404), header_us: Some(6), response_us: Some(1_234_567), ..tried.clone() };
    for (upstream, expected) in [
        (tried, "\"upstream\":\"a:80\",\"upstream_attempts\":2,\"upstream_connect_us\":5}\n"),
        (
            answered,
            "\"upstream\":\"a:80\",\"upstream_attempts\":2,\"upstream_status\":404,\"upstream_connect_us\":5,\
             \"upstream_header_us\":6,\"upstream_response_us\":1234567}\n",
        ),
    ] {
        let written = text(AccessFormat::Json, &Line { upstream: Some(upstream), ..line(&clock) });
        assert!(written.ends_with(expected), "{written}");
    }
}

#[test]
fn json_leaves_out_what_is_absent() {
    let clock = clock();
    let bare = Line {
        request: RequestLine::Refused(b"\x16\x03"),
        host: b"",
        referer: None,
        user_agent: None,
        ..line(&clock)
    };
    assert_eq!(
        text(AccessFormat::Json, &bare),
        "{\"time\":\"1994-11-06T08:49:37.004321Z\",\"remote\":\"192.0.2.7\",\"refused\":\"\\u0016\\u0003\",\
         \"status\":200,\"body_bytes\":1234,\"duration_us\":1530}\n"
    );
}

#[test]
fn human_is_short() {
    let clock = clock();
    let slow = Line { pool: Some("web"), ..line(&clock) };
    assert_eq!(
        text(AccessFormat::Human, &slow),
        "08:49:37  200  GET /a?b=c  1.2 kB  1.5 ms  192.0.2.7  web\n"
    );
    let mut coloured = Vec::new();
    Formatter::new(AccessFormat::Human).append(&line(&clock), &mut coloured);
    assert!(coloured.starts_with(b"\x1b[2m08:49:37\x1b[0m  \x1b[32m200\x1b[0m"));
}

#[test]
fn the_stamp_follows_the_clock() {
    let mut formatter = Formatter::new(AccessFormat::Combined);
    let (first, mut second) = (clock(), clock());
    second.unix_secs += 1;
    second.http_date = *b"Sun, 06 Nov 1994 08:49:38 GMT";
    let mut out = Vec::new();
    formatter.append(&line(&first), &mut out);
    formatter.append(&line(&first), &mut out);
    formatter.append(&line(&second), &mut out);
    let text = String::from_utf8(out).expect("ASCII");
    let seconds: Vec<_> = text.lines().map(|line| &line[33..35]).collect();
    assert_eq!(seconds, ["37", "37", "38"]);
}

#[test]
fn off_writes_nothing() {
    assert_eq!(text(AccessFormat::Off, &line(&clock())), "");
}

/// Splits a Combined line as a log reader does: a quoted field ends at the first quote without a backslash.
fn quoted_fields(line: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut chars = line.chars();
    while chars.by_ref().any(|char| char == '"') {
        let mut field = String::new();
        while let Some(char) = chars.next().filter(|char| *char != '"') {
            field.push(char);
            if char == '\\' {
                field.extend(chars.next());
            }
        }
        fields.push(field);
    }
    fields
}

proptest! {
    #[test]
    fn no_bytes_leave_their_field(request: Vec<u8>, referer: Vec<u8>, agent: Vec<u8>, host: Vec<u8>) {
        let clock = clock();
        let line = Line {
            request: RequestLine::Refused(&request),
            referer: Some(&referer),
            user_agent: Some(&agent),
            host: &host,
            ..line(&clock)
        };
        for format in [AccessFormat::Combined, AccessFormat::Human] {
            let text = text(format, &line);
            prop_assert!(text.ends_with('\n'));
            prop_assert!(text[..text.len() - 1].bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{text:?}");
        }
        prop_assert_eq!(quoted_fields(&text(AccessFormat::Combined, &line)).len(), 3);

        let json = text(AccessFormat::Json, &line);
        prop_assert_eq!(json.find('\n'), Some(json.len() - 1));
        let value: serde_json::Value = serde_json::from_str(&json).expect("valid JSON");
        prop_assert_eq!(value["user_agent"].as_str(), Some(&*String::from_utf8_lossy(&agent)));
        prop_assert_eq!(value["refused"].as_str(), Some(&*String::from_utf8_lossy(&request)));
    }

    #[test]
    fn the_fast_path_agrees_with_the_slow_one(bytes: Vec<u8>) {
        let plain = bytes.iter().all(|&byte| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\');
        prop_assert_eq!(escape::is_plain(&bytes), plain);
    }
}
