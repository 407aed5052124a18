//! A directory that is looked into: bounded reads, and nothing that could wait.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// More of a file is not read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// More files of a directory are not looked into.
const FILES_MAX: usize = 200;

/// A directory.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Where it is.
    pub dir: &'a Path,
}

impl<'a> Place<'a> {
    /// The place of a directory.
    pub fn new(dir: &'a Path) -> Place<'a> {
        Place { dir }
    }

    /// Whether there is such a file.
    pub fn has(&self, name: &str) -> bool {
        self.dir.join(name).is_file()
    }

    /// Whether there is such a directory.
    pub fn has_directory(&self, name: &str) -> bool {
        self.dir.join(name).is_dir()
    }

    /// The first of these files that is there.
    pub fn first<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.has(name))
    }

    /// The text of a file, as far as it is read; `None` if there is none.
    pub fn text(&self, name: &str) -> Option<String> {
        let path = self.dir.join(name);
        // What is no regular file could make the reader wait.
        if !path.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        fs::File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Names in it, in their order, so that the same directory always gives the same; hidden ones are left out.
    pub fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.dir) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names.truncate(FILES_MAX);
        names
    }

    /// Names of the files in it that end so.
    pub fn files(&self, end: &str) -> Vec<String> {
        self.names().into_iter().filter(|name| name.ends_with(end) && self.has(name)).collect()
    }

    /// Names of the directories in it.
    pub fn directories(&self) -> Vec<String> {
        self.names().into_iter().filter(|name| self.has_directory(name)).collect()
    }

    /// The entries of `known` that are directories of the place.
    pub fn assets(&self, known: &[(&str, &str)]) -> Vec<(String, String)> {
        let there = known.iter().filter(|(_, name)| self.has_directory(name));
        there.map(|(path, name)| ((*path).to_owned(), (*name).to_owned())).collect()
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}
