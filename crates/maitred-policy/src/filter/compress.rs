//! `compress`: responses in a content coding.
//!
//! What that changes in a response depends on its own fields and on the request, so that no list of edits can say it: the
//! encoders and their rules are in [`crate::compress`], and are used where responses are written.

use super::scope::{Compiled, Scope};
use maitred_config::Compression;

/// The setting of the route takes the place of that of its site.
pub(crate) fn compile(scope: &Scope<'_>, compiled: &mut Compiled) {
    let of_route = scope.route.and_then(|route| route.compress.as_ref());
    let of_site = scope.site.and_then(|site| site.compress.as_ref());
    if let Some(Compression::On(settings)) = of_route.or(of_site) {
        compiled.needs_response = true;
        compiled.compress = Some(settings.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maitred_config::{Compress, PathPattern, Route, Site, Target};

    fn compiled(site: Option<Compression>, route: Option<Compression>) -> Compiled {
        let target = Target::Respond { status: 200, body: String::new(), content_type: String::new() };
        let site = Site { compress: site, ..Site::default() };
        let route = Route { compress: route, ..Route::new(PathPattern::All, target) };
        let mut compiled = Compiled::default();
        compile(&Scope { server_header: true, site: Some(&site), route: Some(&route) }, &mut compiled);
        compiled
    }

    #[test]
    fn a_route_decides_for_itself() {
        let on = |bytes_min| Compression::On(Compress { bytes_min, ..Compress::default() });
        for (site, route, expected) in [
            (None, None, None),
            (Some(on(1)), None, Some(1)),
            (Some(on(1)), Some(on(2)), Some(2)),
            (Some(on(1)), Some(Compression::Off), None),
            (Some(Compression::Off), Some(on(2)), Some(2)),
        ] {
            let compiled = compiled(site, route);
            assert_eq!(compiled.compress.map(|settings| settings.bytes_min), expected);
            assert_eq!(
                compiled.needs_response,
                expected.is_some(),
                "the application has the socket otherwise"
            );
        }
    }
}
