//! Requests made from a configuration of nginx: `tree` reads what matters of it, `plan` makes the requests, `example` finds texts
//! for regular expressions, and `spell` other spellings of a path.

mod example;
mod plan;
mod spell;
mod tree;

use std::path::Path;

use super::gathered::{Gathered, Known};

/// Reads a configuration with what it includes, and makes requests. Paths in it are looked up below `root`, if one is given.
///
/// # Errors
/// The file cannot be read, or has no server that can be asked.
pub(super) fn gather(path: &Path, root: Option<&Path>, known: &Known) -> Result<Gathered, String> {
    let directives = maitred_import::nginx_directives_of(path, root)?;
    let servers = tree::servers(&directives);
    if servers.is_empty() {
        return Err(format!("{}: no `server`", path.display()));
    }
    let gathered = plan::gather(&servers, root, known);
    if gathered.cases.is_empty() {
        return Err(format!(
            "{}: no request can be made of it. {}",
            path.display(),
            gathered.notes.join(". ")
        ));
    }
    Ok(gathered)
}
