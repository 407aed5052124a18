//! Commands about responses that are kept: `POST /cache/purge?…` and `GET /cache?url=…`. The worker process carries them out,
//! on a helper thread ([`cache_commands`](crate::cache_commands)).

use maitred_handoff::{REQUEST_PREFIX_BYTES, RequestFlags, begin_request};
use maitred_http::cache::{KeyRules, Rules, Target, put_key};
use maitred_http::request::{HeadLimits, HeadRoom, Method, Request, RequestHead, Version};
use maitred_http::uri::decode_parameter;

use super::Requests;
use crate::cache_commands::{Asker, Shown};
use crate::kept::{ToldApart, primary_text};
use crate::keys::ConnKey;
use crate::step::{RequestInput, Step};
use maitred_cache::Purge;

/// The question.
pub(super) const SHOW: &str = "/cache";

/// The command.
pub(super) const PURGE: &str = "/cache/purge";

/// More fields than any request here may have.
const HEAD_BYTES_MAX: u32 = 1 << 20;

/// Without a store, nothing can be asked of it.
const NO_CACHE: &str =
    "this server keeps no responses: `cache` of a site or a route turns that on (docs/caching.md)";

/// What a request is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Responses that are purged.
    Purge { what: Vec<What>, soft: bool },
    /// What is kept for it, for a request with these fields.
    Show { url: Url, fields: Vec<String> },
}

/// What is purged.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    Url(Url),
    Prefix(Url),
    Host(String),
    Tag(String),
    All,
}

/// An absolute URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    scheme: &'static str,
    authority: String,
    path: String,
    query: Option<String>,
}

impl Url {
    /// Reads one; otherwise says what is wrong with it.
    fn read(text: &str) -> Result<Url, String> {
        let wrong = |why: &str| Err(format!("`{text}` is not a URL of this server: {why}"));
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => ("https", rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => ("http", rest),
            _ => return wrong("it begins with `http://` or `https://`, and has a host"),
        };
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return wrong("spaces and all that is not ASCII are percent-encoded in it");
        }
        // Clients send no fragment.
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.is_empty() || authority.contains('@') {
            return wrong("behind `://` comes a host, and no user");
        }
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (rest, None),
        };
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        Ok(Url { scheme, authority: authority.to_owned(), path, query })
    }

    fn target(&self) -> Target<'_> {
        Target {
            scheme: self.scheme,
            authority: &self.authority,
            path: &self.path,
            query: self.query.as_deref(),
        }
    }

    /// The text of its key for a request by these rules.
    fn key(&self, request: &Request<'_, '_>, rules: (&KeyRules, &Rules)) -> Vec<u8> {
        let mut text = Vec::with_capacity(256);
        put_key(&self.target(), request, rules, &mut text);
        text
    }
}

/// What an admin request asks of the cache; `None` if it is about something else. An error is a text for the client.
pub(super) fn asked(request: &Request<'_, '_>) -> Option<Result<Asked, String>> {
    let query = request.query.unwrap_or_default();
    match (request.method, request.path) {
        (Method::Post, PURGE) => Some(read(query).and_then(Said::purge)),
        (Method::Get, SHOW) => Some(read(query).and_then(Said::show)),
        _ => None,
    }
}

/// What a query says.
#[derive(Debug, Default)]
struct Said {
    what: Vec<What>,
    soft: bool,
    fields: Vec<String>,
}

fn read(query: &str) -> Result<Said, String> {
    let mut said = Said::default();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = String::from_utf8(decode_parameter(value)).map_err(|_| "the query is not UTF-8")?;
        match name {
            "url" => said.what.push(What::Url(Url::read(&value)?)),
            "prefix" => said.what.push(What::Prefix(Url::read(&value)?)),
            "host" => said.what.push(What::Host(host(&value)?)),
            "tag" if value.is_empty() => return Err("`tag` is empty".to_owned()),
            "tag" => said.what.push(What::Tag(value)),
            "all" if value != "false" => said.what.push(What::All),
            "soft" => said.soft = value != "false",
            "field" => said.fields.push(value),
            "all" => {}
            _ => {
                return Err("the query takes `url`, `prefix`, `host`, `tag`, `all` and `soft`, and to show something \
                            `url` and `field`"
                    .to_owned());
            }
        }
    }
    Ok(said)
}

fn host(text: &str) -> Result<String, String> {
    let is_host =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"/@?#".contains(&byte));
    match is_host {
        true => Ok(text.to_ascii_lowercase()),
        false => {
            Err("`host` takes a host as it is in URLs, such as example.com or example.com:8080".to_owned())
        }
    }
}

impl Said {
    fn purge(self) -> Result<Asked, String> {
        let nothing = "nothing is named that is to be purged: `url`, `prefix`, `host`, `tag` or `all`";
        match self.what.is_empty() || !self.fields.is_empty() {
            false => Ok(Asked::Purge { what: self.what, soft: self.soft }),
            true => Err(nothing.to_owned()),
        }
    }

    fn show(self) -> Result<Asked, String> {
        let mut what = self.what.into_iter();
        match (what.next(), what.next()) {
            (Some(What::Url(url)), None) => Ok(Asked::Show { url, fields: self.fields }),
            _ => Err("one `url` is to be named".to_owned()),
        }
    }
}

/// A request with these fields, from which keys are made.
fn request_with(fields: &[String], limits: &HeadLimits) -> Result<RequestHead, String> {
    let wrong = "`field` takes a field of a request, such as `Accept-Language: de`";
    let flags = RequestFlags {
        keep: false,
        http10: false,
        head: false,
        body_fd: false,
        may_detach: false,
        body_stream: false,
    };
    let mut out = Vec::with_capacity(256);
    let mut head = begin_request(&mut out, 0, 0, flags, 0).head("GET", "/");
    head.field("host", b"localhost");
    for field in fields {
        let (name, value) = field.split_once(':').ok_or(wrong)?;
        if field.chars().any(char::is_control) {
            return Err(wrong.to_owned());
        }
        head.field(name, value.trim().as_bytes());
    }
    let fits = head.body(None).finish(HEAD_BYTES_MAX);
    let text = out.get(REQUEST_PREFIX_BYTES..).filter(|_| fits).ok_or(wrong)?;
    RequestHead::received(text, limits).map_err(|_| wrong.to_owned())
}

/// A key that a URL has.
#[derive(Debug)]
struct KeyOfUrl {
    text: Vec<u8>,
    /// The rules for what varies.
    rules: Rules,
    /// Fields and cookies of requests belong to it.
    has_more: bool,
    client: ToldApart,
}

impl Requests {
    /// Has a helper thread carry out a command about the cache, if the client may give it one.
    pub(super) fn ask_about_cache(
        &mut self,
        index: ConnKey,
        request: &Request<'_, '_>,
        given: RequestInput<'_>,
        asked: Result<Asked, String>,
    ) -> Step {
        if let Some(refused) = self.refuse_command(index, request, given) {
            return refused;
        }
        let asker = Asker {
            thread: self.number,
            connection: self.id(index),
            interim: request.version != Version::Http10,
        };
        let (status, why) = match asked {
            Err(why) => (400, why),
            Ok(_) if self.shared.cache.is_none() => (409, NO_CACHE.to_owned()),
            Ok(Asked::Purge { what, soft }) => match self.purge(what, soft, asker) {
                Ok(()) => return self.await_answer(index),
                Err(why) => (409, why),
            },
            Ok(Asked::Show { url, fields }) => match request_with(&fields, &self.head_limits) {
                Err(why) => (400, why),
                Ok(head) => match self.show(&url, head, asker) {
                    Ok(()) => return self.await_answer(index),
                    Err(why) => (409, why),
                },
            },
        };
        let reason = if status == 400 { "Bad Request" } else { "Conflict" };
        let text = format!("{status} {reason}\n{why}\n");
        self.admin_reply(index, request, status, "text/plain; charset=utf-8", &text, given)
    }

    fn purge(&self, what: Vec<What>, soft: bool, asker: Asker) -> Result<(), String> {
        let head = request_with(&[], &self.head_limits)?;
        let mut room = HeadRoom::default();
        let request = head.view(&mut room).ok_or("no request can be made")?;
        let purges = what.into_iter().flat_map(|what| self.meant(what, &request, soft)).collect();
        // What is asked for from now on is not what was asked for before.
        self.shared.fills.part();
        self.shared.purge_cache(purges, soft, asker)
    }

    fn meant(&self, what: What, request: &Request<'_, '_>, soft: bool) -> Vec<Purge> {
        match what {
            What::All => vec![Purge::All],
            What::Tag(tag) => vec![Purge::Tag([b"k ", tag.as_bytes()].concat().into())],
            What::Host(host) => vec![Purge::Host(host.into_bytes().into())],
            What::Prefix(url) => {
                let rules = (&KeyRules::default(), &Rules::default());
                vec![Purge::Prefix(first_line(&url.key(request, rules)).into())]
            }
            What::Url(url) => {
                let keys = self.keys_of(&url, request);
                // All that the rest of a key says, and all that the response varies with.
                if soft || keys.iter().any(|key| key.has_more) {
                    let first = keys.first().map(|key| [first_line(&key.text), b"\n"].concat());
                    return first.map(|first| Purge::Prefix(first.into())).into_iter().collect();
                }
                keys.into_iter().map(|key| Purge::Exact(key.text.into())).collect()
            }
        }
    }

    /// The keys that a URL has by the routes of its site, each once: whichever route and pool it leads to, for clients that are
    /// told apart, and for all others.
    fn keys_of(&self, url: &Url, request: &Request<'_, '_>) -> Vec<KeyOfUrl> {
        let router = &self.shared.router;
        let mut keys: Vec<KeyOfUrl> = Vec::new();
        for caching in router.sites_of(&url.authority).into_iter().flat_map(|site| router.cachings(site)) {
            let has_more = !caching.keys.fields.is_empty() || !caching.keys.cookies.is_empty();
            for client in [ToldApart::NoOne, ToldApart::Someone] {
                let text = primary_text(&url.target(), request, caching, &client);
                match keys.iter_mut().find(|known| known.text == text) {
                    Some(known) => known.has_more |= has_more,
                    None => keys.push(KeyOfUrl { text, rules: caching.rules.clone(), has_more, client }),
                }
            }
        }
        if keys.is_empty() {
            let rules = Rules::default();
            let text = url.key(request, (&KeyRules::default(), &rules));
            keys.push(KeyOfUrl { text, rules, has_more: false, client: ToldApart::NoOne });
        }
        keys
    }

    fn show(&self, url: &Url, head: RequestHead, asker: Asker) -> Result<(), String> {
        let mut room = HeadRoom::default();
        let request = head.view(&mut room).ok_or("no request can be made")?;
        let router = &self.shared.router;
        let is_cached =
            router.sites_of(&url.authority).into_iter().any(|site| router.cachings(site).next().is_some());
        let keys = self.keys_of(url, &request).into_iter();
        let keys = keys.map(|key| (key.text, key.rules, key.client != ToldApart::NoOne)).collect();
        let now = self.clock.steady_secs();
        self.shared.show_cached(Shown { keys, is_cached, head: head.clone(), now }, asker)
    }
}

fn first_line(key: &[u8]) -> &[u8] {
    key.split(|byte| *byte == b'\n').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with_request;

    fn asked_by(line: &str) -> Option<Result<Asked, String>> {
        with_request(&format!("{line} HTTP/1.1"), &[], asked)
    }

    fn url(scheme: &'static str, authority: &str, path: &str, query: Option<&str>) -> Url {
        Url { scheme, authority: authority.into(), path: path.into(), query: query.map(str::to_owned) }
    }

    #[test]
    fn urls_are_read() {
        for (text, expected) in [
            ("https://a.example", url("https", "a.example", "/", None)),
            ("HTTP://a.example:81/b%20c?d=e?f#g", url("http", "a.example:81", "/b%20c", Some("d=e?f"))),
            ("http://[::1]?q", url("http", "[::1]", "/", Some("q"))),
        ] {
            assert_eq!(Url::read(text), Ok(expected));
        }
        for text in
            ["", "/a", "a.example/b", "ftp://a/b", "http:///b", "http://u@a/", "http://a/b c", "http://a/ü"]
        {
            let why = Url::read(text).unwrap_err();
            assert!(why.starts_with(&format!("`{text}` is not a URL of this server: ")), "{why}");
        }
    }

    #[test]
    fn queries_are_read_strictly() {
        let a = || url("http", "a", "/", None);
        let purge = |what, soft| Some(Ok(Asked::Purge { what, soft }));
        assert_eq!(asked_by("POST /cache/purge?url=http://a"), purge(vec![What::Url(a())], false));
        let several = vec![What::Prefix(a()), What::Host("b:81".into()), What::Tag("x y".into()), What::All];
        assert_eq!(
            asked_by("POST /cache/purge?prefix=http%3A%2F%2Fa&host=B:81&tag=x+y&all&soft"),
            purge(several, true)
        );
        assert_eq!(
            asked_by("GET /cache?url=http://a&field=A%3A%20b"),
            Some(Ok(Asked::Show { url: a(), fields: vec!["A: b".into()] }))
        );
        for wrong in [
            "POST /cache/purge",
            "POST /cache/purge?soft",
            "POST /cache/purge?all=false",
            "POST /cache/purge?tag=",
            "POST /cache/purge?host=http://a",
            "POST /cache/purge?url=a",
            "POST /cache/purge?tag=%ff",
            "POST /cache/purge?color=red",
            "GET /cache",
            "GET /cache?url=http://a&url=http://b",
            "GET /cache?all",
        ] {
            assert!(matches!(asked_by(wrong), Some(Err(_))), "{wrong}");
        }
        for other in ["GET /cache/purge?all", "POST /cache?all", "GET /cached"] {
            assert_eq!(asked_by(other), None, "{other}");
        }
    }

    #[test]
    fn fields_are_those_of_one_request() {
        let limits = crate::testing::HEAD_LIMITS;
        let head = request_with(&["Accept-Language: de".into()], &limits).unwrap();
        let mut room = HeadRoom::default();
        let request = head.view(&mut room).unwrap();
        assert!(request.fields.iter().any(|field| field.value == b"de"));
        for wrong in ["", "a", "a: b\r\nc: d", ": x"] {
            assert!(request_with(&[wrong.to_owned()], &limits).is_err(), "{wrong}");
        }
    }
}
