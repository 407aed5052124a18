//! Keys of a pool about what it gets of its clients' requests.

use super::keys::{Default, Key, Kind, Table};

/// `upgrade`
pub(super) const UPGRADE: Key = Key::new(
    "upgrade",
    Kind::Texts("names of protocols, as in the field `Upgrade`"),
    Default::Texts(&["websocket"]),
    "Other protocols that a client may switch to (`Upgrade`; over HTTP/2 extended CONNECT). Maitred passes on what is \
     spoken then, and sees no requests in it; so `h2c`, `HTTP/…` and `TLS/…` are refused.",
);

/// `request_headers`
pub(super) const REQUEST_HEADERS_KEY: Key = Key::new(
    "request_headers",
    Kind::Section(&REQUEST_HEADERS),
    Default::Absent("all defaults"),
    "Which fields of its clients the pool gets although they are removed otherwise.",
);

/// `request_headers`
pub(super) const REQUEST_HEADERS: Table = Table {
    title: "request_headers",
    doc: "Fields of requests on their way to a pool. Those in which proxies say who the client is (`X-Remote-User`, \
          `True-Client-IP`, `SSL-Client-Cert`; `docs/proxies.md` has the list) are removed unless the peer is in \
          `trusted_proxies`, and so are names with `_` or `.`, which applications that see fields as variables take for others.",
    example: "[pool.web]\ncommand = [\"./app\"]\nrequest_headers = { keep = [\"x-remote-user\", \"api_key\"] }\n",
    keys: &[
        Key::new(
            "keep",
            Kind::Texts("field names"),
            Default::Texts(&[]),
            "Fields that are passed on as any client sends them, also those that an application may believe to be a proxy's.",
        ),
        Key::new(
            "underscores",
            Kind::Flag,
            Default::Flag(false),
            "Pass on names with `_` and `.`, but for those that are such a field in another spelling.",
        ),
    ],
};
