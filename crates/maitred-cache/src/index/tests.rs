use std::time::Instant;

use super::*;
use crate::key::Seed;
use crate::table::CONFIRMED;

const SEED: Seed = Seed(3, 4);

fn record(number: u64) -> Record {
    let hash = SEED.hash(&number.to_le_bytes());
    Record { hash, file: number + 1, blocks: 1, keep_until: u32::MAX }
}

fn insert(index: &Index, number: u64, gone: &mut Vec<u64>) {
    let room = Room { blocks: 1, entries: 1 };
    assert!(index.reserve(room, |record| gone.push(record.file)));
    let (_, victim) = index.insert(&record(number), room, CONFIRMED);
    gone.extend(victim.map(|victim| victim.file));
}

#[test]
fn a_million_entries_take_less_than_120_bytes_each() {
    const ENTRIES: u32 = 1_000_000;
    let index = Index::new(Table::create(ENTRIES, 1).unwrap(), u64::MAX, ENTRIES);
    let each = index.memory_bytes() as f64 / f64::from(ENTRIES);
    println!("{each:.1} bytes for each entry");
    assert!(each <= 120.0);
}

#[test]
fn nearly_all_that_a_table_is_for_has_a_place() {
    const ENTRIES: u32 = 100_000;
    let table = Table::create(ENTRIES, 1).unwrap();
    let file = table.file().try_clone_to_owned().unwrap();
    let index = Index::new(table, u64::MAX, ENTRIES);
    let mut gone = Vec::new();
    let start = Instant::now();
    (0..u64::from(ENTRIES)).for_each(|number| insert(&index, number, &mut gone));
    println!("{} have no place; {:?} to enter all", gone.len(), start.elapsed());
    assert!(gone.len() < ENTRIES as usize / 400, "{}", gone.len());
    let other = Index::new(Table::open(file).unwrap(), u64::MAX, ENTRIES);
    let start = Instant::now();
    other.attach();
    println!("{:?} for another process to know them", start.elapsed());
    assert_eq!(other.held(), index.held());
    assert_eq!(index.held().0 as usize, ENTRIES as usize - gone.len());
}

#[test]
fn the_order_of_another_process_is_the_same() {
    let table = Table::create(100, 1).unwrap();
    let file = table.file().try_clone_to_owned().unwrap();
    let index = Index::new(table, 100 * BLOCK_BYTES, 100);
    let mut gone = Vec::new();
    (0..100).for_each(|number| insert(&index, number, &mut gone));
    for number in [3, 5] {
        let (place, _) = index.table.find(record(number).hash).unwrap();
        index.table.touch(place);
    }
    let other = Index::new(Table::open(file).unwrap(), 100 * BLOCK_BYTES, 100);
    other.attach();
    gone.clear();
    (100..105).for_each(|number| insert(&other, number, &mut gone));
    assert_eq!(gone, [1, 2, 3, 5, 7], "the oldest ones that nobody has asked for");
    assert!(other.held().0 <= 100);
}

#[test]
fn room_that_is_reserved_is_nobody_elses() {
    let index = Index::new(Table::create(100, 1).unwrap(), 10 * BLOCK_BYTES, 100);
    let room = |blocks| Room { blocks, entries: 1 };
    assert!(index.reserve(room(6), |_| ()));
    assert!(!index.reserve(room(5), |_| ()));
    assert!(index.reserve(room(4), |_| ()));
    index.release(room(6));
    let mut gone = Vec::new();
    (0..6).for_each(|number| insert(&index, number, &mut gone));
    assert!(gone.is_empty());
    insert(&index, 6, &mut gone);
    assert_eq!((gone.len(), index.held()), (1, (6, 6)));
}

/// Threads enter, look, touch and remove at once: what is found is what was entered, and the sums are right at last.
#[test]
fn threads_share_an_index() {
    let index = Index::new(Table::create(200, 1).unwrap(), 150 * BLOCK_BYTES, 200);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let index = &index;
            scope.spawn(move || {
                let mut gone = Vec::new();
                for turn in 0..3000 {
                    let number = (turn * 7 + thread * 13) % 400;
                    match turn % 5 {
                        0 | 1 => insert(index, number, &mut gone),
                        2 => index.table.withdraw(record(number).hash),
                        3 => index.forget(record(number).hash, u64::MAX),
                        _ => {
                            let found = index.table.find(record(number).hash);
                            assert!(found.is_none_or(|(_, found)| found == record(number)));
                        }
                    }
                }
            });
        }
    });
    assert!(index.held().0 <= 150 && index.held().1 <= 150);
    let mut count = 0;
    while index.reserve(Room { blocks: 150, entries: 1 }, |_| count += 1) {
        index.release(Room { blocks: 150, entries: 1 });
        if index.held().0 == 0 {
            break;
        }
    }
    assert_eq!(index.held(), (0, 0));
    assert!(count <= 150);
}
