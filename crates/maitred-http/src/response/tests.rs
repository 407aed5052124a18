mod bodies;
mod cgi;
mod coded;
mod heads;
mod properties;
mod switching;

use super::*;
use crate::fields::{FieldEdits, FieldsRef};

const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

fn encoder(out: &mut Vec<u8>) -> h1::Encoder<'_> {
    h1::Encoder { out, date: DATE, edits: FieldEdits::NONE, further: FieldsRef::default() }
}

/// GET of version 1.1 on a connection that may be kept.
const GET: ResponsePolicy = ResponsePolicy {
    head_request: false,
    http10: false,
    framed: false,
    informational: true,
    continues: false,
    keep: true,
    trailers: false,
    switch: None,
    bounds: crate::limits::ResponseBounds::DEFAULT,
};
const HEAD: ResponsePolicy = ResponsePolicy { head_request: true, ..GET };
const GET_10: ResponsePolicy = ResponsePolicy { http10: true, ..GET };

/// What the client got, and how it ended.
#[derive(Debug)]
struct Passed {
    out: String,
    filter: Filter,
    end: Result<(), Bad>,
}

/// Feeds the parts of a response, and its end.
fn pass_parts(wanted: ResponsePolicy, parts: &[&[u8]]) -> Passed {
    let mut filter = Filter::new(wanted);
    let mut out = Vec::new();
    for part in parts {
        match filter.feed(part, &mut encoder(&mut out)) {
            Ok(progress) => {
                assert_eq!(progress, Progress { consumed: part.len(), complete: filter.complete() });
            }
            Err(bad) => assert_eq!(filter.feed(b"", &mut encoder(&mut Vec::new())), Err(bad), "it stays bad"),
        }
    }
    let end = filter.end(&mut encoder(&mut out));
    assert_eq!(filter.complete(), end.is_ok());
    Passed { out: String::from_utf8_lossy(&out).into_owned(), filter, end }
}

fn pass(wanted: ResponsePolicy, response: &str) -> Passed {
    pass_parts(wanted, &[response.as_bytes()])
}

/// What went wrong before anything of the final response was written.
fn refused(wanted: ResponsePolicy, response: &str) -> Bad {
    let passed = pass(wanted, response);
    assert_eq!(
        (passed.out.as_str(), passed.filter.head_written(), passed.filter.keeps()),
        ("", false, false)
    );
    passed.end.expect_err(response)
}
