//! The file of the configuration: its text as it was read, and how another text takes its place.
//!
//! A text that comes by the admin address is written beside the file first, and takes the file's place in one step (rename(2))
//! when a worker process with it has taken over. Until then, and whenever that fails, the file is as it was.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};

use super::state::events::Asker;
use maitred_base::pki::hex;

/// Digits of an entity tag: 128 bits of the text's SHA-256. A tag has to tell texts of the same operator apart.
const TAG_DIGITS: usize = 32;

/// A text of a configuration, and where its file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigText {
    /// The file.
    pub path: PathBuf,
    /// The text.
    pub text: String,
}

impl ConfigText {
    /// The text's entity tag, with its quotes (RFC 9110 section 8.8.3).
    pub(crate) fn etag(&self) -> String {
        let mut digits = hex(digest(&SHA256, self.text.as_bytes()).as_ref());
        digits.truncate(TAG_DIGITS);
        format!("\"{digits}\"")
    }
}

/// A text that was put in force, or is about to be.
#[derive(Debug)]
pub(crate) struct Proposed {
    /// Who is told.
    pub asker: Asker,
    /// The text's entity tag.
    pub etag: String,
    /// Why its file could not be replaced, though the text is in force.
    pub unwritten: Option<String>,
}

/// A text that waits beside the file for its place. The file with it is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Staged {
    beside: PathBuf,
    path: PathBuf,
    placed: bool,
}

impl Staged {
    /// Writes `new` beside the file of `present`, with the same owner and permissions.
    ///
    /// # Errors
    /// A text for the operator: the file is not what was read, or its directory cannot be written.
    pub(crate) fn write(present: &ConfigText, new: &str) -> Result<Staged, String> {
        // A symbolic link stays one.
        let shown = present.path.display();
        let path = present.path.canonicalize().map_err(|error| format!("{shown}: {error}"))?;
        let before = path.metadata().map_err(|error| format!("{shown}: {error}"))?;
        if !before.is_file() {
            return Err(format!(
                "{shown} is not a regular file: another configuration cannot take its place"
            ));
        }
        if std::fs::read(&path).map_err(|error| format!("{shown}: {error}"))? != present.text.as_bytes() {
            return Err(format!(
                "{shown} was changed since it was read, which another text would undo: reload it first"
            ));
        }
        let beside = beside(&path);
        let staged = Staged { beside, path, placed: false };
        staged.fill(new, &before).map_err(|error| format!("{}: {error}", staged.beside.display()))?;
        Ok(staged)
    }

    fn fill(&self, new: &str, like: &std::fs::Metadata) -> io::Result<()> {
        // What a crash has left there.
        match std::fs::remove_file(&self.beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.beside)?;
        file.write_all(new.as_bytes())?;
        let mine = file.metadata()?;
        if (mine.uid(), mine.gid()) != (like.uid(), like.gid()) {
            fchown(&file, Some(like.uid()), Some(like.gid()))?;
        }
        file.set_permissions(std::fs::Permissions::from_mode(like.permissions().mode() & 0o7777))?;
        file.sync_all()
    }

    /// Has it take the file's place.
    ///
    /// # Errors
    /// What the system says; the file is as it was.
    pub(crate) fn place(mut self) -> io::Result<()> {
        std::fs::rename(&self.beside, &self.path)?;
        self.placed = true;
        // The name has to last as well; a directory that cannot be synchronized loses no more than the change.
        self.path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.placed {
            // What is left there is replaced by the next one.
            let _ = std::fs::remove_file(&self.beside);
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, ConfigText) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("maitred.toml");
        std::fs::write(&path, text).unwrap();
        (dir, ConfigText { path, text: text.to_owned() })
    }

    fn names(dir: &tempfile::TempDir) -> Vec<String> {
        let entries = std::fs::read_dir(dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_text_takes_the_place_of_another_one_with_its_permissions() {
        let (dir, present) = file("a");
        std::fs::set_permissions(&present.path, PermissionsExt::from_mode(0o640)).unwrap();
        std::fs::write(dir.path().join(".maitred.toml.new"), "left by a crash").unwrap();
        let link = dir.path().join("link.toml");
        std::os::unix::fs::symlink("maitred.toml", &link).unwrap();
        let staged = Staged::write(&ConfigText { path: link.clone(), ..present.clone() }, "b").unwrap();
        assert_eq!(std::fs::read_to_string(&present.path).unwrap(), "a", "not yet");
        staged.place().unwrap();
        assert_eq!(std::fs::read_to_string(&present.path).unwrap(), "b");
        assert_eq!(present.path.metadata().unwrap().mode() & 0o7777, 0o640);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(names(&dir), ["link.toml", "maitred.toml"]);
    }

    #[test]
    fn what_is_given_up_leaves_nothing() {
        let (dir, present) = file("a");
        drop(Staged::write(&present, "b").unwrap());
        assert_eq!(names(&dir), ["maitred.toml"]);
        assert_eq!(std::fs::read_to_string(&present.path).unwrap(), "a");
    }

    #[test]
    fn changes_of_others_are_not_undone() {
        let (dir, present) = file("a");
        std::fs::write(&present.path, "edited").unwrap();
        assert!(Staged::write(&present, "b").unwrap_err().contains("reload it first"));
        std::fs::remove_file(&present.path).unwrap();
        assert!(Staged::write(&present, "b").unwrap_err().contains("No such file"));
        std::fs::create_dir(&present.path).unwrap();
        assert!(Staged::write(&present, "b").unwrap_err().contains("not a regular file"));
        assert_eq!(names(&dir), ["maitred.toml"]);
    }

    #[test]
    fn tags_tell_texts_apart() {
        let tag = |text: &str| ConfigText { path: PathBuf::new(), text: text.to_owned() }.etag();
        assert_eq!((tag("a").len(), tag("a")), (34, tag("a")));
        assert_ne!(tag("a"), tag("b"));
    }
}
