//! `cors`: which pages of other origins may use responses (the Fetch standard, section 3.2).
//!
//! What is the same for all responses are edits of their fields; what depends on the request's origin is made with it.

use maitred_http::fields::FieldLines;
use maitred_http::request::{Method, Request};

use super::scope::{Compiled, Scope};
use maitred_config::{self as config, OriginPattern};

/// What applications say about it themselves does not go on: two values of one of these are none.
const FIELDS: [&str; 6] = [
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "access-control-max-age",
];

/// The rules of a route.
#[derive(Debug, Clone, PartialEq)]
pub struct Cors {
    origins: Vec<OriginPattern>,
    /// `Access-Control-Expose-Headers`
    exposed: String,
    credentials: bool,
    /// What a preflight request is told besides.
    preflight: Vec<(&'static str, String)>,
}

/// A route's take the place of its site's.
pub(crate) fn compile(scope: &Scope<'_>, compiled: &mut Compiled) {
    let of_route = scope.route.and_then(|route| route.cors.as_ref());
    let of_site = scope.site.and_then(|site| site.cors.as_ref());
    let Some(rules) = of_route.or(of_site) else { return };
    FIELDS.iter().for_each(|name| compiled.remove(name));
    if !rules.origins.contains(&OriginPattern::Any) {
        // Caches must not give one origin what was said to another, or to none (Fetch, section 3.2.5).
        compiled.always.add("Vary", b"Origin");
    }
    compiled.needs_response = true;
    compiled.cors = Some(rules.clone());
}

impl Cors {
    /// What the filter has found.
    pub(crate) fn new(rules: &config::Cors) -> Cors {
        let mut preflight = vec![("Access-Control-Allow-Methods", rules.methods.join(", "))];
        if !rules.headers.is_empty() {
            preflight.push(("Access-Control-Allow-Headers", rules.headers.join(", ")));
        }
        preflight.push(("Access-Control-Max-Age", rules.max_age.as_secs().to_string()));
        Cors {
            origins: rules.origins.clone(),
            exposed: rules.expose.join(", "),
            credentials: rules.credentials,
            preflight,
        }
    }

    /// The fields of the response to a request. None, if its page may not use it, or it is of the same origin.
    pub fn fields(&self, request: &Request<'_, '_>, preflight: bool, out: &mut FieldLines) {
        let any = self.origins.contains(&OriginPattern::Any);
        let origin = field(request, "origin").filter(|origin| self.allows(origin));
        let allowed: &[u8] = match origin {
            _ if any => b"*",
            Some(origin) => origin,
            None => return,
        };
        out.push(b"Access-Control-Allow-Origin", allowed);
        if self.credentials {
            out.push(b"Access-Control-Allow-Credentials", b"true");
        }
        if preflight {
            self.preflight.iter().for_each(|(name, value)| out.push(name.as_bytes(), value.as_bytes()));
        } else if !self.exposed.is_empty() {
            out.push(b"Access-Control-Expose-Headers", self.exposed.as_bytes());
        }
    }

    fn allows(&self, origin: &[u8]) -> bool {
        self.origins.iter().any(|pattern| match pattern {
            OriginPattern::Any => true,
            OriginPattern::Exact(text) => origin == text.as_bytes(),
            OriginPattern::Below(before, behind) => {
                let labels = origin.strip_prefix(before.as_bytes());
                let labels = labels.and_then(|rest| rest.strip_suffix(behind.as_bytes()));
                labels.is_some_and(are_labels)
            }
        })
    }
}

/// Whether this can stand for `*` in front of a host: nothing that ends a host, or begins another.
fn are_labels(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// The method that a preflight request asks about (Fetch, section 3.2.2).
pub fn asked_method<'b>(request: &Request<'_, 'b>) -> Option<&'b str> {
    if request.method != Method::Options || field(request, "origin").is_none() {
        return None;
    }
    let asked = field(request, "access-control-request-method")?;
    std::str::from_utf8(asked).ok().filter(|asked| !asked.is_empty())
}

fn field<'b>(request: &Request<'_, 'b>, name: &str) -> Option<&'b [u8]> {
    request.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(origins: Vec<OriginPattern>) -> Cors {
        Cors { origins, exposed: String::new(), credentials: false, preflight: Vec::new() }
    }

    #[test]
    fn origins_are_compared_as_a_whole() {
        let below = OriginPattern::Below("https://".into(), ".b.example".into());
        let cors = rules(vec![OriginPattern::Exact("https://a.example".into()), below]);
        for (origin, expected) in [
            ("https://a.example", true),
            ("https://x.b.example", true),
            ("https://x.y.b.example", true),
            ("http://a.example", false),
            ("https://a.example:8443", false),
            ("https://a.example.evil", false),
            ("https://b.example", false),
            ("https://.b.example", false),
            ("https://evil/.b.example", false),
            ("https://evil#.b.example", false),
            ("https://user@x.b.example", false),
            ("https://evilb.example", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(cors.allows(origin.as_bytes()), expected, "{origin}");
        }
        assert!(rules(vec![OriginPattern::Any]).allows(b"null"));
        assert!(!rules(Vec::new()).allows(b"https://a.example"));
    }
}
