//! What holds for every pool under every load: the seven properties of [`super::sizing`].

use std::time::Duration;

use proptest::prelude::*;

use super::buckets::{BucketView, Buckets};
use super::model::{Fate, World};
use super::sizing::{Phase, RETIRE_INTERVAL, SPAWN_INTERVAL, Settings, Sizing, SlotView, Why};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

prop_compose! {
    /// Pools of up to 60 workers that are not recycled.
    fn settings()(start in 0_u16..9, min_spare in 1_u16..6, more in 0_u16..6, max in 1_u16..60, spawn_max in 1_u16..40,
                  retire_s in 0_u64..40) -> Settings {
        Settings {
            start, min_spare, max_spare: min_spare + more, max, spawn_max, retire_after: secs(retire_s),
            ..Settings::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Properties 1, 2 and 4 are checked by the world at every step, here under a load that jumps about.
    #[test]
    fn whatever_the_load_decisions_are_right(
        settings in settings(), startup_ms in 0_u64..5_000, drains_ms in 0_u64..20_000, capacity in 1_u32..5,
        rotates: bool, loads in proptest::collection::vec((0_u32..80, 1_u64..60), 1..12),
    ) {
        let mut world = World::new(settings, ms(startup_ms));
        world.drains = ms(drains_ms);
        world.capacity = capacity;
        world.rotates = rotates;
        for (load, time_s) in loads {
            world.run(secs(time_s), ms(100), |_| load);
        }
    }

    /// Property 1: with workers that take long to start, exactly those are started that the load needs, whatever they hold.
    #[test]
    fn what_is_starting_is_coming(settings in settings(), load in 0_u32..400, startup_s in 1_u64..30, capacity in 1_u32..70) {
        let settings = Settings { start: 0, ..settings };
        let mut world = World::new(settings, secs(startup_s));
        world.capacity = capacity;
        world.run(secs(25 + 2 * startup_s), ms(50), |_| load);
        let needed = u64::from(load.div_ceil(capacity)) + u64::from(settings.min_spare);
        prop_assert_eq!(world.started(), needed.min(u64::from(settings.max)));
    }

    /// Property 2: workers that drain change nothing.
    #[test]
    fn who_drains_counts_for_nothing(
        settings in settings(), phases in proptest::collection::vec(0_u8..3, 1..60), draining in 1_usize..20, queued in 0_u32..9,
    ) {
        let mut world = World::new(settings, ms(0));
        let slot = |phase: &u8| SlotView {
            phase: [Phase::Starting, Phase::Idle, Phase::Busy][usize::from(*phase)],
            busy: u32::from(*phase == 2),
            ..SlotView::empty(world.now)
        };
        let mut without: Vec<SlotView> = phases.iter().map(slot).collect();
        without.extend(vec![SlotView::empty(world.now); 60]);
        let mut with = without.clone();
        with.extend(vec![SlotView { phase: Phase::Draining, busy: 1, ..SlotView::empty(world.now) }; draining]);
        let mut other = world.sizing.clone();
        for _ in 0..200 {
            world.now += secs(1);
            prop_assert_eq!(world.sizing.decide(world.now, &without, queued), other.decide(world.now, &with, queued));
        }
    }

    /// Property 3.
    #[test]
    fn starts_double_while_the_need_persists_and_then_begin_at_one(spawn_max in 1_u16..50) {
        let settings = Settings { start: 1, min_spare: 0, max: 1_000, spawn_max, ..Settings::default() };
        let mut world = World::new(settings, secs(60));
        // The first one is ready at once, so that its capacity is known.
        world.fate = Box::new(|serial| Fate::Serves(if serial == 0 { ms(0) } else { secs(60) }));
        world.run(ms(1_300), ms(10), |_| 900);
        let bursts: Vec<u16> = world.starts.iter().skip(1).map(|(_, burst)| *burst).collect();
        let expected: Vec<u16> = (0..12).map(|power| (1_u16 << power).min(spawn_max)).collect();
        let begun = bursts.len().min(expected.len()) - 1;
        prop_assert_eq!(&bursts[..begun], &expected[..begun]);
        prop_assert!(world.starts.windows(2).all(|pair| pair[1].0 - pair[0].0 >= SPAWN_INTERVAL));
        let had = bursts.iter().sum::<u16>() + 1;
        world.run(secs(1), ms(10), |_| u32::from(had));
        let met = world.starts.len();
        world.run(secs(1), ms(10), |_| u32::from(had) + 7);
        let again: Vec<u16> = world.starts.iter().skip(met).map(|(_, burst)| *burst).collect();
        prop_assert_eq!(again[0], 1);
    }

    /// Property 5.
    #[test]
    fn under_constant_load_the_pool_settles(
        settings in settings(), before in 0_u32..70, load in 0_u32..70, capacity in 1_u32..9, startup_ms in 0_u64..8_000,
    ) {
        let mut world = World::new(settings, ms(startup_ms));
        world.capacity = capacity;
        world.run(secs(60), ms(100), |_| before);
        world.run(secs(200), ms(100), |_| load);
        let settled = (world.starts.len(), world.retirements.len());
        world.run(secs(3_600), secs(1), |_| load);
        prop_assert_eq!((world.starts.len(), world.retirements.len()), settled);
        prop_assert_eq!(world.sizing.decide(world.now, &world.slots, world.queued).look_again, None);
    }

    /// Property 6: however many are wanted, and for whatever reason they die, an hour has few starts; and the pool says so.
    #[test]
    fn a_pool_that_cannot_start_never_spins(settings in settings(), load in 1_u32..70, dies_ms in 0_u64..40_000) {
        let mut world = World::new(settings, ms(0));
        world.fate = Box::new(move |_| Fate::Fails(ms(dies_ms)));
        world.run(secs(600), ms(20), |_| load);
        // As many as may be, before the first has died. Then 7 delays in the first 12.7 s, and then they last 10 s.
        prop_assert!(world.started() <= u64::from(settings.max) + 8 + 60, "{} starts", world.started());
        prop_assert!(world.deaths == 0 || world.sizing.trouble().is_some());
        world.fate = Box::new(|_| Fate::Serves(ms(10)));
        world.run(secs(60), ms(20), |_| load);
        let needed = (load + u32::from(settings.min_spare)).min(u32::from(settings.max));
        prop_assert!(world.live() >= needed as usize);
        prop_assert_eq!(world.sizing.trouble(), None);
    }

    /// Property 6: workers that die young, but after they were ready, are all replaced, later and later.
    #[test]
    fn young_deaths_are_followed_by_growing_delays(lives_ms in 50_u64..20_000, workers in 1_u16..40) {
        let mut world = World::new(Settings::fixed(workers), ms(0));
        world.fate = Box::new(move |_| Fate::Dies(ms(10), ms(lives_ms)));
        world.run(secs(600), ms(10), |_| 0);
        let rounds = 8 + 600_000 / (10_000 + lives_ms) + 1;
        prop_assert!(world.started() <= rounds * u64::from(workers), "{} starts", world.started());
        prop_assert!(world.started() >= 600_000 / (10_500 + lives_ms));
    }

    /// Property 7: one at a time, the replacement first, each before the limit or soon after it.
    #[test]
    fn recycling_is_staggered_and_replaces_first(
        spare in 1_u16..5, max in 12_u16..40, load in 0_u32..9, startup_ms in 0_u64..3_000, by_requests: bool,
    ) {
        let mut settings = Settings { start: 10, min_spare: spare, max_spare: 20, max, ..Settings::default() };
        if by_requests { settings.max_requests = Some(3_000) } else { settings.max_age = Some(secs(300)) }
        let mut world = World::new(settings, ms(startup_ms));
        world.run(secs(10), ms(100), |_| load);
        let enough = usize::try_from(load).unwrap() + usize::from(spare);
        while world.elapsed() < secs(1_500) {
            world.step(ms(100), load);
            let ready = world.count(&[Phase::Idle, Phase::Busy]);
            // Where there is room, it never falls below what the load needs.
            prop_assert!(ready >= enough.min(usize::from(max) - 1), "{ready} of {enough}");
            prop_assert!(world.queued == 0);
            for slot in &world.slots {
                let late = ms(startup_ms) * 12 + secs(5);
                let kept = matches!(slot.phase, Phase::Idle | Phase::Busy);
                prop_assert!(!kept || by_requests || world.now - slot.started <= secs(300) + late);
                prop_assert!(!kept || !by_requests || slot.requests <= 3_000 + late.as_millis() as u64 / 100);
            }
        }
        let times: Vec<_> = world.retirements.iter().filter(|(_, r)| r.why != Why::Spare).map(|(at, _)| *at).collect();
        prop_assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= SPAWN_INTERVAL));
        prop_assert!(load == 0 || times.len() >= 4 * usize::try_from(load).unwrap().min(4));
    }

    /// Property 7 at the limit: a fixed pool is one short while it replaces, and never two.
    #[test]
    fn a_full_pool_is_one_short_while_it_recycles(workers in 1_u16..20, startup_ms in 100_u64..3_000, drains_s in 0_u64..30) {
        let settings = Settings { max_age: Some(secs(200)), ..Settings::fixed(workers) };
        let mut world = World::new(settings, ms(startup_ms));
        world.drains = secs(drains_s);
        world.run(secs(20), ms(100), |_| 0);
        while world.elapsed() < secs(900) {
            world.step(ms(100), u32::from(workers));
            prop_assert!(world.count(&[Phase::Idle, Phase::Busy]) + 1 >= usize::from(workers));
        }
        prop_assert!(world.retirements.len() >= 3 * usize::from(workers));
    }

    /// The buckets of a listen pool start no more at a time than one pool would, and each gets what it needs.
    #[test]
    fn buckets_share_the_spawn_rate(loads in proptest::collection::vec(0_u32..20, 1..12), spawn_max in 1_u16..20) {
        let settings = Settings { start: 0, max: 20 * 12, spawn_max, ..Settings::default() };
        let count = u16::try_from(loads.len()).unwrap();
        let mut now = std::time::Instant::now();
        let mut buckets = Buckets::new(now, &settings, count);
        let mut slots = vec![vec![SlotView::empty(now); 40]; loads.len()];
        let _ = buckets.decide(now, &[]);
        now += SPAWN_INTERVAL;
        for _ in 0..300 {
            let mut started = 0;
            for _ in 0..10 {
                let views: Vec<_> = slots.iter().zip(&loads).map(|(slots, load)| {
                    let live = slots.iter().filter(|slot| slot.phase == Phase::Busy).count();
                    BucketView { slots, queued: load.saturating_sub(u32::try_from(live).unwrap()) }
                }).collect();
                for (decision, slots) in buckets.decide(now, &views).iter().zip(&mut slots) {
                    started += decision.start;
                    let empty = slots.iter_mut().filter(|slot| slot.phase == Phase::Empty);
                    for slot in empty.take(usize::from(decision.start)) {
                        *slot = SlotView { phase: Phase::Busy, busy: 1, ..SlotView::empty(now) };
                    }
                }
                now += SPAWN_INTERVAL / 10;
            }
            prop_assert!(started <= spawn_max, "{started}");
        }
        for (slots, load) in slots.iter().zip(&loads) {
            let live = slots.iter().filter(|slot| slot.phase == Phase::Busy).count();
            prop_assert!(live >= usize::try_from(*load).unwrap().min(usize::from(settings.max / count)));
        }
    }
}

/// The smallest pool there is: nothing runs until a request comes, and nothing after.
#[test]
fn a_pool_may_shrink_to_nothing() {
    let settings = Settings { start: 0, min_spare: 0, max_spare: 0, max: 4, ..Settings::default() };
    let mut world = World::new(settings, ms(100));
    world.run(secs(10), ms(100), |_| 0);
    assert_eq!(world.started(), 0);
    world.run(secs(1), ms(100), |_| 1);
    assert_eq!(world.live(), 1);
    world.run(secs(90), ms(100), |_| 0);
    assert_eq!(world.live(), 0);
}

/// Fewer are wanted, and all are busy: they go one after the other, and finish what they have.
#[test]
fn more_workers_than_may_be_are_retired_under_load() {
    let mut world = World::new(Settings::fixed(6), ms(100));
    world.run(secs(5), ms(100), |_| 9);
    assert_eq!((world.live(), world.count(&[Phase::Busy])), (6, 6));
    world.settings = Settings::fixed(2);
    world.sizing.resize(world.now, world.settings);
    world.run(secs(20), ms(100), |_| 9);
    assert_eq!((world.live(), world.count(&[Phase::Busy])), (2, 2));
    assert!(world.retirements.iter().all(|(_, retirement)| retirement.why == Why::OverMax));
    let times: Vec<_> = world.retirements.iter().map(|(at, _)| *at).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= RETIRE_INTERVAL), "{times:?}");
}

#[test]
fn memory_is_a_reason_to_go() {
    let settings = Settings { max_memory: Some(1_000), ..Settings::default() };
    let mut world = World::new(settings, ms(100));
    world.run(secs(1), ms(100), |_| 0);
    world.slots[1].memory = 1_000;
    world.run(secs(1), ms(100), |_| 0);
    let (_, retirement) = world.retirements[0];
    assert_eq!((retirement.slot, retirement.why), (1, Why::Memory));
    assert_eq!(world.retirements.len(), 1);
}

#[test]
fn an_absurd_view_does_not_upset_it() {
    let now = std::time::Instant::now();
    let mut sizing = Sizing::new(now, Settings { max_age: Some(Duration::MAX), ..Settings::default() });
    let slot = SlotView { phase: Phase::Busy, busy: u32::MAX, memory: u64::MAX, ..SlotView::empty(now) };
    let _ = sizing.decide(now, &vec![slot; 70_000], u32::MAX);
    let _ = sizing.decide(now - secs(1), &[], u32::MAX);
}
