//! Files that are not in the page cache: the thread of an event loop must not read them.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use maitred_http::request::{Known, List};
use maitred_sys::page_cache::cachestat;
use rustix::fs::{Advice, fadvise};

use super::super::FileSet;
use super::super::testing::{Bench, INLINE_BYTES_MAX, files, limits};
use super::put;
use maitred_config::{Coding, Files, Limits};

/// Large enough that no disk has read it between two system calls: asking for a page starts its reading.
const BYTES: usize = 1 << 20;

/// So often a cold file is asked for: it has to wait nearly each time.
const TRIES: usize = 50;

/// A directory on a disk, as hier(7) requires of `/var/tmp`; elsewhere nothing is ever cold.
fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

/// A bench that keeps files of [`BYTES`] in memory.
fn roomy_bench(files: Files) -> Bench {
    let limits = Limits { inline_file_bytes_max: BYTES as u32, file_cache_bytes_max: 8 << 20, ..limits() };
    Bench::with_limits(&limits, vec![FileSet::open(files)])
}

/// Drops the pages of a file; whether the kernel did, and says so.
fn chill(path: &Path) -> bool {
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    cachestat(file.as_fd(), 0, 0).is_ok_and(|stat| stat.cached == 0)
}

/// Asks a bench of its own each time for a cold file, until a read has had to wait: where another process has the CPU meanwhile,
/// the disk may have read all of it between two system calls. Gives back the bench of the last time.
fn until_blocked(path: &Path, files: &Files, ask: impl Fn(&mut Bench) -> bool) -> Bench {
    for _ in 0..TRIES {
        let is_cold = chill(path);
        let mut bench = roomy_bench(files.clone());
        if ask(&mut bench) || !is_cold {
            return bench;
        }
    }
    panic!("{} was read {TRIES} times without a wait", path.display());
}

#[test]
fn a_cold_file_is_read_by_a_helper_thread() {
    let root = on_disk();
    let text = "x".repeat(BYTES);
    put(root.path(), "a", &text);
    let mut bench = until_blocked(&root.path().join("a"), &files(root.path()), |bench| {
        let answer = bench.get("/a");
        assert_eq!((answer.status, answer.text() == text), (200, true));
        answer.blocked
    });
    assert!(!bench.get("/a").blocked);
    // What is unchanged is not read again, cold or not.
    chill(&root.path().join("a"));
    bench.pass(Duration::from_secs(2));
    let answer = bench.get("/a");
    assert_eq!((answer.text() == text, answer.blocked), (true, false));
}

#[test]
fn a_cold_sibling_is_read_by_a_helper_thread_too() {
    let root = on_disk();
    let gzip = "z".repeat(BYTES);
    put(root.path(), "a", "plain");
    put(root.path(), "a.gz", &gzip);
    let served = Files { precompressed: vec![Coding::Gzip], ..files(root.path()) };
    until_blocked(&root.path().join("a.gz"), &served, |bench| {
        let answer = bench.ask(b"/a", Known { accept_encoding: List::of(b"gzip"), ..Known::default() });
        assert!(answer.text() == gzip);
        answer.blocked
    });
}

#[test]
fn a_cold_large_file_is_left_to_whoever_sends_it() {
    let root = on_disk();
    let large = "x".repeat(INLINE_BYTES_MAX as usize + 1);
    put(root.path(), "a", &large);
    chill(&root.path().join("a"));
    let answer = Bench::of(files(root.path())).get("/a");
    assert_eq!((answer.streamed, answer.blocked, answer.text() == large), (true, false, true));
}

#[test]
fn a_name_that_was_never_looked_up_is_looked_up_by_a_helper_thread() {
    let root = on_disk();
    let mut bench = Bench::of(files(root.path()));
    let (first, second) = (bench.get("/never"), bench.get("/never"));
    assert_eq!((first.status, second.status), (404, 404));
    assert!(!second.blocked || first.blocked, "the second look-up is answered from memory");
}
