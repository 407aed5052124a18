//! What artefacts are made of: a release, and a tree of files that says everything an archive records.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use flate2::{Compression, GzBuilder};

use crate::Result;

/// What every artefact of one release has in common.
#[derive(Debug, Clone)]
pub(crate) struct Release {
    /// As in Cargo.toml, without a revision of a package.
    pub(crate) version: String,
    /// As Rust names it: `x86_64` or `aarch64`.
    pub(crate) architecture: String,
    /// Seconds since 1970 (Unix time) of the commit: every time in every artefact.
    pub(crate) time: u64,
}

#[derive(Debug, Clone)]
enum Content {
    Directory,
    File(Vec<u8>),
}

/// Files and directories by path, in the order in which they are archived. All belong to root.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree(BTreeMap<String, (u32, Content)>);

impl Tree {
    /// Adds a file, and the directories above it. `path` is relative: `usr/bin/maitred`.
    pub(crate) fn file(&mut self, path: &str, mode: u32, content: impl Into<Vec<u8>>) {
        for (at, _) in path.match_indices('/') {
            self.0.entry(path[..at].to_owned()).or_insert((0o755, Content::Directory));
        }
        self.0.insert(path.to_owned(), (mode, Content::File(content.into())));
    }

    /// Adds a file of this machine.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn copy(&mut self, path: &str, mode: u32, from: &Path) -> Result<()> {
        let content = std::fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
        self.file(path, mode, content);
        Ok(())
    }

    /// All files, without directories: path, mode, content.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, u32, &[u8])> {
        self.0.iter().filter_map(|(path, (mode, content))| match content {
            Content::File(content) => Some((path.as_str(), *mode, content.as_slice())),
            Content::Directory => None,
        })
    }

    /// The tree as a tar archive; `prefix` stands before each path (`./` in Debian packages).
    ///
    /// # Errors
    /// A path is too long for the archive.
    pub(crate) fn tar(&self, release: &Release, prefix: &str) -> Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, (mode, content)) in &self.0 {
            let (kind, slash, bytes) = match content {
                Content::Directory => (tar::EntryType::Directory, "/", &[][..]),
                Content::File(content) => (tar::EntryType::Regular, "", content.as_slice()),
            };
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(*mode);
            header.set_mtime(release.time);
            header.set_uid(0);
            header.set_gid(0);
            header.set_username("root")?;
            header.set_groupname("root")?;
            header.set_size(bytes.len() as u64);
            let name = format!("{prefix}{path}{slash}");
            // Not `set_path`, which drops the `./` that dpkg expects.
            let field = &mut header.as_old_mut().name;
            let space = field
                .get_mut(..name.len())
                .ok_or_else(|| format!("{name}: the path is too long for an archive"))?;
            space.copy_from_slice(name.as_bytes());
            header.set_cksum();
            archive.append(&header, bytes)?;
        }
        Ok(archive.into_inner()?)
    }
}

/// Compressed without a name and a time.
///
/// # Errors
/// None that is known: it is written to memory.
pub(crate) fn gzip(content: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    Ok(encoder.finish()?)
}
