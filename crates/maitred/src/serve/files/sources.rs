//! Files that are source code, in a site with applications that would run them.

use maitred_http::fastcgi::script::{self, ENDING};

use super::prepare;
use crate::config::Coding;

/// Whether a file of this name is source code: its name ends in `.php`, in any case, or that has endings of codings behind it.
pub(super) fn is_source(path: &[u8]) -> bool {
    const CODINGS: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];
    let mut name = path;
    while let Some(coding) = CODINGS
        .iter()
        .map(|coding| prepare::extension(*coding))
        .find(|end| script::has_ending(name, end.as_bytes()))
    {
        name = name.get(..name.len() - coding.len()).unwrap_or_default();
    }
    script::has_ending(name, ENDING)
}
