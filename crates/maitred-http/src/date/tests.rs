use proptest::prelude::*;

use super::*;

const EXAMPLE: u64 = 784_111_777;
/// 2026-11-20
const NOW: u64 = 1_795_132_800;

#[test]
fn writes_fixdates() {
    assert_eq!(&format(EXAMPLE), b"Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(&format(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(&format(951_782_400), b"Tue, 29 Feb 2000 00:00:00 GMT");
    assert_eq!(&format(4_107_542_399), b"Sun, 28 Feb 2100 23:59:59 GMT");
    assert_eq!(&format(4_107_542_400), b"Mon, 01 Mar 2100 00:00:00 GMT");
    assert_eq!(&format(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
}

#[test]
fn writes_dates_of_access_logs() {
    assert_eq!(&format_clf(1_431_857_103), b"17/May/2015:10:05:03 +0000");
}

#[test]
fn reads_all_three_formats() {
    for text in
        ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
    {
        assert_eq!(parse(text.as_bytes(), NOW), Some(EXAMPLE), "{text}");
    }
    assert_eq!(parse(b"Wed Nov 16 08:49:37 1994", NOW), Some(EXAMPLE + 10 * DAY_SECS));
    for text in
        ["SUN, 06 nov 1994 08:49:37 gmt", "sunday, 06-NOV-94 08:49:37 GMT", "sUN nOV  6 08:49:37 1994"]
    {
        assert_eq!(parse(text.as_bytes(), NOW), Some(EXAMPLE), "{text}");
    }
}

#[test]
fn years_of_two_digits_lie_at_most_fifty_years_ahead() {
    let year = |text: &str| Parts::of(parse(text.as_bytes(), NOW).unwrap()).year;
    assert_eq!(year("Friday, 01-Jan-27 00:00:00 GMT"), 2027);
    assert_eq!(year("Friday, 01-Jan-76 00:00:00 GMT"), 2076);
    assert_eq!(year("Friday, 19-Nov-76 00:00:00 GMT"), 2076);
    assert_eq!(year("Friday, 21-Nov-76 00:00:00 GMT"), 1976);
    assert_eq!(year("Friday, 01-Jan-77 00:00:00 GMT"), 1977);
    // Near the end of a century the next one is near.
    let then = parse(b"Thu, 01 Jan 2099 00:00:00 GMT", NOW).unwrap();
    let parsed = parse(b"Friday, 01-Jan-05 00:00:00 GMT", then).unwrap();
    assert_eq!(Parts::of(parsed).year, 2105);
    let parsed = parse(b"Friday, 01-Jan-49 00:00:00 GMT", then).unwrap();
    assert_eq!(Parts::of(parsed).year, 2149);
    let parsed = parse(b"Friday, 02-Jan-49 00:00:00 GMT", then).unwrap();
    assert_eq!(Parts::of(parsed).year, 2049);
}

#[test]
fn refuses_what_is_no_date() {
    for text in [
        "",
        "0",
        "Sun",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Son, 06 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 29 Feb 1900 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, +6 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 94",
    ] {
        assert_eq!(parse(text.as_bytes(), NOW), None, "{text}");
    }
}

#[test]
fn dates_before_1970_are_the_beginning() {
    assert_eq!(parse(b"Wed, 31 Dec 1969 23:59:59 GMT", NOW), Some(0));
    assert_eq!(parse(b"Sat, 01 Jan 0000 00:00:00 GMT", NOW), Some(0));
}

proptest! {
    #[test]
    fn reads_what_it_writes(secs in 0..=LATEST) {
        prop_assert_eq!(parse(&format(secs), NOW), Some(secs));
    }

    #[test]
    fn days_follow_one_another(day in 0..LATEST / DAY_SECS) {
        let (today, tomorrow) = (Parts::of(day * DAY_SECS), Parts::of((day + 1) * DAY_SECS));
        prop_assert_eq!((today.weekday + 1) % 7, tomorrow.weekday);
        prop_assert!(tomorrow.day == today.day + 1 || (tomorrow.day == 1 && today.day >= 28));
    }

    #[test]
    fn never_panics(value in proptest::collection::vec(any::<u8>(), 0..40), now: u64) {
        let _ = parse(&value, now);
    }
}
