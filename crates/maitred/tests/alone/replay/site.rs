//! The site that a log implies: which files and application pages exist, and what each request must get.
//!
//! How the log maps to the site, independently of the server's code:
//!
//! - A path *exists* if it was logged with 200, 206, 304 or 416 for GET or HEAD. The length of a file is the one most often
//!   logged with 200 (the larger of equals), or [`UNKNOWN_BYTES`] if there is none. Query strings are ignored.
//! - Paths are normalised as RFC 3986 says: percent-decoded, repeated slashes merged, dot segments removed.
//! - Paths under [`APPLICATION`] are answered by the application, all others are files. A path that ends in a slash is
//!   `index.html` of that directory. A path that is a file here and a directory there becomes a directory, and the file
//!   its index: a *collision*.
//! - Requests for files: POST gets 405, OPTIONS 204, a directory without its slash 301, a directory without an index 404.
//! - A request that was logged with 304 is made with the file's date, and must get 304. A request that was logged with 206 asks
//!   for as many bytes as were logged; one with 416 for a range behind the end. The application ignores both, and
//!   answers every method alike.
//! - A target with a bad percent-encoding, a fragment or a byte outside ASCII gets 400.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::replay::access_log::Entry;

/// Prefixes of the paths that go to the application; a third of the log's requests.
pub(crate) const APPLICATION: [&str; 2] = ["/presentations/", "/blog/tags/"];
/// Length of what exists but was never logged with 200.
pub(crate) const UNKNOWN_BYTES: u64 = 1234;
/// What the application says of a page that it has not.
pub(crate) const NOT_FOUND: &[u8] = b"no such page\n";
/// The date of all files, as `If-Modified-Since` has it.
pub(crate) const DATE: &str = "Fri, 01 May 2015 00:00:00 GMT";
const DATE_SECONDS: u64 = 1_430_438_400;
/// Bytes at the start of a body that tell one file from another; the rest is zero, and takes no disk.
pub(crate) const MARKED_BYTES: u64 = 4096;

/// What is on the disk, and in the application.
#[derive(Default)]
pub(crate) struct Site {
    /// Path below the root, with its slash at the start, to length.
    files: BTreeMap<Vec<u8>, u64>,
    directories: BTreeSet<Vec<u8>>,
    /// Path to length.
    pages: BTreeMap<Vec<u8>, u64>,
    pub(crate) collisions: usize,
    pub(crate) unknown: usize,
}

/// What a body must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// None, though there may be a length (HEAD).
    Absent,
    /// The start of what [`marks`] gives for a path.
    Marked(Vec<u8>),
    /// An error's text.
    Any,
}

/// What a request must get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) status: u16,
    /// Bytes, where the site says so.
    pub(crate) length: Option<u64>,
    pub(crate) body: Body,
    /// A field line of the request, with its end.
    pub(crate) condition: String,
}

impl Site {
    pub(crate) fn from_log(entries: &[Entry]) -> Site {
        let mut lengths: BTreeMap<Vec<u8>, HashMap<u64, usize>> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| matches!(entry.method.as_str(), "GET" | "HEAD")) {
            let exists = matches!(entry.status, 200 | 206 | 304 | 416);
            let Some(path) = normalise(&entry.target).filter(|_| exists) else { continue };
            let counts = lengths.entry(file_of(path)).or_default();
            if let (200, "GET") = (entry.status, entry.method.as_str()) {
                *counts.entry(entry.bytes.unwrap_or(0)).or_default() += 1;
            }
        }
        let mut site = Site::default();
        for (path, counts) in lengths {
            let most = counts.iter().max_by_key(|(bytes, count)| (**count, **bytes));
            site.unknown += usize::from(most.is_none());
            let bytes = most.map_or(UNKNOWN_BYTES, |(bytes, _)| *bytes);
            let map = if is_application(&path) { &mut site.pages } else { &mut site.files };
            map.insert(path, bytes);
        }
        site.find_directories();
        site
    }

    fn find_directories(&mut self) {
        for path in self.files.keys() {
            let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            self.directories.extend(slashes.map(|(at, _)| path[..=at].to_vec()));
        }
        let both: Vec<Vec<u8>> =
            self.files.keys().filter(|path| self.directories.contains(&with(path, b"/"))).cloned().collect();
        self.collisions = both.len();
        for path in both {
            let bytes = self.files.remove(&path).unwrap();
            self.files.entry(with(&path, b"/index.html")).or_insert(bytes);
        }
    }

    /// Makes the files below `root`, and the application's list of pages.
    pub(crate) fn make(&self, root: &Path, pages: &Path) -> io::Result<()> {
        for directory in &self.directories {
            fs::create_dir_all(below(root, directory))?;
        }
        for (path, &bytes) in &self.files {
            let mut file = File::create(below(root, path))?;
            file.write_all(&marks(path, bytes))?;
            file.set_len(bytes)?;
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(DATE_SECONDS))?;
        }
        let mut list = Vec::new();
        for (path, bytes) in &self.pages {
            list.extend_from_slice(format!("{bytes} ").as_bytes());
            list.extend_from_slice(path);
            list.push(b'\n');
        }
        fs::write(pages, list)
    }

    pub(crate) fn file_count(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn page_count(&self) -> usize {
        self.pages.len()
    }

    pub(crate) fn expect(&self, entry: &Entry) -> Expected {
        let Some(path) = normalise(&entry.target) else { return Expected::error(400, entry) };
        if is_application(&path) {
            let Some(&bytes) = self.pages.get(&path) else {
                return Expected { length: Some(NOT_FOUND.len() as u64), ..Expected::error(404, entry) };
            };
            return Expected::whole(&path, bytes, entry);
        }
        match entry.method.as_str() {
            "OPTIONS" => return Expected { body: Body::Absent, ..Expected::error(204, entry) },
            "GET" | "HEAD" => {}
            _ => return Expected::error(405, entry),
        }
        if self.directories.contains(&with(&path, b"/")) {
            return Expected::error(301, entry);
        }
        let path = file_of(path);
        match self.files.get(&path) {
            Some(&bytes) => Expected::file(&path, bytes, entry),
            None => Expected::error(404, entry),
        }
    }
}

impl Expected {
    fn error(status: u16, entry: &Entry) -> Expected {
        let body = if entry.method == "HEAD" { Body::Absent } else { Body::Any };
        Expected { status, length: None, body, condition: String::new() }
    }

    fn whole(path: &[u8], bytes: u64, entry: &Entry) -> Expected {
        let body = if entry.method == "HEAD" { Body::Absent } else { Body::Marked(path.to_vec()) };
        Expected { status: 200, length: Some(bytes), body, condition: String::new() }
    }

    fn file(path: &[u8], bytes: u64, entry: &Entry) -> Expected {
        let whole = Expected::whole(path, bytes, entry);
        match entry.status {
            304 => {
                let condition = format!("If-Modified-Since: {DATE}\r\n");
                Expected { status: 304, length: None, body: Body::Absent, condition }
            }
            206 if bytes > 0 => {
                let wanted = entry.bytes.unwrap_or(1).max(1);
                let condition = format!("Range: bytes=0-{}\r\n", wanted - 1);
                Expected { status: 206, length: Some(wanted.min(bytes)), condition, ..whole }
            }
            416 => {
                let condition = format!("Range: bytes={bytes}-\r\n");
                Expected { condition, ..Expected::error(416, entry) }
            }
            _ => whole,
        }
    }
}

/// The start of what a path's body holds, which distinguishes it from others.
pub(crate) fn marks(path: &[u8], bytes: u64) -> Vec<u8> {
    let line = [b"<!-- ", path, b" -->\n"].concat();
    line.iter().copied().cycle().take(bytes.min(MARKED_BYTES) as usize).collect()
}

fn below(root: &Path, path: &[u8]) -> std::path::PathBuf {
    root.join(std::ffi::OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)))
}

fn with(path: &[u8], end: &[u8]) -> Vec<u8> {
    [path, end].concat()
}

fn is_application(path: &[u8]) -> bool {
    APPLICATION.iter().any(|prefix| path.starts_with(prefix.as_bytes()))
}

/// The file that a path stands for. The application's pages keep their paths.
fn file_of(path: Vec<u8>) -> Vec<u8> {
    if path.ends_with(b"/") && !is_application(&path) { with(&path, b"index.html") } else { path }
}

/// The path of a target, decoded and without empty and dot segments; `None` where a server must refuse it.
fn normalise(target: &str) -> Option<Vec<u8>> {
    if !target.starts_with('/') || !target.is_ascii() || target.contains('#') {
        return None;
    }
    let mut decoded = Vec::new();
    let mut bytes = target.split('?').next()?.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok().filter(|byte| *byte != 0)?
            }
            byte => byte,
        });
    }
    let mut kept: Vec<&[u8]> = Vec::new();
    let segments: Vec<&[u8]> = decoded.split(|byte| *byte == b'/').collect();
    for segment in &segments {
        match *segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()?),
            name => kept.push(name),
        }
    }
    let is_directory = matches!(segments.last(), Some(&(b"" | b"." | b"..")));
    let mut path: Vec<u8> = kept.iter().flat_map(|name| [b"/", *name].concat()).collect();
    if is_directory || path.is_empty() {
        path.push(b'/');
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::access_log::parse;

    fn entry(method: &str, target: &str, status: u16, bytes: &str) -> Entry {
        let line = format!("192.0.2.1 - - [x] \"{method} {target} HTTP/1.1\" {status} {bytes} \"-\" \"-\"");
        parse(&line).unwrap()
    }

    fn status(site: &Site, method: &str, target: &str, logged: u16) -> u16 {
        site.expect(&entry(method, target, logged, "5")).status
    }

    #[test]
    fn paths_are_normalised() {
        assert_eq!(normalise("//a/./b/../%63?q=1").unwrap(), b"/a/c");
        assert_eq!(normalise("/a/..").unwrap(), b"/");
        for refused in ["/%zz", "/%", "/%00", "/..", "a", "/a#b"] {
            assert_eq!(normalise(refused), None, "{refused}");
        }
    }

    #[test]
    fn a_log_implies_a_site() {
        let site = Site::from_log(&[
            entry("GET", "/a", 200, "10"),
            entry("GET", "/a?x", 200, "10"),
            entry("GET", "/a", 200, "20"),
            entry("GET", "/a/b", 304, "-"),
            entry("GET", "/presentations/x/", 200, "7"),
            entry("GET", "/gone", 404, "9"),
        ]);
        assert_eq!((site.collisions, site.unknown, site.file_count(), site.page_count()), (1, 1, 2, 1));
        assert_eq!(status(&site, "GET", "/a", 200), 301);
        assert_eq!(site.expect(&entry("GET", "/a/", 200, "1")).length, Some(10));
        assert_eq!(status(&site, "GET", "/a/b", 304), 304);
        assert_eq!(status(&site, "GET", "/a/b", 416), 416);
        assert_eq!(site.expect(&entry("GET", "/a/b", 206, "5")).length, Some(5));
        assert_eq!(status(&site, "POST", "/a/b", 200), 405);
        assert_eq!(status(&site, "GET", "/gone", 404), 404);
        assert_eq!(status(&site, "GET", "/", 200), 404);
        assert_eq!(site.expect(&entry("GET", "/presentations/x/", 304, "-")).length, Some(7));
        assert_eq!(status(&site, "GET", "/presentations/y", 200), 404);
    }
}
