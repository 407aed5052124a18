//! `error_pages` of a site: which of its own files is shown for an error status, whatever its cause.

use super::scope::{Compiled, Scope};

/// A site without files of its own has nowhere to take pages from.
pub fn compile(scope: &Scope<'_>, compiled: &mut Compiled) {
    if let Some(site) = scope.site.filter(|site| site.files.is_some()) {
        compiled.error_pages.clone_from(&site.error_pages);
    }
}
