//! Pools whose processes go from one worker process to the next.

use super::*;
use crate::state::events::Proposal;

#[test]
fn a_pool_that_is_unchanged_lives_through_a_reload() {
    let mut world = with_pool(Settings::fixed(2));
    let before: Vec<u64> = world.apps.keys().copied().collect();
    world.signal(Signal::Hangup);
    world.worker_ready(2);
    assert_eq!(world.master.current(), Some(2), "nothing has to be started first");
    assert_eq!(world.asked_back.len(), 2);
    assert!(world.apps.values().all(|app| app.1 == 1), "the old one has them until it gives them back");
    before.iter().for_each(|epoch| world.release(*epoch));
    assert!(world.apps.values().all(|app| app.1 == 2));
    world.worker_dies(1);
    assert_eq!(world.apps.keys().copied().collect::<Vec<_>>(), before);
    assert!(world.apps.values().all(|app| !app.2), "none was asked to end");
}

#[test]
fn what_an_old_worker_does_not_give_back_ends_with_it_and_is_replaced() {
    let mut world = with_pool(Settings::fixed(2));
    let before: Vec<u64> = world.apps.keys().copied().collect();
    world.signal(Signal::Hangup);
    world.worker_ready(2);
    world.release(before[0]);
    world.pass(Duration::from_millis(100));
    world.worker_dies(1);
    assert!(world.apps[&before[1]].2, "it is asked to end");
    world.app_dies(before[1], true);
    assert_eq!(world.apps.len(), 2);
    assert_eq!(world.master.counts().slot_crashes, 0, "that was no crash");
}

#[test]
fn an_old_worker_whose_requests_wait_is_lent_a_process() {
    let mut world = with_pool(Settings::fixed(2));
    world.signal(Signal::Hangup);
    world.worker_ready(2);
    let all: Vec<u64> = world.apps.keys().copied().collect();
    all.iter().for_each(|epoch| world.release(*epoch));
    let seen = Vec::new();
    world.event(Event::Observed { generation: 1, queued: vec![1], seen: seen.clone() });
    let borrowed: Vec<u64> = world.asked_back.iter().copied().collect();
    assert_eq!(borrowed.len(), 1, "one is enough");
    world.event(Event::Observed { generation: 1, queued: vec![3], seen });
    assert_eq!(world.asked_back.len(), 1);
    world.release(borrowed[0]);
    assert_eq!(world.apps[&borrowed[0]].1, 1);
    // The worker process gives the application process back by itself.
    world.asked_back.insert(borrowed[0]);
    world.release(borrowed[0]);
    assert_eq!(world.apps[&borrowed[0]].1, 2);
}

#[test]
fn one_that_dies_on_its_way_to_an_old_worker_is_followed_by_another() {
    let mut world = with_pool(Settings::fixed(2));
    world.signal(Signal::Hangup);
    world.worker_ready(2);
    let all: Vec<u64> = world.apps.keys().copied().collect();
    all.iter().for_each(|epoch| world.release(*epoch));
    world.event(Event::Observed { generation: 1, queued: vec![1], seen: Vec::new() });
    let borrowed = world.asked_back.pop_first().unwrap();
    world.app_dies(borrowed, false);
    world.event(Event::Observed { generation: 1, queued: vec![1], seen: Vec::new() });
    assert!(world.asked_back.iter().all(|epoch| *epoch != borrowed) && world.asked_back.len() == 1);
}

#[test]
fn a_refused_reload_leaves_the_pool_where_it_is() {
    let mut world = with_pool(Settings::fixed(2));
    world.signal(Signal::Hangup);
    world.worker_dies(2);
    assert_eq!(world.master.counts().reloads_refused, 1);
    world.signal(Signal::Hangup);
    world.worker_ready(3);
    assert_eq!((world.master.current(), world.asked_back.len()), (Some(3), 2));
}

#[test]
fn a_worker_that_dies_in_a_reload_costs_its_pool_and_not_the_next_one() {
    let mut world = with_pool(Settings::fixed(1));
    world.signal(Signal::Hangup);
    world.worker_dies(1);
    assert!(world.apps.len() >= 2, "the old one ends, and the next generation starts its own");
    world.all_ready();
    let current = world.master.current().unwrap();
    assert!(world.apps.values().any(|app| app.1 == current && !app.2));
}

/// A worker process that reaches an application process over a link receives its end, may say that it is lost, and needs no
/// other one.
#[test]
fn an_old_worker_that_reaches_a_process_over_a_link_hears_of_it() {
    let mut world = with_pool(Settings::fixed(1));
    world.signal(Signal::Hangup);
    world.worker_ready(2);
    let epoch = *world.apps.keys().next().unwrap();
    world.hand_over(epoch);
    assert_eq!(world.apps[&epoch].1, 2);
    world.event(Event::Observed { generation: 1, queued: vec![3], seen: Vec::new() });
    assert!(world.asked_back.is_empty(), "its requests go over the link");
    let id = SlotId { pool: 0, slot: 0, epoch };
    world.event(Event::Worker(3, FromWorker::SlotLost(id, "of no concern".to_owned())));
    assert!(world.apps.contains_key(&epoch));
    world.event(Event::Worker(1, FromWorker::SlotLost(id, "it does not answer".to_owned())));
    assert!(!world.apps.contains_key(&epoch), "it is killed");
    for generation in [1, 2] {
        let said = |action: &Action| match action {
            Action::Send(to, ToWorker::SlotExited(slot, _)) => (*to, slot.epoch) == (generation, epoch),
            _ => false,
        };
        assert!(world.done.iter().any(said), "worker process {generation} receives it");
    }
}

/// Each reload beside a stream leaves a worker process, up to as many as there may be; the oldest has its time then.
#[test]
fn the_oldest_of_too_many_old_workers_has_to_finish() {
    let mut world = World::new();
    (world.grace_streams, world.same) = (None, true);
    world.event(Event::Start);
    world.all_ready();
    for _ in 0..2 {
        world.signal(Signal::Hangup);
        world.all_ready();
    }
    world.pass(Duration::from_secs(60 * 60));
    assert_eq!(
        world.workers.keys().copied().collect::<Vec<_>>(),
        [1, 2, 3],
        "they stay for as long as they like"
    );
    world.signal(Signal::Hangup);
    world.all_ready();
    assert!(world.has_done(&Action::Send(1, ToWorker::Hurry(20_000))));
    world.pass(GRACE + DRAIN_MARGIN);
    assert_eq!(world.workers.keys().copied().collect::<Vec<_>>(), [2, 3, 4]);
    let old: Vec<u64> = world.master.old_workers().map(|(number, _)| number).collect();
    assert_eq!(old, [2, 3]);
    world.signal(Signal::Terminate);
    world.pass(GRACE + DRAIN_MARGIN);
    world.pass(Duration::from_secs(10));
    assert_eq!(world.exit, Some(0), "a stop is bounded all the same");
}

/// The worker process asked for the channel may not have given it back when the next reload comes: it is asked once.
#[test]
fn a_process_that_is_being_handed_on_goes_straight_to_the_newest_worker() {
    let mut world = with_pool(Settings::fixed(1));
    let epoch = *world.apps.keys().next().unwrap();
    for generation in [2, 3] {
        world.signal(Signal::Hangup);
        world.worker_ready(generation);
        assert_eq!(world.master.current(), Some(generation));
    }
    let asked = world.done.iter().filter(|action| matches!(action, Action::HandOn { .. }));
    assert_eq!(asked.count(), 1);
    world.hand_over(epoch);
    assert_eq!(world.apps[&epoch].1, 3);
    world.signal(Signal::Hangup);
    world.worker_ready(4);
    world.hand_over(epoch);
    assert_eq!(world.apps[&epoch].1, 4, "that one is asked for it as any other");
}

/// The worker process in between has never had the process: what waits there gets a link of its own.
#[test]
fn requests_that_wait_in_a_worker_that_was_passed_over_reach_the_only_process() {
    let mut world = with_pool(Settings::fixed(1));
    let epoch = *world.apps.keys().next().unwrap();
    for generation in [2, 3] {
        world.signal(Signal::Hangup);
        world.worker_ready(generation);
    }
    let shared = |world: &World| {
        let to = |action: &Action| match action {
            Action::Share { generation, slot, guest, .. } => Some((*generation, slot.epoch, *guest)),
            _ => None,
        };
        world.done.iter().filter_map(to).collect::<Vec<_>>()
    };
    let waits = Event::Observed { generation: 2, queued: vec![1], seen: Vec::new() };
    world.event(waits.clone());
    assert!(shared(&world).is_empty(), "it is on its way, and cannot be shared");
    world.hand_over(epoch);
    world.event(waits.clone());
    world.event(waits.clone());
    assert_eq!(shared(&world), [(3, epoch, 2)], "once");
    // The link has ended, and the process has not.
    world.event(Event::Worker(2, FromWorker::SlotReleased(SlotId { pool: 0, slot: 0, epoch }, false)));
    assert_eq!(world.apps[&epoch].1, 3);
    world.event(waits);
    assert_eq!(shared(&world).len(), 2);
}

/// What a process said last is in its channel, which the worker process that had it may have handed over already.
#[test]
fn what_a_process_said_last_on_its_way_is_heard_by_the_next_worker() {
    for linked in [true, false] {
        let mut world = with_pool(Settings::fixed(1));
        let epoch = *world.apps.keys().next().unwrap();
        world.signal(Signal::Hangup);
        world.worker_ready(2);
        world.app_dies(epoch, true);
        world.done.clear();
        world.event(Event::Worker(1, FromWorker::SlotReleased(SlotId { pool: 0, slot: 0, epoch }, linked)));
        let told = world.done.iter().filter(|action| match action {
            Action::MoveApp { generation, slot, linked, .. } => {
                (*generation, slot.epoch, *linked) == (2, epoch, true)
            }
            Action::Send(2, ToWorker::SlotExited(slot, _)) => slot.epoch == epoch,
            _ => false,
        });
        assert_eq!(told.count(), if linked { 2 } else { 0 });
    }
}

#[test]
fn a_worker_process_is_replaced_as_in_a_reload_but_not_beside_one() {
    let mut world = with_pool(Settings::fixed(1));
    assert!(world.master.can_replace());
    world.event(Event::Replace);
    assert!(world.has_done(&Action::PrepareAgain) && !world.has_done(&Action::Prepare));
    assert!(!world.master.can_replace());
    world.done.clear();
    world.event(Event::Replace);
    assert_eq!(world.done, [], "one is under way");
    world.worker_ready(2);
    assert_eq!(world.master.current(), Some(2));
    assert_eq!(world.asked_back.len(), 1, "the pool goes over");
    assert!(world.master.can_replace());
    // A worker process that does not come up leaves the present one.
    world.event(Event::Replace);
    world.worker_dies(3);
    assert_eq!(world.master.current(), Some(2));
    assert!(world.master.can_replace());
}

#[test]
fn a_stop_refuses_a_reload_under_way() {
    let mut world = World::up();
    world.command(1, Command::Reload);
    world.command(1, Command::Reload);
    world.signal(Signal::Terminate);
    world.nothing_unanswered();
    assert!(
        world.log.iter().any(|line| line.contains("reload given up: the server is stopping")),
        "{:?}",
        world.log
    );
    world.command(1, Command::Reload);
    world.nothing_unanswered();
    assert_eq!(world.workers.keys().copied().collect::<Vec<_>>(), [1]);
}

/// A client sends a configuration.
fn propose(world: &mut World, (generation, command): (u64, u64)) -> Box<Proposal> {
    let proposal = Box::new(Proposal { path: "maitred.toml".into(), text: "# other".to_owned() });
    world.workers.get_mut(&generation).unwrap().commands_open.insert(command);
    world.event(Event::Proposed((generation, command), proposal.clone()));
    proposal
}

#[test]
fn a_configuration_that_a_client_has_sent_is_a_reload_but_not_beside_another() {
    let done = |number, well| {
        move |action: &Action| match action {
            Action::Send(1, ToWorker::CommandDone(found, said, _)) => (*found, *said) == (number, well),
            _ => false,
        }
    };
    let mut world = with_pool(Settings::fixed(1));
    let proposal = propose(&mut world, (1, 7));
    assert!(world.has_done(&Action::PrepareProposed((1, 7), proposal)));
    // What it finds in the file would not be what that client knows.
    propose(&mut world, (1, 8));
    assert!(world.done.iter().any(done(8, false)) && !world.done.iter().any(done(7, true)));
    world.worker_ready(2);
    assert_eq!(world.master.current(), Some(2));
    assert!(world.done.iter().any(done(7, true)), "{:?}", world.done);
    // A configuration that is wrong leaves everything as it was.
    world.next_config = None;
    world.done.clear();
    propose(&mut world, (2, 9));
    let told = |action: &Action| matches!(action, Action::Send(2, ToWorker::CommandDone(9, false, _)));
    assert!(world.done.iter().any(told) && world.master.can_replace());
    assert_eq!(world.master.current(), Some(2));
}

#[test]
fn the_reason_of_a_new_worker_that_cannot_run_is_what_the_reload_is_refused_with() {
    let mut world = World::up();
    world.command(1, Command::Reload);
    world.event(Event::Worker(1, FromWorker::CannotRun("no reason of the new one".to_owned())));
    world.event(Event::Worker(2, FromWorker::CannotRun("module a.so: no\nline".to_owned())));
    assert_eq!(world.workers.len(), 2, "it ends by itself");
    world.worker_dies(2);
    let why = "the new worker process cannot run: module a.so: no line".to_owned();
    assert!(world.has_done(&Action::Send(1, ToWorker::CommandDone(1, false, why))));
    world.command(1, Command::Reload);
    world.worker_dies(3);
    let why = "the new worker process was killed by SIGSEGV before it could take over".to_owned();
    assert!(world.has_done(&Action::Send(1, ToWorker::CommandDone(2, false, why))), "{:?}", world.done);
}
