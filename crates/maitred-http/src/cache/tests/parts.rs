//! Single rules.

use super::super::*;
use super::model::{START, fields, head_text, read};
use crate::fields::FieldLines;
use crate::request::{Method, field_room};
use crate::response::ResponseHead;

const TIMES: Times = Times { request_time: START, response_time: START, kept_at: START };

fn wanted(request: &str) -> Wanted {
    wanted_by(request, &Rules::default())
}

fn wanted_by(request: &str, rules: &Rules) -> Wanted {
    let (line, fields) = request.split_once('|').unwrap_or((request, ""));
    let (text, mut room) = (head_text(line.trim(), fields), field_room());
    Wanted::of(&read(&text, &mut room), rules)
}

fn stored_by(
    wanted: &Wanted,
    status: u16,
    response: &str,
    times: Times,
    rules: &Rules,
) -> Result<Lifetime, Why> {
    storable(wanted, &ResponseHead::own(status, fields(response, START).all()), times, rules)
}

fn stored(request: &str, status: u16, response: &str) -> Result<Lifetime, Why> {
    stored_by(&wanted(request), status, response, TIMES, &Rules::default())
}

fn text(fields: &FieldLines) -> String {
    let all = fields.all();
    let lines = all.iter().map(|(name, value)| {
        format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
    });
    lines.collect::<Vec<_>>().join(" | ")
}

#[test]
fn requests_that_are_not_the_caches_say_why() {
    for (request, expected) in [
        ("GET /", Consult::Use),
        ("HEAD / | Range: bytes=0-", Consult::Use),
        ("GET / | Authorization: x", Consult::Use),
        ("POST /", Consult::Bypass(Why::Method)),
        ("OPTIONS /", Consult::Bypass(Why::Method)),
        ("M-SEARCH /", Consult::Bypass(Why::Method)),
        ("GET / | Content-Length: 3", Consult::Bypass(Why::RequestContent)),
        ("GET / | If-Match: \"a\"", Consult::Bypass(Why::Precondition)),
        ("GET / | If-Unmodified-Since: @0", Consult::Bypass(Why::Precondition)),
        ("GET / | Cache-Control: no-store", Consult::Bypass(Why::RequestNoStore)),
        ("GET / | Upgrade: websocket | Connection: upgrade", Consult::Bypass(Why::Upgrade)),
    ] {
        assert_eq!(wanted(request).consult(), expected, "{request}");
        if let Consult::Bypass(why) = expected {
            assert_eq!(stored(request, 200, "Cache-Control: max-age=9"), Err(why));
        }
    }
}

#[test]
fn responses_that_are_not_stored_say_why() {
    const OK: &str = "Cache-Control: max-age=9";
    for (request, status, response, why) in [
        ("HEAD /", 200, OK, Why::Head),
        ("GET /", 103, OK, Why::Interim),
        ("GET /", 206, OK, Why::Partial),
        ("GET /", 304, OK, Why::NotModified),
        ("GET / | Range: bytes=0-", 416, OK, Why::Range),
        ("GET / | Range: bytes=0-", 404, OK, Why::Range),
        ("GET /", 599, "Cache-Control: max-age=9, must-understand", Why::NotUnderstood),
        ("GET /", 207, "Cache-Control: max-age=9, must-understand", Why::NotUnderstood),
        ("GET /", 600, "Cache-Control: max-age=9", Why::Beyond),
        ("GET /", 999, "Cache-Control: max-age=9", Why::Beyond),
        ("GET /", 200, "Cache-Control: max-age=9, no-store", Why::NoStore),
        ("GET /", 200, "Cache-Control: max-age=9, private", Why::Private),
        ("GET / | Authorization: x", 200, OK, Why::Authorization),
        ("GET /", 200, "Cache-Control: max-age=9 | Set-Cookie: a=b", Why::SetCookie),
        ("GET /", 200, "Cache-Control: max-age=9 | Vary: *", Why::Vary),
        ("GET /", 200, "ETag: \"a\"", Why::NoLifetime),
        ("GET /", 200, "Cache-Control: max-age=0", Why::Stale),
        ("GET /", 200, "Cache-Control: no-cache, max-age=9", Why::Stale),
    ] {
        assert_eq!(stored(request, status, response), Err(why), "{request} {response}");
        assert!(why.text().is_ascii() && why.text().len() < 110);
    }
    assert!(stored("GET / | Range: bytes=0-", 200, OK).is_ok());
    assert!(stored("GET /", 416, OK).is_ok());
    let told = Rules { store_authorization: true, ..Rules::default() };
    assert!(stored_by(&wanted("GET / | Authorization: x"), 200, OK, TIMES, &told).is_ok());
}

#[test]
fn named_fields_are_left_out_and_the_rest_is_stored() {
    for (response, expected) in [
        ("Cache-Control: max-age=9, private=\"Set-Cookie\" | Set-Cookie: a=b | A: 1", Ok("A: 1")),
        ("Cache-Control: max-age=9, no-cache=a | A: 1 | B: 2", Ok("B: 2")),
        ("CDN-Cache-Control: max-age=9, no-cache=\"a, b\" | A: 1 | C: 2", Ok("C: 2")),
        ("CDN-Cache-Control: max-age=9 | Cache-Control: no-cache=\"a\" | A: 1", Ok("A: 1")),
        ("Cache-Control: max-age=9, private=\"\"", Err(Why::Private)),
        ("Cache-Control: max-age=9, private=\"a", Err(Why::Private)),
        ("Cache-Control: max-age=9, private=\"a\", private", Err(Why::Private)),
        ("Cache-Control: max-age=9, private=\"vary\"", Err(Why::Private)),
        ("Cache-Control: max-age=9, no-cache=\"a, Content-Type\"", Err(Why::Stale)),
    ] {
        let lines = fields(&format!("{response} | Date: @0"), START);
        let head = ResponseHead::own(200, lines.all());
        let kept = storable(&wanted("GET /"), &head, TIMES, &Rules::default()).map(|lifetime| {
            let mut kept = FieldLines::default();
            put_stored_fields(&head, &lifetime, &Rules::default(), &mut kept);
            let plain = text(&kept);
            let others = plain
                .split(" | ")
                .filter(|line| !line.contains("Cache-Control") && !line.starts_with("Date"));
            others.collect::<Vec<_>>().join(" | ")
        });
        assert_eq!(kept.as_deref(), expected.as_ref().copied(), "{response}");
    }
}

#[test]
fn ages_count_the_way_the_clocks_and_the_stay() {
    let times = Times::new(START - 4, START);
    let lifetime = |response: &str| {
        stored_by(
            &wanted("GET /"),
            200,
            &format!("Cache-Control: max-age=600 | {response}"),
            times,
            &Rules::default(),
        )
    };
    for (response, age) in
        [("Age: 10", 14), ("Date: @-20 | Age: 10", 20), ("Date: @-20", 20), ("Date: @20", 4), ("", 4)]
    {
        let lifetime = lifetime(response).unwrap();
        assert_eq!((lifetime.initial_age, lifetime.age(START)), (age, age), "{response}");
        assert_eq!((lifetime.age(START + 50), lifetime.ttl(START + 50)), (age + 50, 550 - i64::from(age)));
        // Another thread's clock may be a little behind. Further behind it was set back, and says nothing of the age.
        assert_eq!([START - 2, START - 1000].map(|now| lifetime.age(now)), [age, SECONDS_MAX]);
        assert!(lifetime.is_fresh(START - 2) && !lifetime.is_fresh(START - 1000));
        assert!(
            lifetime.is_fresh(START + 599 - u64::from(age))
                && !lifetime.is_fresh(START + 600 - u64::from(age))
        );
    }
    assert_eq!(lifetime("Age: 99999999999").map(|lifetime| lifetime.age(START)), Err(Why::Stale));
}

#[test]
fn a_lifetime_ends_also_if_it_is_the_longest() {
    let response = "Cache-Control: max-age=99999999999, stale-while-revalidate=60";
    let lifetime = stored("GET /", 200, response).unwrap();
    assert_eq!(lifetime.fresh_for, SECONDS_MAX);
    let end = START + u64::from(SECONDS_MAX);
    assert!(matches!(judge(&lifetime, &Wanted::get(), end - 1), Use::Fresh { .. }));
    assert_eq!(judge(&lifetime, &Wanted::get(), end), Use::Stale { age: SECONDS_MAX, refresh: true });
    assert_eq!(judge(&lifetime, &Wanted::get(), end + 61), Use::Validate);
    assert_eq!(lifetime.useful_until(), end + 60);
}

#[test]
fn what_is_outdated_is_validated_but_serves_on_errors() {
    let response = "Cache-Control: max-age=60, stale-while-revalidate=60, stale-if-error=600";
    let lifetime = stored("GET /", 200, response).unwrap().outdated();
    assert_eq!(judge(&lifetime, &Wanted::get(), START), Use::Validate);
    assert!(may_serve_on_error(&lifetime, &Wanted::get(), START));
    let mut bytes = lifetime.encode();
    bytes[32] = 0xff;
    assert_eq!(Lifetime::decode(&bytes), None);
}

#[test]
fn clients_may_ask_for_stale_responses_on_errors() {
    let lifetime = stored("GET /", 200, "Cache-Control: max-age=1").unwrap();
    let strict = stored("GET /", 200, "Cache-Control: max-age=1, must-revalidate").unwrap();
    let asks = wanted("GET / | Cache-Control: stale-if-error=9");
    assert!(may_serve_on_error(&lifetime, &asks, START + 10));
    assert!(!may_serve_on_error(&lifetime, &asks, START + 11));
    assert!(!may_serve_on_error(&lifetime, &Wanted::get(), START + 2));
    assert!(!may_serve_on_error(&strict, &asks, START + 2));
    assert!(!may_serve_on_error(
        &lifetime,
        &wanted("GET / | Cache-Control: stale-if-error=9, no-cache"),
        START + 2
    ));
    let (max_age, only) =
        ("GET / | Cache-Control: max-age=1, stale-if-error=9", "GET / | Cache-Control: only-if-cached");
    assert!(!may_serve_on_error(&lifetime, &wanted(max_age), START + 2));
    assert_eq!(judge(&lifetime, &wanted(only), START + 2), Use::OnlyIfCached504);
    assert!((500..505).filter(|status| is_error(*status)).eq([500, 502, 503, 504]));
}

fn variant(names: &str, request: &str) -> String {
    let (text, mut room, mut key) = (head_text("GET /", request), field_room(), Vec::new());
    put_variant_key(names, &read(&text, &mut room), &Rules::default(), &mut key);
    String::from_utf8(key).unwrap()
}

#[test]
fn vary_is_a_sorted_set_of_names() {
    let of = |text: &str| vary(&ResponseHead::own(200, fields(text, START).all()));
    assert_eq!(of("A: b"), Vary::Nothing);
    assert_eq!(of("Vary: ,"), Vary::Nothing);
    assert_eq!(of("Vary: Foo, bar,FOO | vary: Accept"), Vary::Fields("accept,bar,foo".into()));
    assert_eq!(of("Vary: Foo, b r"), Vary::Any);
    let names = |count: usize| (0..count).map(|at| format!("x{at}")).collect::<Vec<_>>().join(",");
    assert_eq!(of(&format!("Vary: {}", names(VARY_NAMES_MAX + 1))), Vary::Any);
    assert!(matches!(of(&format!("Vary: {}", names(VARY_NAMES_MAX))), Vary::Fields(_)));
}

#[test]
fn values_of_requests_are_normalised_for_their_variants() {
    for (names, request, key) in [
        ("a,b", "A: 1", "a:1\nb\n"),
        ("a", "A:", "a:\n"),
        ("a", "A: x  y , \"p , q\" ,z", "a:x y,\"p , q\",z\n"),
        ("a", "A: \"x\\\" , y\"", "a:\"x\\\" , y\"\n"),
        ("cookie", "Cookie: a=1; b=2, 3 | Cookie: c=4", "cookie:a=1; b=2, 3; c=4\n"),
        ("accept-encoding", "Accept-Encoding: zstd, gzip;q=0.5, BR", "accept-encoding:br,zstd;gzip\n"),
        (
            "accept-encoding",
            "Accept-Encoding: gzip;q=0, br | Accept-Encoding: deflate",
            "accept-encoding:br,deflate\n",
        ),
        (
            "accept-encoding",
            "Accept-Encoding: x-gzip, *;q=0, identity;q=0",
            "accept-encoding:gzip;!*,!identity\n",
        ),
        ("accept-encoding", "Accept-Encoding: gzip;q=5, br", "accept-encoding:gzip;q=5,br\n"),
        ("accept-language", "Accept-Language: de, EN", "accept-language:de,EN\n"),
    ] {
        assert_eq!(variant(names, request), key, "{request}");
    }
    let many: Vec<String> = (0..VARIANT_VALUES_MAX + 1).map(|at| format!("c{at}")).rev().collect();
    let key = variant("accept-encoding", &format!("Accept-Encoding: {}", many.join(", ")));
    assert_eq!(key, format!("accept-encoding:{}\n", many.join(",")));
}

fn key_of(target: &str, request: &str, keys: &KeyRules) -> String {
    let (text, mut room, mut key) = (head_text(&format!("GET {target}"), request), field_room(), Vec::new());
    let request = read(&text, &mut room);
    let target =
        Target { scheme: "http", authority: request.authority, path: request.path, query: request.query };
    put_key(&target, &request, (keys, &Rules::default()), &mut key);
    String::from_utf8(key).unwrap()
}

#[test]
fn keys_are_canonical() {
    let plain = KeyRules::default();
    for (target, key) in [
        ("/", "http://a.example/\n"),
        ("http://A.Example:80/x", "http://a.example/x\n"),
        ("http://a.example:8080/x", "http://a.example:8080/x\n"),
        ("/a//b/../%7Ec", "http://a.example/a/~c\n"),
        ("/a%2fb", "http://a.example/a%2Fb\n"),
        ("/?", "http://a.example/?\n"),
        ("/?b&a=%7e", "http://a.example/?b&a=%7e\n"),
    ] {
        assert_eq!(key_of(target, "", &plain), key, "{target}");
    }
}

#[test]
fn keys_have_what_the_operator_wants_in_them() {
    let names = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect::<Box<[Box<str>]>>();
    let query = |query: QueryRule, sort: bool| KeyRules { query, sort, ..KeyRules::default() };
    let path = |target: &str, keys: &KeyRules| {
        let key = key_of(target, "", keys);
        key.strip_prefix("http://a.example").unwrap().trim_end().to_owned()
    };
    assert_eq!(path("/a?b=1", &query(QueryRule::Ignore, false)), "/a");
    assert_eq!(path("/a?b=2&a&b=1", &query(QueryRule::All, true)), "/a?a&b=2&b=1");
    let without = query(QueryRule::Without(names(&["utm_*", "fbclid"])), false);
    assert_eq!(path("/a?utm_x=1&b=2&%75tm_y&&fbclid=3&c", &without), "/a?b=2&c");
    assert_eq!(path("/a?utm_x=1", &without), "/a");
    assert_eq!(path("/a?b=1&c=2", &query(QueryRule::Only(names(&["c"])), false)), "/a?c=2");
    let many = format!("/a?{}", vec!["utm_x=1"; PARAMETERS_MAX + 1].join("&"));
    assert_eq!(path(&many, &without), many);
    let keys =
        KeyRules { fields: names(&["x-device"]), cookies: names(&["lang", "none"]), ..KeyRules::default() };
    let key = key_of("/", "X-Device: a , b | Cookie: x=1; lang=de; lang=en", &keys);
    assert_eq!(key, "http://a.example/\nx-device:a,b\ncookie lang:de\ncookie none\n");
}

#[test]
fn conditions_are_those_of_valid_validators() {
    for (stored, conditions) in [
        ("ETag: \"a\"", "If-None-Match: \"a\""),
        ("ETag: W/\"a\" | Last-Modified: @0", "If-None-Match: W/\"a\" | If-Modified-Since: @0"),
        ("ETag: * | Last-Modified: soon", ""),
        ("ETag: a", ""),
    ] {
        let mut out = FieldLines::default();
        put_conditions(fields(stored, START).all(), &mut out);
        assert_eq!(text(&out), text(&fields(conditions, START)), "{stored}");
    }
}

#[test]
fn a_304_is_about_what_its_validators_name() {
    let about = |stored: &str, new: &str, asked: Asked| {
        let (stored, new) = (fields(stored, START), fields(new, START));
        updates(stored.all(), &ResponseHead::own(304, new.all()), asked)
    };
    for (stored, new, updates) in [
        ("ETag: \"a\"", "ETag: \"a\"", true),
        ("ETag: \"a\"", "ETag: \"b\"", false),
        ("ETag: W/\"a\"", "ETag: \"a\"", false),
        ("ETag: \"a\"", "ETag: W/\"a\"", true),
        ("ETag: \"a\" | Last-Modified: @0", "ETag: \"b\" | Last-Modified: @0", false),
        ("Last-Modified: @0", "Last-Modified: @0", true),
        ("Last-Modified: @0", "Last-Modified: @1", false),
        ("ETag: \"a\"", "", false),
    ] {
        assert_eq!(about(stored, new, Asked::Several), updates, "{stored} {new}");
        assert!(about(stored, new, Asked::One));
    }
    assert!(!updates(
        FieldLines::default().all(),
        &ResponseHead::own(200, FieldLines::default().all()),
        Asked::One
    ));
}

#[test]
fn a_response_to_head_is_compared_with_what_is_stored() {
    let about = |stored: &str, status: u16, new: &str| {
        let (stored, new) = (fields(stored, START), fields(new, START));
        head_updates(stored.all(), &ResponseHead::own(status, new.all()))
    };
    const STORED: &str = "ETag: \"a\" | Content-Length: 5";
    assert_eq!(about(STORED, 200, "ETag: \"a\" | Content-Length: 5"), HeadUpdate::Update);
    assert_eq!(about(STORED, 200, "ETag: \"a\""), HeadUpdate::Update);
    assert_eq!(about(STORED, 200, "ETag: \"b\" | Content-Length: 5"), HeadUpdate::Outdated);
    assert_eq!(about(STORED, 200, "ETag: \"a\" | Content-Length: 6"), HeadUpdate::Outdated);
    assert_eq!(about(STORED, 200, "A: b"), HeadUpdate::Nothing);
    assert_eq!(about(STORED, 404, "ETag: \"b\""), HeadUpdate::Nothing);
    assert_eq!(about("A: b", 200, "A: c"), HeadUpdate::Update);
}

#[test]
fn updates_take_over_fields_and_times() {
    let stored = fields(
        "Date: @-100 | ETag: \"a\" | A: 1 | A: 2 | B: 3 | Content-Length: 5 | Cache-Control: max-age=9",
        START,
    );
    let new = fields(
        "A: 4 | Content-Length: 0 | ETag: \"b\" | Age: 7 | Set-Cookie: c=d | C: 5 | Connection: x | X: y",
        START,
    );
    let (head, rules, mut out) = (ResponseHead::own(304, new.all()), Rules::default(), FieldLines::default());
    out.push(b"Already", b"there");
    let lifetime = freshen((200, stored.all()), &head, &Wanted::get(), TIMES, &rules, &mut out).unwrap();
    let merged = "Already: there | ETag: \"a\" | B: 3 | Content-Length: 5 | Cache-Control: max-age=9 | A: 4 | C: 5 | Date: @0";
    assert_eq!(text(&out), text(&fields(merged, START)));
    assert_eq!((lifetime.date, lifetime.initial_age, lifetime.fresh_for), (START, 7, 9));
    let mut others = FieldLines::default();
    split_fields(&head, START, &rules, &mut FieldLines::default(), &mut others);
    assert_eq!(text(&others), "Set-Cookie: c=d");
    for (new, why) in [
        ("Cache-Control: no-store", Why::NoStore),
        ("Cache-Control: private", Why::Private),
        ("Vary: *", Why::Vary),
    ] {
        let new = fields(new, START);
        let head = ResponseHead::own(304, new.all());
        assert_eq!(freshen((200, stored.all()), &head, &Wanted::get(), TIMES, &rules, &mut out), Err(why));
    }
    let again =
        freshen((200, stored.all()), &head, &wanted("GET / | Authorization: x"), TIMES, &rules, &mut out);
    assert_eq!(again, Err(Why::Authorization));
}

#[test]
fn only_unsafe_methods_that_succeed_invalidate() {
    for method in [Method::Post, Method::Put, Method::Delete, Method::Patch, Method::Other] {
        assert!((100..600).filter(|status| invalidates(method, *status)).eq(200..400));
    }
    for method in [Method::Get, Method::Head, Method::Options, Method::Trace, Method::Connect] {
        assert!(!(100..600).any(|status| invalidates(method, status)));
    }
}

#[test]
fn references_are_resolved_within_their_origin() {
    let target = Target { scheme: "https", authority: "a.example", path: "/x/y", query: Some("q") };
    for (reference, expected) in [
        ("", "/x/y?q"),
        ("#part", "/x/y?q"),
        ("?z", "/x/y?z"),
        ("z?", "/x/z?"),
        ("../z", "/x/../z"),
        ("/z", "/z"),
        ("//a.example:443", "/"),
        ("HTTPS://A.EXAMPLE/z?a#b", "/z?a"),
        ("https://a.example?z", "/?z"),
        ("http://a.example/z", ""),
        ("https://b.example/z", ""),
        ("https://a.example:444/z", ""),
        ("https://u@a.example/z", ""),
        ("https:/z", ""),
        ("urn:z", ""),
    ] {
        let lines = fields(&format!("Location: {reference}"), START);
        let mut found = Vec::new();
        for_each_invalidated(&target, &ResponseHead::own(201, lines.all()), |named| {
            found.push(named.query.map_or(named.path.to_owned(), |query| format!("{}?{query}", named.path)));
        });
        assert_eq!(found.remove(0), "/x/y?q");
        assert_eq!(found.first().map_or("", |found| found), expected, "{reference}");
    }
    let names = |value: &str| names_itself(&target, &ResponseHead::own(200, fields(value, START).all()));
    assert!(names("Content-Location: ?q") && names("Content-Location: /%78/./y?q"));
    assert!(!names("Content-Location: /x/y") && !names("A: b"));
    assert!(!names("Content-Location: ?q | Content-Location: ?q"));
}

#[test]
fn tags_and_groups_are_found() {
    let lines = fields(
        "Surrogate-Key: a  b | Cache-Tag: c d, e,, | Cache-Groups: \"f\", \"g\\\"\";x=1, h, 5 | Cache-Groups: bad,",
        START,
    );
    let mut found = Vec::new();
    for_each_tag(&ResponseHead::own(200, lines.all()), |tag| {
        let (kind, name) = match tag {
            Tag::Key(name) => ("key", name),
            Tag::Group(name) => ("group", name),
        };
        found.push(format!("{kind} {}", String::from_utf8_lossy(name)));
    });
    assert_eq!(found, ["key a", "key b", "key c d", "key e", "group f", "group g\""]);

    let all =
        format!("Surrogate-Key: {} {}", "x".repeat(TAG_BYTES_MAX + 1), vec!["y"; TAGS_MAX + 1].join(" "));
    let (lines, mut count) = (fields(&all, START), 0);
    for_each_tag(&ResponseHead::own(200, lines.all()), |tag| {
        assert_eq!(tag, Tag::Key(b"y"));
        count += 1;
    });
    assert_eq!(count, TAGS_MAX);

    let lines = fields("Cache-Group-Invalidation: \"a\", \"b\" | Cache-Groups: \"c\"", START);
    let mut groups = Vec::new();
    for_each_invalidated_group(&ResponseHead::own(200, lines.all()), |group| groups.push(group.to_vec()));
    assert_eq!(groups, [b"a".to_vec(), b"b".to_vec()]);
}

#[test]
fn members_of_cache_status_stand_behind_those_of_other_caches() {
    let member = CacheStatus {
        cache: "maitred",
        outcome: Outcome::Hit,
        fwd_status: None,
        ttl: Some(376),
        stored: false,
        collapsed: false,
        detail: None,
    };
    let value = |lines: &[&str], member: &CacheStatus<'_>| {
        let mut out = Vec::new();
        put_cache_status(lines.iter().map(|line| line.as_bytes()), member, &mut out);
        assert!(members(&out).is_some());
        String::from_utf8(out).unwrap()
    };
    assert_eq!(value(&[], &member), "maitred; hit; ttl=376");
    assert_eq!(value(&["a; hit", "", "b; fwd=miss"], &member), "a; hit, b; fwd=miss, maitred; hit; ttl=376");
    let forwarded = CacheStatus {
        cache: "my \"cache\"",
        outcome: Outcome::Fwd(Fwd::Stale),
        fwd_status: Some(304),
        ttl: Some(i64::MIN),
        stored: true,
        collapsed: true,
        detail: Some("a\u{e9}\n"),
    };
    let expected = "\"my \\\"cache\\\"\"; fwd=stale; fwd-status=304; ttl=-999999999999999; stored; collapsed; detail=\"a??\"";
    assert_eq!(value(&[], &forwarded), expected);
    let words: Vec<String> = [
        Fwd::Bypass,
        Fwd::Method,
        Fwd::UriMiss,
        Fwd::VaryMiss,
        Fwd::Miss,
        Fwd::Request,
        Fwd::Stale,
        Fwd::Partial,
    ]
    .map(|fwd| value(&[], &CacheStatus { outcome: Outcome::Fwd(fwd), ttl: None, ..member }))
    .into();
    assert_eq!(
        words.join(" ").replace("maitred; fwd=", ""),
        "bypass method uri-miss vary-miss miss request stale partial"
    );
}

#[test]
fn a_304_has_no_fields_about_content() {
    let stored = fields(
        "ETag: \"a\" | Last-Modified: @0 | Content-Type: a/b | Content-Length: 5 | Vary: A | Expires: 0 | Content-Location: /",
        START,
    );
    let mut out = FieldLines::default();
    put_not_modified_fields(stored.all(), &mut out);
    assert_eq!(text(&out), "ETag: \"a\" | Vary: A | Expires: 0 | Content-Location: /");
    let mut dated = FieldLines::default();
    put_not_modified_fields(fields("Last-Modified: @0", START).all(), &mut dated);
    assert_eq!(dated.len(), 1);
}

#[test]
fn conditions_and_ranges_are_for_successes() {
    let lifetime = stored("GET /", 200, "Cache-Control: max-age=9").unwrap();
    let answered = |status: u16, stored: &str, request: &str| {
        let (line, asked) = request.split_once('|').unwrap();
        let dated = text(&fields(asked, START));
        let (text, mut room) = (head_text(line.trim(), &dated), field_room());
        let request = read(&text, &mut room);
        answer((status, fields(stored, START).all(), 10), lifetime.date, (request.method, &request.known), 8)
    };
    assert_eq!(answered(404, "ETag: \"a\"", "GET / | If-None-Match: \"a\""), Answer::Whole);
    assert_eq!(answered(203, "ETag: \"a\"", "GET / | If-None-Match: *"), Answer::NotModified);
    assert_eq!(answered(203, "", "GET / | Range: bytes=0-1"), Answer::Whole);
    assert_eq!(answered(200, "", "HEAD / | Range: bytes=0-1"), Answer::Whole);
    assert_eq!(answered(200, "", "GET / | Range: bytes=0-1,5-"), Answer::Partial(vec![0..2, 5..10]));
    assert_eq!(answered(200, "ETag: W/\"a\"", "GET / | Range: bytes=0-1 | If-Range: W/\"a\""), Answer::Whole);
    let (by_date, part) = ("GET / | Range: bytes=0-1 | If-Range: @-60", 0..2);
    assert_eq!(answered(200, "Last-Modified: @-60", by_date), Answer::Partial(vec![part]));
    // Modified in the second of its Date: not a strong validator.
    assert_eq!(answered(200, "Last-Modified: @0", "GET / | Range: bytes=0-1 | If-Range: @0"), Answer::Whole);
    assert_eq!(answered(200, "", "GET / | Range: bytes=0-1 | If-Range: @0"), Answer::Whole);
}

#[test]
fn clients_can_be_kept_from_asking() {
    let deaf = Rules { ignore_request_directives: true, ..Rules::default() };
    let wanted =
        wanted_by("GET / | Cache-Control: no-cache, no-store, only-if-cached | Pragma: no-cache", &deaf);
    assert_eq!(wanted.consult(), Consult::Use);
    let lifetime = stored("GET /", 200, "Cache-Control: max-age=9").unwrap();
    assert_eq!(judge(&lifetime, &wanted, START), Use::Fresh { age: 0 });
    assert!(!wanted.only_if_cached() && wanted.as_get().is_none());
}

#[test]
fn the_most_specific_target_that_is_valid_counts() {
    let targets = ["Mine-Cache-Control".into(), "CDN-Cache-Control".into()];
    let rules = Rules { targets: targets.into(), ..Rules::default() };
    const OTHERS: &str = "CDN-Cache-Control: max-age=2 | Cache-Control: max-age=3";
    for (own, seconds) in
        [("max-age=1", 1), ("max-age=1, max-age=5", 5), ("bad,", 2), ("", 2), ("max-age=-1", 0)]
    {
        let response = format!("{OTHERS} | Mine-Cache-Control: {own} | ETag: \"a\"");
        let lifetime = stored_by(&wanted("GET /"), 200, &response, TIMES, &rules).unwrap();
        assert_eq!(lifetime.fresh_for, seconds, "{own}");
    }
    let none = Rules { targets: Box::default(), ..Rules::default() };
    assert_eq!(
        stored_by(&wanted("GET /"), 200, OTHERS, TIMES, &none).map(|lifetime| lifetime.fresh_for),
        Ok(3)
    );
}
