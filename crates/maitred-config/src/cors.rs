//! `cors` of sites and routes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keys::{DAY, Default, Key, Kind, Table};

/// `cors`: which pages of other origins may use responses (Fetch, section 3.2). Values are valid in header fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cors {
    /// `origins`; without any, pages of no other origin.
    pub origins: Vec<OriginPattern>,
    /// `methods`
    pub methods: Vec<String>,
    /// `headers`
    pub headers: Vec<String>,
    /// `expose`
    pub expose: Vec<String>,
    /// `credentials`; then nothing of the above is `*`.
    pub credentials: bool,
    /// `max_age`
    pub max_age: Duration,
}

/// An item of `origins`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OriginPattern {
    /// `"*"`
    Any,
    /// `"https://a.example"`
    Exact(String),
    /// `"https://*.b.example:8443"`: what comes before and behind the `*`, which stands for one or more labels.
    Below(String, String),
}

/// `cors`
pub(super) const KEY: Key = Key::new(
    "cors",
    Kind::Section(&CORS),
    Default::Absent("left to applications"),
    "Which pages of other origins may use responses. Preflight requests are answered by Maitred. That of a route replaces that \
     of its site.",
);

/// `cors`
pub(super) const CORS: Table = Table {
    title: "cors",
    doc: "Cross-origin requests of browsers (CORS). Fields about this that an application sends itself are replaced. See \
          [cors](headers.md#cors).",
    example: "[pool.api]\nconnect = \"http://127.0.0.1:3000\"\n\n[[site]]\n\n[[site.route]]\npath = \"/api/*\"\npool = \"api\"\n\
              cors = { origins = [\"https://www.example.com\"], methods = [\"GET\", \"PUT\"], headers = [\"Content-Type\"] }\n",
    keys: &[
        Key::new(
            "origins",
            Kind::Texts("`\"https://a.example\"`, `\"https://*.b.example\"`, or `\"*\"`"),
            Default::Required,
            "Origins whose pages may use responses. `*` in front of a host stands for any names below it. An empty list: none, for a \
             route whose site has `cors`.",
        ),
        Key::new(
            "methods",
            Kind::Texts("methods, or `\"*\"`"),
            Default::Texts(&["GET", "HEAD", "POST"]),
            "Methods that those pages may use.",
        ),
        Key::new(
            "headers",
            Kind::Texts("field names, or `\"*\"`"),
            Default::Texts(&[]),
            "Fields of requests that those pages may set, besides those that every page may set. `\"*\"` does not include \
             `Authorization`.",
        ),
        Key::new(
            "expose",
            Kind::Texts("field names, or `\"*\"`"),
            Default::Texts(&[]),
            "Fields of responses that those pages may read, besides those that every page may read.",
        ),
        Key::new(
            "credentials",
            Kind::Flag,
            Default::Flag(false),
            "Whether those pages may send cookies. Then nothing here may be `\"*\"`.",
        ),
        Key::new(
            "max_age",
            Kind::Time { min: Duration::ZERO, max: DAY },
            Default::Time(Duration::from_secs(600)),
            "How long browsers may keep the answer to a preflight request.",
        ),
    ],
};
