//! Placeholders filled in, and targets of requests rewritten.

mod facts;
mod place;
mod values;

use std::borrow::Cow;

use maitred_http::request::Request;
use maitred_http::uri;
use regex::bytes::{Captures, Regex};

#[cfg(test)]
pub(crate) use self::facts::testing;
pub use self::facts::{Facts, Origin, cookie, parameters};
use self::place::{Place, Value, with_origin};
pub use self::values::{Filled, Told, put_variable};
use maitred_config::{self as config, Part, Template};

/// The longest target that a rewrite may make, in bytes: as that of a request line at most (`limits.target_bytes_max`).
const TARGET_BYTES_MAX: usize = 64 * 1024;

/// A target that takes the place of the one that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    /// The path, encoded; it has yet to be judged like one that was sent.
    pub path: String,
    /// The query, without `?`.
    pub query: Option<String>,
}

/// What placeholders of targets are filled in with: the facts, and the groups of the route's `path_regex`.
struct Filling<'f, 'a> {
    facts: &'f Facts<'a>,
    groups: Option<Captures<'a>>,
}

impl<'f, 'a> Filling<'f, 'a> {
    fn new(facts: &'f Facts<'a>, regex: Option<&Regex>) -> Filling<'f, 'a> {
        Filling { facts, groups: regex.and_then(|regex| regex.captures(facts.path)) }
    }

    /// Appends a template that begins at this place. An empty `{query}` at the end takes the `?` or `&` in front of it away.
    fn put(&self, template: &Template, mut place: Place, out: &mut Vec<u8>) {
        for (at, part) in template.0.iter().enumerate() {
            if let Part::Text(text) = part {
                place.put_text(text, out);
                place = place.behind_text(text);
                continue;
            }
            self.with_value(part, &mut |value| {
                if (place, value) == (Place::Item, Value::Query(b"")) && at + 1 == template.0.len() {
                    out.pop_if(|byte| b"?&".contains(byte));
                }
                place.put(value, out);
                place = place.behind(value);
            });
        }
    }

    /// Gives `take` what a placeholder stands for.
    fn with_value(&self, part: &Part, take: &mut dyn FnMut(Value<'_>)) {
        let facts = self.facts;
        let query = |out: &mut Vec<u8>| uri::canonical_query(facts.request.query.unwrap_or_default(), out);
        let mut room = Vec::new();
        match part {
            // Users and ids are known when a request has passed its gates: the configuration refuses them here.
            Part::Text(_) | Part::User | Part::RequestId => {}
            Part::Path => take(Value::Segments(facts.path)),
            Part::Query => {
                query(&mut room);
                take(Value::Query(&room));
            }
            Part::Uri => {
                uri::encode_path(facts.path, &mut room);
                if facts.request.query.is_some() {
                    room.push(b'?');
                    query(&mut room);
                }
                take(Value::Uri(&room));
            }
            Part::Host => take(Value::Host(facts.host())),
            Part::Port | Part::Scheme | Part::Client => with_origin((facts.origin)(), part, take),
            Part::Capture(number) => {
                let group = self.groups.as_ref().and_then(|groups| groups.get(usize::from(*number)));
                take(Value::Segments(group.map_or(b"", |group| group.as_bytes())));
            }
            Part::Header(name) => take(Value::One(facts.fields(name).next().unwrap_or_default())),
            Part::Parameter(name) => {
                let sent = facts.parameters(name).next().unwrap_or_default();
                take(Value::One(&uri::decode_parameter(sent)));
            }
        }
    }
}

/// The place that a redirect leads to.
pub fn location(template: &Template, facts: &Facts<'_>, regex: Option<&Regex>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + facts.request.path.len());
    Filling::new(facts, regex).put(template, Place::of_uri(template), &mut out);
    out
}

/// Path and query of a template that stands for a target. Without `?` in it the query stays as it was.
pub fn target(template: &Template, facts: &Facts<'_>, regex: Option<&Regex>) -> Option<Rewritten> {
    let text = String::from_utf8(location(template, facts, regex)).ok()?;
    let own = template.0.iter().any(|part| match part {
        Part::Text(text) => text.contains('?'),
        Part::Uri => true,
        _ => false,
    });
    let rewritten = match text.split_once('?') {
        Some((path, query)) => {
            let query = (!query.is_empty()).then(|| query.to_owned());
            Rewritten { path: path.to_owned(), query }
        }
        None if own => Rewritten { path: text, query: None },
        None => Rewritten { path: text, query: facts.request.query.map(str::to_owned) },
    };
    rewritten.is_bounded().then_some(rewritten)
}

impl Rewritten {
    /// The request with this target. What was sent stays in [`Request::target`], for the access log.
    pub fn over<'a>(&'a self, request: &Request<'a, 'a>) -> Request<'a, 'a> {
        Request { path: &self.path, query: self.query.as_deref(), ..*request }
    }

    fn is_bounded(&self) -> bool {
        self.path.len() + self.query.as_ref().map_or(0, String::len) <= TARGET_BYTES_MAX
    }
}

/// What a route changes in targets, compiled.
#[derive(Debug)]
pub struct Rewrite {
    strip: Option<Box<str>>,
    replace: Box<str>,
    to: Option<Template>,
    set: Vec<(String, Template)>,
    remove: Vec<String>,
}

impl Rewrite {
    /// Compiles it; `None` if nothing is changed.
    pub(crate) fn new(rewrite: &config::Rewrite) -> Option<Rewrite> {
        let compiled = || Rewrite {
            // Compared with paths in their canonical form.
            strip: rewrite.strip_prefix.as_deref().map(encoded),
            replace: encoded(&rewrite.replace_prefix),
            to: rewrite.to.clone(),
            set: rewrite.set_query.clone(),
            remove: rewrite.remove_query.clone(),
        };
        (!rewrite.is_empty()).then(compiled)
    }

    /// What paths of clients begin with, and what takes its place.
    pub fn prefix(&self) -> Option<(&str, &str)> {
        let strip = self.strip.as_deref().filter(|_| self.to.is_none())?;
        Some((strip, &self.replace))
    }

    /// The target of a request, rewritten. `canonical` is its path in canonical form. `None`: it would be too long.
    pub fn apply(&self, facts: &Facts<'_>, canonical: &str, regex: Option<&Regex>) -> Option<Rewritten> {
        let query = facts.request.query.map(str::to_owned);
        let mut rewritten = match (&self.to, &self.strip) {
            (Some(template), _) => target(template, facts, regex)?,
            (None, Some(strip)) => {
                let rest = canonical.strip_prefix(&**strip);
                let path = rest.map_or(canonical.to_owned(), |rest| format!("{}{rest}", self.replace));
                Rewritten { path, query }
            }
            (None, None) => Rewritten { path: canonical.to_owned(), query },
        };
        if !self.set.is_empty() || !self.remove.is_empty() {
            rewritten.query = self.query(rewritten.query.as_deref(), &Filling::new(facts, regex));
        }
        rewritten.is_bounded().then_some(rewritten)
    }

    fn query(&self, query: Option<&str>, filling: &Filling<'_, '_>) -> Option<String> {
        let mut out = Vec::new();
        let removed = |name: &[u8]| {
            self.set.iter().any(|(set, _)| set.as_bytes() == name)
                || self.remove.iter().any(|removed| match removed.strip_suffix('*') {
                    Some(start) => name.starts_with(start.as_bytes()),
                    None => removed.as_bytes() == name,
                })
        };
        let items = query.into_iter().flat_map(|query| query.split('&'));
        let kept = items.filter(|item| {
            let name = parameters(Some(item)).next().map_or("", |(name, _)| name);
            !removed(&uri::decode_parameter(name))
        });
        for item in kept {
            begin_item(&mut out);
            out.extend_from_slice(item.as_bytes());
        }
        for (name, value) in &self.set {
            begin_item(&mut out);
            uri::encode_component(name.as_bytes(), &mut out);
            out.push(b'=');
            filling.put(value, Place::Parameter, &mut out);
        }
        (!out.is_empty()).then(|| String::from_utf8_lossy(&out).into_owned())
    }
}

fn begin_item(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b'&');
    }
}

fn encoded(path: &str) -> Box<str> {
    let mut out = Vec::new();
    let same = uri::canonical_path(path, uri::Slashes::Decode, &mut out).is_ok();
    let text =
        if same { Cow::Owned(String::from_utf8_lossy(&out).into_owned()) } else { Cow::Borrowed(path) };
    text.into_owned().into_boxed_str()
}

#[cfg(test)]
mod tests {
    use super::testing::with_facts;
    use super::*;

    const HEAD: &str =
        "GET /user/17/a%20b?x=1&utm_a=2&y=%26 HTTP/1.1\r\nHost: example.com:81\r\nX-A: a/b?c\r\n\r\n";

    fn template(text: &str, regex: Option<&Regex>) -> Template {
        Template::parse(text, regex).unwrap()
    }

    #[test]
    fn placeholders_are_filled_in_and_encoded() {
        let regex = config::regex(r"^/user/(\d+)/(?<rest>.*)$").ok();
        for (text, expected) in [
            ("{path}", "/user/17/a%20b"),
            ("{uri}", "/user/17/a%20b?x=1&utm_a=2&y=%26"),
            ("{scheme}://{host}:{port}/", "http://example.com:8080/"),
            ("/{capture.1}-{capture.rest}", "/17-a%20b"),
            ("/{client}", "/192.0.2.1"),
            ("/{header.x-a}{header.none}", "/a%2Fb%3Fc"),
            ("/?y={query.y}&z={query.z}", "/?y=%26&z="),
            ("/?{query}", "/?x=1&utm_a=2&y=%26"),
            ("/?a=1&{query}", "/?a=1&x=1&utm_a=2&y=%26"),
            ("/?from={query}", "/?from=x%3D1%26utm_a%3D2%26y%3D%2526"),
            ("/{query}", "/x%3D1%26utm_a%3D2%26y%3D%2526"),
            (
                "https://a.example/?from={uri}",
                "https://a.example/?from=/user/17/a%2520b%3Fx%3D1%26utm_a%3D2%26y%3D%2526",
            ),
            ("https://{host}{uri}", "https://example.com/user/17/a%20b?x=1&utm_a=2&y=%26"),
            ("https://{host}?{path}", "https://example.com?/user/17/a%20b"),
            ("/x#{path}", "/x#/user/17/a%20b"),
            ("/?a={client}&b={header.x-a}", "/?a=192.0.2.1&b=a/b%3Fc"),
        ] {
            let found =
                with_facts(HEAD, |facts| location(&template(text, regex.as_ref()), facts, regex.as_ref()));
            assert_eq!(String::from_utf8_lossy(&found), expected, "{text}");
        }
    }

    #[test]
    fn an_empty_query_leaves_no_sign_behind() {
        for sent in ["/a", "/a?"] {
            let head = format!("GET {sent} HTTP/1.1\r\nHost: h\r\n\r\n");
            let put = |text: &str| with_facts(&head, |facts| location(&template(text, None), facts, None));
            for (text, expected) in [
                ("/b?{query}", "/b"),
                ("/b?c=1&{query}", "/b?c=1"),
                ("/b?{query}&c=1", "/b?&c=1"),
                ("/b?c={query}", "/b?c="),
            ] {
                assert_eq!(String::from_utf8_lossy(&put(text)), expected, "{sent} {text}");
            }
            let to = with_facts(&head, |facts| target(&template("/b?{query}", None), facts, None));
            assert_eq!(to, Some(Rewritten { path: "/b".into(), query: None }), "{sent}");
        }
    }

    #[test]
    fn a_target_keeps_its_query_unless_it_has_one_of_its_own() {
        let regex = config::regex(r"^/user/(\d+)").ok();
        for (text, path, query) in [
            ("/u/{capture.1}", "/u/17", Some("x=1&utm_a=2&y=%26")),
            ("/u?id={capture.1}", "/u", Some("id=17")),
            ("/u?", "/u", None),
            ("/u?id={capture.1}&{query}", "/u", Some("id=17&x=1&utm_a=2&y=%26")),
            ("/u{uri}", "/u/user/17/a%20b", Some("x=1&utm_a=2&y=%26")),
        ] {
            let found =
                with_facts(HEAD, |facts| target(&template(text, regex.as_ref()), facts, regex.as_ref()));
            let expected = Rewritten { path: path.into(), query: query.map(str::to_owned) };
            assert_eq!(found, Some(expected), "{text}");
        }
    }

    #[test]
    fn what_a_client_sends_ends_no_value() {
        let regex = config::regex(r"^/r/(?<rest>.*)$").ok();
        let set = |text: &str| config::Rewrite {
            set_query: vec![("t".into(), template(text, None))],
            ..config::Rewrite::default()
        };
        for (sent, encoded) in [
            ("C%2B%2B", "C%2B%2B"),
            ("a+b", "a%2Bb"),
            ("a;b&c=d", "a%3Bb%26c%3Dd"),
            ("a%23b%3Fc%25d", "a%23b%3Fc%25d"),
            ("a%20b%22%27%3Ce", "a%20b%22%27%3Ce"),
            ("%C3%A9", "%C3%A9"),
            ("User:A/b@c,d", "User:A/b@c,d"),
        ] {
            let head = format!("GET /r/{sent}?q={sent} HTTP/1.1\r\nHost: h\r\nX-T: 1&2;3+4\r\n\r\n");
            with_facts(&head, |facts| {
                let rewritten =
                    target(&template("/i.php?t={capture.1}&a=b", regex.as_ref()), facts, regex.as_ref());
                assert_eq!(rewritten.unwrap().query.unwrap(), format!("t={encoded}&a=b"), "{sent}");
                let set = Rewrite::new(&set("x&{header.X-T}")).unwrap().apply(facts, "/", None).unwrap();
                assert!(set.query.unwrap().ends_with("t=x%261%262%3B3%2B4"));
            });
        }
    }

    /// As an application takes a query apart that was encoded as forms are.
    fn taken_apart(query: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
        let decoded = uri::decode_parameter;
        parameters(Some(query)).map(|(name, value)| (decoded(name), decoded(value))).collect()
    }

    proptest::proptest! {
        #[test]
        fn an_application_gets_the_bytes_that_were_captured(
            bytes in proptest::collection::vec(1_u8.., 0..40),
        ) {
            let regex = config::regex(r"(?s)^/r/(.*)$").ok();
            let path = [b"/r/", &bytes[..]].concat();
            with_facts("GET / HTTP/1.1\r\nHost: h\r\n\r\n", |facts| {
                let facts = Facts { path: &path, ..*facts };
                let of = |text: &str| target(&template(text, regex.as_ref()), &facts, regex.as_ref()).unwrap();
                let query = of("/i.php?a=1&t={capture.1}&{capture.1}=x").query.unwrap();
                let mut expected = vec![(b"a".to_vec(), b"1".to_vec()), (b"t".to_vec(), bytes.clone())];
                expected.push((bytes.clone(), b"x".to_vec()));
                assert_eq!(taken_apart(&query), expected, "{query}");
                assert!(!query.contains([';', '#', '+', '?', ' ']), "{query}");
                let path = of("/p/{capture.1}").path;
                // In a path, `+` is itself.
                let decoded = uri::decode_parameter(&path.replace('+', "%2B"));
                assert_eq!(decoded, [b"/p/", &bytes[..]].concat(), "{path}");
                assert!(!path.contains(['?', '#', ';', '&', ' ']), "{path}");
            });
        }
    }

    #[test]
    fn prefixes_are_replaced_and_parameters_set_and_removed() {
        let apply = |rewrite: config::Rewrite, canonical: &str| {
            let compiled = Rewrite::new(&rewrite).unwrap();
            with_facts(HEAD, |facts| compiled.apply(facts, canonical, None)).unwrap()
        };
        let strip = |strip: &str, replace: &str| config::Rewrite {
            strip_prefix: Some(strip.into()),
            replace_prefix: replace.into(),
            ..config::Rewrite::default()
        };
        assert_eq!(apply(strip("/user/", "/"), "/user/17/a%20b").path, "/17/a%20b");
        assert_eq!(apply(strip("/user/", "/v2/"), "/user/a%2Fb").path, "/v2/a%2Fb");
        assert_eq!(apply(strip("/other/", "/"), "/user/17").path, "/user/17");
        let query = config::Rewrite {
            set_query: vec![
                ("x".into(), template("{header.X-A}", None)),
                ("n".into(), template("a b&", None)),
            ],
            remove_query: vec!["utm_*".into()],
            ..config::Rewrite::default()
        };
        let rewritten = apply(query, "/user/17");
        assert_eq!(rewritten.query.as_deref(), Some("y=%26&x=a/b%3Fc&n=a%20b%26"));
        assert_eq!(rewritten.path, "/user/17");
        assert!(Rewrite::new(&config::Rewrite::default()).is_none());
    }
}
