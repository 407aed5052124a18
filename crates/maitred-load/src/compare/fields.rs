//! Fields of both sides, by the rules.

use std::collections::BTreeMap;

use super::difference::Difference;
use super::request::printable;
use super::rules::{How, Rule, how};
use super::uri::Own;

/// Characters of a value that are shown.
const SHOWN_CHARS: usize = 200;
/// How far apart two clocks' seconds may be.
const SECONDS_APART_MAX: u64 = 2;

/// Fields, names in lower case.
pub(super) type Fields = [(String, Vec<u8>)];

/// What of a request matters for its response's fields.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct About<'a> {
    pub(super) target: &'a str,
    pub(super) is_head: bool,
    /// Both responses are the servers' own pages, whose type, length and coding are theirs.
    pub(super) are_own_pages: bool,
}

/// The differences between fields; `prefix` stands before each kind.
pub(super) fn differences(
    prefix: &str,
    rules: &[Rule],
    about: About<'_>,
    sides: [(&Fields, &Own); 2],
) -> Vec<Difference> {
    let mut names: BTreeMap<&str, [Vec<&[u8]>; 2]> = BTreeMap::new();
    for (side, (fields, _)) in sides.iter().enumerate() {
        for (name, value) in *fields {
            if let Some(values) = names.entry(name).or_default().get_mut(side) {
                values.push(value);
            }
        }
    }
    let mut found = Vec::new();
    for (name, [left, right]) in &names {
        let how = how(rules, name);
        let is_of_page =
            about.are_own_pages && matches!(*name, "content-type" | "content-length" | "content-encoding");
        if how == How::Ignored || is_of_page {
            continue;
        }
        let shown = |values: &[&[u8]]| match values {
            [] => "(missing)".to_owned(),
            values => printable(&values.join(&b", "[..]), SHOWN_CHARS),
        };
        let mut say = |what: &str| {
            found.push(Difference {
                kind: format!("{prefix}field {} {what}", printable(name.as_bytes(), 60)),
                left: shown(left),
                right: shown(right),
            });
        };
        match (left.is_empty(), right.is_empty()) {
            _ if how == How::Length && !(about.is_head && !left.is_empty() && !right.is_empty()) => {}
            (false, true) => say("missing on the right"),
            (true, false) => say("missing on the left"),
            _ => {
                let [left_side, right_side] = sides;
                let seen = |values: &[&[u8]], (fields, own): (&Fields, &Own)| {
                    canonical(how, values, fields, own, about.target)
                };
                let (one, two) = (seen(left, left_side), seen(right, right_side));
                if let Some(what) = how_they_differ(how, (&one, left), (&two, right)) {
                    say(&what);
                }
            }
        }
    }
    found
}

/// In which way two values are not the same, each with the lines that it was made of.
fn how_they_differ(
    how: How,
    (one, left): (&str, &[&[u8]]),
    (two, right): (&str, &[&[u8]]),
) -> Option<String> {
    let what = match without_charset(how, one) == without_charset(how, two) {
        _ if same(how, one, two) => return None,
        true if !one.contains("charset=") => "without a charset on the left",
        true if !two.contains("charset=") => "without a charset on the right",
        _ if left.len() > right.len() && is_said_again(left, right) => "more than once on the left",
        _ if how == How::Uri && without_port_of(one) == without_port_of(two) => "differs in its port",
        _ if how == How::Host && without_port(one) == without_port(two) => "differs in its port",
        _ if how == How::MediaType && left.len() == 1 && right.len() == 1 => {
            let bare = |seen: &str| printable(without_parameters(seen).as_bytes(), 60);
            return Some(format!("{} -> {}", bare(one), bare(two)));
        }
        _ => "differs",
    };
    Some(what.to_owned())
}

/// A media type without the parameter that says how a text is encoded: a server may add that to what it is given.
fn without_charset(how: How, value: &str) -> String {
    match how {
        How::MediaType => {
            let kept = value.split(';').map(str::trim).filter(|part| !part.starts_with("charset="));
            kept.collect::<Vec<_>>().join("; ")
        }
        _ => value.to_owned(),
    }
}

/// An absolute address without its port.
fn without_port_of(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    format!("{scheme}://{}{path}", without_port(authority))
}

fn without_port(host: &str) -> &str {
    host.rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(host, |(name, _)| name)
}

fn without_parameters(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

/// Whether the left values are those of the right, some of them more than once, or with others of the left server's own in front:
/// of a field that has one value, the last line counts for browsers.
fn is_said_again(left: &[&[u8]], right: &[&[u8]]) -> bool {
    let first =
        |value: &&[u8]| value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii().to_vec();
    let [of_left, of_right] = [left, right].map(|values| values.iter().map(first).collect::<Vec<_>>());
    of_left.last() == of_right.last() && of_right.iter().all(|value| of_left.contains(value))
}

fn same(how: How, one: &str, two: &str) -> bool {
    if how == How::Expiry
        && let (Ok(one), Ok(two)) = (one.parse::<i64>(), two.parse::<i64>())
    {
        return one.abs_diff(two) <= SECONDS_APART_MAX;
    }
    one == two
}

/// What is compared of the values of a field.
fn canonical(how: How, values: &[&[u8]], fields: &Fields, own: &Own, target: &str) -> String {
    let text: Vec<String> = values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect();
    let all = text.join(", ");
    let first = text.first().map(String::as_str).unwrap_or_default();
    match how {
        How::Ignored | How::Presence => String::new(),
        How::Exact | How::Length => all,
        How::List => {
            let mut items: Vec<String> =
                elements(&all).iter().map(|item| item.trim().to_ascii_lowercase()).collect();
            items.retain(|item| !item.is_empty());
            items.sort_unstable();
            items.dedup();
            items.join(", ")
        }
        How::Date => if date(first).is_some() { "a date" } else { first }.to_owned(),
        How::Expiry => {
            let sent = fields.iter().find(|(name, _)| name == "date");
            let sent = sent.and_then(|(_, value)| date(&String::from_utf8_lossy(value)));
            match (date(first), sent) {
                // What has expired long ago has expired, whenever that was.
                (Some(expires), Some(sent)) if expires <= sent => "past".to_owned(),
                (Some(expires), Some(sent)) => (expires - sent).to_string(),
                // Anything else is in the past (RFC 9111 section 5.3).
                _ => "past".to_owned(),
            }
        }
        How::Tag => match first {
            tag if tag.starts_with("W/\"") => "weak".to_owned(),
            tag if tag.starts_with('"') => "strong".to_owned(),
            other => other.to_owned(),
        },
        How::Cookies => {
            let mut cookies: Vec<String> = text.iter().map(|cookie| cookie_without_values(cookie)).collect();
            cookies.sort_unstable();
            cookies.join(", ")
        }
        How::Uri => own.absolute(first.trim(), target),
        How::MediaType => media_type(&all),
        How::Challenge => all.replace(", charset=\"UTF-8\"", ""),
        How::Host => own.hosts_in(&all),
        How::Port => own.port(text.last().map(|port| port.trim()).unwrap_or_default()),
    }
}

fn date(text: &str) -> Option<u64> {
    // The year 2026 decides only about dates of RFC 850, with two digits.
    maitred_http::date::parse(text.trim().as_bytes(), 1_767_225_600)
}

/// A list's elements: commas between quotes belong to an element.
fn elements(text: &str) -> Vec<&str> {
    let (mut found, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                found.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(text.get(start..).unwrap_or_default());
    found
}

fn cookie_without_values(cookie: &str) -> String {
    let mut parts = cookie.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default().split('=').next().unwrap_or_default().trim();
    let mut attributes: Vec<String> = parts
        .map(|part| match part.split_once('=') {
            Some((name, _)) if name.trim().eq_ignore_ascii_case("expires") => "expires".to_owned(),
            Some((name, value)) if name.trim().eq_ignore_ascii_case("path") => {
                format!("path={}", value.trim())
            }
            Some((name, value)) => format!("{}={}", name.trim(), value.trim()).to_ascii_lowercase(),
            None => part.to_ascii_lowercase(),
        })
        .collect();
    attributes.sort_unstable();
    format!("{name}; {}", attributes.join("; "))
}

fn media_type(text: &str) -> String {
    let parts = text.split(';').map(|part| match part.split_once('=') {
        Some((name, _)) if name.trim().eq_ignore_ascii_case("boundary") => "boundary".to_owned(),
        Some((name, value)) => format!("{}={}", name.trim(), value.trim().trim_matches('"')),
        None => part.trim().to_owned(),
    });
    let named = parts.collect::<Vec<_>>().join("; ").to_ascii_lowercase();
    // Older names of the same type (RFC 9239 section 6).
    let old =
        ["application/javascript", "application/x-javascript", "text/x-javascript", "application/ecmascript"];
    match old.iter().find_map(|old| named.strip_prefix(old)) {
        Some(rest) if rest.is_empty() || rest.starts_with(';') => format!("text/javascript{rest}"),
        _ => named,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::rules::{REQUEST, RESPONSE};
    use super::*;

    fn own(port: u16) -> Own {
        Own {
            scheme: "http",
            asked: "a.example".into(),
            host: "127.0.0.1".into(),
            ports: BTreeMap::from([(port, 80)]),
            upstream: Some(format!("127.0.0.1:{}", port + 100)),
        }
    }

    fn fields(lines: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
        lines.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect()
    }

    fn kinds(rules: &[Rule], left: &[(&str, &str)], right: &[(&str, &str)]) -> Vec<String> {
        let (left, right) = (fields(left), fields(right));
        let sides = [(&*left, &own(8081)), (&*right, &own(8082))];
        let about = About { target: "/x/y", ..About::default() };
        differences("", rules, about, sides).into_iter().map(|found| found.kind).collect()
    }

    fn is_same(name: &str, left: &str, right: &str) -> bool {
        kinds(RESPONSE, &[(name, left)], &[(name, right)]).is_empty()
    }

    #[test]
    fn each_rule_accepts_what_means_the_same() {
        for (name, left, right) in [
            ("server", "nginx", "maitred"),
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT"),
            ("etag", "\"a\"", "\"b\""),
            ("vary", "Accept-Encoding, Origin", "origin,accept-encoding"),
            ("cache-control", "public, max-age=60", "max-age=60, public"),
            ("content-type", "text/html; charset=UTF-8", "text/html;charset=\"utf-8\""),
            ("content-type", "multipart/byteranges; boundary=a", "multipart/byteranges; boundary=b"),
            ("location", "http://a.example:8081/x/z", "z"),
            ("set-cookie", "sid=1; Path=/; HttpOnly", "sid=2; httponly; path=/"),
            ("x-request-id", "1", "2"),
            ("age", "1", "2"),
            ("x-other", "a, b", "a, b"),
        ] {
            assert!(is_same(name, left, right), "{name}: {left} {right}");
        }
    }

    #[test]
    fn each_rule_finds_what_differs() {
        for (name, left, right) in [
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT", "today"),
            ("etag", "\"a\"", "W/\"a\""),
            ("vary", "Accept-Encoding", "Origin"),
            ("cache-control", "private=\"a, b\"", "private=\"a\", b"),
            ("content-type", "text/html; charset=utf-8", "text/html"),
            ("location", "http://a.example/z", "z"),
            ("set-cookie", "sid=1; Path=/a", "sid=1; Path=/A"),
            ("set-cookie", "sid=1; Secure", "sid=1"),
            ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT"),
            ("x-other", "a, b", "b, a"),
        ] {
            assert!(!is_same(name, left, right), "{name}: {left} {right}");
        }
        assert_eq!(
            kinds(RESPONSE, &[("x-a", "1")], &[("x-b", "1")]),
            ["field x-a missing on the right", "field x-b missing on the left"]
        );
    }

    #[test]
    fn a_charset_that_one_side_adds_is_a_kind_of_its_own() {
        let kinds =
            |left: &str, right: &str| kinds(RESPONSE, &[("content-type", left)], &[("content-type", right)]);
        let with = "text/html; charset=utf-8";
        assert_eq!(kinds("text/html", with), ["field content-type without a charset on the left"]);
        assert_eq!(kinds(with, "text/html"), ["field content-type without a charset on the right"]);
        let (old, new) = ("application/javascript", "text/javascript; charset=utf-8");
        assert_eq!(kinds(old, new), ["field content-type without a charset on the left"]);
        for (left, right, what) in [
            ("text/plain", with, "text/plain -> text/html"),
            (with, "text/html; charset=latin1", "text/html -> text/html"),
            ("a/b; c=d", "a/b", "a/b -> a/b"),
        ] {
            assert_eq!(kinds(left, right), [format!("field content-type {what}")], "{left} {right}");
        }
    }

    #[test]
    fn what_one_side_says_again_is_a_kind_of_its_own() {
        let lines = [("x-a", "1"), ("x-a", "1")];
        assert_eq!(kinds(RESPONSE, &lines, &[("x-a", "1")]), ["field x-a more than once on the left"]);
        assert_eq!(kinds(RESPONSE, &lines, &[("x-a", "2")]), ["field x-a differs"]);
        let types = [("content-type", "a/b"), ("content-type", "text/plain")];
        let right = [("content-type", "text/plain; charset=utf-8")];
        assert_eq!(kinds(RESPONSE, &types, &right), ["field content-type more than once on the left"]);
        let host = |host: &str| kinds(REQUEST, &[("host", "a.example")], &[("host", host)]);
        assert_eq!(host("a.example:1"), ["field host differs in its port"]);
        assert_eq!(host("b.example:1"), ["field host differs"]);
    }

    #[test]
    fn expiry_counts_from_the_response() {
        let at = |date: &'static str, expires: &'static str| [("date", date), ("expires", expires)];
        let first = at("Sun, 06 Nov 1994 08:00:00 GMT", "Sun, 06 Nov 1994 09:00:00 GMT");
        let later = at("Sun, 06 Nov 1994 08:10:00 GMT", "Sun, 06 Nov 1994 09:10:01 GMT");
        let longer = at("Sun, 06 Nov 1994 08:10:00 GMT", "Sun, 06 Nov 1994 10:10:00 GMT");
        let past = at("Sun, 06 Nov 1994 08:10:00 GMT", "Thu, 01 Jan 1970 00:00:01 GMT");
        let never = at("Sun, 06 Nov 1994 08:10:00 GMT", "0");
        assert!(kinds(RESPONSE, &first, &later).is_empty() && kinds(RESPONSE, &past, &never).is_empty());
        assert_eq!(kinds(RESPONSE, &first, &longer), ["field expires differs"]);
        assert_eq!(kinds(RESPONSE, &first, &past), ["field expires differs"]);
    }

    #[test]
    fn lengths_matter_for_head_and_own_pages_are_left_alone() {
        let lines = |length: &str| fields(&[("content-length", length), ("content-type", length)]);
        let (left, right, none) = (lines("1"), lines("2"), fields(&[("content-type", "1")]));
        let (one, two) = (own(8081), own(8082));
        let count = |right: &Fields, is_head, are_own_pages| {
            let about = About { target: "/", is_head, are_own_pages };
            differences("", RESPONSE, about, [(&left, &one), (right, &two)]).len()
        };
        assert_eq!((count(&right, true, false), count(&right, false, false)), (2, 1));
        assert_eq!((count(&right, true, true), count(&none, true, false)), (0, 0));
    }

    #[test]
    fn applications_see_the_same_but_for_own_addresses() {
        let seen = |port: u16, host: &str| {
            vec![
                ("host", host.to_owned()),
                ("x-forwarded-port", port.to_string()),
                ("x-forwarded-host", format!("a.example:{port}")),
                ("forwarded", format!("for=127.0.0.1;host=a.example:{port}")),
                ("connection", "close".to_owned()),
            ]
        };
        let compare = |left: &[(&str, String)], right: &[(&str, String)]| {
            let left: Vec<_> = left.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let right: Vec<_> = right.iter().map(|(name, value)| (*name, value.as_str())).collect();
            kinds(REQUEST, &left, &right)
        };
        let left = seen(8081, "127.0.0.1:8181");
        assert!(compare(&left, &seen(8082, "127.0.0.1:8182")).is_empty());
        assert_eq!(compare(&left, &seen(8082, "a.example")), ["field host differs"]);
        assert_eq!(compare(&left, &seen(8083, "127.0.0.1:8182")).len(), 3);
    }

    proptest! {
        #[test]
        fn nothing_panics(name in "[a-z-]{1,20}", left: Vec<u8>, right: Vec<u8>) {
            let names = RESPONSE.iter().map(|rule| rule.name.to_owned()).chain([name]);
            let both: Vec<_> = names.map(|name| (name.clone(), left.clone(), (name, right.clone()))).collect();
            let left: Vec<_> = both.iter().map(|(name, value, _)| (name.clone(), value.clone())).collect();
            let right: Vec<_> = both.into_iter().map(|(_, _, right)| right).collect();
            let about = About { target: "/", is_head: true, are_own_pages: false };
            let _ = differences("", RESPONSE, about, [(&left, &own(1)), (&right, &own(2))]);
            let _ = differences("", REQUEST, about, [(&left, &own(1)), (&right, &own(2))]);
            prop_assert!(differences("", RESPONSE, about, [(&left, &own(1)), (&left, &own(1))]).is_empty());
        }
    }
}
