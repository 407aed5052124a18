//! `forward_auth`: another server says whether a request may be answered, and who its client is.

use std::time::Duration;

use maitred_http::request::{Method, Request};
use maitred_http::uri;

use crate::target::Target;
use maitred_config::{AuthCache, ForwardAuth, SignInPart};

/// What is asked, and what is taken from the answer.
#[derive(Debug)]
pub struct Forward {
    /// Index of the pool that answers.
    pub pool: usize,
    /// The target of the question.
    pub path: Box<str>,
    /// How long the answer may take.
    pub timeout: Duration,
    /// How answers are kept, if they are.
    pub cache: Option<AuthCache>,
    /// Whether cookies of an answer that admits go to the client.
    pub set_cookies: bool,
    /// Where browsers go that are refused with 401; empty if they get that.
    sign_in: Vec<SignInPart>,
    /// The fields of the answer that the request's own pool gets, in lower case.
    copied: Vec<Box<str>>,
}

/// What an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The request may be answered.
    Admitted,
    /// The client gets the answer itself: it is sent to a page where it can sign in, or is asked for credentials.
    PassedOn,
    /// Nothing that a client could use.
    Failed,
}

impl Meaning {
    /// As Caddy and Traefik have it: 2xx admits. Of others, errors of the server itself are no answers.
    pub fn of(status: u16) -> Meaning {
        match status {
            200..300 => Meaning::Admitted,
            300..500 => Meaning::PassedOn,
            _ => Meaning::Failed,
        }
    }
}

impl Forward {
    /// Compiles it.
    pub(crate) fn new(settings: &ForwardAuth) -> Forward {
        let copied = settings.copy_headers.iter().map(|name| name.to_ascii_lowercase().into()).collect();
        let (pool, path) = (settings.pool, settings.path.as_str().into());
        Forward {
            pool,
            path,
            timeout: settings.timeout,
            cache: settings.cache.clone(),
            set_cookies: settings.set_cookies,
            sign_in: settings.sign_in.clone(),
            copied,
        }
    }

    /// Where a client goes that was refused with 401, if anywhere: only a browser that opens a page can do something there.
    /// `target`: what the request is for. `base`: scheme and host of that, as `https://host`.
    pub fn sign_in(
        &self,
        (request, target): (&Request<'_, '_>, &Target<'_>),
        base: impl Fn() -> String,
    ) -> Option<Vec<u8>> {
        let opens = matches!(request.method, Method::Get | Method::Head)
            && request.fields.iter().any(|field| names_page(field.name, field.value));
        if self.sign_in.is_empty() || !opens {
            return None;
        }
        let mut location = Vec::new();
        for part in &self.sign_in {
            match part {
                SignInPart::Text(text) => location.extend_from_slice(text.as_bytes()),
                SignInPart::Uri => uri::encode_component(target.canonical().as_bytes(), &mut location),
                SignInPart::Url => {
                    uri::encode_component(base().as_bytes(), &mut location);
                    uri::encode_component(target.canonical().as_bytes(), &mut location);
                }
            }
        }
        Some(location)
    }

    /// The name by which a field of an answer is copied, if it is.
    pub fn copies(&self, name: &[u8]) -> Option<&str> {
        let mut copied = self.copied.iter().map(|copied| &**copied);
        copied.find(|copied| copied.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Whether the value of this field is the user's name: the first one that is copied and whose name ends in `user`, or else in
    /// `username` (authentik).
    pub fn names_user(&self, name: &str) -> bool {
        let ending = |end: &str| self.copied.iter().find(|copied| copied.ends_with(end));
        ending("user").or_else(|| ending("username")).is_some_and(|copied| **copied == *name)
    }
}

/// Whether these are name and value of an `Accept` that names pages.
fn names_page(name: &str, value: &[u8]) -> bool {
    const PAGE: &[u8] = b"text/html";
    name.eq_ignore_ascii_case("accept")
        && value.windows(PAGE.len()).any(|part| part.eq_ignore_ascii_case(PAGE))
}

#[cfg(test)]
mod tests {
    use maitred_http::request;
    use maitred_http::uri::Slashes;

    use super::*;

    #[test]
    fn answers_admit_are_passed_on_or_fail() {
        for (status, meaning) in [
            (200, Meaning::Admitted),
            (204, Meaning::Admitted),
            (302, Meaning::PassedOn),
            (401, Meaning::PassedOn),
            (403, Meaning::PassedOn),
            (500, Meaning::Failed),
            (0, Meaning::Failed),
        ] {
            assert_eq!(Meaning::of(status), meaning, "{status}");
        }
    }

    #[test]
    fn fields_are_copied_by_name() {
        let copying = |names: &[&str]| {
            Forward::new(&ForwardAuth {
                pool: 0,
                path: "/verify".to_owned(),
                copy_headers: names.iter().map(|name| (*name).to_owned()).collect(),
                sign_in: Vec::new(),
                set_cookies: false,
                timeout: Duration::from_secs(1),
                cache: None,
            })
        };
        let forward = copying(&["Remote-Groups", "Remote-User", "X-Forwarded-User"]);
        assert_eq!(forward.copies(b"REMOTE-user"), Some("remote-user"));
        assert_eq!(forward.copies(b"remote-email"), None);
        assert!(forward.names_user("remote-user") && !forward.names_user("x-forwarded-user"));
        let forward = copying(&["X-authentik-name", "X-authentik-username", "X-Other-Username"]);
        assert!(forward.names_user("x-authentik-username") && !forward.names_user("x-other-username"));
        let forward = copying(&["X-Auth-Request-Preferred-Username", "X-Auth-Request-User"]);
        assert!(forward.names_user("x-auth-request-user"));
        assert!(!forward.names_user("x-auth-request-preferred-username"));
    }

    #[test]
    fn a_browser_that_opens_a_page_is_sent_to_sign_in() {
        let limits = request::HeadLimits {
            head_bytes_max: 16384,
            header_count_max: 64,
            target_bytes_max: 1024,
            body_bytes_max: 1 << 30,
        };
        let place = |parts: &[SignInPart], method: &str, fields: &str| {
            let settings = ForwardAuth {
                pool: 0,
                path: "/".to_owned(),
                copy_headers: Vec::new(),
                sign_in: parts.to_vec(),
                set_cookies: false,
                timeout: Duration::from_secs(1),
                cache: None,
            };
            let text = format!("{method} /a%20b?c=d&e=%26 HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
            let mut room = request::field_room();
            let (request, _) = request::parse(text.as_bytes(), &mut room, &limits).unwrap().unwrap();
            let target = Target::asked(&request, Slashes::Decode);
            let base = || "https://a.example".to_owned();
            let found = Forward::new(&settings).sign_in((&request, &target), base);
            found.map(|found| String::from_utf8(found).unwrap())
        };
        let text = |text: &str| SignInPart::Text(text.to_owned());
        let (uri, page) = ([text("/in?rd="), SignInPart::Uri], "Accept: image/png, Text/HTML;q=0.9\r\n");
        let there = Some("/in?rd=%2Fa%2520b%3Fc%3Dd%26e%3D%2526".to_owned());
        assert_eq!((place(&uri, "GET", page), place(&uri, "HEAD", page)), (there.clone(), there));
        let url = [text("https://b.example/?rd="), SignInPart::Url, text("&rm=GET")];
        assert_eq!(
            place(&url, "GET", page).unwrap(),
            "https://b.example/?rd=https%3A%2F%2Fa.example%2Fa%2520b%3Fc%3Dd%26e%3D%2526&rm=GET"
        );
        for (parts, method, fields) in [
            (&[][..], "GET", page),
            (&uri[..], "POST", page),
            (&uri[..], "GET", ""),
            (&uri[..], "GET", "Accept: */*\r\n"),
            (&uri[..], "GET", "Accept: text/htm\r\nX-Accept: text/html\r\n"),
        ] {
            assert_eq!(place(parts, method, fields), None, "{method} {fields}");
        }
    }
}
