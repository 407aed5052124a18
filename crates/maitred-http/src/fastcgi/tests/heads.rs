//! Response headers of CGI.

use super::super::head::{Head, HeadBuffer};
use crate::limits::{RESPONSE_FIELDS_MAX, RESPONSE_HEAD_BYTES_MAX, ResponseBounds};
use crate::response::Bad;

fn parse(bytes: &[u8]) -> Result<Option<(Head<'_>, usize)>, Bad> {
    super::super::head::parse(bytes, &ResponseBounds::DEFAULT)
}

fn whole(text: &[u8]) -> Head<'_> {
    let (head, used) = parse(text).unwrap().unwrap();
    assert_eq!(used, text.len());
    head
}

fn fields(text: &str) -> Vec<(&str, &str)> {
    let fields = whole(text.as_bytes()).fields();
    fields.map(|(name, value)| (name, std::str::from_utf8(value).unwrap())).collect()
}

fn refused(text: impl AsRef<[u8]>) -> Bad {
    parse(text.as_ref()).expect_err("refused")
}

#[test]
fn a_document_of_php_is_read() {
    let text = "X-Powered-By: PHP/8.2.29\r\nContent-type: text/html; charset=UTF-8\r\n\r\n";
    let head = whole(text.as_bytes());
    assert_eq!(
        (head.status, head.reason, head.local_redirect, head.content_length),
        (200, &b""[..], None, None)
    );
    assert_eq!(fields(text), [("X-Powered-By", "PHP/8.2.29"), ("Content-type", "text/html; charset=UTF-8")]);
    assert_eq!(head.field("content-type"), Some(&b"text/html; charset=UTF-8"[..]));
    assert_eq!(head.field("X-Powered"), None);
}

#[test]
fn what_follows_the_empty_line_is_content() {
    let (head, used) = parse(b"Status: 404 Not Found\nA: b\n\n\r\nC: d\r\n\r\n").unwrap().unwrap();
    assert_eq!((head.status, used), (404, 28));
    assert_eq!(head.fields().count(), 1);
    for text in ["\n", "\r\n"] {
        let (head, used) = parse(format!("{text}plain").as_bytes())
            .map(|found| found.map(|(h, u)| (h.status, u)))
            .unwrap()
            .unwrap();
        assert_eq!((head, used), (200, text.len()), "a header without any field");
    }
}

#[test]
fn line_ends_may_be_mixed() {
    let text = "A: 1\nB:2\r\nC:\t 3 \t\nD:\r\nE: a: b\n\r\n";
    assert_eq!(fields(text), [("A", "1"), ("B", "2"), ("C", "3"), ("D", ""), ("E", "a: b")]);
}

#[test]
fn the_status_says_number_and_phrase() {
    let cases: [(&str, u16, &str); 8] = [
        ("Status: 200 OK", 200, "OK"),
        ("status:500", 500, ""),
        ("STATUS: 404  Not  Found ", 404, "Not  Found"),
        ("Status: 599 ", 599, ""),
        ("Status: 600 Odd", 600, "Odd"),
        ("Status: 999", 999, ""),
        ("Location: http://a.example/", 302, ""),
        ("Location: /x\nStatus: 201 Created", 201, "Created"),
    ];
    for (lines, status, reason) in cases {
        let text = format!("{lines}\n\n");
        let head = whole(text.as_bytes());
        assert_eq!((head.status, head.reason), (status, reason.as_bytes()), "{lines}");
    }
    for status in [0, 99, 100, 101, 103, 199] {
        assert_eq!(refused(format!("Status: {status:03} X\n\n")), Bad::Status(status));
    }
    for value in ["", "2", "20", "2000", "OK", "-12", "+20", "20x OK", "200OK", "２００"] {
        assert!(matches!(refused(format!("Status: {value}\n\n")), Bad::Syntax(_)), "{value}");
    }
}

#[test]
fn a_local_redirect_is_a_path_without_a_status() {
    let local = |text: &str| {
        let text = format!("{text}\n\n");
        whole(text.as_bytes()).local_redirect.map(str::to_owned)
    };
    assert_eq!(local("Location: /other?x=1").as_deref(), Some("/other?x=1"));
    assert_eq!(local("Content-Type: text/html\nlocation:/").as_deref(), Some("/"));
    for client in [
        "Location: //evil.example/",
        "Location: http://a.example/x",
        "Location: other",
        "Location: /x#fragment",
        "Location: /a b",
        "Location: /\u{e4}",
        "Location:",
        "Status: 302 Found\nLocation: /other",
        "Status: 200\nLocation: /other",
    ] {
        assert_eq!(local(client), None, "{client}");
    }
    assert_eq!(fields("Location: //a.example/\r\n\r\n"), [("Location", "//a.example/")]);
}

#[test]
fn fields_that_are_not_for_the_client_are_left_out() {
    let text = "Status: 200\nContent-Length: 5\nConnection: close\nKeep-Alive: x\nProxy-Connection: x\nTE: x\nTrailer: x\n\
                Transfer-Encoding: chunked\nUpgrade: h2c\nX-CGI-Anything: 1\nSet-Cookie: a\nSet-Cookie: b\nX-CGI: c\n\n";
    assert_eq!(fields(text), [("Set-Cookie", "a"), ("Set-Cookie", "b"), ("X-CGI", "c")]);
    assert_eq!(whole(text.as_bytes()).content_length, Some(5));
}

#[test]
fn the_content_length_is_a_number() {
    let length = |value: &str| {
        let text = format!("Content-Length:{value}\n\n");
        parse(text.as_bytes()).map(|head| head.unwrap().0.content_length)
    };
    assert_eq!(length(" 0"), Ok(Some(0)));
    assert_eq!(length("18446744073709551615"), Ok(Some(u64::MAX)));
    for value in ["", "-1", "+1", "1 2", "1,1", "0x1", "18446744073709551616"] {
        assert!(matches!(length(value), Err(Bad::Framing(_))), "{value}");
    }
}

#[test]
fn fields_of_cgi_come_once() {
    for name in ["Status", "Location", "Content-Type", "Content-Length"] {
        let text = format!("{name}: 200\nX: y\n{}: 201\n\n", name.to_lowercase());
        assert_eq!(refused(text), Bad::Syntax(format!("{name} more than once").leak()));
        let text = format!("{name}: 200\nX: y\n{name}: 200\n\n");
        match name {
            // The same again says nothing (9110-8.6).
            "Content-Length" => assert_eq!(whole(text.as_bytes()).content_length, Some(200)),
            _ => assert_eq!(refused(text), Bad::Syntax(format!("{name} more than once").leak())),
        }
    }
}

#[test]
fn an_empty_type_is_none() {
    let text = b"Content-Type:\nX-Empty:\n\n";
    assert_eq!(whole(text).fields().collect::<Vec<_>>(), [("X-Empty", &b""[..])]);
}

#[test]
fn bytes_that_no_field_may_have_are_refused() {
    let name = Bad::Syntax("invalid byte in a field name, or a folded line");
    let value = Bad::Syntax("invalid byte in a field value");
    for text in [
        ": x",
        "A : x",
        " A: x",
        "A\t: x",
        "A\0: x",
        "\"A\": x",
        "A\u{7f}: x",
        "\u{e4}: x",
        "A: x\n folded: y",
    ] {
        assert_eq!(refused(format!("{text}\n\n")), name, "{text:?}");
    }
    for byte in (0..=31).filter(|byte| !matches!(byte, b'\t' | b'\n')).chain([127]) {
        let text = [b"Set-Cookie: a", &[byte][..], b"b\r\n\r\n"].concat();
        assert_eq!(refused(text), value, "{byte}");
        let text = [b"Set-Cookie: a", &[byte][..], b"\r\n\r\n"].concat();
        assert_eq!(refused(text), value, "{byte} at the end");
    }
    let text = [b"A: \xff\x80\tb".as_slice(), b"\n\n"].concat();
    assert_eq!(whole(&text).field("a"), Some(&b"\xff\x80\tb"[..]));
    assert_eq!(refused("no field\n\n"), Bad::Syntax("a line that is no field"));
    assert_eq!(refused("A: b\n folded\n\n"), Bad::Syntax("a line that is no field"));
    assert_eq!(refused("\r\r\n\n"), Bad::Syntax("a line that is no field"));
}

#[test]
fn a_status_line_is_explained() {
    let Bad::Syntax(reason) = refused("HTTP/1.1 200 OK\r\nA: b\r\n\r\n") else { panic!() };
    assert!(reason.contains("cgi.rfc2616_headers"), "{reason}");
}

#[test]
fn a_header_is_bounded() {
    let field = format!("A: {}\r\n", "x".repeat(RESPONSE_HEAD_BYTES_MAX - 8));
    assert_eq!(field.len() + 3, RESPONSE_HEAD_BYTES_MAX);
    for rest in ["", "\r", "x"] {
        assert_eq!(parse(&format!("{field}{rest}").as_bytes()[..RESPONSE_HEAD_BYTES_MAX - 3]), Ok(None));
    }
    assert!(parse(format!("{field}\r\n").as_bytes()).unwrap().is_some());
    assert!(parse(format!("{field}\r\n{field}").as_bytes()).unwrap().is_some());
    assert_eq!(refused(format!("{field}B:\r\n\r\n")), Bad::HeadTooBig(RESPONSE_HEAD_BYTES_MAX as u32));
    assert_eq!(refused(format!("{field}{field}\r\n")), Bad::HeadTooBig(RESPONSE_HEAD_BYTES_MAX as u32));

    let many = "A: b\n".repeat(RESPONSE_FIELDS_MAX);
    assert_eq!(whole(format!("{many}\n").as_bytes()).fields().count(), RESPONSE_FIELDS_MAX);
    assert_eq!(refused(format!("{many}A: b\n\n")), Bad::TooManyFields(RESPONSE_FIELDS_MAX as u16));
}

#[test]
fn a_header_in_parts_is_collected() {
    let text = b"Status: 404\r\nA: b\r\n\r\ncontent";
    for split in 0..text.len() {
        let (first, second) = text.split_at(split);
        let mut buffer = HeadBuffer::default();
        assert_eq!(buffer.incomplete(), Bad::NoResponse);
        let mut content = buffer.feed(first, &ResponseBounds::DEFAULT).unwrap().map(<[u8]>::to_vec);
        if let Some(content) = &mut content {
            content.extend_from_slice(second);
        } else {
            assert_eq!(buffer.incomplete(), if split == 0 { Bad::NoResponse } else { Bad::HeadIncomplete });
            content = buffer.feed(second, &ResponseBounds::DEFAULT).unwrap().map(<[u8]>::to_vec);
        }
        assert_eq!(content.as_deref(), Some(&b"content"[..]), "{split}");
        assert_eq!(parse(buffer.head()).unwrap().unwrap().1, 21);
    }
}

#[test]
fn a_header_without_end_is_not_collected_for_ever() {
    let mut buffer = HeadBuffer::default();
    let part = [b'x'; 1000];
    let answers: Vec<_> = (0..100)
        .map(|_| buffer.feed(&part, &ResponseBounds::DEFAULT))
        .take_while(|answer| *answer == Ok(None))
        .collect();
    assert_eq!(answers.len(), RESPONSE_HEAD_BYTES_MAX / 1000);
    assert_eq!(
        (buffer.feed(&part, &ResponseBounds::DEFAULT), buffer.head().len()),
        (Err(Bad::HeadTooBig(RESPONSE_HEAD_BYTES_MAX as u32)), RESPONSE_HEAD_BYTES_MAX)
    );
}
