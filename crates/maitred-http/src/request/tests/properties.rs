//! Any split of the bytes gives the same answer, and the invariants of [`crate::fuzzing`] hold.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::fuzzing;

/// Lines that are valid, that are not, and that are only together not.
fn field_line() -> impl Strategy<Value = String> {
    let known = select(
        &[
            "Connection: close",
            "Connection: keep-alive",
            "Content-Length: 5",
            "Content-Length: 5000",
            "Transfer-Encoding: chunked",
            "Transfer-Encoding: gzip, chunked",
            "Expect: 100-continue",
            "Expect: x",
            "Upgrade: websocket",
            "Host: b",
            "X : y",
            " folded",
            "X: a\rb",
            "Range: bytes=0-",
            "If-None-Match: *",
        ][..],
    );
    prop_oneof![
        4 => "[A-Za-z-]{1,9}:[ \t]{0,2}[ -~]{0,12}[ \t]{0,2}",
        2 => known.prop_map(str::to_owned),
    ]
}

fn head() -> impl Strategy<Value = Vec<u8>> {
    let start = select(&["", "\r\n", "\r\n\r\n", "\n"][..]);
    let method =
        prop_oneof![4 => Just("GET".to_owned()), 2 => Just("OPTIONS".to_owned()), 1 => "[A-Z]{1,70}"];
    let target = prop_oneof![4 => "/[!-~]{0,20}", 1 => Just("*".to_owned()), 1 => "http://[a-z:@.]{1,9}/?", 1 => "/a{100,140}"];
    let version = select(&["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.2"][..]);
    let fields = proptest::collection::vec(field_line(), 0..10);
    (start, method, target, version, fields).prop_map(|(start, method, target, version, fields)| {
        let lines: String = fields.iter().map(|line| format!("{line}\r\n")).collect();
        format!("{start}{method} {target} {version}\r\nHost: a\r\n{lines}\r\nbody").into_bytes()
    })
}

/// What stays the same however the bytes arrive: the request in words, and the bytes that it took.
fn answer(bytes: &[u8]) -> Result<Option<(String, usize)>, Reject> {
    let mut room = field_room();
    Ok(parse(bytes, &mut room, &LIMITS)?.map(|(request, taken)| (format!("{request:?}"), taken)))
}

proptest! {
    #[test]
    fn any_split_gives_the_same_answer(head in head(), cuts in proptest::collection::vec(any::<Index>(), 0..6)) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(head.len())).collect();
        cuts.push(head.len());
        cuts.sort_unstable();
        let first = cuts.iter().map(|cut| answer(&head[..*cut])).find(|answer| *answer != Ok(None));
        prop_assert_eq!(first.unwrap_or(Ok(None)), answer(&head));
    }

    #[test]
    fn an_accepted_head_is_incomplete_until_its_last_byte(head in head()) {
        if let Ok(Some((_, taken))) = answer(&head) {
            for end in 0..taken {
                prop_assert_eq!(answer(&head[..end]), Ok(None));
            }
        }
    }

    #[test]
    fn generated_heads_keep_the_invariants(head in head()) {
        fuzzing::head(&head);
    }

    #[test]
    fn mutated_heads_keep_the_invariants(mut head in head(), at: Index, byte: u8, how in 0..3) {
        let at = at.index(head.len());
        match how {
            0 => head[at] = byte,
            1 => head.insert(at, byte),
            _ => drop(head.remove(at)),
        }
        fuzzing::head(&head);
    }

    #[test]
    fn random_bytes_keep_the_invariants(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        fuzzing::head(&bytes);
    }
}
