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
    /// `share`: whether it is among so many of all.
    pub share: Option<Share>,
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
    /// These pieces in their order, with anything between them; the first and the last are anchored. One piece is the whole
    /// value.
    Glob(Vec<String>),
    /// `~` and a regular expression.
    Regex(String),
}

impl Conditions {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Conditions::default()
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
        SHARE,
        SHARE_BY,
        SHARE_NAME,
    ],
};
