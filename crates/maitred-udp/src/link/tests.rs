//! Each fault by itself, in a time that the test makes.

use super::*;

const MS: Duration = Duration::from_millis(1);
const ECT_0: Option<EcnCodepoint> = Some(EcnCodepoint::Ect0);

/// What has left a link: first byte, length, mark.
#[derive(Default)]
struct Seen(Vec<(u8, usize, Option<EcnCodepoint>)>);

impl Outlet for Seen {
    fn send(&mut self, datagram: Datagram<'_>) -> bool {
        self.0.push((datagram.bytes[0], datagram.bytes.len(), datagram.ecn));
        true
    }
}

struct Bench {
    link: Link,
    dice: Dice,
    seen: Seen,
}

impl Bench {
    fn new(faults: Faults, seed: u64) -> Bench {
        Bench { link: Link::new(faults), dice: Dice::new(seed, 0), seen: Seen::default() }
    }

    fn take(&mut self, now: Duration, name: u8, length: usize) {
        let bytes = vec![name; length];
        let datagram = Datagram { flow: 0, bytes: &bytes, ecn: ECT_0 };
        self.link.take(now, &mut self.dice, datagram, &mut self.seen);
    }

    fn names_at(&mut self, now: Duration) -> Vec<u8> {
        self.link.arrive(now, &mut self.seen);
        self.seen.0.drain(..).map(|(name, ..)| name).collect()
    }
}

#[test]
fn without_faults_a_datagram_passes_at_once() {
    let mut bench = Bench::new(Faults::default(), 1);
    bench.take(MS, 7, 100);
    assert_eq!(bench.seen.0, [(7, 100, ECT_0)]);
    assert_eq!(bench.link.next(), None);
    let counts = DirectionCounts {
        received: 1,
        received_bytes: 100,
        sent: 1,
        sent_bytes: 100,
        marked: 1,
        ..DirectionCounts::default()
    };
    assert_eq!(bench.link.counts, counts);
}

#[test]
fn a_delay_keeps_the_order() {
    let mut bench = Bench::new(Faults { delay: 20 * MS, ..Faults::default() }, 1);
    bench.take(MS, 1, 10);
    bench.take(MS, 2, 10);
    bench.take(2 * MS, 3, 10);
    assert_eq!(bench.link.next(), Some(21 * MS));
    assert!(bench.names_at(20 * MS).is_empty());
    assert_eq!(bench.names_at(21 * MS), [1, 2]);
    assert_eq!(bench.names_at(22 * MS), [3]);
    assert_eq!(bench.link.next(), None);
}

#[test]
fn loss_is_seeded_and_has_its_share() {
    let survivors = |seed| {
        let mut bench = Bench::new(Faults { loss_per_mille: 100, ..Faults::default() }, seed);
        (0..10_000).for_each(|number: u32| bench.take(MS, (number % 251) as u8, 10));
        assert_eq!(bench.link.counts.lost + bench.link.counts.sent, 10_000);
        (bench.link.counts.lost, bench.names_at(MS))
    };
    let (lost, names) = survivors(5);
    assert!((900..1100).contains(&lost), "{lost} of 10,000");
    assert_eq!(survivors(5), (lost, names.clone()));
    assert_ne!(survivors(6).1, names);
}

#[test]
fn a_late_one_is_overtaken_by_those_behind_it() {
    let faults = Faults { reorder_per_mille: 200, reorder_delay: 3 * MS, ..Faults::default() };
    let mut bench = Bench::new(faults, 3);
    (0..100).for_each(|name| bench.take(MS, name, 10));
    let late = bench.link.counts.reordered as usize;
    let first = bench.names_at(MS);
    let second = bench.names_at(4 * MS);
    assert!((5..40).contains(&late), "{late} of 100");
    assert_eq!((first.len(), second.len()), (100 - late, late));
    assert!(first.is_sorted() && second.is_sorted());
}

#[test]
fn a_duplicate_comes_with_its_original() {
    let faults = Faults { duplicate_per_mille: 1000, delay: 2 * MS, ..Faults::default() };
    let mut bench = Bench::new(faults, 3);
    bench.take(MS, 1, 10);
    bench.take(MS, 2, 10);
    assert_eq!(bench.names_at(3 * MS), [1, 1, 2, 2]);
    assert_eq!((bench.link.counts.duplicated, bench.link.counts.sent), (2, 4));
}

#[test]
fn marks_are_passed_on_or_cleared() {
    for (bleach_ecn, expected) in [(false, ECT_0), (true, None)] {
        let mut bench = Bench::new(Faults { bleach_ecn, delay: MS, ..Faults::default() }, 3);
        bench.take(MS, 1, 10);
        bench.link.arrive(2 * MS, &mut bench.seen);
        assert_eq!(bench.seen.0, [(1, 10, expected)]);
        assert_eq!((bench.link.counts.marked, bench.link.counts.bleached), (1, u64::from(bleach_ecn)));
    }
}

#[test]
fn what_is_larger_than_the_mtu_is_dropped() {
    let mut bench = Bench::new(Faults { mtu_bytes: Some(1200), ..Faults::default() }, 3);
    bench.take(MS, 1, 1200);
    bench.take(MS, 2, 1201);
    assert_eq!(bench.names_at(MS), [1]);
    assert_eq!(bench.link.counts.too_large, 1);
}

#[test]
fn a_bandwidth_spreads_a_burst_and_its_queue_is_bounded() {
    // 1,000 bytes take a millisecond.
    let rate = Some(Rate { bytes_per_second: 1_000_000, queue_bytes: 3000 });
    let mut bench = Bench::new(Faults { rate, ..Faults::default() }, 3);
    (1..=5).for_each(|name| bench.take(10 * MS, name, 1000));
    assert_eq!(bench.link.counts.overflowed, 2);
    assert!(bench.names_at(10 * MS).is_empty());
    assert_eq!(bench.names_at(11 * MS), [1]);
    // One datagram has left, so that there is room for another one.
    bench.take(11 * MS, 6, 1000);
    bench.take(11 * MS, 7, 1000);
    assert_eq!(bench.names_at(13 * MS), [2, 3]);
    assert_eq!(bench.names_at(14 * MS), [6]);
    assert_eq!((bench.link.counts.overflowed, bench.link.next()), (3, None));
    // A pause is not made up for by a burst.
    bench.take(100 * MS, 8, 1000);
    assert_eq!(bench.link.next(), Some(101 * MS));
}

#[test]
fn another_share_of_one_fault_leaves_the_others_as_they_are() {
    let late = |loss_per_mille| {
        let faults = Faults { reorder_per_mille: 100, loss_per_mille, ..Faults::default() };
        let mut bench = Bench::new(faults, 9);
        (0..200).for_each(|name| bench.take(MS, name, 10));
        bench.names_at(MS);
        bench.names_at(MS + faults.reorder_delay)
    };
    let (with, without) = (late(300), late(0));
    assert!(with.len() < without.len() && with.iter().all(|name| without.contains(name)));
}
