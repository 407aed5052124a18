//! What a reload waits for is reported to the service manager and to the command.

use super::*;
use crate::state::progress::TELL_AFTER;

/// What was said about a command, and to the service manager.
fn told(world: &World, number: u64) -> (Vec<&str>, Vec<&str>) {
    let waits = world.done.iter().filter_map(|action| match action {
        Action::Send(1, ToWorker::CommandWaits(command, what)) if *command == number => Some(what.as_str()),
        _ => None,
    });
    let noticed = world.done.iter().filter_map(|action| match action {
        Action::Notify(Notice::Waiting(what)) => Some(what.as_str()),
        _ => None,
    });
    (waits.collect(), noticed.collect())
}

#[test]
fn who_waits_for_a_reload_is_told_what_it_waits_for() {
    let mut world = World::up();
    world.command(1, Command::Reload);
    world.pass(TELL_AFTER - Duration::from_millis(1));
    assert_eq!(told(&world, 1), (vec![], vec![]));
    world.pass(Duration::from_millis(1));
    let worker = "waits for the new worker process, 120s at most";
    assert_eq!(told(&world, 1), (vec![worker], vec![worker]));
    world.all_ready();
    world.nothing_unanswered();
    world.done.clear();
    world.pass(Duration::from_secs(600));
    assert_eq!(told(&world, 1), (vec![], vec![]), "nothing is under way");
}

#[test]
fn a_reload_in_the_queue_says_so_and_many_pools_are_not_all_named() {
    for (pools, named) in [(1, "pool \"p0\""), (5, "pools \"p0\", \"p1\", \"p2\" and 2 more")] {
        let mut world = World::up();
        world.next_config = Some(pools);
        world.command(1, Command::Reload);
        world.command(1, Command::Reload);
        world.worker_ready(2);
        world.pass(TELL_AFTER);
        let what = format!("waits for the first process of {named}, 3s at most (start_timeout)");
        assert_eq!(told(&world, 1), (vec![what.as_str()], vec![what.as_str()]));
        assert_eq!(told(&world, 2).0, [format!("waits for the reload before it, which {what}")]);
    }
}

#[test]
fn a_new_worker_that_takes_its_time_is_waited_for_and_one_that_nobody_stands_in_for_is_not() {
    let mut world = World::up();
    world.command(1, Command::Reload);
    world.pass(NEXT_START_TIMEOUT - Duration::from_millis(1));
    assert_eq!(told(&world, 1).0.len(), 24);
    world.all_ready();
    // The application processes could not report before, and were killed: the next ones are put off.
    for _ in 0..20 {
        world.pass(Duration::from_secs(1));
        world.all_ready();
    }
    assert_eq!(world.master.current(), Some(2));
    world.worker_dies(2);
    world.pass(WORKER_START_TIMEOUT);
    assert!(world.workers.keys().all(|number| *number > 3), "{:?}", world.workers.keys());
}
