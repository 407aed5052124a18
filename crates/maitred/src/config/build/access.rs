//! `allow` and `deny` of sites and routes.

use super::super::access::{Access, AddressRules};
use super::super::reader::Section;
use super::networks;

/// What a site or a route says.
pub(super) fn of(section: &Section<'_>) -> Access {
    Access { addresses: addresses(section) }
}

fn addresses(section: &Section<'_>) -> Option<AddressRules> {
    let allows = section.given("allow").is_some();
    let (allow, deny) = (networks(section, "allow"), networks(section, "deny"));
    if let Some(span) = section.empty_array("allow") {
        section.cx.error_with(
            &span,
            "`allow` has no network, so that every client would be refused",
            "write allow = [\"@all\"] for every client, or deny = [\"@all\"] for none",
        );
    }
    let given = allows || section.given("deny").is_some();
    given.then(|| AddressRules { allow: allows.then_some(allow), deny })
}
