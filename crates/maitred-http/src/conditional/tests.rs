use super::Outcome::{NotModified, PreconditionFailed, Proceed};
use super::*;

const NOW: u64 = 784_200_000;
const MODIFIED: u64 = 784_111_777;
const BEFORE: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";
const EXACT: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
const AFTER: &[u8] = b"Sun, 06 Nov 1994 08:49:38 GMT";

const CURRENT: Validators<'_> =
    Validators { etag: Some(EntityTag { weak: false, opaque: b"b" }), last_modified: Some(MODIFIED) };

fn get(known: Known<'_>) -> Outcome {
    evaluate(&known, Method::Get, Some(&CURRENT), NOW)
}

fn put(known: Known<'_>) -> Outcome {
    evaluate(&known, Method::Put, Some(&CURRENT), NOW)
}

fn none() -> Known<'static> {
    Known::default()
}

#[test]
fn without_conditions_it_goes_on() {
    assert_eq!(get(none()), Proceed);
}

#[test]
fn if_match_compares_strongly() {
    for (list, outcome) in [
        (&b"\"b\""[..], Proceed),
        (b"\"a\", \"b\"", Proceed),
        (b"*", Proceed),
        (b"\"a\"", PreconditionFailed),
        (b"W/\"b\"", PreconditionFailed),
        (b"", PreconditionFailed),
    ] {
        assert_eq!(get(Known { if_match: List::of(list), ..none() }), outcome);
        assert_eq!(put(Known { if_match: List::of(list), ..none() }), outcome);
    }
}

#[test]
fn if_match_takes_precedence_over_if_unmodified_since() {
    assert_eq!(
        get(Known { if_match: List::of(b"\"b\""), if_unmodified_since: Some(BEFORE), ..none() }),
        Proceed
    );
    let other = Known { if_match: List::of(b"\"a\""), if_unmodified_since: Some(AFTER), ..none() };
    assert_eq!(get(other), PreconditionFailed);
}

#[test]
fn if_unmodified_since_compares_dates() {
    for (date, outcome) in
        [(BEFORE, PreconditionFailed), (EXACT, Proceed), (AFTER, Proceed), (&b"not a date"[..], Proceed)]
    {
        assert_eq!(get(Known { if_unmodified_since: Some(date), ..none() }), outcome);
        assert_eq!(put(Known { if_unmodified_since: Some(date), ..none() }), outcome);
    }
}

#[test]
fn if_none_match_compares_weakly() {
    for (list, reading, writing) in [
        (&b"\"b\""[..], NotModified, PreconditionFailed),
        (b"W/\"b\"", NotModified, PreconditionFailed),
        (b"*", NotModified, PreconditionFailed),
        (b"\"a\"", Proceed, Proceed),
    ] {
        let known = Known { if_none_match: List::of(list), ..none() };
        assert_eq!(get(known), reading);
        assert_eq!(evaluate(&known, Method::Head, Some(&CURRENT), NOW), reading);
        assert_eq!(put(known), writing);
    }
}

#[test]
fn if_none_match_takes_precedence_over_if_modified_since() {
    assert_eq!(
        get(Known { if_none_match: List::of(b"\"a\""), if_modified_since: Some(AFTER), ..none() }),
        Proceed
    );
    let other = Known { if_none_match: List::of(b"\"b\""), if_modified_since: Some(BEFORE), ..none() };
    assert_eq!(get(other), NotModified);
}

#[test]
fn if_modified_since_counts_for_get_and_head_only() {
    for (date, outcome) in
        [(BEFORE, Proceed), (EXACT, NotModified), (AFTER, NotModified), (&b"0"[..], Proceed)]
    {
        let known = Known { if_modified_since: Some(date), ..none() };
        assert_eq!(get(known), outcome);
        assert_eq!(put(known), Proceed);
    }
}

#[test]
fn the_conditions_on_writing_come_first() {
    let known = Known { if_match: List::of(b"\"a\""), if_none_match: List::of(b"\"b\""), ..none() };
    assert_eq!(get(known), PreconditionFailed);
}

#[test]
fn nothing_there_meets_no_if_match_and_every_if_none_match() {
    let asterisk = List::of(b"*");
    assert_eq!(evaluate(&Known { if_match: asterisk, ..none() }, Method::Put, None, NOW), PreconditionFailed);
    assert_eq!(evaluate(&Known { if_none_match: asterisk, ..none() }, Method::Put, None, NOW), Proceed);
}

#[test]
fn dates_are_ignored_where_there_is_no_date() {
    let current = Validators { last_modified: None, ..CURRENT };
    let known = Known { if_unmodified_since: Some(BEFORE), if_modified_since: Some(AFTER), ..none() };
    assert_eq!(evaluate(&known, Method::Get, Some(&current), NOW), Proceed);
}

#[test]
fn methods_without_a_representation_ignore_conditions() {
    for method in [Method::Connect, Method::Options, Method::Trace] {
        let known = Known { if_match: List::of(b"\"a\""), if_none_match: List::of(b"*"), ..none() };
        assert_eq!(evaluate(&known, method, Some(&CURRENT), NOW), Proceed);
    }
}

fn range_with(if_range: &[u8], current: &Validators<'_>, now: u64) -> bool {
    let known = Known { range: Some(b"bytes=0-"), if_range: Some(if_range), ..none() };
    range_applies(&known, Method::Get, current, now)
}

#[test]
fn ranges_are_for_get() {
    let known = Known { range: Some(b"bytes=0-"), ..none() };
    assert!(range_applies(&known, Method::Get, &CURRENT, NOW));
    assert!(!range_applies(&known, Method::Head, &CURRENT, NOW));
    assert!(!range_applies(&known, Method::Post, &CURRENT, NOW));
    assert!(!range_applies(&none(), Method::Get, &CURRENT, NOW));
}

#[test]
fn if_range_compares_tags_strongly() {
    assert!(range_with(b"\"b\"", &CURRENT, NOW));
    assert!(!range_with(b"\"a\"", &CURRENT, NOW));
    assert!(!range_with(b"W/\"b\"", &CURRENT, NOW));
    let weak = Validators { etag: Some(EntityTag { weak: true, opaque: b"b" }), ..CURRENT };
    assert!(!range_with(b"W/\"b\"", &weak, NOW));
    assert!(!range_with(b"\"b\"", &weak, NOW));
    assert!(!range_with(b"\"a\", \"b\"", &CURRENT, NOW));
    assert!(!range_with(b"*", &CURRENT, NOW));
}

#[test]
fn if_range_wants_exactly_the_date() {
    assert!(range_with(EXACT, &CURRENT, NOW));
    assert!(!range_with(BEFORE, &CURRENT, NOW));
    assert!(!range_with(AFTER, &CURRENT, NOW));
    assert!(!range_with(EXACT, &Validators { last_modified: None, ..CURRENT }, NOW));
}

#[test]
fn if_range_wants_a_strong_date() {
    assert!(!range_with(EXACT, &CURRENT, MODIFIED));
    assert!(range_with(EXACT, &CURRENT, MODIFIED + 1));
}
