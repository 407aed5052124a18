//! `[cache]`, and `cache` of sites and routes: responses of pools that are kept and given to others.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keys::{DAY, Default, Key, Kind, Table};

/// `[cache]`: where responses are kept, of all sites together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheStore {
    /// `directory`: absolute.
    pub directory: PathBuf,
    /// `bytes_max`: of all files.
    pub bytes_max: u64,
    /// `entries_max`
    pub entries_max: u32,
    /// `memory_bytes_max`: of what is kept in memory.
    pub memory_bytes_max: u64,
}

/// `cache` of a site or a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Caching {
    /// `false`
    Off,
    /// `true`, `"micro"` or a table.
    On(Box<CacheRules>),
}

/// What is kept, for how long, and under which key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheRules {
    /// `ttl`: the lifetime of responses that state none; `None`: they are not kept.
    pub ttl: Option<Duration>,
    /// `ttl_by_status`: the same for single statuses, which come first.
    pub ttl_by_status: Vec<(u16, Duration)>,
    /// `heuristic`: a lifetime may follow from `Last-Modified`.
    pub heuristic: bool,
    /// `stale_while_revalidate`: where a response does not say.
    pub stale_while_revalidate: Option<Duration>,
    /// `stale_if_error`: where a response does not say.
    pub stale_if_error: Option<Duration>,
    /// `set_cookie`: responses with `Set-Cookie` are kept.
    pub set_cookie: bool,
    /// `authorization`: responses to requests with `Authorization` are kept, whatever they say.
    pub authorization: bool,
    /// `response_control`: what responses say about caches counts.
    pub response_control: bool,
    /// `request_control`: what requests say about caches counts.
    pub request_control: bool,
    /// `targeted`: fields that come before `Cache-Control`, in lower case, the most specific one first.
    pub targeted: Vec<String>,
    /// `query`
    pub query: QueryKey,
    /// `query_only`: parameters that count; all, if it is empty. `*` at the end stands for any rest.
    pub query_only: Vec<String>,
    /// `query_ignore`: parameters that do not count.
    pub query_ignore: Vec<String>,
    /// `key_headers`: fields of requests, in lower case, whose values belong to the key.
    pub key_headers: Vec<String>,
    /// `key_cookies`: cookies whose values belong to the key.
    pub key_cookies: Vec<String>,
    /// `key_identity`: who the client is, by what the server itself has found out, belongs to the key.
    pub key_identity: bool,
    /// `cookies`: requests with `Cookie` are answered from the cache, too.
    pub cookies: bool,
    /// `object_bytes_max`: larger responses are not kept.
    pub object_bytes_max: u64,
    /// `collapse_timeout`: how long a request waits for the response to another one.
    pub collapse_timeout: Duration,
    /// `cache_status`: responses say what the cache did (RFC 9211).
    pub cache_status: bool,
}

/// `query`: how the query belongs to the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueryKey {
    /// `"as_sent"`
    AsSent,
    /// `"sorted"`
    Sorted,
    /// `"none"`
    Without,
}

/// `object_bytes_max` unless told otherwise: nearly all that a page consists of, and 1/16 of `bytes_max`.
const OBJECT_BYTES: u64 = 64 << 20;
/// `collapse_timeout` unless told otherwise: that of nginx (`proxy_cache_lock_timeout`).
const COLLAPSE: Duration = Duration::from_secs(5);
/// `bytes_max` unless told otherwise.
const BYTES: u64 = 1 << 30;
/// `entries_max` unless told otherwise: of 10 KiB each, they fill `bytes_max`.
const ENTRIES: u64 = 100_000;
/// `memory_bytes_max` unless told otherwise.
const MEMORY: u64 = 64 << 20;
/// The longest lifetime: what a year has, as most who mean "for ever" write it.
const LIFETIME_MAX: Duration = DAY.saturating_mul(365);
/// `targeted` unless told otherwise.
const TARGETED: &[&str] = &["CDN-Cache-Control"];

impl std::default::Default for CacheRules {
    fn default() -> CacheRules {
        CacheRules {
            ttl: None,
            ttl_by_status: Vec::new(),
            heuristic: false,
            stale_while_revalidate: None,
            stale_if_error: None,
            set_cookie: false,
            authorization: false,
            response_control: true,
            request_control: true,
            targeted: TARGETED.iter().map(|name| name.to_ascii_lowercase()).collect(),
            query: QueryKey::AsSent,
            query_only: Vec::new(),
            query_ignore: Vec::new(),
            key_headers: Vec::new(),
            key_cookies: Vec::new(),
            key_identity: false,
            cookies: true,
            object_bytes_max: OBJECT_BYTES,
            collapse_timeout: COLLAPSE,
            cache_status: true,
        }
    }
}

impl CacheRules {
    /// `"micro"`: pages that may be a second old, so that however many clients ask, the application is asked once in a second.
    pub(crate) fn micro() -> CacheRules {
        CacheRules {
            ttl: Some(Duration::from_secs(1)),
            stale_while_revalidate: Some(Duration::from_secs(10)),
            stale_if_error: Some(Duration::from_secs(60)),
            request_control: false,
            cookies: false,
            ..CacheRules::default()
        }
    }
}

/// `[cache]`
pub(super) const STORE_KEY: Key = Key::new(
    "cache",
    Kind::Section(&STORE),
    Default::Absent("all defaults"),
    "Where responses are kept that sites and routes with `cache` share.",
);

/// `[cache]`
pub(super) const STORE: Table = Table {
    title: "[cache]",
    doc: "The responses that sites and routes with `cache` keep: [caching](caching.md). They survive reloads, upgrades \
          and restarts.",
    example: "[cache]\ndirectory = \"/var/cache/maitred\"\nbytes_max = \"10GiB\"\nentries_max = 1000000\n",
    keys: &[
        Key::new(
            "directory",
            Kind::Text("a directory"),
            Default::Absent(
                "`/var/cache/maitred` for root, `$XDG_CACHE_HOME/maitred` for others, `$CACHE_DIRECTORY` where that is set",
            ),
            "Where the files are. It is for this server alone, and has to be writable for the account of the worker process; if it is \
             missing, the server makes it, with mode 0700.",
        ),
        Key {
            reason: "A small part of most disks, and most of what many sites are asked for.",
            ..Key::new(
                "bytes_max",
                Kind::Size { min: 1 << 20, max: 1 << 50 },
                Default::Size(BYTES),
                "Bytes of all files. What is not asked for again makes room first (S3-FIFO).",
            )
        },
        Key {
            reason: "Responses of 10 KiB each fill `bytes_max`. An entry takes up to 120 bytes of memory.",
            ..Key::new(
                "entries_max",
                Kind::Whole { min: 16, max: 100_000_000 },
                Default::Whole(ENTRIES),
                "Responses at a time.",
            )
        },
        Key {
            reason: "Some thousands of pages.",
            ..Key::new(
                "memory_bytes_max",
                Kind::Size { min: 1 << 20, max: 1 << 40 },
                Default::Size(MEMORY),
                "Bytes of responses that are kept in memory, too, so that a hit needs no file.",
            )
        },
    ],
};

/// `cache`
pub(super) const KEY: Key = Key::new(
    "cache",
    Kind::FlagOrWordOrSection { words: &["micro"], table: &TABLE },
    Default::Flag(false),
    "Keep responses of pools, and give them to others: [caching](caching.md). That of a route replaces that of its site. `true`: what \
     says itself how long it may be kept. `\"micro\"`: all pages without cookies, for a second.",
);

const LIFETIME: Kind = Kind::Time { min: Duration::ZERO, max: LIFETIME_MAX };

/// `cache`
pub(super) const TABLE: Table = Table {
    title: "cache",
    doc: "What is kept of the responses of pools, how long, and under which key. `cache = true` is the same with all defaults. See \
          [caching](caching.md).",
    example: "[pool.app]\nconnect = \"http://127.0.0.1:3000\"\n\n[[site]]\n\n[[site.route]]\npath = \"/*\"\npool = \"app\"\n\
              cache = { ttl = \"10s\", stale_while_revalidate = \"1m\", query_ignore = [\"utm_*\"] }\n",
    keys: &[
        Key::new(
            "ttl",
            LIFETIME,
            Default::Absent("they are not kept"),
            "How long responses with a status that may be kept (200, 204, 301, 308, 404, 410 and others) are fresh that do not say it \
             themselves.",
        ),
        Key::new(
            "ttl_by_status",
            Kind::Map("statuses, and how long responses with them are fresh: `{ 404 = \"1m\" }`"),
            Default::Absent("as `ttl`"),
            "The same for single statuses; any status may be named.",
        ),
        Key::new(
            "heuristic",
            Kind::Flag,
            Default::Flag(false),
            "Whether a response that states no lifetime is kept for a tenth of its age by `Last-Modified`, up to a day.",
        ),
        Key::new(
            "stale_while_revalidate",
            LIFETIME,
            Default::Absent("none"),
            "How long a stale response is given while it is fetched anew, where it does not say so itself.",
        ),
        Key::new(
            "stale_if_error",
            LIFETIME,
            Default::Absent("none"),
            "How long a stale response is given while the pool fails (no answer, 500, 502, 503, 504), where it does not say so itself.",
        ),
        Key::new(
            "set_cookie",
            Kind::Flag,
            Default::Flag(false),
            "Keep responses with `Set-Cookie`, too, with that field: every client gets the same cookie.",
        ),
        Key::new(
            "authorization",
            Kind::Flag,
            Default::Flag(false),
            "Keep responses to requests with `Authorization`, or of clients that a gate or a certificate has told apart, too, \
             although they do not say that others may have them: all clients get what one has got.",
        ),
        Key::new(
            "response_control",
            Kind::Flag,
            Default::Flag(true),
            "Whether `Cache-Control`, `Expires` and `Pragma` of responses count. `false`: only `ttl` and `ttl_by_status`.",
        ),
        Key::new(
            "request_control",
            Kind::Flag,
            Default::Flag(true),
            "Whether `Cache-Control` and `Pragma` of requests count. `false`: no client can have a response fetched anew.",
        ),
        Key::new(
            "targeted",
            Kind::Texts("names of fields"),
            Default::Texts(TARGETED),
            "Fields for caches of this kind, which replace `Cache-Control` for this server (RFC 9213), the first one that is there.",
        ),
        Key::new(
            "query",
            Kind::Choice(&["as_sent", "sorted", "none"]),
            Default::Text("as_sent"),
            "How the query distinguishes responses: as it was sent, with its parameters in order of their names, or not at all.",
        ),
        Key::new(
            "query_only",
            Kind::Texts("names of parameters, with `*` at the end for any rest"),
            Default::Absent("all"),
            "Parameters of the query that distinguish responses.",
        ),
        Key::new(
            "query_ignore",
            Kind::Texts("names of parameters, with `*` at the end for any rest"),
            Default::Absent("none"),
            "Parameters of the query that do not. They do not reach the pool with a request whose response is to be kept.",
        ),
        Key::new(
            "key_headers",
            Kind::Texts("names of fields"),
            Default::Absent("none"),
            "Fields of requests that distinguish responses, besides those that responses name in `Vary`.",
        ),
        Key::new(
            "key_cookies",
            Kind::Texts("names of cookies"),
            Default::Absent("none"),
            "Cookies that distinguish responses. Others do not reach the pool with a request whose response is to be kept.",
        ),
        Key::new(
            "key_identity",
            Kind::Flag,
            Default::Flag(false),
            "Whether each client that `basic_auth`, `jwt`, `forward_auth` or a certificate has told apart has responses of its \
             own. Otherwise what such a client gets is kept only if it says `public`, `s-maxage` or `must-revalidate`, and is \
             given to all of them ([caching](caching.md#responses-for-one-client)).",
        ),
        Key::new(
            "cookies",
            Kind::Flag,
            Default::Absent(
                "`true`; `false` with `ttl`, `ttl_by_status` or `\"micro\"`, unless `key_cookies` names some",
            ),
            "Whether requests with `Cookie` are answered from the cache, and their responses kept. An application that says nothing \
             about caches may answer each user otherwise.",
        ),
        Key {
            reason: "Nearly all that pages consist of.",
            ..Key::new(
                "object_bytes_max",
                Kind::Size { min: 0, max: 1 << 40 },
                Default::Size(OBJECT_BYTES),
                "Larger responses are passed on and not kept.",
            )
        },
        Key {
            reason: "As long as nginx waits.",
            ..Key::new(
                "collapse_timeout",
                Kind::Time { min: Duration::from_millis(1), max: Duration::from_secs(60 * 60) },
                Default::Time(COLLAPSE),
                "How long a request waits for the response to another one that asks for the same; then it goes to the pool by itself.",
            )
        },
        Key::new(
            "cache_status",
            Kind::Flag,
            Default::Flag(true),
            "Whether responses say in `Cache-Status` what was done (RFC 9211).",
        ),
    ],
};
