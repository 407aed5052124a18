//! The promises of [`Filter`], and of [`crate::fuzzing`], for generated and mutated responses.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::fuzzing;

/// Fields that mean something here, valid and not.
const KNOWN: &[&str] = &[
    "Connection: close",
    "Connection: keep-alive, x",
    "connection: date, server",
    "Keep-Alive: timeout=5",
    "Content-Length: 5",
    "Content-Length: 0",
    "content-length: 12",
    "Content-Length: 5, 5",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip",
    "Trailer: X",
    "TE: trailers",
    "Upgrade: h2c",
    "Date: Sun, 06 Nov 1994 08:49:37 GMT",
    "Server: app",
    "X:",
    "X : y",
    " folded",
    "X: a\rb",
    "X: \tb \t",
];

const STATUSES: &[&str] =
    &["200 OK", "200 OK", "200", "404 ", "204 x", "205 x", "304 x", "426 x", "101 x", "600 x"];

const BODIES: &[&str] = &[
    "",
    "hello",
    "hell",
    "hello, world",
    "0\r\n\r\n",
    "5\r\nhello\r\n0\r\n\r\n",
    "2;x\r\nhe\r\n003\r\nllo\r\n0\r\nX: y\r\n\r\n",
    "5\r\nhello\r\n",
    "5\r\nhelloo\r\n0\r\n\r\n",
];

fn field_line() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[A-Za-z-]{1,9}:[ \t]{0,2}[ -~]{0,12}[ \t]{0,2}", 4 => select(KNOWN).prop_map(str::to_owned)]
}

/// A response behind the two bytes that [`fuzzing::response`] takes for its choices.
fn response() -> impl Strategy<Value = Vec<u8>> {
    let interim = select(
        &["", "", "", "HTTP/1.1 100 x\r\n\r\n", "HTTP/1.1 103 x\r\nLink: a\r\nConnection: b\r\nb: c\r\n\r\n"]
            [..],
    );
    let version = select(&["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0"][..]);
    let fields = vec(field_line(), 0..7);
    let start = (any::<[u8; 2]>(), interim, version, select(STATUSES));
    (start, fields, select(BODIES)).prop_map(|((choices, interim, version, status), fields, body)| {
        let lines: String = fields.iter().map(|line| format!("{line}\r\n")).collect();
        let text = format!("{interim}{version} {status}\r\n{lines}\r\n{body}");
        [&choices[..], text.as_bytes()].concat()
    })
}

/// A field line that goes on, or one that does not.
fn passing_field() -> impl Strategy<Value = (String, bool)> {
    let taken_out =
        select(&["Connection: a-b", "Keep-Alive: x", "A-B: 1", "TE: x", "trailer:", "UPGRADE: x"][..]);
    prop_oneof![
        3 => "X-[A-Za-z]{1,9}:[ \t]{0,2}[!-~]{0,12}[ \t]{0,2}".prop_map(|line| (line, true)),
        1 => select(&["Date: x", "Server: y", "Set-Cookie: z"][..]).prop_map(|line| (line.to_owned(), true)),
        1 => taken_out.prop_map(|line| (line.to_owned(), false)),
    ]
}

proptest! {
    #[test]
    fn fields_go_on_in_their_order(fields in vec(passing_field(), 0..12), content in "[ -~]{0,40}", http10: bool) {
        let lines = |which: fn(&&(String, bool)) -> bool| -> String {
            fields.iter().filter(which).map(|field| format!("{}\r\n", field.0)).collect()
        };
        let length = content.len();
        let start = "HTTP/1.1 200 OK\r\nConnection: a-b\r\n";
        let response = format!("{start}{}Content-Length: {length}\r\n\r\n{content}", lines(|_| true));
        let passed = pass(ResponsePolicy { http10, ..GET }, &response);
        prop_assert_eq!(passed.end, Ok(()));

        let date = if fields.iter().any(|field| field.0 == "Date: x") {
            String::new()
        } else {
            format!("Date: {}\r\n", String::from_utf8_lossy(DATE))
        };
        let connection = if http10 { "Connection: keep-alive\r\n" } else { "" };
        let kept = lines(|field| field.1);
        let expected = format!(
            "HTTP/1.1 200 OK\r\n{kept}Content-Length: {length}\r\n{date}{connection}\r\n{content}"
        );
        prop_assert_eq!(passed.out, expected);
    }

    #[test]
    fn content_is_the_same_in_any_framing(
        pieces in vec(vec(any::<u8>(), 1..300), 0..6),
        framing in 0..3,
        part_bytes in 1_usize..400,
        http10: bool,
    ) {
        let content = pieces.concat();
        let mut response = b"HTTP/1.1 200 OK\r\n".to_vec();
        match framing {
            0 => response.extend(b"\r\n"),
            1 => response.extend(format!("Content-Length: {}\r\n\r\n", content.len()).bytes()),
            _ => response.extend(b"Transfer-Encoding: chunked\r\n\r\n"),
        }
        if framing == 2 {
            for piece in &pieces {
                response.extend([format!("{:X}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
            }
            response.extend(b"0\r\n\r\n");
        } else {
            response.extend(&content);
        }
        let mut filter = Filter::new(ResponsePolicy { http10, ..GET });
        let mut out = Vec::new();
        for part in response.chunks(part_bytes) {
            filter.feed(part, &mut encoder(&mut out)).unwrap();
        }
        prop_assert_eq!(filter.end(&mut encoder(&mut out)), Ok(()));
        prop_assert_eq!(filter.body_bytes(), content.len() as u64);
        prop_assert_eq!(filter.keeps(), framing == 1 || !http10);

        let head = out.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let body = out.split_off(head);
        let chunked = framing != 1 && !http10;
        let mut got = Vec::new();
        if chunked {
            let mut decoder = Decoder::new(crate::request::Framing::Chunked, u64::MAX);
            prop_assert!(decoder.decode(&body, &mut got).unwrap().complete);
        } else {
            got = body;
        }
        prop_assert_eq!(got, content);
    }

    #[test]
    fn generated_responses_keep_the_invariants(response in response()) {
        fuzzing::response(&response);
    }

    #[test]
    fn mutated_responses_keep_the_invariants(mut response in response(), at: Index, byte: u8, how in 0..3) {
        let at = at.index(response.len());
        match how {
            0 => response[at] = byte,
            1 => response.insert(at, byte),
            _ => drop(response.remove(at)),
        }
        fuzzing::response(&response);
    }

    #[test]
    fn cut_responses_keep_the_invariants(mut response in response(), at: Index) {
        response.truncate(at.index(response.len()));
        fuzzing::response(&response);
    }

    #[test]
    fn random_bytes_keep_the_invariants(bytes in vec(any::<u8>(), 0..64)) {
        fuzzing::response(&bytes);
    }
}
