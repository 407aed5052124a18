//! Who may use a site or a route, and when: the gates of a plan, compiled when the configuration is loaded. What is here is pure;
//! the gates are asked in `maitred_worker::requests::gates`, which has their order.
//!
//! | file | gate |
//! |---|---|
//! | [`addresses`] | `allow` and `deny` |
//! | [`basic`] | `basic_auth` |
//! | [`jwt`] | `jwt` |
//! | [`forward`] | `forward_auth` |
//! | [`limits`] | `limit` |
//! | [`known`] | – : what is known of credentials that were checked |
//! | [`answers`] | – : answers of `forward_auth` that are kept |

pub(crate) mod addresses;
pub mod answers;
pub mod basic;
pub mod forward;
pub mod jwt;
pub mod known;
pub mod limits;

use std::time::Duration;

use self::addresses::Addresses;
use self::basic::Basic;
use self::forward::Forward;
use self::jwt::Tokens;
use self::limits::Limits;
use maitred_config::{Access, Authentication, Route, Site};

/// The gates of one route, or of a site. There is at least one of them, or a module.
#[derive(Debug, Default)]
pub struct Gates {
    /// `allow` and `deny`
    pub addresses: Option<Addresses>,
    /// `limit`
    pub limits: Option<Limits>,
    /// `basic_auth`
    pub basic: Option<Basic>,
    /// `jwt`
    pub tokens: Option<Tokens>,
    /// `forward_auth`
    pub forward: Option<Forward>,
    /// `user` of `match`: who may use the route; none is any client.
    pub users: Vec<String>,
    /// `module`: those that the plan names.
    pub asks_modules: bool,
    /// `delay`
    pub delay: Option<Duration>,
    /// A client whose address passes needs nothing else, and one that is authenticated may have any address.
    pub satisfy_any: bool,
}

impl Gates {
    /// Compiles them; `None` if there is none. What the route says takes the place of what its site says, gate by gate.
    pub(crate) fn new(site: Option<&Site>, route: Option<&Route>) -> Option<Box<Gates>> {
        let limits = Limits::new(site, route);
        let of_route = route.and_then(|route| route.overrides.delay);
        let delay = of_route.or(site.and_then(|site| site.overrides.delay)).filter(|delay| !delay.is_zero());
        let users = route.map(|route| route.conditions.users.clone()).unwrap_or_default();
        let (site, route) = (site.map(|site| &site.access), route.map(|route| &route.access));
        let of_route = route.and_then(|route| route.addresses.as_ref());
        let of_site = site.and_then(|site| site.addresses.as_ref());
        let addresses = of_route.or(of_site).map(Addresses::new);
        let none = Access::default();
        let (of_route, of_site) = (route.unwrap_or(&none), site.unwrap_or(&none));
        let basic = of_route.basic.or(&of_site.basic).map(Basic::new);
        let tokens = of_route.jwt.or(&of_site.jwt).map(Tokens::new);
        let forward = of_route.forward.or(&of_site.forward).map(Forward::new);
        let satisfy_any = of_route.satisfy_any.or(of_site.satisfy_any).unwrap_or(false);
        let asks_modules = false;
        let gates =
            Gates { addresses, limits, basic, tokens, forward, users, asks_modules, delay, satisfy_any };
        let bounded = gates.addresses.is_some() || gates.limits.is_some() || !gates.users.is_empty();
        let any = bounded || gates.authenticate() || gates.delay.is_some();
        any.then(|| Box::new(gates))
    }
}

/// The fields that pools get of a site's gates and those of its routes, in lower case: none of them may come from a client, on
/// any route of the site.
pub(crate) fn identity_fields<'a>(all: impl Iterator<Item = &'a Access>) -> Vec<String> {
    let mut names = Vec::new();
    for access in all {
        if matches!(access.basic, Authentication::On(_)) {
            names.push("x-remote-user".to_owned());
        }
        if let Authentication::On(jwt) = &access.jwt {
            names.push("x-remote-user".to_owned());
            names.extend(jwt.claim_headers.iter().map(|(name, _)| name.clone()));
        }
        if let Authentication::On(forward) = &access.forward {
            names.extend(forward.copy_headers.iter().map(|name| name.to_ascii_lowercase()));
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

impl Gates {
    /// Whether a client has to say who it is.
    pub fn authenticate(&self) -> bool {
        self.basic.is_some() || self.tokens.is_some() || self.forward.is_some()
    }

    /// Which of them say who a client is.
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        let kinds = [
            (self.basic.is_some(), "basic_auth"),
            (self.tokens.is_some(), "jwt"),
            (self.forward.is_some(), "forward_auth"),
            (self.authenticate() && self.satisfy_any, "satisfy"),
        ];
        kinds.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect()
    }

    /// Whether pools do not get `Authorization`.
    pub(crate) fn remove_authorization(&self) -> bool {
        self.basic.as_ref().is_some_and(|basic| basic.remove_authorization)
            || self.tokens.as_ref().is_some_and(|tokens| tokens.remove_authorization)
    }
}
