//! Who may use a site or a route: the gates of a plan, compiled when the configuration is loaded. What is here is pure; the gates
//! are asked in `worker::requests::gates`, which has their order.
//!
//! | file | gate |
//! |---|---|
//! | [`addresses`] | `allow` and `deny` |

pub mod addresses;

use self::addresses::Addresses;
use crate::config::Access;

/// The gates of one route, or of a site. There is at least one.
#[derive(Debug)]
pub struct Gates {
    /// `allow` and `deny`
    pub addresses: Option<Addresses>,
}

impl Gates {
    /// Compiles them; `None` if there is none. What the route says takes the place of what its site says, gate by gate.
    pub fn new(site: Option<&Access>, route: Option<&Access>) -> Option<Box<Gates>> {
        let of_route = route.and_then(|route| route.addresses.as_ref());
        let of_site = site.and_then(|site| site.addresses.as_ref());
        let addresses = of_route.or(of_site).map(Addresses::new);
        addresses.is_some().then(|| Box::new(Gates { addresses }))
    }
}
