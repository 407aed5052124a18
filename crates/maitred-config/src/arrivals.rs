//! Where requests come in: the names of listeners, the listeners of a site, and what is asked at the wrong one.

use super::keys::{Default, Key, Kind};
use super::listen::{Address, ClientAuth, Listen};
use super::meaning::Site;

/// What sites and conditions can name of `[[listen]]`.
#[derive(Debug, std::default::Default)]
pub(super) struct Listeners {
    /// The listeners that could be read, as [`Config::listens`](super::Config::listens) has them.
    pub(super) all: Vec<Listen>,
    /// The names of all, also of those that could not.
    pub(super) names: Vec<String>,
}

impl Listeners {
    /// The indexes of the listeners of this name.
    pub(super) fn named(&self, name: &str) -> Vec<u16> {
        self.find(|listen| listen.name.as_deref() == Some(name))
    }

    /// The indexes of the listeners of this address.
    pub(super) fn at(&self, address: &Address) -> Vec<u16> {
        self.find(|listen| listen.address == *address)
    }

    fn find(&self, is: impl Fn(&Listen) -> bool) -> Vec<u16> {
        (0..).zip(&self.all).filter(|(_, listen)| is(listen)).map(|(index, _)| index).collect()
    }
}

impl Listen {
    /// Whether a connection here may have a verified certificate of the client.
    pub(super) fn may_have_certificate(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.client_auth != ClientAuth::Off)
    }

    /// Whether every connection here has one.
    pub(super) fn always_has_certificate(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| matches!(tls.client_auth, ClientAuth::Required(_)))
    }
}

impl Site {
    /// Whether it answers at the listener of this index.
    pub fn answers_at(&self, listener: usize) -> bool {
        let is = |index: &u16| usize::from(*index) == listener;
        self.listens.as_ref().is_none_or(|listens| listens.iter().any(is))
    }
}

/// `name` of a listener
pub(super) const NAME: Key = Key::new(
    "name",
    Kind::Text("1 to 64 letters, digits, `-` and `_`"),
    Default::Absent("its address is its name"),
    "What `listen` of sites and `listener` of conditions call this entry, with all its addresses.",
);

/// `misdirected` of a listener
pub(super) const MISDIRECTED: Key = Key::new(
    "misdirected",
    Kind::Choice(&["421", "default_site"]),
    Default::Text("421"),
    "Over TLS: what answers a request for the name of a site that has `listen` and does not answer here. `\"421\"`: 421 \
     (Misdirected Request), after which browsers ask over a connection of their own. `\"default_site\"`: the first site that \
     answers here, as in cleartext, and for names of no site.",
);

/// `listen` of a site
pub(super) const SITE_LISTEN: Key = Key::new(
    "listen",
    Kind::TextOrTexts("the `name` of a `[[listen]]`, or an address as it stands there"),
    Default::Absent("all listeners"),
    "Where this site answers. At other listeners it does not exist: not by its name, which the client writes, and not by its \
     certificate. Sites of different listeners may have the same `hosts`. The first site of a listener is its default site. See \
     [sites of a listener](routing.md#sites-of-a-listener).",
);
