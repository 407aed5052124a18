//! `error_pages` of a site and of a route: which of the site's own files is shown for an error status, whatever its cause.

use super::scope::{Compiled, Scope};

/// A site without files of its own has nowhere to take pages from.
pub fn compile(scope: &Scope<'_>, compiled: &mut Compiled) {
    let Some(site) = scope.site.filter(|site| site.files.is_some()) else { return };
    if let Some(route) = scope.route {
        compiled.error_pages.clone_from(&route.error_pages);
    }
    // The first one for a status counts.
    compiled.error_pages.extend(site.error_pages.iter().cloned());
}
