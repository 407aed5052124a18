//! Keys of a pool about what it gets of its clients' requests.

use super::keys::{Default, Key, Kind};

/// `upgrade`
pub(super) const UPGRADE: Key = Key::new(
    "upgrade",
    Kind::Texts("names of protocols, as in the field `Upgrade`"),
    Default::Texts(&["websocket"]),
    "Other protocols that a client may switch to (`Upgrade`; over HTTP/2 extended CONNECT). Maitred passes on what is \
     spoken then, and sees no requests in it; so `h2c`, `HTTP/…` and `TLS/…` are refused.",
);
