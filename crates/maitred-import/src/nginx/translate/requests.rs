//! What servers get of a request: the fields that a location sets, but for those that gates have.

use super::context::Context;
use super::fields::{self, Host};
use super::forward;
use super::tokens;
use crate::drafts::Header;
use crate::nginx::scope::Scope;

/// What `proxy_set_header` or `grpc_set_header` says: rules, and the host.
pub(crate) fn of(cx: &Context<'_>, scope: &Scope<'_>, named: &str) -> (Vec<Header>, Host) {
    let (mut rules, mut target) = (Vec::new(), Host::Server);
    for directive in scope.all(named) {
        let (name, value) = (directive.arg(0), directive.arg(1));
        match name.eq_ignore_ascii_case("host") {
            true => target = fields::host(cx, scope, directive),
            // `forward_auth`, or `jwt`, has it.
            false if forward::is_copied(scope, name, value) || tokens::is_claim(scope, value) => {}
            false => fields::field(cx, scope, directive, (name, value), &mut rules),
        }
    }
    (rules, target)
}
