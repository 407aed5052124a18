//! The rules of the cache, for any request and responses: what they say of one exchange fits together.

use crate::bytes::is_name;
use crate::cache::*;
use crate::fields::FieldLines;
use crate::request::{Request, field_room, is_token_byte, parse};
use crate::response::ResponseHead;

const NOW: u64 = 1_795_161_600;
const SIZE: u64 = 100;

/// An exchange, and a second response to it: three bytes that choose the rules, the status and the time between, then a target
/// and lines of fields, with an empty line between the request, the response, and the second one.
pub fn cache(data: &[u8]) {
    let [choice, status, later, text @ ..] = data else { return };
    let text = String::from_utf8_lossy(text);
    let mut parts = text.splitn(3, "\n\n");
    let (request, response) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let (target, fields) = request.split_once('\n').unwrap_or((request, ""));
    let mut head = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n");
    for (name, value) in lines(fields).all().iter() {
        head += &format!("{}: {}\r\n", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
    }
    head += "\r\n";
    let mut room = field_room();
    let Ok(Some((request, _))) = parse(head.as_bytes(), &mut room, &super::LIMITS) else { return };
    let status = [200, 200, 203, 204, 206, 302, 304, 404, 416, 503, 599][usize::from(*status) % 11];
    let (response, second) = (lines(response), lines(parts.next().unwrap_or_default()));
    let rules = rules(*choice);
    let head = ResponseHead::own(status, response.all());
    selection(&request, &head, &rules);
    stored(&request, &head, &ResponseHead::own(304, second.all()), u64::from(*later), &rules);
    named(&request, &head, &text);
}

fn rules(choice: u8) -> Rules {
    let some = |bit: u8| (choice & bit != 0).then_some(60);
    Rules {
        heuristic: choice & 1 != 0,
        default_ttl: some(2),
        override_ttl: some(4),
        stale_while_revalidate: some(8),
        stale_if_error: some(8),
        store_set_cookie: choice & 16 != 0,
        ignore_response_directives: choice & 32 != 0,
        ignore_request_directives: choice & 64 != 0,
        normalise_language: choice & 128 != 0,
        ..Rules::default()
    }
}

/// The lines that are fields.
fn lines(text: &str) -> FieldLines {
    let mut fields = FieldLines::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim_ascii();
        let valid = !name.is_empty() && name.bytes().all(|byte| is_token_byte(&byte));
        if valid && !value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            fields.push(name.as_bytes(), value.as_bytes());
        }
    }
    fields
}

/// Keys are lines of text, and the same for the same request.
fn selection(request: &Request<'_, '_>, head: &ResponseHead<'_>, rules: &Rules) {
    let target = target(request);
    let names = ["_ga", "utm_*"].map(Box::from);
    let keys = [
        KeyRules::default(),
        KeyRules { query: QueryRule::Ignore, ..KeyRules::default() },
        KeyRules { query: QueryRule::Only(names.clone().into()), sort: true, ..KeyRules::default() },
        KeyRules {
            answered_by: "pool a 0".into(),
            query: QueryRule::Without(names.into()),
            sort: true,
            fields: Box::new(["accept".into()]),
            cookies: Box::new(["a".into()]),
        },
    ];
    for keys in keys {
        let (mut key, mut again) = (Vec::new(), Vec::new());
        put_key(&target, request, (&keys, rules), &mut key);
        put_key(&target, request, (&keys, rules), &mut again);
        assert_eq!(key, again);
        let count = key.iter().filter(|byte| **byte == b'\n').count();
        let lines = 1 + usize::from(!keys.answered_by.is_empty());
        assert_eq!(count, lines + keys.fields.len() + keys.cookies.len());
    }
    let Vary::Fields(names) = vary(head) else { return };
    assert!(
        names.split(',').count() <= VARY_NAMES_MAX && names.split(',').is_sorted_by(|one, other| one < other)
    );
    let mut variant = Vec::new();
    put_variant_key(&names, request, rules, &mut variant);
    assert_eq!(variant.iter().filter(|byte| **byte == b'\n').count(), names.split(',').count());
}

fn target<'a>(request: &Request<'_, 'a>) -> Target<'a> {
    Target { scheme: "http", authority: request.authority, path: request.path, query: request.query }
}

/// What is stored lasts as long as it says, and is made no better by being stored, or updated, again.
fn stored(
    request: &Request<'_, '_>,
    head: &ResponseHead<'_>,
    second: &ResponseHead<'_>,
    later: u64,
    rules: &Rules,
) {
    let wanted = Wanted::of(request, rules);
    let times = Times::new(NOW, NOW);
    let Ok(lifetime) = storable(&wanted, head, times, rules) else { return };
    assert_eq!(wanted.consult(), Consult::Use);
    assert_eq!(Lifetime::decode(&lifetime.encode()), Some(lifetime));
    lasts(&lifetime, &wanted, later);

    let mut kept = FieldLines::default();
    put_stored_fields(head, &lifetime, rules, &mut kept);
    for (name, _) in kept.all().iter() {
        let lower = name.to_ascii_lowercase();
        let hop = ["age", "connection", "keep-alive", "te", "transfer-encoding", "upgrade"];
        assert!(!hop.iter().any(|other| is_name(&lower, other.as_bytes())) && !lower.starts_with(b"proxy-a"));
        assert!(rules.store_set_cookie || lower != b"set-cookie");
    }
    let again = ResponseHead::own(head.status, kept.all());
    if let Ok(again) = storable(&wanted, &again, times, rules) {
        assert!(again.fresh_for <= lifetime.fresh_for && again.no_cache >= lifetime.no_cache);
    }
    match answer((head.status, kept.all(), SIZE), lifetime.date, (request.method, &request.known), 8) {
        Answer::Partial(ranges) => {
            assert!(head.status == 200 && !ranges.is_empty() && ranges.len() <= 8);
            assert!(ranges.iter().all(|range| range.start < range.end && range.end <= SIZE));
        }
        Answer::NotModified => assert!((200..300).contains(&head.status)),
        Answer::Unsatisfiable => assert_eq!(head.status, 200),
        Answer::Whole => {}
    }
    updated(&kept, second, rules);
}

fn lasts(lifetime: &Lifetime, wanted: &Wanted, later: u64) {
    let (now, plain) = (NOW + later, Wanted::get());
    assert!(lifetime.age(now) >= lifetime.age(NOW) && lifetime.ttl(now) <= lifetime.ttl(NOW));
    assert!(lifetime.age(u64::MAX) <= SECONDS_MAX);
    assert_eq!(lifetime.age(0), SECONDS_MAX, "what is of the future is as old as can be");
    for wanted in [*wanted, plain] {
        match judge(lifetime, &wanted, now) {
            Use::Fresh { age } => {
                assert!(lifetime.is_fresh(now) && !lifetime.no_cache && age == lifetime.age(now))
            }
            Use::Stale { refresh, .. } => {
                assert!(!lifetime.is_fresh(now) && !lifetime.no_cache);
                assert!(refresh || !lifetime.must_revalidate);
            }
            Use::Validate => assert!(!wanted.only_if_cached()),
            Use::OnlyIfCached504 => assert!(wanted.only_if_cached()),
        }
        assert!(!(lifetime.no_cache && may_serve_on_error(lifetime, &wanted, now)));
    }
    let end = lifetime.useful_until().saturating_add(1);
    assert!(
        matches!(judge(lifetime, &plain, end), Use::Validate) && !may_serve_on_error(lifetime, &plain, end)
    );
    assert!(!lifetime.outdated().is_fresh(NOW) && lifetime.outdated().stale_while_revalidate == 0);
}

/// The same update twice is one.
fn updated(kept: &FieldLines, second: &ResponseHead<'_>, rules: &Rules) {
    let sorted = |fields: &FieldLines| {
        let all = fields.all();
        let mut lines: Vec<_> = all.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        lines.sort_unstable();
        lines
    };
    let (mut once, mut twice) = (FieldLines::default(), FieldLines::default());
    merge(kept.all(), second, NOW, rules, &mut once);
    merge(once.all(), second, NOW, rules, &mut twice);
    assert_eq!(sorted(&once), sorted(&twice));
    assert!(once.all().get(b"date").is_some());
    for name in [&b"content-length"[..], b"content-encoding", b"content-range"] {
        assert!(once.all().get(name).is_none_or(|value| kept.all().get(name) == Some(value)));
    }
    let mut conditions = FieldLines::default();
    put_conditions(once.all(), &mut conditions);
    assert!(conditions.len() <= 2 && conditions.all().get(b"if-none-match") != Some(b"*"));
    assert!(updates(kept.all(), second, Asked::One));
}

/// Names are bounded, targets are paths, and `Cache-Status` is well-formed.
fn named(request: &Request<'_, '_>, head: &ResponseHead<'_>, text: &str) {
    let mut tags = 0;
    for_each_tag(head, |tag| {
        let (Tag::Key(name) | Tag::Group(name)) = tag;
        tags += 1;
        assert!((1..=TAG_BYTES_MAX).contains(&name.len()));
    });
    assert!(tags <= 2 * TAGS_MAX);
    let target = target(request);
    let mut targets = 0;
    for_each_invalidated(&target, head, |named| {
        targets += 1;
        assert!(named.path.starts_with('/') && !named.path.contains(['?', '#']), "{named:?}");
        assert_eq!((named.scheme, named.authority), (target.scheme, target.authority));
    });
    assert!(targets >= 1);
    let member = CacheStatus {
        cache: text,
        outcome: Outcome::Fwd(Fwd::Stale),
        fwd_status: Some(head.status),
        ttl: Some(-1),
        stored: true,
        collapsed: false,
        detail: Some(text),
    };
    let mut value = Vec::new();
    put_cache_status([], &member, &mut value);
    assert_eq!(members(&value), Some(1));
}
