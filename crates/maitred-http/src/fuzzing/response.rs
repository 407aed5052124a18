//! Responses of applications: whatever they write, what the client gets is well-formed, and says whether it is
//! complete.

use super::client;
use crate::fields::{FieldEdits, FieldsRef};
use crate::h1;
use crate::response::{Bad, Filter, ResponsePolicy};

const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

fn encoder(out: &mut Vec<u8>) -> h1::Encoder<'_> {
    h1::Encoder { out, date: DATE, edits: FieldEdits::NONE, further: FieldsRef::default() }
}

/// One response through a filter: the bytes for the client, and what the filter said.
#[derive(Debug)]
struct Passed {
    out: Vec<u8>,
    end: Result<(), Bad>,
    filter: Filter,
}

/// A response, behind a byte that chooses the request and one that chooses how the bytes are split. Every
/// split gives the client the same, and the promises of [`Filter`] hold.
pub fn response(data: &[u8]) {
    let [choice, part_bytes, input @ ..] = data else { return };
    let wanted = ResponsePolicy {
        head_request: choice & 1 != 0,
        http10: choice & 2 != 0,
        framed: choice & 16 != 0,
        informational: choice & 32 == 0,
        continues: choice & 64 != 0,
        keep: choice & 4 != 0,
        trailers: choice & 8 != 0,
        switch: None,
        bounds: crate::limits::ResponseBounds::DEFAULT,
    };
    let whole = pass(wanted, input, usize::MAX);
    let seen = check(wanted, &whole);
    for part_bytes in [1, usize::from(*part_bytes).max(1)] {
        let parts = pass(wanted, input, part_bytes);
        assert_eq!(check(wanted, &parts), seen, "the way the bytes arrive changes the response");
        assert_same(&parts, &whole);
    }
    let around = pass_around(wanted, input);
    assert_eq!(check(wanted, &around), seen, "what the caller passed on by itself is not the same");
    assert_same(&around, &whole);
    if whole.end.is_ok() && whole.out.len() < 4096 && seen.fields_max < 100 {
        let again = pass(wanted, &whole.out, usize::MAX);
        assert_eq!(check(wanted, &again), seen, "a passed response does not pass as it is");
        assert_eq!(again.end, Ok(()));
    }
}

fn assert_same(one: &Passed, other: &Passed) {
    // Which rule is broken first may depend on where the bytes were split; that one is does not.
    assert_eq!(one.end.is_ok(), other.end.is_ok(), "{:?} {:?}", one.end, other.end);
    let said = |passed: &Passed| {
        let filter = &passed.filter;
        (filter.status(), filter.body_bytes(), filter.keeps(), filter.excess())
    };
    assert_eq!(said(one), said(other));
}

fn pass(wanted: ResponsePolicy, input: &[u8], part_bytes: usize) -> Passed {
    let (mut filter, mut out) = (Filter::new(wanted), Vec::new());
    for part in input.chunks(part_bytes) {
        if filter.feed(part, &mut encoder(&mut out)).is_err() {
            break;
        }
    }
    let end = filter.end(&mut encoder(&mut out));
    Passed { out, end, filter }
}

/// As a caller that splices: whatever may go through unchanged goes around the filter.
fn pass_around(wanted: ResponsePolicy, input: &[u8]) -> Passed {
    let (mut filter, mut out) = (Filter::new(wanted), Vec::new());
    let mut rest = input;
    while let Some(first) = rest.first() {
        if let Some(bytes) = filter.passthrough() {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(rest.len());
            out.extend_from_slice(&rest[..bytes]);
            filter.skip(bytes as u64);
            rest = &rest[bytes..];
        } else if filter.feed(&[*first], &mut encoder(&mut out)).is_ok() {
            rest = &rest[1..];
        } else {
            break;
        }
    }
    let end = filter.end(&mut encoder(&mut out));
    Passed { out, end, filter }
}

/// Reads what went out as a client does, and holds what the filter said against it.
fn check(wanted: ResponsePolicy, passed: &Passed) -> client::Seen {
    let Passed { out, end, filter } = passed;
    let seen = client::read(out, wanted);
    assert_eq!(filter.status(), seen.status);
    assert_eq!(filter.head_written(), seen.status.is_some());
    assert_eq!(filter.body_bytes(), seen.content.len() as u64);
    assert_eq!(filter.complete(), end.is_ok());
    if end.is_ok() {
        assert!(seen.complete, "the client does not see that the response is complete");
    } else {
        let shown = !seen.complete || seen.until_close || seen.status == Some(205);
        assert!(shown, "the client takes a broken response for a complete one");
    }
    assert!(wanted.keep || seen.close || seen.status.is_none(), "no Connection: close");
    assert_eq!(filter.keeps(), end.is_ok() && !seen.close);
    seen
}
