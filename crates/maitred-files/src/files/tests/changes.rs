//! Files that change while they are served, and what the cache makes of it.

use std::fs::{self, File};
use std::io::Write;
use std::time::{Duration, SystemTime};

use super::super::FileSet;
use super::super::cache::FRESH_FOR;
use super::super::testing::{Bench, INLINE_BYTES_MAX, files, limits};
use super::{put, tree};
use crate::Served;
use maitred_config::Limits;

const LATER: Duration = Duration::from_millis(1001);

#[test]
fn a_hit_asks_nobody_for_a_second() {
    let root = tree(&[("a", "old"), ("b", "stays")]);
    let mut bench = Bench::of(files(root.path()));
    assert_eq!((bench.get("/a").text(), bench.get("/b").text()), ("old", "stays"));
    put(root.path(), "a", "newer");
    bench.pass(FRESH_FOR);
    assert_eq!(bench.get("/a").text(), "old");
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.get("/a").text(), "newer");
    fs::remove_file(root.path().join("a")).unwrap();
    bench.pass(LATER);
    assert_eq!((bench.get("/a").status, bench.get("/b").text()), (404, "stays"));
    put(root.path(), "a", "again");
    assert_eq!(bench.get("/a").text(), "again", "that something is missing is not remembered");
}

#[test]
fn an_unchanged_file_keeps_its_entry_and_its_descriptor() {
    let large = "x".repeat(INLINE_BYTES_MAX as usize + 1);
    let root = tree(&[("a", &large)]);
    let mut bench = Bench::of(files(root.path()));
    let mut inode_of_descriptor = || {
        let served = bench.once(b"/a", Default::default(), true, &mut Vec::new());
        bench.pass(LATER);
        let Served::Streaming(_, mut segments) = served else { panic!("not streamed") };
        match segments.pop_front() {
            Some(crate::Segment::File { file, .. }) => file,
            other => panic!("{other:?}"),
        }
    };
    let (first, second) = (inode_of_descriptor(), inode_of_descriptor());
    assert!(std::rc::Rc::ptr_eq(&first, &second));
    assert_eq!(bench.server.cache.held().1, 1);
}

#[test]
fn a_change_that_the_clock_of_the_filesystem_hides_is_seen() {
    let root = tree(&[("a", "one")]);
    let path = root.path().join("a");
    let stamp = SystemTime::now() + Duration::from_secs(3600);
    let write = |text: &str| {
        let mut file = File::create(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.set_modified(stamp).unwrap();
    };
    // The bench's clock is an hour ahead too: the file has just been written, as far as it knows.
    write("one");
    let mut bench = Bench::of(files(root.path()));
    assert_eq!(bench.get("/a").text(), "one");
    write("two");
    bench.pass(LATER);
    assert_eq!(bench.get("/a").text(), "two");
}

#[test]
fn a_date_in_the_future_is_not_sent() {
    let root = tree(&[("a", "one")]);
    let file = File::options().write(true).open(root.path().join("a")).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(100_000)).unwrap();
    let answer = Bench::of(files(root.path())).get("/a");
    assert_eq!((answer.status, answer.field("Last-Modified")), (200, None));
    assert!(answer.field("ETag").is_some());
}

#[test]
fn a_file_that_becomes_a_directory_becomes_one() {
    let root = tree(&[("a", "file")]);
    let mut bench = Bench::of(files(root.path()));
    assert_eq!(bench.get("/a").text(), "file");
    fs::remove_file(root.path().join("a")).unwrap();
    put(root.path(), "a/index.html", "directory");
    bench.pass(LATER);
    assert_eq!((bench.get("/a").status, bench.get("/a/").text()), (301, "directory"));
}

#[test]
fn a_file_that_grows_or_shrinks_all_the_time_is_answered_whole() {
    let root = tree(&[("log", "")]);
    let path = root.path().join("log");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::options().append(true).open(&path).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                file.write_all(b"line\n").unwrap();
                if file.metadata().unwrap().len() > u64::from(INLINE_BYTES_MAX) / 2 {
                    file.set_len(0).unwrap();
                }
            }
        });
        let mut bench = Bench::of(files(root.path()));
        for _ in 0..300 {
            // Every answer's length is what its head says: the bench checks it.
            let answer = bench.get("/log");
            assert!(matches!(answer.status, 200 | 503), "{}", answer.status);
            bench.pass(LATER);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn the_cache_keeps_within_its_budgets() {
    let large = "x".repeat(INLINE_BYTES_MAX as usize + 1);
    let root = tree(&[]);
    for nth in 0..40 {
        put(root.path(), &format!("large{nth}"), &large);
        put(root.path(), &format!("small{nth}"), "small");
    }
    let limits = Limits { file_cache_bytes_max: 8192, file_cache_files_max: 3, ..limits() };
    let mut bench = Bench::with_limits(&limits, vec![FileSet::open(files(root.path()))]);
    for _ in 0..2 {
        for nth in 0..40 {
            assert_eq!(bench.get(&format!("/large{nth}")).body.len(), large.len());
            assert_eq!(bench.get(&format!("/small{nth}")).text(), "small");
            let (bytes, descriptors, entries) = bench.server.cache.held();
            assert!(bytes <= 8192 && descriptors <= 3 && entries > 0, "{bytes} {descriptors} {entries}");
        }
    }
}

#[test]
fn without_a_cache_everything_still_works() {
    let root = tree(&[("a", "hello")]);
    let limits = Limits { file_cache_bytes_max: 0, file_cache_files_max: 0, ..limits() };
    let mut bench = Bench::with_limits(&limits, vec![FileSet::open(files(root.path()))]);
    for _ in 0..3 {
        assert_eq!(bench.get("/a").text(), "hello");
    }
}
