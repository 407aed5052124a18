//! `expires` of sites and routes: what responses say about caches.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind};

/// Longest `max-age` that caches have to understand (RFC 9111 section 1.2.2).
pub(super) const MAX_AGE_MAX: Duration = Duration::from_secs(1 << 31);

/// `expires`: what is to be in `Cache-Control`, in the order in which it is looked for; the first that fits decides.
pub type Expires = Vec<(ExpiresFor, Option<String>)>;

/// Which responses a value of `expires` is for; in the order in which they decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExpiresFor {
    /// `"index.html"`: files of this name.
    Name(String),
    /// `"hashed"`: files whose name has a digest of their content.
    Hashed,
    /// `"*.html"`, kept as `.html`: files whose name ends so.
    Ending(String),
    /// `"text/css"`: in lower case.
    Type(String),
    /// `"image/*"`, kept as `image/`.
    Family(String),
    /// `"default"`
    Default,
}

/// `expires`
pub(super) const KEY: Key = Key::new(
    "expires",
    Kind::TextOrMap("a time such as `\"30d\"`, for all", "file or media type = time"),
    Default::Absent("no `Cache-Control`"),
    "`Cache-Control` of successful responses that have none, by file name (`\"sw.js\"`, `\"*.html\"`), `\"hashed\"` (names with a \
     digest, such as `app.3f2a9c1b.js`), media type (`\"text/css\"`, `\"image/*\"`), and `default`. A value is a time (`\"30d\"`), \
     `\"no-cache\"`, `\"no-store\"`, `\"immutable\"` (a year), `\"max\"` (ten years), `\"epoch\"` (as `\"no-cache\"`), `\"off\"`, or \
     directives such as `\"private, max-age=60\"`. A value without a table is that of `default`. That of a route replaces that of its site. See [expires](headers.md#expires).",
);
