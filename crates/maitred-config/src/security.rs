//! `security_headers` of sites and routes.

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind};

/// `security_headers`
#[derive(Debug, Clone, Copy, std::default::Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityHeaders {
    /// `false`
    #[default]
    Off,
    /// `true`
    Usual,
    /// `"strict"`
    Strict,
}

/// `security_headers`
pub(super) const KEY: Key = Key::new(
    "security_headers",
    Kind::FlagOrChoice(&["strict"]),
    Default::Flag(false),
    "Add the header fields that MDN and OWASP recommend to responses that do not have them; \
     [security_headers](headers.md#security_headers) lists them. That of a route replaces that of its site.",
);
