//! Processes that are replaced: none goes before another one is ready in its place.

use super::*;
use crate::state::events::Seen;
use maitred_base::pool::canary::{self, Work};

/// Canaries are watched for ten seconds, and get ten requests.
pub(in crate::state) const CANARY: canary::Rules = canary::Rules {
    time: Duration::from_secs(10),
    timeout: Duration::from_secs(60),
    requests: 10,
    errors: 5,
    latency: 200,
};

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

/// The same, because a file of it has changed.
fn changed() -> (World, u64) {
    let mut world = World::new();
    world.sizes = Settings::fixed(1);
    world.event(Event::Start);
    world.all_ready();
    let first = newest(&world);
    world.event(Event::SourceChanged("app.py".to_owned()));
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
        let (mut world, first) = changed();
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

/// The last word to the command to replace the processes.
fn answer(world: &World) -> Option<(bool, String)> {
    world.done.iter().find_map(|action| match action {
        Action::Send(1, ToWorker::CommandDone(_, well, text)) => Some((*well, text.clone())),
        _ => None,
    })
}

#[test]
fn the_command_to_replace_is_over_when_the_last_process_has_been_replaced() {
    let (mut world, first) = restarted();
    assert_eq!(answer(&world), None);
    world.pass(Duration::from_secs(1));
    let waits = Action::Send(1, ToWorker::CommandWaits(1, "0 of 1 processes of pool p0 are replaced".into()));
    assert!(world.done.contains(&waits), "{:?}", world.done);
    let next = newest(&world);
    world.app_ready(next);
    world.pass(Duration::from_secs(1));
    assert!(world.retired.contains(&first));
    assert_eq!(answer(&world), Some((true, "1 processes of pool p0 were replaced".to_owned())));
}

#[test]
fn the_command_to_replace_is_refused_when_the_new_release_cannot_start() {
    let (mut world, first) = restarted();
    let next = newest(&world);
    world.event(Event::AppSaid(world.apps[&next].0, vec!["No module named x".to_owned()]));
    world.app_dies(next, false);
    let why = "0 of 1 processes of pool p0 were replaced, 1 stay: a new process exited with status 1 before it was ready | \
               No module named x";
    assert_eq!(answer(&world), Some((false, why.to_owned())));
    let before = newest(&world);
    world.pass(Duration::from_secs(60));
    assert_eq!((newest(&world), world.retired.len()), (before, 0), "nothing goes on");
    assert!(world.apps.contains_key(&first));
}

#[test]
fn the_command_to_replace_starts_a_pool_that_is_down() {
    let mut world = World::new();
    world.sizes = Settings::fixed(1);
    world.event(Event::Start);
    world.worker_ready(1);
    for _ in 0..5 {
        while world.apps.is_empty() {
            world.pass(Duration::from_millis(100));
        }
        let last = newest(&world);
        world.app_dies(last, false);
    }
    assert!(world.apps.is_empty());
    world.command(1, Command::Pool("p0".to_owned(), PoolCommand::Restart));
    assert_eq!(answer(&world), None);
    world.pass(Duration::from_millis(300));
    let next = newest(&world);
    world.app_ready(next);
    assert!(answer(&world).unwrap().0);
}

#[test]
fn a_stop_and_a_changed_pool_end_the_command_to_replace() {
    let (mut world, _) = restarted();
    world.signal(Signal::Terminate);
    assert_eq!(answer(&world), Some((false, "the server is stopping".to_owned())));
    let (mut world, _) = restarted();
    world.command(1, Command::Reload);
    world.worker_ready(2);
    let next = newest(&world);
    world.app_ready(next);
    assert!(world.done.iter().any(|action| matches!(action,
        Action::Send(1, ToWorker::CommandDone(1, true, text)) if text.contains("by another configuration"))));
}

/// A pool of two processes with a canary that is ready.
fn canary() -> (World, Vec<u64>, u64) {
    let mut world = World::new();
    world.sizes = Settings::fixed(2);
    world.event(Event::Start);
    world.all_ready();
    let old: Vec<u64> =
        world.apps.iter().filter(|(_, app)| app.0.pool == 0).map(|(epoch, _)| *epoch).collect();
    let before = world.apps.len();
    world.done.clear();
    world.command(1, Command::Pool("p0".to_owned(), PoolCommand::Canary(1)));
    world.pass(Duration::from_millis(300));
    assert_eq!(world.apps.len(), before + 1);
    let new = newest(&world);
    world.app_ready(new);
    world.pass(Duration::from_secs(1));
    assert!(world.retired.is_empty(), "the one that it may replace stays until the verdict");
    (world, old, new)
}

fn worked(world: &mut World, processes: &[u64], requests: u64, errors: u64, mean_us: u64) {
    let work = Work { requests, errors, time_us: requests * mean_us };
    world.worked.extend(processes.iter().map(|epoch| (*epoch, work)));
    world.observe(1, 0);
}

#[test]
fn a_canary_that_is_good_is_followed_by_the_others() {
    let (mut world, old, new) = canary();
    worked(&mut world, &old, 100, 1, 2_000);
    worked(&mut world, &[new], 10, 0, 3_000);
    world.pass(Duration::from_secs(8));
    assert_eq!((world.retired.len(), answer(&world)), (0, None), "it has its time");
    world.pass(Duration::from_secs(3));
    for _ in 0..4 {
        let last = newest(&world);
        world.app_ready(last);
        world.pass(Duration::from_secs(1));
        // What has been retired has nothing under way, and leaves its place.
        let gone: Vec<u64> = old.iter().filter(|epoch| world.retired.contains(epoch)).copied().collect();
        gone.into_iter().for_each(|epoch| world.app_dies(epoch, true));
        world.pass(Duration::from_millis(300));
    }
    assert!(old.iter().all(|epoch| world.retired.contains(epoch)), "{:?}", world.log);
    assert!(!world.retired.contains(&new));
    assert!(answer(&world).unwrap().0);
}

#[test]
fn a_canary_that_is_not_good_goes_and_the_others_stay() {
    type Case = (&'static str, fn(&mut World, u64, &[u64]));
    let cases: [Case; 4] = [
        ("more errors", |world, new, _| worked(world, &[new], 10, 2, 1_000)),
        ("slower", |world, new, old| {
            worked(world, old, 100, 0, 1_000);
            worked(world, &[new], 10, 0, 2_001);
            world.pass(Duration::from_secs(11));
        }),
        ("fewer requests", |world, new, _| {
            worked(world, &[new], 9, 0, 1_000);
            world.pass(Duration::from_secs(61));
        }),
        ("while it was tried", |world, new, _| world.app_dies(new, false)),
    ];
    for (why, happens) in cases {
        let (mut world, old, new) = canary();
        happens(&mut world, new, &old);
        world.pass(Duration::from_secs(1));
        let (well, text) = answer(&world).unwrap_or_else(|| panic!("{why}: {:?}", world.log));
        assert!(!well && text.contains(why) && text.starts_with("0 of 2 "), "{why}: {text}");
        assert!(!old.iter().any(|epoch| world.retired.contains(epoch)), "{why}: {:?}", world.log);
        assert!(!world.apps.contains_key(&new) || world.retired.contains(&new), "{why}");
        let before = newest(&world);
        world.pass(Duration::from_secs(60));
        assert!(newest(&world) <= before, "{why}: the present ones are enough");
    }
}

#[test]
fn canaries_have_to_have_a_place_and_something_to_be_compared_with() {
    let mut world = World::up();
    for count in [0, 9] {
        world.done.clear();
        world.command(1, Command::Pool("p0".to_owned(), PoolCommand::Canary(count)));
        let (well, text) = answer(&world).unwrap();
        assert!(!well && text.contains("so many can be tried at most"), "{text}");
    }
}

impl World {
    /// The process closes its channel, and lives on.
    pub(in crate::state) fn app_closes(&mut self, epoch: u64) {
        if let Some((slot, generation, _)) = self.apps.get(&epoch).copied()
            && !self.parked.contains(&epoch)
        {
            self.hello.remove(&epoch);
            self.event(Event::Worker(generation, FromWorker::SlotClosed(slot)));
        }
    }

    /// What the scoreboards say: `busy` requests at each process, and `queued` in each pool.
    pub(in crate::state) fn observe(&mut self, busy: u32, queued: u32) {
        for generation in self.workers.keys().copied().collect::<Vec<_>>() {
            let at = self.apps.iter().filter(|(_, app)| app.1 == generation);
            let work = |epoch: &u64| {
                self.worked
                    .get(epoch)
                    .copied()
                    .unwrap_or(Work { requests: u64::from(busy), ..Work::default() })
            };
            let seen = at.map(|(epoch, _)| Seen { epoch: *epoch, busy, work: work(epoch), memory: 0 });
            let (queued, seen) = (vec![queued; 3], seen.collect());
            self.event(Event::Observed { generation, queued, seen });
        }
    }
}
