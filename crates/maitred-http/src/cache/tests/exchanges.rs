//! More cases of that suite: those that take several requests.

use super::super::Rules;
use super::script::run;
use super::suite::{CACHED, NOT, heuristic, run_reused};

#[test]
fn requests_are_listened_to() {
    const FRESH: &str =
        "GET => 200 | Cache-Control: max-age=600 | Last-Modified: @-900 | ETag: \"a\" => origin\n";
    const AGED: &str = "GET => 200 | Cache-Control: max-age=600 | Age: 300 => origin\n";
    const OLD: &str = "GET => 200 | Cache-Control: max-age=600 | Age: 700 | ETag: \"a\" => origin\n";
    for (id, first, then) in [
        ("ccreq-ma0", FRESH, "+1\nGET | Cache-Control: max-age=0 => 200 => etag"),
        ("ccreq-ma1", FRESH, "+3\nGET | Cache-Control: max-age=1 => 200 => etag"),
        ("ccreq-magreaterage", AGED, "GET | Cache-Control: max-age=200 => 200 => origin"),
        ("ccreq-max-stale", FRESH, "+700\nGET | Cache-Control: max-stale=900 =>  => cached"),
        ("ccreq-max-stale-age", OLD, "GET | Cache-Control: max-stale=900 =>  => cached"),
        ("ccreq-min-fresh", FRESH, "GET | Cache-Control: min-fresh=900 => 200 => etag"),
        ("ccreq-min-fresh-age", AGED, "GET | Cache-Control: min-fresh=400 => 200 => origin"),
        ("ccreq-no-cache", AGED, "GET | Cache-Control: no-cache => 200 => origin"),
        ("ccreq-no-cache-lm", FRESH, "GET | Cache-Control: no-cache => 200 => lm"),
        ("ccreq-no-cache-etag", FRESH, "GET | Cache-Control: no-cache => 200 => etag"),
        ("ccreq-no-store", FRESH, "GET | Cache-Control: no-store => 200 => origin"),
        ("ccreq-oic", "", "GET | Cache-Control: only-if-cached =>  => cached 504"),
        ("pragma-request-no-cache", FRESH, "GET | Pragma: no-cache => 200 => etag"),
        ("pragma-request-extension", FRESH, "GET | Pragma: unknown =>  => cached"),
        ("other-cookie", FRESH, "GET | Cookie: a=b =>  => cached"),
    ] {
        run(id, &Rules::default(), &format!("{first}{then}"));
    }
    let deaf = Rules { ignore_request_directives: true, ..Rules::default() };
    run("deaf", &deaf, &format!("{FRESH}GET | Cache-Control: no-cache, no-store =>  => cached"));
}

#[test]
fn stale_responses_are_given_where_that_is_allowed() {
    let rules = Rules::default();
    let told = Rules { stale_if_error: Some(60), stale_while_revalidate: Some(60), ..Rules::default() };
    let start =
        |directives: &str| format!("GET => 200 | Cache-Control: max-age=2{directives} => origin\n+3\n");
    run("stale-close", &rules, &(start("") + "GET => closes => none"));
    let only_errors = Rules { stale_while_revalidate: None, ..told.clone() };
    run("stale-close", &only_errors, &(start("") + "GET => closes => cached"));
    run("stale-503", &only_errors, &(start("") + "GET => 503 => cached"));
    run("stale-503", &only_errors, &(start("") + "GET => 404 => origin 404"));
    run("stale-sie-close", &rules, &(start(", stale-if-error=60") + "GET => closes => cached"));
    run("stale-sie-503", &rules, &(start(", stale-if-error=60") + "GET => 503 => cached"));
    for forbids in [", must-revalidate", ", proxy-revalidate", ", no-cache", ", s-maxage=2"] {
        run("stale-close-…", &rules, &(start(forbids) + "GET => closes => none"));
        run("stale-close-…", &told, &(start(forbids) + "GET => closes => none"));
    }
    run("stale-while-revalidate", &rules, &(start(", stale-while-revalidate=600") + "GET =>  => cached"));
    let window = start(", stale-while-revalidate=4") + "GET =>  => cached\n+4\nGET => 200 => origin";
    run("stale-while-revalidate-window", &rules, &window);
    run("by rule", &told, &(start("") + "GET =>  => cached"));
    run("both words", &rules, &(start(", s-maxage=2, stale-while-revalidate=9") + "GET =>  => cached"));
}

#[test]
fn variants_are_told_apart() {
    const FIRST: &str = "=> 200 | Cache-Control: max-age=600 | Last-Modified: @-900 | Vary:";
    let named = Rules { normalise_language: true, ..Rules::default() };
    for (id, stored, names, asked, cached) in [
        ("vary-match", "Foo: 1", "Foo", "Foo: 1", CACHED),
        ("vary-no-match", "Foo: 1", "Foo", "Foo: 2", NOT),
        ("vary-omit-stored", "", "Foo", "Foo: 1", NOT),
        ("vary-omit", "Foo: 1", "Foo", "", NOT),
        ("vary-cache-key", "Foo: 1 | Other: 2", "Foo", "Foo: 1 | Other: 3", CACHED),
        ("vary-2-match", "Foo: 1 | Bar: b", "Foo, Bar", "Foo: 1 | Bar: b", CACHED),
        ("vary-2-no-match", "Foo: 1 | Bar: b", "Foo, Bar", "Foo: 2 | Bar: b", NOT),
        ("vary-2-match-omit", "Foo: 1 | Bar: b", "Foo, Bar", "", NOT),
        ("vary-3-match", "Foo: 1 | Bar: b | Baz: 7", "Foo, Bar, Baz", "Foo: 1 | Bar: b | Baz: 7", CACHED),
        ("vary-3-no-match", "Foo: 1 | Bar: b | Baz: 7", "Foo, Bar, Baz", "Foo: 2 | Bar: b | Baz: 7", NOT),
        ("vary-3-order", "Foo: 1 | Bar: b | Baz: 7", "Foo, Bar, Baz", "Foo: 1 | Baz: 7 | Bar: c", NOT),
        ("vary-3-omit", "Foo: 1 | Baz: 7", "Foo, Bar, Baz", "Foo: 1 | Baz: 7", CACHED),
        ("vary-star", "Foo: 1", "*", "Foo: 1", NOT),
        ("vary-syntax-star-star", "Foo: 1", "*, *", "Foo: 1", NOT),
        ("vary-syntax-star-star-lines", "Foo: 1", "* | Vary: *", "Foo: 1", NOT),
        ("vary-syntax-empty-star", "Foo: 1", ", *", "Foo: 1", NOT),
        ("vary-syntax-empty-star-lines", "Foo: 1", " | Vary: *", "Foo: 1", NOT),
        ("vary-syntax-star-foo", "Foo: 1", "*, Foo", "Foo: 1", NOT),
        ("vary-syntax-foo-star", "Foo: 1", "Foo, *", "Foo: 1", NOT),
        ("vary-normalise-combine", "Foo: 1, 2", "Foo", "Foo: 1 | Foo: 2", CACHED),
        ("vary-normalise-space", "Foo: 1,2", "Foo", "Foo:  1, 2 ", CACHED),
        (
            "vary-normalise-lang-order",
            "Accept-Language: en, de",
            "Accept-Language",
            "Accept-Language: de, en",
            CACHED,
        ),
        (
            "vary-normalise-lang-case",
            "Accept-Language: en, de",
            "Accept-Language",
            "Accept-Language: eN, De",
            CACHED,
        ),
        (
            "vary-normalise-lang-space",
            "Accept-Language: en, de",
            "Accept-Language",
            "Accept-Language: en ,   de",
            CACHED,
        ),
        (
            "accept-encoding",
            "Accept-Encoding: gzip, br",
            "Accept-Encoding",
            "Accept-Encoding: br,GZIP;q=1",
            CACHED,
        ),
        ("accept-encoding", "Accept-Encoding: gzip, br", "Accept-Encoding", "Accept-Encoding: gzip", NOT),
    ] {
        let end = if cached { "=>  => cached" } else { "=> 200 => origin" };
        run(id, &named, &format!("GET | {stored} {FIRST} {names} => origin\nGET | {asked} {end}"));
    }
    let two = format!("GET | Foo: 1 {FIRST} Foo | A: 1 => origin\nGET | Foo: 2 {FIRST} Foo | A: 2 => origin");
    run("vary-invalidate", &named, &(two + "\nGET | Foo: 1 =>  => cached | A: 1"));
}

#[test]
fn conditions_of_clients_are_answered() {
    const TAG: &str = "GET => 200 | Expires: @900 | Last-Modified: @-500 | ETag: \"abc\" => origin\n";
    const WEAK: &str = "GET => 200 | Expires: @900 | ETag: W/\"abc\" => origin\n";
    const DATED: &str =
        "GET => 200 | Cache-Control: max-age=2 | Last-Modified: Fri, 20 Nov 2026 07:00:00 GMT => origin\n";
    const UNDATED: &str = "GET => 200 | Cache-Control: max-age=900 | Date: @0 => origin\n+3\n";
    for (id, first, then) in [
        ("conditional-etag-strong-respond", TAG, "GET | If-None-Match: \"abc\" =>  => cached 304"),
        ("conditional-304-etag", TAG, "GET | If-None-Match: \"abc\" =>  => cached 304 | ETag: \"abc\""),
        ("…-precedence", TAG, "GET | If-None-Match: \"abc\" | If-Modified-Since: @-9000 =>  => cached 304"),
        (
            "conditional-etag-strong-respond-obs-text",
            TAG,
            "GET | If-None-Match: \"ü\", \"abc\" =>  => cached 304",
        ),
        ("conditional-etag-quoted-respond-unquoted", TAG, "GET | If-None-Match: abc =>  => cached 200"),
        ("conditional-etag-weak-respond", WEAK, "GET | If-None-Match: W/\"abc\" =>  => cached 304"),
        ("…-weak-respond-lowercase", WEAK, "GET | If-None-Match: w/\"abc\" =>  => cached 200"),
        ("…-multiple-first", TAG, "GET | If-None-Match: \"abc\", \"1\", \"2\" =>  => cached 304"),
        ("…-multiple-second", TAG, "GET | If-None-Match: \"1\", \"abc\", \"2\" =>  => cached 304"),
        ("…-multiple-last", TAG, "GET | If-None-Match: \"1\", \"2\", \"abc\" =>  => cached 304"),
        ("conditional-lm-fresh", TAG, "GET | If-Modified-Since: @-500 =>  => cached 304"),
        ("conditional-lm-fresh-earlier", TAG, "GET | If-Modified-Since: @-400 =>  => cached 304"),
        ("…", TAG, "GET | If-Modified-Since: @-600 =>  => cached 200"),
        (
            "conditional-lm-fresh-rfc850",
            TAG,
            "GET | If-Modified-Since: Friday, 20-Nov-26 07:59:00 GMT =>  => cached 304",
        ),
        ("conditional-lm-fresh-no-lm", UNDATED, "GET | If-Modified-Since: @-3 =>  => cached 304"),
        ("conditional-lm-fresh-no-lm", UNDATED, "GET | If-Modified-Since: @-9 =>  => cached 200"),
        (
            "conditional-lm-stale",
            DATED,
            "+3\nGET | If-Modified-Since: Fri, 20 Nov 2026 07:00:00 GMT => 200 => lm 304",
        ),
    ] {
        run(id, &Rules::default(), &format!("{first}{then}"));
    }
}

#[test]
fn stale_responses_are_validated() {
    for (id, script) in [
        (
            "conditional-etag-strong-generate",
            "GET => 200 | Expires: @1 | ETag: \"abc\" | Date: @0 => origin
             +3
             GET => 200 => etag",
        ),
        (
            "conditional-etag-weak-generate-weak",
            "GET => 200 | Expires: @1 | ETag: W/\"abc\" | Date: @0 => origin
             +3
             GET => 200 => etag",
        ),
        (
            "conditional-etag-vary-headers",
            "GET | Abc: 1 => 200 | Expires: @1 | ETag: \"abc\" | Date: @0 | Vary: Abc => origin
             +3
             GET | Abc: 1 => 200 => etag
             GET | Abc: 2 => 200 => origin",
        ),
        (
            "conditional-etag-strong-generate-unquoted",
            "GET => 200 | Expires: @1 | ETag: abc => origin
             +3
             GET => 200 => origin",
        ),
    ] {
        run(id, &Rules::default(), script);
    }
}

#[test]
fn fields_are_stored_but_for_those_of_one_hop() {
    let told = Rules { store_set_cookie: true, ..Rules::default() };
    for field in [
        "Test-Header: 1",
        "X-Test-Header: 1",
        "Content-Foo: 1",
        "X-Content-Foo: 1",
        "Content-Encoding: gzip",
        "Content-Length: 11",
        "Content-Location: /bar",
        "Content-MD5: rL0Y20zC+Fzt72VPzMSk2A==",
        "Content-Range: bytes 0-1/2",
        "Content-Security-Policy: default-src 'self'",
        "Content-Type: text/plain;charset=utf-8",
        "Clear-Site-Data: \"cookies\"",
        "ETag: \"abc\"",
        "Expires: Mon, 11 Jan 2038 11:11:11 GMT",
        "Public-Key-Pins: 1",
        "Set-Cookie: a=c",
        "Set-Cookie2: a=c",
        "X-Frame-Options: deny",
        "X-XSS-Protection: 1",
    ] {
        let script =
            format!("GET => 200 | Cache-Control: max-age=9 | {field} => origin\nGET =>  => cached | {field}");
        run("headers-store-…", &told, &script);
    }
    for name in [
        "Connection",
        "Keep-Alive",
        "Proxy-Authenticate",
        "Proxy-Authentication-Info",
        "Proxy-Authorization",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
    ] {
        let script = format!(
            "GET => 200 | Cache-Control: max-age=9 | {name}: x => origin\nGET =>  => cached | -{name}"
        );
        run("headers-store-…", &told, &script);
    }
    run(
        "headers-omit-headers-listed-in-Connection",
        &told,
        "GET => 200 | Connection: a, B | A: 1 | b: 2 | C: 3 | Cache-Control: max-age=9 => origin
         GET =>  => cached | -a | -b | C: 3",
    );
    run_reused(
        &told,
        &[("other-set-cookie", 'O', 200, "Cache-Control: max-age=9 | Set-Cookie: a=b", CACHED)],
    );
    let untold = ("other-set-cookie", 'C', 200, "Cache-Control: max-age=9 | Set-Cookie: a=b", NOT);
    run_reused(&Rules::default(), &[untold]);
}

#[test]
fn a_304_changes_fields_but_not_what_describes_the_content() {
    let told = Rules { store_set_cookie: true, ..Rules::default() };
    run(
        "304-lm-use-stored-Test-Header",
        &told,
        "GET => 200 | Cache-Control: max-age=2 | Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT | Test-Header: 1 => origin
         +3
         GET => 200 | Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT => lm | Test-Header: 1",
    );
    for (field, old, new, updated) in [
        ("Test-Header", "a", "b", true),
        ("X-Test-Header", "a", "b", true),
        ("Content-Foo", "a", "b", true),
        ("Cache-Control", "max-age=1", "max-age=600", true),
        ("Content-Encoding", "gzip", "br", false),
        ("Content-Length", "11", "12", false),
        ("Content-Location", "/foo", "/bar", true),
        ("Content-MD5", "rL0Y20zC+Fzt72VPzMSk2A==", "N7UdGUp1E+RbVvZSTy1R8g==", false),
        ("Content-Range", "a", "b", false),
        ("Content-Type", "text/plain", "text/plain;charset=utf-8", true),
        ("Clear-Site-Data", "cache", "cookies", true),
        ("ETag", "\"abc\"", "\"def\"", false),
        ("Expires", "Fri, 01 Jan 2038 01:01:01 GMT", "Mon, 11 Jan 2038 11:11:11 GMT", true),
        ("Set-Cookie", "a=b", "a=c", true),
        ("X-Frame-Options", "deny", "sameorigin", true),
    ] {
        let after = if updated { new } else { old };
        let lifetime = if field == "Cache-Control" { "" } else { "| Cache-Control: max-age=2" };
        let tag = if field == "ETag" { "" } else { "| ETag: \"x\"" };
        let script = format!(
            "GET => 200 | Date: @0 | {field}: {old} {lifetime} {tag} => origin
             +3
             GET => 200 | Date: @0 | {field}: {new} {lifetime} {tag} => etag | {field}: {after}
             GET =>  => cached | {field}: {after}"
        );
        run("304-etag-update-response-…", &told, &script);
    }
}

#[test]
fn a_response_to_head_updates_what_get_has_stored() {
    const FIRST: &str = "GET => 200 | Cache-Control: max-age=2 | A: 1 => origin\n+3\n";
    for (id, then) in [
        ("head-writethrough", "HEAD => 200 => origin"),
        ("head-200-retain", "HEAD => 200 | Cache-Control: max-age=900 => origin\nGET =>  => cached | A: 1"),
        (
            "head-200-freshness-update",
            "HEAD => 200 | Cache-Control: max-age=900 => origin\nGET =>  => cached",
        ),
        (
            "head-200-update",
            "HEAD => 200 | A: 2 | Cache-Control: max-age=900 => origin\nGET =>  => cached | A: 2",
        ),
        (
            "head-410-update",
            "HEAD => 410 | A: 2 | Cache-Control: max-age=900 => origin 410\nGET => 200 => origin",
        ),
    ] {
        run(id, &Rules::default(), &format!("{FIRST}{then}"));
    }
    run(
        "a fresh response answers HEAD",
        &Rules::default(),
        "GET => 200 | Cache-Control: max-age=2 | A: 1 => origin\nHEAD =>  => cached | A: 1",
    );
}

#[test]
fn unsafe_requests_invalidate() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
        let fresh = "=> 200 | Expires: @900 => origin\n";
        let run = |id, script: String| run(id, &Rules::default(), &script);
        run("invalidate-…", format!("GET {fresh}{method} => 200 => origin\nGET => 200 => origin"));
        run("invalidate-…-failed", format!("GET {fresh}{method} => 500 => origin 500\nGET =>  => cached"));
        for field in ["Location", "Content-Location"] {
            for (reference, gone) in [
                ("other", true),
                ("/a/other", true),
                ("http://a.example/a/./other#part", true),
                ("//A.Example:80/a/other", true),
                ("http://b.example/a/other", false),
                ("https://a.example/a/other", false),
                ("/a/other?", false),
            ] {
                let end = if gone { "=> 200 => origin" } else { "=>  => cached" };
                let script = format!(
                    "GET /a/other {fresh}{method} => 201 | {field}: {reference} => origin 201\nGET /a/other {end}"
                );
                run("invalidate-…-location", script);
            }
        }
    }
    run(
        "a GET does not",
        &Rules::default(),
        "GET => 200 | Expires: @900 => origin\nOPTIONS => 200 => origin\nGET =>  => cached",
    );
}

#[test]
fn a_post_may_answer_later_gets() {
    for (id, response, then) in [
        ("method-POST", "Expires: @900 | Content-Location: /a/b", "GET =>  => cached"),
        ("method-POST", "Expires: @900 | Content-Location: http://a.example/a/b", "GET =>  => cached"),
        ("other", "Expires: @900 | Content-Location: /a/c", "GET => 200 => origin"),
        ("not said", "Expires: @900", "GET => 200 => origin"),
        ("no lifetime", "Content-Location: /a/b | Last-Modified: @-90000", "GET => 200 => origin"),
    ] {
        run(id, &heuristic(), &format!("POST => 200 | {response} => origin\n{then}"));
    }
}

#[test]
fn ranges_are_answered_from_whole_responses() {
    const WHOLE: &str = "GET => 200 | Cache-Control: max-age=600 | A: 1 | ETag: \"a\" => origin\n";
    for (id, then) in [
        ("partial-store-complete-reuse-partial", "GET | Range: bytes=0-1 =>  => cached 206"),
        ("…-no-last", "GET | Range: bytes=1- =>  => cached 206"),
        ("…-suffix", "GET | Range: bytes=-1 =>  => cached 206"),
        ("partial-use-headers", "GET | Range: bytes=0-1 =>  => cached 206 | A: 1"),
        ("…", "GET | Range: bytes=90- =>  => cached 416"),
        ("…", "GET | Range: bytes=0-1 | If-Range: \"b\" =>  => cached 200"),
        ("…", "GET | Range: bytes=0-1 | If-Range: \"a\" =>  => cached 206"),
    ] {
        run(id, &Rules::default(), &format!("{WHOLE}{then}"));
    }
    run(
        "partial-store-partial-… (not kept)",
        &Rules::default(),
        "GET | Range: bytes=-5 => 206 | Cache-Control: max-age=600 | Content-Range: bytes 5-9/10 => origin 206
         GET => 200 => origin",
    );
}

#[test]
fn authorization_keeps_responses_to_one_client() {
    for (id, fields, cached) in [
        ("other-authorization", "Expires: @900", NOT),
        ("other-authorization-public", "Cache-Control: max-age=600, public", CACHED),
        ("other-authorization-must-revalidate", "Cache-Control: max-age=600, must-revalidate", CACHED),
        ("other-authorization-smaxage", "Cache-Control: s-maxage=600", CACHED),
        ("proxy-revalidate is not enough", "Cache-Control: max-age=600, proxy-revalidate", NOT),
    ] {
        let end = if cached { "GET =>  => cached" } else { "GET => 200 => origin" };
        let script = format!("GET | Authorization: x => 200 | {fields} => origin\n{end}");
        run(id, &Rules::default(), &script);
    }
}

#[test]
fn ages_and_dates_are_told() {
    for (id, script) in [
        ("other-age-gen", "GET => 200 | Expires: @900 => origin\n+3\nGET =>  => cached | Age>2"),
        ("…-expires", "GET => 200 | Expires: @900 | Age: 30 => origin\n+3\nGET =>  => cached | Age>32"),
        (
            "…-max-age",
            "GET => 200 | Cache-Control: max-age=600 | Age: 30 => origin\n+3\nGET =>  => cached | Age>32",
        ),
        (
            "other-date-update",
            "GET => 200 | Expires: @900 | Date: @0 => origin\n+3\nGET =>  => cached | Date: @-3",
        ),
        ("…-expires-update", "GET => 200 | Expires: @900 => origin\n+3\nGET =>  => cached | Expires: @897"),
        ("query-args-different", "GET /a?b=1 => 200 | Expires: @900 => origin\nGET /a?b=2 => 200 => origin"),
        ("query-args-same", "GET /a?b=1 => 200 | Expires: @900 => origin\nGET /a?b=1 =>  => cached"),
    ] {
        run(id, &Rules::default(), script);
    }
}
