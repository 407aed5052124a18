use std::path::Path;

use maitred_http::fields::FieldLines;

use super::super::entry::{BODY_OFFSET, Kind};
use super::super::job::Outcome;
use super::*;

mod threads;
mod worlds;

const NOW: u64 = 1_000_000;

pub(super) fn settings(directory: &Path) -> Settings {
    Settings {
        directory: directory.to_owned(),
        bytes_max: 1 << 20,
        entries_max: 100,
        memory_bytes_max: 1 << 20,
        inline_bytes_max: 2048,
        files_max: 16,
    }
}

pub(super) fn open(settings: &Settings, table: &Table) -> Store {
    Store::open(settings.clone(), table.file().try_clone_to_owned().unwrap()).unwrap()
}

/// What a job ends with, when all of its parts are done.
pub(super) fn run(job: Job) -> Outcome {
    match job.run() {
        Outcome::Again(job) => run(job),
        outcome => outcome,
    }
}

pub(super) fn head(value: &str, tags: &[&str]) -> Head {
    let mut fields = FieldLines::default();
    fields.push(b"x-value", value.as_bytes());
    let tags = tags.iter().map(|tag| tag.as_bytes().into()).collect();
    Head { status: 200, fields, lifetime: [7; 8], keep_until: 2 * NOW, tags, ..Head::default() }
}

fn put(store: &Store, key: &str, value: &str, bytes: usize) -> Arc<Entry> {
    let fetch = store.fetch(&store.key(key.as_bytes()));
    let (entry, job) = store.put(&fetch, head(value, &[value]), vec![b'x'; bytes].into());
    assert!(matches!(run(job.unwrap()), Outcome::Done));
    entry
}

/// What is found, from memory or from the disk.
pub(super) fn get(store: &Store, key: &str) -> Option<Arc<Entry>> {
    match store.find(&store.key(key.as_bytes()), NOW) {
        Found::Entry(entry) => Some(entry),
        Found::OnDisk(job) => match run(job) {
            Outcome::Loaded(entry) => entry.unwrap(),
            outcome => panic!("{outcome:?}"),
        },
        Found::Nothing | Found::Pass => None,
    }
}

fn value(store: &Store, key: &str) -> Option<String> {
    let entry = get(store, key)?;
    Some(String::from_utf8(entry.head.fields.all().get(b"x-value")?.to_vec()).unwrap())
}

pub(super) fn bytes_of(body: &Body) -> Vec<u8> {
    match body {
        Body::Memory(bytes) => bytes.to_vec(),
        Body::File { file, offset, len } => {
            let mut bytes = Vec::new();
            super::super::disk::read_at(file, &mut bytes, *len as usize, *offset).unwrap();
            bytes
        }
    }
}

fn is_hot(store: &Store, key: &str) -> bool {
    matches!(store.find(&store.key(key.as_bytes()), NOW), Found::Entry(_))
}

fn files(directory: &Path) -> usize {
    let folders =
        std::fs::read_dir(directory).unwrap().filter_map(|folder| folder.unwrap().path().read_dir().ok());
    folders.flatten().filter(|file| file.as_ref().unwrap().file_name().len() == 32).count()
}

#[test]
fn what_is_put_is_found_now_and_later_and_by_other_processes() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let table = Table::create(100, 1).unwrap();
    let store = open(&settings, &table);
    assert!(get(&store, "a").is_none());
    let fetch = store.fetch(&store.key(b"a"));
    let (entry, job) = store.put(&fetch, head("1", &[]), b"body".as_slice().into());
    assert!(is_hot(&store, "a"), "before it has a file");
    assert_eq!(files(directory.path()), 0);
    run(job.unwrap());
    put(&store, "b", "2", 5000);
    assert!(is_hot(&store, "b"), "a large one is, by its file");
    assert_eq!(files(directory.path()), 2);
    for (store, what) in [
        (open(&settings, &table), "with its table"),
        (open(&settings, &Table::create(100, 1).unwrap()), "with a new one"),
        (open(&settings, &Table::create(100, 2).unwrap()), "after another start of the system"),
    ] {
        assert!(!is_hot(&store, "a"));
        assert!(matches!(run(store.rebuild(NOW)), Outcome::Done));
        let found = get(&store, "a").unwrap();
        assert_eq!((&found.head, bytes_of(&found.body)), (&entry.head, b"body".to_vec()), "{what}");
        assert_eq!((found.key(), found.is_soft_purged()), (&b"a"[..], false));
        assert!(is_hot(&store, "a"));
        let large = get(&store, "b").unwrap();
        assert_eq!(bytes_of(&large.body), vec![b'x'; 5000], "{what}");
        assert!(matches!(large.body, Body::File { offset: BODY_OFFSET, len: 5000, .. }));
        let counts = store.counts();
        assert_eq!((counts.entries, counts.bytes, counts.rebuilt), (2, 3 * 4096, 257), "{what}");
        assert_eq!(counts.broken, 0);
        assert!(matches!(store.find(&store.key(b"a"), 2 * NOW), Found::Nothing), "it is of no use any more");
    }
}

#[test]
fn a_response_is_written_as_it_comes() {
    for named in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(directory.path());
        let store = open(&settings, &Table::create(100, 1).unwrap());
        if named {
            store.core.directory.use_names();
        }
        let begin = || store.begin(&store.fetch(&store.key(b"a"))).unwrap();
        let mut writing = begin();
        assert!(writing.file().is_none() && writing.len() == 0);
        for _ in 0..10 {
            writing.append(&[b'y'; 1000]).unwrap();
        }
        assert_eq!(writing.len(), 10_000);
        let file = Arc::clone(writing.file().unwrap());
        let so_far = Body::File { file, offset: BODY_OFFSET, len: writing.len() };
        assert_eq!(bytes_of(&so_far), [b'y'; 10_000]);
        assert!(get(&store, "a").is_none());
        let entry = writing.finish(head("1", &[])).unwrap();
        assert_eq!(bytes_of(&entry.body), [b'y'; 10_000]);
        assert!(is_hot(&store, "a"));
        let mut abandoned = begin();
        abandoned.append(b"zzz").unwrap();
        run(abandoned.into());
        assert_eq!(bytes_of(&get(&store, "a").unwrap().body), [b'y'; 10_000]);
        let names = |folder: std::fs::DirEntry| folder.path().read_dir().ok().map(Iterator::count);
        let all: usize =
            std::fs::read_dir(directory.path()).unwrap().filter_map(|folder| names(folder.unwrap())).sum();
        assert_eq!(all, 1, "nothing is left of what was abandoned");
        let small = {
            let mut writing = begin();
            writing.append(b"small").unwrap();
            writing.finish(head("2", &[])).unwrap()
        };
        assert!(matches!(&small.body, Body::Memory(bytes) if **bytes == *b"small"));
        assert_eq!(value(&store, "a").as_deref(), Some("2"));
        let other = open(&settings, &Table::create(100, 1).unwrap());
        run(other.rebuild(NOW));
        assert_eq!(value(&other, "a").as_deref(), Some("2"));
        assert_eq!(other.counts().entries, 1);
    }
}

#[test]
fn a_response_that_is_good_still_gets_another_head() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let table = Table::create(100, 1).unwrap();
    let store = open(&settings, &table);
    for bytes in [10, 5000] {
        let mut entry = put(&store, "a", "0", bytes);
        for nth in 1..150 {
            let fetch = store.fetch(&store.key(b"a"));
            let (new, job) = store.update(&fetch, &entry, head(&nth.to_string(), &[]));
            assert_eq!(value(&store, "a"), Some(nth.to_string()));
            assert!(matches!(run(job.unwrap()), Outcome::Done));
            let other = open(&settings, &table);
            assert_eq!(value(&other, "a"), Some(nth.to_string()));
            assert_eq!(bytes_of(&get(&other, "a").unwrap().body), vec![b'x'; bytes]);
            entry = new;
        }
        assert_eq!(files(directory.path()), 1);
        let counts = store.counts();
        assert!(counts.bytes <= 4096 * 10, "heads do not pile up: {counts:?}");
    }
}

#[test]
fn what_is_removed_is_not_found_and_what_was_asked_for_before_is_not_stored() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let table = Table::create(100, 1).unwrap();
    let (store, other) = (open(&settings, &table), open(&settings, &table));
    for store in [&store, &other] {
        run(store.rebuild(NOW));
    }
    let entry = put(&store, "a", "1", 10);
    assert_eq!(value(&other, "a").as_deref(), Some("1"));
    let key = store.key(b"a");
    let before = store.fetch(&key);
    let mut writing = store.begin(&before).unwrap();
    writing.append(b"x").unwrap();
    let (_, pending) = store.put(&before, head("2", &[]), b"x".as_slice().into());
    let remove = store.remove(&key);
    assert!(value(&store, "a").is_none() && value(&other, "a").is_none(), "in all processes at once");
    let (_, late) = store.put(&before, head("3", &[]), b"x".as_slice().into());
    assert!(value(&store, "a").is_none());
    let after = store.fetch(&key);
    let (_, good) = store.put(&after, head("4", &[]), b"x".as_slice().into());
    assert_eq!(value(&store, "a").as_deref(), Some("4"));
    for job in [pending, late, good] {
        run(job.unwrap());
    }
    assert_eq!(writing.finish(head("5", &[])).unwrap().head, head("5", &[]), "it can be served");
    assert!(matches!(run(remove), Outcome::Purged { files: 0, failed: None }), "it has another file by now");
    let (_, update) = store.update(&store.fetch(&key), &entry, head("6", &[]));
    assert!(update.is_none(), "of an entry that was removed");
    for store in [&store, &other, &open(&settings, &table)] {
        assert_eq!(value(store, "a").as_deref(), Some("4"));
    }
    assert!(matches!(run(store.remove(&key)), Outcome::Purged { files: 1, failed: None }));
    assert_eq!(files(directory.path()), 0);
}

#[test]
fn purges_hold_at_once_and_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let table = Table::create(100, 1).unwrap();
    let text = |text: &str| text.as_bytes().into();
    let purges = [
        (Purge::Exact(text("http://a/1")), 1),
        (Purge::Prefix(text("http://a/")), 2),
        (Purge::Host(text("A")), 2),
        (Purge::Tag(text("2")), 1),
        (Purge::All, 4),
    ];
    for (purge, count) in purges {
        for soft in [false, true] {
            let (store, other) = (open(&settings, &table), open(&settings, &table));
            let keys = ["http://a/1", "http://a/2", "http://ab/3", "https://b/4"];
            for (key, nth) in keys.iter().zip(1..) {
                put(&store, key, &nth.to_string(), if nth == 2 { 5000 } else { 10 });
                assert!(get(&other, key).is_some_and(|entry| !entry.is_soft_purged()));
            }
            let job = store.purge(purge.clone(), soft).unwrap();
            let found =
                |store: &Store, key: &&str| get(store, key).is_some_and(|entry| !entry.is_soft_purged());
            let there = |store: &Store| keys.iter().filter(|key| found(store, key)).count();
            let all = |store: &Store| keys.iter().filter(|key| get(store, key).is_some()).count();
            let (fresh, stale) = (4 - count, if soft { 4 } else { 4 - count });
            assert_eq!((there(&store), all(&store)), (fresh, stale), "{purge:?} {soft}");
            assert!(matches!(run(job), Outcome::Purged { files, failed: None } if files == count as u64));
            for store in [&store, &other, &open(&settings, &table)] {
                assert_eq!((there(store), all(store)), (fresh, stale), "{purge:?} {soft}");
            }
            let rebuilt = open(&settings, &Table::create(100, 1).unwrap());
            run(rebuilt.rebuild(NOW));
            assert_eq!((there(&rebuilt), all(&rebuilt)), (fresh, stale), "{purge:?} {soft}");
            assert_eq!(directory.path().join("purges").read_dir().map_or(0, Iterator::count), 0);
            if soft {
                let entry = get(&store, keys[0]).unwrap();
                let fetch = store.fetch(&store.key(keys[0].as_bytes()));
                let (new, job) = store.update(&fetch, &entry, head("9", &[]));
                assert!(!new.is_soft_purged(), "it is fresh again");
                run(job.unwrap());
                let other = open(&settings, &table);
                assert!(!get(&other, keys[0]).unwrap().is_soft_purged());
            }
        }
    }
}

#[test]
fn a_purge_that_a_process_has_left_is_finished_by_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let table = Table::create(100, 1).unwrap();
    let store = open(&settings, &table);
    for key in ["a/1", "a/2", "b/1"] {
        put(&store, key, "1", 10);
    }
    let job = store.purge(Purge::Prefix(b"a/".as_slice().into()), false).unwrap();
    assert!(matches!(job.run(), Outcome::Again(_)), "its rule is written");
    drop(store);
    for table in [&table, &Table::create(100, 1).unwrap()] {
        let store = open(&settings, table);
        assert!(get(&store, "a/1").is_none());
    }
    assert_eq!(files(directory.path()), 3);
    let store = open(&settings, &table);
    assert!(matches!(run(store.rebuild(NOW)), Outcome::Done));
    assert_eq!(files(directory.path()), 1);
    assert_eq!(directory.path().join("purges").read_dir().unwrap().count(), 0);
    assert!(get(&store, "a/1").is_none() && get(&store, "b/1").is_some());
}

#[test]
fn the_bounds_hold_and_what_is_asked_for_stays() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { bytes_max: 50 * 4096, entries_max: 30, ..settings(directory.path()) };
    let table = Table::create(30, 1).unwrap();
    let store = open(&settings, &table);
    run(store.rebuild(NOW));
    for nth in 0..300 {
        put(&store, "popular", "p", 10).key();
        assert!(get(&store, "popular").is_some());
        put(&store, &format!("{nth}"), "x", if nth % 3 == 0 { 9000 } else { 10 });
        let counts = store.counts();
        assert!(counts.entries <= 30 && counts.bytes <= 50 * 4096, "{counts:?}");
        assert_eq!(files(directory.path()) as u64, counts.entries);
    }
    assert!(store.counts().evictions > 200);
    let mut large = store.begin(&store.fetch(&store.key(b"large"))).unwrap();
    let too_large = (0..60).find_map(|_| large.append(&[0; 4096]).err()).unwrap();
    assert_eq!(too_large.error.kind(), io::ErrorKind::FileTooLarge);
    assert!(too_large.off_for.is_none());
    drop(large);
    put(&store, "again", "x", 10);
    let (_, job) = store.put(&store.fetch(&store.key(b"l")), head("l", &[]), vec![0; 60 * 4096].into());
    run(job.unwrap());
    assert!(get(&store, "l").is_none());
}

#[test]
fn what_is_not_to_be_stored_is_known_for_a_while() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&settings(directory.path()), &Table::create(100, 1).unwrap());
    let key = store.key(b"a");
    store.pass(&key, NOW + 10);
    assert!(matches!(store.find(&key, NOW + 9), Found::Pass));
    assert!(matches!(store.find(&key, NOW + 10), Found::Nothing));
    put(&store, "a", "1", 1);
    assert!(is_hot(&store, "a"));
}

#[test]
fn a_note_of_varying_is_an_entry() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let table = Table::create(100, 1).unwrap();
    let store = open(&settings, &table);
    let kind = Kind::Vary { names: vec![b"accept".as_slice().into()], epoch: store.epoch() };
    assert_ne!(store.epoch(), store.epoch());
    let head = Head { kind, keep_until: 2 * NOW, ..Head::default() };
    let (_, job) = store.put(&store.fetch(&store.key(b"a")), head.clone(), Arc::from([]));
    run(job.unwrap());
    assert_eq!(get(&open(&settings, &table), "a").unwrap().head, head);
}

#[test]
fn a_full_disk_turns_storing_off_and_hits_go_on() {
    use super::super::disk::faults::Fault;
    use rustix::io::Errno;

    let directory = tempfile::tempdir().unwrap();
    let store = open(&settings(directory.path()), &Table::create(100, 1).unwrap());
    put(&store, "a", "1", 5000);
    store.core.directory.faults.plan(1, Fault::Once(Errno::NOSPC), 100);
    let (_, job) = store.put(&store.fetch(&store.key(b"b")), head("2", &[]), b"x".as_slice().into());
    let Outcome::Trouble(trouble) = run(job.unwrap()) else { panic!() };
    assert!(trouble.off_for.is_some() && trouble.error.kind() == io::ErrorKind::StorageFull);
    assert!(store.counts().off && store.counts().writes_failed == 1);
    assert!(store.begin(&store.fetch(&store.key(b"c"))).is_none());
    assert_eq!(value(&store, "a").as_deref(), Some("1"));
    assert_eq!(value(&store, "b").as_deref(), Some("2"), "it is hot");
    let (_, job) = store.put(&store.fetch(&store.key(b"b")), head("2", &[]), b"x".as_slice().into());
    assert!(job.is_none());
    assert_eq!(files(directory.path()), 1);
    assert_eq!(store.counts().entries, 1, "nothing stays reserved");
}

#[test]
fn what_is_no_file_of_the_store_is_not_followed_or_opened() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let store = open(&settings, &Table::create(100, 1).unwrap());
    let outside = directory.path().join("outside");
    put(&store, "real", "1", 10);
    let path = |key: &str| {
        let hash = store.key(key.as_bytes()).hash();
        let folder = directory.path().join(format!("{:02x}", hash.folder()));
        let _ = std::fs::create_dir(&folder);
        folder.join(hash.name())
    };
    std::fs::copy(path("real"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, path("link")).unwrap();
    std::fs::create_dir(path("directory")).unwrap();
    std::fs::copy(path("real"), path("copy")).unwrap();
    std::fs::write(path("empty"), b"").unwrap();
    std::fs::File::create(path("holes")).unwrap().set_len(1 << 40).unwrap();
    let fifo = path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    std::fs::write(path("real").with_file_name("README"), b"another program's").unwrap();
    let other = open(&settings, &Table::create(100, 1).unwrap());
    let _ = run(other.rebuild(NOW));
    for key in ["link", "directory", "copy", "empty", "holes", "fifo"] {
        assert!(get(&other, key).is_none(), "{key}");
        put(&other, "real", "2", 10);
    }
    assert!(get(&other, "real").is_some());
    assert!(outside.exists() && path("real").with_file_name("README").exists());
    assert!(!path("copy").exists() && !path("holes").exists());
    assert!(path("directory").exists());
}

/// A worker process may do in its directory what it has to, and nothing else: no right to move files between directories.
#[test]
fn landlock_lets_it_work_in_its_directory() {
    use landlock::AccessFs;
    use maitred_base::sandbox::{Connections, restrict};

    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let table = Table::create(100, 1).unwrap();
    let confined = || {
        let rights = AccessFs::ReadFile
            | AccessFs::ReadDir
            | AccessFs::WriteFile
            | AccessFs::MakeReg
            | AccessFs::MakeDir
            | AccessFs::RemoveFile;
        let status = restrict(&[(&[directory.path()], rights)], Connections::Anywhere).unwrap();
        assert_eq!(std::fs::read_dir("/").is_err(), !status.starts_with("off"), "{status}");
        for named in [false, true] {
            let store = open(&settings, &table);
            if named {
                store.core.directory.use_names();
            }
            run(store.rebuild(NOW));
            for value in ["1", "2"] {
                let entry = put(&store, "a", value, 10);
                let (_, job) = store.update(&store.fetch(&store.key(b"a")), &entry, head("3", &[]));
                assert!(matches!(run(job.unwrap()), Outcome::Done));
                assert_eq!(files(directory.path()), 1);
            }
            assert_eq!(store.core.directory.uses_names(), named);
            let purged = run(store.purge(Purge::Tag(b"none".as_slice().into()), false).unwrap());
            assert!(matches!(purged, Outcome::Purged { files: 0, failed: None }), "{purged:?}");
            assert_eq!(value(&open(&settings, &table), "a").as_deref(), Some("3"));
            assert!(matches!(
                run(store.remove(&store.key(b"a"))),
                Outcome::Purged { files: 1, failed: None }
            ));
        }
    };
    // The thread alone is confined.
    std::thread::scope(|scope| scope.spawn(confined).join().unwrap());
    assert!(directory.path().join("state").exists());
}

/// What follows the last whole head of a file hides what is put behind it.
#[test]
fn a_file_with_a_torn_end_is_written_anew() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let table = Table::create(100, 1).unwrap();
    let store = open(&settings, &table);
    let path = |key: &str| {
        let hash = store.key(key.as_bytes()).hash();
        directory.path().join(format!("{:02x}", hash.folder())).join(hash.name())
    };
    let tear = |key: &str| {
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new().append(true).open(path(key)).unwrap();
        file.write_all(b"head of which there is no more").unwrap();
    };
    for bytes in [10, 5000] {
        let entry = put(&store, "a", "1", bytes);
        tear("a");
        let (_, job) = store.update(&store.fetch(&store.key(b"a")), &entry, head("2", &[]));
        assert!(matches!(run(job.unwrap()), Outcome::Done));
        assert_eq!(value(&open(&settings, &table), "a").as_deref(), Some("2"));
        tear("a");
        assert!(matches!(
            run(store.purge(Purge::All, true).unwrap()),
            Outcome::Purged { files: 1, failed: None }
        ));
        let other = open(&settings, &table);
        assert!(get(&other, "a").unwrap().is_soft_purged());
        assert_eq!(bytes_of(&get(&other, "a").unwrap().body), vec![b'x'; bytes]);
    }
}

#[test]
fn of_two_that_are_written_at_once_the_later_one_stays() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let table = Table::create(100, 1).unwrap();
    let store = open(&settings, &table);
    let fetches = [store.fetch(&store.key(b"a")), store.fetch(&store.key(b"a"))];
    let put =
        |nth: usize| store.put(&fetches[nth], head(&nth.to_string(), &[]), b"x".as_slice().into()).1.unwrap();
    let (first, second) = (put(1), put(0));
    assert_eq!(value(&store, "a").as_deref(), Some("0"));
    run(second);
    run(first);
    assert_eq!(value(&store, "a").as_deref(), Some("0"));
    assert_eq!(value(&open(&settings, &table), "a").as_deref(), Some("0"));
}

/// The other process has read no file of a rule yet when it publishes what was asked for before.
#[test]
fn what_another_process_publishes_during_a_purge_is_tested() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    let table = Table::create(100, 1).unwrap();
    for parts in [1, 100, 256, 257] {
        let (store, other) = (open(&settings, &table), open(&settings, &table));
        let fetch = other.fetch(&other.key(b"a"));
        let (_, late) = other.put(&fetch, head("1", &[]), b"x".as_slice().into());
        let mut purge = store.purge(Purge::Prefix(b"a".as_slice().into()), false).unwrap();
        for _ in 0..parts {
            let Outcome::Again(job) = purge.run() else { panic!() };
            purge = job;
        }
        run(late.unwrap());
        assert!(matches!(run(purge), Outcome::Purged { failed: None, .. }));
        for store in [&store, &other, &open(&settings, &table)] {
            assert!(get(store, "a").is_none(), "{parts}");
        }
    }
}
