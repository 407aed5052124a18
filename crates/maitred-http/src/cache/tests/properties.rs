//! The promises of [`crate::fuzzing::cache`], for generated and arbitrary exchanges; and others that need more than bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::*;
use super::model::{head_text, read};
use crate::fuzzing;
use crate::request::field_room;

const TARGETS: &[&str] =
    &["/", "/a/b?c=1&utm_x=2&_ga=3&c=0", "/a/%7eb/../c?", "http://a.example:80/x?&&=", "/%2f//"];

/// Fields that mean something in a request.
const ASKED: &[&str] = &[
    "Accept: a, b;q=0.5",
    "Accept-Encoding: gzip;q=0.5, br , *;q=0",
    "Accept-Encoding: x-gzip;;q=1,, identity;q=0",
    "Accept-Language: de , EN;q=0.1",
    "Authorization: x",
    "Cache-Control: max-age=10, max-stale, min-fresh=2",
    "Cache-Control: no-cache, only-if-cached",
    "Cache-Control: max-stale=5, stale-if-error=9",
    "Cookie: a=1; b=2",
    "Cookie: b=\"x;y\"",
    "Foo: \"a , b\" , c ",
    "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
    "If-None-Match: \"a\", W/\"b\"",
    "If-Range: \"a\"",
    "Pragma: no-cache",
    "Range: bytes=0-1,5-",
    "Range: bytes=-0",
];

/// Fields that mean something in a response.
const SAID: &[&str] = &[
    "Age: 5, 6",
    "Age: x",
    "CDN-Cache-Control: max-age=50, no-cache=\"b\"",
    "CDN-Cache-Control: private;x=\"y\", max-age=-1",
    "CDN-Cache-Control: &",
    "Cache-Control: max-age=30, stale-while-revalidate=20",
    "Cache-Control: max-age=\"5\", no-cache=\"set-cookie, X\"",
    "Cache-Control: no-cache=vary, private=\"\\\"",
    "Cache-Control: public, s-maxage=99999999999, must-understand",
    "Cache-Control: stale-if-error=20, no-store",
    "Cache-Groups: \"a\", \"b\\\"c\";d=1, (\"e\" f)",
    "Cache-Tag: a, b,,c d",
    "Connection: x, close",
    "Content-Length: 100",
    "Content-Location: ../a?b#c",
    "Content-Encoding: br",
    "Date: Fri, 20 Nov 2026 08:00:00 GMT",
    "Date: yesterday",
    "ETag: \"a\"",
    "ETag: *",
    "ETag: W/\"b\"",
    "Expires: Fri, 20 Nov 2026 09:00:00 GMT",
    "Expires: 0",
    "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
    "Location: //a.example/?x",
    "Location: a:b",
    "Pragma: no-cache",
    "Set-Cookie: a=b",
    "Surrogate-Key: a b  c",
    "Vary: Foo, accept-encoding",
    "Vary: Accept-Language,Cookie,",
    "X: y",
];

fn exchange() -> impl Strategy<Value = Vec<u8>> {
    let block =
        |from: &'static [&'static str], most| vec(select(from), 0..most).prop_map(|lines| lines.join("\n"));
    let parts = (select(TARGETS), block(ASKED, 6), block(SAID, 10), block(SAID, 8));
    (any::<[u8; 3]>(), parts).prop_map(|(choices, (target, asked, said, second))| {
        let text = format!("{target}\n{asked}\n\n{said}\n\n{second}");
        [&choices[..], text.as_bytes()].concat()
    })
}

fn variant(fields: &str, names: &str) -> String {
    let (text, mut room, mut key) = (head_text("GET /", fields), field_room(), Vec::new());
    let rules = Rules { normalise_language: true, ..Rules::default() };
    put_variant_key(names, &read(&text, &mut room), &rules, &mut key);
    String::from_utf8(key).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_exchange_keeps_the_promises(exchange in exchange()) {
        fuzzing::cache(&exchange);
    }

    #[test]
    fn mutated_exchanges_keep_the_promises(mut exchange in exchange(), at: prop::sample::Index, byte: u8) {
        let at = at.index(exchange.len());
        exchange[at] = byte;
        fuzzing::cache(&exchange);
    }

    #[test]
    fn any_bytes_keep_the_promises(bytes in vec(any::<u8>(), 0..80)) {
        fuzzing::cache(&bytes);
        let _ = Lifetime::decode(&std::array::from_fn(|at| bytes.get(at).copied().unwrap_or_default()));
    }

    #[test]
    fn lifetimes_come_back(long: [u64; 2], words: [u32; 4], flags: [bool; 3]) {
        let lifetime = Lifetime {
            date: long[0],
            response_time: long[1],
            initial_age: words[0],
            fresh_for: words[1],
            stale_while_revalidate: words[2],
            stale_if_error: words[3],
            must_revalidate: flags[0],
            no_cache: flags[1],
            heuristic: flags[2],
        };
        prop_assert_eq!(Lifetime::decode(&lifetime.encode()), Some(lifetime));
        let _ = (lifetime.age(0), lifetime.ttl(u64::MAX), lifetime.useful_until());
    }

    /// The order and spelling of what may be accepted does not tell variants apart; what is accepted does.
    #[test]
    fn codings_are_a_set(
        weights in prop::collection::btree_map(select(vec!["gzip", "br", "zstd", "deflate"]), 0_u16..4, 0..5),
        turn in 0_usize..4,
    ) {
        let mut members: Vec<String> =
            weights.iter().map(|(name, weight)| format!("{name};q=0.{weight}")).collect();
        let one = variant(&format!("Accept-Encoding: {}", members.join(", ")), "accept-encoding");
        let middle = turn.min(members.len());
        members.rotate_left(middle);
        let spelled = members.join(" ,").to_ascii_uppercase();
        let other = variant(&format!("Accept-Encoding: {spelled}"), "accept-encoding");
        prop_assert_eq!(&one, &other);
        for name in ["gzip", "br", "zstd", "deflate"] {
            prop_assert_eq!(one.contains(name), weights.get(name).is_some_and(|weight| *weight > 0));
        }
    }
}
