//! Content that gets a coding on its way: here, capital letters, of which the last ones are held back until they are asked for.

use super::*;

#[derive(Debug, Default)]
struct Shouting {
    out: Vec<u8>,
    held: Vec<u8>,
    /// What the filter has said of the response.
    asked: Option<(bool, bool)>,
    fails: bool,
}

impl Encode for Shouting {
    fn interim(&mut self, head: &ResponseHead<'_>) {
        encoder(&mut self.out).interim(head);
    }

    fn head(&mut self, head: &ResponseHead<'_>, ending: &Ending) {
        encoder(&mut self.out).head(&ResponseHead::own(head.status, FieldsRef::default()), ending);
    }

    fn content(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn takes_coding(&mut self, _: &ResponseHead<'_>, has_content: bool, may: bool) -> bool {
        self.asked = Some((has_content, may));
        may
    }

    fn code(&mut self, content: &[u8]) {
        self.held.extend(content.to_ascii_uppercase());
    }

    fn put_coded(&mut self, then: Then, chunk: bool) -> Option<u64> {
        if self.fails {
            return None;
        }
        let kept = if then == Then::GoOn { self.held.len().min(2) } else { 0 };
        let made: Vec<u8> = self.held.drain(..self.held.len() - kept).collect();
        match chunk {
            true => h1::put_chunk(&made, &mut self.out),
            false => self.out.extend(&made),
        }
        Some(made.len() as u64)
    }
}

impl Shouting {
    fn taken(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.out)).unwrap().replace("\r\n", "|")
    }
}

const HEAD_OF_CHUNKS: &str =
    "HTTP/1.1 200 OK|Transfer-Encoding: chunked|Date: Sun, 06 Nov 1994 08:49:37 GMT||";

fn fed(wanted: ResponsePolicy, parts: &[&str]) -> (String, Filter, Shouting) {
    let (mut filter, mut out) = (Filter::new(wanted), Shouting::default());
    for part in parts {
        filter.feed(part.as_bytes(), &mut out).unwrap();
    }
    (out.taken(), filter, out)
}

#[test]
fn however_content_is_delimited_it_comes_in_chunks() {
    for parts in [
        &["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc", "def"][..],
        &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "3\r\ndef\r\n0\r\n\r\n"],
    ] {
        let (text, filter, _) = fed(GET, parts);
        assert_eq!(text, format!("{HEAD_OF_CHUNKS}1|A|5|BCDEF|0||"));
        assert!(filter.complete() && filter.keeps() && filter.lasts());
        assert_eq!(filter.body_bytes(), 6);
    }
    let (text, mut filter, mut out) = fed(GET, &["HTTP/1.0 200 OK\r\n\r\nabc"]);
    assert_eq!(text, format!("{HEAD_OF_CHUNKS}1|A|"));
    filter.end(&mut out).unwrap();
    assert_eq!(out.taken(), "2|BC|0||");
}

#[test]
fn a_flush_gives_what_is_held() {
    let (text, mut filter, mut out) = fed(GET, &["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"]);
    assert_eq!((text.as_str(), filter.passthrough()), (HEAD_OF_CHUNKS, None));
    filter.flush(&mut out).unwrap();
    assert_eq!(out.taken(), "2|AB|");
    filter.feed(b"c", &mut out).unwrap();
    assert_eq!(out.taken(), "1|C|0||");
    filter.flush(&mut out).unwrap();
    assert_eq!(out.taken(), "", "it has ended");
}

#[test]
fn frames_need_no_chunks_and_1_0_gets_no_coding() {
    let framed = ResponsePolicy { framed: true, keep: false, ..GET };
    let (text, ..) = fed(framed, &["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"]);
    assert!(text.ends_with("||ABC"), "{text}");
    let (text, _, out) = fed(GET_10, &["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"]);
    assert!(text.ends_with("||abc") && out.asked == Some((true, false)), "{text}");
}

#[test]
fn without_content_there_is_only_a_head() {
    for (wanted, head) in [(HEAD, "200 OK\r\nContent-Length: 3"), (GET, "204 No Content"), (GET, "304 X")] {
        let (text, filter, out) = fed(wanted, &[&format!("HTTP/1.1 {head}\r\n\r\n")]);
        assert!(text.ends_with("GMT||") && !text.contains("chunked"), "{text}");
        assert!(filter.complete() && filter.keeps() && out.asked == Some((false, true)), "{head}");
    }
}

#[test]
fn a_coding_that_fails_ends_the_response() {
    let (mut filter, mut out) = (Filter::new(GET), Shouting { fails: true, ..Shouting::default() });
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(filter.feed(response, &mut out), Err(Bad::Coding));
    assert_eq!(filter.end(&mut out), Err(Bad::Coding));
    assert!(filter.head_written() && !filter.complete());
}
