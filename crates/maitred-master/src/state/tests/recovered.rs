//! Processes that stay when their worker process dies, because they take another channel.

use super::*;

/// A server whose first worker process is ready, with one pool of two processes that recover.
fn recovering() -> World {
    let mut world = World::new();
    (world.same, world.recovers) = (true, true);
    world.event(Event::Start);
    world.all_ready();
    world.done.clear();
    world
}

/// Nothing was asked to end, and no other process was started.
fn all_are_kept(world: &World, before: &[u64]) -> bool {
    world.apps.keys().copied().collect::<Vec<_>>() == before && world.apps.values().all(|app| !app.2)
}

fn epochs(world: &World) -> Vec<u64> {
    world.apps.keys().copied().collect()
}

#[test]
fn they_get_a_channel_to_the_next_worker_process_at_once() {
    let mut world = recovering();
    let before = epochs(&world);
    world.worker_dies(1);
    assert!(all_are_kept(&world, &before));
    assert!(world.apps.values().all(|app| app.1 == 2));
    let close = world.done.iter().position(|action| *action == Action::CloseChannel(before[0])).unwrap();
    let spawn = world.done.iter().position(|action| matches!(action, Action::SpawnWorker { .. })).unwrap();
    assert!(close < spawn, "a process has to see the end of its channel before the next is there");
    world.all_ready();
    assert_eq!(world.master.pools_of(2).count(), 1);
    world.pass(START_TIMEOUT * 2);
    assert!(all_are_kept(&world, &before));
    let counts = world.master.counts();
    assert_eq!((counts.worker_crashes, counts.slot_crashes, counts.slots_started), (1, 0, 2));
}

#[test]
fn they_wait_until_there_is_a_worker_process_again() {
    let mut world = recovering();
    let before = epochs(&world);
    world.worker_dies(1);
    world.worker_dies(2);
    assert_eq!(world.master.current(), None, "the next one is delayed");
    assert!(all_are_kept(&world, &before));
    world.pass(Duration::from_millis(100));
    assert!(world.apps.values().all(|app| app.1 == 3));
    world.all_ready();
    assert!(all_are_kept(&world, &before));
    assert_eq!(world.master.counts().slot_crashes, 0);
}

#[test]
fn one_that_does_not_come_back_in_time_is_replaced_and_was_no_crash() {
    let mut world = recovering();
    let before = epochs(&world);
    world.worker_dies(1);
    world.worker_ready(2);
    world.app_ready(before[0]);
    world.pass(START_TIMEOUT);
    assert!(!world.apps.contains_key(&before[1]), "it was killed");
    assert_eq!(world.apps.len(), 2, "another one was started");
    assert!(world.log.iter().any(|line| line.contains("was not ready again in time")));
    let counts = world.master.counts();
    assert_eq!((counts.slot_crashes, counts.slots_delayed), (0, 0));
}

#[test]
fn one_that_exits_instead_is_replaced() {
    let mut world = recovering();
    let before = epochs(&world);
    world.worker_dies(1);
    world.app_dies(before[0], true);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.apps.len(), 2);
    assert_eq!(world.master.counts().slot_crashes, 0, "the worker process crashed, and was counted");
    world.all_ready();
    world.app_dies(before[1], false);
    assert_eq!(world.master.counts().slot_crashes, 1, "afterwards a death is a death");
}

#[test]
fn who_has_not_said_hello_does_as_the_others() {
    for recovers in [true, false] {
        who_has_not_said_hello(recovers);
    }
}

fn who_has_not_said_hello(recovers: bool) {
    let mut world = recovering();
    let before = epochs(&world);
    world.app_dies(before[0], false);
    world.pass(Duration::from_secs(1));
    let starting = *world.apps.keys().last().unwrap();
    if !recovers {
        // The process comes after one with another answer.
        world.recovers = false;
        world.app_dies(before[1], false);
        world.pass(Duration::from_secs(1));
        world.app_ready(starting);
    }
    let starting = *world.apps.keys().last().unwrap();
    world.worker_dies(1);
    assert_eq!(world.apps.values().filter(|app| app.2).count(), if recovers { 0 } else { 2 });
    assert_eq!(world.apps[&starting].2, !recovers, "it was asked to end");
}

#[test]
fn a_process_that_was_at_an_old_worker_process_recovers_to_the_present_one() {
    let mut world = recovering();
    let before = epochs(&world);
    world.signal(Signal::Hangup);
    world.worker_ready(2);
    world.release(before[0]);
    world.worker_dies(1);
    assert!(all_are_kept(&world, &before));
    assert!(world.apps.values().all(|app| app.1 == 2));
    world.all_ready();
    assert_eq!(world.master.counts().slot_crashes, 0);
}

#[test]
fn what_an_old_worker_process_could_not_finish_ends_with_it() {
    let mut world = recovering();
    let before = epochs(&world);
    world.signal(Signal::Hangup);
    world.worker_ready(2);
    world.release(before[0]);
    world.pass(GRACE + DRAIN_MARGIN);
    assert!(!world.workers.contains_key(&1), "it was killed");
    assert!(world.apps[&before[1]].2, "it was at a request that takes too long");
    assert!(!world.apps[&before[0]].2);
}

#[test]
fn a_process_that_is_given_back_while_nobody_is_there_waits_as_the_others_do() {
    let mut world = recovering();
    let before = epochs(&world);
    world.signal(Signal::Hangup);
    world.worker_ready(2);
    world.release(before[0]);
    world.worker_dies(2);
    world.worker_dies(3);
    assert_eq!(world.master.current(), None);
    world.release(before[1]);
    world.pass(Duration::from_millis(100));
    assert!(world.apps.values().all(|app| app.1 == 4));
    world.all_ready();
    assert!(all_are_kept(&world, &before));
}

#[test]
fn a_reload_goes_on_with_them() {
    let mut world = recovering();
    let before = epochs(&world);
    world.signal(Signal::Hangup);
    world.worker_dies(1);
    world.worker_dies(3);
    assert_eq!(world.master.current(), None);
    world.worker_ready(2);
    assert_eq!(world.master.current(), Some(2), "no worker process could hand over");
    assert!(world.apps.values().all(|app| app.1 == 2));
    world.all_ready();
    assert!(all_are_kept(&world, &before));
    assert_eq!(world.workers.len(), 1);
}

#[test]
fn a_reload_that_wants_others_ends_them() {
    let mut world = recovering();
    let before = epochs(&world);
    world.same = false;
    world.signal(Signal::Hangup);
    world.worker_dies(1);
    world.worker_dies(3);
    world.all_ready();
    assert_eq!(world.master.current(), Some(2));
    assert!(before.iter().all(|epoch| world.apps[epoch].2));
    before.iter().for_each(|epoch| world.app_dies(*epoch, true));
    assert_eq!(world.apps.len(), 2);
}

#[test]
fn a_stop_while_they_wait_ends_them() {
    for signal in [Signal::Terminate, Signal::Interrupt] {
        let mut world = recovering();
        world.worker_dies(1);
        world.worker_dies(2);
        world.signal(signal);
        assert!(world.apps.values().all(|app| app.2));
        epochs(&world).iter().for_each(|epoch| world.app_dies(*epoch, true));
        assert_eq!(world.exit, Some(0));
    }
}

#[test]
fn channels_to_a_server_that_runs_already_are_not_recovered() {
    let mut world = World::new();
    (world.same, world.recovers, world.kind) = (true, true, PoolKind::Connected);
    world.event(Event::Start);
    world.all_ready();
    world.worker_dies(1);
    assert!(!world.done.iter().any(|action| matches!(action, Action::CloseChannel(_))));
    assert_eq!(world.apps.values().filter(|app| app.2).count(), 2);
}

#[test]
fn a_source_that_has_changed_ends_the_delay_of_processes_that_died_of_it() {
    let mut world = with_pool(Settings::fixed(1));
    let before = *world.apps.keys().next().unwrap();
    world.event(Event::SourceChanged("app.py".to_owned()));
    // What was saved has an error: it dies again and again, and the one before stays.
    for _ in 0..100 {
        let died: Vec<u64> = world.apps.keys().copied().filter(|epoch| *epoch != before).collect();
        died.into_iter().for_each(|epoch| world.app_dies(epoch, false));
        world.pass(Duration::from_millis(500));
    }
    let died: Vec<u64> = world.apps.keys().copied().filter(|epoch| *epoch != before).collect();
    died.into_iter().for_each(|epoch| world.app_dies(epoch, false));
    assert_eq!(world.apps.keys().copied().collect::<Vec<_>>(), [before], "the next start has a long delay");
    world.event(Event::SourceChanged("app.py".to_owned()));
    assert_eq!(world.apps.len(), 2, "it is tried at once");
    world.all_ready();
    world.pass(Duration::from_millis(200));
    assert_eq!(world.retired, BTreeSet::from([before]));
}
