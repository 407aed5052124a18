//! `[limit.NAME]`, and `limit` of sites and routes.

use std::time::Duration;

use super::meaning::EVERYTHING;
use super::*;

fn site(rest: &str) -> String {
    format!("{START}[[site]]\nroot = \"www\"\n{rest}")
}

#[test]
fn limits_by_client_have_a_rate_and_something_to_count_by() {
    let limit = |lines: &str| site(&format!("limit = [\"x\"]\n[limit.x]\n{lines}\n"));
    let of = |lines: &str| good(&limit(lines)).client_limits.remove(0);
    let rate = |count, period, burst| Rate { count, period: Duration::from_millis(period), burst };
    for (text, expected) in [
        ("10/s", rate(10, 1000, 9)),
        ("10 / min", rate(10, 60_000, 9)),
        ("1/m", rate(1, 60_000, 0)),
        ("1000/h", rate(1000, 3_600_000, 999)),
        ("7/day", rate(7, 86_400_000, 6)),
        ("5/10s", rate(5, 10_000, 4)),
        ("5/250ms", rate(5, 250, 4)),
    ] {
        assert_eq!(of(&format!("rate = \"{text}\"")).rate, Some(expected), "{text}");
    }
    assert_eq!(of("rate = \"10/s\"\nburst = 0").rate.map(|rate| rate.burst), Some(0));
    let at_a_time = of("concurrent = 7\nstatus = 503");
    assert_eq!((at_a_time.rate, at_a_time.concurrent, at_a_time.status), (None, Some(7), 503));
    assert_eq!((of("rate = \"1/s\"").concurrent, of("rate = \"1/s\"").status), (None, 429));
    assert_eq!(of("rate = \"10/s\"\nkey = \"route\"").key, LimitKey::Route);
    assert_eq!(of("rate = \"10/s\"\nkey = \"cookie:Id\"").key, LimitKey::Cookie("Id".into()));
    assert_eq!(of("rate = \"10/s\"\nkey = \"header:X-A\"").key, LimitKey::Header("x-a".into()));
    let form = "it looks like \"10/s\", \"30/min\", \"1000/h\" or \"5/10s\"";
    for text in ["10", "10/", "/s", "x/s", "10/fortnight", "10/5", "-1/s"] {
        let lines = limit(&format!("rate = \"{text}\""));
        assert_eq!(brief(&lines), [format!("6:8 `rate`: \"{text}\" is not a rate | {form}")]);
    }
    for (lines, error) in [
        ("rate = \"0/s\"", "6:8 `rate`: \"0/s\" is not a rate | the number is 1 to 1000000"),
        ("rate = \"1/48h\"", "6:8 `rate`: \"1/48h\" is not a rate | the period is 1ms to 24h"),
        (
            "rate = \"1/day\"\nburst = 1000",
            "7:9 `burst` takes more than a year to be made up for | make it smaller, or `rate` larger",
        ),
        ("concurrent = 1\nburst = 2", "7:9 `burst` goes with `rate` | add a `rate`"),
        ("concurrent = 1\nstatus = 500", "7:10 `status` of a limit | it is 429 or 503"),
        (
            "rate = \"1/s\"\nkey = \"ip\"",
            "7:7 `key`: \"ip\" is nothing to count by | it takes \"address\", \"header:NAME\", \"cookie:NAME\" or \"route\"",
        ),
        (
            "rate = \"1/s\"\nkey = \"header:a b\"",
            "7:7 `key`: \"header:a b\" is nothing to count by | a name has letters, digits and `-`",
        ),
    ] {
        assert_eq!(brief(&limit(lines)), [error], "{lines}");
    }
}

#[test]
fn limits_by_client_are_found_by_their_names() {
    let text = site(
        "limit = [\"logn\"]\n[[site.route]]\npath = \"/a\"\nreroute = \"/b\"\nlimit = [\"login\", \"login\"]\n\
         [limit.login]\nrate = \"1/s\"\n[limit.\"a b\"]\nrate = \"1/s\"\n[limit.none]\n",
    );
    assert_eq!(
        brief(&text),
        [
            "4:10 there is no limit \"logn\" | did you mean \"login\"?",
            "8:1 `limit` goes with `root` or `redirect` or `respond` or `pool`, which this route does not have",
            "8:19 `limit` names \"login\" twice",
            "11:8 \"a b\" cannot be the name of a limit | it takes 1 to 64 letters, digits, `-` and `_`",
            "13:8 [limit.none] has neither `rate` nor `concurrent` | add a `rate` such as \"10/s\", or `concurrent` such as 10",
        ]
    );
    assert_eq!(
        brief(&site("limit = [\"x\"]\n")),
        ["4:10 there is no limit \"x\" | add [limit.x] with a `rate` or `concurrent`"]
    );
    let many: String = (0..65).map(|number| format!("[limit.l{number}]\nrate = \"1/s\"\n")).collect();
    assert_eq!(brief(&site(&many)), ["132:8 there are more than 64 limits"]);
    let config = good(EVERYTHING);
    assert_eq!(config.sites[0].access.limits, Some(vec![0]));
    assert_eq!(config.sites[0].routes[3].access.limits, Some(vec![1, 0]));
    let [all, login, handshakes, resets] = &config.client_limits[..] else {
        panic!("{:?}", config.client_limits)
    };
    assert_eq!((all.name.as_str(), all.keys_max, all.dry_run, all.exempt.len()), ("all", 7, true, 3));
    assert_eq!(login.rate, Some(Rate { count: 10, period: Duration::from_secs(60), burst: 3 }));
    assert_eq!((login.concurrent, login.status), (Some(2), 503));
    assert_eq!(login.key, LimitKey::Header("x-api-key".into()));
    let each_second = |count| Some(Rate { count, period: Duration::from_secs(1), burst: 10 * count - 1 });
    assert_eq!((handshakes.name.as_str(), handshakes.rate), (TLS_HANDSHAKES, each_second(33)));
    assert_eq!((resets.name.as_str(), resets.rate), (HTTP2_RESETS, each_second(34)));
    assert_eq!(handshakes.exempt, config.limits.connections_per_address_exempt);
}

#[test]
fn addresses_have_limits_where_there_is_something_to_limit() {
    let names = |text: &str| -> Vec<_> {
        good(&site(text))
            .client_limits
            .into_iter()
            .map(|limit| (limit.name, limit.rate.unwrap().count))
            .collect()
    };
    assert_eq!(names(""), [(HTTP2_RESETS.to_owned(), 1000)], "without TLS there are no handshakes");
    assert_eq!(names("[limits]\nhttp2_resets_per_address_per_second_max = 0\n"), []);
    assert_eq!(
        brief(&site("[limit.tls_handshakes]\nrate = \"1/s\"\n")),
        [
            "4:8 \"tls_handshakes\" is a limit of the server's own | `tls_handshakes_per_address_per_second_max` in [limits]"
        ]
    );
}

#[test]
fn the_examples_about_limits_are_good() {
    let manual = include_str!("../../../../docs/limits.md");
    let examples: Vec<_> =
        manual.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!examples.is_empty());
    let listen = "[[listen]]\naddress = \":1\"\n";
    let pool = "[pool.web]\ncommand = [\"app\"]\n";
    examples.into_iter().for_each(|example| drop(good(&format!("{listen}{example}{pool}"))));
}
