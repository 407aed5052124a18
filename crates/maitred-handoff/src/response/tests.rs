use super::*;
use crate::{FromServer, PAYLOAD_BYTES_MAX, RequestFlags, begin_request};

fn encoded(status: u16, fields: &[(&str, &[u8])]) -> Option<String> {
    let mut out = b"before".to_vec();
    let written = encode_informational(&mut out, status, fields);
    let text = String::from_utf8(out).ok()?;
    assert_eq!(text.len() > 6, written);
    written.then(|| text[6..].to_owned())
}

#[test]
fn fields_of_one_hop_are_not_sent() {
    let lists: [&[u8]; 2] = [b"close, X-Named ", b"other"];
    let sendable = |name: &str, status| is_sendable(name, status, lists);
    for name in ["Connection", "keep-alive", "Proxy-Connection", "TE", "Trailer", "transfer-encoding"] {
        assert!(!sendable(name, 200) && !sendable(name, 426), "{name}");
    }
    assert!(!sendable("x-named", 200) && !sendable("Other", 200) && sendable("x-name", 200));
    assert!(!sendable("Upgrade", 200) && sendable("Upgrade", 426) && sendable("upgrade", 101));
}

#[test]
fn an_informational_response_holds_what_may_stand_there() {
    let fields: [(&str, &[u8]); 6] = [
        ("Link", b"</a>; rel=preload"),
        ("Content-Length", b"5"),
        ("Connection", b"x-named"),
        ("X-Named", b"1"),
        ("Upgrade", b"x"),
        ("X-B", b""),
    ];
    let wanted = "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nX-B: \r\n\r\n";
    assert_eq!(encoded(103, &fields).as_deref(), Some(wanted));
    assert_eq!(encoded(102, &[]).as_deref(), Some("HTTP/1.1 102 \r\n\r\n"));
}

#[test]
fn what_is_no_informational_response_is_not_written() {
    for status in [0, 100, 101, 200, 999] {
        assert_eq!(encoded(status, &[]), None, "{status}");
    }
    for field in [("a b", "1"), ("", "1"), ("a", "1\r\nb: 2"), ("a", "\0"), ("a", "\n")] {
        assert_eq!(encoded(103, &[("Link", b"l"), (field.0, field.1.as_bytes())]), None, "{field:?}");
    }
}

#[test]
fn informational_responses_have_a_largest_size() {
    let rest = "HTTP/1.1 103 Early Hints\r\nLink: \r\n\r\n".len();
    let value = vec![b'l'; INFORMATIONAL_BYTES_MAX - rest];
    let longer = vec![b'l'; INFORMATIONAL_BYTES_MAX - rest + 1];
    assert_eq!(encoded(103, &[("Link", &value)]).map(|text| text.len()), Some(INFORMATIONAL_BYTES_MAX));
    assert_eq!(encoded(103, &[("Link", &longer)]), None);
}

/// The end of a response with these trailers; `None` if they were left out.
fn last_chunk(trailers: &[(&str, &[u8])]) -> Option<String> {
    let mut out = b"before".to_vec();
    let written = encode_last_chunk(&mut out, trailers);
    let text = String::from_utf8(out).ok()?;
    assert!(written || text == "before0\r\n\r\n", "{text}");
    written.then(|| text[6..].to_owned())
}

#[test]
fn trailers_stand_behind_the_last_chunk() {
    assert_eq!(last_chunk(&[]).as_deref(), Some("0\r\n\r\n"));
    let fields: [(&str, &[u8]); 4] =
        [("X-Sum", b"1"), ("Content-Length", b"5"), ("set-cookie", b"a=b"), ("etag", b"")];
    assert_eq!(last_chunk(&fields).as_deref(), Some("0\r\nX-Sum: 1\r\netag: \r\n\r\n"));
    for field in [("a b", "1"), ("", "1"), ("a", "1\r\nb: 2"), ("a", "\0")] {
        assert_eq!(last_chunk(&[("X-Sum", b"1"), (field.0, field.1.as_bytes())]), None, "{field:?}");
    }
}

#[test]
fn trailers_are_bounded() {
    let many = [("x", b"y".as_slice()); TRAILERS_MAX + 1];
    assert!(last_chunk(&many[1..]).is_some_and(|text| text.len() == 5 + 6 * TRAILERS_MAX));
    assert_eq!(last_chunk(&many), None);
    let value = vec![b'y'; TRAILER_BYTES_MAX - 4];
    assert_eq!(last_chunk(&[("x", &value)]), None);
    assert!(last_chunk(&[("x", &value[1..])]).is_some_and(|text| text.len() == 5 + TRAILER_BYTES_MAX));
}

#[test]
fn the_server_has_the_same_idea_of_trailers() {
    assert_eq!(NOT_IN_TRAILERS, maitred_http::fields::NOT_IN_TRAILERS);
    assert_eq!(TRAILERS_MAX, maitred_http::limits::TRAILERS_MAX);
    assert_eq!(TRAILER_BYTES_MAX + 2, maitred_http::limits::TRAILER_BYTES_MAX as usize);
}

/// What a request says that has this meta part.
fn asked<T>(meta: &str, flags: RequestFlags, said: impl FnOnce(&Request<'_>) -> T) -> T {
    let mut out = Vec::new();
    let part = begin_request(&mut out, 1, 2, flags, 0).prepared(meta.as_bytes());
    assert!(part.head("GET", "/").body(None).finish(PAYLOAD_BYTES_MAX));
    let Ok(Some((FromServer::Request(request), _))) = FromServer::decode(&out, PAYLOAD_BYTES_MAX) else {
        panic!("does not decode")
    };
    said(&request)
}

#[test]
fn trailers_are_for_responses_in_chunks() {
    let flags = |http10, head| RequestFlags { http10, head, ..RequestFlags::default() };
    let taken = |meta: &str, flags| asked(meta, flags, |request| request.trailers());
    assert!(taken("trailers=1\n", flags(false, false)));
    assert!(!taken("trailers=1\n", flags(true, false)) && !taken("trailers=1\n", flags(false, true)));
    assert!(!taken("trailers=0\n", flags(false, false)) && !taken("", flags(false, false)));
}

#[test]
fn the_meta_part_says_where_no_server_is_named() {
    let named = |meta: &str| asked(meta, RequestFlags::default(), |request| request.server_header());
    assert!(!named("remote=[::1]:7\nserver_header=0\nqueue_us=1\n"));
    assert!(named("") && named("server_header=1\n") && named("user=x server_header=0\nserver_header=\n"));
}

#[test]
fn the_meta_part_says_what_is_allowed() {
    let allowed = |meta: &str, http10: bool| {
        let flags = RequestFlags { http10, ..RequestFlags::default() };
        asked(meta, flags, |request| (request.early_hints(), request.sendfile_root().map(str::to_owned)))
    };
    assert_eq!(
        allowed("early_hints=1\nsendfile_root=/srv/a=b\n", false),
        (true, Some("/srv/a=b".to_owned()))
    );
    assert_eq!(allowed("early_hints=1\n", true), (false, None));
    assert_eq!(allowed("early_hints=0\nsendfile_root=\n", false), (false, None));
    assert_eq!(allowed("", false), (false, None));
}
