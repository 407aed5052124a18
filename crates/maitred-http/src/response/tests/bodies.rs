//! What becomes of the content.

use super::*;

/// Head and body of what went out.
fn split(passed: &Passed) -> (&str, &str) {
    passed.out.split_once("\r\n\r\n").unwrap()
}

#[test]
fn content_of_stated_length_ends_there() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    for (body, sent, end) in [
        ("hello", "hello", Ok(())),
        ("hell", "hell", Err(Bad::BodyIncomplete)),
        ("", "", Err(Bad::BodyIncomplete)),
        ("hello world", "hello", Ok(())),
    ] {
        let passed = pass(GET, &format!("{head}{body}"));
        assert_eq!((split(&passed).1, passed.end), (sent, end));
        let excess = body.len() > 5;
        assert_eq!(passed.filter.excess(), excess);
        // The client gets what was announced to it, so that its connection goes on.
        assert_eq!((passed.filter.keeps(), passed.filter.lasts()), (end.is_ok(), end.is_ok() && !excess));
        assert_eq!(passed.filter.body_bytes(), sent.len() as u64);
        assert!(passed.filter.head_written());
    }
}

#[test]
fn excess_may_come_late() {
    let mut filter = Filter::new(GET);
    let mut out = Vec::new();
    filter.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", &mut encoder(&mut out)).unwrap();
    assert!(filter.keeps());
    let before = out.clone();
    assert_eq!(filter.feed(b"b", &mut encoder(&mut out)), Ok(Progress { consumed: 1, complete: true }));
    assert!(filter.keeps() && filter.excess() && !filter.lasts());
    assert_eq!(out, before);
}

#[test]
fn chunks_are_taken_apart_and_made_anew() {
    let response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                    00A;x=y\r\n0123456789\r\n11\r\nabcdefghijklmnopq\r\n0\r\nT: 1\r\n\r\n";
    let passed = pass(GET, response);
    let (head, body) = split(&passed);
    assert!(head.ends_with("\r\nTransfer-Encoding: chunked\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!(body, "a\r\n0123456789\r\n11\r\nabcdefghijklmnopq\r\n0\r\n\r\n");
    assert_eq!((passed.end, passed.filter.keeps(), passed.filter.body_bytes()), (Ok(()), true, 27));
    let excess = pass(GET, &format!("{response}x"));
    assert_eq!((&excess.out, excess.filter.keeps(), excess.filter.lasts()), (&passed.out, true, false));

    let passed = pass(GET_10, response);
    let (head, body) = split(&passed);
    assert!(head.ends_with("\r\nConnection: close") && !head.contains("chunked"));
    assert_eq!(body, "0123456789abcdefghijklmnopq");
    assert_eq!((passed.end, passed.filter.keeps()), (Ok(()), false));
}

#[test]
fn a_chunked_body_must_be_whole_and_well_formed() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let cut = pass(GET, &format!("{head}2\r\nab\r\n0\r\n"));
    assert_eq!((split(&cut).1, cut.end), ("2\r\nab\r\n", Err(Bad::BodyIncomplete)));
    let broken = pass(GET, &format!("{head}2\r\nabc\r\n0\r\n\r\n"));
    assert_eq!(split(&broken).1, "2\r\nab\r\n");
    assert!(matches!(broken.end, Err(Bad::Chunked(_))) && broken.filter.head_written());
}

#[test]
fn content_without_framing_gets_one() {
    let parts: [&[u8]; 4] = [b"HTTP/1.0 200 OK\r\n\r\n", b"ab", b"", b"cde"];
    let passed = pass_parts(GET, &parts);
    assert_eq!((split(&passed).1, passed.end), ("2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n", Ok(())));
    assert_eq!((passed.filter.keeps(), passed.filter.body_bytes()), (true, 5));

    let passed = pass_parts(GET_10, &parts);
    assert_eq!((split(&passed).1, passed.end), ("abcde", Ok(())));
    assert_eq!((passed.filter.keeps(), passed.filter.body_bytes()), (false, 5));

    let passed = pass_parts(GET, &parts[..1]);
    assert_eq!((split(&passed).1, passed.end), ("0\r\n\r\n", Ok(())));
}

#[test]
fn responses_without_content_have_none() {
    let length = "Content-Length: 5\r\n";
    for (wanted, status, fields, kept) in [
        (HEAD, 200, length, true),
        (HEAD, 404, "", true),
        (HEAD, 200, "Transfer-Encoding: chunked\r\n", false),
        (GET, 204, length, false),
        (GET, 204, "Transfer-Encoding: chunked\r\n", false),
        (GET, 304, length, true),
        (GET_10, 304, "", true),
    ] {
        let response = format!("HTTP/1.1 {status} x\r\n{fields}\r\n");
        let passed = pass(wanted, &response);
        let (head, body) = split(&passed);
        assert_eq!((body, passed.end, passed.filter.keeps()), ("", Ok(()), true));
        assert_eq!(head.contains(fields.trim_end()), kept, "{response:?}");
        assert!(!head.contains("chunked"));

        let passed = pass(wanted, &format!("{response}hello"));
        assert_eq!((split(&passed).1, passed.end), ("", Ok(())));
        assert!(passed.filter.excess() && passed.filter.keeps() && !passed.filter.lasts());
        assert_eq!(passed.filter.body_bytes(), 0);
    }
}

#[test]
fn a_205_says_that_it_is_empty() {
    for (fields, body, excess) in [
        ("", "", false),
        ("", "x", true),
        ("Content-Length: 0\r\n", "", false),
        ("Content-Length: 1\r\n", "x", true),
        ("Transfer-Encoding: chunked\r\n", "0\r\n\r\n", false),
        ("Transfer-Encoding: chunked\r\n", "1\r\nx\r\n0\r\n\r\n", true),
    ] {
        for wanted in [GET, GET_10] {
            let passed = pass(wanted, &format!("HTTP/1.1 205 x\r\n{fields}\r\n{body}"));
            let (head, sent) = split(&passed);
            assert_eq!(head.matches("Content-Length: 0").count(), 1);
            assert!(!head.contains("chunked"));
            assert_eq!((sent, passed.end, passed.filter.body_bytes()), ("", Ok(()), 0));
            assert_eq!((passed.filter.excess(), passed.filter.keeps()), (excess, true));
        }
    }
}

#[test]
fn a_close_is_said_as_long_as_the_head_is_not_out() {
    let response = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
    for at in 0..response.len() {
        let (first, rest) = response.as_bytes().split_at(at);
        let (mut filter, mut out) = (Filter::new(GET), Vec::new());
        filter.feed(first, &mut encoder(&mut out)).unwrap();
        let headed = filter.head_written();
        filter.say_close();
        filter.feed(rest, &mut encoder(&mut out)).unwrap();
        let says_close = String::from_utf8(out).unwrap().contains("\r\nConnection: close\r\n");
        assert_eq!((says_close, filter.keeps()), (!headed, headed), "{at}");
    }
}

#[test]
fn callers_may_pass_content_on_by_themselves() {
    let mut filter = Filter::new(GET);
    let mut out = Vec::new();
    assert_eq!(filter.passthrough(), None);
    filter.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nab", &mut encoder(&mut out)).unwrap();
    assert_eq!(filter.passthrough(), Some(998));
    filter.skip(900);
    assert_eq!((filter.passthrough(), filter.complete()), (Some(98), false));
    filter.feed(b"c", &mut encoder(&mut out)).unwrap();
    filter.skip(97);
    assert_eq!((filter.passthrough(), filter.complete(), filter.body_bytes()), (None, true, 1000));
    assert_eq!((filter.end(&mut encoder(&mut out)), filter.keeps()), (Ok(()), true));
    assert!(out.ends_with(b"\r\n\r\nabc"));
    filter.skip(1);
    assert!(!filter.keeps());
}

#[test]
fn only_what_goes_on_unchanged_can_be_passed_on() {
    let passthrough = |wanted, response: &[u8]| {
        let mut filter = Filter::new(wanted);
        filter.feed(response, &mut encoder(&mut Vec::new())).unwrap();
        filter.passthrough()
    };
    assert_eq!(passthrough(GET, b"HTTP/1.1 200 OK\r\n\r\n"), None);
    assert_eq!(passthrough(GET_10, b"HTTP/1.1 200 OK\r\n\r\n"), Some(u64::MAX));
    assert_eq!(passthrough(GET_10, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), None);
    assert_eq!(passthrough(HEAD, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), None);
    assert_eq!(passthrough(GET, b"HTTP/1.1 205 x\r\nContent-Length: 5\r\n\r\n"), None);
    assert_eq!(passthrough(GET, b"HTTP/1.1 200 OK\r\n"), None);
}

#[test]
fn sizes_of_chunks_are_plain_hexadecimal() {
    for (content_bytes, size) in [(1, "1"), (15, "f"), (16, "10"), (255, "ff"), (65536, "10000")] {
        let mut out = Vec::new();
        h1::put_chunk(&vec![b'x'; content_bytes], &mut out);
        assert!(out.starts_with(format!("{size}\r\nx").as_bytes()) && out.ends_with(b"x\r\n"));
        assert_eq!(out.len(), content_bytes + size.len() + 4);
    }
}
