//! `[limit.NAME]`: how much of a site one client may use.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind, Table};
use super::values::Network;
use maitred_base::rates::{CONCURRENT_MAX, Layout};

/// Default of `keys_max`.
pub(super) const KEYS_MAX: u64 = 131_072;

/// Under this name, TLS handshakes of each address are limited ([`Limits`](super::Limits)): as a limit that no route names, so
/// that it has its table, and its place in the status, as those have.
pub const TLS_HANDSHAKES: &str = "tls_handshakes";
/// Under this name, HTTP/2 streams that each address resets.
pub const HTTP2_RESETS: &str = "http2_resets";

/// `[limit.NAME]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientLimit {
    /// The name of the limit, as that of a pool ([`Pool::is_name`](super::Pool::is_name)).
    pub name: String,
    /// `rate`, with `burst`; there is this, or `concurrent`, or both.
    pub rate: Option<Rate>,
    /// `concurrent`: requests at a time; at least 1.
    pub concurrent: Option<u16>,
    /// `status` of what is refused.
    pub status: u16,
    /// `key`
    pub key: LimitKey,
    /// `keys_max`
    pub keys_max: u32,
    /// `exempt`: networks whose clients have no limit.
    pub exempt: Vec<Network>,
    /// `dry_run`: nothing is refused.
    pub dry_run: bool,
}

impl ClientLimit {
    /// What its table has to have.
    pub fn layout(&self) -> Layout {
        Layout { keys_max: self.keys_max, rate: self.rate.is_some(), concurrent: self.concurrent.is_some() }
    }
}

/// `rate = "10/min"`, `burst = 5`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Requests in each period; at least 1.
    pub count: u32,
    /// The period; at least a millisecond.
    pub period: Duration,
    /// Further requests that may come at once.
    pub burst: u32,
}

/// `key`: what requests are counted by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitKey {
    /// `"address"`
    Address,
    /// `"header:NAME"`, in small letters
    Header(String),
    /// `"cookie:NAME"`
    Cookie(String),
    /// `"route"`
    Route,
}

/// `limit` of a site or a route.
pub(super) const KEY: Key = Key::new(
    "limit",
    Kind::Texts("names of `[limit.NAME]`"),
    Default::Texts(&[]),
    "Limits by client that requests have to keep, each a `[limit.NAME]`; one that is beyond a limit gets 429. That of a route \
     replaces that of its site; `[]` is none. See [limits by client](limits.md). Sizes and times are `limits`, which is another \
     key.",
);

/// `[limit.NAME]`
pub(super) const LIMIT: Table = Table {
    title: "[limit.NAME]",
    doc: "A limit by client, for the sites and routes whose `limit` names it; those share one count. See \
          [limits by client](limits.md). What is bounded on every server is in `[limits]`.",
    example: "[limit.login]\nrate = \"10/min\"\nburst = 4\n\n[[site]]\nroot = \"/srv/www\"\n\n[[site.route]]\n\
              path = \"/login\"\npool = \"web\"\nlimit = [\"login\"]\n",
    keys: &[
        Key::new(
            "rate",
            Kind::Text("a number and a period, such as `\"10/s\"`, `\"30/min\"`, `\"1000/h\"`, `\"5/10s\"`"),
            Default::Absent("no limit of the rate; then there is `concurrent`"),
            "Requests of one key in a period, evenly: with `\"10/min\"`, one more is allowed every six seconds.",
        ),
        Key::new(
            "burst",
            Kind::Whole { min: 0, max: 1_000_000 },
            Default::Absent("the number of `rate`, less one"),
            "Requests above the rate that are allowed at once, and are then missing until the rate has made up for them. 0: each \
             request has to keep its distance to the one before. It is `burst` of nginx with `nodelay`.",
        ),
        Key::new(
            "concurrent",
            Kind::Whole { min: 1, max: CONCURRENT_MAX as u64 },
            Default::Absent("no limit of requests at a time; then there is `rate`"),
            "Requests of one key that may be under way at a time: each counts until its response has been sent, or its connection \
             has ended. Each stream of HTTP/2 is one. It is `limit_conn` of nginx.",
        ),
        Key::new(
            "status",
            Kind::Whole { min: 429, max: 503 },
            Default::Whole(429),
            "Status of what is refused: 429, or 503 as in nginx.",
        ),
        Key::new(
            "key",
            Kind::Text("`\"address\"`, `\"header:NAME\"`, `\"cookie:NAME\"` or `\"route\"`"),
            Default::Text("address"),
            "What requests are counted by: the client's address (of IPv6: its network with 64 bits; behind a proxy in \
             `trusted_proxies`, the address that it names), the value of a field or of a cookie, or the route, for all its \
             clients together. A request without that field or cookie is counted by its address.",
        ),
        Key {
            reason: "As many clients at a time as a large site has, or a large botnet. Memory: 32 bytes for each, so 4 MiB, twice \
                     that with `rate` and `concurrent`, of which only what was used is taken; one table for all threads and worker processes.",
            ..Key::new(
                "keys_max",
                Kind::Whole { min: 1, max: 16_777_216 },
                Default::Whole(KEYS_MAX),
                "Keys that are remembered at a time. Where there is no place for another one, the key is forgotten that could be \
                 soonest. Changing it forgets all.",
            )
        },
        Key::new(
            "exempt",
            Kind::Texts(
                "addresses, networks such as `\"10.0.0.0/8\"`, `\"@name\"` of a list in `[networks]`",
            ),
            Default::Texts(&[]),
            "Clients without this limit, by address.",
        ),
        Key::new(
            "dry_run",
            Kind::Flag,
            Default::Flag(false),
            "Refuse nothing; count and log what would be refused.",
        ),
    ],
};
