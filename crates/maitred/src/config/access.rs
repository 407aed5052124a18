//! `allow` and `deny` of sites and routes: which clients may use them.

use serde::{Deserialize, Serialize};

use super::keys::{Default, Key, Kind};
use super::values::Network;

/// Who may use a site or a route.
#[derive(Debug, Clone, std::default::Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// `allow` and `deny`; `None` where neither is given.
    pub addresses: Option<AddressRules>,
}

/// `allow` and `deny`
#[derive(Debug, Clone, std::default::Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressRules {
    /// `allow`: the only networks that may; `None` is all. Never empty.
    pub allow: Option<Vec<Network>>,
    /// `deny`: networks that may not, whatever `allow` says.
    pub deny: Vec<Network>,
}

/// The keys of sites and routes about this.
pub(super) const KEYS: [&str; 2] = ["allow", "deny"];

/// `allow`
pub(super) const ALLOW: Key = Key::new(
    "allow",
    Kind::Texts("addresses, networks such as `\"10.0.0.0/8\"`, `\"@name\"` of a list in `[networks]`"),
    Default::Absent("every client"),
    "The only clients that get an answer, by address; all others get 403. Behind a proxy in `trusted_proxies`, the address that it \
     names counts. `allow` and `deny` of a route replace both of its site. See [access](access.md#by-address).",
);

/// `deny`
pub(super) const DENY: Key = Key::new(
    "deny",
    Kind::Texts("addresses, networks such as `\"10.0.0.0/8\"`, `\"@name\"` of a list in `[networks]`"),
    Default::Absent("no client"),
    "Clients that get 403, also if they are in `allow`. `\"@all\"` is every client.",
);
