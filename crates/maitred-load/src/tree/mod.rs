//! The document tree that a log implies: a file for each path that was there, of the length that was logged.
//!
//! - A path was there if it was logged with 200, 206, 304 or 416 for GET or HEAD. Query strings are ignored.
//! - The length of the file is the one most often logged with 200 for GET, the larger of equals; [`UNKNOWN_BYTES`] if there is
//!   none.
//! - A path that ends in a slash is `index.html` of that directory. A path that is both a file and the directory of another
//!   becomes a directory with an `index.html`.

mod make;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};

pub use make::{Made, make};

use crate::log::Entry;
use crate::log::reader::{Reader, Tally};

/// Length of a file that was never logged with one.
pub const UNKNOWN_BYTES: u64 = 1234;
/// Different lengths of a path that are counted; what comes after them is ignored, so that memory depends on the number
/// of paths only.
const LENGTHS_MAX: usize = 4;
/// Bytes of a name, as Linux filesystems allow.
const NAME_BYTES_MAX: usize = 255;
/// Bytes of a path, below `PATH_MAX` of Linux.
const PATH_BYTES_MAX: usize = 4000;
/// Directories above a file.
const DEPTH_MAX: usize = 64;
const INDEX: &[u8] = b"index.html";

/// What a tree may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Files.
    pub files_max: usize,
    /// Bytes of a file; longer ones are made this long.
    pub file_bytes_max: u64,
    /// Bytes of all files together.
    pub total_bytes_max: u64,
}

/// A tree to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Path below the root, without a slash at the start, and length in bytes.
    pub files: BTreeMap<Vec<u8>, u64>,
    /// The earliest time of the log, in seconds since 1970.
    pub earliest: Option<u64>,
    /// What was found on the way.
    pub counts: Counts,
}

/// What was found on the way.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Lines, and those that could not be read.
    #[serde(flatten)]
    pub tally: Tally,
    /// Paths that no file can have: bad encoding, too long a name, too deep.
    pub impossible: u64,
    /// Files whose length was cut to the limit.
    pub cut: u64,
    /// Files that would have exceeded a limit on their number or sum.
    pub left_out: u64,
    /// Files without a logged length.
    pub unknown: u64,
    /// Paths that are file and directory.
    pub collisions: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

/// Lengths of a path, and how often each was logged.
type Lengths = Vec<(u64, u64)>;

/// Reads a log to its end.
///
/// # Errors
/// When it cannot be read.
pub fn plan(input: impl BufRead, limits: &Limits) -> io::Result<Tree> {
    let mut paths: BTreeMap<Vec<u8>, Lengths> = BTreeMap::new();
    let mut tree = Tree::default();
    let mut reader = Reader::new(input);
    while reader.next(|entry| note(&entry, &mut paths, &mut tree, limits))?.is_some() {}
    tree.counts.tally = reader.tally().clone();
    settle(paths, &mut tree, limits);
    Ok(tree)
}

fn note(entry: &Entry<'_>, paths: &mut BTreeMap<Vec<u8>, Lengths>, tree: &mut Tree, limits: &Limits) {
    let seconds = entry.time_us / 1_000_000;
    tree.earliest = Some(tree.earliest.map_or(seconds, |earliest| earliest.min(seconds)));
    let Some(request) = &entry.request else { return };
    let was_there = matches!(entry.status, 200 | 206 | 304 | 416);
    if !was_there || !matches!(&*request.method, b"GET" | b"HEAD") {
        return;
    }
    let Some(path) = path_of(&request.target) else {
        tree.counts.impossible += 1;
        return;
    };
    if paths.len() >= limits.files_max && !paths.contains_key(&path) {
        tree.counts.left_out += 1;
        return;
    }
    let lengths = paths.entry(path).or_default();
    if entry.status != 200 || &*request.method != b"GET" {
        return;
    }
    let bytes = entry.body_bytes.unwrap_or(0);
    if let Some((_, count)) = lengths.iter_mut().find(|(length, _)| *length == bytes) {
        *count += 1;
    } else if lengths.len() < LENGTHS_MAX {
        lengths.push((bytes, 1));
    }
}

/// The file that a target stands for; `None` if there can be none.
fn path_of(target: &[u8]) -> Option<Vec<u8>> {
    let target = std::str::from_utf8(target).ok().filter(|target| !target.contains('#'))?;
    let path = maitred_http::uri::normalise(target.split('?').next()?).ok()?;
    let mut path = path.strip_prefix(b"/")?.to_vec();
    if path.is_empty() || path.ends_with(b"/") {
        path.extend_from_slice(INDEX);
    }
    is_possible(&path).then_some(path)
}

/// Whether it is a path below a root: names that are none of `.`, `..` and empty, and not too long.
fn is_possible(path: &[u8]) -> bool {
    let is_name = |name: &[u8]| {
        !matches!(name, b"" | b"." | b"..") && name.len() <= NAME_BYTES_MAX && !name.contains(&0)
    };
    let mut names = path.split(|byte| *byte == b'/');
    path.len() <= PATH_BYTES_MAX
        && names.all(is_name)
        && path.split(|byte| *byte == b'/').count() <= DEPTH_MAX
}

/// Chooses lengths, moves files out of the way of directories, and applies the limits.
fn settle(paths: BTreeMap<Vec<u8>, Lengths>, tree: &mut Tree, limits: &Limits) {
    let mut directories = BTreeSet::new();
    for path in paths.keys() {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        directories.extend(slashes.filter_map(|(at, _)| path.get(..at).map(<[u8]>::to_vec)));
    }
    let mut moved = Vec::new();
    for (path, lengths) in paths {
        let most = lengths.iter().max_by_key(|(bytes, count)| (*count, *bytes));
        tree.counts.unknown += u64::from(most.is_none());
        let bytes = most.map_or(UNKNOWN_BYTES, |(bytes, _)| *bytes);
        if directories.contains(&path) {
            tree.counts.collisions += 1;
            moved.push(([&path, &b"/"[..], INDEX].concat(), bytes));
        } else {
            add(path, bytes, tree, limits);
        }
    }
    for (path, bytes) in moved {
        let is_new = !tree.files.contains_key(&path) && !directories.contains(&path) && is_possible(&path);
        if is_new {
            add(path, bytes, tree, limits);
        }
    }
}

fn add(path: Vec<u8>, bytes: u64, tree: &mut Tree, limits: &Limits) {
    let kept = bytes.min(limits.file_bytes_max);
    if tree.files.len() >= limits.files_max || tree.counts.bytes.saturating_add(kept) > limits.total_bytes_max
    {
        tree.counts.left_out += 1;
        return;
    }
    tree.counts.cut += u64::from(kept < bytes);
    tree.counts.bytes += kept;
    tree.files.insert(path, kept);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { files_max: 100, file_bytes_max: 1000, total_bytes_max: 3000 };

    fn planned(lines: &[(&str, u16, &str)]) -> Tree {
        let text: String = lines
            .iter()
            .map(|(request, status, bytes)| {
                format!("::1 - - [06/Nov/1994:08:49:37 +0000] \"{request}\" {status} {bytes}\n")
            })
            .collect();
        plan(text.as_bytes(), &LIMITS).unwrap()
    }

    fn files(tree: &Tree) -> Vec<(String, u64)> {
        tree.files.iter().map(|(path, bytes)| (String::from_utf8_lossy(path).into_owned(), *bytes)).collect()
    }

    #[test]
    fn a_log_implies_a_tree() {
        let tree = planned(&[
            ("GET /a HTTP/1.1", 200, "10"),
            ("GET /a?x HTTP/1.1", 200, "10"),
            ("GET //./%61 HTTP/1.1", 200, "20"),
            ("GET / HTTP/1.1", 200, "30"),
            ("HEAD /dir/ HTTP/1.1", 200, "-"),
            ("GET /only-304 HTTP/1.1", 304, "-"),
            ("GET /gone HTTP/1.1", 404, "9"),
            ("POST /form HTTP/1.1", 200, "9"),
        ]);
        let wanted = [("a", 10), ("dir/index.html", 1234), ("index.html", 30), ("only-304", 1234)];
        // 1234 is above the limit of a file.
        let wanted: Vec<_> = wanted.map(|(path, bytes)| (path.to_owned(), bytes.min(1000))).to_vec();
        assert_eq!(files(&tree), wanted);
        assert_eq!((tree.counts.unknown, tree.counts.cut, tree.counts.bytes), (2, 2, 2040));
        assert_eq!(tree.earliest, Some(784_111_777));
    }

    #[test]
    fn files_give_way_to_directories() {
        let tree = planned(&[("GET /a HTTP/1.1", 200, "10"), ("GET /a/b HTTP/1.1", 200, "5")]);
        assert_eq!(files(&tree), [("a/b".to_owned(), 5), ("a/index.html".to_owned(), 10)]);
        assert_eq!(tree.counts.collisions, 1);
    }

    #[test]
    fn limits_hold() {
        let many: Vec<String> = (0..200).map(|number| format!("GET /{number} HTTP/1.1")).collect();
        let lines: Vec<_> = many.iter().map(|request| (request.as_str(), 200, "1")).collect();
        let tree = planned(&lines);
        assert_eq!((tree.files.len(), tree.counts.left_out), (100, 100));
        let big = ["a", "b", "c", "d"].map(|name| format!("GET /{name} HTTP/1.1"));
        let lines: Vec<_> = big.iter().map(|request| (request.as_str(), 200, "5000")).collect();
        let tree = planned(&lines);
        assert_eq!(
            (tree.files.len(), tree.counts.cut, tree.counts.left_out, tree.counts.bytes),
            (3, 3, 1, 3000)
        );
    }

    proptest! {
        #[test]
        fn no_target_leaves_the_root(target: Vec<u8>, text in "(/|\\.|%2e|%2F|a|%00|#|\\?){0,20}") {
            for target in [target, text.clone().into_bytes(), format!("/{text}").into_bytes()] {
                if let Some(path) = path_of(&target) {
                    prop_assert!(is_possible(&path));
                    prop_assert!(!path.starts_with(b"/"));
                }
            }
        }
    }
}
