//! `server_header`: `Server: maitred` on responses that name no server (9110-10.2.4). Application processes, which add it
//! themselves, are told where it is not wanted.

use super::scope::{Compiled, Scope};
use maitred_config::Overrides;

/// Behind all others, which may have set or removed the field.
pub(crate) fn compile(scope: &Scope<'_>, compiled: &mut Compiled) {
    let of = |overrides: Option<&Overrides>| overrides.and_then(|overrides| overrides.server_header);
    let of_route = of(scope.route.map(|route| &route.overrides));
    let of_site = || of(scope.site.map(|site| &site.overrides));
    if of_route.or_else(of_site).unwrap_or(scope.server_header) {
        compiled.always.add_if_absent("Server", b"maitred");
    } else {
        compiled.anonymous = true;
    }
}

#[cfg(test)]
mod tests {
    use maitred_config::{PathPattern, Route, Site, Target};
    use maitred_http::fields::FieldLines;

    use super::*;

    #[test]
    fn a_response_without_the_field_stays_anonymous_or_gets_it() {
        let overrides = |server_header| Overrides { server_header, ..Overrides::default() };
        for of_server in [false, true] {
            for of_site in [None, Some(false), Some(true)] {
                for of_route in [None, Some(false), Some(true)] {
                    let site = Site { overrides: overrides(of_site), ..Site::default() };
                    let mut route = Route::new(PathPattern::All, Target::Pool(0));
                    route.overrides = overrides(of_route);
                    let scope = Scope { server_header: of_server, site: Some(&site), route: Some(&route) };
                    let mut compiled = Compiled::default();
                    compile(&scope, &mut compiled);
                    let wanted = of_route.or(of_site).unwrap_or(of_server);
                    let mut out = FieldLines::default();
                    compiled.always.apply(FieldLines::default().all(), &mut out);
                    let added = out.all().get(b"server").is_some();
                    assert_eq!((compiled.anonymous, added), (!wanted, wanted));
                }
            }
        }
    }
}
