use std::cell::RefCell;
use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct Hits(RefCell<HashMap<u32, (u32, bool)>>);

impl Heat for Hits {
    fn frequency(&self, place: u32) -> u32 {
        self.0.borrow().get(&place).map_or(0, |(hits, _)| *hits)
    }

    fn set_frequency(&self, place: u32, frequency: u32) {
        self.0.borrow_mut().entry(place).or_default().0 = frequency;
    }

    fn set_main(&self, place: u32) {
        self.0.borrow_mut().entry(place).or_default().1 = true;
    }
}

fn hash(number: u64) -> Hash {
    let lo = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Hash { hi: lo, lo: lo.rotate_left(13) ^ number }
}

#[test]
fn what_is_asked_for_once_goes_before_what_is_asked_for_again() {
    let mut queues = Queues::new(200, 1000, 100);
    let hits = Hits::default();
    for place in 0..100 {
        queues.push(place, 1, Queue::Small);
    }
    hits.set_frequency(3, 1);
    let gone: Vec<u32> = (0..10).map(|_| queues.evict(&hits).unwrap()).collect();
    assert_eq!(gone, [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(hits.0.borrow()[&3], (0, true), "it has moved");
    // The small queue is as large as it may be: the main one goes.
    assert!((0..80).all(|_| queues.evict(&hits).is_some()));
    assert_eq!((queues.small.entries, queues.main.entries), (10, 0));
}

#[test]
fn what_comes_again_soon_goes_to_the_main_queue() {
    let mut queues = Queues::new(10, 1000, 1000);
    assert_eq!(queues.queue_for(hash(1)), Queue::Small);
    queues.note_gone(hash(1));
    assert_eq!(queues.queue_for(hash(1)), Queue::Main);
    for number in 2..2000 {
        queues.note_gone(hash(number));
    }
    assert_eq!(queues.queue_for(hash(1)), Queue::Small, "that is long ago");
    let known = (1100..2000).filter(|number| queues.queue_for(hash(*number)) == Queue::Main).count();
    assert!(known > 700, "{known} of 900 are remembered");
}

#[test]
fn nobody_waits_for_a_walk_through_all_of_them() {
    let mut queues = Queues::new(10_000, 10_000, 10_000);
    struct Hot;
    impl Heat for Hot {
        fn frequency(&self, _place: u32) -> u32 {
            3
        }
        fn set_frequency(&self, _place: u32, _frequency: u32) {}
        fn set_main(&self, _place: u32) {}
    }
    for place in 0..10_000 {
        queues.push(place, 1, Queue::Main);
    }
    assert_eq!(queues.evict(&Hot), Some(STEPS_MAX));
}

proptest! {
    /// The sums are those of what is there, and everything goes at last.
    #[test]
    fn lists_hold_what_was_pushed(steps in proptest::collection::vec((0..5_u8, 0..20_u32, 1..50_u32), 1..200)) {
        let mut queues = Queues::new(20, 500, 20);
        let hits = Hits::default();
        let mut model: HashMap<u32, u32> = HashMap::new();
        for (what, place, blocks) in steps {
            match what {
                0 | 1 => {
                    queues.push(place, blocks, if what == 0 { Queue::Small } else { Queue::Main });
                    model.insert(place, blocks);
                }
                2 => {
                    queues.remove(place);
                    model.remove(&place);
                }
                3 => {
                    queues.resize(place, blocks);
                    model.entry(place).and_modify(|size| *size = blocks);
                }
                _ => {
                    hits.set_frequency(place, blocks % 4);
                    let gone = queues.evict(&hits);
                    prop_assert_eq!(gone.is_some(), !model.is_empty());
                    prop_assert!(gone.is_none_or(|gone| model.remove(&gone).is_some()));
                }
            }
            prop_assert_eq!(queues.entries() as usize, model.len());
            prop_assert_eq!(queues.blocks(), model.values().map(|blocks| u64::from(*blocks)).sum::<u64>());
            prop_assert!((0..20).all(|place| queues.contains(place) == model.contains_key(&place)));
        }
        let mut left = 0;
        while queues.evict(&hits).is_some() {
            left += 1;
        }
        prop_assert_eq!(left, model.len());
    }
}
