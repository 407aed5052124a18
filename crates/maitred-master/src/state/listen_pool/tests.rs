use super::*;
use crate::state::events::{Counts, PoolKind};
use maitred_config::StopSignal;

const GRACE: Duration = Duration::from_secs(1);

/// A pool with the actions that came out of it.
struct World {
    pool: ListenPool,
    now: Instant,
    actions: Vec<Action>,
    counts: Counts,
    epoch_last: u64,
}

fn plan(workers: Settings, buckets: u16) -> PoolPlan {
    PoolPlan {
        name: "plain".into(),
        kind: PoolKind::Absent,
        workers,
        start_timeout: GRACE,
        exit_grace: GRACE,
        canary: crate::state::tests::replaced::CANARY,
        request_timeout: Duration::from_secs(10),
        retired_time: None,
        process: String::new(),
        listen: Some(ListenPlan { buckets, stop_signal: StopSignal::Quit, start_grace: GRACE }),
    }
}

impl World {
    fn new(workers: Settings, buckets: u16) -> World {
        let now = Instant::now();
        let pool = ListenPool::new(now, 1, 0, &plan(workers, buckets)).unwrap();
        World { pool, now, actions: Vec::new(), counts: Counts::default(), epoch_last: 0 }
    }

    fn act(&mut self, act: impl FnOnce(&mut ListenPool, Instant, &mut Out<'_>)) -> Vec<Action> {
        let out = &mut Out {
            actions: &mut self.actions,
            counts: &mut self.counts,
            epoch_last: &mut self.epoch_last,
        };
        act(&mut self.pool, self.now, out);
        std::mem::take(&mut self.actions)
    }

    fn pass(&mut self, time: Duration) -> Vec<Action> {
        self.now += time;
        self.act(|pool, now, out| {
            pool.tick(now, out);
            pool.decide(now, Some(1), out);
        })
    }

    fn buckets_started(actions: &[Action]) -> Vec<u16> {
        let bucket = |action: &Action| match action {
            Action::SpawnAccepting { bucket, .. } => Some(*bucket),
            _ => None,
        };
        actions.iter().filter_map(bucket).collect()
    }

    fn letters(&self) -> String {
        self.pool.faces().map(|face| char::from(face.state as u8)).collect()
    }
}

#[test]
fn slots_are_divided_and_a_process_is_ready_after_its_grace() {
    let mut world = World::new(Settings::fixed(4), 2);
    assert_eq!(World::buckets_started(&world.pass(Duration::ZERO)), [0, 0, 1, 1]);
    assert_eq!(world.letters(), "SSSS.");
    assert!(!world.pool.is_ready());
    world.pass(GRACE);
    assert_eq!(world.letters(), "____.");
    assert!(world.pool.is_ready());
}

#[test]
fn a_queue_that_stays_starts_more_in_its_own_bucket() {
    let mut world = World::new(Settings { start: 2, ..Settings::default() }, 2);
    world.pass(Duration::ZERO);
    world.pass(GRACE);
    let mut started = Vec::new();
    for _ in 0..4 {
        let now = world.now;
        world.pool.see(now, &[0, 3], &[]);
        started.extend(World::buckets_started(&world.pass(LOOK_OFTEN)));
    }
    assert!(!started.is_empty() && started.iter().all(|bucket| *bucket == 1), "{started:?}");
    assert!(started.len() <= 2, "{started:?}");
}

#[test]
fn one_that_ends_at_once_is_put_off_and_said() {
    let mut world = World::new(Settings::fixed(1), 1);
    let mut told = None;
    for epoch in 1..=3 {
        while world.epoch_last < epoch {
            world.pass(LOOK_OFTEN);
        }
        world.act(|pool, now, out| pool.exited(now, epoch, false, "exited with status 3", out));
        let actions = world.act(|pool, now, out| pool.decide(now, Some(7), out));
        assert_eq!(World::buckets_started(&actions).len(), usize::from(epoch == 0), "not at once");
        told = actions
            .into_iter()
            .find(|action| matches!(action, Action::Send(7, ToWorker::Trouble(..))))
            .or(told);
    }
    let Some(Action::Send(_, ToWorker::Trouble(0, Some(text)))) = told else { panic!("{told:?}") };
    assert!(text.contains("exited with status 3"), "{text}");
    assert_eq!(world.pool.delayed(), 1);
}

#[test]
fn the_end_is_asked_for_by_its_signal_and_then_made() {
    let mut world = World::new(Settings::fixed(1), 1);
    world.pass(Duration::ZERO);
    let kill_at = world.now + GRACE;
    let actions = world.act(|pool, _, out| pool.end(kill_at, out));
    assert_eq!(actions, [Action::StopApp(1, StopSignal::Quit)]);
    assert_eq!(world.pool.next_deadline(), Some(kill_at));
    assert!(world.pass(GRACE).contains(&Action::KillApp(1)));
    assert!(world.pass(GRACE).is_empty(), "once");
    world.act(|pool, now, out| pool.exited(now, 1, false, "was killed by SIGKILL", out));
    assert!(world.pool.is_over());
    assert_eq!(world.counts.slot_crashes, 0);
}

#[test]
fn it_survives_what_does_not_concern_it() {
    let world = World::new(Settings::fixed(2), 1);
    let same = plan(Settings::fixed(2), 1);
    assert!(world.pool.survives(&same));
    assert!(!world.pool.survives(&PoolPlan { process: "other".into(), ..same.clone() }));
    assert!(!world.pool.survives(&plan(Settings::fixed(2), 2)), "other buckets");
    assert!(!world.pool.survives(&PoolPlan { listen: None, ..same }));
}

#[test]
fn it_keeps_the_processes_that_it_may_still_have() {
    let mut world = World::new(Settings::fixed(10), 1);
    while world.counts.slots_started < 10 {
        world.pass(GRACE);
    }
    world.pass(GRACE);
    let less = plan(Settings::fixed(3), 1);
    let slots = usize::from(less.workers.slots());
    assert!(world.pool.survives(&less));
    let actions = world.act(|pool, now, out| pool.go_on(now, 2, 0, &less, out));
    let stopped = |actions: &[Action]| {
        let epoch = |action: &Action| match action {
            Action::StopApp(epoch, StopSignal::Quit) => Some(*epoch),
            _ => None,
        };
        actions.iter().filter_map(epoch).collect::<Vec<_>>()
    };
    let surplus = stopped(&actions);
    assert_eq!(surplus.len(), 10 - slots);
    surplus.iter().for_each(|epoch| {
        world.act(|pool, now, out| pool.exited(now, *epoch, true, "exited", out));
    });
    let mut over = Vec::new();
    for _ in 0..20 {
        let actions = world.pass(GRACE);
        for epoch in stopped(&actions) {
            world.act(|pool, now, out| pool.exited(now, epoch, true, "exited", out));
            over.push(epoch);
        }
    }
    assert_eq!(over.len(), slots - 3);
    assert_eq!((world.counts.slots_started, world.pool.faces().count()), (10, slots));
}

#[test]
fn a_restart_replaces_before_it_retires() {
    let mut world = World::new(Settings { start: 1, min_spare: 1, ..Settings::default() }, 1);
    world.pass(Duration::ZERO);
    world.pass(GRACE);
    world.pool.restart(world.now, (1, 1));
    assert_eq!(World::buckets_started(&world.pass(LOOK_OFTEN)).len(), 1);
    assert!(world.pass(LOOK_OFTEN).is_empty(), "the new one is not ready");
    let mut actions = world.pass(GRACE);
    actions.extend(world.pass(LOOK_OFTEN));
    assert!(actions.contains(&Action::StopApp(1, StopSignal::Quit)), "{actions:?}");
}

#[test]
fn the_command_to_restart_is_refused_when_a_new_process_ends_at_once() {
    let mut world = World::new(Settings { start: 1, min_spare: 1, ..Settings::default() }, 1);
    world.pass(Duration::ZERO);
    world.pass(GRACE);
    world.pool.restart(world.now, (1, 7));
    let started = World::buckets_started(&world.pass(LOOK_OFTEN)).len();
    assert_eq!(started, 1);
    let mut told = None;
    let mut actions = world.act(|pool, now, out| {
        pool.exited(now, 2, false, "exited with status 1", out);
        told = pool.report(now, out);
    });
    let why = "0 of 1 processes of pool plain were replaced, 1 stay: a new process exited with status 1 as soon as it was started";
    assert_eq!(told, Some((vec![(1, 7)], Report::Over(false, why.to_owned()))));
    actions.extend(world.pass(GRACE));
    actions.extend(world.pass(GRACE));
    assert!(!actions.iter().any(|action| matches!(action, Action::StopApp(..))), "{actions:?}");
}
