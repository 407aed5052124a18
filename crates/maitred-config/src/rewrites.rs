//! What a route changes in the target of a request before that is answered, and the keys for it.

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};
use super::template::Template;

/// Changes of path and query, in this order: prefix, path, query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Rewrite {
    /// `strip_prefix` of a route to a pool: starts and ends with `/`.
    pub strip_prefix: Option<String>,
    /// `replace_prefix`: what takes its place; starts and ends with `/`.
    pub replace_prefix: String,
    /// `rewrite`: the path; with `?` in it, path and query.
    pub to: Option<Template>,
    /// `query.set`
    pub set_query: Vec<(String, Template)>,
    /// `query.remove`: names; one that ends with `*` is the beginning of names.
    pub remove_query: Vec<String>,
}

impl Rewrite {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.strip_prefix.is_none()
            && self.to.is_none()
            && self.set_query.is_empty()
            && self.remove_query.is_empty()
    }
}

/// `replace_prefix`
pub(super) const REPLACE_PREFIX: Key = Key::new(
    "replace_prefix",
    Kind::Text("a path that ends with `/`"),
    Default::Text("/"),
    "With `pool` and `strip_prefix`: what takes the place of the prefix.",
);

/// `rewrite`
pub(super) const REWRITE: Key = Key::new(
    "rewrite",
    Kind::Text("a path with placeholders, such as `\"/user/{capture.1}\"`"),
    Default::Absent("as it is"),
    "The path that files are looked up by, or that the pool gets, instead of the request's. With `?` in it, the query as well. \
     `docs/routing.md` lists the placeholders. Routes are not looked up again; see `reroute`.",
);

/// `query`
pub(super) const QUERY_KEY: Key = Key::new(
    "query",
    Kind::Section(&QUERY),
    Default::Absent("as it is"),
    "Changes of the query that the pool gets, after `rewrite`.",
);

/// `reroute`
pub(super) const REROUTE: Key = Key::new(
    "reroute",
    Kind::Text("a path with placeholders"),
    Default::Absent("no other route"),
    "Answer as if the request had this path: the site's routes are tried again from the first one. With `?` in it, the query is \
     replaced as well. A request may be rerouted ten times, then it gets 500.",
);

/// `query`
pub(super) const QUERY: Table = Table {
    title: "query",
    doc: "Changes of the query of a request. Parameters that are not named stay as they were sent, in their order.",
    example: "[pool.api]\nconnect = \"http://127.0.0.1:3000\"\n\n[[site]]\n\n[[site.route]]\npath = \"/api/*\"\npool = \"api\"\n\
              query = { set = { client = \"{client}\" }, remove = [\"utm_*\"] }\n",
    keys: &[
        Key::new(
            "set",
            Kind::Map("name = value, with placeholders"),
            Default::Absent("none"),
            "Parameters to set; those of the name that are there are removed.",
        ),
        Key::new(
            "remove",
            Kind::Texts("names; `\"utm_*\"` is all that begin so"),
            Default::Texts(&[]),
            "Parameters to remove.",
        ),
    ],
};
