//! Random and mutated frames keep the invariants of [`crate::fuzzing::h2_session`]; those of a server, of
//! [`crate::fuzzing::h2_client`].

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::fuzzing::{h2_client, h2_session};

/// Fields behind those that a request has, or behind its content.
fn further() -> impl Strategy<Value = (&'static str, &'static str)> {
    select(
        &[
            ("cookie", "a=1"),
            ("priority", "u=1, i"),
            ("content-length", "10"),
            ("content-length", "0"),
            ("host", "a.example"),
            ("x", "y"),
            ("connection", "close"),
            ("X", "y"),
            ("a", "b\r\nc: d"),
            (":path", "/other"),
            (":protocol", "websocket"),
            ("te", "trailers"),
            ("x", "\x7f"),
            ("cookie", "a\x01"),
            ("x", "a\tb \u{e9}"),
            ("expect", "100-continue"),
            ("expect", "the worst"),
            ("if-none-match", "\"a\""),
            ("accept-encoding", "gzip"),
            ("range", "bytes=0-1"),
            ("date", "x"),
        ][..],
    )
}

/// A request's fields, valid ones mostly.
fn fields() -> impl Strategy<Value = Vec<u8>> {
    let paths = select(&["/a?b=c", "/\x7f", "/?\u{e9}", "//a", "/#", "/a?"][..]);
    let hosts = select(&["a:b", "[::1]:80", "a\x7f", "u@a"][..]);
    let start = prop_oneof![6 => Just(GET), 6 => Just(POST), 1 => Just([GET[0], GET[0], GET[1], GET[2]]),
        1 => Just([(":method", "CONNECT"), GET[1], GET[2], GET[3]]),
        1 => paths.prop_map(|path| [GET[0], (":path", path), GET[2], GET[3]]),
        1 => hosts.prop_map(|host| [GET[0], GET[1], GET[2], (":authority", host)])];
    let tunnel = [(":method", "CONNECT"), (":protocol", "websocket"), GET[1], GET[2], GET[3]];
    let connect = [(":method", "CONNECT"), (":authority", "a.example:443")];
    let start = prop_oneof![
        14 => start.prop_map(|fields| fields.to_vec()),
        1 => Just(tunnel.to_vec()),
        1 => Just(connect.to_vec()),
    ];
    (start, vec(further(), 0..4)).prop_map(|(start, odd)| block(&[&start[..], &odd].concat()))
}

/// PRIORITY_UPDATE of a stream.
fn urgent(id: u32) -> Vec<u8> {
    frame(kind::PRIORITY_UPDATE, 0, 0, &[&id.to_be_bytes()[..], b"u=0"].concat())
}

/// One frame. The stream is chosen when it is known which ones there are.
#[derive(Debug, Clone)]
enum Act {
    /// The next request.
    Opens(u8, Vec<u8>),
    /// A frame of an earlier stream.
    Of(Index, u8, u8, Vec<u8>),
    /// Any frame of any stream.
    Frame(Vec<u8>),
}

fn act() -> impl Strategy<Value = Act> {
    let flags = prop_oneof![
        8 => Just(flag::END_HEADERS | flag::END_STREAM),
        8 => Just(flag::END_HEADERS),
        1 => Just(0),
        1 => any::<u8>()
    ];
    let increment = prop_oneof![16 => 1_u32..40_000, 1 => Just(frame::WINDOW_MAX), 1 => any::<u32>()];
    let window = prop_oneof![9 => 0_u32..70_000, 1 => any::<u32>()];
    let body_flags = select(&[0, 0, 0, flag::END_STREAM, flag::END_STREAM, flag::PADDED, 0xff][..]);
    let number = |number: u32| number.to_be_bytes().to_vec();
    let of = |kind| move |(at, flags, payload): (Index, u8, Vec<u8>)| Act::Of(at, kind, flags, payload);
    let at = any::<Index>;
    let grown = increment.clone().prop_map(number);
    let last = prop_oneof![8 => Just(flag::END_HEADERS | flag::END_STREAM), 1 => flags.clone()];
    let trailers = vec(further(), 1..3).prop_map(|fields| block(&fields));
    prop_oneof![
        8 => (flags.clone(), fields()).prop_map(|(flags, block)| Act::Opens(flags, block)),
        1 => (at(), flags.clone(), fields()).prop_map(of(kind::HEADERS)),
        4 => (at(), last, trailers).prop_map(of(kind::HEADERS)),
        6 => (at(), body_flags, vec(0_u8..12, 0..400)).prop_map(of(kind::DATA)),
        4 => (at(), Just(0), grown).prop_map(of(kind::WINDOW_UPDATE)),
        2 => (at(), Just(0), Just(number(8))).prop_map(of(kind::RST_STREAM)),
        2 => increment.prop_map(|increment| Act::Frame(window_update(0, increment))),
        2 => (1_u16..10, window).prop_map(|(setting, value)| Act::Frame(settings(&[(setting, value)]))),
        1 => Just(Act::Frame(frame(kind::PING, 0, 0, b"12345678"))),
        1 => Just(Act::Frame(frame(kind::PING, flag::ACK, 0, b"maitred!"))),
        1 => (0_u32..20).prop_map(|id| Act::Frame(urgent(2 * id + 1))),
        1 => (any::<u8>(), any::<u8>(), 0_u32..30, vec(any::<u8>(), 0..20))
            .prop_map(|(kind, flags, id, payload)| Act::Frame(frame(kind, flags, id, &payload))),
    ]
}

fn script() -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), 1_u8..100, vec(act(), 0..40)).prop_map(|(choice, part_bytes, acts)| {
        // A handshake, nearly always.
        let choice = if choice & 0xe1 == 1 { choice } else { choice & !1 };
        let mut bytes = vec![choice, part_bytes];
        let mut opened = 0;
        for act in acts {
            bytes.extend(match act {
                Act::Opens(flags, block) => {
                    opened += 1;
                    frame(kind::HEADERS, flags, 2 * opened - 1, &block)
                }
                Act::Of(..) if opened == 0 => continue,
                // Mostly one of the latest.
                Act::Of(at, kind, flags, payload) => {
                    let back = at.index(opened.min(4) as usize) as u32;
                    frame(kind, flags, 2 * (opened - back) - 1, &payload)
                }
                Act::Frame(bytes) => bytes,
            });
        }
        bytes
    })
}

/// What a server sends: heads of responses, content, trailers, and anything else.
fn server_script() -> impl Strategy<Value = Vec<u8>> {
    let stream = || select(&[1_u32, 1, 3, 3, 5, 5, 7, 2, 0][..]);
    let flags = || select(&[flag::END_HEADERS, flag::END_HEADERS | flag::END_STREAM, 0][..]);
    let status = select(&["200", "200", "200", "103", "204", "304", "100", "503", "101", "20", "x"][..]);
    let length = proptest::option::of(select(&["0", "5", "1000", "x"][..]));
    let head = (status, length, vec(further(), 0..3)).prop_map(|(status, length, further)| {
        let mut fields = std::vec![(":status", status)];
        length.into_iter().for_each(|length| fields.push(("content-length", length)));
        let mut bytes = block(&further);
        let mut first = block(&fields);
        first.append(&mut bytes);
        first
    });
    let content = select(&[0, 0, flag::END_STREAM, flag::PADDED][..]);
    let number = |number: u32| number.to_be_bytes().to_vec();
    let frames = prop_oneof![
        8 => (stream(), flags(), head).prop_map(|(id, flags, block)| frame(kind::HEADERS, flags, id, &block)),
        8 => (stream(), content, vec(0_u8..12, 0..600)).prop_map(|(id, flags, bytes)| frame(kind::DATA, flags, id, &bytes)),
        3 => (stream(), vec(further(), 1..3))
            .prop_map(|(id, fields)| frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, &block(&fields))),
        2 => (stream(), any::<u32>()).prop_map(move |(id, code)| frame(kind::RST_STREAM, 0, id, &number(code))),
        1 => (stream(), any::<u32>()).prop_map(move |(last, code)| {
            frame(kind::GOAWAY, 0, 0, &[number(last), number(code)].concat())
        }),
        1 => (1_u16..10, any::<u32>()).prop_map(|(setting, value)| settings(&[(setting, value)])),
        1 => (stream(), 1_u32..1000).prop_map(|(id, increment)| window_update(id, increment)),
        1 => (any::<u8>(), any::<u8>(), stream(), vec(any::<u8>(), 0..20))
            .prop_map(|(kind, flags, id, payload)| frame(kind, flags, id, &payload)),
    ];
    (any::<u8>(), 1_u8..100, vec(frames, 0..30))
        .prop_map(|(choice, part, frames)| [std::vec![choice & 0xfe, part], frames.concat()].concat())
}

proptest! {
    #[test]
    fn random_frames_of_a_server_keep_the_invariants(script in server_script()) {
        h2_client(&script);
    }

    #[test]
    fn mutated_frames_of_a_server_keep_the_invariants(mut script in server_script(), at: Index, byte: u8, how in 0..3) {
        let at = at.index(script.len());
        match how {
            0 => script[at] = byte,
            1 => script.insert(at, byte),
            _ => drop(script.remove(at)),
        }
        h2_client(&script);
    }

    #[test]
    fn random_bytes_of_a_server_keep_the_invariants(bytes in vec(any::<u8>(), 0..200)) {
        h2_client(&bytes);
    }

    #[test]
    fn random_frames_keep_the_invariants(script in script()) {
        h2_session(&script);
    }

    #[test]
    fn mutated_frames_keep_the_invariants(mut script in script(), at: Index, byte: u8, how in 0..3) {
        let at = at.index(script.len());
        match how {
            0 => script[at] = byte,
            1 => script.insert(at, byte),
            _ => drop(script.remove(at)),
        }
        h2_session(&script);
    }

    #[test]
    fn random_bytes_keep_the_invariants(bytes in vec(any::<u8>(), 0..200)) {
        h2_session(&bytes);
    }
}

/// The generator gets somewhere: if most of its scripts ended at their first frame, nothing would be tested.
#[test]
fn scripts_are_mostly_understood() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut requests, mut trailers) = (0, 0);
    for _ in 0..50 {
        let script = script().new_tree(&mut runner).unwrap().current();
        let events = Peer::new().say(&[script[2..].to_vec()]);
        requests += events.matches("request").count();
        trailers += events.matches("trailers").count();
    }
    assert!(requests > 50 && trailers > 0, "{requests} requests, {trailers} trailers");
}

/// A `:path` of bytes that are no text is refused by both judges, and the request line is known as the bytes that came.
#[test]
fn a_target_that_is_no_text_keeps_the_invariants() {
    let block = [&[0x82, 0x86, 0x04, 2][..], b"/\xff"].concat();
    h2_session(&[vec![0, 50], frame(kind::HEADERS, 5, 1, &block)].concat());
}
