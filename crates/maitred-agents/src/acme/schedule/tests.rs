//! Times, bounds, and a simulation with clocks that are stepped.

use proptest::prelude::*;

use super::*;

const FIRST: Duration = Duration::from_secs(120);
const RULES: Rules = Rules { first_delay: FIRST, authorities: 1, fallback_after: 3 };
const DAYS: u64 = DAY;
const START: u64 = 1_800_000_000;

fn at(unix: u64, up: u64) -> Now {
    Now { unix, up: Duration::from_secs(up) }
}

/// A certificate of 90 days that was issued at `START`.
fn ninety_days(seed: u64) -> Held {
    Held { not_before: START, not_after: START + 90 * DAYS, fits: true, seed }
}

fn refused(retry_after: Option<u64>) -> Result<Held, Failure> {
    Err(Failure { blame: Blame::Refused, retry_after: retry_after.map(Duration::from_secs) })
}

fn one(held: Option<Held>) -> Schedule {
    let mut schedule = Schedule::new(RULES, 1);
    schedule.add(at(START, 0), held, Past::default());
    schedule
}

#[test]
fn a_site_without_a_certificate_is_ordered_for_at_once() {
    let mut schedule = one(None);
    assert_eq!(schedule.next_wake(at(START, 0)), Duration::ZERO);
    assert_eq!(schedule.next(at(START, 0)), Some(Task::Order(0)));
    assert_eq!(schedule.next(at(START, 0)), None, "it is under way");
    schedule.ordered(at(START, 9), 0, Ok(ninety_days(7)));
    // What there is of renewal information is asked for at once, then in a while.
    assert_eq!(schedule.next(at(START, 9)), Some(Task::Ask(0)));
    schedule.informed(at(START, 9), 0, None, None);
    assert_eq!(schedule.next(at(START, 9)), None);
    assert_eq!(schedule.next_wake(at(START, 9)), WAKE_MAX);
}

#[test]
fn one_that_does_not_fit_is_replaced_at_once() {
    let mut schedule = one(Some(Held { fits: false, ..ninety_days(7) }));
    assert_eq!(schedule.next(at(START, 0)), Some(Task::Order(0)));
}

#[test]
fn a_third_of_the_life_is_left_at_a_renewal() {
    let renew_at = one(Some(ninety_days(7))).renew_at(0).unwrap();
    assert!((START + 57 * DAYS..=START + 60 * DAYS).contains(&renew_at), "{renew_at}");
    let mut schedule = one(Some(ninety_days(7)));
    schedule.informed(at(START, 0), 0, None, Some(Duration::from_secs(DAY)));
    assert_eq!(schedule.next(at(renew_at - 1, 1)), None);
    assert_eq!(schedule.next_wake(at(renew_at - 1, 1)), Duration::from_secs(1));
    assert_eq!(schedule.next(at(renew_at, 2)), Some(Task::Order(0)));
}

#[test]
fn the_authority_may_have_it_earlier_or_later() {
    let mut schedule = one(Some(ninety_days(7)));
    let window = |start, end| Some(Window { start: START + start, end: START + end });
    schedule.informed(at(START, 0), 0, window(10 * DAYS, 20 * DAYS), None);
    let chosen = schedule.renew_at(0).unwrap();
    assert!((START + 10 * DAYS..=START + 20 * DAYS).contains(&chosen));
    schedule.informed(at(START, 1), 0, None, None);
    assert_eq!(schedule.renew_at(0), Some(chosen), "no answer changes nothing");
    schedule.informed(at(START, 1), 0, window(20 * DAYS, 10 * DAYS), None);
    assert_eq!(schedule.renew_at(0), Some(chosen), "an invalid window changes nothing");
    schedule.informed(at(START, 2), 0, window(200 * DAYS, 300 * DAYS), None);
    assert_eq!(schedule.renew_at(0), Some(START + 81 * DAYS), "it has to be before the end all the same");
    schedule.informed(at(START, 3), 0, Some(Window { start: START - 20, end: START - 10 }), None);
    assert_eq!(schedule.next(at(START, 3)), Some(Task::Order(0)), "one in the past means now");
}

#[test]
fn refusals_are_answered_with_growing_delays() {
    let (mut schedule, mut up, mut delays) = (one(None), 0, Vec::new());
    for _ in 0..12 {
        assert_eq!(schedule.next(at(START, up)), Some(Task::Order(0)));
        schedule.ordered(at(START, up), 0, refused(None));
        let wait = schedule.next_wake(at(START, up));
        delays.push(schedule.allowed_in(at(START, up), 0).as_secs());
        assert!(wait <= WAKE_MAX);
        up += delays.last().unwrap() + 1;
    }
    for (count, delay) in delays.iter().enumerate() {
        let base = (120 << count).min(REFUSED_DELAY_MAX.as_secs());
        assert!((base * 3 / 4..=base * 5 / 4).contains(delay), "{count}: {delay}");
    }
}

#[test]
fn retry_after_holds_if_it_is_longer_and_has_a_bound() {
    for (said, least, most) in [(3600, 3600, 3600), (1, 90, 150), (u64::MAX, 7 * DAYS, 7 * DAYS)] {
        let mut schedule = one(None);
        schedule.next(at(START, 0));
        schedule.ordered(at(START, 0), 0, refused(Some(said)));
        let delay = schedule.allowed_in(at(START, 0), 0).as_secs();
        assert!((least..=most).contains(&delay), "{said}: {delay}");
    }
}

#[test]
fn an_authority_that_is_out_of_reach_is_tried_soon_and_then_hourly() {
    let (mut schedule, mut up) = (one(None), 0);
    let failure = Failure { blame: Blame::Unreachable, retry_after: None };
    let mut delays = Vec::new();
    for _ in 0..12 {
        assert_eq!(schedule.next(at(START, up)), Some(Task::Order(0)));
        schedule.ordered(at(START, up), 0, Err(failure));
        delays.push(schedule.allowed_in(at(START, up), 0).as_secs());
        up += delays.last().unwrap() + 1;
    }
    assert!((11..=18).contains(&delays[0]), "{delays:?}");
    assert!((2700..=4500).contains(&delays[11]), "{delays:?}");
}

#[test]
fn a_restart_remembers_how_often_it_failed() {
    let mut schedule = one(None);
    schedule.next(at(START, 0));
    schedule.ordered(at(START, 0), 0, refused(None));
    let past = schedule.past(at(START, 0), 0);
    assert_eq!(past.failures, 1);
    let mut again = Schedule::new(RULES, 2);
    again.add(at(START + 10, 5), None, past);
    let left = again.allowed_in(at(START + 10, 5), 0).as_secs();
    assert!((79..=140).contains(&left), "{left}");
    assert_eq!(again.next(at(START + 10, 5)), None);
    // A clock that was years ahead when that was written down does not stop anything for years.
    let mut wrong = Schedule::new(RULES, 2);
    wrong.add(at(START, 0), None, Past { failures: 1, allowed_unix: START + 3650 * DAYS });
    assert_eq!(wrong.allowed_in(at(START, 0), 0), RETRY_AFTER_MAX);
}

#[test]
fn an_agent_that_dies_with_each_order_does_not_hammer() {
    let mut schedule = one(None);
    assert_eq!(schedule.next(at(START, 0)), Some(Task::Order(0)));
    // What is stored before the order begins.
    let past = schedule.past(at(START, 0), 0);
    assert_eq!(past.allowed_unix, START + 15);
}

#[test]
fn a_certificate_from_the_future_is_left_alone() {
    let mut schedule = one(Some(ninety_days(7)));
    schedule.informed(at(START, 0), 0, None, None);
    let early = at(START - 365 * DAYS, 1);
    assert_eq!(schedule.next(early), None);
    assert_eq!(schedule.next_wake(early), WAKE_MAX);
}

#[test]
fn a_clock_that_is_stepped_back_wins_no_order() {
    let mut schedule = one(None);
    schedule.next(at(START, 0));
    schedule.ordered(at(START, 0), 0, refused(None));
    for unix in [0, START - 1000, START + 1000, u64::MAX] {
        assert_eq!(schedule.next(at(unix, 1)), None);
    }
}

#[test]
fn few_orders_are_under_way_and_nobody_is_forgotten() {
    let mut schedule = Schedule::new(RULES, 1);
    for _ in 0..10 {
        schedule.add(at(START, 0), None, Past::default());
    }
    let mut seen = Vec::new();
    while let Some(Task::Order(site)) = schedule.next(at(START, 0)) {
        seen.push(site);
    }
    assert_eq!(seen, [0, 1, 2, 3]);
    assert_eq!(schedule.next_wake(at(START, 0)), WAKE_MAX, "the end of one of them wakes");
    for site in seen.clone() {
        schedule.ordered(at(START, 0), site, refused(None));
        match schedule.next(at(START, 0)) {
            Some(Task::Order(site)) => seen.push(site),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7]);
}

proptest! {
    #[test]
    fn renewals_are_spread_over_a_thirtieth(seed: u64, lifetime in 60_u64..400 * DAYS) {
        let held = Held { not_before: START, not_after: START + lifetime, fits: true, seed };
        let renew_at = one(Some(held)).renew_at(0).unwrap();
        prop_assert!(renew_at <= START + lifetime - lifetime / 3);
        prop_assert!(renew_at >= START + lifetime - lifetime / 3 - lifetime / 30);
    }

    #[test]
    fn a_suggested_time_is_in_its_window(seed: u64, start in 0_u64..80 * DAYS, length in 1_u64..9 * DAYS) {
        let mut schedule = one(Some(ninety_days(seed)));
        let window = Window { start: START + start, end: START + start + length };
        schedule.informed(at(START, 0), 0, Some(window), None);
        let chosen = schedule.renew_at(0).unwrap();
        let latest = START + 81 * DAYS;
        prop_assert!(chosen >= window.start.min(latest) && chosen <= window.end);
        // The same again after a restart.
        let mut again = one(Some(ninety_days(seed)));
        again.informed(at(START, 0), 0, Some(window), None);
        prop_assert_eq!(again.renew_at(0), Some(chosen));
    }

    /// Sites whose orders succeed or fail, answers that come late, and a wall clock that jumps: whatever happens, no site is
    /// ordered for more often than the bound, few at a time, and the sleep is never endless.
    #[test]
    fn no_course_of_events_breaks_the_bounds(
        sites in 1_usize..7,
        seed: u64,
        steps in proptest::collection::vec((0_u8..10, 0_u64..5000, any::<u32>()), 1..300),
    ) {
        let mut schedule = Schedule::new(RULES, seed);
        let mut now = at(START, 0);
        for site in 0..sites {
            let held = (site % 2 == 0).then(|| ninety_days(site as u64));
            schedule.add(now, held, Past::default());
        }
        let mut begun: Vec<Option<Duration>> = vec![None; sites];
        let mut running = Vec::new();
        for (kind, wait, dice) in steps {
            let wake = schedule.next_wake(now);
            prop_assert!(wake <= WAKE_MAX);
            now.up += wake.min(Duration::from_secs(wait));
            now.unix = now.unix.saturating_add(wake.as_secs().min(wait));
            match kind {
                0 => now.unix = now.unix.saturating_sub(u64::from(dice)),
                1 => now.unix = now.unix.saturating_add(u64::from(dice)),
                _ => {}
            }
            while let Some(task) = schedule.next(now) {
                running.push(task);
                let Task::Order(site) = task else { continue };
                if let Some(before) = begun[site].replace(now.up) {
                    // Three quarters of an eighth of the first delay, at least.
                    prop_assert!(now.up - before >= FIRST / 8 * 3 / 4, "{before:?} {now:?}");
                }
            }
            let orders = running.iter().filter(|task| matches!(task, Task::Order(_))).count();
            prop_assert!(orders <= ORDERS_MAX);
            if running.is_empty() || kind == 9 {
                continue;
            }
            match running.swap_remove(dice as usize % running.len()) {
                Task::Ask(site) => schedule.informed(now, site, None, Some(Duration::from_secs(u64::from(dice)))),
                Task::Order(site) => {
                    let blame = if dice % 2 == 0 { Blame::Refused } else { Blame::Unreachable };
                    let retry_after = (dice % 7 == 0).then(|| Duration::from_secs(u64::from(dice)));
                    let held = Held { not_before: now.unix, not_after: now.unix + u64::from(dice), ..ninety_days(dice.into()) };
                    let outcome = if kind > 6 { Ok(held) } else { Err(Failure { blame, retry_after }) };
                    schedule.ordered(now, site, outcome);
                }
            }
        }
    }

    /// With time enough, every site is ordered for, however the others fare.
    #[test]
    fn every_site_has_its_turn(sites in 1_usize..20, seed: u64) {
        let mut schedule = Schedule::new(RULES, seed);
        let mut now = at(START, 0);
        for _ in 0..sites {
            schedule.add(now, None, Past::default());
        }
        let mut had = vec![0_u32; sites];
        for _ in 0..sites * 6 {
            while let Some(Task::Order(site)) = schedule.next(now) {
                had[site] += 1;
                schedule.ordered(now, site, refused(None));
            }
            now.up += schedule.next_wake(now).max(Duration::from_secs(1));
        }
        prop_assert!(had.iter().all(|count| *count > 0), "{had:?}");
    }
}

#[test]
fn another_authority_is_tried_after_failures_and_the_first_again_after_the_last() {
    let rules = Rules { authorities: 2, fallback_after: 2, ..RULES };
    let mut schedule = Schedule::new(rules, 1);
    let mut now = Now { unix: 1_000_000, up: Duration::from_secs(1000) };
    schedule.add(now, None, Past::default());
    let (mut turns, mut delays) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        assert_eq!(schedule.next(now), Some(Task::Order(0)));
        turns.push(schedule.authority(0));
        schedule.ordered(now, 0, refused(None));
        delays.push(schedule.allowed_in(now, 0).as_secs_f64() / FIRST.as_secs_f64());
        now.up += schedule.allowed_in(now, 0);
    }
    assert_eq!(turns, [0, 0, 1, 1, 0, 0, 1, 1, 0]);
    let soon = 1.0 / f64::from(UNREACHABLE_PART);
    // Each has its own: one and two of its refusals, then three and four.
    for (delay, wanted) in delays.iter().zip([1.0, soon, 1.0, 2.0, 4.0, soon, 4.0, 8.0]) {
        assert!((0.75..=1.25).contains(&(delay / wanted)), "{delays:?}");
    }
    // An authority that is good for something is the first again.
    assert_eq!(schedule.next(now), Some(Task::Order(0)));
    schedule.ordered(now, 0, Ok(ninety_days(7)));
    assert_eq!(schedule.authority(0), 0);
}

#[test]
fn what_an_authority_says_of_its_next_try_is_not_for_the_others() {
    let rules = Rules { authorities: 2, fallback_after: 1, ..RULES };
    let mut schedule = Schedule::new(rules, 1);
    let mut now = Now { unix: 1_000_000, up: Duration::from_secs(1000) };
    schedule.add(now, None, Past::default());
    let wait = 50_000;
    assert_eq!(schedule.next(now), Some(Task::Order(0)));
    schedule.ordered(now, 0, refused(Some(wait)));
    assert!(schedule.allowed_in(now, 0) < FIRST, "the second one is tried");
    now.up += schedule.allowed_in(now, 0);
    assert_eq!(schedule.next(now), Some(Task::Order(0)));
    schedule.ordered(now, 0, refused(None));
    assert_eq!(schedule.authority(0), 0);
    assert!(
        schedule.allowed_in(now, 0) > Duration::from_secs(wait / 2),
        "the first one is not, before its time"
    );
}
