use proptest::prelude::*;

use super::*;
use crate::{HEADER_BYTES, PAYLOAD_BYTES_MAX, begin_request};

fn request(
    meta: &[u8],
    fields: &[(&str, &str)],
    body: &[u8],
    descriptors: u16,
    flags: RequestFlags,
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut head = begin_request(&mut out, 11, 12, flags, descriptors).prepared(meta).head("GET", "/a?b");
    for (name, value) in fields {
        head.field(name, value.as_bytes());
    }
    let mut part = head.body((!body.is_empty()).then_some(body.len() as u64));
    part.extend(body);
    assert!(part.finish(PAYLOAD_BYTES_MAX));
    out
}

fn simple() -> Vec<u8> {
    request(b"a=b\n", &[("Host", "x")], b"body", 1, RequestFlags { keep: true, ..RequestFlags::default() })
}

fn rule_of(bytes: &[u8]) -> Rule {
    let error = FromServer::decode(bytes, PAYLOAD_BYTES_MAX).unwrap_err();
    assert_eq!(error.by, Side::Server);
    error.rule
}

#[test]
fn a_request_has_the_layout_of_the_specification() {
    let head = b"GET /a?b HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n";
    let mut expected = vec![12 + 4 + head.len() as u8 + 4, 0, 0, 0, 1, 1, 1, 0, 11, 0, 0, 0, 12, 0, 0, 0];
    expected.extend([4, 0, 0, 0, head.len() as u8, 0, 0, 0, 4, 0, 0, 0]);
    expected.extend(b"a=b\n");
    expected.extend(head);
    expected.extend(b"body");
    assert_eq!(simple(), expected);
}

#[test]
fn meta_is_found_by_key() {
    let bytes = request(b"mount=\nremote=[::1]:9\nodd=a=b\n", &[], b"", 0, RequestFlags::default());
    let Ok(Some((FromServer::Request(request), _))) = FromServer::decode(&bytes, PAYLOAD_BYTES_MAX) else {
        panic!("does not decode")
    };
    assert_eq!(request.meta("mount"), Some(""));
    assert_eq!(request.meta("remote"), Some("[::1]:9"));
    assert_eq!(request.meta("odd"), Some("a=b"));
    assert_eq!(request.meta("scheme"), None);
}

#[test]
fn a_user_stands_in_the_meta_and_nowhere_else() {
    let user = |meta: &str| {
        let fields = [("user", "root"), ("remote-user", "root"), ("x-remote-user", "root")];
        let bytes = request(meta.as_bytes(), &fields, b"", 0, RequestFlags::default());
        let Ok(Some((FromServer::Request(request), _))) = FromServer::decode(&bytes, PAYLOAD_BYTES_MAX)
        else {
            panic!("does not decode")
        };
        request.user().map(|(name, auth_type)| format!("{name}/{auth_type}"))
    };
    assert_eq!(user("user=änn=b c\nauth_type=Basic\n").as_deref(), Some("änn=b c/Basic"));
    assert_eq!(user("user=ann\n").as_deref(), Some("ann/"));
    for meta in ["", "auth_type=Basic\n", "user=\nauth_type=Basic\n", "user_of=ann\n"] {
        assert_eq!(user(meta), None, "{meta}");
    }
}

#[test]
fn bad_requests_are_named() {
    let parts = HEADER_BYTES + PART_LENGTHS_BYTES;
    for (at, value, rule) in [
        (5, 64, Rule::Flags { kind: 1, flags: 64 }),
        (5, 40, Rule::Flags { kind: 1, flags: 40 }),
        (5, 32, Rule::TwoBodies),
        (5, 24, Rule::Flags { kind: 1, flags: 24 }),
        (5, 8, Rule::TwoBodies),
        (6, 3, Rule::Descriptors { kind: 1, descriptors: 3 }),
        (6, 2, Rule::Descriptors { kind: 1, descriptors: 2 }),
        (HEADER_BYTES, 5, Rule::PartLengths),
        (HEADER_BYTES + 2, 1, Rule::PartLengths),
        (HEADER_BYTES + 4, 0, Rule::PartLengths),
        (HEADER_BYTES + 8, 5, Rule::PartLengths),
        (parts, 0xff, Rule::Meta),
        (parts + 1, b'x', Rule::Meta),
        (parts + 3, b'x', Rule::Meta),
        (parts + 6, 0, Rule::Head),
    ] {
        let mut bytes = simple();
        bytes[at] = value;
        assert_eq!(rule_of(&bytes), rule, "byte {at}");
    }
}

#[test]
fn a_payload_over_the_limit_of_welcome_is_refused() {
    let bytes = simple();
    let rule = Rule::PayloadLength { kind: 1, bytes: bytes.len() as u32 - 16 };
    assert_eq!(FromServer::decode(&bytes, 60).unwrap_err().rule, rule);
}

#[test]
fn small_frames_come_back() {
    let mut bytes = Vec::new();
    encode_welcome(&mut bytes, &Welcome { version: 1, payload_bytes_max: 77 });
    encode_forget(&mut bytes, 5);
    encode_ping(&mut bytes, 6);
    encode_cancel(&mut bytes, 5, 7);
    bytes.extend(Header { kind: 63, flags: 0x80, descriptors: 2, ..Header::default() }.to_bytes());
    encode_shutdown(&mut bytes);
    let mut rest = bytes.as_slice();
    let mut frames = Vec::new();
    while let Some((frame, used)) = FromServer::decode(rest, PAYLOAD_BYTES_MAX).unwrap() {
        frames.push(frame);
        rest = &rest[used..];
    }
    let expected = [
        FromServer::Welcome(Welcome { version: 1, payload_bytes_max: 77 }),
        FromServer::Forget { connection: 5 },
        FromServer::Ping { request: 6 },
        FromServer::Cancel { connection: 5, request: 7 },
        FromServer::Skipped { descriptors: 2 },
        FromServer::Shutdown,
    ];
    assert_eq!(frames, expected);
    let descriptors: Vec<u16> = frames.iter().map(FromServer::descriptors).collect();
    assert_eq!(descriptors, [0, 0, 0, 0, 2, 0]);
    assert!(rest.is_empty());
}

#[test]
fn trailers_come_back_in_lower_case() {
    let fields = [("X-Checksum", b"17".as_slice()), ("grpc-status", b""), ("x-a", b"b: c")];
    let mut bytes = Vec::new();
    assert!(encode_trailers(&mut bytes, 5, 7, fields));
    assert_eq!(bytes.get(5).map(|flags| flags & 0x80), Some(0x80), "an old worker has to skip it");
    let Ok(Some((FromServer::Trailers(trailers), used))) = FromServer::decode(&bytes, PAYLOAD_BYTES_MAX)
    else {
        panic!("does not decode")
    };
    assert_eq!((trailers.connection, trailers.request, used), (5, 7, bytes.len()));
    let back: Vec<_> = trailers.fields().collect();
    assert_eq!(back, [("x-checksum", b"17".as_slice()), ("grpc-status", b""), ("x-a", b"b: c")]);
}

#[test]
fn trailers_that_cannot_be_sent_leave_nothing() {
    let mut out = b"before".to_vec();
    let mut refused = |fields: &[(&str, &[u8])]| {
        assert!(!encode_trailers(&mut out, 1, 2, fields.iter().copied()));
        assert_eq!(out, b"before");
    };
    refused(&[]);
    refused(&[("a b", b"c")]);
    refused(&[("a", b"b"), ("c", b"d\r\ne: f")]);
    refused(&[("x", b"y".as_slice()); TRAILERS_MAX + 1]);
    let long = vec![b'y'; TRAILER_BYTES_MAX - 4];
    refused(&[("x", &long)]);
    assert!(encode_trailers(&mut out, 1, 2, [("x", &long[1..])]));
    let mut out = Vec::new();
    assert!(encode_trailers(&mut out, 1, 2, [("x", b"y".as_slice()); TRAILERS_MAX]));
}

#[test]
fn what_is_no_trailers_is_refused() {
    let frame = |payload: &[u8]| {
        let payload_bytes = payload.len() as u32;
        let header = Header { kind: kind::TRAILERS, payload_bytes, flags: 0x80, ..Header::default() };
        [&header.to_bytes(), payload].concat()
    };
    let bad: [&[u8]; 9] = [
        b"",
        b"a: b",
        b"a: b\n",
        b"a:b\r\n",
        b": b\r\n",
        b"A: b\r\n",
        b"a: b\0\r\n",
        b"a: b\r\n\r\n",
        b"a: b\rc\r\n",
    ];
    for payload in bad {
        assert_eq!(rule_of(&frame(payload)), Rule::Trailers, "{}", payload.escape_ascii());
    }
    assert_eq!(rule_of(&frame(&b"x: y\r\n".repeat(TRAILERS_MAX + 1))), Rule::Trailers);
    assert_eq!(rule_of(&frame(&[b"x: ", [b'y'; 8190].as_slice(), b"\r\n"].concat())), Rule::Trailers);
}

#[test]
fn frames_of_the_other_side_are_refused() {
    let header = Header { kind: kind::DONE, ..Header::default() };
    assert_eq!(rule_of(&header.to_bytes()), Rule::Kind(kind::DONE));
}

/// A request without fields, its flags, its descriptors, and its body in the frame.
fn plain(flags: RequestFlags, descriptors: u16, content_length: Option<u64>, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut part = begin_request(&mut out, 1, 2, flags, descriptors).head("POST", "/").body(content_length);
    part.extend(body);
    assert!(part.finish(PAYLOAD_BYTES_MAX));
    out
}

#[test]
fn a_body_in_a_file_comes_last_and_states_its_length() {
    let flags = RequestFlags { body_fd: true, ..RequestFlags::default() };
    for (descriptors, passes_connection) in [(1, false), (2, true)] {
        let bytes = plain(flags, descriptors, Some(5_000_000_000), b"");
        let Ok(Some((FromServer::Request(request), _))) = FromServer::decode(&bytes, PAYLOAD_BYTES_MAX)
        else {
            panic!("does not decode")
        };
        assert_eq!(request.passes_connection(), passes_connection);
        assert!(request.head.ends_with(b"content-length: 5000000000\r\n\r\n"));
    }
    let none = Rule::Descriptors { kind: 1, descriptors: 0 };
    assert_eq!(rule_of(&plain(flags, 0, Some(5), b"")), none);
    assert_eq!(rule_of(&plain(flags, 1, Some(5), b"12345")), Rule::TwoBodies);
}

#[test]
fn a_body_on_the_response_descriptor_comes_without_a_descriptor_of_its_own() {
    let flags = RequestFlags { body_stream: true, ..RequestFlags::default() };
    for descriptors in [0, 1] {
        let bytes = plain(flags, descriptors, Some(5_000_000_000), b"");
        let Ok(Some((FromServer::Request(request), _))) = FromServer::decode(&bytes, PAYLOAD_BYTES_MAX)
        else {
            panic!("does not decode")
        };
        assert_eq!((request.flags, request.passes_connection()), (flags, descriptors == 1));
    }
    assert_eq!(rule_of(&plain(flags, 1, Some(5), b"12345")), Rule::TwoBodies);
    let two = RequestFlags { body_fd: true, ..flags };
    assert_eq!(rule_of(&plain(two, 1, Some(5), b"")), Rule::Flags { kind: 1, flags: two.bits() });
}

#[test]
fn early_bytes_of_another_protocol_are_the_body() {
    let flags = RequestFlags { may_detach: true, keep: true, ..RequestFlags::default() };
    let bytes = plain(flags, 1, None, b"\x81\x80");
    let Ok(Some((FromServer::Request(request), _))) = FromServer::decode(&bytes, PAYLOAD_BYTES_MAX) else {
        panic!("does not decode")
    };
    assert_eq!((request.flags, request.body, request.passes_connection()), (flags, &b"\x81\x80"[..], true));
}

proptest! {
    #[test]
    fn requests_come_back(
        meta in "([a-z]{1,8}=[ -~]{0,20}\n){0,5}",
        fields in proptest::collection::vec(("[A-Za-z-]{1,12}", "[!-~]{0,30}"), 0..10),
        body in proptest::collection::vec(any::<u8>(), 0..500),
        passes in 0..=1_u16,
        bits in 0..24_u8,
    ) {
        let flags = RequestFlags::from_bits(bits).unwrap();
        let descriptors = passes + u16::from(flags.body_fd);
        let body = if flags.body_fd { Vec::new() } else { body };
        let fields: Vec<_> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let bytes = request(meta.as_bytes(), &fields, &body, descriptors, flags);
        let Ok(Some((FromServer::Request(request), used))) = FromServer::decode(&bytes, PAYLOAD_BYTES_MAX) else {
            return Err(TestCaseError::fail("does not decode"));
        };
        prop_assert_eq!(used, bytes.len());
        prop_assert_eq!((request.connection, request.request, request.descriptors), (11, 12, descriptors));
        prop_assert_eq!((request.flags, request.passes_connection()), (flags, passes == 1));
        prop_assert_eq!(request.meta, meta);
        prop_assert_eq!(request.body, body);
        let head = std::str::from_utf8(request.head).unwrap();
        prop_assert!(head.starts_with("GET /a?b HTTP/1.1\r\n"));
        let mut expected = String::new();
        for (name, value) in fields {
            expected += &format!("{}: {value}\r\n", name.to_ascii_lowercase());
        }
        prop_assert!(head.contains(&expected));
    }

    #[test]
    fn any_split_gives_the_same_frames(cuts in proptest::collection::vec(0..400_usize, 0..8)) {
        let mut bytes = simple();
        encode_forget(&mut bytes, 5);
        bytes.extend(simple());
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % bytes.len()).collect();
        cuts.sort_unstable();
        cuts.push(bytes.len());
        let (mut from, mut count) = (0, 0);
        for cut in cuts {
            while let Some((frame, used)) = FromServer::decode(&bytes[from..cut], PAYLOAD_BYTES_MAX).unwrap() {
                prop_assert_eq!(matches!(frame, FromServer::Request(_)), count != 1);
                from += used;
                count += 1;
            }
        }
        prop_assert_eq!((from, count), (bytes.len(), 3));
    }
}
