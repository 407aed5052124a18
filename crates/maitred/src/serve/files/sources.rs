//! Files that are source code, in a site with applications that would run them.

use maitred_http::fastcgi::script::{self, ENDING};

use super::prepare;
use crate::config::Coding;

/// Endings of the copies that editors leave beside a file.
const COPIES: [&[u8]; 5] = [b"~", b".bak", b".old", b".orig", b".save"];

/// Whether a file of this name is source code: its name ends in `.php`, in any case, or that has behind it the endings of codings
/// or of copies, or the dots and blanks that some file systems do not look at.
pub(super) fn is_source(path: &[u8]) -> bool {
    const CODINGS: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];
    let endings = || CODINGS.iter().map(|coding| prepare::extension(*coding).as_bytes()).chain(COPIES);
    let ignored = |name: &[u8]| name.iter().rev().take_while(|byte| matches!(byte, b'.' | b' ')).count();
    let mut name = path;
    loop {
        name = name.get(..name.len() - ignored(name)).unwrap_or_default();
        match endings().find(|end| script::has_ending(name, end)) {
            Some(end) => name = name.get(..name.len() - end.len()).unwrap_or_default(),
            None => return script::has_ending(name, ENDING),
        }
    }
}
