//! The promises of [`crate::fuzzing::fastcgi`] and [`crate::fuzzing::cgi`], for generated and mutated input.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::encode::{PairTooBig, put_params};
use super::super::record::kind;
use super::{END, padded};
use crate::fuzzing;
use crate::fuzzing::fastcgi::{Pair, read_pairs, stream};

/// One record of an application, mostly a right one.
fn one_record() -> impl Strategy<Value = Vec<u8>> {
    let kinds = select(&[kind::STDOUT, kind::STDOUT, kind::STDERR, kind::END_REQUEST, 0, 11, 12][..]);
    let id = prop_oneof![9 => Just(1_u8), 1 => 0..3_u8];
    let content = prop_oneof![6 => vec(any::<u8>(), 1..20), 1 => Just(Vec::new()), 3 => Just(vec![0; 8])];
    (kinds, id, content, prop_oneof![3 => Just(0), 1 => 0..255_u8]).prop_map(
        |(kind, id, content, padding)| {
            let mut record = padded(kind, &content, padding);
            record[3] = id;
            record
        },
    )
}

fn records() -> impl Strategy<Value = Vec<u8>> {
    (vec(one_record(), 0..8), any::<bool>()).prop_map(|(records, end)| {
        let mut bytes = records.concat();
        if end {
            bytes.extend_from_slice(&END);
        }
        bytes
    })
}

fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    let bytes = |longest: usize| {
        let (short, limit) = (vec(any::<u8>(), 0..20), vec(any::<u8>(), 126..130));
        prop_oneof![8 => short, 1 => limit, 1 => vec(any::<u8>(), 0..longest)]
    };
    vec((bytes(300), bytes(80_000)), 0..12)
}

/// Lines that mean something, valid and not.
const LINES: &[&str] = &[
    "Status: 200 OK",
    "status:404",
    "Status: 700",
    "Location: /x?y",
    "Location: //x",
    "Location: /a b",
    "Content-Type: a/b",
    "Content-Length: 5",
    "Content-Length: -5",
    "Connection: close",
    "Transfer-Encoding: chunked",
    "X-CGI-Y: z",
    "HTTP/1.1 200 OK",
    "X:",
    "X : y",
    " folded",
    "X: a\rb",
    "X: \tb \t",
    "",
];

fn header() -> impl Strategy<Value = Vec<u8>> {
    let known = select(LINES).prop_map(str::to_owned);
    let line = prop_oneof![2 => "[A-Za-z-]{1,9}:[ \t]{0,2}[ -~]{0,12}[ \t]{0,2}", 3 => known];
    let end = select(&["\r\n", "\n"][..]);
    vec((line, end), 0..7).prop_map(|lines| {
        let lines: Vec<u8> = lines.into_iter().flat_map(|(line, end)| (line + end).into_bytes()).collect();
        [&lines[..], b"\r\ncontent"].concat()
    })
}

fn mutated(mut bytes: Vec<u8>, at: Index, byte: u8, how: u8) -> Vec<u8> {
    if !bytes.is_empty() {
        let at = at.index(bytes.len());
        match how {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

proptest! {
    #[test]
    fn generated_records_keep_the_invariants(bytes in records(), at: Index, byte: u8, how in 0..4_u8) {
        fuzzing::fastcgi(&bytes);
        fuzzing::fastcgi(&mutated(bytes, at, byte, how));
    }

    #[test]
    fn generated_headers_keep_the_invariants(bytes in header(), at: Index, byte: u8, how in 0..4_u8) {
        fuzzing::cgi(&bytes);
        fuzzing::cgi(&mutated(bytes, at, byte, how));
    }

    #[test]
    fn generated_paths_keep_the_invariants(path in "(/|[a-b]|\\.php|\\.PHP|\\.|\n|\0|\u{23a}){0,9}") {
        fuzzing::cgi(path.as_bytes());
    }

    #[test]
    fn random_bytes_keep_the_invariants(bytes in vec(any::<u8>(), 0..64)) {
        fuzzing::fastcgi(&bytes);
        fuzzing::cgi(&bytes);
    }

    #[test]
    fn pairs_come_back(pairs in pairs()) {
        let mut out = Vec::new();
        let put = put_params(&mut out, |params| pairs.iter().for_each(|(name, value)| params.put(name, value)));
        // Only long values have as much, and both of their lengths are then known.
        let pair_bytes = |(name, value): &Pair| name.len() + value.len() + if name.len() < 128 { 5 } else { 8 };
        if pairs.iter().any(|pair| pair_bytes(pair) > 65_528) {
            prop_assert_eq!((put, out.len()), (Err(PairTooBig), 0));
            return Ok(());
        }
        prop_assert_eq!(put, Ok(()));
        let (content, rest) = stream(&out, kind::PARAMS);
        prop_assert_eq!(read_pairs(&content), pairs);
        prop_assert!(rest.is_empty());
    }
}
