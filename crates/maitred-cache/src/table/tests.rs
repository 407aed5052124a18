use super::*;

fn hash(number: u64) -> Hash {
    // As evenly as a real one.
    let mix = |number: u64| (number ^ number >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(27);
    let hi = mix(mix(mix(number + 1)));
    Hash { hi, lo: mix(hi ^ 7) }
}

fn record(number: u64) -> Record {
    Record { hash: hash(number), file: number, blocks: number as u32 | 1, keep_until: 7 }
}

#[test]
fn both_mappings_see_one_table() {
    let ours = Table::create(1000, 5).unwrap();
    let theirs = Table::open(ours.file().try_clone_to_owned().unwrap()).unwrap();
    assert!(theirs.is_for(1000) && !theirs.is_for(1001));
    assert_eq!(theirs.boot(), 5);
    let place = ours.places_of(hash(1)).start;
    ours.write(place, &record(1), MAIN);
    assert_eq!(theirs.find(hash(1)), Some((place, record(1))));
    assert!(theirs.is_main(place) && !theirs.is_verified(place) && !theirs.is_confirmed(place));
    theirs.withdraw(hash(1));
    assert_eq!(ours.find(hash(1)), None);
    assert_ne!(ours.generation(hash(1)), 0);
    assert!(ours.next_number() < theirs.next_number());
    let other = maitred_sys::memfile::SharedSlice::<Set>::create("test", 50).unwrap();
    let error = Table::open(other.file().try_clone_to_owned().unwrap()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

#[test]
fn a_slot_of_halves_says_nothing() {
    let table = Table::create(10, 1).unwrap();
    let place = table.places_of(hash(1)).start;
    for word in 0..=WORDS {
        table.write(place, &record(1), 0);
        assert!(table.find(hash(1)).is_some());
        table.scribble(place, word, 99);
        assert_eq!((table.find(hash(1)), table.read(place)), (None, None), "{word}");
    }
    // Of two records that two processes write at once.
    table.write(place, &record(1), 0);
    let other = record(2).words();
    table.scribble(place, 2, other[2]);
    table.scribble(place, 3, other[3]);
    assert_eq!(table.read(place), None);
}

#[test]
fn hits_are_counted_to_a_bound() {
    let table = Table::create(10, 1).unwrap();
    let place = table.places_of(hash(1)).start;
    table.write(place, &record(1), VERIFIED | CONFIRMED);
    (0..10).for_each(|_| table.touch(place));
    assert_eq!(table.frequency(place), FREQUENCY_MAX);
    table.set_frequency(place, 1);
    table.set_main(place);
    assert_eq!(table.heat(place), 1 | MAIN | VERIFIED | CONFIRMED);
    table.touch(u32::MAX);
    assert_eq!(table.frequency(u32::MAX), 0);
}

#[test]
fn notes_that_end_soonest_make_room() {
    let table = Table::create(10, 1).unwrap();
    table.pass(hash(0), 1000);
    for number in 1..10_000 {
        table.pass(hash(number), number / 100);
    }
    assert!(table.is_passed(hash(0), 999) && !table.is_passed(hash(0), 1000));
    table.pass(hash(0), 2000);
    assert!(table.is_passed(hash(0), 1999));
}

#[test]
fn threads_never_read_what_nobody_wrote() {
    let table = Table::create(24, 1).unwrap();
    let place = table.places_of(hash(1)).start;
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let table = &table;
            scope.spawn(move || {
                (0..30_000).for_each(|turn| table.write(place, &record(turn * 2 + writer), 0));
            });
        }
        let reads = (0..60_000).filter_map(|_| table.read(place));
        for found in reads {
            assert_eq!(found, record(found.file));
        }
    });
}
