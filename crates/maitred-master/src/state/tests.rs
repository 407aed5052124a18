//! The machine in a small world: processes that live, get ready and die as a test says.

mod lowered;
mod progress;
mod recovered;
mod reloaded;
pub(super) mod replaced;
mod retired;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use maitred_sys::signals::Signal;

use super::events::{Action, Event, Notice, Plan, PoolKind, PoolPlan, Refusal};
use super::generation::{DRAIN_MARGIN, NEXT_START_TIMEOUT, WORKER_START_TIMEOUT};
use super::pool::APP_KILL_DELAY;
use super::{Master, Phase, Reload};
use maitred_base::pool::settings::Settings;
use maitred_control::{Command, DrainTime, FromWorker, Greeting, PoolCommand, SlotId, ToWorker};

pub(super) const GRACE: Duration = Duration::from_secs(20);
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(3);
pub(super) const EXIT_GRACE: Duration = Duration::from_secs(2);
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);

/// The state of a worker process in the simulated world.
#[derive(Debug, Default)]
pub(super) struct Worker {
    pub ready: bool,
    pub drained: bool,
    pub adopts: bool,
    commands_open: BTreeSet<u64>,
}

/// The simulated world, with what must hold of every action checked when it is carried out.
pub(super) struct World {
    pub master: Master,
    pub now: Instant,
    pub workers: BTreeMap<u64, Worker>,
    /// Living application processes, and whether they were asked to end.
    pub apps: BTreeMap<u64, (SlotId, u64, bool)>,
    /// The answer to the next `Prepare`, by number of pools; an error if `None`.
    pub next_config: Option<u16>,
    pub log: Vec<String>,
    pub done: Vec<Action>,
    pub exit: Option<u8>,
    /// How many processes the pools of the next configuration have.
    pub sizes: Settings,
    /// What the slots of its pools are filled with.
    pub kind: PoolKind,
    /// Whether their processes may live on under the next configuration.
    pub same: bool,
    /// Whether processes that say HELLO recover.
    pub recovers: bool,
    /// How long requests may go on in a worker process that was replaced.
    pub grace_streams: Option<Duration>,
    /// Processes whose channel was closed, and that wait for another.
    parked: BTreeSet<u64>,
    /// Processes that have said HELLO.
    pub hello: BTreeSet<u64>,
    /// Processes that were asked to finish.
    pub retired: BTreeSet<u64>,
    /// What the scoreboard says of processes, where it is not what [`World::observe`] was told.
    pub worked: BTreeMap<u64, maitred_base::pool::canary::Work>,
    /// Processes whose channels were asked back, and processes that are between two worker processes.
    pub asked_back: BTreeSet<u64>,
    /// The processes of `asked_back` for which there is a link.
    pub handed_on: BTreeSet<u64>,
    given_back: BTreeSet<u64>,
    generation_last: u64,
    epochs_seen: BTreeSet<u64>,
    plan_last: u64,
    commands: u64,
    queue: VecDeque<Event>,
}

impl World {
    pub(super) fn new() -> Self {
        World {
            master: Master::new(),
            now: Instant::now(),
            workers: BTreeMap::new(),
            apps: BTreeMap::new(),
            next_config: Some(1),
            log: Vec::new(),
            done: Vec::new(),
            exit: None,
            sizes: Settings::fixed(2),
            kind: PoolKind::Started,
            same: false,
            grace_streams: Some(GRACE),
            recovers: false,
            parked: BTreeSet::new(),
            hello: BTreeSet::new(),
            retired: BTreeSet::new(),
            worked: BTreeMap::new(),
            asked_back: BTreeSet::new(),
            handed_on: BTreeSet::new(),
            given_back: BTreeSet::new(),
            generation_last: 0,
            epochs_seen: BTreeSet::new(),
            plan_last: 0,
            commands: 0,
            queue: VecDeque::new(),
        }
    }

    /// A world whose first worker process and applications are ready.
    pub(super) fn up() -> Self {
        let mut world = World::new();
        world.event(Event::Start);
        world.all_ready();
        world.done.clear();
        world
    }

    pub(super) fn event(&mut self, event: Event) {
        self.queue.push_back(event);
        while let Some(event) = self.queue.pop_front() {
            let actions = self.master.handle(self.now, event);
            for action in actions {
                self.carry_out(&action);
                self.done.push(action);
            }
        }
    }

    /// Lets time pass, with every deadline met on time.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.master.next_deadline().filter(|at| *at <= end) {
            assert!(self.exit.is_none(), "a deadline after the end");
            self.now = at.max(self.now);
            self.event(Event::Tick);
            let next = self.master.next_deadline();
            assert!(next.is_none_or(|next| next > self.now), "a deadline is not dealt with");
        }
        self.now = end;
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        self.event(Event::Signal(signal));
    }

    pub(super) fn worker_ready(&mut self, generation: u64) {
        if let Some(worker) = self.workers.get_mut(&generation) {
            worker.ready = true;
            self.event(Event::Worker(generation, FromWorker::Ready));
        }
    }

    pub(super) fn worker_dies(&mut self, generation: u64) {
        if self.workers.remove(&generation).is_some() {
            self.event(Event::WorkerExited { generation, how: "was killed by SIGSEGV".to_owned() });
        }
    }

    pub(super) fn app_ready(&mut self, epoch: u64) {
        if let Some((slot, generation, _)) = self.apps.get(&epoch).copied() {
            if self.parked.contains(&epoch) {
                return;
            }
            self.hello.insert(epoch);
            let (recovers, name) = (self.recovers, "test".to_owned());
            let greeting = Greeting {
                capacity: 1,
                sockets_only: false,
                open_files: None,
                streams: false,
                recovers,
                name,
            };
            self.event(Event::Worker(generation, FromWorker::SlotReady(slot, greeting)));
        }
    }

    pub(super) fn app_dies(&mut self, epoch: u64, clean: bool) {
        if let Some((slot, ..)) = self.apps.remove(&epoch) {
            self.event(Event::AppExited { slot, clean, how: "exited with status 1".to_owned() });
        }
    }

    pub(super) fn command(&mut self, generation: u64, command: Command) {
        if let Some(worker) = self.workers.get_mut(&generation) {
            self.commands += 1;
            worker.commands_open.insert(self.commands);
            self.event(Event::Worker(generation, FromWorker::Command(self.commands, command)));
        }
    }

    pub(super) fn all_ready(&mut self) {
        for generation in self.workers.keys().copied().collect::<Vec<_>>() {
            self.worker_ready(generation);
        }
        for epoch in self.apps.keys().copied().collect::<Vec<_>>() {
            self.app_ready(epoch);
        }
    }

    /// Every command of a worker process that lives has had its one answer.
    pub(super) fn nothing_unanswered(&self) {
        for (generation, worker) in &self.workers {
            assert!(worker.commands_open.is_empty(), "{generation}: {:?}", worker.commands_open);
        }
    }

    fn plan(&mut self, pools: u16) -> Plan {
        self.plan_last += 1;
        let pool = |number| PoolPlan {
            listen: None,
            name: format!("p{number}"),
            kind: self.kind,
            workers: self.sizes,
            start_timeout: START_TIMEOUT,
            exit_grace: EXIT_GRACE,
            canary: replaced::CANARY,
            request_timeout: REQUEST_TIMEOUT,
            retired_time: self.grace_streams,
            process: if self.same { String::new() } else { self.plan_last.to_string() },
        };
        Plan {
            number: self.plan_last,
            grace: GRACE,
            grace_streams: self.grace_streams,
            old_workers_max: 2,
            pools: (0..pools).map(pool).collect(),
        }
    }

    fn carry_out(&mut self, action: &Action) {
        assert!(self.exit.is_none(), "{action:?} after the end");
        match action {
            Action::Prepare | Action::PrepareAgain | Action::PrepareProposed(..) => {
                let answer = match self.next_config {
                    Some(pools) => Ok(self.plan(pools)),
                    None => Err(Refusal { exit_code: 2, text: "line 1: no".to_owned() }),
                };
                self.queue.push_back(Event::Prepared(answer));
            }
            Action::SpawnWorker { generation, adopts, .. } => {
                assert!(*generation > self.generation_last);
                self.generation_last = *generation;
                self.workers.insert(*generation, Worker { adopts: *adopts, ..Worker::default() });
            }
            Action::SpawnApp { generation, slot, .. } => {
                assert!(self.workers.contains_key(generation));
                assert!(self.epochs_seen.insert(slot.epoch), "an epoch is given out twice");
                self.apps.insert(slot.epoch, (*slot, *generation, false));
            }
            Action::SpawnAccepting { .. } | Action::StopApp(..) => panic!("no pool listens here"),
            Action::Send(generation, message) => self.sent(*generation, message),
            Action::Handover { from, to, .. } => {
                assert!(self.workers[to].ready && self.workers[to].adopts);
                self.sent(*from, &ToWorker::Drain(DrainTime::bounded(0)));
            }
            Action::Succeed { from, to } => {
                assert!(self.workers[to].ready && self.workers[to].adopts);
                assert!(self.workers[from].drained, "only what drains has a successor");
            }
            Action::KillWorker(generation) => {
                assert!(self.workers.remove(generation).is_some());
                let how = "was killed by SIGKILL".to_owned();
                self.queue.push_back(Event::WorkerExited { generation: *generation, how });
            }
            Action::TerminateApp(epoch) => {
                let app = self.apps.get_mut(epoch).expect("a living process");
                assert!(!std::mem::replace(&mut app.2, true), "asked twice");
            }
            Action::KillApp(epoch) => {
                let (slot, ..) = self.apps.remove(epoch).expect("a living process");
                self.hello.remove(epoch);
                let how = "was killed by SIGKILL".to_owned();
                self.queue.push_back(Event::AppExited { slot, clean: false, how });
            }
            Action::HandOn { generation, slot } => {
                self.assert_owns(*generation, *slot);
                assert!(
                    self.handed_on.insert(slot.epoch),
                    "there is a link for it, which would lead nowhere"
                );
                self.asked_back.insert(slot.epoch);
            }
            Action::Share { generation, slot, guest, .. } => {
                self.assert_owns(*generation, *slot);
                assert!(self.workers.contains_key(guest) && guest != generation);
            }
            // The process has exited on its way.
            Action::MoveApp { slot, linked: true, .. } if !self.apps.contains_key(&slot.epoch) => {}
            Action::MoveApp { generation, slot, greeting, .. } => {
                self.moved(*generation, *slot, greeting.as_ref())
            }
            Action::CloseChannel(epoch) => {
                let app = self.apps.get(epoch).expect("a living process");
                let lost = !self.workers.contains_key(&app.1) || self.given_back.remove(epoch);
                assert!(lost && !app.2, "a worker process has its channel, or it is to end");
                self.hello.remove(epoch);
                self.asked_back.remove(epoch);
                self.handed_on.remove(epoch);
                self.parked.insert(*epoch);
            }
            Action::RecoverApp { generation, slot } => {
                assert!(self.workers.contains_key(generation), "to a worker process that is not there");
                assert!(self.parked.remove(&slot.epoch), "its channel was not closed");
                let app = self.apps.get_mut(&slot.epoch).expect("a living process");
                assert!(!app.2, "it is to end");
                (app.0, app.1) = (*slot, *generation);
            }
            Action::Log(_, text) => {
                super::properties::has_a_successor(self, text);
                self.log.push(text.clone());
            }
            Action::Exit(code) => {
                assert!(self.workers.is_empty() && self.apps.is_empty(), "left behind");
                self.exit = Some(*code);
            }
            Action::Check => self.queue.push_back(Event::Checked(Ok(()))),
            Action::OrphanMode { generation, .. } => {
                self.queue.push_back(Event::Worker(*generation, FromWorker::Outlives));
            }
            Action::Replace(_) => self.queue.push_back(Event::NotReplaced("not here".to_owned())),
            Action::Go { .. } | Action::TellOld(_) => panic!("there was no image before"),
            Action::Commit(_) | Action::Abandon(_) | Action::CloseSockets | Action::Notify(_) => {}
            Action::AbandonCheck | Action::CancelOrphanMode => {}
        }
    }

    fn sent(&mut self, generation: u64, message: &ToWorker) {
        let worker = self.workers.get_mut(&generation).expect("a living worker process");
        match message {
            // A worker process that drains may still be asked to finish at once.
            ToWorker::Drain(DrainTime { grace_ms: 0, .. }) => worker.drained = true,
            ToWorker::Drain(_) => assert!(!std::mem::replace(&mut worker.drained, true), "drained twice"),
            ToWorker::Hurry(_) => assert!(worker.drained, "it does not drain"),
            ToWorker::CommandDone(command, ..) => {
                assert!(worker.commands_open.remove(command), "answered twice or never asked");
            }
            ToWorker::CommandWaits(command, _) => {
                assert!(worker.commands_open.contains(command), "it was not asked, or it was answered");
            }
            ToWorker::SlotExited(slot, _) => assert!(!self.apps.contains_key(&slot.epoch)),
            ToWorker::Retire(slot) => {
                self.assert_owns(generation, *slot);
                self.retired.insert(slot.epoch);
            }
            ToWorker::Release(slot, _) => {
                self.assert_owns(generation, *slot);
                self.asked_back.insert(slot.epoch);
            }
            ToWorker::Trouble(..) | ToWorker::LastWords(..) => {}
            ToWorker::SlotStarted(..)
            | ToWorker::Guest(_)
            | ToWorker::Adopt(_)
            | ToWorker::Link(_)
            | ToWorker::Watch(_)
            | ToWorker::OrphanMode(_)
            | ToWorker::Successor
            | ToWorker::Certificates
            | ToWorker::KeySet(_)
            | ToWorker::Users(_)
            | ToWorker::Servers
            | ToWorker::CommandDocument(_)
            | ToWorker::Challenge(_)
            | ToWorker::ChallengeOver(_)
            | ToWorker::NameRefused(_)
            | ToWorker::NameLater(_)
            | ToWorker::LogFile(_)
            | ToWorker::CertificateReport(_) => {
                panic!("the shell's own: {message:?}")
            }
        }
    }

    fn assert_owns(&self, generation: u64, slot: SlotId) {
        assert_eq!(self.apps.get(&slot.epoch).map(|app| app.1), Some(generation), "it has its channel");
    }

    /// A channel changes hands: only what was asked back and given back, with no other owner in between.
    fn moved(&mut self, generation: u64, slot: SlotId, greeting: Option<&Greeting>) {
        assert!(self.workers.contains_key(&generation), "moved to a worker process that is not there");
        assert!(self.given_back.remove(&slot.epoch), "it was not given back");
        assert_eq!(greeting.is_some(), self.hello.contains(&slot.epoch));
        let app = self.apps.get_mut(&slot.epoch).expect("a living process");
        (app.0, app.1) = (slot, generation);
    }

    /// The worker process gives back a channel that was asked for.
    pub(super) fn release(&mut self, epoch: u64) {
        self.give_back(epoch, false);
    }

    /// The same of one that it goes on using over a link.
    pub(super) fn hand_over(&mut self, epoch: u64) {
        self.give_back(epoch, true);
    }

    fn give_back(&mut self, epoch: u64, linked: bool) {
        let Some((slot, generation, _)) = self.apps.get(&epoch).copied() else { return };
        if self.asked_back.remove(&epoch) && self.workers.contains_key(&generation) {
            self.handed_on.remove(&epoch);
            self.given_back.insert(epoch);
            self.event(Event::Worker(generation, FromWorker::SlotReleased(slot, linked)));
            self.given_back.remove(&epoch);
        }
    }

    fn has_done(&self, wanted: &Action) -> bool {
        self.done.contains(wanted)
    }
}

#[test]
fn the_first_worker_is_announced_when_it_is_ready() {
    let mut world = World::new();
    world.event(Event::Start);
    assert_eq!(world.done[0], Action::Prepare);
    assert_eq!(world.done[1], Action::SpawnWorker { generation: 1, plan: 1, adopts: false });
    assert_eq!(world.apps.len(), 2);
    assert!(!world.has_done(&Action::Notify(Notice::Ready)));
    world.worker_ready(1);
    assert!(world.has_done(&Action::Notify(Notice::Ready)));
    assert_eq!(world.master.current(), Some(1));
}

#[test]
fn a_bad_first_configuration_ends_the_master_with_its_code() {
    let mut world = World::new();
    world.next_config = None;
    world.event(Event::Start);
    assert_eq!(world.exit, Some(2));
    assert_eq!(world.log, ["line 1: no"]);
}

#[test]
fn a_first_worker_that_keeps_dying_ends_the_master() {
    let mut world = World::new();
    world.event(Event::Start);
    world.worker_dies(1);
    world.worker_dies(2);
    world.pass(Duration::from_millis(100));
    world.worker_dies(3);
    world.pass(Duration::from_secs(10));
    assert_eq!(world.exit, Some(1));
    assert!(world.log.iter().any(|line| line.contains("3 times before it was ever ready")));
}

#[test]
fn a_first_worker_that_is_never_ready_ends_the_master() {
    let mut world = World::new();
    world.event(Event::Start);
    world.pass(WORKER_START_TIMEOUT + Duration::from_secs(2));
    assert_eq!(world.exit, Some(1));
}

#[test]
fn a_dead_worker_is_replaced_at_once_then_later() {
    let mut world = World::up();
    world.worker_dies(1);
    assert_eq!(world.master.current(), Some(2));
    assert_eq!(world.apps.values().filter(|app| app.2).count(), 2, "the apps of the dead one are to end");
    world.worker_dies(2);
    assert_eq!(world.master.current(), None);
    world.pass(Duration::from_millis(99));
    assert_eq!(world.master.current(), None);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.master.current(), Some(3));
    world.pass(Duration::from_secs(10));
    world.worker_ready(3);
    world.worker_dies(3);
    assert_eq!(world.master.current(), Some(4), "it lived long enough");
    assert_eq!(world.master.counts().worker_crashes, 3);
}

#[test]
fn reload_hands_over_only_when_the_new_generation_is_ready() {
    let mut world = World::up();
    world.signal(Signal::Hangup);
    assert!(world.workers[&2].adopts);
    world.worker_ready(2);
    assert_eq!(world.master.current(), Some(1), "its applications are not ready");
    let new: Vec<u64> = world.apps.values().filter(|app| app.1 == 2).map(|app| app.0.epoch).collect();
    world.app_ready(new[1]);
    assert_eq!(world.master.current(), Some(2));
    assert!(world.has_done(&Action::Handover { from: 1, to: 2, time: DrainTime::bounded(20_000) }));
    assert!(world.has_done(&Action::Commit(2)));
    world.worker_dies(1);
    assert_eq!(world.workers.len(), 1);
    assert_eq!(world.master.counts().worker_crashes, 0, "it was asked to");
    assert_eq!(world.master.counts().reloads, 1);
}

#[test]
fn an_application_that_fails_to_start_does_not_hold_a_reload_up_for_ever() {
    for death in [false, true] {
        let mut world = World::up();
        world.signal(Signal::Hangup);
        world.worker_ready(2);
        let new = world.apps.values().find(|app| app.1 == 2).map(|app| app.0.epoch).unwrap();
        if death {
            world.app_dies(new, false);
            world.app_dies(new + 1, false);
        } else {
            world.pass(START_TIMEOUT);
        }
        assert!(world.master.reload.is_none() && world.master.current() == Some(1));
    }
}

#[test]
fn a_refused_reload_changes_nothing_and_says_why() {
    let mut world = World::up();
    world.next_config = None;
    world.command(1, Command::Reload);
    assert!(world.has_done(&Action::Send(1, ToWorker::CommandDone(1, false, "line 1: no".to_owned()))));
    assert_eq!(world.workers.keys().collect::<Vec<_>>(), [&1]);
    assert!(!world.workers[&1].drained);
    assert_eq!((world.master.counts().reloads_refused, world.master.counts().reload_refused), (1, 1));
}

#[test]
fn a_new_worker_that_dies_or_is_late_refuses_the_reload() {
    for dies in [false, true] {
        let mut world = World::up();
        world.command(1, Command::Reload);
        if dies {
            world.worker_dies(2);
        } else {
            world.pass(NEXT_START_TIMEOUT);
        }
        assert!(world.has_done(&Action::Abandon(2)));
        assert_eq!(world.master.current(), Some(1));
        world.nothing_unanswered();
        world.pass(Duration::from_secs(6));
        assert_eq!((world.workers.len(), world.apps.len()), (1, 2));
    }
}

#[test]
fn reloads_during_a_reload_become_one_more() {
    let mut world = World::up();
    for _ in 0..5 {
        world.command(1, Command::Reload);
    }
    world.all_ready();
    assert_eq!(world.workers.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    world.all_ready();
    assert_eq!(world.workers.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(world.master.counts().reloads, 2);
    world.nothing_unanswered();
}

#[test]
fn a_reload_ends_a_crash_loop() {
    let mut world = World::up();
    world.worker_dies(1);
    world.worker_dies(2);
    assert_eq!(world.master.current(), None);
    world.signal(Signal::Hangup);
    world.all_ready();
    assert_eq!(world.master.current(), Some(3));
    world.pass(Duration::from_secs(60));
    assert_eq!(world.workers.len(), 1);
}

#[test]
fn an_old_worker_past_its_grace_is_killed() {
    let mut world = World::up();
    world.signal(Signal::Hangup);
    world.all_ready();
    assert!(world.workers[&1].drained);
    world.pass(GRACE + DRAIN_MARGIN);
    assert_eq!(world.workers.keys().copied().collect::<Vec<_>>(), [2]);
}

#[test]
fn stop_drains_first_and_closes_sockets_then() {
    let mut world = World::up();
    world.command(1, Command::Stop);
    let place = |wanted: &Action| world.done.iter().position(|action| action == wanted).unwrap();
    assert!(
        place(&Action::Send(1, ToWorker::Drain(DrainTime::bounded(20_000)))) < place(&Action::CloseSockets)
    );
    world.nothing_unanswered();
    assert_eq!(world.apps.values().filter(|app| app.2).count(), 0, "the worker still needs them");
    world.worker_dies(1);
    assert_eq!(world.apps.values().filter(|app| app.2).count(), 2);
    assert_eq!(world.exit, None);
    world.pass(Duration::from_secs(5));
    assert_eq!(world.exit, Some(0));
}

#[test]
fn interrupt_and_a_second_terminate_end_it_at_once() {
    for signals in [vec![Signal::Interrupt], vec![Signal::Terminate, Signal::Terminate]] {
        let mut world = World::up();
        signals.into_iter().for_each(|signal| world.signal(signal));
        assert!(world.workers.values().all(|worker| worker.drained), "it may write its last log lines");
        world.pass(Duration::from_millis(500));
        assert!(world.workers.is_empty(), "but not for long");
        world.pass(Duration::from_secs(1));
        assert_eq!(world.exit, Some(0));
    }
}

#[test]
fn a_dead_application_is_replaced_with_growing_delay() {
    let mut world = World::up();
    let first = *world.apps.keys().next().unwrap();
    world.pass(Duration::from_secs(30));
    world.app_dies(first, false);
    assert_eq!(world.apps.len(), 2, "at once: it lived");
    let second = *world.apps.keys().last().unwrap();
    assert!(second > first);
    world.app_dies(second, false);
    assert_eq!((world.apps.len(), world.master.counts().slots_delayed), (1, 1));
    world.pass(Duration::from_millis(100));
    assert_eq!((world.apps.len(), world.master.counts().slots_delayed), (2, 0));
    assert_eq!(world.master.counts().slot_crashes, 2);
}

#[test]
fn a_lost_application_is_killed_and_replaced() {
    let mut world = World::up();
    let (slot, ..) = *world.apps.values().next().unwrap();
    world.event(Event::Worker(1, FromWorker::SlotLost(slot, "broke the protocol".to_owned())));
    assert!(world.has_done(&Action::KillApp(slot.epoch)));
    world.pass(Duration::from_millis(100));
    assert_eq!(world.apps.len(), 2);
}

#[test]
fn an_application_that_says_no_hello_is_killed() {
    let mut world = World::new();
    world.event(Event::Start);
    world.worker_ready(1);
    world.pass(START_TIMEOUT);
    assert_eq!(world.apps.len(), 0);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.apps.len(), 1, "one at a time, until one is ready");
    world.all_ready();
    world.pass(Duration::from_millis(100));
    assert_eq!(world.apps.len(), 2);
}

#[test]
fn a_draining_worker_keeps_its_applications_but_lets_clean_ones_go() {
    let mut world = World::up();
    world.signal(Signal::Terminate);
    let epochs: Vec<u64> = world.apps.keys().copied().collect();
    world.app_dies(epochs[0], true);
    world.app_dies(epochs[1], false);
    world.pass(Duration::from_millis(100));
    assert_eq!(world.apps.len(), 1, "only the one that crashed is replaced");
}

#[test]
fn messages_of_the_dead_and_unknown_are_ignored() {
    let mut world = World::up();
    let before = format!("{:?}", world.master);
    world.event(Event::Worker(77, FromWorker::Ready));
    world.event(Event::WorkerExited { generation: 77, how: String::new() });
    let slot = SlotId { pool: 9, slot: 9, epoch: 999 };
    let greeting = Greeting {
        capacity: 1,
        sockets_only: false,
        open_files: None,
        streams: false,
        recovers: false,
        name: "test".to_owned(),
    };
    world.event(Event::Worker(1, FromWorker::SlotReady(slot, greeting)));
    world.event(Event::Worker(1, FromWorker::SlotLost(slot, String::new())));
    world.event(Event::AppExited { slot, clean: false, how: String::new() });
    world.signal(Signal::Child);
    assert_eq!(format!("{:?}", world.master), before);
    assert!(matches!(world.master.phase, Phase::Up));
    assert!(!matches!(world.master.reload, Some((Reload::Preparing, _))));
}

/// A world with one pool of these processes, whose worker process and processes are ready.
fn with_pool(sizes: Settings) -> World {
    let mut world = World::new();
    (world.sizes, world.same) = (sizes, true);
    world.event(Event::Start);
    world.all_ready();
    world.done.clear();
    world
}

#[test]
fn a_worker_that_still_drains_gets_the_newest_successor() {
    let mut world = World::up();
    for _ in 0..2 {
        world.signal(Signal::Hangup);
        world.all_ready();
    }
    assert_eq!(world.master.current(), Some(3));
    assert!(world.has_done(&Action::Succeed { from: 1, to: 3 }));
    assert!(!world.has_done(&Action::Succeed { from: 2, to: 3 }), "that one was handed over to it");
}

#[test]
fn a_pool_grows_with_its_load_and_shrinks_when_it_is_gone() {
    let sizes = Settings { start: 1, min_spare: 1, max_spare: 1, max: 8, ..Settings::default() };
    let mut world = with_pool(sizes);
    for _ in 0..20 {
        world.pass(Duration::from_millis(100));
        world.observe(1, 5);
        world.all_ready();
    }
    assert_eq!(world.apps.len(), 8, "all that it may have");
    let started = world.master.counts().slots_started;
    for _ in 0..200 {
        world.pass(Duration::from_secs(1));
        world.observe(0, 0);
        for epoch in std::mem::take(&mut world.retired) {
            world.app_dies(epoch, true);
        }
    }
    assert_eq!(world.apps.len(), 1);
    let counts = world.master.counts();
    assert_eq!((counts.slots_started, counts.slot_crashes), (started, 0));
}

#[test]
fn a_restart_replaces_every_process_and_never_has_too_few() {
    let mut world = with_pool(Settings::fixed(4));
    let before: BTreeSet<u64> = world.apps.keys().copied().collect();
    world.command(1, Command::Pool("p0".to_owned(), PoolCommand::Restart));
    for _ in 0..50 {
        world.all_ready();
        for epoch in std::mem::take(&mut world.retired) {
            let serving = world.apps.len() - 1;
            assert!(serving >= 4, "{serving} are left");
            world.app_dies(epoch, true);
        }
        world.pass(Duration::from_millis(100));
    }
    assert_eq!(world.apps.len(), 4);
    assert!(world.apps.keys().all(|epoch| !before.contains(epoch)));
    world.nothing_unanswered();
}

#[test]
fn a_pool_is_scaled_and_a_slot_drained_on_request() {
    let mut world = with_pool(Settings { start: 1, min_spare: 0, max: 8, ..Settings::default() });
    world.command(1, Command::Pool("p0".to_owned(), PoolCommand::Scale(5)));
    for _ in 0..10 {
        world.pass(Duration::from_millis(100));
        world.all_ready();
    }
    assert_eq!(world.apps.len(), 5);
    world.command(1, Command::Pool("p0".to_owned(), PoolCommand::Drain(2)));
    assert_eq!(world.retired.len(), 1);
    for (slot, name) in [(2, "p0"), (77, "p0"), (0, "nobody")] {
        world.done.clear();
        world.command(1, Command::Pool(name.to_owned(), PoolCommand::Drain(slot)));
        let refused = |action: &Action| matches!(action, Action::Send(1, ToWorker::CommandDone(_, false, _)));
        assert!(world.done.iter().any(refused), "{name} {slot}");
    }
    world.nothing_unanswered();
}

#[test]
fn a_pool_that_cannot_start_says_why_and_does_not_spin() {
    let mut world = with_pool(Settings::default());
    for _ in 0..5 {
        for epoch in world.apps.keys().copied().collect::<Vec<_>>() {
            world.app_dies(epoch, false);
        }
        world.pass(Duration::from_secs(1));
    }
    let told = |action: &Action| match action {
        Action::Send(1, ToWorker::Trouble(0, Some(why))) => why.contains("exited with status 1"),
        _ => false,
    };
    assert!(world.done.iter().any(told));
    let before = world.master.counts().slots_started;
    for _ in 0..60 {
        for epoch in world.apps.keys().copied().collect::<Vec<_>>() {
            world.app_dies(epoch, false);
        }
        world.pass(Duration::from_secs(1));
    }
    let started = world.master.counts().slots_started - before;
    assert!(started <= 12, "{started} starts in a minute");
    while world.apps.is_empty() {
        world.pass(Duration::from_secs(1));
    }
    world.done.clear();
    world.all_ready();
    assert!(world.has_done(&Action::Send(1, ToWorker::Trouble(0, None))));
}
