//! `jwt` of sites and routes: signed tokens.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keys::{DAY, Default, Key, Kind, Table};
use maitred_base::jwt::keys;
use maitred_base::jwt::token::Rules;

/// The most sets of keys that one server has.
pub(super) const KEY_SETS_MAX: usize = 64;

/// `jwt`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwt {
    /// `realm`: without control characters, quotation marks and backslashes.
    pub realm: String,
    /// Whose keys, as an index into [`Config::key_sets`](super::Config::key_sets).
    pub keys: usize,
    /// `algorithms`, `issuer`, `audience`, `leeway` and `require`
    pub rules: Rules,
    /// `from`: where a token may be, in this order; at least one.
    pub from: Vec<TokenPlace>,
    /// `user_claim`: a claim, or a JSON Pointer to one.
    pub user_claim: String,
    /// `claim_headers`: names of fields in small letters, and the claim of each.
    pub claim_headers: Vec<(String, String)>,
    /// `remove_authorization`
    pub remove_authorization: bool,
}

/// Where a token may be in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenPlace {
    /// `"bearer"`: `Authorization: Bearer` (RFC 6750 section 2.1).
    Bearer,
    /// `"header:NAME"`, in small letters.
    Header(String),
    /// `"cookie:NAME"`
    Cookie(String),
    /// `"query:NAME"`
    Query(String),
}

/// Keys that tokens are checked by. Gates with the same source share one set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JwtKeys {
    /// Where they are from.
    pub source: KeySource,
    /// Keys that were there when the configuration was read.
    pub keys: Vec<keys::Key>,
}

/// Where keys are from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeySource {
    /// `jwks_file`
    File(PathBuf),
    /// `jwks_url`: there are no keys when the configuration is read.
    Url(UrlKeys),
}

/// Keys that are fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlKeys {
    /// `jwks_url`: `http` or `https`, with a host.
    pub url: String,
    /// `refresh`
    pub refresh: Duration,
    /// `jwks_ca_file`: the authorities that are trusted; `None` is those of the system.
    pub ca_file: Option<PathBuf>,
}

/// `jwt`
pub(super) const KEY: Key = Key::new(
    "jwt",
    Kind::ChoiceOrSection { words: &["off"], table: &TABLE },
    Default::Absent("all clients may, or as the site says"),
    "Signed tokens (JSON Web Tokens, RFC 7519). A client without a valid one gets 401. `\"off\"` is for a route of a site that has it. \
     See [access](access.md#signed-tokens).",
);

/// `jwt`
pub(super) const TABLE: Table = Table {
    title: "jwt",
    doc: "Signed tokens that say who a client is, of a site or a route. They are checked by public keys: nothing is asked, and \
          no secret is kept.",
    example: "[[site]]\nroot = \"/srv/www\"\n\n[[site.route]]\npath = \"/api/*\"\nroot = \"/srv/api\"\n\
              jwt = { jwks_file = \"keys.json\", issuer = \"https://issuer.example\", audience = \"api\" }\n",
    keys: &[
        Key::new(
            "jwks_file",
            Kind::Text("a file"),
            Default::Absent("`jwks_url` is given"),
            "The public keys, as a JWK Set (RFC 7517): RSA of 2048 to 8192 bits, P-256, Ed25519; at most 64 of them, and 256 KiB. Keys of \
             other kinds and for other uses are left out. It is read at the start, at a reload and when it changes; a broken \
             file is an error of the configuration, and later leaves the keys as they were.",
        ),
        Key::new(
            "jwks_url",
            Kind::Text("a URL"),
            Default::Absent("`jwks_file` is given"),
            "Where the keys are fetched from, by a process of its own: `jwks_uri` of a provider of OpenID Connect. Redirects are not \
             followed. Until they are there, requests get 503; if they cannot be fetched later, those that were stay.",
        ),
        Key::new(
            "refresh",
            Kind::Time { min: Duration::from_secs(10), max: DAY },
            Default::Time(Duration::from_secs(60 * 60)),
            "How often keys of `jwks_url` are fetched again. A token with a key that is not known has them fetched, too, every five \
             seconds at most.",
        ),
        Key::new(
            "jwks_ca_file",
            Kind::Text("a file"),
            Default::Absent("those of the system"),
            "Certificate authorities that are trusted for `jwks_url`, as PEM.",
        ),
        Key::new(
            "issuer",
            Kind::TextOrTexts("`iss`, or several of which one has to be it; `\"*\"` is any, or none"),
            Default::Required,
            "Who has to have issued the token, letter by letter.",
        ),
        Key::new(
            "audience",
            Kind::TextOrTexts("one of `aud`, or several; `\"*\"` is any, or none"),
            Default::Required,
            "Whom the token has to be for. A provider signs tokens of all its applications by the same keys: with `\"*\"`, those of \
             others are taken, too.",
        ),
        Key::new(
            "algorithms",
            Kind::Choices(&["RS256", "ES256", "EdDSA"]),
            Default::Texts(&["RS256", "ES256", "EdDSA"]),
            "Which signatures are taken. The kind of the key says which one it is; there is no `none` and no HMAC.",
        ),
        Key::new(
            "leeway",
            Kind::Time { min: Duration::ZERO, max: Duration::from_secs(60 * 60) },
            Default::Time(Duration::from_secs(60)),
            "By how much the issuer's clock and the server's may differ, for `exp`, `nbf` and `iat`. A token without `exp` is refused.",
        ),
        Key::new(
            "require",
            Kind::Lists("claim = [values]"),
            Default::Absent("nothing else"),
            "Further claims, and values of which each has to have one: as a text, as a member of an array, as a word of `scope`. `\"*\"` is \
             any. A name that starts with `/` leads into objects (`\"/realm_access/roles\"`). A token that says less gets 403.",
        ),
        Key::new(
            "from",
            Kind::TextOrTexts("`\"bearer\"`, `\"cookie:NAME\"`, `\"header:NAME\"`, `\"query:NAME\"`"),
            Default::Texts(&["bearer"]),
            "Where the token is: `Authorization: Bearer`, a cookie, a field, a parameter. Of several places the first one counts that has \
             something. What stands in a query is in logs and histories of browsers.",
        ),
        Key::new(
            "user_claim",
            Kind::Text("a claim"),
            Default::Text("sub"),
            "The claim that is the user: applications get it as `REMOTE_USER`, or as their interface has it, and as `X-Remote-User`.",
        ),
        Key::new(
            "claim_headers",
            Kind::Map("field = claim"),
            Default::Absent("none"),
            "Fields that pools get of claims; arrays with commas. What a client sends of these names is removed, on all routes of the site.",
        ),
        Key::new(
            "realm",
            Kind::Text("text"),
            Default::Text("Restricted"),
            "What stands in `WWW-Authenticate`.",
        ),
        Key::new(
            "remove_authorization",
            Kind::Flag,
            Default::Flag(false),
            "Whether pools do not get `Authorization`.",
        ),
    ],
};
