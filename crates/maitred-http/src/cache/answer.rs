//! What of a stored response answers a request: its conditions (9111-4.3.2) and ranges (9110-14).

use std::ops::Range;

use crate::conditional::{Outcome, Validators, evaluate, range_applies};
use crate::date;
use crate::etag::EntityTag;
use crate::fields::{FieldLines, FieldsRef};
use crate::range::{Ranges, parse};
use crate::request::{Known, Method};

/// How a request is answered from a stored response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// As it is stored.
    Whole,
    /// 304, with [`put_not_modified_fields`].
    NotModified,
    /// 206, with these parts of its content.
    Partial(Vec<Range<u64>>),
    /// 416.
    Unsatisfiable,
}

/// How a GET or HEAD is answered from a stored response of this status, whose content has `size` bytes. `If-Match` and
/// `If-Unmodified-Since` are not looked at: requests with these are not the cache's ([`Wanted::consult`](super::Wanted)).
///
/// `date` is that of the response ([`Lifetime::date`](super::Lifetime::date)): one without `Last-Modified` is compared by it
/// (9111-4.3.2). Ranges are those of the stored bytes, whatever
/// their coding: it is a part of the representation (9110-8.4), and its entity tag is about both.
pub fn answer(
    (status, stored, size): (u16, FieldsRef<'_>, u64),
    date: u64,
    (method, known): (Method, &Known<'_>),
    ranges_max: usize,
) -> Answer {
    if !(200..300).contains(&status) {
        // Conditions are about what would be a success without them (9110-13.2.1).
        return Answer::Whole;
    }
    let last_modified = stored.get(b"last-modified").and_then(|value| date::parse(value, date));
    let etag = stored.get(b"etag").and_then(EntityTag::parse);
    let validators = Validators { etag, last_modified: last_modified.or(Some(date)) };
    let known = Known { if_match: None, if_unmodified_since: None, ..*known };
    if evaluate(&known, method, Some(&validators), date) == Outcome::NotModified {
        return Answer::NotModified;
    }
    // A date is a strong validator if it was the past already when the response was made (9110-8.8.2.2).
    let validators = Validators { etag, last_modified };
    if status != 200 || !range_applies(&known, method, &validators, date) {
        return Answer::Whole;
    }
    match parse(known.range.unwrap_or_default(), size, ranges_max) {
        Ranges::Ignore => Answer::Whole,
        Ranges::Unsatisfiable => Answer::Unsatisfiable,
        Ranges::Some(ranges) => Answer::Partial(ranges),
    }
}

/// Appends the stored fields that a 304 has (9110-15.4.5): all but those that describe the content, which the client has. Among
/// these is `Last-Modified` where there is an entity tag.
pub fn put_not_modified_fields(stored: FieldsRef<'_>, out: &mut FieldLines) {
    const LEFT_OUT: [&str; 5] =
        ["content-encoding", "content-language", "content-length", "content-range", "content-type"];
    let has_etag = stored.get(b"etag").is_some();
    for (name, value) in stored.iter() {
        let modified = has_etag && name.eq_ignore_ascii_case(b"last-modified");
        if !modified && !LEFT_OUT.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes())) {
            out.push(name, value);
        }
    }
}
