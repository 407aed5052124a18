//! Threads that share a store, and how fast it is.

use std::sync::atomic::AtomicU64;
use std::time::Instant;

use super::*;

/// Each thread puts, removes and looks for keys of all, and does its jobs: what is found was not removed before it was asked for.
#[test]
fn threads_share_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { entries_max: 30, bytes_max: 40 * 4096, ..settings(directory.path()) };
    let table = Table::create(30, 1).unwrap();
    let stores = [open(&settings, &table), open(&settings, &table)];
    for store in &stores {
        run(store.rebuild(NOW));
    }
    const KEYS: u64 = 40;
    // Of each key, what was put before that number was removed.
    let removed: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let next = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (store, removed, next) = (&stores[thread as usize % 2], &removed, &next);
            scope.spawn(move || {
                for turn in 0..700_u64 {
                    let key = (turn * 11 + thread * 17) % KEYS;
                    let text = format!("{key}");
                    match (turn + thread) % 4 {
                        0 | 1 => {
                            let number = next.fetch_add(1, SeqCst);
                            let fetch = store.fetch(&store.key(text.as_bytes()));
                            let body = vec![number as u8; (number % 5000) as usize];
                            let (_, job) = store.put(&fetch, head(&number.to_string(), &[]), body.into());
                            job.map(run);
                        }
                        2 => {
                            let floor = removed[key as usize].load(SeqCst);
                            let Some(entry) = get(store, &text) else { continue };
                            let number = entry.head.fields.all().get(b"x-value").unwrap();
                            let number: u64 = std::str::from_utf8(number).unwrap().parse().unwrap();
                            assert!(number >= floor, "{number} was removed, at {floor}");
                            assert!(bytes_of(&entry.body) == vec![number as u8; (number % 5000) as usize]);
                        }
                        _ => {
                            let number = next.load(SeqCst);
                            let outcome = run(store.remove(&store.key(text.as_bytes())));
                            assert!(matches!(outcome, Outcome::Purged { failed: None, .. }));
                            removed[key as usize].fetch_max(number, SeqCst);
                        }
                    }
                }
            });
        }
    });
    drop(stores);
    let store = open(&settings, &table);
    run(store.rebuild(NOW));
    let counts = store.counts();
    assert!(counts.entries <= 30 && files(directory.path()) as u64 <= counts.entries, "{counts:?}");
}

/// How long it takes to find something: `cargo test --release -- --ignored --nocapture how_fast`.
#[test]
#[ignore = "it only measures"]
fn how_fast() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings {
        entries_max: 1 << 20,
        bytes_max: 1 << 40,
        memory_bytes_max: 256 << 20,
        inline_bytes_max: 64 << 10,
        files_max: 1000,
        ..settings(directory.path())
    };
    let table = Table::create(1 << 20, 1).unwrap();
    let store = open(&settings, &table);
    let count = 100_000_u32;
    let text = |number: u32| format!("https://www.example.com/path/of/some/length/{number}.html");
    let each = |start: Instant| start.elapsed() / count;
    let start = Instant::now();
    for number in 0..count {
        put(&store, &text(number), "v", 1000);
    }
    println!("{:?} to put one, with its file", each(start));
    let keys: Vec<Key> = (0..count).map(|number| store.key(text(number).as_bytes())).collect();
    let time = |what: &str, store: &Store, keys: &mut dyn Iterator<Item = &Key>, hot: bool| {
        let start = Instant::now();
        keys.for_each(|key| assert_eq!(matches!(store.find(key, NOW), Found::Entry(_)), hot));
        println!("{:?} to find {what}", each(start));
    };
    time("what is hot", &store, &mut keys.iter(), true);
    time("the hottest", &store, &mut keys.iter().take(1).cycle().take(count as usize), true);
    let other = open(&settings, &table);
    let start = Instant::now();
    run(other.rebuild(NOW));
    println!("{:?} for a process that takes over, in all", start.elapsed());
    time("that it is on the disk", &other, &mut keys.iter(), false);
    let start = Instant::now();
    for number in 0..count {
        assert!(get(&other, &text(number)).is_some());
    }
    println!("{:?} to load one", each(start));
    let start = Instant::now();
    let missing: Vec<Key> = (count..2 * count).map(|number| store.key(text(number).as_bytes())).collect();
    println!("{:?} to make a key", each(start));
    time("nothing", &other, &mut missing.iter(), false);
    let fresh = open(&settings, &Table::create(1 << 20, 1).unwrap());
    let start = Instant::now();
    run(fresh.rebuild(NOW));
    println!("{:?} to read the directory into a new table", start.elapsed());
    assert_eq!(fresh.counts().entries + fresh.counts().evictions, u64::from(count));
    let start = Instant::now();
    assert!(matches!(
        run(fresh.purge(Purge::Tag(b"none".as_slice().into()), false).unwrap()),
        Outcome::Purged { .. }
    ));
    println!("{:?} to test all against a rule", start.elapsed());
}
