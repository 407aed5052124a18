//! Random and mutated input keeps the invariants of [`crate::fuzzing::h3_session`]: what a client sends, and what a caller does.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::fuzzing::h3_session;

/// A field behind those that a request has, or behind its content.
fn further() -> impl Strategy<Value = (&'static str, &'static str)> {
    select(
        &[
            ("cookie", "a=1"),
            ("priority", "u=1, i"),
            ("content-length", "3"),
            ("content-length", "0"),
            ("x", "y"),
            ("a", "b"),
            ("connection", "close"),
            (":path", "/other"),
            ("te", "trailers"),
            ("x", "a\nb"),
        ][..],
    )
}

/// Frames of a request stream, in an order that is right mostly.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let start = prop_oneof![
        5 => Just(GET.to_vec()),
        5 => Just(POST.to_vec()),
        2 => Just(TUNNEL.to_vec()),
        1 => Just(GET[1..].to_vec()),
    ];
    let head = (start, vec(further(), 0..3)).prop_map(|(start, odd)| headers(&[&start[..], &odd].concat()));
    let many = Just(headers(&[&GET[..], &[("a", "b"); 20]].concat()));
    let content =
        vec(vec(any::<u8>(), 0..4).prop_map(|bytes| data(&bytes)), 0..4).prop_map(|frames| frames.concat());
    let trailers = prop_oneof![
        3 => Just(Vec::new()),
        1 => vec(further(), 0..3).prop_map(|fields| headers(&fields)),
    ];
    let odd = prop_oneof![
        6 => Just(Vec::new()),
        1 => (any::<u8>(), vec(any::<u8>(), 0..4)).prop_map(|(kind, payload)| frame(u64::from(kind), &payload)),
    ];
    (prop_oneof![8 => head, 1 => many], content, trailers, odd)
        .prop_map(|(head, content, trailers, odd)| [head, content, trailers, odd].concat())
}

/// Frames of a control stream.
fn control() -> impl Strategy<Value = Vec<u8>> {
    let frames = prop_oneof![
        4 => (0_u64..8, select(&["u=1", "u=7, i", "i"][..])).prop_map(|(count, value)| urgent(4 * count, value)),
        1 => (select(&[kind::GOAWAY, kind::MAX_PUSH_ID, kind::CANCEL_PUSH, 0x21][..]), 0_u64..5)
            .prop_map(|(kind, identifier)| number(kind, identifier)),
    ];
    vec(frames, 0..4).prop_map(|frames| [vec![0, 4, 0], frames.concat()].concat())
}

/// A byte that chooses what the server does, the size of pieces, and what comes on which stream, in the form of the fuzz target.
fn script() -> impl Strategy<Value = Vec<u8>> {
    let record = |which: u8, bytes: Vec<u8>, ended: bool| {
        let bytes = &bytes[..bytes.len().min(255)];
        [&[which | u8::from(ended) << 7, bytes.len() as u8], bytes].concat()
    };
    let requests =
        (0_u8..5, request(), any::<bool>(), any::<Index>()).prop_map(move |(which, bytes, ended, at)| {
            // Some come in two records, with others between them in other scripts.
            let at = if bytes.len() % 3 == 0 { at.index(bytes.len() + 1) } else { bytes.len() };
            [record(which, bytes[..at].to_vec(), false), record(which, bytes[at..].to_vec(), ended)].concat()
        });
    let records = prop_oneof![
        8 => requests,
        2 => (5_u8..8, control()).prop_map(move |(which, bytes)| record(which, bytes, false)),
        1 => (5_u8..8, vec(any::<u8>(), 0..5), any::<bool>()).prop_map(move |(which, bytes, ended)| record(which, bytes, ended)),
    ];
    (0_u8..4, 1_u8..30, vec(records, 0..12))
        .prop_map(|(choice, part, records)| [vec![choice << 1, part], records.concat()].concat())
}

/// An operation of a caller: which one in the low half of the first byte, and on which stream. Most go on with responses.
fn operation() -> impl Strategy<Value = [u8; 2]> {
    let which = prop_oneof![
        4 => Just(0),
        8 => Just(2),
        4 => Just(3),
        8 => Just(5),
        9 => 7_u8..10,
        4 => Just(11),
        4 => Just(12),
        4 => 0_u8..16,
    ];
    (which, 0_u8..16, any::<u8>()).prop_map(|(which, how, of)| [which | how << 4, of])
}

proptest! {
    #[test]
    fn a_client_gets_the_same_in_any_pieces(script in script()) {
        h3_session(&script);
    }

    #[test]
    fn mutated_frames_give_the_same_in_any_pieces(mut script in script(), at: Index, byte: u8, how in 0..3) {
        let at = 1 + at.index(script.len() - 1);
        match how {
            0 => script[at] = byte,
            1 => script.insert(at, byte),
            _ => drop(script.remove(at)),
        }
        h3_session(&script);
    }

    #[test]
    fn random_bytes_keep_the_invariants(bytes in vec(any::<u8>(), 0..300)) {
        h3_session(&bytes);
    }

    #[test]
    fn operations_in_any_order_keep_the_books(operations in vec(operation(), 0..200)) {
        h3_session(&[&[1][..], operations.as_flattened()].concat());
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
        let bytes = request().new_tree(&mut runner).unwrap().current();
        let events = Client::new().say(0, &[bytes], true);
        requests += events.matches("request").count();
        trailers += events.matches("trailers").count();
    }
    assert!(requests > 25 && trailers > 0, "{requests} requests, {trailers} trailers");
}
