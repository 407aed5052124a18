//! Against a map; processes that end; and many threads.

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::AtomicU32;

use proptest::prelude::*;

use super::*;
use crate::rates::table::Layout;
use crate::rates::{AddressKey, CONCURRENT_MAX};

fn table(keys_max: u32) -> Table {
    Table::create(Layout { keys_max, rate: false, concurrent: true }).unwrap()
}

fn address(number: u32) -> Key<'static> {
    Key::Address(AddressKey::V4(number))
}

/// How many of so many requests are counted.
fn counted(table: &Table, key: u32, max: u16, process: Process, requests: usize) -> Vec<Place> {
    let enter = |_| match table.enter_up_to(address(key), max, process) {
        Entered::Counted(place) => Some(place),
        _ => None,
    };
    (0..requests).filter_map(enter).collect()
}

fn evicted(table: &Table) -> u64 {
    table.counts().evicted
}

#[test]
fn as_many_as_may_be_are_counted_and_one_more_when_one_has_ended() {
    let table = table(100);
    let process = table.join(7);
    let places = counted(&table, 1, 3, process, 5);
    assert_eq!(places.len(), 3);
    assert_eq!(table.enter_up_to(address(1), 3, process), Entered::Beyond);
    assert_eq!(counted(&table, 2, 3, process, 5).len(), 3, "another key");
    assert_eq!(table.keys(0), 2);
    table.leave(places[0], process);
    assert_eq!(counted(&table, 1, 3, process, 5).len(), 1);
    assert_eq!(counted(&table, 1, CONCURRENT_MAX, process, 10_000).len(), usize::from(CONCURRENT_MAX) - 3);
    assert_eq!(evicted(&table), 0);
}

#[test]
fn what_a_process_leaves_that_was_killed_counts_no_more() {
    let ours = table(100);
    let theirs = Table::open(ours.file().try_clone_to_owned().unwrap()).unwrap();
    let (old, new) = (ours.join(100), theirs.join(101));
    assert_ne!(old, new);
    let first = counted(&ours, 1, 4, old, 2);
    assert_eq!(counted(&theirs, 1, 4, new, 5).len(), 2, "all processes together");
    ours.process_ended(100);
    assert_eq!(counted(&theirs, 1, 4, new, 5).len(), 2);
    // What comes from the other side of its end changes nothing.
    theirs.leave(first[0], old);
    assert_eq!(counted(&theirs, 1, 4, new, 5).len(), 0);
    ours.process_ended(999);
    ours.process_ended(101);
    assert_eq!(counted(&ours, 1, 4, ours.join(102), 5).len(), 4);
    assert_eq!(evicted(&ours), 0);
}

#[test]
fn three_processes_can_have_requests_of_a_key() {
    let table = table(100);
    let processes: Vec<_> = (1..=4).map(|pid| table.join(pid)).collect();
    let places: Vec<_> = processes[..3].iter().map(|process| counted(&table, 1, 9, *process, 2)).collect();
    assert_eq!(places.iter().map(Vec::len).sum::<usize>(), 6);
    assert_eq!(table.enter_up_to(address(1), 9, processes[3]), Entered::Uncounted);
    assert_eq!(table.enter_up_to(address(1), 6, processes[3]), Entered::Beyond);
    assert_eq!(evicted(&table), 1);
    places[1].iter().for_each(|place| table.leave(*place, processes[1]));
    assert_eq!(counted(&table, 1, 9, processes[3], 9).len(), 5);
}

#[test]
fn numbers_of_processes_that_come_again_find_nothing() {
    let table = table(100);
    for pid in 1..1000 {
        let process = table.join(pid);
        let key = address(pid);
        // Killed with two requests under way; and one of each 256 has the same number as another before.
        assert!((0..2).all(|_| matches!(table.enter_up_to(key, 2, process), Entered::Counted(_))), "{pid}");
        assert_eq!(table.enter_up_to(key, 2, process), Entered::Beyond);
        if pid > 256 {
            let before = address(pid - 256);
            let Entered::Counted(place) = table.enter_up_to(before, 1, process) else { panic!("{pid}") };
            table.leave(place, process);
        }
        table.process_ended(pid);
    }
}

#[test]
fn what_was_never_said_to_have_ended_is_forgotten_after_64_others() {
    let table = table(100);
    let lost = table.join(1);
    assert_eq!(counted(&table, 1, 2, lost, 3).len(), 2);
    for pid in 2..=64 {
        let process = table.join(pid);
        assert_eq!(counted(&table, 1, 2, process, 1).len(), 0, "{pid}");
        table.process_ended(pid);
    }
    let last = table.join(65);
    assert_eq!(counted(&table, 1, 2, last, 3).len(), 2);
}

#[test]
fn a_full_table_counts_those_it_has_and_lets_others_pass() {
    // One set.
    let table = table(2);
    let process = table.join(1);
    let places: Vec<_> = (0..5).flat_map(|key| counted(&table, key, 1, process, 2)).collect();
    assert_eq!((places.len(), table.keys(0)), (5, 5));
    assert_eq!(table.enter_up_to(address(100), 1, process), Entered::Uncounted);
    assert_eq!(table.enter_up_to(address(4), 1, process), Entered::Beyond, "no key loses its place");
    assert_eq!(evicted(&table), 1);
    table.leave(places[2], process);
    assert!(matches!(table.enter_up_to(address(100), 1, process), Entered::Counted(_)));
    assert_eq!(table.enter_up_to(address(100), 1, process), Entered::Beyond);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn it_says_what_a_map_says(
        max in 1_u16..5,
        events in prop::collection::vec((0_u32..20, 0_usize..3, prop::bool::ANY), 1..400),
    ) {
        let table = table(10_000);
        let processes: Vec<_> = (1..=3).map(|pid| table.join(pid)).collect();
        let mut model = HashMap::<u32, Vec<(Place, usize)>>::new();
        for (key, process, enters) in events {
            let held = model.entry(key).or_default();
            if enters {
                let expected = held.len() < usize::from(max);
                match table.enter_up_to(address(key), max, processes[process]) {
                    Entered::Counted(place) => {
                        prop_assert!(expected);
                        held.push((place, process));
                    }
                    other => prop_assert_eq!((other, expected), (Entered::Beyond, false)),
                }
            } else if !held.is_empty() {
                let (place, of) = held.swap_remove(process % held.len());
                table.leave(place, processes[of]);
            }
        }
        for (place, of) in model.into_values().flatten() {
            table.leave(place, processes[of]);
        }
        prop_assert_eq!((table.keys(0), table.counts().evicted), (0, 0));
    }
}

/// Has threads enter and leave for a while; no more than `max` of a key are ever under way.
fn race(table: &Table, keys: u32, max: u16, exact: bool) {
    let (threads, rounds) = (4_u32, 3_000);
    let (barrier, process) = (Barrier::new(threads as usize), table.join(1));
    let counts: Vec<_> = (0..keys).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (barrier, counts) = (&barrier, &counts);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..rounds {
                    let key = (round * 7 + thread) % keys;
                    if let Entered::Counted(place) = table.enter_up_to(address(key), max, process) {
                        let count = counts[key as usize].fetch_add(1, SeqCst);
                        assert!(!exact || count < u32::from(max), "{count}");
                        counts[key as usize].fetch_sub(1, SeqCst);
                        table.leave(place, process);
                    }
                }
            });
        }
    });
    assert_eq!(table.keys(0), 0, "nothing is left");
}

#[test]
fn threads_together_count_no_more_than_one_alone() {
    race(&table(10_000), 3, 2, true);
}

#[test]
fn threads_that_fight_for_places_leave_nothing() {
    // One set, and more keys than places.
    race(&table(2), 40, 2, false);
}
