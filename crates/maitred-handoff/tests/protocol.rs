//! The bytes that `adapters/PROTOCOL.md` shows are those that this crate reads and writes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy.toml does not know to be such"
)]

use maitred_handoff::{
    Done, FromApp, FromServer, Hello, Outcome, PAYLOAD_BYTES_MAX, RequestFlags, VERSION, Welcome,
    begin_request, encode_done, encode_hello, encode_limits, encode_welcome,
};

const TEXT: &str = include_str!("../../../adapters/PROTOCOL.md");

/// The dump of this name: lines of an offset, up to sixteen bytes, and what they are as text.
fn dump(name: &str) -> Vec<u8> {
    let (_, section) = TEXT.split_once("byte by byte\n").unwrap();
    let lines = section.lines().skip_while(|line| *line != name).skip(1);
    let mut bytes = Vec::new();
    for line in lines.take_while(|line| line.starts_with("  ")) {
        let (offset, rest) = line.trim_start().split_once("  ").unwrap();
        assert_eq!(usize::from_str_radix(offset, 16).unwrap(), bytes.len(), "{name}");
        let (hex, text) = rest.split_at(49);
        let row: Vec<u8> = hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        let shown = |byte: &u8| if matches!(byte, 32..127) { char::from(*byte) } else { '.' };
        assert_eq!(row.iter().map(shown).collect::<String>(), text, "{name}");
        bytes.extend(row);
    }
    assert!(!bytes.is_empty(), "{name} is not there");
    bytes
}

#[test]
fn what_a_worker_says_is_as_the_text_shows_it() {
    let mut bytes = Vec::new();
    let hello = Hello {
        version_min: VERSION,
        version_max: VERSION,
        capacity: 1,
        name: "my adapter",
        sockets_only: false,
        recovers: false,
    };
    encode_hello(&mut bytes, &hello);
    assert_eq!(dump("HELLO"), bytes);
    assert_eq!(FromApp::decode(&bytes), Ok(Some((FromApp::Hello(hello), bytes.len()))));
    bytes.clear();
    encode_limits(&mut bytes, 1024);
    assert_eq!(dump("LIMITS"), bytes);
    bytes.clear();
    let done = Done {
        connection: 5,
        request: 9,
        status: 200,
        outcome: Outcome::Clean,
        service_us: 350,
        body_bytes: 4,
    };
    encode_done(&mut bytes, &done);
    assert_eq!(dump("DONE"), bytes);
    assert_eq!(FromApp::decode(&bytes), Ok(Some((FromApp::Done(done), bytes.len()))));
}

#[test]
fn what_maitred_says_is_as_the_text_shows_it() {
    let mut bytes = Vec::new();
    encode_welcome(&mut bytes, &Welcome { version: VERSION, payload_bytes_max: PAYLOAD_BYTES_MAX });
    assert_eq!(dump("WELCOME"), bytes);
    bytes.clear();
    let flags = RequestFlags { keep: true, ..RequestFlags::default() };
    let meta = begin_request(&mut bytes, 5, 9, flags, 1)
        .line("remote", "192.0.2.7:50000")
        .line("local", "198.51.100.1:80")
        .line("scheme", "http")
        .number("queue_us", 40);
    let mut head = meta.head("POST", "/a?b");
    head.field("host", b"example.com");
    let mut body = head.body(Some(3));
    body.extend(b"x=1");
    assert!(body.finish(PAYLOAD_BYTES_MAX));
    assert_eq!(dump("REQUEST"), bytes);
    let decoded = FromServer::decode(&bytes, PAYLOAD_BYTES_MAX);
    assert!(
        matches!(decoded, Ok(Some((FromServer::Request(_), used))) if used == bytes.len()),
        "{decoded:?}"
    );
}
