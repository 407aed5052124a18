//! The archive for any distribution: the binary, its documentation, and what systemd needs.

use crate::Result;
use crate::dist::tree::{Release, Tree, gzip};

/// The file's name and content.
pub(crate) fn pack(release: &Release, tree: &Tree) -> Result<(String, Vec<u8>)> {
    let name = format!("maitred-{}-{}-linux", release.version, release.architecture);
    let archive = gzip(&tree.tar(release, &format!("{name}/"))?)?;
    Ok((format!("{name}.tar.gz"), archive))
}
