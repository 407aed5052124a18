//! What holds after any sequence of events. The world of [`super::tests`] checks each action as it is carried out.

use std::time::Duration;

use maitred_sys::signals::Signal;
use proptest::prelude::*;

use super::Phase;
use super::events::{Action, Event};
use super::generation::DRAIN_MARGIN;
use super::pool::APP_KILL_DELAY;
use super::tests::{GRACE, World};
use maitred_base::pool::settings::Settings;
use maitred_control::{Command, FromWorker, PoolCommand, SlotId};

/// What may happen. Numbers choose among what lives.
#[derive(Debug, Clone)]
enum Happening {
    Pass(u64),
    NextConfig(Option<u16>),
    Signal(Signal),
    WorkerReady(usize),
    WorkerDies(usize),
    AppReady(usize),
    AppDies(usize, bool),
    /// The process closes its channel, and may take its time to exit.
    AppCloses(usize),
    AppLost(usize),
    Reload(usize),
    StopCommand(usize),
    /// Whether processes may live on under the next configuration, and how many there are.
    Same(bool, Sizes),
    /// Whether processes that say HELLO from now on recover.
    Recovers(bool),
    /// A channel that was asked back is given back; one that was borrowed comes back by itself.
    Release(usize),
    Observe(u32, u32),
    Pool(usize, PoolCommand),
}

/// How many processes a pool has.
#[derive(Debug, Clone, Copy)]
enum Sizes {
    One,
    Two,
    /// One at a time, for so many requests.
    Recycled(u64),
    Elastic,
}

fn sizes() -> impl Strategy<Value = Sizes> {
    prop_oneof![
        Just(Sizes::One),
        Just(Sizes::Two),
        (1_u64..3).prop_map(Sizes::Recycled),
        Just(Sizes::Elastic),
    ]
}

impl Sizes {
    fn settings(self) -> Settings {
        match self {
            Sizes::One => Settings::fixed(1),
            Sizes::Two => Settings::fixed(2),
            Sizes::Recycled(requests) => Settings { max_requests: Some(requests), ..Settings::fixed(1) },
            Sizes::Elastic => {
                Settings { start: 1, min_spare: 1, max_spare: 1, max: 6, ..Settings::default() }
            }
        }
    }
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        8 => prop_oneof![0_u64..200, 0_u64..8_000, 0_u64..60_000].prop_map(Happening::Pass),
        2 => proptest::option::of(0_u16..3).prop_map(Happening::NextConfig),
        3 => Just(Happening::Signal(Signal::Hangup)),
        1 => prop_oneof![Just(Signal::User1), Just(Signal::User2), Just(Signal::Child)].prop_map(Happening::Signal),
        10 => any::<usize>().prop_map(Happening::WorkerReady),
        3 => any::<usize>().prop_map(Happening::WorkerDies),
        10 => any::<usize>().prop_map(Happening::AppReady),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(which, clean)| Happening::AppDies(which, clean)),
        4 => any::<usize>().prop_map(Happening::AppCloses),
        2 => any::<usize>().prop_map(Happening::AppLost),
        3 => any::<usize>().prop_map(Happening::Reload),
        3 => (any::<bool>(), sizes()).prop_map(|(same, sizes)| Happening::Same(same, sizes)),
        2 => any::<bool>().prop_map(Happening::Recovers),
        12 => any::<usize>().prop_map(Happening::Release),
        6 => (0_u32..3, 0_u32..5).prop_map(|(busy, queued)| Happening::Observe(busy, queued)),
        3 => (any::<usize>(), pool_command()).prop_map(|(which, command)| Happening::Pool(which, command)),
    ]
}

fn pool_command() -> impl Strategy<Value = PoolCommand> {
    prop_oneof![
        Just(PoolCommand::Restart),
        (0_u16..3).prop_map(PoolCommand::Canary),
        (0_u16..5).prop_map(PoolCommand::Drain),
        (0_u16..9).prop_map(PoolCommand::Scale),
    ]
}

fn ending() -> impl Strategy<Value = Happening> {
    prop_oneof![
        Just(Happening::Signal(Signal::Terminate)),
        Just(Happening::Signal(Signal::Quit)),
        Just(Happening::Signal(Signal::Interrupt)),
        any::<usize>().prop_map(Happening::StopCommand),
    ]
}

fn pick<K: Copy, V>(map: &std::collections::BTreeMap<K, V>, which: usize) -> Option<K> {
    map.keys().nth(which.checked_rem(map.len())?).copied()
}

fn happens(world: &mut World, happening: &Happening) {
    let worker = |world: &World, which: usize| pick(&world.workers, which).unwrap_or(u64::MAX);
    let app = |world: &World, which: usize| pick(&world.apps, which).unwrap_or(u64::MAX);
    match *happening {
        Happening::Pass(ms) => world.pass(Duration::from_millis(ms)),
        Happening::NextConfig(config) => world.next_config = config,
        Happening::Signal(signal) => world.signal(signal),
        Happening::WorkerReady(which) => world.worker_ready(worker(world, which)),
        Happening::WorkerDies(which) => world.worker_dies(worker(world, which)),
        Happening::AppReady(which) => world.app_ready(app(world, which)),
        Happening::AppDies(which, clean) => world.app_dies(app(world, which), clean),
        Happening::AppCloses(which) => world.app_closes(app(world, which)),
        Happening::AppLost(which) => {
            if let Some((slot, generation, _)) = world.apps.get(&app(world, which)).copied() {
                world.event(Event::Worker(generation, FromWorker::SlotLost(slot, "gone".to_owned())));
            }
        }
        Happening::Reload(which) => world.command(worker(world, which), Command::Reload),
        Happening::StopCommand(which) => world.command(worker(world, which), Command::Stop),
        Happening::Same(same, sizes) => (world.same, world.sizes) = (same, sizes.settings()),
        Happening::Recovers(recovers) => world.recovers = recovers,
        Happening::Release(which) => {
            let wanted: Vec<u64> = world.asked_back.iter().copied().collect();
            if let Some(epoch) = which.checked_rem(wanted.len()).and_then(|at| wanted.get(at)) {
                world.release(*epoch);
            }
        }
        Happening::Observe(busy, queued) => world.observe(busy, queued),
        Happening::Pool(which, command) => {
            world.command(worker(world, which), Command::Pool("p0".to_owned(), command));
        }
    }
}

/// What holds when the log says that a process is retired: one that is to be replaced goes only when another one of its pool,
/// which goes on, has said that it is ready.
pub(super) fn has_a_successor(world: &World, text: &str) {
    let reasons = ["it is replaced", "its number of requests", "it is old enough", "too much memory"];
    let Some((name, _)) =
        text.split_once(" is retired: ").filter(|(_, why)| reasons.iter().any(|one| why.contains(one)))
    else {
        return;
    };
    let pool: u16 = name.split(['p', '/']).rev().nth(1).unwrap().parse().unwrap();
    let goes_on = |(epoch, app): (&u64, &(SlotId, u64, bool))| {
        app.0.pool == pool && !app.2 && world.hello.contains(epoch) && !world.retired.contains(epoch)
    };
    assert!(world.apps.iter().any(goes_on), "{text}, and nothing takes its place");
}

/// What holds between any two events.
fn check(world: &World) {
    let serving = world.workers.values().filter(|worker| !worker.drained).count();
    let bringing_up = usize::from(world.master.reload.is_some());
    assert!(serving <= 1 + bringing_up, "{serving} worker processes that were not told to go");
    if let Some(current) = world.master.current() {
        assert!(world.workers.contains_key(&current));
    }
    if world.master.phase == Phase::Up {
        let due = world.master.respawn_at.is_some();
        assert!(
            world.master.current().is_some() != due,
            "neither a worker process nor one on its way, or both"
        );
    }
    // A place whose occupant died is filled again within the longest delay.
    if let Some(next) = world.master.next_deadline() {
        assert!(next - world.now <= GRACE + DRAIN_MARGIN + Duration::from_secs(10));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_sequence_keeps_the_invariants_and_ends(
        before in proptest::collection::vec(happening(), 0..60),
        end in ending(),
        after in proptest::collection::vec(happening(), 0..10),
    ) {
        let mut world = World::new();
        world.event(Event::Start);
        for happening in &before {
            if world.exit.is_some() {
                return Ok(());
            }
            happens(&mut world, happening);
            check(&world);
        }
        if world.exit.is_some() {
            return Ok(());
        }
        // The server may be ending already, since it could not be brought up.
        let exit_code = if let Phase::Stopping { exit_code } = world.master.phase { exit_code } else { 0 };
        happens(&mut world, &end);
        if !matches!(world.master.phase, Phase::Stopping { .. } | Phase::Done) {
            // A command needs a worker process that can give it.
            world.signal(Signal::Terminate);
        }
        for happening in &after {
            if world.exit.is_none() {
                happens(&mut world, happening);
                check(&world);
            }
        }
        world.nothing_unanswered();
        // No process obeys anything but SIGKILL, and still the server ends.
        world.pass(GRACE + DRAIN_MARGIN + APP_KILL_DELAY);
        prop_assert_eq!(world.exit, Some(exit_code));
    }

    #[test]
    fn a_refused_reload_leaves_all_as_it_was(before in proptest::collection::vec(happening(), 0..60)) {
        let mut world = World::up();
        for happening in &before {
            happens(&mut world, happening);
        }
        // Brings the reload under way to its end, and the one that is queued.
        world.all_ready();
        world.all_ready();
        for _ in 0..40 {
            if world.master.reload.is_none() {
                break;
            }
            // Processes may be put off that have died before.
            world.pass(Duration::from_secs(1));
            world.all_ready();
        }
        prop_assert!(world.exit.is_none() && world.master.reload.is_none());
        // Lets it see what it has just done, such as retiring a process.
        world.event(Event::Tick);
        world.next_config = None;
        let mut expected = world.master.clone();
        expected.counts.reloads_refused += 1;
        expected.counts.reload_refused = 1;
        world.done.clear();
        world.signal(Signal::Hangup);
        prop_assert_eq!(format!("{:?}", world.master), format!("{expected:?}"));
        let told = |action: &Action| matches!(action, Action::Prepare | Action::Notify(_) | Action::Log(..));
        prop_assert!(world.done.iter().all(told), "{:?}", world.done);
    }
}
