//! `server_header`: `Server: maitred` on responses that name no server (9110-10.2.4).

use super::scope::{Compiled, Scope};
use maitred_config::Overrides;

/// Behind all others, which may have set or removed the field.
pub fn compile(scope: &Scope<'_>, compiled: &mut Compiled) {
    let of = |overrides: Option<&Overrides>| overrides.and_then(|overrides| overrides.server_header);
    let of_route = of(scope.route.map(|route| &route.overrides));
    let of_site = || of(scope.site.map(|site| &site.overrides));
    if of_route.or_else(of_site).unwrap_or(scope.server_header) {
        compiled.always.add_if_absent("Server", b"maitred");
    }
}
