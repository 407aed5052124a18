//! Which responses get a coding.

use maitred_http::negotiate;

use maitred_config::{Coding, Compress};

/// What `compress` of a route says.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    settings: Compress,
    /// The codings of the settings that are made while content comes, in their order.
    streamed: Vec<Coding>,
}

/// What the request says of the coding of its response.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'r> {
    /// The rules of the route.
    pub rules: &'r Rules,
    /// The coding that the client likes best; `None` if it is to have none.
    pub coding: Option<Coding>,
    /// The response goes over TLS: who sees it pass knows how long it is, and is not to learn what it says.
    pub secret: bool,
}

/// What becomes of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The response goes out as it is, no matter what the client accepts.
    Never,
    /// The response goes out as it is, because of what the client accepts.
    Plain,
    /// A 304, to a client that got the response in a coding.
    Confirms,
    /// The response gets this coding.
    Coded(Coding),
}

/// What the head of a response says, as far as it matters here.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'r> {
    status: u16,
    content_type: Option<&'r [u8]>,
    length: Option<&'r [u8]>,
    /// Whether the response is encoded, or a part, or must not be changed, or says what its bytes come to.
    fixed: bool,
    sets_cookie: bool,
    /// Whether `Vary` names what decides about codings, or everything.
    pub varies: bool,
}

impl Rules {
    /// The rules of a route.
    pub fn new(settings: Compress) -> Rules {
        let streamed = settings.codings.iter().copied().filter(|coding| *coding != Coding::Brotli).collect();
        Rules { settings, streamed }
    }

    /// The level of a coding that is made while content comes.
    pub fn level(&self, coding: Coding) -> u8 {
        match coding {
            Coding::Gzip => self.settings.gzip_level,
            Coding::Zstd | Coding::Brotli => self.settings.zstd_level,
        }
    }

    /// The coding for a response that is coded while it comes, by the request's `Accept-Encoding`.
    pub fn negotiate(&self, accepted: Option<&[u8]>) -> Option<Coding> {
        best(&self.streamed, accepted)
    }

    /// The codings that are made while content comes, or for a page that is gone soon.
    pub fn streamed(&self) -> &[Coding] {
        &self.streamed
    }

    /// The codings of files, in order of preference.
    pub fn kept(&self) -> &[Coding] {
        &self.settings.codings
    }

    /// Whether a file of this type and size gets a coding.
    pub fn takes_file(&self, content_type: &[u8], bytes: u64) -> bool {
        bytes >= self.settings.bytes_min && self.takes_type(content_type)
    }

    /// Whether a media type is listed.
    fn takes_type(&self, content_type: &[u8]) -> bool {
        let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let starts = |family: &str| {
            // A stream of events holds an encoder for as long as it lasts: only where it is named itself.
            !essence.eq_ignore_ascii_case(b"text/event-stream")
                && essence
                    .get(..family.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(family.as_bytes()))
        };
        let ends = |suffix: &str| {
            let at = essence.len().checked_sub(suffix.len());
            at.and_then(|at| essence.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(suffix.as_bytes()))
        };
        self.settings.types.iter().any(|listed| match listed.strip_suffix('*') {
            Some(family) => starts(family),
            None => match listed.strip_prefix('*') {
                Some(suffix) => ends(suffix),
                None => essence.eq_ignore_ascii_case(listed.as_bytes()),
            },
        })
    }
}

/// The first of the codings that the client likes best; `None` if it likes it best without one, or accepts none.
pub fn best(offered: &[Coding], accepted: Option<&[u8]>) -> Option<Coding> {
    let mut tokens = [""; 3];
    for (place, coding) in tokens.iter_mut().zip(offered) {
        *place = coding.token();
    }
    let tokens = tokens.get(..offered.len()).unwrap_or_default();
    let best = negotiate::best(accepted, tokens)?;
    offered.iter().copied().find(|coding| coding.token() == best)
}

impl<'r> Facts<'r> {
    /// The facts of a response without fields.
    pub fn new(status: u16) -> Facts<'r> {
        Facts { status, ..Facts::default() }
    }

    /// Whether it is encoded, or a part, or must not be changed, or says what its bytes come to.
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// `Content-Length`; a value that is none counts as 0.
    pub fn length(&self) -> Option<u64> {
        let length = str::from_utf8(self.length?).unwrap_or_default();
        Some(length.parse().unwrap_or(0))
    }

    /// Takes note of a field.
    pub fn note(&mut self, name: &[u8], value: &'r [u8]) {
        let is = |expected: &str| name.eq_ignore_ascii_case(expected.as_bytes());
        match name.len() {
            4 if is("vary") => self.varies |= names_any(value, &[b"accept-encoding", b"*"]),
            6 if is("digest") => self.fixed = true,
            10 if is("set-cookie") => self.sets_cookie = true,
            11 if is("content-md5") || is("repr-digest") => self.fixed = true,
            12 if is("content-type") => self.content_type = Some(value),
            13 if is("cache-control") => self.fixed |= names_any(value, &[b"no-transform"]),
            13 if is("content-range") => self.fixed = true,
            14 if is("content-length") => self.length = Some(value),
            14 if is("content-digest") => self.fixed = true,
            16 if is("content-encoding") => self.fixed |= !value.eq_ignore_ascii_case(b"identity"),
            _ => {}
        }
    }
}

impl Wish<'_> {
    /// What becomes of a response.
    pub fn judge(&self, facts: &Facts<'_>) -> Verdict {
        let settings = &self.rules.settings;
        match facts.status {
            // 204 and 205 have no content, and a part is one of the plain content (RFC 9110 sections 15.3.5 to 15.3.7).
            204..=206 => return Verdict::Never,
            200..=299 => {}
            304 if self.coding.is_some() => return Verdict::Confirms,
            _ => return Verdict::Never,
        }
        // What has no content needs no encoder, whatever the route says.
        let short = facts.length().is_some_and(|length| length < settings.bytes_min.max(1));
        let telling = facts.sets_cookie && self.secret && !settings.cookies_over_tls;
        let listed = facts.content_type.is_some_and(|media| self.rules.takes_type(media));
        if facts.fixed || short || telling || !listed {
            return Verdict::Never;
        }
        self.coding.map_or(Verdict::Plain, Verdict::Coded)
    }
}

/// Whether a list has one of these members.
fn names_any(value: &[u8], names: &[&[u8]]) -> bool {
    let mut members = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    members.any(|member| names.iter().any(|name| member.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(types: &[&str]) -> Rules {
        let types = types.iter().map(|text| (*text).to_owned()).collect();
        Rules::new(Compress { types, ..Compress::default() })
    }

    fn facts(status: u16, fields: &[(&str, &'static str)]) -> Facts<'static> {
        let mut facts = Facts::new(status);
        fields.iter().for_each(|(name, value)| facts.note(name.as_bytes(), value.as_bytes()));
        facts
    }

    #[test]
    fn the_first_of_the_codings_that_a_client_likes_best_is_taken() {
        let codings = vec![Coding::Brotli, Coding::Zstd, Coding::Gzip];
        let rules = Rules::new(Compress { codings, ..Compress::default() });
        for (accepted, dynamic, kept) in [
            ("gzip, deflate, br, zstd", Some(Coding::Zstd), Some(Coding::Brotli)),
            ("gzip, deflate, br", Some(Coding::Gzip), Some(Coding::Brotli)),
            ("gzip", Some(Coding::Gzip), Some(Coding::Gzip)),
            ("gzip, zstd;q=0.5", Some(Coding::Gzip), Some(Coding::Gzip)),
            ("identity, gzip;q=0.5", None, None),
            ("deflate", None, None),
            ("*;q=0", None, None),
            ("*", Some(Coding::Zstd), Some(Coding::Brotli)),
        ] {
            assert_eq!(rules.negotiate(Some(accepted.as_bytes())), dynamic, "{accepted}");
            assert_eq!(best(rules.kept(), Some(accepted.as_bytes())), kept, "{accepted}");
        }
        assert_eq!(rules.negotiate(None), None, "who does not ask may not be able to decode");
    }

    #[test]
    fn types_are_listed_by_name_family_or_suffix() {
        let rules = rules(&["text/*", "*+json", "application/json"]);
        for (media, taken) in [
            ("text/html; charset=utf-8", true),
            ("TEXT/CSS", true),
            ("application/json", true),
            ("application/problem+JSON;a=b", true),
            ("application/jsonp", false),
            ("image/png", false),
            ("text", false),
            ("", false),
            ("text/event-stream", false),
        ] {
            assert_eq!(rules.takes_type(media.as_bytes()), taken, "{media}");
        }
        assert!(super::tests::rules(&["text/event-stream"]).takes_type(b"text/event-stream; charset=utf-8"));
        assert!(rules.takes_file(b"text/css", 1000) && !rules.takes_file(b"text/css", 999));
    }

    #[test]
    fn what_must_not_be_changed_is_not() {
        let rules = Rules::new(Compress::default());
        let wish = Wish { rules: &rules, coding: Some(Coding::Zstd), secret: true };
        let html = ("Content-Type", "text/html");
        let judge = |status, fields: &[(&str, &'static str)]| wish.judge(&facts(status, fields));
        assert_eq!(judge(200, &[html]), Verdict::Coded(Coding::Zstd));
        assert_eq!(judge(201, &[html, ("content-length", "1000")]), Verdict::Coded(Coding::Zstd));
        assert_eq!(judge(200, &[html, ("content-encoding", "identity")]), Verdict::Coded(Coding::Zstd));
        for status in [204, 205, 206, 302, 404, 500, 101] {
            assert_eq!(judge(status, &[html]), Verdict::Never, "{status}");
        }
        assert_eq!(judge(304, &[]), Verdict::Confirms);
        for field in [
            ("Content-Encoding", "gzip"),
            ("Content-Range", "bytes 0-1/2"),
            ("Cache-Control", "max-age=1, No-Transform"),
            ("Content-Length", "999"),
            ("Content-Length", "x"),
            ("Content-Type", "image/png"),
            ("Set-Cookie", "a=b"),
            ("Content-Digest", "sha-256=:eA==:"),
            ("Repr-Digest", "sha-256=:eA==:"),
            ("Digest", "x"),
            ("Content-MD5", "x"),
        ] {
            assert_eq!(judge(200, &[html, field]), Verdict::Never, "{field:?}");
        }
        assert_eq!(judge(200, &[]), Verdict::Never, "of no type");
    }

    #[test]
    fn cookies_count_over_tls_unless_it_is_said_that_they_do_not() {
        let page = facts(200, &[("Content-Type", "text/html"), ("Set-Cookie", "a=b")]);
        for (secret, cookies_over_tls, coded) in
            [(true, false, false), (true, true, true), (false, false, true), (false, true, true)]
        {
            let rules = Rules::new(Compress { cookies_over_tls, ..Compress::default() });
            let wish = Wish { rules: &rules, coding: Some(Coding::Gzip), secret };
            assert_eq!(
                wish.judge(&page) == Verdict::Coded(Coding::Gzip),
                coded,
                "{secret} {cookies_over_tls}"
            );
        }
    }

    #[test]
    fn what_a_client_does_not_accept_only_varies() {
        let rules = Rules::new(Compress::default());
        let wish = Wish { rules: &rules, coding: None, secret: false };
        assert_eq!(wish.judge(&facts(200, &[("content-type", "text/html")])), Verdict::Plain);
        assert_eq!(wish.judge(&facts(304, &[])), Verdict::Never);
        assert!(facts(200, &[("Vary", "Cookie, accept-encoding")]).varies);
        assert!(facts(200, &[("Vary", "*")]).varies);
        assert!(!facts(200, &[("Vary", "Accept")]).varies);
    }
}
