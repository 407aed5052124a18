//! `response_headers` and `request_headers` of sites and routes.

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};
use super::template::Template;

/// `response_headers`: what is changed in the fields of every response. Names and values are valid (9110-5); no name is one of
/// [`FRAMING_FIELDS`](maitred_http::fields::FRAMING_FIELDS).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseHeaders {
    /// Fields that take the place of all of their name.
    pub set: Vec<(String, String)>,
    /// The same with placeholders in their values.
    pub set_filled: Vec<(String, Template)>,
    /// Fields that come beside others of their name.
    pub add: Vec<(String, String)>,
    /// The same with placeholders in their values.
    pub add_filled: Vec<(String, Template)>,
    /// Names, in lower case.
    pub remove: Vec<String>,
    /// Fields that come where there is none of their name.
    pub if_absent: Vec<(String, String)>,
}

/// `request_headers` of a site or route: what is changed in the fields that a pool gets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestHeaderRules {
    /// Fields that take the place of all of their name.
    pub set: Vec<(String, String)>,
    /// The same with placeholders in their values; none is `Host`.
    pub set_filled: Vec<(String, Template)>,
    /// Names, in lower case.
    pub remove: Vec<String>,
}

/// `response_headers`
pub(super) const RESPONSE_KEY: Key = Key::new(
    "response_headers",
    Kind::Section(&RESPONSE),
    Default::Absent("as they are"),
    "Header fields to set, add, remove or fill in on every response: of files, redirects, errors, pools. A route's come behind \
     those of its site.",
);

/// `request_headers`
pub(super) const REQUEST_KEY: Key = Key::new(
    "request_headers",
    Kind::Section(&REQUEST),
    Default::Absent("as they are"),
    "Header fields to set or remove in requests that go to a pool. A route's come behind those of its site.",
);

const SET: Key = Key::new(
    "set",
    Kind::Map("name = value, with placeholders"),
    Default::Absent("none"),
    "Fields to set; those of the name that are there are replaced. Values can have the placeholders `{client}`, `{scheme}`, \
     `{host}`, `{port}`, `{uri}`, `{user}`, `{request_id}` and `{header.NAME}`, which `docs/headers.md` describes; a brace is \
     written twice: `{{` and `}}`.",
);

/// `response_headers`
pub(super) const RESPONSE: Table = Table {
    title: "response_headers",
    doc: "Header fields of every response of a site or a route. An application whose responses are changed answers through a relay, \
          and not on the client's socket. Fields that delimit the message (`Content-Length`, `Transfer-Encoding`, `Connection` \
          and their like) are Maitred's own business and cannot be named.",
    example: "[[site]]\nroot = \"/srv/www\"\n\
              response_headers = { set = { \"X-Frame-Options\" = \"DENY\" }, remove = [\"X-Powered-By\"] }\n\n\
              [[site.route]]\npath = \"/assets/*\"\nroot = \"/srv/www\"\n\
              response_headers = { if_absent = { \"Cache-Control\" = \"max-age=86400\" }, add = { \"Link\" = \"</a.css>; rel=preload\" } }\n",
    keys: &[
        SET,
        Key::new(
            "add",
            Kind::Map("name = value, with placeholders"),
            Default::Absent("none"),
            "Fields to add beside those of the name that are there. Values are as those of `set`.",
        ),
        Key::new(
            "remove",
            Kind::Texts("field names"),
            Default::Texts(&[]),
            "Fields to remove. What a site removes, its routes do not fill in.",
        ),
        Key::new(
            "if_absent",
            Kind::Map("name = value"),
            Default::Absent("none"),
            "Fields to add to responses that have none of the name. At most 26. Values have no placeholders; a brace is written \
             twice, as in `set`.",
        ),
    ],
};

/// `request_headers`
pub(super) const REQUEST: Table = Table {
    title: "site.request_headers",
    doc: "Header fields of requests of a site or a route, as its pool gets them. `Host` can be set; fields that delimit the message, \
          and those in which Maitred says who the client is (`X-Forwarded-For` and its like), cannot be named.",
    example: "[pool.api]\nconnect = \"http://127.0.0.1:3000\"\n\n[[site]]\n\n[[site.route]]\npath = \"/api/*\"\npool = \"api\"\n\
              request_headers = { set = { \"X-Tenant\" = \"blue\", \"X-Peer\" = \"{client}\" }, remove = [\"Cookie\"] }\n",
    keys: &[SET, Key::new("remove", Kind::Texts("field names"), Default::Texts(&[]), "Fields to remove.")],
};
