//! Keys of a pool about what its servers are told, and what becomes of their responses.

use std::net::SocketAddr;
use std::path::PathBuf;

use maitred_http::proxy_protocol::Version;
use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};
use super::retry::Retry;
use super::template::{Part, Template};

/// Where an external server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Upstream {
    /// `http://host:port` or `fastcgi://host:port`, resolved when the configuration was read.
    Tcp {
        /// As it was written, for the `Host` field where none is given, and for messages.
        name: String,
        /// The address.
        address: SocketAddr,
    },
    /// `http+unix:/path` or `fastcgi+unix:/path`
    Unix(PathBuf),
}

impl Upstream {
    /// Where it listens, in words.
    pub fn address(&self) -> String {
        match self {
            Upstream::Tcp { address, .. } => address.to_string(),
            Upstream::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// What `Host` says to it if it is to be its own (9110-7.2).
    pub fn authority(&self) -> &str {
        match self {
            Upstream::Tcp { name, .. } => name,
            Upstream::Unix(_) => "localhost",
        }
    }

    /// The host that it was written with, without its port and brackets; empty for a socket.
    pub fn host(&self) -> &str {
        let Upstream::Tcp { name, .. } = self else { return "" };
        match name.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => name.split(':').next().unwrap_or_default(),
        }
    }
}

/// What only a pool of servers has (`connect = "http://…"`, `"https://…"`, `"fastcgi://…"`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, std::default::Default)]
pub struct External {
    /// `host`
    pub host: HostRule,
    /// `map_redirects`
    pub map_redirects: MapRedirects,
    /// `redirects`: what references begin with, and what takes its place.
    pub redirects: Vec<(String, String)>,
    /// `cookies.domain`: without leading dots; an empty one is left out.
    pub cookie_domains: Vec<(String, String)>,
    /// `cookies.path`: what paths begin with, and what takes its place.
    pub cookie_paths: Vec<(String, String)>,
    /// `retry`
    pub retry: Retry,
    /// `proxy_protocol`: what connections begin with.
    pub proxy_protocol: Option<ProxyProtocol>,
}

/// `proxy_protocol` of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProxyProtocol {
    /// `"v1"`
    V1,
    /// `"v2"`
    V2,
}

impl ProxyProtocol {
    /// The version of its headers.
    pub fn version(self) -> Version {
        match self {
            ProxyProtocol::V1 => Version::V1,
            ProxyProtocol::V2 => Version::V2,
        }
    }
}

impl External {
    /// Whether nothing in responses is mapped.
    pub fn maps_nothing(&self) -> bool {
        self.map_redirects == MapRedirects::Off
            && [&self.redirects, &self.cookie_domains, &self.cookie_paths]
                .iter()
                .all(|pairs| pairs.is_empty())
    }
}

/// `map_redirects`: which references in responses are mapped to what clients have to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, std::default::Default)]
pub enum MapRedirects {
    /// None.
    Off,
    /// References that name the server itself.
    #[default]
    Own,
    /// Also paths alone, and those of cookies.
    Paths,
}

/// `host`: what `Host` says to an HTTP server, unless the route sets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, std::default::Default)]
pub enum HostRule {
    /// What the client has sent.
    #[default]
    Client,
    /// The authority of the server in `connect`.
    Server,
    /// The host that is named, with or without a port.
    Named(String),
    /// Made of the client's: of `{host}` and `{port}`.
    Filled(Template),
}

impl HostRule {
    /// Bytes of a host: those of a name (RFC 1035 section 2.3.4), and a port.
    pub(crate) const BYTES_MAX: usize = 261;

    /// Parses a host that is made of the client's; `None` if it is not.
    pub(crate) fn filled(text: &str) -> Option<HostRule> {
        let template = Template::parse_value(text).ok()?;
        let is_known = |part: &Part| match part {
            Part::Host | Part::Port => true,
            Part::Text(text) => HostRule::is_host(text),
            _ => false,
        };
        (!template.is_plain() && template.0.iter().all(is_known)).then_some(HostRule::Filled(template))
    }

    /// Whether this can be the value of `Host` (9110-7.2).
    pub(crate) fn is_host(text: &str) -> bool {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~[]:".contains(&byte);
        !text.is_empty() && text.len() <= HostRule::BYTES_MAX && text.bytes().all(known)
    }
}

/// `host`
pub(super) const HOST: Key = Key::new(
    "host",
    Kind::Text("`\"client\"`, `\"server\"`, or a host"),
    Default::Text("client"),
    "What `Host` says to an HTTP server. `\"client\"`: what the client has sent. `\"server\"`: host and port in `connect`, for servers \
     that have several sites and know this one by that name. Anything else is the host itself, in which `{host}` is the client's \
     without its port, and `{port}` the port that the client has connected to. `request_headers` of a route can set another one; \
     `X-Forwarded-Host` is the client's in any case. See [upstreams](upstreams.md#host).",
);

/// `proxy_protocol`
pub(super) const PROXY_PROTOCOL: Key = Key::new(
    "proxy_protocol",
    Kind::Choice(&["v1", "v2"]),
    Default::Absent("no header"),
    "With `connect` to HTTP/1 or FastCGI servers: connections begin with a header of the PROXY protocol of this version, which names \
     the client. Each request has a connection of its own. See [upstreams](upstreams.md#proxy-protocol).",
);

/// `map_redirects`
pub(super) const MAP_REDIRECTS: Key = Key::new(
    "map_redirects",
    Kind::FlagOrChoice(&["paths"]),
    Default::Flag(true),
    "Which references in `Location`, `Content-Location` and `Refresh` are mapped to what clients have to ask for. `true`: \
     those that name the server itself, by the host in `connect` or the one that `host` names; if the route strips or replaces \
     a prefix, that is put back. `\"paths\"`: also paths without a host, or with the client's, and `Path` of cookies, for \
     applications that do not know their prefix. See [upstreams](upstreams.md#redirects-and-cookies).",
);

/// `redirects`
pub(super) const REDIRECTS: Key = Key::new(
    "redirects",
    Kind::Map("`\"http://internal:8080/\"` = `\"/\"`"),
    Default::Absent("no others than those of `map_redirects`"),
    "Beginnings of `Location`, `Content-Location` and the address in `Refresh`, and what takes their place. They come before \
     `map_redirects`; the longest one counts.",
);

/// `cookies`
pub(super) const COOKIES_KEY: Key = Key::new(
    "cookies",
    Kind::Section(&COOKIES),
    Default::Absent("as they are"),
    "What is changed in the cookies that the servers of the pool set.",
);

/// `cookies`
pub(super) const COOKIES: Table = Table {
    title: "cookies",
    doc: "Domain and path of cookies (`Set-Cookie`) in responses of external servers.",
    example: "[pool.app]\nconnect = \"http://127.0.0.1:8000\"\n\
              cookies = { domain = { \"app.internal\" = \"www.example.com\" }, path = { \"/\" = \"/app/\" } }\n",
    keys: &[
        Key::new(
            "domain",
            Kind::Map("domain = domain"),
            Default::Absent("as they are"),
            "Domains of cookies, and what takes their place. With `\"\"` the cookie has none: then only the host that the client asked \
             gets it back.",
        ),
        Key::new(
            "path",
            Kind::Map("path = path"),
            Default::Absent("as they are, or as `map_redirects` says"),
            "Beginnings of paths of cookies, and what takes their place. The longest one counts.",
        ),
    ],
};
