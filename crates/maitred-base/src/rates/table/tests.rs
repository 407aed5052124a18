//! The table against a map that forgets nothing; many threads; and what it costs.

use std::collections::HashMap;
use std::hint::black_box;
use std::os::fd::AsFd;
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// A table of rates.
fn rates(keys_max: u32) -> io::Result<Table> {
    Table::create(of(keys_max))
}

fn of(keys_max: u32) -> Layout {
    Layout { keys_max, rate: true, concurrent: false }
}

fn address(number: u32) -> Key<'static> {
    Key::Address(AddressKey::V4(number))
}

/// The same with a map.
#[derive(Default)]
struct Model(HashMap<u32, u64>);

impl Model {
    fn ask(&mut self, number: u32, rate: &Gcra, now: u64) -> Verdict {
        let arrival = self.0.entry(number).or_insert(0);
        match rate.next(*arrival, now) {
            Next::Pass(next) => {
                *arrival = next;
                Verdict::Pass
            }
            Next::Refuse(wait) => Verdict::Refuse(wait),
            Next::Clamp(_) => unreachable!("one rate only"),
        }
    }
}

#[test]
fn kinds_of_keys_are_counted_apart() {
    let (table, rate) = (rates(100).unwrap(), Gcra::new(1, Duration::from_secs(60), 0));
    let keys = [
        Key::Text(b""),
        Key::Text(b"a"),
        Key::Text(&[0, 0, 0, 0]),
        address(0),
        Key::Address(AddressKey::V6(0)),
        Key::Route(0),
        Key::Route(1),
    ];
    for key in keys {
        assert_eq!(table.ask(key, &rate, SECOND), Verdict::Pass, "{key:?}");
    }
    for key in keys {
        assert_eq!(table.ask(key, &rate, 2 * SECOND), Verdict::Refuse(59 * SECOND), "{key:?}");
    }
    assert_eq!(table.keys(2 * SECOND), keys.len() as u64);
    assert_eq!(table.keys(61 * SECOND), 0);
    assert_eq!(table.counts(), Counts::default());
}

#[test]
fn another_process_sees_what_was_counted() {
    let (ours, rate) = (rates(1000).unwrap(), Gcra::new(1, Duration::from_secs(1), 0));
    let theirs = Table::open(ours.file().try_clone_to_owned().unwrap()).unwrap();
    assert_eq!(ours.ask(address(7), &rate, SECOND), Verdict::Pass);
    assert_eq!(theirs.ask(address(7), &rate, SECOND), Verdict::Refuse(SECOND));
    theirs.note_refused(false);
    theirs.note_refused(true);
    assert_eq!(ours.counts(), Counts { refused: 1, dry_run: 1, evicted: 0 });
    assert!(theirs.is_for(of(1000)) && theirs.is_for(of(999)) && !theirs.is_for(of(1001)));
    for (rate, concurrent) in [(true, true), (false, true), (false, false)] {
        let other = Layout { rate, concurrent, ..of(1000) };
        assert!(!theirs.is_for(other) && Table::create(other).unwrap().is_for(other), "{other:?}");
    }
}

#[test]
fn what_is_no_table_is_refused() {
    for length in [1, 100] {
        let sets = SharedSlice::<Set>::create("test", length).unwrap();
        let error = Table::open(sets.file().as_fd().try_clone_to_owned().unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}

#[test]
fn a_full_table_takes_new_keys_and_forgets_those_that_are_over_soonest() {
    // One set.
    let (table, rate) = (rates(2).unwrap(), Gcra::new(1, Duration::from_secs(10), 0));
    (0..5).for_each(|number| {
        assert_eq!(table.ask(address(number), &rate, u64::from(number) * SECOND + 1), Verdict::Pass);
    });
    assert_eq!((table.keys(9 * SECOND), table.counts().evicted), (5, 0));
    assert_eq!(table.ask(address(100), &rate, 9 * SECOND), Verdict::Pass);
    assert_eq!(table.counts().evicted, 1);
    // The new one begins anew.
    assert_eq!(table.ask(address(100), &rate, 9 * SECOND), Verdict::Refuse(10 * SECOND));
    assert!(matches!(table.ask(address(4), &rate, 9 * SECOND), Verdict::Refuse(_)));
    // What is over is no loss.
    (200..205).for_each(|number| {
        assert_eq!(table.ask(address(number), &rate, 100 * SECOND), Verdict::Pass);
    });
    assert_eq!(table.counts().evicted, 1);
}

#[test]
fn as_many_keys_as_it_is_for_find_a_place() {
    let keys = 100_000;
    let (table, rate) = (rates(keys).unwrap(), Gcra::new(1, Duration::from_secs(60), 0));
    (0..keys).for_each(|number| assert_eq!(table.ask(address(number), &rate, SECOND), Verdict::Pass));
    let evicted = table.counts().evicted;
    assert!(evicted < u64::from(keys) / 50, "{evicted} were forgotten");
    let there = u64::from(keys) - evicted;
    assert!(table.keys(SECOND).abs_diff(there) < there / 20, "{} of {there}", table.keys(SECOND));
    let known =
        (0..keys).filter(|number| table.ask(address(*number), &rate, SECOND) != Verdict::Pass).count();
    assert!(known as u64 > u64::from(keys) * 48 / 50, "{known}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn it_says_what_a_map_says(
        count in 1_u32..20,
        burst in 0_u32..5,
        requests in prop::collection::vec((0_u32..30, 0_u64..SECOND / 4), 1..400),
    ) {
        // So many places that no key is forgotten.
        let (table, rate) = (rates(10_000).unwrap(), Gcra::new(count, Duration::from_secs(5), burst));
        let (mut model, mut now) = (Model::default(), SECOND);
        for (number, step) in requests {
            now += step;
            prop_assert_eq!(table.ask(address(number), &rate, now), model.ask(number, &rate, now));
        }
        prop_assert_eq!(table.counts().evicted, 0);
    }

    #[test]
    fn a_table_that_is_too_small_refuses_only_what_is_beyond_the_rate(
        requests in prop::collection::vec((0_u32..100, 0_u64..SECOND), 1..400),
    ) {
        let interval = 20 * SECOND;
        let (table, rate) = (rates(4).unwrap(), Gcra::new(1, Duration::from_secs(20), 2));
        let (mut all, mut now) = (HashMap::<u32, u64>::new(), SECOND);
        for (number, step) in requests {
            now += step;
            // All that the table itself has passed, of which it may have forgotten something.
            let arrival = all.entry(number).or_insert(0);
            match table.ask(address(number), &rate, now) {
                Verdict::Pass => *arrival = (*arrival).max(now) + interval,
                Verdict::Refuse(_) => prop_assert!(*arrival > now + 2 * interval),
            }
        }
    }
}

/// Has threads ask about `keys` keys for a while at one moment; gives back how many requests passed.
fn race(table: &Table, rate: &Gcra, keys: u32, rounds: u32) -> usize {
    let (threads, passed) = (4, AtomicUsize::new(0));
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads as u32 {
            let (barrier, passed) = (&barrier, &passed);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..rounds {
                    for number in 0..keys {
                        let number = (number + thread * 7) % keys;
                        if table.ask(address(number), rate, SECOND + u64::from(round)) == Verdict::Pass {
                            passed.fetch_add(1, Relaxed);
                        }
                    }
                }
            });
        }
    });
    passed.into_inner()
}

#[test]
fn threads_together_pass_no_more_than_one_alone() {
    let (table, rate) = (rates(10_000).unwrap(), Gcra::new(1, Duration::from_secs(3600), 99));
    let keys = 50;
    assert_eq!(race(&table, &rate, keys, 200), 100 * keys as usize);
    assert_eq!(table.keys(SECOND), u64::from(keys), "no key is there twice");
}

#[test]
fn threads_that_fight_for_places_lose_no_more_than_is_forgotten() {
    // Two sets, and many more keys than places.
    let (table, rate) = (rates(4).unwrap(), Gcra::new(1, Duration::from_secs(3600), 0));
    let keys = 200;
    let passed = race(&table, &rate, keys, 20);
    let evicted = table.counts().evicted as usize;
    // A pass is a key that is there, or was forgotten; one more for each that two threads have entered at once.
    assert!(passed >= keys as usize && passed <= 10 + 2 * evicted, "{passed} {evicted}");
}

/// Nanoseconds of a request, for so many keys in an order without a pattern; the best of several rounds.
fn cost(table: &Table, rate: &Gcra, keys: u64) -> f64 {
    const REQUESTS: u64 = 2_000_000;
    let mut number: u64 = 1;
    let mut ask = |now: u64| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = ((number >> 33) * keys) >> 31;
        black_box(table.ask(address(key as u32), rate, now))
    };
    (0..keys * 4).for_each(|_| _ = ask(SECOND));
    let mut round = |round: u64| {
        let start = Instant::now();
        (0..REQUESTS).for_each(|at| _ = ask(SECOND + round * SECOND + at));
        start.elapsed().as_nanos() as f64 / REQUESTS as f64
    };
    (1..8).map(&mut round).fold(f64::INFINITY, f64::min)
}

/// `cargo test --release -p maitred --lib rates::table::tests::costs -- --ignored --nocapture`
#[test]
#[ignore = "a measurement: for a release build, on a quiet machine"]
fn costs() {
    let rate = Gcra::new(1000, Duration::from_secs(1), 1_000_000_000);
    let of = |keys: u64| cost(&rates(1_000_000).unwrap(), &rate, keys);
    let (one, thousand, million) = (of(1), of(1000), of(1_000_000));
    println!(
        "1 key {one:.1} ns, 1,000 keys {thousand:.1} ns, 1,000,000 keys {million:.1} ns, ratio {:.2}",
        million / one
    );
    assert!(million <= 150.0);
}
