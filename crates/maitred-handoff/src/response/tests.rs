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

#[test]
fn the_meta_part_says_what_is_allowed() {
    let allowed = |meta: &str, http10: bool| {
        let mut out = Vec::new();
        let flags = RequestFlags { http10, ..RequestFlags::default() };
        let part = begin_request(&mut out, 1, 2, flags, 0).prepared(meta.as_bytes());
        assert!(part.head("GET", "/").body(None).finish(PAYLOAD_BYTES_MAX));
        let Ok(Some((FromServer::Request(request), _))) = FromServer::decode(&out, PAYLOAD_BYTES_MAX) else {
            panic!("does not decode")
        };
        (request.early_hints(), request.sendfile_root().map(str::to_owned))
    };
    assert_eq!(
        allowed("early_hints=1\nsendfile_root=/srv/a=b\n", false),
        (true, Some("/srv/a=b".to_owned()))
    );
    assert_eq!(allowed("early_hints=1\n", true), (false, None));
    assert_eq!(allowed("early_hints=0\nsendfile_root=\n", false), (false, None));
    assert_eq!(allowed("", false), (false, None));
}
