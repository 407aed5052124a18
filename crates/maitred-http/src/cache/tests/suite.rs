//! The cases of the suite of http-tests/cache-tests, by their names there, each carried out by the model of a cache. Kinds:
//! R is required, O is what a good cache does, C only says what this one does. Where releases of that suite differ the newer one
//! counts.

use super::super::{Rules, StatusTtl};
use super::script::run;

/// One response, then the same request after three seconds: `cached` or not. The response has `Date: @0` unless it has a `Date`.
pub(super) type Reused<'a> = (&'a str, char, u16, &'a str, bool);

pub(super) const CACHED: bool = true;
pub(super) const NOT: bool = false;

pub(super) fn heuristic() -> Rules {
    Rules { heuristic: true, ..Rules::default() }
}

pub(super) fn run_reused(rules: &Rules, cases: &[Reused<'_>]) {
    for (id, kind, status, fields, cached) in cases {
        assert!("ROC".contains(*kind));
        let date = if fields.contains("Date:") { "" } else { "| Date: @0" };
        let end = if *cached { format!("cached {status}") } else { format!("origin {status}") };
        let first = format!("GET => {status} | {fields} {date} => origin {status}\n+3\n");
        let second = if *cached { "" } else { &format!("{status} | {fields} {date}") };
        run(id, rules, &format!("{first}GET => {second} => {end}"));
    }
}

#[test]
fn lifetimes_are_what_cache_control_says() {
    run_reused(
        &heuristic(),
        &[
            ("freshness-none", 'C', 200, "", NOT),
            ("freshness-max-age", 'O', 200, "Cache-Control: max-age=600", CACHED),
            ("freshness-max-age-0", 'R', 200, "Cache-Control: max-age=0", NOT),
            ("freshness-max-age-stale", 'R', 200, "Cache-Control: max-age=2", NOT),
            ("freshness-max-age-max-minus-1", 'O', 200, "Cache-Control: max-age=2147483647", CACHED),
            ("freshness-max-age-max", 'O', 200, "Cache-Control: max-age=2147483648", CACHED),
            ("freshness-max-age-max-plus-1", 'O', 200, "Cache-Control: max-age=2147483649", CACHED),
            ("freshness-max-age-max-plus", 'O', 200, "Cache-Control: max-age=98765432109", CACHED),
            ("freshness-max-age-age", 'R', 200, "Cache-Control: max-age=600 | Age: 1200", NOT),
            ("freshness-max-age-date", 'C', 200, "Cache-Control: max-age=600 | Date: @-1200", NOT),
            ("freshness-max-age-expires", 'O', 200, "Cache-Control: max-age=600 | Expires: @-1200", CACHED),
            (
                "freshness-max-age-expires-invalid",
                'O',
                200,
                "Cache-Control: max-age=600 | Expires: 0",
                CACHED,
            ),
            ("freshness-max-age-0-expires", 'R', 200, "Expires: @600 | Cache-Control: max-age=0", NOT),
            ("freshness-max-age-extension", 'O', 200, "Cache-Control: unknown, max-age=600", CACHED),
            ("freshness-max-age-case-insenstive", 'O', 200, "Cache-Control: mAX-agE=600", CACHED),
            ("freshness-max-age-negative", 'R', 200, "Cache-Control: max-age=-600", NOT),
            ("freshness-s-maxage-shared", 'R', 200, "Cache-Control: s-maxage=600", CACHED),
            (
                "freshness-max-age-s-maxage-shared-longer",
                'R',
                200,
                "Cache-Control: max-age=600, s-maxage=1",
                NOT,
            ),
            ("…-longer-reversed", 'R', 200, "Cache-Control: s-maxage=1, max-age=600", NOT),
            ("…-longer-multiple", 'R', 200, "Cache-Control: max-age=600 | Cache-Control: s-maxage=1", NOT),
            ("…-shorter", 'O', 200, "Cache-Control: max-age=1, s-maxage=600", CACHED),
            ("…-shorter-expires", 'O', 200, "Expires: @-9 | Cache-Control: max-age=0, s-maxage=600", CACHED),
        ],
    );
}

#[test]
fn directives_are_read_as_leniently_as_they_may_be() {
    run_reused(
        &heuristic(),
        &[
            ("freshness-max-age-quoted", 'C', 200, "Cache-Control: max-age=\"600\"", CACHED),
            ("freshness-max-age-single-quoted", 'R', 200, "Cache-Control: max-age='600'", NOT),
            ("…-ignore-quoted", 'R', 200, "Cache-Control: other=\"max-age=600\", max-age=1", NOT),
            ("…-ignore-quoted-rev", 'R', 200, "Cache-Control: max-age=1, other=\"max-age=600\"", NOT),
            ("…-ignore-quoted-all", 'R', 200, "Cache-Control: other=\"max-age=600\", max-age=\"1\"", NOT),
            ("…-ignore-quoted-all-rev", 'R', 200, "Cache-Control: max-age=\"1\", other=\"max-age=600\"", NOT),
            ("freshness-max-age-leading-zero", 'R', 200, "Cache-Control: max-age=000600", CACHED),
            ("freshness-max-age-decimal-zero", 'C', 200, "Cache-Control: max-age=600.0", NOT),
            ("freshness-max-age-decimal-five", 'C', 200, "Cache-Control: max-age=600.5", NOT),
            ("freshness-max-age-space-before-equals", 'C', 200, "Cache-Control: max-age =600", NOT),
            ("freshness-max-age-space-after-equals", 'C', 200, "Cache-Control: max-age= 600", NOT),
            ("freshness-max-age-a100", 'C', 200, "Cache-Control: max-age=a600", NOT),
            ("freshness-max-age-100a", 'C', 200, "Cache-Control: max-age=600a", NOT),
            ("…-multiple-directive", 'C', 200, "Cache-Control: max-age=600, max-age=300", CACHED),
            ("…-two-stale-fresh-sameline", 'C', 200, "Cache-Control: max-age=1, max-age=600", NOT),
            ("…-two-fresh-stale-sameline", 'C', 200, "Cache-Control: max-age=600, max-age=1", CACHED),
            (
                "…-two-stale-fresh-sepline",
                'C',
                200,
                "Cache-Control: max-age=1 | Cache-Control: max-age=600",
                NOT,
            ),
            (
                "…-two-fresh-stale-sepline",
                'C',
                200,
                "Cache-Control: max-age=600 | Cache-Control: max-age=1",
                CACHED,
            ),
        ],
    );
}

#[test]
fn ages_are_the_first_number_or_none() {
    let case = |id, kind, age, cached| (id, kind, 200, age, cached);
    let cases = [
        case("age-parse-nonnumeric", 'R', "Age: old", CACHED),
        case("age-parse-negative", 'R', "Age: -1200", CACHED),
        case("age-parse-float", 'R', "Age: 1200.0", CACHED),
        case("age-parse-large-minus-one", 'R', "Age: 2147483647", NOT),
        case("age-parse-large", 'R', "Age: 2147483648", NOT),
        case("age-parse-larger", 'R', "Age: 2147483649", NOT),
        case("age-parse-suffix", 'R', "Age: 1200, 0", NOT),
        case("age-parse-prefix", 'R', "Age: 0, 1200", CACHED),
        case("age-parse-suffix-twoline", 'R', "Age: 1200 | Age: 0", NOT),
        case("age-parse-prefix-twoline", 'R', "Age: 0 | Age: 1200", CACHED),
        case("age-parse-dup-0", 'R', "Age: 0, 0", CACHED),
        case("age-parse-dup-0-twoline", 'R', "Age: 0 | Age: 0", CACHED),
        case("age-parse-dup-old", 'R', "Age: 300 | Age: 300", CACHED),
        case("age-parse-parameter", 'C', "Age: 1200;a=b", CACHED),
        case("age-parse-numeric-parameter", 'C', "Age: 1200;a=1", CACHED),
    ];
    for (id, kind, status, fields, cached) in cases {
        let fields = format!("Cache-Control: max-age=600 | {fields}");
        run_reused(&Rules::default(), &[(id, kind, status, &fields, cached)]);
    }
}

#[test]
fn expires_is_a_date_or_has_passed() {
    let case = |id, kind, fields, cached| (id, kind, 200, fields, cached);
    run_reused(
        &Rules::default(),
        &[
            case("freshness-expires-future", 'O', "Expires: @90000", CACHED),
            case("freshness-expires-past", 'R', "Expires: @-90000", NOT),
            case("freshness-expires-present", 'R', "Expires: @0", NOT),
            case("freshness-expires-old-date", 'R', "Expires: @300 | Date: @400", NOT),
            case("freshness-expires-invalid", 'R', "Expires: 0", NOT),
            case("freshness-expires-invalid-date", 'O', "Date: none | Expires: @10", CACHED),
            case("freshness-expires-age-slow-date", 'R', "Date: @-10 | Expires: @10 | Age: 25", NOT),
            case("freshness-expires-age-fast-date", 'R', "Date: @10 | Expires: @20 | Age: 15", NOT),
            case("freshness-expires-32bit", 'O', "Expires: Tue, 19 Jan 2038 12:30:08 GMT", CACHED),
            case("freshness-expires-far-future", 'O', "Expires: Sun, 21 Nov 2286 05:00:00 GMT", CACHED),
            case("freshness-expires-rfc850", 'O', "Expires: Saturday, 06-Nov-49 08:49:37 GMT", CACHED),
            case("freshness-expires-ansi-c", 'O', "Expires: Sat Nov  6 08:49:37 2049", CACHED),
            case(
                "freshness-expires-wrong-case-weekday",
                'O',
                "Expires: SAT, 06 Nov 2049 08:49:37 GMT",
                CACHED,
            ),
            case("freshness-expires-wrong-case-month", 'O', "Expires: Sat, 06 NOV 2049 08:49:37 GMT", CACHED),
            case("freshness-expires-wrong-case-tz", 'O', "Expires: Sat, 06 Nov 2049 08:49:37 gmT", CACHED),
            case("freshness-expires-invalid-utc", 'R', "Expires: Sat, 06 Nov 2049 08:49:37 UTC", NOT),
            case("freshness-expires-invalid-aest", 'R', "Expires: Sat, 06 Nov 2049 08:49:37 AEST", NOT),
            case("…-invalid-2-digit-year", 'R', "Expires: Sat, 06 Nov 49 08:49:37 GMT", NOT),
            case("freshness-expires-invalid-no-comma", 'R', "Expires: Sat 06 Nov 2049 08:49:37 GMT", NOT),
            case("…-invalid-multiple-spaces", 'R', "Expires: Sat, 06  Nov  2049 08:49:37 GMT", NOT),
            case("freshness-expires-invalid-date-dashes", 'R', "Expires: Sat, 06-Nov-2049 08:49:37 GMT", NOT),
            case("…-invalid-time-periods", 'R', "Expires: Sat, 06 Nov 2049 08.49.37 GMT", NOT),
            case("…-invalid-1-digit-hour", 'R', "Expires: Sat, 06 Nov 2049 8:49:37 GMT", NOT),
            case(
                "…-invalid-multiple-lines",
                'R',
                "Expires: Sat, 06 Nov 2049 8:49:37 GMT | Expires: @900",
                NOT,
            ),
        ],
    );
}

#[test]
fn statuses_are_reused_as_long_as_they_are_fresh() {
    let statuses = [200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599];
    for status in statuses {
        let fresh = ("status-…-fresh", 'O', status, "Expires: @900 | Last-Modified: @0", CACHED);
        let stale = ("status-…-stale", 'R', status, "Expires: @-900 | Last-Modified: @-9000", NOT);
        run_reused(&Rules::default(), &[fresh, stale]);
    }
    let directives = "Cache-Control: max-age=600, no-store, must-understand";
    run_reused(
        &Rules::default(),
        &[
            ("status-599-must-understand", 'R', 599, directives, NOT),
            ("status-599-must-understand", 'R', 599, "Cache-Control: max-age=600, must-understand", NOT),
            ("status-200-must-understand", 'O', 200, directives, CACHED),
        ],
    );
}

#[test]
fn guesses_are_for_statuses_that_allow_them_and_off_by_default() {
    const DAY_OLD: &str = "Last-Modified: @-86400";
    for (status, cached) in [
        (200, CACHED),
        (201, NOT),
        (202, NOT),
        (203, CACHED),
        (204, CACHED),
        (403, NOT),
        (404, CACHED),
        (405, CACHED),
        (410, CACHED),
        (414, CACHED),
        (501, CACHED),
        (502, NOT),
        (503, NOT),
        (504, NOT),
        (599, NOT),
    ] {
        let kind = if cached { 'O' } else { 'R' };
        run_reused(&heuristic(), &[("heuristic-…", kind, status, DAY_OLD, cached)]);
        run_reused(&Rules::default(), &[("heuristic-…", 'C', status, DAY_OLD, NOT)]);
    }
    run_reused(
        &heuristic(),
        &[
            ("heuristic-599-cached", 'O', 599, "Last-Modified: @-86400 | Cache-Control: public", CACHED),
            ("heuristic-delta-5", 'C', 200, "Last-Modified: @-5", NOT),
            ("heuristic-delta-30", 'C', 200, "Last-Modified: @-30", NOT),
            ("heuristic-delta-60", 'C', 200, "Last-Modified: @-60", CACHED),
            ("heuristic-delta-86400", 'C', 200, DAY_OLD, CACHED),
            ("other-heuristic-content-disposition-attachment", 'C', 200, "Last-Modified: @-86400", CACHED),
        ],
    );
}

#[test]
fn targeted_fields_count_instead_of_cache_control() {
    let case = |id, kind, fields, cached| (id, kind, 200, fields, cached);
    run_reused(
        &Rules::default(),
        &[
            case("cdn-max-age", 'O', "CDN-Cache-Control: max-age=600", CACHED),
            case("cdn-max-age-max", 'O', "CDN-Cache-Control: max-age=2147483648", CACHED),
            case("cdn-max-age-max-plus", 'O', "CDN-Cache-Control: max-age=98765432109", CACHED),
            case("cdn-max-age-age", 'R', "CDN-Cache-Control: max-age=600 | Age: 1200", NOT),
            case(
                "…-space-before-equals",
                'C',
                "Cache-Control: max-age=1 | CDN-Cache-Control: max-age =9",
                NOT,
            ),
            case(
                "…-space-after-equals",
                'C',
                "Cache-Control: max-age=1 | CDN-Cache-Control: max-age= 9",
                NOT,
            ),
            case("cdn-max-age-0", 'R', "CDN-Cache-Control: max-age=0", NOT),
            case("cdn-max-age-extension", 'O', "CDN-Cache-Control: unknown, max-age=600", CACHED),
            case("cdn-max-age-case-insensitive", 'C', "CDN-Cache-Control: Max-Age=600", NOT),
            case("cdn-max-age-expires", 'O', "CDN-Cache-Control: max-age=600 | Expires: @-900", CACHED),
            case(
                "cdn-max-age-cc-max-age-invalid-expires",
                'O',
                "CDN-Cache-Control: max-age=9 | Expires: 0",
                CACHED,
            ),
            case("cdn-max-age-0-expires", 'R', "CDN-Cache-Control: max-age=0 | Expires: @900", NOT),
            case(
                "…-short-cc-max-age",
                'O',
                "Cache-Control: max-age=1 | CDN-Cache-Control: max-age=9",
                CACHED,
            ),
            case("…-long-cc-max-age", 'R', "Cache-Control: max-age=9 | CDN-Cache-Control: max-age=1", NOT),
            case("cdn-private", 'R', "CDN-Cache-Control: private | Cache-Control: max-age=900", NOT),
            case("cdn-no-cache", 'R', "CDN-Cache-Control: no-cache | Cache-Control: max-age=900", NOT),
            case(
                "cdn-no-store-cc-fresh",
                'R',
                "Cache-Control: max-age=900 | CDN-Cache-Control: no-store",
                NOT,
            ),
            case(
                "cdn-fresh-cc-nostore",
                'R',
                "Cache-Control: no-store | CDN-Cache-Control: max-age=9",
                CACHED,
            ),
            case("…-type-unknown", 'R', "CDN-Cache-Control: max-age=900, &&& | Cache-Control: no-store", NOT),
            case("…-type-wrong", 'R', "CDN-Cache-Control: max-age=\"900\" | Cache-Control: no-store", NOT),
        ],
    );
    run(
        "cdn-remove-header",
        &Rules::default(),
        "GET => 200 | Cache-Control: max-age=9 | CDN-Cache-Control: foo, max-age=9 => origin
         GET =>  => cached | CDN-Cache-Control: foo, max-age=9",
    );
}

#[test]
fn responses_that_forbid_it_are_not_reused() {
    let case = |id, kind, fields, cached| (id, kind, 200, fields, cached);
    run_reused(
        &Rules::default(),
        &[
            case("cc-resp-private-shared", 'R', "Cache-Control: private, max-age=600", NOT),
            case("cc-resp-no-store", 'R', "Cache-Control: no-store", NOT),
            case("cc-resp-no-store-case-insensitive", 'R', "Cache-Control: nO-sToRe", NOT),
            case("cc-resp-no-store-fresh", 'R', "Cache-Control: max-age=600, no-store | Expires: @900", NOT),
            case("cc-resp-no-cache", 'R', "Cache-Control: max-age=600, no-cache | Expires: @900", NOT),
            case("cc-resp-no-cache-case-insensitive", 'R', "Cache-Control: max-age=600, nO-cAcHe", NOT),
            case("cc-resp-must-revalidate-fresh", 'O', "Cache-Control: max-age=600, must-revalidate", CACHED),
            case("pragma-response-no-cache", 'C', "Cache-Control: max-age=600 | Pragma: no-cache", CACHED),
            case("pragma-response-extension", 'C', "Cache-Control: max-age=600 | Pragma: unknown", CACHED),
            case("other-fresh-content-disposition-attachment", 'C', "Cache-Control: max-age=9", CACHED),
        ],
    );
    let no_guess =
        ("pragma-response-no-cache-heuristic", 'C', 200, "Last-Modified: @-90000 | Pragma: no-cache", NOT);
    run_reused(&heuristic(), &[no_guess]);
    for (id, script) in [
        (
            "cc-resp-no-cache-revalidate",
            "GET => 200 | Cache-Control: no-cache | ETag: \"a\" => origin
             GET => 200 => etag",
        ),
        (
            "cc-resp-no-cache-revalidate-fresh",
            "GET => 200 | Cache-Control: max-age=600, no-cache | Expires: @900 | ETag: \"a\" => origin
             GET => 200 => etag",
        ),
        (
            "cc-resp-must-revalidate-stale",
            "GET => 200 | Cache-Control: max-age=2, must-revalidate | ETag: \"a\" => origin
             GET =>  => cached
             +3
             GET => 200 => etag",
        ),
        (
            "headers-omit-headers-listed-in-Cache-Control-no-cache",
            "GET => 200 | Cache-Control: no-cache=\"a, B\" | A: 1 | b: 2 | C: 3 | Cache-Control: max-age=9 => origin
             GET =>  => cached | -a | -b | c: 3",
        ),
        (
            "cc-resp-no-store-old-new",
            "GET => 200 | Cache-Control: max-age=1 | A: 1 => origin
             +3
             GET => 200 | Cache-Control: no-store | A: 2 => origin | A: 2
             GET => 200 | A: 3 => origin | A: 3",
        ),
    ] {
        run(id, &Rules::default(), script);
    }
}

#[test]
fn operators_may_know_better() {
    let by_status = [StatusTtl { from: 500, to: 599, ttl: 5 }];
    let rules = Rules { default_ttl: Some(60), ttl_by_status: by_status.into(), ..Rules::default() };
    run_reused(
        &rules,
        &[
            ("default", 'C', 200, "", CACHED),
            ("default", 'C', 302, "", NOT),
            ("by status", 'C', 500, "", CACHED),
            ("what the response says comes first", 'C', 200, "Cache-Control: max-age=1", NOT),
            ("no-store stands", 'C', 200, "Cache-Control: no-store", NOT),
        ],
    );
    let rules = Rules { override_ttl: Some(60), ..Rules::default() };
    run_reused(
        &rules,
        &[
            ("longer", 'C', 200, "Cache-Control: max-age=1", CACHED),
            ("said of any status", 'C', 302, "Cache-Control: max-age=1", CACHED),
            ("not of all", 'C', 302, "", NOT),
            ("private stands", 'C', 200, "Cache-Control: private", NOT),
        ],
    );
    let rules = Rules { ignore_response_directives: true, default_ttl: Some(60), ..Rules::default() };
    run_reused(&rules, &[("ignored", 'C', 200, "Cache-Control: no-store, private | Expires: 0", CACHED)]);
}
