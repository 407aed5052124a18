//! Keys of a pool about what its servers are told, and what becomes of their responses.

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind};

/// What only a pool of servers has (`connect = "http://…"`, `"https://…"`, `"fastcgi://…"`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, std::default::Default)]
pub struct External {
    /// `host`
    pub host: HostRule,
}

/// `host`: what `Host` says to an HTTP server, unless the route sets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, std::default::Default)]
pub enum HostRule {
    /// What the client has sent.
    #[default]
    Client,
    /// The authority of the server in `connect`.
    Server,
    /// This host, with or without a port.
    Named(String),
}

impl HostRule {
    /// Bytes of a host: those of a name (RFC 1035 section 2.3.4), and a port.
    pub const BYTES_MAX: usize = 261;

    /// Whether this can be the value of `Host` (9110-7.2).
    pub fn is_host(text: &str) -> bool {
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
     that have several sites and know this one by that name. Anything else is the host itself. `request_headers` of a route can \
     set another one; `X-Forwarded-Host` is the client's in any case. See [upstreams](upstreams.md#host).",
);
