//! The rules against those of another implementation, http-cache-semantics: whether a stored response answers the same request
//! again, how old it is then, and how long it is fresh.
//!
//! What is told apart deliberately, and kept out of the generated exchanges or allowed below:
//!
//! - A `Date` in the past makes a response older here (`apparent_age`, 9111-4.2.3); there it does not.
//! - `no-cache` and `s-maxage` forbid stale responses here even to clients with `max-stale` (9111-5.2.2.4, 5.2.2.10).
//! - `proxy-revalidate` is a lifetime of 0 there, and says nothing of fresh responses here (9111-5.2.2.8).
//! - `max-stale=N` allows a staleness of N seconds here, and less than that there.
//! - A stale response without validators is not even stored here, and none without a lifetime; there they are for `max-stale`.
//! - The same directive with two values counts as the first one here; there as `must-revalidate`.
//! - `private` and `no-cache` with names of fields, targeted fields, `must-understand`, statuses that are not known, `Set-Cookie`
//!   and guesses of more than a day are decided here only; `immutable` there only (RFC 8246 is for browsers).
//! - `Pragma` of a response forbids a guess here, and stands for `no-cache` there; that of a request counts there even beside
//!   `Cache-Control`.

use std::time::{Duration, SystemTime};

use http_cache_semantics::{BeforeRequest, CacheOptions, CachePolicy};
use proptest::prelude::*;

use super::super::*;
use super::model::{START, fields, head_text, read};
use crate::fields::FieldLines;
use crate::request::field_room;
use crate::response::ResponseHead;

/// A request and a response, and when the request comes again.
#[derive(Debug, Clone)]
struct Exchange {
    request: Vec<String>,
    status: u16,
    response: Vec<String>,
    /// The date of the response is so many seconds in the past.
    slow: u64,
    later: u64,
}

fn directive(name: &'static str) -> impl Strategy<Value = Option<String>> {
    proptest::option::of((0_u32..40).prop_map(move |seconds| format!("{name}={seconds}")))
}

fn flag(text: &'static str, weight: f64) -> impl Strategy<Value = Option<String>> {
    proptest::bool::weighted(weight).prop_map(move |set| set.then(|| text.to_owned()))
}

/// A line of `Cache-Control`, or none.
fn line(directives: Vec<Option<String>>) -> Option<String> {
    let all: Vec<String> = directives.into_iter().flatten().collect();
    (!all.is_empty()).then(|| format!("Cache-Control: {}", all.join(", ")))
}

fn response() -> impl Strategy<Value = (u16, Vec<String>, u64)> {
    let control = (
        (directive("max-age"), directive("s-maxage"), flag("public", 0.2), flag("private", 0.05)),
        (flag("no-store", 0.05), flag("no-cache", 0.1), flag("must-revalidate", 0.2), flag("x=\"a\"", 0.1)),
    );
    let control = control.prop_map(|((a, b, c, d), (e, f, g, h))| line(vec![a, b, c, d, e, f, g, h]));
    let dated = |name: &'static str, range: std::ops::Range<i64>| {
        proptest::option::of(range.prop_map(move |offset| format!("{name}: @{offset}")))
    };
    let age = proptest::option::of((0_u32..40).prop_map(|age| format!("Age: {age}")));
    let others =
        (flag("ETag: \"a\"", 0.5), flag("Vary: *", 0.05), flag("Vary: Accept", 0.2), flag("Expires: 0", 0.1));
    let statuses = prop::sample::select(vec![200_u16, 203, 204, 300, 301, 302, 307, 308, 404, 410, 501]);
    let lines = (
        control,
        dated("Expires", -20..60),
        dated("Last-Modified", -800_000..0),
        dated("Date", -9..9),
        age,
        others,
    );
    (statuses, lines).prop_map(
        |(status, (control, expires, modified, date, age, (etag, any, accept, zero)))| {
            let slow =
                date.as_deref().and_then(|date| date.strip_prefix("Date: @-")?.parse().ok()).unwrap_or(0);
            let expires = expires.or(zero);
            let all = [control, expires, modified, date, age, etag, any, accept];
            (status, all.into_iter().flatten().collect(), slow)
        },
    )
}

fn request() -> impl Strategy<Value = Vec<String>> {
    let control = (
        (directive("max-age"), directive("max-stale"), directive("min-fresh"), flag("max-stale", 0.1)),
        (flag("no-store", 0.05), flag("no-cache", 0.05)),
    );
    // A directive stands once.
    let control = control
        .prop_map(|((a, b, c, d), (e, f))| line(vec![a, b.clone(), c, d.filter(|_| b.is_none()), e, f]));
    (proptest::option::weighted(0.4, control), flag("Pragma: no-cache", 0.1), flag("Authorization: x", 0.2))
        .prop_map(|(control, pragma, authorization)| {
            let control = control.flatten();
            let pragma = pragma.filter(|_| control.is_none());
            [control, pragma, authorization].into_iter().flatten().collect()
        })
}

fn exchange() -> impl Strategy<Value = Exchange> {
    (request(), response(), 0_u64..50).prop_map(|(request, (status, response, slow), later)| Exchange {
        request,
        status,
        response,
        slow,
        later,
    })
}

impl Exchange {
    fn says(&self, directive: &str) -> bool {
        self.response.iter().any(|field| field.starts_with("Cache-Control") && field.contains(directive))
    }

    fn asks(&self, directive: &str) -> bool {
        self.request.iter().any(|field| field.starts_with("Cache-Control") && field.contains(directive))
    }

    fn fields(&self) -> FieldLines {
        fields(&self.response.join("|"), START)
    }

    /// What the rules say here: the lifetime, and whether it is given.
    fn ours(&self) -> (Result<Lifetime, Why>, bool) {
        let text = head_text("GET /", &self.request.join("|"));
        let mut room = field_room();
        let rules = Rules { heuristic: true, ..Rules::default() };
        let wanted = Wanted::of(&read(&text, &mut room), &rules);
        let fields = self.fields();
        let head = ResponseHead::own(self.status, fields.all());
        let times = Times::new(START, START);
        let lifetime = storable(&wanted, &head, times, &rules);
        let used = lifetime.as_ref().ok().map(|lifetime| judge(lifetime, &wanted, START + self.later));
        (lifetime, matches!(used, Some(Use::Fresh { .. } | Use::Stale { .. })))
    }

    /// What they say there: whether it is given, its age, and how long it is fresh.
    fn theirs(&self) -> (bool, u64, u64) {
        let mut request = http::Request::get("http://a.example/");
        for field in &self.request {
            let (name, value) = field.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        let request = request.body(()).unwrap();
        let mut response = http::Response::builder().status(self.status);
        for (name, value) in self.fields().all().iter() {
            response = response.header(name, value);
        }
        let response = response.body(()).unwrap();
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let policy = CachePolicy::new_options(&request, &response, at(START), CacheOptions::default());
        let now = at(START + self.later);
        let given =
            policy.is_storable() && matches!(policy.before_request(&request, now), BeforeRequest::Fresh(_));
        (given, policy.age(now).as_secs(), policy.time_to_live(now).as_secs())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn another_implementation_decides_the_same(exchange in exchange()) {
        let (lifetime, given) = exchange.ours();
        let (given_there, age, ttl) = exchange.theirs();
        let stale_asked = exchange.asks("max-stale");
        let forbidden = exchange.says("no-cache") || exchange.says("s-maxage");
        let (Ok(lifetime), 0) = (&lifetime, exchange.slow) else {
            // Never more than there, for what is older here or not kept at all; but for the last second of `max-stale`.
            let last = lifetime.as_ref().is_ok_and(|lifetime| lifetime.ttl(START + exchange.later) <= 0);
            prop_assert!(given_there || !given || (last && stale_asked), "{lifetime:?}");
            let why = lifetime.err();
            let kept_there = exchange.slow > 0 || (matches!(why, Some(Why::Stale | Why::NoLifetime)) && stale_asked);
            prop_assert!(!given_there || kept_there, "{why:?}");
            return Ok(());
        };
        let now = START + exchange.later;
        prop_assert_eq!(u64::from(lifetime.age(now)), age);
        if !lifetime.no_cache {
            prop_assert_eq!(lifetime.ttl(now).max(0) as u64, ttl);
        }
        let edge = (lifetime.ttl(now) <= 0 || lifetime.no_cache) && stale_asked;
        prop_assert!(given == given_there || (edge && (forbidden || !given_there)), "{given} {given_there}");
        prop_assert!(!(forbidden && given && lifetime.ttl(now) <= 0));
    }
}
