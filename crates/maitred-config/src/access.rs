//! `allow`, `deny`, `limit`, `basic_auth`, `jwt`, `forward_auth` and `satisfy` of sites and routes: which clients may use them.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::jwt::Jwt;
use super::keys::{DAY, Default, Key, Kind, Table};
use super::values::Network;

/// Who may use a site or a route.
#[derive(Debug, Clone, std::default::Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// `allow` and `deny`; `None` where neither is given.
    pub addresses: Option<AddressRules>,
    /// `limit`: indexes into [`Config::client_limits`](super::Config::client_limits); `None` where it is not given.
    pub limits: Option<Vec<usize>>,
    /// `basic_auth`
    pub basic: Authentication<BasicAuth>,
    /// `jwt`
    pub jwt: Authentication<Jwt>,
    /// `forward_auth`
    pub forward: Authentication<ForwardAuth>,
    /// `satisfy = "any"`; `None` where it is not given.
    pub satisfy_any: Option<bool>,
}

/// A way to say who a client is.
#[derive(Debug, Clone, std::default::Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Authentication<T> {
    /// The setting is not given: for a route, that of the site holds.
    #[default]
    Inherited,
    /// `"off"`
    Off,
    /// A table.
    On(T),
}

impl<T> Authentication<T> {
    /// Whether it is there; `None` if the site decides.
    pub(super) fn is_given(&self) -> Option<bool> {
        match self {
            Authentication::Inherited => None,
            Authentication::Off => Some(false),
            Authentication::On(_) => Some(true),
        }
    }

    /// What holds for a route, of what it says itself and what its site says.
    pub fn or<'a>(&'a self, site: &'a Authentication<T>) -> Option<&'a T> {
        match (self, site) {
            (Authentication::On(own), _) | (Authentication::Inherited, Authentication::On(own)) => Some(own),
            _ => None,
        }
    }
}

/// `basic_auth`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BasicAuth {
    /// `realm`: without control characters, quotation marks and backslashes.
    pub realm: String,
    /// `users_file`, as an index into [`Config::users_files`](super::Config::users_files).
    pub users_file: Option<usize>,
    /// `users`: names and hashes, each name once. What a file says later of one of these names does not count.
    pub users: Vec<(String, String)>,
    /// `cache`: how long a password that was right is not hashed again; 0 is never.
    pub cache: Duration,
    /// `remove_authorization`
    pub remove_authorization: bool,
}

/// A file of users. Gates that name the same one share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsersFile {
    /// Where it is.
    pub path: PathBuf,
    /// Names and hashes, each name once.
    pub users: Vec<(String, String)>,
}

/// `allow` and `deny`
#[derive(Debug, Clone, std::default::Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressRules {
    /// `allow`: the only networks that may; `None` is all. Never empty.
    pub allow: Option<Vec<Network>>,
    /// `deny`: networks that may not, whatever `allow` says.
    pub deny: Vec<Network>,
}

/// `forward_auth`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardAuth {
    /// `pool`, as an index into the pools of the configuration.
    pub pool: usize,
    /// `path`: a target in origin form.
    pub path: String,
    /// `copy_headers`: names of fields.
    pub copy_headers: Vec<String>,
    /// `sign_in`: where browsers go that are refused with 401; empty if they get that.
    pub sign_in: Vec<SignInPart>,
    /// `set_cookies`
    pub set_cookies: bool,
    /// `timeout`
    pub timeout: Duration,
    /// `cache`: `None` where each request is a question.
    pub cache: Option<AuthCache>,
}

/// A part of `sign_in`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignInPart {
    /// Text, as it is.
    Text(String),
    /// `{uri}`: path and query of the request, as they were sent.
    Uri,
    /// `{url}`: the same, with scheme and host.
    Url,
}

impl SignInPart {
    /// The parts of a text.
    ///
    /// # Errors
    /// What is to be written instead.
    pub(super) fn of(text: &str) -> Result<Vec<SignInPart>, String> {
        let path = text.starts_with('/') && !text.starts_with("//");
        let url = ["http://", "https://"]
            .iter()
            .any(|scheme| text.len() > scheme.len() && text.starts_with(scheme));
        let plain = |byte: u8| {
            byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'|')
        };
        if !(path || url) || !text.bytes().all(plain) {
            return Err("write a path, as \"/oauth2/start?rd={uri}\", or a URL, as \"https://auth.example/?rd={url}\"".to_owned());
        }
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').unwrap_or_default();
            let part = match name {
                "uri" => SignInPart::Uri,
                "url" => SignInPart::Url,
                _ => return Err("of placeholders it takes {uri} and {url}".to_owned()),
            };
            parts.push(SignInPart::Text(before.to_owned()));
            parts.push(part);
            rest = after;
        }
        if rest.contains('}') {
            return Err("of placeholders it takes {uri} and {url}".to_owned());
        }
        parts.push(SignInPart::Text(rest.to_owned()));
        Ok(parts)
    }
}

/// `cache` of `forward_auth`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthCache {
    /// Where answers are kept, as an index into [`Config::auth_caches`](super::Config::auth_caches): one for each table, which
    /// the routes of its site share.
    pub answers: usize,
    /// `time`: how long an answer that admits is kept; at least a millisecond.
    pub time: Duration,
    /// `refused_time`: how long a 401 or 403 is kept; 0 is never.
    pub refused_time: Duration,
    /// `key`: what requests with the same answer have in common, besides scheme and host. The key has something of the client.
    pub key: Vec<KeyPart>,
}

/// A part of `key`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyPart {
    /// `"client"`: the client's address.
    Client,
    /// `"method"`
    Method,
    /// `"uri"`: the target, as it was sent.
    Uri,
    /// `"path"`: the target without its query.
    Path,
    /// `"header:NAME"`, in small letters.
    Header(String),
    /// `"cookie:NAME"`
    Cookie(String),
}

/// The most tables of `forward_auth` with a `cache` that one server has.
pub(super) const AUTH_CACHES_MAX: usize = 64;

/// The keys of sites and routes about this.
pub(super) const KEYS: [&str; 7] = ["allow", "deny", "limit", "basic_auth", "jwt", "forward_auth", "satisfy"];

/// `allow`
pub(super) const ALLOW: Key = Key::new(
    "allow",
    Kind::Texts("addresses, networks such as `\"10.0.0.0/8\"`, `\"@name\"` of a list in `[networks]`"),
    Default::Absent("every client"),
    "The only clients that get an answer, by address; all others get 403. Behind a proxy in `trusted_proxies`, the address that it \
     names counts. `allow` and `deny` of a route replace both of its site. See [access](access.md#by-address).",
);

/// `deny`
pub(super) const DENY: Key = Key::new(
    "deny",
    Kind::Texts("addresses, networks such as `\"10.0.0.0/8\"`, `\"@name\"` of a list in `[networks]`"),
    Default::Absent("no client"),
    "Clients that get 403, also if they are in `allow`. `\"@all\"` is every client.",
);

/// `basic_auth`
pub(super) const BASIC: Key = Key::new(
    "basic_auth",
    Kind::ChoiceOrSection { words: &["off"], table: &BASIC_TABLE },
    Default::Absent("all clients may, or as the site says"),
    "Users with passwords (RFC 7617). A client without a right one gets 401. `\"off\"` is for a route of a site that has it. See \
     [access](access.md#users-with-passwords).",
);

/// `satisfy`
pub(super) const SATISFY: Key = Key::new(
    "satisfy",
    Kind::Choice(&["all", "any"]),
    Default::Text("all"),
    "Whether a client has to pass both its address (`allow`, `deny`) and its authentication, or either: with `\"any\"`, clients \
     whose address passes need no password.",
);

/// `basic_auth`
pub(super) const BASIC_TABLE: Table = Table {
    title: "basic_auth",
    doc: "Users with passwords, of a site or a route. Passwords are checked by helper threads, since that takes a twentieth of a second \
          and more. Without TLS, any peer on the way can read them.",
    example: "[[site]]\nroot = \"/srv/www\"\n\n[[site.route]]\npath = \"/private/*\"\nroot = \"/srv/www\"\n\
              basic_auth = { realm = \"Private\", users_file = \"users.htpasswd\" }\n",
    keys: &[
        Key::new(
            "realm",
            Kind::Text("text"),
            Default::Text("Restricted"),
            "What browsers show when they ask for the password.",
        ),
        Key::new(
            "users_file",
            Kind::Text("a file"),
            Default::Absent("none"),
            "Users and hashes, as htpasswd(1) writes them: bcrypt (`htpasswd -B`), Argon2, SHA-512 and SHA-256 of crypt(5), Apache's MD5. \
             At most 10000 users. It is read again when it changes; a broken one is an error of the configuration at the \
             start and at a reload, and changes nothing otherwise.",
        ),
        Key::new(
            "users",
            Kind::Map("name = hash"),
            Default::Absent("none"),
            "Users and hashes, besides those of the file.",
        ),
        Key::new(
            "cache",
            Kind::Time { min: Duration::ZERO, max: DAY },
            Default::Time(Duration::from_secs(300)),
            "How long a password that was right is not hashed again. What is kept is a keyed hash that only this process can make; 0 \
             hashes for each request.",
        ),
        Key::new(
            "remove_authorization",
            Kind::Flag,
            Default::Flag(false),
            "Whether pools do not get `Authorization`: for applications with passwords of their own.",
        ),
    ],
};

/// `forward_auth`
pub(super) const FORWARD: Key = Key::new(
    "forward_auth",
    Kind::ChoiceOrSection { words: &["off"], table: &FORWARD_TABLE },
    Default::Absent("no other server is asked, or as the site says"),
    "Ask another server about each request: Authelia, authentik, oauth2-proxy. `\"off\"` is for a route of a site that has it. See \
     [access](access.md#another-server-decides).",
);

/// `forward_auth`
pub(super) const FORWARD_TABLE: Table = Table {
    title: "forward_auth",
    doc: "Another server that is asked about each request of a site or a route, by a GET without a body. With 2xx the request is \
          answered; a redirect and a 4xx go to the client as they are.",
    example: "[pool.auth]\nconnect = \"http://127.0.0.1:9091\"\n\n[[site]]\nroot = \"/srv/www\"\n\
              forward_auth = { pool = \"auth\", path = \"/api/authz/forward-auth\", copy_headers = [\"Remote-User\", \"Remote-Groups\"] }\n",
    keys: &[
        Key::new(
            "url",
            Kind::Text("a URL, `http://…` or `https://…`"),
            Default::Absent("`pool` and `path`"),
            "The server that is asked, and what it is asked for: instead of `pool` and `path`, where all defaults of a pool are good. \
             Its pool is called `auth-` and its host in status and log.",
        ),
        Key::new(
            "pool",
            Kind::Text("the name of a pool"),
            Default::Absent("required, unless there is a `url`"),
            "The pool that is asked: mostly one with `connect`.",
        ),
        Key::new(
            "path",
            Kind::Text("a path, with or without a query"),
            Default::Absent("required, unless there is a `url`"),
            "What is asked for there. The request itself is in `X-Forwarded-Method`, `-Uri`, `-Host`, `-Proto` and `-For`, and in the \
             client's own fields, such as `Cookie`.",
        ),
        Key::new(
            "copy_headers",
            Kind::Texts("field names"),
            Default::Texts(&[]),
            "Fields of the answer that the request's own pool gets. What a client sends of these names is removed, on all routes of \
             the site. The first one whose name ends in `user`, or else in `username`, is the user: applications get it as \
             `REMOTE_USER`, or as their interface has it, and the access log has it.",
        ),
        Key::new(
            "sign_in",
            Kind::Text("a path or a URL, with `{uri}` or `{url}` for the request's"),
            Default::Absent("the client gets the 401"),
            "Where a browser goes (302) that the other server refuses with 401: a GET whose `Accept` names `text/html`. Other \
             clients get the 401. `{uri}` is path and query of the request, `{url}` the same with scheme and host; both are \
             encoded as a value in a query. As `error_page 401` beside `auth_request` of nginx.",
        ),
        Key::new(
            "set_cookies",
            Kind::Flag,
            Default::Flag(false),
            "Whether `Set-Cookie` of an answer that admits goes to the client, with the response to its request: for a server that \
             renews its sessions so. Responses of processes then come through a relay.",
        ),
        Key::new(
            "timeout",
            Kind::Time { min: Duration::from_millis(1), max: DAY },
            Default::Time(Duration::from_secs(10)),
            "How long the answer may take. Then 504.",
        ),
        Key::new(
            "cache",
            Kind::Section(&AUTH_CACHE_TABLE),
            Default::Absent("each request is a question"),
            "Keep answers for a while, so that requests with the same credentials are one question.",
        ),
    ],
};

/// `cache` of `forward_auth`
pub(super) const AUTH_CACHE_TABLE: Table = Table {
    title: "forward_auth.cache",
    doc: "Answers of `forward_auth` that are kept, in the memory of the worker process, for all its threads; a reload forgets them. \
          What is kept is found by a keyed hash of the `key`. Not kept: 3xx and errors, and what the other server forbids by \
          `Cache-Control`, `Expires`, `Set-Cookie` or `Vary`. See [access](access.md#keeping-answers).",
    example: "[[site]]\nroot = \"/srv/www\"\n\n[site.forward_auth]\nurl = \"http://127.0.0.1:9091/api/authz/forward-auth\"\n\
              cache = { time = \"30s\" }\n",
    keys: &[
        Key::new(
            "time",
            Kind::Time { min: Duration::from_millis(1), max: DAY },
            Default::Time(Duration::from_secs(30)),
            "How long a client that was admitted is admitted without a question: also one that has signed out. `max-age` of the \
             answer can make it shorter.",
        ),
        Key::new(
            "refused_time",
            Kind::Time { min: Duration::ZERO, max: DAY },
            Default::Time(Duration::ZERO),
            "How long a 401 or 403 is kept; 0 keeps none.",
        ),
        Key::new(
            "key",
            Kind::Texts(
                "`\"header:NAME\"`, `\"cookie:NAME\"`, `\"client\"` (the address), `\"method\"`, `\"uri\"`, `\"path\"` (without the query)",
            ),
            Default::Texts(&["header:Cookie", "header:Authorization", "client", "method", "uri"]),
            "What two requests have to have in common, besides scheme, host and client certificate, to get one answer: all that \
             the other server decides by. Where none of the named fields and cookies is in a request, its admission is not kept.",
        ),
        Key::new(
            "entries_max",
            Kind::Whole { min: 1, max: 1_000_000 },
            Default::Whole(10_000),
            "The most answers that are kept: beyond that, the oldest goes. An entry is some hundred bytes, and at most 4 KiB; larger \
             answers are not kept.",
        ),
    ],
};
