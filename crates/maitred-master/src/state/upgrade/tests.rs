//! The two images, one after the other, without a world around them: actions are looked at, and answered by hand.

use maitred_sys::signals::Signal;

use super::*;
use crate::state::events::{Event, ListenPlan, Plan, PoolKind, PoolPlan, Refusal};
use maitred_base::pool::settings::Settings;
use maitred_config::StopSignal;
use maitred_control::{Command, DrainTime, FromWorker, SlotId, ToWorker};

const GRACE: Duration = Duration::from_secs(20);

fn plan(number: u64, listen: bool) -> Plan {
    let pool = PoolPlan {
        name: "web".to_owned(),
        kind: if listen { PoolKind::Absent } else { PoolKind::Started },
        workers: Settings::fixed(1),
        start_timeout: Duration::from_secs(3),
        exit_grace: Duration::from_secs(2),
        canary: crate::state::tests::replaced::CANARY,
        request_timeout: Duration::from_secs(8),
        retired_time: None,
        process: String::new(),
        listen: listen.then_some(ListenPlan {
            buckets: 1,
            stop_signal: StopSignal::Int,
            start_grace: Duration::from_secs(1),
        }),
    };
    Plan { number, grace: GRACE, grace_streams: Some(GRACE), old_workers_max: 2, pools: vec![pool] }
}

/// A machine and its clock.
struct Image {
    master: Master,
    now: Instant,
    done: Vec<Action>,
}

impl Image {
    /// The first image, with a worker process and what its pool needs, all ready.
    fn first(listen: bool) -> Image {
        let mut image = Image { master: Master::new(), now: Instant::now(), done: Vec::new() };
        image.event(Event::Start);
        image.event(Event::Prepared(Ok(plan(1, listen))));
        image.event(Event::Worker(1, FromWorker::Ready));
        if !listen {
            image.event(Event::Worker(1, FromWorker::SlotReady(slot(1), greeting())));
        }
        image.done.clear();
        image
    }

    fn event(&mut self, event: Event) {
        let actions = self.master.handle(self.now, event);
        self.done.extend(actions);
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.master.next_deadline().filter(|at| *at <= end) {
            self.now = at.max(self.now);
            self.event(Event::Tick);
        }
        self.now = end;
    }

    fn has(&self, wanted: &Action) -> bool {
        self.done.contains(wanted)
    }

    fn said(&self, text: &str) -> bool {
        self.done.iter().any(|action| matches!(action, Action::Log(_, said) if said.contains(text)))
    }

    /// What it leaves, if it has come to that.
    fn left(&self) -> Option<InheritedState> {
        self.done.iter().find_map(|action| match action {
            Action::Replace(inherited_state) => Some(InheritedState::clone(inherited_state)),
            _ => None,
        })
    }

    /// From the signal to the replacement.
    fn upgrade(&mut self) -> InheritedState {
        self.event(Event::Signal(Signal::User2));
        assert!(self.has(&Action::Check));
        self.event(Event::Checked(Ok(())));
        assert!(self.has(&Action::OrphanMode { generation: 1, time: Some(DrainTime::bounded(20_000)) }));
        assert!(self.left().is_none(), "the worker process has not promised yet");
        self.event(Event::Worker(1, FromWorker::Outlives));
        self.left().unwrap()
    }

    /// The image after: nothing has happened but its start.
    fn after(inherited_state: InheritedState) -> Image {
        // What is left behind is written and read in between.
        let written = serde_json::to_vec(&inherited_state).unwrap();
        let inherited_state = serde_json::from_slice(&written).unwrap();
        let now = Instant::now();
        let mut image = Image { master: Master::resume(now, inherited_state), now, done: Vec::new() };
        image.event(Event::Start);
        assert_eq!(image.done, [Action::Prepare]);
        image
    }

    fn second(listen: bool) -> Image {
        let mut image = Image::after(Image::first(listen).upgrade());
        image.event(Event::Prepared(Ok(plan(1, listen))));
        image
    }
}

fn slot(epoch: u64) -> SlotId {
    SlotId { pool: 0, slot: 0, epoch }
}

fn greeting() -> maitred_control::Greeting {
    maitred_control::Greeting {
        capacity: 1,
        sockets_only: false,
        open_files: None,
        streams: false,
        recovers: false,
        name: "test".to_owned(),
    }
}

fn exited(generation: u64) -> Event {
    Event::WorkerExited { generation, how: "was killed by SIGSEGV".to_owned() }
}

fn go(to: u64) -> Action {
    Action::Go { from: 1, to: Some(to) }
}

#[test]
fn the_old_worker_process_goes_when_the_new_one_and_its_pools_are_ready() {
    let mut image = Image::second(false);
    assert!(image.has(&Action::SpawnWorker { generation: 2, plan: 1, adopts: true }), "numbers go on");
    image.event(Event::Worker(2, FromWorker::Ready));
    assert!(image.has(&Action::Notify(Notice::Ready)));
    assert!(!image.has(&go(2)), "its pool has no process yet");
    assert_eq!(image.master.current(), None, "a challenge may meet the old one, which knows nothing of it");
    image.event(Event::Worker(2, FromWorker::SlotReady(slot(2), greeting())));
    assert!(image.has(&go(2)));
    assert_eq!(image.master.current(), Some(2));
    assert_eq!(image.master.counts().upgrades, 1);
    assert_eq!(image.master.counts().generation, 2);
    // The old application process goes with its worker process.
    assert!(!image.has(&Action::TerminateApp(1)));
    image.event(exited(1));
    assert!(image.has(&Action::TerminateApp(1)));
    image.pass(APP_KILL_DELAY);
    assert!(image.has(&Action::KillApp(1)));
    image.event(Event::AppExited { slot: slot(1), clean: false, how: String::new() });
    assert!(image.master.predecessors.is_empty());
    assert_eq!(image.master.counts().worker_crashes, 0);
    assert_eq!(image.master.counts().slot_crashes, 0);
}

#[test]
fn an_old_worker_process_that_does_not_finish_is_killed() {
    let mut image = Image::second(false);
    image.event(Event::Worker(2, FromWorker::Ready));
    image.event(Event::Worker(2, FromWorker::SlotReady(slot(2), greeting())));
    image.pass(GRACE + DRAIN_MARGIN - Duration::from_millis(1));
    assert!(!image.has(&Action::KillWorker(1)));
    image.pass(Duration::from_millis(1));
    assert!(image.has(&Action::KillWorker(1)));
}

#[test]
fn what_drains_at_the_time_is_taken_along() {
    let mut image = Image::first(false);
    image.event(Event::Signal(Signal::Hangup));
    image.event(Event::Prepared(Ok(plan(2, false))));
    image.event(Event::Worker(2, FromWorker::Ready));
    image.pass(Duration::from_secs(5));
    image.event(Event::Signal(Signal::User2));
    image.event(Event::Checked(Ok(())));
    assert!(image.has(&Action::OrphanMode { generation: 1, time: None }));
    assert!(image.has(&Action::OrphanMode { generation: 2, time: Some(DrainTime::bounded(20_000)) }));
    image.event(Event::Worker(2, FromWorker::Outlives));
    assert!(image.left().is_none());
    // A worker process that is gone has nothing to promise.
    image.event(exited(1));
    let inherited_state = image.left().unwrap();
    assert_eq!(
        inherited_state.workers,
        [OldWorker { generation: 2, duty: Duty::Serving { grace_ms: 20_000 } }]
    );
    assert_eq!(inherited_state.epoch_last, 1);
}

#[test]
fn a_check_that_fails_or_takes_too_long_changes_nothing() {
    let mut image = Image::first(false);
    for how in 0..2 {
        image.done.clear();
        image.event(Event::Worker(1, FromWorker::Command(7, Command::Upgrade)));
        match how {
            0 => image.event(Event::Checked(Err("line 1: no".to_owned()))),
            _ => image.pass(CHECK_TIMEOUT),
        }
        assert!(image.has(&Action::AbandonCheck) && image.said("everything runs on"));
        let answer = |action: &Action| matches!(action, Action::Send(1, ToWorker::CommandDone(7, false, _)));
        assert_eq!(image.done.iter().filter(|action| answer(action)).count(), 1);
        assert_eq!(image.master.current(), Some(1));
        assert!(image.master.upgrade.is_none());
        // The answer of a check that was abandoned comes too late.
        image.event(Event::Checked(Ok(())));
        assert!(image.left().is_none());
    }
}

#[test]
fn a_worker_process_that_dies_or_is_silent_before_the_exec_is_an_obstacle() {
    let mut image = Image::first(false);
    image.event(Event::Signal(Signal::User2));
    image.event(Event::Checked(Ok(())));
    image.event(exited(1));
    assert!(image.has(&Action::CancelOrphanMode) && image.said("everything runs on"));
    assert_eq!(image.master.current(), Some(2), "replaced at once, as ever");

    let mut image = Image::first(false);
    image.event(Event::Signal(Signal::User2));
    image.event(Event::Checked(Ok(())));
    image.pass(PROMISE_TIMEOUT);
    assert!(image.has(&Action::CancelOrphanMode));
    image.event(Event::Worker(1, FromWorker::Outlives));
    assert!(image.left().is_none());
}

#[test]
fn an_exec_that_fails_leaves_all_as_it_was() {
    let mut image = Image::first(false);
    image.event(Event::Worker(1, FromWorker::Command(7, Command::Upgrade)));
    image.event(Event::Checked(Ok(())));
    image.event(Event::Worker(1, FromWorker::Outlives));
    image.event(Event::NotReplaced("no such file".to_owned()));
    assert!(image.has(&Action::CancelOrphanMode) && image.has(&Action::Notify(Notice::Ready)));
    assert!(image.has(&Action::Send(1, ToWorker::CommandDone(7, false, "no such file".to_owned()))));
    assert!(image.master.upgrade.is_none() && image.master.current() == Some(1));
}

#[test]
fn it_is_asked_for_twice_and_done_once() {
    let mut image = Image::first(false);
    image.event(Event::Signal(Signal::User2));
    image.event(Event::Signal(Signal::User2));
    assert_eq!(image.done.iter().filter(|action| **action == Action::Check).count(), 1);
}

#[test]
fn a_reload_waits_for_an_upgrade_and_an_upgrade_does_not_wait_for_a_reload() {
    let mut image = Image::first(false);
    image.event(Event::Signal(Signal::User2));
    image.event(Event::Signal(Signal::Hangup));
    assert!(!image.has(&Action::Prepare));
    image.event(Event::Checked(Err("no".to_owned())));
    assert!(image.has(&Action::Prepare), "the reload follows the refusal");
    image.done.clear();
    image.event(Event::Worker(1, FromWorker::Command(8, Command::Upgrade)));
    assert!(!image.has(&Action::Check));
    let why = "a reload is under way; try again when it is over".to_owned();
    assert!(image.has(&Action::Send(1, ToWorker::CommandDone(8, false, why))));
}

#[test]
fn a_stop_is_stronger() {
    let mut image = Image::first(false);
    image.event(Event::Signal(Signal::User2));
    image.event(Event::Signal(Signal::Terminate));
    assert!(image.has(&Action::AbandonCheck) && image.has(&Action::CloseSockets));
    image.event(Event::Signal(Signal::User2));
    assert_eq!(image.done.iter().filter(|action| **action == Action::Check).count(), 1);
    assert!(image.said("the server is stopping"));
}

#[test]
fn the_new_image_does_not_give_up_while_the_old_worker_process_serves() {
    let mut image = Image::after(Image::first(false).upgrade());
    let refusal = || Event::Prepared(Err(Refusal { exit_code: 2, text: "line 1: no".to_owned() }));
    let attempts = |image: &Image| image.done.iter().filter(|action| **action == Action::Prepare).count();
    image.event(refusal());
    assert!(image.said("the old worker process serves on"));
    image.pass(RETRY.first);
    assert_eq!(attempts(&image), 2);
    image.event(refusal());
    image.event(Event::Signal(Signal::Hangup));
    assert_eq!(attempts(&image), 3, "a reload tries at once");
    image.event(Event::Prepared(Ok(plan(3, false))));
    for generation in 2..9 {
        image.event(exited(generation));
        image.pass(Duration::from_secs(5));
        assert_eq!(image.master.current, Some(generation + 1), "another one");
    }
    // Yet another executable may be what helps; not while the worker process of this one may be about to be ready.
    image.done.clear();
    image.event(Event::Signal(Signal::User2));
    image.event(Event::Checked(Ok(())));
    assert!(image.said("the last upgrade is not over") && image.left().is_none());
    image.pass(YOUNG);
    image.done.clear();
    image.event(Event::Signal(Signal::User2));
    image.event(Event::Checked(Ok(())));
    assert!(image.has(&Action::KillWorker(9)));
    let inherited_state = image.left().unwrap();
    let serving = OldWorker { generation: 1, duty: Duty::Serving { grace_ms: 20_000 } };
    let killed = OldWorker { generation: 9, duty: Duty::Draining { left_ms: 0 } };
    assert_eq!(inherited_state.workers, [serving, killed]);
}

fn app_exited(epoch: u64) -> Event {
    Event::AppExited { slot: slot(epoch), clean: false, how: "exited with status 1".to_owned() }
}

#[test]
fn a_release_that_cannot_start_leaves_the_old_processes_in_place() {
    let mut image = Image::second(false);
    image.event(Event::Worker(2, FromWorker::Ready));
    image.event(Event::AppSaid(slot(2), vec!["No module named x".to_owned()]));
    image.event(app_exited(2));
    let told = |action: &Action| matches!(action, Action::TellOld(why) if why.contains("No module named x"));
    assert!(image.done.iter().any(told), "{:?}", image.done);
    assert!(image.has(&Action::KillWorker(2)) && !image.has(&go(2)) && !image.has(&Action::TerminateApp(1)));
    image.event(exited(2));
    image.pass(RETRY.first);
    assert!(image.has(&Action::SpawnWorker { generation: 3, plan: 1, adopts: true }), "{:?}", image.done);
    image.event(Event::Worker(3, FromWorker::Ready));
    image.event(Event::Worker(3, FromWorker::SlotReady(slot(3), greeting())));
    assert!(image.has(&go(3)) && image.master.current() == Some(3));
}

#[test]
fn a_broken_release_does_not_keep_the_service_down_when_the_old_worker_process_is_gone() {
    let mut image = Image::second(false);
    image.event(Event::Worker(2, FromWorker::Ready));
    image.event(app_exited(2));
    image.done.clear();
    image.event(exited(1));
    image.event(Event::Tick);
    assert!(image.has(&Action::SpawnWorker { generation: 3, plan: 1, adopts: false }), "{:?}", image.done);
}

#[test]
fn a_pool_that_was_down_before_does_not_hold_up_an_upgrade() {
    let mut image = Image::first(false);
    image.event(app_exited(1));
    let left = image.upgrade();
    assert_eq!(left.down, ["web"]);
    let mut image = Image::after(left);
    image.event(Event::Prepared(Ok(plan(1, false))));
    image.event(Event::Worker(2, FromWorker::Ready));
    image.event(app_exited(image.master.epoch_last));
    assert!(image.has(&go(2)), "{:?}", image.done);
}

#[test]
fn without_the_old_worker_process_it_is_a_start_like_any_other() {
    let mut image = Image::after(Image::first(false).upgrade());
    let refusal = || Event::Prepared(Err(Refusal { exit_code: 2, text: "line 1: no".to_owned() }));
    image.event(refusal());
    image.event(exited(1));
    assert_eq!(image.done.iter().filter(|action| **action == Action::Prepare).count(), 2);
    image.event(refusal());
    image.event(Event::AppExited { slot: slot(1), clean: true, how: String::new() });
    assert!(image.has(&Action::Exit(2)));
}

#[test]
fn a_stop_of_the_new_image_takes_everybody_along() {
    let mut image = Image::second(false);
    image.event(Event::Signal(Signal::Terminate));
    assert!(image.has(&Action::Go { from: 1, to: None }));
    image.event(exited(2));
    image.event(exited(1));
    assert!(!image.has(&Action::Exit(0)), "an application process is left");
    for epoch in [1, 2] {
        image.event(Event::AppExited { slot: slot(epoch), clean: true, how: String::new() });
    }
    assert!(image.has(&Action::Exit(0)));

    let mut image = Image::second(false);
    image.event(Event::Signal(Signal::Interrupt));
    assert!(image.has(&Action::KillWorker(1)) && image.has(&Action::TerminateApp(1)));
    image.pass(APP_KILL_DELAY_AT_ONCE);
    assert!(image.has(&Action::KillApp(1)));
}

#[test]
fn a_stop_that_the_old_worker_process_passes_on_is_one_however_often_it_comes() {
    let mut image = Image::second(false);
    image.event(Event::StopWanted);
    assert!(image.has(&Action::Go { from: 1, to: None }));
    image.done.clear();
    image.event(Event::StopWanted);
    assert_eq!(image.done, []);
}

#[test]
fn processes_that_accept_by_themselves_stay_until_their_successors_are_ready() {
    let mut image = Image::second(true);
    let stop = Action::StopApp(1, StopSignal::Int);
    image.event(Event::Worker(2, FromWorker::Ready));
    assert!(image.has(&go(2)) && !image.has(&stop));
    image.pass(Duration::from_secs(2));
    assert!(image.has(&stop), "the new one has lived for its start_grace");
    image.pass(Duration::from_secs(8) + APP_KILL_DELAY);
    assert!(image.has(&Action::KillApp(1)));
}

#[test]
fn who_accepts_for_a_pool_that_is_no_more_is_told_at_once() {
    let inherited_state = Image::first(true).upgrade();
    assert_eq!(inherited_state.apps.len(), 1);
    let mut image = Image::after(inherited_state);
    let none = Plan { pools: Vec::new(), ..plan(1, false) };
    image.event(Event::Prepared(Ok(none)));
    assert!(image.has(&Action::StopApp(1, StopSignal::Int)));
}
