//! Processes that get no more requests: how long they stay, and how many.

use super::*;

const TIMEOUT: Duration = REQUEST_TIMEOUT.saturating_add(APP_KILL_DELAY);

/// A pool of one process, of whose retired ones so many may stay for as long as `time`.
fn world(most: u16, time: Option<Duration>) -> World {
    let mut world = World::new();
    world.sizes = Settings { retired_max: Some(most), ..Settings::fixed(1) };
    world.grace_streams = time;
    world.event(Event::Start);
    world.all_ready();
    world
}

/// Retires the process that serves, which has something under way, and has another one take its place.
fn retire(world: &mut World) -> u64 {
    let before = world.retired.clone();
    let serving = world.apps.iter().find(|(epoch, app)| !before.contains(epoch) && !app.2).unwrap();
    let slot = serving.1.0.slot;
    world.command(1, Command::Pool("p0".to_owned(), PoolCommand::Drain(slot)));
    world.nothing_unanswered();
    let epoch = *world.retired.difference(&before).next().unwrap();
    world.pass(Duration::from_secs(1));
    world.all_ready();
    epoch
}

fn said(world: &World, what: &str) -> usize {
    world.log.iter().filter(|line| line.contains(what)).count()
}

#[test]
fn a_process_that_was_told_to_end_and_does_not_is_killed() {
    let mut world = world(1, None);
    let epoch = retire(&mut world);
    let slot = world.apps[&epoch].0;
    world.pass(TIMEOUT * 3);
    assert!(world.apps.contains_key(&epoch), "something is under way there");
    world.event(Event::Worker(1, FromWorker::SlotDismissed(slot)));
    world.pass(TIMEOUT - Duration::from_millis(1));
    assert!(world.apps.contains_key(&epoch), "it may have work behind its responses");
    world.pass(Duration::from_millis(1));
    assert!(!world.apps.contains_key(&epoch));
    assert_eq!(world.apps.len(), 1, "another one is there");
    assert_eq!(world.master.counts().slot_crashes, 0);
}

#[test]
fn grace_streams_bounds_how_long_it_stays() {
    let mut world = world(1, Some(Duration::from_secs(60)));
    let epoch = retire(&mut world);
    world.pass(Duration::from_millis(58_900));
    assert!(world.apps.contains_key(&epoch) && !world.apps[&epoch].2, "not yet");
    world.pass(Duration::from_millis(200));
    assert!(world.apps[&epoch].2, "it was asked");
    world.pass(APP_KILL_DELAY);
    assert!(!world.apps.contains_key(&epoch));
    assert_eq!(said(&world, "grace_streams is over"), 1);
}

/// Whatever happens in the pool, no more than `retired_max` stay for longer than a request may take; the oldest goes first.
#[test]
fn how_many_stay_is_bounded_and_the_oldest_goes() {
    for most in [1, 3] {
        let mut world = world(most, None);
        let mut all = Vec::new();
        for number in 1..=usize::from(most) + 2 {
            all.push(retire(&mut world));
            let seconds = (TIMEOUT + APP_KILL_DELAY).as_secs();
            (0..seconds).for_each(|_| {
                world.pass(Duration::from_secs(1));
                world.all_ready();
            });
            let stay: Vec<u64> = all.iter().copied().filter(|epoch| world.apps.contains_key(epoch)).collect();
            let first = number.saturating_sub(usize::from(most));
            assert_eq!(stay, all[first..], "{most}: the last ones");
            assert_eq!(world.apps.len(), stay.len() + 1, "{most}: and one that serves");
        }
        assert_eq!(said(&world, "its place is needed"), 2, "{most}: {:#?}", world.log);
        assert_eq!(world.master.counts().slot_crashes, 0);
    }
}

/// Where all places are taken by those that stay, a process that is to be replaced has the oldest of them end first.
#[test]
fn one_makes_place_for_another() {
    let mut world = World::new();
    world.sizes = Settings { max_age: Some(Duration::from_secs(100)), ..Settings::fixed(1) };
    world.grace_streams = None;
    world.event(Event::Start);
    world.all_ready();
    for number in 1..5 {
        let least = world.apps.len();
        for _ in 0..120 {
            world.pass(Duration::from_secs(1));
            world.all_ready();
            let serving = world.apps.iter().filter(|(epoch, app)| !world.retired.contains(epoch) && !app.2);
            assert!(
                (1..=2).contains(&serving.count()),
                "{number}: one, and its successor when that is ready"
            );
        }
        assert!(world.apps.len() >= least);
        assert!(world.retired.len() >= number, "{number}: {} were replaced", world.retired.len());
        assert!(world.apps.len() <= 2, "{number}: one that serves and one that stays");
    }
    assert!(said(&world, "its place is needed") >= 3, "{:#?}", world.log);
}
