//! Files on the disk. Nothing outside the root is touched, no symbolic link is followed, and nothing that exists is changed.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;

use super::Tree;

/// Bytes at the start of a file that distinguish it from others. The rest is a hole, and takes no disk.
const MARKED_BYTES: u64 = 4096;
/// How much older than the log the files are, in seconds: whatever was answered with 304 then can be answered so again.
const AGE_SECONDS: u64 = 24 * 3600;
/// Paths that are shown because something else is there.
const EXAMPLES_MAX: usize = 5;

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Made {
    /// Files that were made.
    pub made: u64,
    /// Files that were there with the same length.
    pub kept: u64,
    /// Paths where something else was, which was left alone.
    pub foreign: u64,
    /// The first of these.
    pub examples: Vec<String>,
}

/// Makes the files of a tree below `root`, which is made if it is not there.
///
/// # Errors
/// When the root cannot be opened, or the filesystem refuses: no space, no permission.
pub fn make(tree: &Tree, root: &Path) -> io::Result<Made> {
    std::fs::create_dir_all(root)?;
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty())?;
    let mut made = Made::default();
    let mut way = Way { root, steps: Vec::new() };
    let seconds = tree.earliest.unwrap_or(0).saturating_sub(AGE_SECONDS);
    for (path, &bytes) in &tree.files {
        let (directory, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (path.get(..at).unwrap_or_default(), path.get(at + 1..).unwrap_or_default()),
            None => (&[][..], &path[..]),
        };
        let outcome = match way.go(directory) {
            Ok(parent) => make_file(parent, name, path, bytes, seconds),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(Outcome::Made) => made.made += 1,
            Ok(Outcome::Kept) => made.kept += 1,
            // A link or a file where a directory should be.
            Ok(Outcome::Foreign) | Err(Errno::NOTDIR | Errno::LOOP | Errno::EXIST) => {
                made.foreign += 1;
                if made.examples.len() < EXAMPLES_MAX {
                    made.examples.push(String::from_utf8_lossy(path).escape_debug().to_string());
                }
            }
            Err(error) => {
                let path = String::from_utf8_lossy(path).escape_debug().to_string();
                return Err(io::Error::new(io::Error::from(error).kind(), format!("{path}: {error}")));
            }
        }
    }
    Ok(made)
}

enum Outcome {
    Made,
    Kept,
    Foreign,
}

fn make_file(parent: &OwnedFd, name: &[u8], path: &[u8], bytes: u64, seconds: u64) -> Result<Outcome, Errno> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o644)) {
        Ok(file) => file,
        Err(Errno::EXIST) => {
            let there = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_file = FileType::from_raw_mode(there.st_mode) == FileType::RegularFile;
            let is_same = is_file && u64::try_from(there.st_size) == Ok(bytes);
            return Ok(if is_same { Outcome::Kept } else { Outcome::Foreign });
        }
        Err(error) => return Err(error),
    };
    let mut file = File::from(file);
    let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    file.write_all(&marks(path, bytes)).map_err(errno)?;
    file.set_len(bytes).map_err(errno)?;
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: i64::try_from(seconds).unwrap_or(0), tv_nsec: 0 },
    };
    rustix::fs::futimens(file.as_fd(), &times)?;
    Ok(Outcome::Made)
}

/// The start of a file's content: its path, over and over.
fn marks(path: &[u8], bytes: u64) -> Vec<u8> {
    let line = [path, b"\n"].concat();
    line.iter().copied().cycle().take(usize::try_from(bytes.min(MARKED_BYTES)).unwrap_or(0)).collect()
}

/// The directories from the root to where the last file was. Paths come in order, so most steps are there already.
struct Way {
    root: OwnedFd,
    steps: Vec<(Vec<u8>, OwnedFd)>,
}

impl Way {
    /// Opens a directory below the root, and makes it if need be, one name after another, without following links.
    fn go(&mut self, directory: &[u8]) -> Result<&OwnedFd, Errno> {
        let names: Vec<&[u8]> =
            directory.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let same = self.steps.iter().zip(&names).take_while(|((step, _), name)| step == *name).count();
        self.steps.truncate(same);
        for name in names.into_iter().skip(same) {
            let parent = self.steps.last().map_or(&self.root, |(_, fd)| fd);
            match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(parent, name, flags, Mode::empty())?;
            self.steps.push((name.to_vec(), opened));
        }
        Ok(self.steps.last().map_or(&self.root, |(_, fd)| fd))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn tree(files: &[(&str, u64)]) -> Tree {
        Tree {
            files: files.iter().map(|(path, bytes)| (path.as_bytes().to_vec(), *bytes)).collect(),
            earliest: Some(784_111_777),
            ..Tree::default()
        }
    }

    #[test]
    fn files_have_their_lengths_and_are_older_than_the_log() {
        let root = tempfile::tempdir().unwrap();
        let tree = tree(&[("a", 5), ("d/e/f", 1_000_000_000), ("d/g", 0)]);
        let made = make(&tree, &root.path().join("new")).unwrap();
        assert_eq!((made.made, made.kept, made.foreign), (3, 0, 0));
        let at = |path: &str| root.path().join("new").join(path).metadata().unwrap();
        assert_eq!((at("a").len(), at("d/e/f").len(), at("d/g").len()), (5, 1_000_000_000, 0));
        assert!(at("d/e/f").blocks() * 512 < 1_000_000, "long files are sparse");
        assert_eq!(at("a").mtime(), 784_111_777 - 86_400);
        let again = make(&tree, &root.path().join("new")).unwrap();
        assert_eq!((again.made, again.kept, again.foreign), (0, 3, 0));
    }

    #[test]
    fn what_is_there_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (root, outside) = (directory.path().join("root"), directory.path().join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "mine").unwrap();
        fs::write(root.join("mine"), "my own words").unwrap();
        symlink(&outside, root.join("link")).unwrap();
        symlink(outside.join("new"), root.join("dangling")).unwrap();
        let made = make(
            &tree(&[("mine", 5), ("link/secret", 5), ("link/x", 5), ("dangling", 5), ("mine/x", 5)]),
            &root,
        );
        let made = made.unwrap();
        assert_eq!((made.made, made.foreign), (0, 5), "{made:?}");
        assert_eq!(fs::read_to_string(root.join("mine")).unwrap(), "my own words");
        assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "mine");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }
}
