use super::*;
use crate::{FromServer, PAYLOAD_BYTES_MAX};

#[test]
fn a_draft_that_is_dropped_leaves_nothing() {
    let mut out = b"before".to_vec();
    drop(begin_request(&mut out, 1, 2, RequestFlags::default(), 1).line("a", "b"));
    assert_eq!(out, b"before");
    drop(begin_request(&mut out, 1, 2, RequestFlags::default(), 1).head("GET", "/"));
    assert_eq!(out, b"before");
}

#[test]
fn a_frame_over_the_limit_is_taken_back() {
    let mut out = b"before".to_vec();
    for (limit, fits) in [(12 + 18 + 5, true), (12 + 18 + 4, false)] {
        out.truncate(6);
        let mut body = begin_request(&mut out, 1, 2, RequestFlags::default(), 0).head("GET", "/").body(None);
        body.extend(b"12345");
        assert_eq!(body.finish(limit), fits);
        assert_eq!(out.len() > 6, fits);
    }
}

#[test]
fn too_much_meta_is_taken_back() {
    let mut out = Vec::new();
    let long = "x".repeat(META_BYTES_MAX as usize);
    let head = begin_request(&mut out, 1, 2, RequestFlags::default(), 0).line("a", &long).head("GET", "/");
    assert!(!head.body(None).finish(PAYLOAD_BYTES_MAX));
    assert!(out.is_empty());
}

#[test]
fn frames_follow_one_another_in_one_buffer() {
    let mut out = Vec::new();
    for number in 0..3 {
        let meta = begin_request(&mut out, number, number, RequestFlags::default(), 0).number("queue_us", 12);
        assert!(meta.head("GET", "/").body(None).finish(PAYLOAD_BYTES_MAX));
    }
    let mut rest = out.as_slice();
    for number in 0..3 {
        let Ok(Some((FromServer::Request(request), used))) = FromServer::decode(rest, PAYLOAD_BYTES_MAX)
        else {
            panic!("does not decode")
        };
        assert_eq!((request.connection, request.meta("queue_us")), (number, Some("12")));
        rest = &rest[used..];
    }
}

#[test]
fn what_concerns_the_connection_is_not_forwarded() {
    for name in [
        "Connection",
        "TE",
        "transfer-encoding",
        "Proxy",
        "EXPECT",
        "Host",
        "content-length",
        "HTTP2-Settings",
    ] {
        assert!(!is_forwardable(name), "{name}");
    }
    for name in ["content_length", "Transfer_Encoding", "Keep_Alive", "PROXY_CONNECTION", "http2_settings"] {
        assert!(!is_forwardable(name), "{name}: a CGI variable would be the same");
    }
    for name in
        ["Accept", "Cookie", "Content-Type", "X-Forwarded-For", "Authorization", "api_key", "content_lengths"]
    {
        assert!(is_forwardable(name), "{name}");
    }
}

#[test]
fn names_of_any_length_are_put_into_lower_case() {
    for length in 0..=40 {
        for byte in 0..=u8::MAX {
            for at in 0..length {
                let mut name = vec![b'x'; length];
                name[at] = byte;
                let expected = name.to_ascii_lowercase();
                make_small(&mut name);
                assert_eq!(name, expected);
            }
        }
    }
}
