//! Requests, and the heads that they become.

use super::*;
use crate::fuzzing::http1_text;
use crate::request::{Framing, HeadLimits, HeadRoom, Reject};

const LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 8192, header_count_max: 14, target_bytes_max: 100, body_bytes_max: 100 };

/// What came of a request with these fields.
fn requested(ended: bool, fields: &[(&str, &str)]) -> (RequestHead, Result<(), String>) {
    let mut session = Peer::new();
    let bytes = headers(1, ended, fields);
    let (mut at, mut head) = (0, RequestHead::default());
    head.put_field(b"an earlier", b"one");
    match session.session.next(session.now, &bytes, &mut at, &mut head) {
        Ok(Some(Event::Request { ended: said, .. })) => {
            assert_eq!((at, said), (bytes.len(), ended));
            (head, Ok(()))
        }
        Ok(Some(Event::Refused { status, .. })) => {
            assert_eq!(session.session.streams(), 0, "nothing is left");
            let heard = session.heard();
            assert_eq!(status.is_none(), heard == MALFORMED, "{status:?} {heard}");
            (head, Err(heard))
        }
        other => panic!("{other:?}"),
    }
}

/// The head of a request with these fields as text: method and target, and the other fields; or what was sent instead of one.
fn head_of(ended: bool, fields: &[(&str, &str)]) -> String {
    match requested(ended, fields) {
        (head, Ok(())) => {
            let text = String::from_utf8(http1_text(&head, b"")).unwrap();
            text.replacen(" HTTP/1.1\r\n", "|", 1).replace("\r\n", "|")
        }
        (_, Err(heard)) => heard,
    }
}

/// What the judge says of it, and the framing of its content.
fn judged(ended: bool, fields: &[(&str, &str)]) -> Result<Framing, Reject> {
    let (mut head, answer) = requested(ended, fields);
    answer.unwrap();
    head.judge(&LIMITS)?;
    let mut room = HeadRoom::default();
    let request = head.view(&mut room).unwrap();
    assert_eq!(request.upgrade, fields[0].1 == "CONNECT" && fields[1].0 == ":protocol");
    Ok(request.framing)
}

/// What the judge says of a request with fields behind those of GET.
fn status_with(fields: &[(&str, &str)]) -> Option<u16> {
    judged(true, &[&GET, fields].concat()).err().map(|reject| reject.status)
}

/// The same with fields behind those of GET.
fn head_with(fields: &[(&str, &str)]) -> String {
    head_of(true, &[&GET, fields].concat())
}

const MALFORMED: &str = "RST_STREAM 1 ProtocolError\n";
const GET_TEXT: &str = "GET /|host: a.example|";

#[test]
fn a_request_becomes_a_head() {
    assert_eq!(head_of(true, &GET), format!("{GET_TEXT}|"));
    let fields = [("user-agent", "x/1"), ("accept", "*/*"), ("empty", ""), ("tab", "a\tb")];
    assert_eq!(head_with(&fields), format!("{GET_TEXT}user-agent: x/1|accept: */*|empty: |tab: a\tb||"));
}

#[test]
fn pseudo_fields_come_in_any_order() {
    let mut fields = GET;
    for _ in 0..4 {
        fields.rotate_left(1);
        assert_eq!(head_of(true, &fields), format!("{GET_TEXT}|"), "{fields:?}");
        fields.swap(0, 2);
        assert_eq!(head_of(true, &fields), format!("{GET_TEXT}|"), "{fields:?}");
    }
}

#[test]
fn pseudo_fields_are_known_once_first_and_complete() {
    let with = |extra: &[(&'static str, &'static str)]| head_of(true, &[extra, &GET].concat());
    assert_eq!(with(&[(":unknown", "x")]), MALFORMED);
    assert_eq!(with(&[(":status", "200")]), MALFORMED, "is for responses");
    assert_eq!(with(&[("a", "b")]), MALFORMED, "behind a field");
    for index in 0..4 {
        assert_eq!(with(&[GET[index]]), MALFORMED, "{} twice", GET[index].0);
        let mut empty = GET;
        empty[index].1 = "";
        assert_eq!(head_of(true, &empty), MALFORMED, "{} is empty", GET[index].0);
    }
    for missing in [":method", ":path", ":scheme"] {
        let fields: Vec<_> = GET.into_iter().filter(|(name, _)| *name != missing).collect();
        assert_eq!(head_of(true, &fields), MALFORMED, "{missing} is missing");
    }
    assert_eq!(head_of(true, &[]), MALFORMED);
}

#[test]
fn pseudo_fields_have_no_white_space_or_control_characters() {
    for index in 0..4 {
        for byte in ["\0", "\t", "\n", "\r", " ", "\x1f"] {
            for value in [format!("{byte}{}", GET[index].1), format!("{}{byte}x", GET[index].1)] {
                let mut fields = GET;
                fields[index].1 = &value;
                assert_eq!(head_of(true, &fields), MALFORMED, "{:?}", fields[index]);
            }
        }
    }
}

#[test]
fn methods_paths_and_schemes() {
    let with = |method, path, scheme| {
        head_of(true, &[(":method", method), (":path", path), (":scheme", scheme), (":authority", "a")])
    };
    let starts = |method, path, scheme, line: &str| {
        assert!(with(method, path, scheme).starts_with(line), "{method} {path} {scheme}")
    };
    starts("OPTIONS", "*", "http", "OPTIONS *|host: a|");
    starts("M-SEARCH", "/a?b=c", "http", "M-SEARCH /a?b=c|");
    starts("GET", "/", "coap+tcp", "GET /|");
    for (method, path, scheme) in [
        ("GET", "*", "https"),
        ("GET", "a", "https"),
        ("GET", "http://a/", "https"),
        ("OPTIONS", "*x", "https"),
        ("G(T", "/", "https"),
        ("GET", "/", "1http"),
        ("GET", "/", "ht/tp"),
    ] {
        assert_eq!(with(method, path, scheme), MALFORMED, "{method} {path} {scheme}");
    }
}

#[test]
fn names_are_small_tokens() {
    for name in ["Accept", "a b", "a:b", "a\r\nb", "\0", "é", "a(", "x-Y", ""] {
        assert_eq!(head_with(&[(name, "v")]), MALFORMED, "{name:?}");
    }
    assert_eq!(head_with(&[("!#$%&'*+-.^_`|~09az", "v")]), format!("{GET_TEXT}!#$%&'*+-.^_`|~09az: v||"));
}

#[test]
fn values_end_no_line() {
    for at in 0..20 {
        for bad in ['\r', '\n', '\0'] {
            let mut value = "abcdefghijklmnopqrstu".to_owned();
            value.replace_range(at..=at, &bad.to_string());
            assert_eq!(head_with(&[("a", &value)]), MALFORMED, "{value:?}");
        }
    }
    for value in [" a", "a ", "\ta", "a\t", " "] {
        assert_eq!(head_with(&[("a", value)]), MALFORMED, "{value:?}");
    }
    // Other control characters change nothing here; the judge refuses them, wherever they are.
    assert_eq!(head_with(&[("a", "b\x01c\u{e9}")]), format!("{GET_TEXT}a: b\x01c\u{e9}||"));
    for at in 0..20 {
        for bad in ['\x01', '\x08', '\x0b', '\x1f', '\x7f'] {
            let mut value = "abcdefghijklmnopqrstu".to_owned();
            value.replace_range(at..=at, &bad.to_string());
            assert_eq!(status_with(&[("a", &value)]), Some(400), "{value:?}");
            assert_eq!(status_with(&[("cookie", "a"), ("cookie", &value)]), Some(400), "{value:?}");
            assert_eq!(status_with(&[("cookie", "a"), ("b", "c"), ("cookie", &value)]), Some(400));
        }
    }
    assert_eq!(status_with(&[("a", "b\tc \u{e9}\u{80}~")]), None);
}

#[test]
fn fields_of_the_connection_are_refused() {
    let refused = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    for name in refused {
        assert_eq!(head_with(&[(name, "x")]), MALFORMED, "{name}");
    }
    assert_eq!(head_with(&[("te", "gzip")]), MALFORMED);
    assert_eq!(head_with(&[("te", "trailers")]), format!("{GET_TEXT}te: trailers||"));
}

#[test]
fn host_says_what_authority_says() {
    assert_eq!(head_with(&[("host", "A.example")]), format!("{GET_TEXT}|"), "is not repeated");
    assert_eq!(head_with(&[("x", "y"), ("host", "b.example")]), MALFORMED);
    let without: Vec<_> = GET.into_iter().filter(|(name, _)| *name != ":authority").collect();
    let with_host = |hosts: &[(&'static str, &'static str)]| head_of(true, &[&without[..], hosts].concat());
    assert_eq!(with_host(&[("host", "b")]), "GET /|host: b||");
    assert_eq!(with_host(&[("host", "")]), MALFORMED);
    assert_eq!(with_host(&[("host", "b"), ("host", "c")]), MALFORMED);
    assert_eq!(
        with_host(&[("cookie", "a=1"), ("host", "b"), ("cookie", "c=2"), ("host", "b")]),
        "GET /|cookie: a=1; c=2|host: b||"
    );
    // The judge answers it with 400.
    assert_eq!(with_host(&[]), "GET /||");
    assert_eq!(judged(true, &without).map_err(|reject| reject.reason), Err("no Host"));
}

#[test]
fn parts_of_a_cookie_become_one() {
    let fields = [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3"), ("z", "w")];
    assert_eq!(head_with(&fields), format!("{GET_TEXT}cookie: a=1; b=2; c=3|x: y|z: w||"));
    assert_eq!(head_with(&[("cookie", "a=1"), ("cookie", "b\r\n")]), MALFORMED);
    assert_eq!(head_with(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b\r\n")]), MALFORMED);
    let scattered =
        [("cookie", "a"), ("cookie", "b"), ("x", "y"), ("cookie", "c"), ("z", "w"), ("cookie", "d")];
    assert_eq!(head_with(&scattered), format!("{GET_TEXT}cookie: a; b; c; d|x: y|z: w||"));
}

#[test]
fn a_body_has_a_length_or_is_chunked() {
    let post_with = |fields: &[(&'static str, &'static str)]| head_of(false, &[&POST[..], fields].concat());
    let line = "POST /|host: a.example|";
    assert_eq!(post_with(&[]), format!("{line}|"), "the judge makes chunks of it");
    assert_eq!(post_with(&[("content-length", "12")]), format!("{line}content-length: 12||"));
    assert_eq!(head_with(&[("content-length", "0")]), format!("{GET_TEXT}content-length: 0||"));
    assert_eq!(head_of(true, &POST), format!("{line}content-length: 0||"), "the end of the stream said it");
    assert_eq!(
        head_of(true, &[&POST[..], &[("content-length", "0")]].concat()),
        format!("{line}content-length: 0||")
    );
    assert_eq!(head_with(&[("content-length", "1")]), MALFORMED, "ended without it");
    for value in ["", "a", "-1", "+1", "1,1", "18446744073709551616"] {
        assert_eq!(post_with(&[("content-length", value)]), MALFORMED, "{value}");
    }
    assert_eq!(post_with(&[("content-length", "1"), ("content-length", "1")]), MALFORMED);
}

#[test]
fn content_has_the_length_that_was_said() {
    let ask = |frames: &[Vec<u8>]| {
        let mut peer = Peer::new();
        peer.say(&[headers(1, false, &[&POST[..], &[("content-length", "5")]].concat())]);
        peer.ask(frames)
    };
    assert_eq!(ask(&[data(1, false, b"hel"), data(1, true, b"lo")]), "data 1 \"hel\"\ndata 1 \"lo\" ended\n");
    assert_eq!(
        ask(&[data(1, false, b"hello"), headers(1, true, &[])]),
        "data 1 \"hello\"\ndata 1 \"\" ended\n"
    );
    let refused = "reset 1 user 0\nRST_STREAM 1 ProtocolError\n";
    assert_eq!(ask(&[data(1, false, b"hello!")]), refused);
    assert_eq!(ask(&[data(1, true, b"hell")]), refused);
    assert_eq!(ask(&[headers(1, true, &[])]), refused);
    let mut peer = Peer::new();
    peer.say(&[headers(1, false, &[&POST[..], &[("content-length", "0")]].concat())]);
    assert_eq!(peer.say(&[data(1, true, b"")]), "data 1 \"\" ended\n");
}

/// What came of these fields behind a body.
fn trailed(ended: bool, fields: &[(&str, &str)]) -> String {
    let mut peer = Peer::with(&Settings {
        header_list_bytes_max: 100_000,
        header_block_bytes_max: 100_000,
        header_count_max: 128,
        ..small()
    });
    peer.say(&[post(1)]);
    peer.ask(&[headers(1, ended, fields)])
}

const RESET: &str = "reset 1 user 0\nRST_STREAM 1 ProtocolError\n";

#[test]
fn trailers_are_judged_and_given() {
    assert_eq!(trailed(true, &[("a", "b"), ("x-sum", "1\t2 \u{e9}")]), "trailers 1 a=b x-sum=1\t2 \u{e9}\n");
    assert_eq!(trailed(true, &[]), "data 1 \"\" ended\n", "an end like others");
    assert_eq!(trailed(false, &[("a", "b")]), RESET, "trailers end a stream");
    for field in [(":path", "/"), (":status", "200"), ("A", "b"), ("a", "b\r\n"), ("", "x"), ("a", " b")] {
        assert_eq!(trailed(true, &[("c", "d"), field]), RESET, "{field:?}");
    }
    for value in ["\x01", "a\x7f", "\u{1f}"] {
        assert_eq!(trailed(true, &[("a", value)]), RESET, "it is not checked again: {value:?}");
    }
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te"] {
        assert_eq!(trailed(true, &[(name, "x")]), RESET, "{name}");
    }
}

#[test]
fn trailers_that_mean_something_else_there_are_dropped() {
    for name in crate::fields::NOT_IN_TRAILERS {
        if trailed(true, &[(name, "x")]) != RESET {
            assert_eq!(trailed(true, &[(name, "x")]), "data 1 \"\" ended\n", "{name}");
            assert_eq!(trailed(true, &[("a", "b"), (name, "x"), ("c", "d")]), "trailers 1 a=b c=d\n");
        }
    }
    assert_eq!(trailed(true, &[("te", "trailers"), ("content-length", "5")]), "data 1 \"\" ended\n");
}

#[test]
fn trailers_are_bounded_as_those_of_http_1() {
    let value = "x".repeat(248);
    // 256 bytes each, over HTTP/1.
    let fields = [("x-12", value.as_str()); 32];
    assert_eq!(trailed(true, &fields), format!("trailers 1{}\n", format!(" x-12={value}").repeat(32)));
    assert_eq!(trailed(true, &[&fields[..], &[("a", "b")]].concat()), RESET);
    let short = [("a", "b"); 32];
    assert_eq!(trailed(true, &short), format!("trailers 1{}\n", " a=b".repeat(32)));
    for one_more in ["a", "date"] {
        let many = [&short[..], &[(one_more, "b")]].concat();
        assert_eq!(trailed(true, &many), "data 1 \"\" ended\n", "all of them are left out");
    }
    let dropped = [("date", value.as_str()); 32];
    assert_eq!(trailed(true, &[&dropped[..], &[("a", "b")]].concat()), RESET, "what is dropped counts");
    let mut peer = Peer::new();
    peer.say(&[post(1)]);
    let many = [("a", "b"); 22];
    assert_eq!(peer.ask(&[headers(1, true, &many)]), RESET, "as many as fields of a head");
}

#[test]
fn connect_names_an_authority_only() {
    let connect = |fields: &[(&'static str, &'static str)]| {
        head_of(false, &[&[(":method", "CONNECT")], fields].concat())
    };
    assert_eq!(connect(&[(":authority", "a:443")]), "CONNECT a:443|host: a:443||");
    assert_eq!(connect(&[]), MALFORMED);
    assert_eq!(connect(&[(":authority", "a:443"), (":path", "/")]), MALFORMED);
    assert_eq!(connect(&[(":authority", "a:443"), (":scheme", "https")]), MALFORMED);
    assert_eq!(connect(&[(":authority", "a:443"), ("content-length", "1")]), MALFORMED);
}

const WEBSOCKET: [(&str, &str); 6] = [
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "https"),
    (":path", "/chat"),
    (":authority", "a"),
    ("sec-websocket-version", "13"),
];

#[test]
fn extended_connect_becomes_an_upgrade() {
    let text = head_of(false, &WEBSOCKET);
    assert_eq!(text, "GET /chat|host: a|sec-websocket-version: 13|connection: upgrade|upgrade: websocket||");
    let own_key = head_of(false, &[&WEBSOCKET[..], &[("sec-websocket-key", "x")]].concat());
    assert_eq!(own_key, text, "a key of the client's is none of HTTP/2's");
}

#[test]
fn extended_connect_has_rules_of_its_own() {
    for missing in [":scheme", ":path"] {
        let fields: Vec<_> = WEBSOCKET.into_iter().filter(|(name, _)| *name != missing).collect();
        assert_eq!(head_of(false, &fields), MALFORMED, "{missing}");
    }
    let mut fields = WEBSOCKET;
    fields[0].1 = "GET";
    assert_eq!(head_of(false, &fields), MALFORMED);
    fields = WEBSOCKET;
    for (protocol, text) in [("connect-udp", "connect-udp"), ("a/1", "a/1")] {
        fields[1].1 = protocol;
        let head =
            format!("GET /chat|host: a|sec-websocket-version: 13|connection: upgrade|upgrade: {text}||");
        assert_eq!(head_of(false, &fields), head, "who serves it decides about the protocol");
    }
    for bad in ["a,b", "a;b", "(a)", "a\"", "\u{e4}"] {
        fields[1].1 = bad;
        assert_eq!(head_of(false, &fields), MALFORMED, "{bad}");
    }
    let mut peer = Peer::with(&Settings { connect_protocol: false, ..small() });
    assert_eq!(peer.ask(&[headers(1, false, &WEBSOCKET)]), MALFORMED);
}

#[test]
fn heads_over_the_limits_get_431() {
    let value = "x".repeat(200);
    let large: Vec<_> = [&GET[..], &[("a", value.as_str()); 4]].concat();
    assert_eq!(head_of(true, &large), "HEADERS 1 :status=431 content-length=0 ended\n");
    assert_eq!(
        head_of(false, &large),
        "HEADERS 1 :status=431 content-length=0 ended\nPING part\0\0\0\u{1}\n"
    );
    let many: Vec<_> = [&GET[..], &[("a", ""); 18]].concat();
    assert_eq!(head_of(true, &many), "HEADERS 1 :status=431 content-length=0 ended\n");
    assert!(head_of(true, &many[..21]).starts_with(GET_TEXT));
    let mut peer = Peer::new();
    peer.say(&[headers(1, false, &large)]);
    peer.heard();
    assert_eq!(peer.ask(&[data(1, true, b"late"), get(3)]), "request 3 ended\n", "the connection goes on");
}

/// The judge reads the heads as it reads those of HTTP/1; [`crate::fuzzing::h2_session`] compares the two.
#[test]
fn the_judge_accepts_the_heads() {
    assert_eq!(judged(true, &GET), Ok(Framing::None));
    assert_eq!(judged(false, &POST), Ok(Framing::Chunked));
    assert_eq!(judged(false, &[&POST[..], &[("content-length", "7")]].concat()), Ok(Framing::Length(7)));
    assert_eq!(judged(false, &[&POST[..], &[("content-length", "0")]].concat()), Ok(Framing::None));
    assert_eq!(judged(false, &WEBSOCKET), Ok(Framing::None));
    let connect = [(":method", "CONNECT"), (":authority", "a:443")];
    assert_eq!(judged(false, &connect), Ok(Framing::None), "what goes through a tunnel is no content");
}

#[test]
fn the_judge_refuses_what_the_parser_of_http_1_does() {
    let with = |at: usize, value: &str| {
        let mut fields = GET;
        fields[at].1 = value;
        judged(true, &fields).err().map(|reject| reject.status)
    };
    for path in ["/\x7f", "/?\x7f", "/\u{e9}#", "/?\u{e9}#", "/#", "/\\"] {
        assert_eq!(with(1, path), Some(400), "{path:?}");
    }
    // Text beyond ASCII is encoded before it is judged, and counts as long as it is then.
    assert_eq!((with(1, "/\u{e9}"), with(1, "/?\u{e9}")), (None, None));
    assert_eq!(with(1, &format!("/{}", "\u{e9}".repeat(30))), Some(414));
    assert_eq!(with(1, &format!("/{}", "a".repeat(100))), Some(414));
    assert_eq!(with(0, &"A".repeat(65)), Some(501));
    for host in ["a\x7f", "a@b", "a/b", "\u{e9}", "a:b"] {
        assert_eq!(with(3, host), Some(400), "{host:?}");
    }
    let too_many = [("a", "b"); 14];
    assert_eq!(status_with(&too_many), Some(431), "with `host`");
    assert_eq!(status_with(&too_many[1..]), None);
    // What is too long is refused as that, and before anything else.
    let mut fields = [&GET[..], &[("a", "\x01")]].concat();
    let long = format!("/{}", "a".repeat(100));
    fields[1].1 = &long;
    assert_eq!(judged(true, &fields).map_err(|reject| reject.status), Err(414));
}

/// What the access log will say of a request that was refused.
#[test]
fn the_request_line_is_known_early() {
    let line = |fields: &[(&str, &str)]| {
        let (head, answer) = requested(true, fields);
        assert!(answer.is_err());
        head.request_line().map(|(method, target)| format!("{method} {target}"))
    };
    let large = "x".repeat(250);
    let known = [
        [&GET[..], &[("A", "b")]].concat(),
        [&GET[..], &[("connection", "close")]].concat(),
        // The first field is beyond what is looked at.
        [&GET[..], &[("cookie", large.as_str()); 4]].concat(),
        [&GET[..], &[("a", "b"); 40]].concat(),
        GET[..2].to_vec(),
    ];
    for fields in known {
        assert_eq!(line(&fields).as_deref(), Some("GET /"), "{fields:?}");
    }
    assert_eq!(line(&[(":method", "GET")]), None);
    assert_eq!(line(&[(":path", "/")]), None);
    assert_eq!(line(&[(":method", "G T"), (":path", "/")]), None);
    let connect = [(":method", "CONNECT"), (":authority", "a:443"), ("connection", "x")];
    assert_eq!(line(&connect).as_deref(), Some("CONNECT a:443"));
}
