//! The data set.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::tree::{Made, Tree, make};

/// Classes of files, and files of a class in a directory.
pub(super) const CLASSES: u64 = 4;
pub(super) const FILES: u64 = 9;
/// Bytes of a directory's 36 files.
pub const BYTES_PER_DIRECTORY: u64 = 5_119_484;
/// Directories at most: 500 GB.
const DIRECTORIES_MAX: u64 = 100_000;

/// Directories for so many simultaneous connections: 25, and 0.66 for each connection.
pub fn directories_for(connections: u64) -> u64 {
    (25.0 + 400_000.0 / 122_000.0 * connections as f64 / 5.0).min(DIRECTORIES_MAX as f64) as u64
}

/// A data set of so many directories.
#[derive(Debug, Clone, Copy)]
pub struct Files {
    /// Number of directories.
    pub directories: u64,
}

/// Length of a file: 1 to 9 times a tenth, one, ten or a hundred KiB.
fn length(class: u64, file: u64) -> u64 {
    (file + 1) * 1024 * 10_u64.pow(class as u32) / 10
}

/// Path of a file, without a slash at the start.
pub(super) fn path(directory: u64, class: u64, file: u64) -> String {
    format!("file_set/dir{directory:05}/class{class}_{file}")
}

impl Files {
    /// Makes the data set below `root`; what is there already is kept.
    ///
    /// # Errors
    /// When the filesystem refuses.
    pub fn make(&self, root: &Path) -> io::Result<Made> {
        let mut files = BTreeMap::new();
        for directory in 0..self.directories {
            for (class, file) in (0..CLASSES).flat_map(|class| (0..FILES).map(move |file| (class, file))) {
                files.insert(path(directory, class, file).into_bytes(), length(class, file));
            }
        }
        make(&Tree { files, ..Tree::default() }, root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_set_is_as_published() {
        let all = || (0..CLASSES).flat_map(|class| (0..FILES).map(move |file| length(class, file)));
        assert_eq!(all().sum::<u64>(), BYTES_PER_DIRECTORY);
        assert_eq!((length(0, 0), length(0, 8), length(1, 0), length(3, 8)), (102, 921, 1024, 921_600));
        // Published: 1.50 GB for 440 connections, about 5 GB for 1598 (docs/load.md has the sources).
        let bytes = |connections| directories_for(connections) * BYTES_PER_DIRECTORY;
        assert_eq!(format!("{:.2}", bytes(440) as f64 / f64::from(1 << 30)), "1.49");
        assert_eq!(format!("{:.1}", bytes(1598) as f64 / f64::from(1 << 30)), "5.1");
    }

    #[test]
    fn the_data_set_is_made() {
        let root = tempfile::tempdir().unwrap();
        let made = Files { directories: 2 }.make(root.path()).unwrap();
        assert_eq!((made.made, made.foreign), (72, 0));
        let path = root.path().join("file_set/dir00001/class3_8");
        assert_eq!(path.metadata().unwrap().len(), 921_600);
    }
}
