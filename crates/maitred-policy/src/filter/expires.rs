//! `expires`: `Cache-Control` of successful responses, by name and media type.
//!
//! What a response says itself in `Cache-Control` or `Expires` stays. Heads of files are prepared with the field. For all other
//! responses the name is looked at with the request, and the rest when their head is written.

use maitred_http::request::Method;

use super::scope::{Compiled, Scope};
use maitred_config::{self as config, ExpiresFor};

const FIELD: &str = "Cache-Control";

/// What is said about caches on a route.
#[derive(Debug, Clone, PartialEq)]
pub struct Expires {
    rules: config::Expires,
    /// What `response_headers` fills in where there is no such field.
    otherwise: Option<Vec<u8>>,
}

/// What the name in a request's path has decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByName<'e> {
    /// Nothing: the media type decides.
    Undecided,
    /// The value, or that there is none.
    Decided(Option<&'e str>),
}

/// What is said about caches in the response to one request.
#[derive(Debug, Clone, Copy)]
pub struct Expiry<'e> {
    rules: &'e Expires,
    basis: Basis<'e>,
}

/// What the name in a request's path decides.
#[derive(Debug, Clone, Copy)]
enum Basis<'e> {
    /// Not looked at yet: most heads are prepared, and none of them needs it.
    Path(Method, &'e [u8]),
    /// What the path says, looked at already: the path does not last as long as the response takes.
    Name(ByName<'e>),
}

/// What a response is, as far as it matters here.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'r> {
    status: u16,
    content_type: Option<&'r [u8]>,
    /// Whether the response says something about caches itself.
    speaks: bool,
}

/// The rules take the place of what `response_headers` fills in, which comes where no rule fits. What that sets or removes stays.
pub(crate) fn compile(scope: &Scope<'_>, compiled: &mut Compiled) {
    let of_route = scope.route.and_then(|route| route.expires.as_ref());
    let of_site = scope.site.and_then(|site| site.expires.as_ref());
    let Some(rules) = of_route.or(of_site).filter(|rules| !rules.is_empty()) else { return };
    if compiled.always.settles(FIELD) {
        return;
    }
    let otherwise = compiled.always.filled_in(FIELD).map(<[u8]>::to_vec);
    compiled.always.leave_out(FIELD);
    compiled.needs_response = true;
    compiled.expires = Some((rules.clone(), otherwise));
}

impl Expires {
    /// What the filter has found.
    pub(crate) fn new((rules, otherwise): (config::Expires, Option<Vec<u8>>)) -> Expires {
        Expires { rules, otherwise }
    }

    /// What is said in the response to a request for this path.
    pub fn for_request<'e>(&'e self, method: Method, path: &'e [u8]) -> Expiry<'e> {
        Expiry { rules: self, basis: Basis::Path(method, path) }
    }

    /// The same for a response that comes later.
    pub fn for_later(&self, method: Method, path: &[u8]) -> Expiry<'_> {
        Expiry { rules: self, basis: Basis::Name(self.by_request(method, path)) }
    }

    /// Only the response to GET and HEAD is kept without more ado (RFC 9110 section 9.3.3).
    fn by_request(&self, method: Method, path: &[u8]) -> ByName<'_> {
        match method {
            Method::Get | Method::Head => self.by_name(path),
            _ => ByName::Decided(None),
        }
    }

    /// What the last part of a path decides.
    fn by_name(&self, path: &[u8]) -> ByName<'_> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let ends = |ending: &str| {
            let at = name.len().checked_sub(ending.len());
            at.and_then(|at| name.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(ending.as_bytes()))
        };
        let fits = |subject: &ExpiresFor| match subject {
            ExpiresFor::Name(text) => name == text.as_bytes(),
            ExpiresFor::Hashed => is_hashed(name),
            ExpiresFor::Ending(ending) => ends(ending),
            ExpiresFor::Type(_) | ExpiresFor::Family(_) | ExpiresFor::Default => false,
        };
        let found = self.rules.iter().find(|(subject, _)| fits(subject));
        found.map_or(ByName::Undecided, |(_, value)| ByName::Decided(value.as_deref()))
    }

    /// The value for a file, by its path and its `Content-Type`.
    pub fn of_file(&self, path: &[u8], content_type: &[u8]) -> Option<&[u8]> {
        let facts = Facts { status: 200, content_type: Some(content_type), speaks: false };
        self.of_response(self.by_name(path), facts)
    }

    fn of_response<'e>(&'e self, by_name: ByName<'e>, facts: Facts<'_>) -> Option<&'e [u8]> {
        if facts.speaks {
            return None;
        }
        let value = match (facts.status, by_name) {
            (200..=299 | 304, ByName::Decided(value)) => value,
            (200..=299, ByName::Undecided) => self.by_type(facts.content_type),
            // A 304 does not say its type, and must not change what was said of the 200 that it confirms.
            _ => None,
        };
        value.map(str::as_bytes).or(self.otherwise.as_deref())
    }

    fn by_type(&self, content_type: Option<&[u8]>) -> Option<&str> {
        let essence = content_type.and_then(|value| value.split(|byte| *byte == b';').next());
        let essence = essence.unwrap_or_default().trim_ascii_end();
        let starts = |family: &str| {
            essence.get(..family.len()).is_some_and(|start| start.eq_ignore_ascii_case(family.as_bytes()))
        };
        let fits = |subject: &ExpiresFor| match subject {
            ExpiresFor::Type(text) => essence.eq_ignore_ascii_case(text.as_bytes()),
            ExpiresFor::Family(family) => starts(family),
            ExpiresFor::Default => true,
            ExpiresFor::Name(_) | ExpiresFor::Hashed | ExpiresFor::Ending(_) => false,
        };
        self.rules.iter().find(|(subject, _)| fits(subject))?.1.as_deref()
    }
}

impl<'e> Expiry<'e> {
    /// The value for a response.
    pub fn of(&self, facts: Facts<'_>) -> Option<&'e [u8]> {
        let by_name = match self.basis {
            Basis::Path(method, path) => self.rules.by_request(method, path),
            Basis::Name(by_name) => by_name,
        };
        self.rules.of_response(by_name, facts)
    }
}

impl<'r> Facts<'r> {
    /// The facts of a response without fields.
    pub fn new(status: u16) -> Facts<'r> {
        Facts { status, content_type: None, speaks: false }
    }

    /// Takes note of a field.
    #[inline]
    pub fn note(&mut self, name: &[u8], value: &'r [u8]) {
        match name.len() {
            12 if name.eq_ignore_ascii_case(b"content-type") => self.content_type = Some(value),
            13 if name.eq_ignore_ascii_case(b"cache-control") => self.speaks = true,
            7 if name.eq_ignore_ascii_case(b"expires") => self.speaks = true,
            _ => {}
        }
    }
}

/// Whether a name has a digest of the content, as bundlers put it there: between points, `-` or `_`, 8 or more digits of base 16,
/// among them a letter and a number, so that no date is one; or of base 62, with capital and small letters, and a number in front
/// of a letter, so that `Version10` is none. The ending does not count.
pub(crate) fn is_hashed(name: &[u8]) -> bool {
    let stem = name.iter().rposition(|byte| *byte == b'.').and_then(|at| name.get(..at)).unwrap_or_default();
    stem.split(|byte| b".-_".contains(byte)).any(is_digest)
}

fn is_digest(part: &[u8]) -> bool {
    const DIGITS_MIN: usize = 8;
    let has = |of: fn(&u8) -> bool| part.iter().any(of);
    if part.len() < DIGITS_MIN || !has(u8::is_ascii_digit) || !has(u8::is_ascii_alphabetic) {
        return false;
    }
    let (upper, lower) = (has(u8::is_ascii_uppercase), has(u8::is_ascii_lowercase));
    if part.iter().all(u8::is_ascii_hexdigit) && !(upper && lower) {
        return true;
    }
    let number_first = part.windows(2).any(|pair| match pair {
        [first, second] => first.is_ascii_digit() && second.is_ascii_alphabetic(),
        _ => false,
    });
    part.iter().all(u8::is_ascii_alphanumeric) && upper && lower && number_first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expires(rules: &[(ExpiresFor, Option<&str>)]) -> Expires {
        let rules =
            rules.iter().map(|(subject, value)| (subject.clone(), value.map(str::to_owned))).collect();
        Expires { rules, otherwise: Some(b"other".to_vec()) }
    }

    #[test]
    fn names_with_digests_are_known() {
        for name in [
            "app.3f2a9c1b.js",
            "main-3F2A9C1B.css",
            "3f2a9c1b.js",
            "base.27e20196a850.css",
            "index-BfX3kL9a.js",
            "app.3f2a9c1b.chunk.js",
            "logo_d41d8cd98f00b204e9800998ecf8427e.png",
        ] {
            assert!(is_hashed(name.as_bytes()), "{name}");
        }
        for name in [
            "index.html",
            "app.js",
            "3f2a9c1b",
            "app.3f2a9c1",
            "report-20240101.pdf",
            "deadbeef.js",
            "feedface-defaced0.3f2a9c1b",
            "Report-Version10.pdf",
            "bootstrap5bundle.js",
            "jquery-3.7.1.min.js",
            "app.3f2a9c1.js",
            "",
            ".",
        ] {
            let expected = name.starts_with("feedface");
            assert_eq!(is_hashed(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn the_most_specific_rule_decides() {
        let expires = expires(&[
            (ExpiresFor::Name("sw.js".into()), Some("name")),
            (ExpiresFor::Hashed, Some("hashed")),
            (ExpiresFor::Ending(".min.js".into()), Some("long")),
            (ExpiresFor::Ending(".js".into()), Some("ending")),
            (ExpiresFor::Ending(".txt".into()), None),
            (ExpiresFor::Type("image/png".into()), Some("type")),
            (ExpiresFor::Family("image/".into()), Some("family")),
            (ExpiresFor::Default, Some("default")),
        ]);
        for (path, media, expected) in [
            ("/a/sw.js", "text/javascript", "name"),
            ("/sw.js/", "text/html", "default"),
            ("/a.3f2a9c1b.js", "text/javascript", "hashed"),
            ("/a.MIN.js", "text/javascript", "long"),
            ("/a.js", "image/png", "ending"),
            ("/a.txt", "image/png", "other"),
            ("/a", "Image/PNG; a=b", "type"),
            ("/a", "image/gif", "family"),
            ("/a", "image", "default"),
            ("", "", "default"),
        ] {
            let value = expires.of_file(path.as_bytes(), media.as_bytes());
            assert_eq!(value, Some(expected.as_bytes()), "{path} {media}");
        }
    }

    #[test]
    fn only_success_is_kept_and_what_a_response_says_itself_stays() {
        let rules =
            [(ExpiresFor::Type("text/css".into()), Some("css")), (ExpiresFor::Default, Some("default"))];
        let expires = expires(&rules);
        let of = |status, fields: &[(&str, &'static str)]| {
            let mut facts = Facts::new(status);
            fields.iter().for_each(|(name, value)| facts.note(name.as_bytes(), value.as_bytes()));
            expires
                .of_response(ByName::Undecided, facts)
                .map(|value| String::from_utf8_lossy(value).into_owned())
        };
        assert_eq!(of(200, &[("content-TYPE", "text/css")]).as_deref(), Some("css"));
        assert_eq!(of(206, &[]).as_deref(), Some("default"));
        assert_eq!(of(404, &[]).as_deref(), Some("other"));
        assert_eq!(of(302, &[]).as_deref(), Some("other"));
        assert_eq!(of(304, &[]).as_deref(), Some("other"), "its type is not known");
        assert_eq!(of(200, &[("Cache-control", "no-store")]), None);
        assert_eq!(of(200, &[("Expires", "0")]), None);
        let named = expires.of_response(ByName::Decided(Some("name")), Facts::new(304));
        assert_eq!(named, Some(b"name".as_slice()));
    }
}
