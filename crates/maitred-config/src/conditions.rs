//! `match` of a route: conditions besides path and method, and the keys that they are written with.

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};
use super::paths::PathPattern;
use super::values::Network;

/// `match`: all of these hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Conditions {
    /// What stands in the table itself.
    pub all: ConditionSet,
    /// `any`: at least one of them holds, unless there are none.
    pub any: Vec<ConditionSet>,
    /// `not`: none of them holds.
    pub not: Vec<ConditionSet>,
    /// `user`: who may use the route, of those whom its gates know; none is any client. The key does not choose the route: what
    /// it is about is known only when the route's gates have been asked.
    pub users: Vec<String>,
}

/// Conditions that hold together. Of those about one part of a request, each has to hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct ConditionSet {
    /// `path`: one of these; none is any path.
    pub paths: Vec<PathPattern>,
    /// `header`: name in lower case → what one of the field's values has to be.
    pub headers: Vec<(String, ValuePattern)>,
    /// `query`: name → what one of the parameter's values has to be, decoded.
    pub query: Vec<(String, ValuePattern)>,
    /// `cookie`: name → what its value has to be.
    pub cookies: Vec<(String, ValuePattern)>,
    /// `scheme`: whether the client has used TLS.
    pub https: Option<bool>,
    /// `client`: the networks that its address is in; none is any address.
    pub clients: Vec<Network>,
    /// `listener`, `local_port`, `tls`, `client_certificate`
    pub arrival: ArrivalCondition,
    /// `share`: whether it is among so many of all.
    pub share: Option<Share>,
}

/// Where a request has come in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ArrivalCondition {
    /// `listener`: one of these, by index; `None` is any.
    pub listeners: Option<Vec<u16>>,
    /// `local_port`: the port of the listener.
    pub port: Option<u16>,
    /// `tls`: whether the connection itself uses TLS.
    pub tls: Option<bool>,
    /// `client_certificate`: whether the client has shown a certificate in it, which was verified.
    pub certificate: Option<bool>,
}

impl ArrivalCondition {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == ArrivalCondition::default()
    }
}

/// `share`: a part of all clients, or of what else tells them apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// How many of [`Share::WHOLE`].
    pub parts: u16,
    /// `share_by`
    pub by: ShareKey,
    /// `share_name`: shares of different names are independent of one another.
    pub name: String,
}

impl Share {
    /// Everything: hundredths of a percent.
    pub const WHOLE: u16 = 10_000;
}

/// `share_by`: what tells clients apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShareKey {
    /// `"client"`: its address; of IPv6 the network, of 64 bits.
    Client,
    /// `"header:NAME"`, in small letters; its address if there is none.
    Header(String),
    /// `"cookie:NAME"`; its address if there is none.
    Cookie(String),
}

/// What a value has to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValuePattern {
    /// Pieces of text in their order, with anything between them; the first and the last are anchored. One piece is the whole
    /// value.
    Glob(Vec<String>),
    /// `~` and a regular expression.
    Regex(String),
}

impl Conditions {
    /// Whether there are none that choose the route.
    pub fn is_empty(&self) -> bool {
        self.all == ConditionSet::default() && self.any.is_empty() && self.not.is_empty()
    }
}

/// `match`
pub(super) const KEY: Key = Key::new(
    "match",
    Kind::Section(&MATCH),
    Default::Absent("any request"),
    "Conditions besides path and method. A request that does not meet them goes to the next route.",
);

const VALUE: &str = "name = value; `*` stands for any characters, and `~` begins a regular expression";

const HEADER: Key = Key::new(
    "header",
    Kind::Map(VALUE),
    Default::Absent("any"),
    "Header fields that the request has. `\"*\"`: with any value.",
);
const QUERY: Key = Key::new(
    "query",
    Kind::Map(VALUE),
    Default::Absent("any"),
    "Parameters of the query (`?name=value&…`), decoded.",
);
const COOKIE: Key =
    Key::new("cookie", Kind::Map(VALUE), Default::Absent("any"), "Cookies that the request has.");
const SCHEME: Key = Key::new(
    "scheme",
    Kind::Choice(&["http", "https"]),
    Default::Absent("both"),
    "Whether the client uses TLS; the word of a proxy in `trusted_proxies` is believed.",
);
const CLIENT: Key = Key::new(
    "client",
    Kind::Texts("networks such as `\"10.0.0.0/8\"`, or addresses"),
    Default::Texts(&[]),
    "Networks that the client's address is in; behind a proxy in `trusted_proxies`, the address that it names.",
);

const LISTENER: Key = Key::new(
    "listener",
    Kind::TextOrTexts("the `name` of a `[[listen]]`, or an address as it stands there"),
    Default::Absent("any"),
    "Where the connection has come in: one of these.",
);
const LOCAL_PORT: Key = Key::new(
    "local_port",
    Kind::Whole { min: 1, max: 65_535 },
    Default::Absent("any"),
    "The port of the listener that the connection has come in by. It is not the one in `Host`, which the client writes, nor one that a \
     PROXY header names.",
);
const TLS: Key = Key::new(
    "tls",
    Kind::Flag,
    Default::Absent("both"),
    "Whether the connection itself uses TLS. Unlike `scheme`, no proxy is asked.",
);
const CLIENT_CERTIFICATE: Key = Key::new(
    "client_certificate",
    Kind::Flag,
    Default::Absent("both"),
    "Whether the client has shown a certificate that `client_ca` of its listener has verified. See `client_auth`.",
);
const USER: Key = Key::new(
    "user",
    Kind::TextOrTexts("a user"),
    Default::Absent("all users"),
    "Users whom `basic_auth`, `jwt` or `forward_auth` of the route, or of its site, lets pass. Others get 403: the user is known only \
     when the route has been chosen, so that no further route is tried.",
);

const SHARE: Key = Key::new(
    "share",
    Kind::Text("a percentage such as `\"10%\"` or `\"0.5%\"`"),
    Default::Absent("all"),
    "A part of all clients: always the same ones, and with a larger percentage the same ones and more.",
);
const SHARE_BY: Key = Key::new(
    "share_by",
    Kind::Text("`\"client\"`, `\"cookie:NAME\"` or `\"header:NAME\"`"),
    Default::Text("client"),
    "What tells clients apart for `share`: the address (of IPv6 its first 64 bits), or the value of a cookie or field; who has \
     none of these counts by the address.",
);
const SHARE_NAME: Key = Key::new(
    "share_name",
    Kind::Text("any text"),
    Default::Text(""),
    "Shares of the same name have the same clients, those of different names are independent of one another.",
);

/// `match`
pub(super) const MATCH: Table = Table {
    title: "match",
    doc: "Conditions of a route. All that stand here hold for a request that the route takes; of `any` at least one table does, \
          and no table of `not`.",
    example: "[pool.beta]\nconnect = \"http://127.0.0.1:3001\"\n\n[[site]]\nroot = \"/srv/www\"\n\n[[site.route]]\npath = \"/app/*\"\n\
              pool = \"beta\"\nmatch = { cookie = { beta = \"1\" }, not = [{ header = { User-Agent = \"*bot*\" } }] }\n",
    keys: &[
        HEADER,
        QUERY,
        COOKIE,
        SCHEME,
        CLIENT,
        LISTENER,
        LOCAL_PORT,
        TLS,
        CLIENT_CERTIFICATE,
        USER,
        SHARE,
        SHARE_BY,
        SHARE_NAME,
        Key::new(
            "any",
            Kind::Sections(&SET),
            Default::Absent("no others"),
            "Tables, of which at least one holds in full.",
        ),
        Key::new(
            "not",
            Kind::Sections(&SET),
            Default::Absent("none"),
            "Tables, of which none holds in full.",
        ),
    ],
};

/// A table of `any` or `not`.
const SET: Table = Table {
    title: "match.any, match.not",
    doc: "Conditions that hold together.",
    example: "",
    keys: &[
        Key::new(
            "path",
            Kind::TextOrTexts("a pattern as in `path` of a route"),
            Default::Absent("any path"),
            "Paths.",
        ),
        HEADER,
        QUERY,
        COOKIE,
        SCHEME,
        CLIENT,
        LISTENER,
        LOCAL_PORT,
        TLS,
        CLIENT_CERTIFICATE,
        SHARE,
        SHARE_BY,
        SHARE_NAME,
    ],
};
