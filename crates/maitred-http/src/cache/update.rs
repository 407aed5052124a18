//! Validation (9111-4.3), and what a 304 or the response to a HEAD changes.

use super::freshness::Facts;
use super::storable::{is_never_stored, left_out, store_by};
use super::{Lifetime, Rules, Times, Wanted, Why};
use crate::date;
use crate::etag::{Comparison, EntityTag};
use crate::fields::{FieldLines, FieldsRef};
use crate::response::ResponseHead;

/// Request fields that are the client's own conditions and ranges: they do not go along with a validation, which is about what is
/// stored (9111-4.3.1), nor with a request for what is to be stored. In small letters.
pub const CONDITIONAL_FIELDS: [&str; 6] =
    ["if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "range"];

/// Appends the conditions that a stored response is validated by. None are added if it has no validators.
pub fn put_conditions(stored: FieldsRef<'_>, out: &mut FieldLines) {
    // What is no entity tag, as "*", would mean something else in a condition.
    if let Some(etag) = stored.get(b"etag").filter(|etag| EntityTag::parse(etag).is_some()) {
        out.push(b"If-None-Match", etag);
    }
    // Dates are compared by their text in some servers: it is sent as it came. The horizon for years of two digits does not
    // matter here.
    if let Some(modified) = stored.get(b"last-modified").filter(|value| date::parse(value, 0).is_some()) {
        out.push(b"If-Modified-Since", modified);
    }
}

/// How many stored responses the condition was about that a 304 answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The request had the validators of this stored response, and no others.
    One,
    /// The request had the validators of several, or the client's own.
    Several,
}

/// Whether a 304 is about this stored response (9111-4.3.4).
///
/// A 304 that answers the validators of a single response is, even if it has other validators itself: the server has said that
/// they are current. By the letter another entity tag in it would forbid the update, but what has one is a server (or a
/// compressing filter) that writes its tags in two ways.
pub fn updates(stored: FieldsRef<'_>, head: &ResponseHead<'_>, asked: Asked) -> bool {
    if head.status != 304 {
        return false;
    }
    asked == Asked::One || same_validators(stored, head) == Some(true)
}

/// Whether a response has the validators of a stored one; `None` if it has none to compare.
fn same_validators(stored: FieldsRef<'_>, head: &ResponseHead<'_>) -> Option<bool> {
    let (mut etag, mut modified) = (None, None);
    head.for_each(|name, value| {
        if name.eq_ignore_ascii_case(b"etag") {
            etag = etag.or_else(|| EntityTag::parse(value));
        } else if name.eq_ignore_ascii_case(b"last-modified") {
            modified = modified.or(Some(value));
        }
    });
    let stored_etag = stored.get(b"etag").and_then(EntityTag::parse);
    if let Some(etag) = etag {
        let comparison = if etag.weak { Comparison::Weak } else { Comparison::Strong };
        return Some(stored_etag.is_some_and(|stored| stored.matches(etag, comparison)));
    }
    modified.map(|modified| stored.get(b"last-modified") == Some(modified))
}

/// What the response to a HEAD says about a stored response to GET (9111-4.3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadUpdate {
    /// The stored response is still current: [`freshen`] takes the new fields over.
    Update,
    /// The stored response is not what a GET would get now: it is [outdated](Lifetime::outdated).
    Outdated,
    /// Nothing.
    Nothing,
}

/// What the response to a HEAD, which selects this stored response (whose status is 200), says about it. The validators and the
/// length of the HEAD's response, as far as it has them, have to be the stored ones.
pub fn head_updates(stored: FieldsRef<'_>, head: &ResponseHead<'_>) -> HeadUpdate {
    if head.status != 200 {
        return HeadUpdate::Nothing;
    }
    let mut lengths_differ = false;
    head.for_each(|name, value| {
        let is_length = name.eq_ignore_ascii_case(b"content-length");
        lengths_differ |= is_length && stored.get(b"content-length").is_some_and(|stored| stored != value);
    });
    match same_validators(stored, head) {
        Some(false) => HeadUpdate::Outdated,
        _ if lengths_differ => HeadUpdate::Outdated,
        Some(true) => HeadUpdate::Update,
        // Without validators on either side only the length could tell, and it does not differ.
        None if stored.get(b"etag").is_none() && stored.get(b"last-modified").is_none() => HeadUpdate::Update,
        None => HeadUpdate::Nothing,
    }
}

/// Whether a field is a fact of the stored content, or of its coding, which a response without content does not change
/// (9111-3.2).
fn is_of_content(name: &[u8]) -> bool {
    const NAMES: [&str; 7] = [
        "content-digest",
        "content-encoding",
        "content-length",
        "content-md5",
        "content-range",
        "digest",
        "repr-digest",
    ];
    NAMES.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

/// Appends the stored fields as a 304, or the response to a HEAD, has changed them (9111-3.2): each of its fields takes the place
/// of all stored ones of its name. What describes the stored content stays; so does an entity tag, which names this content. If
/// it has no `Date`, the time when it was received is the new one.
pub fn merge(
    stored: FieldsRef<'_>,
    head: &ResponseHead<'_>,
    response_time: u64,
    rules: &Rules,
    out: &mut FieldLines,
) {
    let left_out = left_out(head, rules, response_time);
    let is_left_out = |name: &[u8]| left_out.iter().any(|other| other.eq_ignore_ascii_case(name));
    let has_etag = stored.get(b"etag").is_some();
    let changes = |name: &[u8]| {
        let etag = has_etag && name.eq_ignore_ascii_case(b"etag");
        !etag && !is_of_content(name) && !is_never_stored(name) && !is_left_out(name)
    };
    let mut names: Vec<&[u8]> = Vec::new();
    let mut dated = false;
    head.for_each(|name, _| {
        dated |= name.eq_ignore_ascii_case(b"date");
        if changes(name) {
            names.push(name);
        }
    });
    // Sorted, so that a long head against a long head is no square.
    names.sort_unstable_by(|one, other| compare(one, other));
    names.dedup_by(|one, other| one.eq_ignore_ascii_case(other));
    for (name, value) in stored.iter() {
        let old_date = !dated && name.eq_ignore_ascii_case(b"date");
        let replaced = names.binary_search_by(|other| compare(other, name)).is_ok();
        // Fields that the new response names in `no-cache` must not be given without it, even if they are stored.
        if !replaced && !old_date && !is_left_out(name) {
            out.push(name, value);
        }
    }
    head.for_each(|name, value| {
        if changes(name) {
            out.push(name, value);
        }
    });
    if !dated {
        out.push(b"Date", &date::format(response_time));
    }
}

fn compare(one: &[u8], other: &[u8]) -> std::cmp::Ordering {
    one.iter().map(u8::to_ascii_lowercase).cmp(other.iter().map(u8::to_ascii_lowercase))
}

/// Appends the fields of a response that are not stored, and are for the client of this exchange all the same: `Set-Cookie`, and
/// those that `no-cache` or `private` name. Fields that others may have, too, go to `shared`.
pub fn split_fields(
    head: &ResponseHead<'_>,
    response_time: u64,
    rules: &Rules,
    shared: &mut FieldLines,
    own: &mut FieldLines,
) {
    let mut hops: Vec<&[u8]> = Vec::new();
    head.for_each(|name, value| {
        if name.eq_ignore_ascii_case(b"connection") {
            hops.extend(value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii));
        }
    });
    let left_out = left_out(head, rules, response_time);
    head.for_each(|name, value| {
        let is = |other: &[u8]| other.eq_ignore_ascii_case(name);
        if is_never_stored(name) || hops.iter().any(|other| is(other)) {
            return;
        }
        let place = if left_out.iter().any(|other| is(other)) { &mut *own } else { &mut *shared };
        place.push(name, value);
    });
}

/// Appends the merged fields of a stored response, and says how long it is good from now on. The client gets the
/// merged fields in either case, with those of its own ([`split_fields`]).
///
/// # Errors
///
/// Why the response as it is now would not have been stored: it is not given any more. With [`Why::Authorization`] it is left as
/// it was: what this client may see says nothing about others.
pub fn freshen(
    (status, stored): (u16, FieldsRef<'_>),
    head: &ResponseHead<'_>,
    wanted: &Wanted,
    times: Times,
    rules: &Rules,
    out: &mut FieldLines,
) -> Result<Lifetime, Why> {
    let start = out.len();
    merge(stored, head, times.response_time, rules, out);
    let merged = ResponseHead::own(status, out.all().part(start..out.len()));
    let mut facts = Facts::of(&merged, rules, times.response_time);
    // A stored cookie was stored by rule, or is not there.
    facts.set_cookie = false;
    // `Age` is not among the merged fields, and is that of the new response.
    facts.age = Facts::of(head, rules, times.response_time).age;
    store_by(&facts, wanted, &merged, times, rules)
}
