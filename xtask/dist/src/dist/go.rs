//! The Go module, as a directory that `go get` reads (the layout of a module proxy: <https://go.dev/ref/mod#goproxy-protocol>).
//! In the sources the module has no address of the network; here it gets one, as the path of the module and in all imports.

use std::path::Path;

use crate::Result;
use crate::dist::calendar::iso8601;
use crate::dist::tree::{Release, Tree, gzip};
use crate::dist::zip::{self, File};
use crate::dist::{LICENSES, VERSION};
use xtask::root;

/// A publisher of the module has to name an address that serves it. The domain `invalid` has no owner (RFC 2606).
pub(crate) const MODULE: &str = "maitred.invalid/maitred";
/// The module's path in the sources.
const IN_SOURCES: &str = "maitred";
/// What the module has besides its own files, other modules among it.
const LEFT_OUT: [&str; 3] = ["fasthttp", "frameworks", "testdata"];

/// The file's name and content, for a module of this path.
///
/// # Errors
/// A file of the module cannot be read.
pub(crate) fn pack(release: &Release, module: &str) -> Result<(String, Vec<u8>)> {
    let adapter = root().join("adapters/go");
    let version = format!("v{VERSION}");
    let mut files = Vec::new();
    collect(&adapter, "", module, &mut files)?;
    let go_mod = files.iter().find(|(name, _)| name == "go.mod").map(|(_, content)| content.clone());
    let go_mod = go_mod.ok_or("adapters/go has no go.mod")?;
    for license in LICENSES {
        files.push((license.to_owned(), std::fs::read(root().join(license))?));
    }
    files.sort();
    let files =
        files.into_iter().map(|(name, content)| File::new(format!("{module}@{version}/{name}"), content));
    let archive = zip::archive(&files.collect::<Vec<_>>())?;
    let mut proxy = Tree::default();
    let place = |name: &str| format!("{module}/@v/{name}");
    proxy.file(&place("list"), 0o644, format!("{version}\n"));
    let time = iso8601(release.time);
    proxy.file(
        &place(&format!("{version}.info")),
        0o644,
        format!("{{\"Version\":\"{version}\",\"Time\":\"{time}\"}}"),
    );
    proxy.file(&place(&format!("{version}.mod")), 0o644, go_mod);
    proxy.file(&place(&format!("{version}.zip")), 0o644, archive);
    Ok((format!("maitred-go-{VERSION}.tar.gz"), gzip(&proxy.tar(release, "maitred-go/")?)?))
}

/// The module's files below `directory`; tests of the module are no part of it.
fn collect(directory: &Path, prefix: &str, module: &str, files: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            if !LEFT_OUT.contains(&name.as_str()) {
                collect(&entry.path(), &format!("{path}/"), module, files)?;
            }
        } else if name == "go.mod" || (name.ends_with(".go") && !name.ends_with("_test.go")) {
            let text = std::fs::read_to_string(entry.path())?;
            files.push((path, readdressed(&text, module).into_bytes()));
        } else if name == "README.md" {
            files.push((path, std::fs::read(entry.path())?));
        }
    }
    Ok(())
}

/// The text with the module's path and its imports under this address. An import stands on a line of its own.
fn readdressed(text: &str, module: &str) -> String {
    let line = |line: &str| {
        let bare = line.trim();
        let import = bare.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let below = import.and_then(|path| path.strip_prefix(IN_SOURCES));
        if let Some(rest) = below.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            return line.replace(bare, &format!("\"{module}{rest}\""));
        }
        if bare == format!("module {IN_SOURCES}") { format!("module {module}") } else { line.to_owned() }
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_in_the_module_and_in_imports_only() {
        let text = "module maitred\n\t\"maitred\"\n\t\"maitred/internal/websocket\"\n\tName: \"maitred\"}\n\t\"maitredx\"\n";
        let expected = "module a.test/m\n\t\"a.test/m\"\n\t\"a.test/m/internal/websocket\"\n\tName: \"maitred\"}\n\t\"maitredx\"\n";
        assert_eq!(readdressed(text, "a.test/m"), expected);
    }
}
