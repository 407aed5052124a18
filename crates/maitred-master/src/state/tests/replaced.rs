//! Processes that are replaced: none goes before another one is ready in its place.

use super::*;

/// A pool of one process, which is to be replaced.
fn restarted() -> (World, u64) {
    let mut world = World::new();
    world.sizes = Settings::fixed(1);
    world.event(Event::Start);
    world.all_ready();
    let first = *world.apps.keys().next().unwrap();
    world.command(1, Command::Pool("p0".to_owned(), PoolCommand::Restart));
    world.pass(Duration::from_millis(300));
    (world, first)
}

fn newest(world: &World) -> u64 {
    *world.apps.keys().next_back().unwrap()
}

/// The last process closes its channel before it was ready, exits later or not at all, and others follow it.
fn dies(world: &mut World, exits: Option<Duration>) {
    let dying = newest(world);
    world.app_closes(dying);
    world.pass(exits.unwrap_or(EXIT_GRACE));
    world.app_dies(dying, false);
}

/// The next process is started, which may be put off.
fn next_try(world: &mut World, first: u64) {
    for _ in 0..200 {
        if newest(world) > first {
            return;
        }
        world.pass(Duration::from_millis(100));
    }
    panic!("no other one is tried: {:?}", world.log);
}

#[test]
fn a_release_that_cannot_start_leaves_the_process_that_works() {
    for exits in
        [Some(Duration::ZERO), Some(Duration::from_millis(100)), Some(Duration::from_millis(1900)), None]
    {
        let (mut world, first) = restarted();
        for _ in 0..5 {
            next_try(&mut world, first);
            dies(&mut world, exits);
            assert!(
                world.apps.contains_key(&first) && !world.retired.contains(&first),
                "{exits:?}: {:?}",
                world.log
            );
        }
        next_try(&mut world, first);
        let last = newest(&world);
        world.app_ready(last);
        world.pass(Duration::from_secs(1));
        assert!(world.retired.contains(&first) && !world.retired.contains(&last), "{:?}", world.log);
    }
}

#[test]
fn a_process_that_has_had_its_requests_stays_until_another_is_ready() {
    let mut world = World::new();
    world.sizes = Settings { max_requests: Some(1), ..Settings::fixed(1) };
    world.event(Event::Start);
    world.all_ready();
    let first = newest(&world);
    world.observe(1, 0);
    world.pass(Duration::from_secs(1));
    assert!(newest(&world) > first && world.retired.is_empty(), "{:?}", world.log);
    dies(&mut world, Some(Duration::from_millis(100)));
    world.pass(Duration::from_secs(1));
    assert!(world.retired.is_empty(), "{:?}", world.log);
    let last = newest(&world);
    world.app_ready(last);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.retired.iter().collect::<Vec<_>>(), [&first]);
}

#[test]
fn a_process_that_does_not_exit_is_killed_and_the_log_says_why() {
    let mut world = World::up();
    let one = newest(&world);
    world.app_closes(one);
    world.pass(EXIT_GRACE - Duration::from_millis(1));
    assert!(world.apps.contains_key(&one), "what it does at exit may take a while");
    world.pass(Duration::from_millis(1));
    assert!(!world.apps.contains_key(&one));
    let said = world.log.last().unwrap();
    assert!(
        said.contains("was killed because it had not exited 2s later") && !said.contains("SIGKILL"),
        "{said}"
    );
}

/// A reload that changes the pool, up to where the new worker process is ready.
fn reloading(world: &mut World) -> u64 {
    world.done.clear();
    world.command(1, Command::Reload);
    world.worker_ready(2);
    newest(world)
}

#[test]
fn a_reload_to_a_release_that_cannot_start_is_refused_and_the_present_one_goes_on() {
    let mut world = World::up();
    world.sizes = Settings::fixed(1);
    let before: Vec<u64> = world.apps.keys().copied().collect();
    let next = reloading(&mut world);
    world.event(Event::AppSaid(
        world.apps[&next].0,
        vec!["Traceback".to_owned(), "No module named x".to_owned()],
    ));
    world.app_dies(next, false);
    let why = "no process of pool \"p0\" becomes ready: the last one exited with status 1 | Traceback | No module named x";
    assert!(
        world.done.contains(&Action::Send(1, ToWorker::CommandDone(1, false, why.to_owned()))),
        "{:?}",
        world.done
    );
    assert!(world.done.contains(&Action::Notify(Notice::Refused(why.to_owned()))));
    assert_eq!((world.master.current(), world.apps.keys().copied().collect::<Vec<_>>()), (Some(1), before));
    assert!(world.retired.is_empty());
}

#[test]
fn a_refusal_says_that_a_process_was_killed_because_it_did_not_exit() {
    let mut world = World::up();
    world.sizes = Settings::fixed(1);
    let next = reloading(&mut world);
    world.app_closes(next);
    assert_eq!(world.master.current(), Some(1), "it may take its time");
    world.pass(EXIT_GRACE);
    let said = |action: &Action| match action {
        Action::Send(1, ToWorker::CommandDone(1, false, why)) => why.contains("(exit_grace)"),
        _ => false,
    };
    assert!(world.done.iter().any(said), "{:?}", world.done);
}

#[test]
fn a_reload_waits_for_the_last_of_the_first_processes() {
    let mut world = World::up();
    let last = reloading(&mut world);
    world.app_dies(last - 1, false);
    assert_eq!(world.master.current(), Some(1), "the other one may become ready");
    world.app_ready(last);
    assert_eq!(world.master.current(), Some(2));
}

#[test]
fn an_external_server_that_is_away_is_no_reason_to_refuse_a_reload() {
    let mut world = World::up();
    world.kind = PoolKind::Connected;
    let channel = reloading(&mut world);
    world.app_dies(channel, false);
    world.app_dies(channel - 1, false);
    assert_eq!(world.master.current(), Some(2));
}

impl World {
    /// It closes its channel, and lives on.
    pub(in crate::state) fn app_closes(&mut self, epoch: u64) {
        if let Some((slot, generation, _)) = self.apps.get(&epoch).copied()
            && !self.parked.contains(&epoch)
        {
            self.hello.remove(&epoch);
            self.event(Event::Worker(generation, FromWorker::SlotClosed(slot)));
        }
    }
}
