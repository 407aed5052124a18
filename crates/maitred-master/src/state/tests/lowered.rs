//! A reload that leaves a pool fewer processes than it has.

use super::*;

#[test]
fn a_pool_keeps_the_processes_that_it_may_still_have() {
    let mut world = with_pool(Settings::fixed(10));
    let before: Vec<u64> = world.apps.keys().copied().collect();
    world.sizes = Settings::fixed(3);
    let slots = world.sizes.slots();
    world.signal(Signal::Hangup);
    world.worker_ready(2);
    assert_eq!(world.master.current(), Some(2), "nothing has to be started first");
    let (kept, gone): (Vec<u64>, Vec<u64>) =
        before.iter().copied().partition(|epoch| world.apps[epoch].0.slot < slots);
    assert!(gone.iter().all(|epoch| world.retired.contains(epoch)), "they finish where they are");
    assert_eq!(
        world.retired.len(),
        gone.len() + 1,
        "and one at a time of those that have a slot, but are too many"
    );
    assert_eq!(world.asked_back, kept.iter().copied().collect());
    kept.iter().for_each(|epoch| world.release(*epoch));
    gone.iter().for_each(|epoch| world.app_dies(*epoch, true));
    for _ in 0..20 {
        world.pass(Duration::from_secs(1));
        for epoch in std::mem::take(&mut world.retired) {
            world.app_dies(epoch, true);
        }
    }
    let left: Vec<u64> = world.apps.keys().copied().collect();
    assert_eq!(left.len(), 3);
    assert!(left.iter().all(|epoch| kept.contains(epoch) && world.apps[epoch].1 == 2));
    assert_eq!(world.master.counts().slots_started, 10, "nothing was started in their place");
    assert_eq!(world.master.counts().slot_crashes, 0);
    // And back again: into the slots that there are now.
    world.sizes = Settings::fixed(10);
    world.signal(Signal::Hangup);
    world.worker_ready(3);
    left.iter().for_each(|epoch| world.release(*epoch));
    for _ in 0..20 {
        world.pass(Duration::from_millis(100));
        world.all_ready();
    }
    assert!(left.iter().all(|epoch| world.apps[epoch].1 == 3));
    assert_eq!(world.apps.len(), 10);
}

/// What an old worker process had borrowed comes back when there is no slot for it any more.
#[test]
fn a_process_that_comes_back_too_late_ends() {
    let mut world = with_pool(Settings::fixed(10));
    world.signal(Signal::Hangup);
    world.worker_ready(2);
    world.sizes = Settings::fixed(1);
    world.signal(Signal::Hangup);
    world.worker_ready(3);
    assert_eq!(world.master.current(), Some(3));
    let slots = world.sizes.slots();
    let all: Vec<u64> = world.apps.keys().copied().collect();
    // The first worker process has them all still, and was asked for them before some of them were to end.
    for epoch in &all {
        world.release(*epoch);
        world.release(*epoch);
    }
    for epoch in &all {
        let (slot, generation, ending) = world.apps[epoch];
        match slot.slot < slots {
            true => assert_eq!((generation, ending), (3, false), "{slot:?}"),
            false => assert!(ending && generation != 3, "{slot:?} at {generation}"),
        }
    }
}

#[test]
fn a_pool_whose_processes_are_in_slots_that_go_is_replaced() {
    let sizes = Settings { start: 1, min_spare: 1, max_spare: 1, max: 8, ..Settings::default() };
    let mut world = with_pool(sizes);
    while world.apps.len() < 8 {
        world.pass(Duration::from_millis(100));
        world.observe(1, 5);
        world.all_ready();
    }
    // All but the last one go.
    let last = world.apps.iter().max_by_key(|(_, app)| app.0.slot).map(|(epoch, _)| *epoch).unwrap();
    let others: Vec<u64> = world.apps.keys().copied().filter(|epoch| *epoch != last).collect();
    world.observe(0, 0);
    others.iter().for_each(|epoch| world.app_dies(*epoch, true));
    world.sizes = Settings { start: 1, min_spare: 1, max_spare: 1, max: 2, ..Settings::default() };
    world.signal(Signal::Hangup);
    world.worker_ready(2);
    assert_eq!(world.master.current(), Some(1), "one has to be started first");
    world.all_ready();
    assert_eq!(world.master.current(), Some(2));
}
