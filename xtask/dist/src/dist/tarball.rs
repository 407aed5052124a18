//! The archive for any distribution: the binary, its documentation, the licences, and what systemd needs.

use crate::Result;
use crate::dist::tree::{Release, Tree, gzip};

/// The file's name and content. `licenses` go to its root.
pub(crate) fn pack(release: &Release, tree: &Tree, licenses: &Tree) -> Result<(String, Vec<u8>)> {
    let name = format!("maitred-{}-{}-linux", release.version, release.architecture);
    let mut tree = tree.clone();
    licenses.files().for_each(|(path, mode, content)| tree.file(path, mode, content));
    let archive = gzip(&tree.tar(release, &format!("{name}/"))?)?;
    Ok((format!("{name}.tar.gz"), archive))
}
