use super::*;
use crate::testing::{config, with_request};

/// The limit of this table, which has `rate` and whatever else is given.
fn limit(rest: &str) -> &'static Limit {
    let config = config(&format!("[limit.x]\n{rest}\n"));
    Box::leak(Box::new(Limit::all(&config.client_limits, Vec::new()).unwrap().remove(0)))
}

/// Which of the requests, with one field each, would pass at one moment: `y` or `n`.
fn passed(limit: &'static Limit, requests: &[(&str, &str, u64)]) -> String {
    let now = Instant::now();
    let ask = |(client, field, route): &(&str, &str, u64)| {
        with_request("GET / HTTP/1.1", &[field], |request| {
            let counted = Counted { request, client: client.parse().ok(), route: *route };
            if limit.ask(&counted, now).is_ok() { 'y' } else { 'n' }
        })
    };
    requests.iter().map(ask).collect()
}

const ONE: &str = "rate = \"1/h\"";

#[test]
fn requests_are_counted_by_address() {
    let requests = [
        ("192.0.2.1", "X: 1", 1),
        ("192.0.2.2", "X: 1", 1),
        ("192.0.2.1", "X: 2", 2),
        ("::ffff:192.0.2.2", "X: 2", 2),
        ("2001:db8::1", "X: 1", 1),
        ("2001:db8::2", "X: 1", 1),
        ("2001:db8:0:1::", "X: 1", 1),
        ("", "X: 1", 1),
        ("", "X: 1", 1),
    ];
    assert_eq!(passed(limit(ONE), &requests), "yynnynyyy", "a Unix socket has no address");
    let exempt = limit(&format!("{ONE}\nexempt = [\"192.0.2.0/24\", \"2001:db8::/32\"]"));
    assert_eq!(passed(exempt, &requests), "yyyyyyyyy");
}

#[test]
fn requests_are_counted_by_a_field_or_a_cookie_and_without_it_by_address() {
    let by_field = limit(&format!("{ONE}\nkey = \"header:X-Api-Key\""));
    let requests = [
        ("192.0.2.1", "x-api-key: a", 1),
        ("192.0.2.2", "X-Api-Key:  a ", 1),
        ("192.0.2.2", "X-Api-Key: b", 1),
        ("192.0.2.2", "X-Other: b", 1),
        ("192.0.2.2", "X-Api-Key:", 1),
        ("192.0.2.1", "X-Api-Key:", 1),
    ];
    assert_eq!(passed(by_field, &requests), "ynyyny");
    let by_cookie = limit(&format!("{ONE}\nkey = \"cookie:id\""));
    let requests = [
        ("192.0.2.1", "Cookie: a=b; id=1", 1),
        ("192.0.2.2", "Cookie: id=1; a=c", 1),
        ("192.0.2.2", "Cookie: xid=1; id=2", 1),
        ("192.0.2.2", "Cookie: id=", 1),
        ("192.0.2.2", "Cookie: ID=3", 1),
    ];
    assert_eq!(passed(by_cookie, &requests), "ynyyn");
}

#[test]
fn requests_are_counted_by_route() {
    let limit = limit(&format!("{ONE}\nkey = \"route\""));
    let requests = [("192.0.2.1", "X: 1", 1), ("192.0.2.2", "X: 1", 1), ("192.0.2.2", "X: 1", 2)];
    assert_eq!(passed(limit, &requests), "yny");
}

#[test]
fn a_refusal_says_what_the_limit_is_and_when_to_come_again() {
    let fields = |limit: &Limit, beyond| {
        let fields = limit.fields(beyond);
        let text = |field: &Field<'_>| format!("{}: {}", field.name, String::from_utf8_lossy(&field.value));
        fields.iter().map(text).collect::<Vec<_>>()
    };
    let by_minute = limit("rate = \"10/min\"\nburst = 3");
    assert_eq!(
        fields(by_minute, Beyond::Rate(Duration::from_millis(5001))),
        ["Retry-After: 6", "RateLimit: \"x\";r=0;t=6", "RateLimit-Policy: \"x\";q=10;w=60"]
    );
    // Neither a time of 0 nor a window that is no number of seconds.
    let fast = limit("rate = \"10/500ms\"");
    assert_eq!(
        fields(fast, Beyond::Rate(Duration::from_nanos(1))),
        ["Retry-After: 1", "RateLimit: \"x\";r=0;t=1", "RateLimit-Policy: \"x\";q=10"]
    );
    let at_a_time = limit("concurrent = 3");
    assert_eq!(
        fields(at_a_time, Beyond::Concurrent),
        [
            "Retry-After: 1",
            "RateLimit: \"x\";r=0;t=1",
            "RateLimit-Policy: \"x\";q=3;qu=\"concurrent-requests\""
        ]
    );
}

#[test]
fn what_is_refused_is_counted() {
    let requests = [("192.0.2.1", "X: 1", 1); 3];
    let refusing = limit(&format!("{ONE}\nkeys_max = 100"));
    assert_eq!(passed(refusing, &requests), "ynn");
    let facts = refusing.facts(Instant::now());
    assert_eq!((facts.keys, facts.keys_max), (1, 100));
    assert_eq!((facts.refused, facts.dry_run, facts.evicted), (2, 0, 0));
    let dry = limit(&format!("{ONE}\ndry_run = true"));
    assert_eq!(passed(dry, &requests), "ynn");
    assert_eq!((dry.facts(Instant::now()).refused, dry.facts(Instant::now()).dry_run), (0, 2));
}

#[test]
fn a_request_counts_while_its_lease_is_kept() {
    let both = limit("concurrent = 2\nrate = \"4/h\"\nkeys_max = 100");
    let now = Instant::now();
    let ask = || {
        with_request("GET / HTTP/1.1", &[], |request| {
            both.ask(&Counted { request, client: "192.0.2.1".parse().ok(), route: 1 }, now)
        })
    };
    let first = ask().unwrap();
    let second = ask().unwrap();
    assert!(first.is_some() && second.is_some());
    assert_eq!((ask().unwrap_err(), both.facts(now).under_way), (Beyond::Concurrent, 2));
    drop(first);
    // The dropped request has counted for the rate.
    assert!(ask().is_ok());
    assert!(matches!(ask().unwrap_err(), Beyond::Rate(_)));
    drop(second);
    let facts = both.facts(now);
    assert_eq!((facts.under_way, facts.refused, facts.keys), (0, 2, 1));
    // Without a rate, what is known of a key is its requests under way.
    let limit = limit("concurrent = 1\ndry_run = true\nkeys_max = 100");
    let ask = || {
        with_request("GET / HTTP/1.1", &[], |request| {
            limit.ask(&Counted { request, client: "192.0.2.1".parse().ok(), route: 1 }, now)
        })
    };
    let lease = ask().unwrap();
    assert!(ask().is_err() && limit.facts(now).keys == 1);
    drop(lease);
    assert_eq!((limit.facts(now).keys, limit.facts(now).dry_run), (0, 1));
}
