//! Heads that another decoder has judged: those of CGI responses.

use super::*;
use crate::fastcgi::head;
use crate::limits::ResponseBounds;

/// What becomes of a CGI response whose content comes in these parts.
fn pass_cgi(wanted: ResponsePolicy, cgi: &str, parts: &[&str]) -> Passed {
    let (head, _) = head::parse(cgi.as_bytes(), &ResponseBounds::DEFAULT).unwrap().expect("the whole head");
    let (mut filter, mut out) = (Filter::new(wanted), Vec::new());
    filter.begin(&head, &mut encoder(&mut out)).unwrap();
    assert!(filter.head_written());
    for part in parts {
        filter.feed(part.as_bytes(), &mut encoder(&mut out)).unwrap();
    }
    let end = filter.end(&mut encoder(&mut out));
    assert_eq!((filter.complete(), filter.lasts()), (end.is_ok(), false));
    Passed { out: String::from_utf8_lossy(&out).into_owned(), filter, end }
}

#[test]
fn content_without_a_length_comes_in_chunks() {
    let head = "Content-Type: text/html\n\n";
    let passed = pass_cgi(GET, head, &["hello", "", "!"]);
    assert_eq!(
        passed.out,
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\
         Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
    );
    assert_eq!((passed.filter.status(), passed.filter.body_bytes()), (Some(200), 6));
    assert!(passed.filter.keeps() && passed.end.is_ok());

    let old = pass_cgi(GET_10, head, &["hello"]);
    assert!(old.out.ends_with("\r\nConnection: close\r\n\r\nhello") && !old.out.contains("chunked"));
    assert!(!old.filter.keeps());

    let framed = pass_cgi(ResponsePolicy { framed: true, ..GET }, head, &["hello"]);
    assert!(framed.out.ends_with("\r\n\r\nhello") && !framed.out.contains("chunked"));
}

#[test]
fn a_stated_length_is_kept_to() {
    let head = "Status: 404 Not There\nContent-Length: 5\nDate: then\nContent-Type: a/b\n\n";
    for (parts, body, end) in [
        (&["hel", "lo"][..], "hello", Ok(())),
        (&["hello world"], "hello", Ok(())),
        (&["hell"], "hell", Err(Bad::BodyIncomplete)),
        (&[], "", Err(Bad::BodyIncomplete)),
    ] {
        let passed = pass_cgi(GET, head, parts);
        let start = "HTTP/1.1 404 Not There\r\nDate: then\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\n";
        assert_eq!((passed.out.as_str(), passed.end), (format!("{start}{body}").as_str(), end));
        assert_eq!(passed.filter.excess(), parts == ["hello world"]);
        assert_eq!(passed.filter.keeps(), end.is_ok());
    }
}

#[test]
fn responses_without_content_end_with_their_head() {
    for (wanted, cgi, length) in [
        (HEAD, "Content-Type: a/b\nContent-Length: 7\n\n", Some("7")),
        (HEAD, "Content-Type: a/b\n\n", None),
        (GET, "Status: 204\nContent-Length: 7\n\n", None),
        (GET, "Status: 304\nContent-Length: 7\n\n", Some("7")),
        (GET, "Status: 205\nContent-Length: 7\n\n", Some("0")),
        (GET, "Content-Length: 0\n\n", Some("0")),
    ] {
        let content = if cgi.contains("205") { "content" } else { "" };
        let passed = pass_cgi(wanted, cgi, &[content]);
        let (head, body) = passed.out.split_once("\r\n\r\n").unwrap();
        let stated = head.split("\r\n").find_map(|line| line.strip_prefix("Content-Length: "));
        assert_eq!((stated, body, passed.end), (length, "", Ok(())), "{cgi:?}");
        assert!(!head.contains("Transfer-Encoding") && passed.filter.keeps(), "{cgi:?}");
        let more = pass_cgi(wanted, cgi, &["content"]);
        assert_eq!((more.out == passed.out, more.filter.excess()), (true, true), "{cgi:?}");
    }
}

#[test]
fn no_success_stands_for_a_switch_that_did_not_happen() {
    let (head, _) = head::parse(b"Content-Type: a/b\n\n", &ResponseBounds::DEFAULT).unwrap().unwrap();
    let mut filter = Filter::new(ResponsePolicy { framed: true, switch: Some("websocket"), ..GET });
    let mut out = Vec::new();
    assert_eq!(filter.begin(&head, &mut encoder(&mut out)), Err(Bad::NotSwitched));
    assert_eq!(filter.feed(b"x", &mut encoder(&mut out)), Err(Bad::NotSwitched));
    assert!(out.is_empty() && !filter.head_written());
}
