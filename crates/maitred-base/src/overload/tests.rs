use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn of(thousandths: u32) -> Share {
    Share { used: thousandths.into(), max: 1000 }
}

/// The levels after a reading of memory.
fn memory(overload: &mut Overload, now: Instant, thousandths: u32) -> Level {
    overload.update(now, MS, of(thousandths), of(0));
    overload.levels().memory
}

#[test]
fn a_level_comes_at_once_and_goes_after_a_second_below_its_end() {
    let start = Instant::now();
    let mut overload = Overload::new(250 * MS, start);
    let at = |ms: u32| start + ms * MS;
    assert_eq!(memory(&mut overload, at(0), 699), Level::Normal);
    assert_eq!(memory(&mut overload, at(1), 700), Level::Elevated);
    assert_eq!(memory(&mut overload, at(2), 600), Level::Elevated, "not below its end");
    assert_eq!(memory(&mut overload, at(3), 599), Level::Elevated, "for a moment");
    assert_eq!(memory(&mut overload, at(1002), 599), Level::Elevated);
    assert_eq!(memory(&mut overload, at(1003), 599), Level::Normal);
    assert_eq!(memory(&mut overload, at(1004), 2000), Level::Critical, "both at once");
    assert_eq!(memory(&mut overload, at(1005), 0), Level::Critical);
    assert_eq!(memory(&mut overload, at(1500), 800), Level::Critical, "from the start again");
    assert_eq!(memory(&mut overload, at(1501), 0), Level::Critical);
    assert_eq!(memory(&mut overload, at(2501), 0), Level::Elevated, "one at a time");
    assert_eq!(memory(&mut overload, at(3500), 0), Level::Elevated);
    assert_eq!(memory(&mut overload, at(3501), 0), Level::Normal);
}

#[test]
fn a_bound_of_nothing_is_no_pressure() {
    assert_eq!(Share { used: 7, max: 0 }.pressure(), 0);
    assert_eq!(Share { used: u64::MAX, max: 1 }.pressure(), u32::MAX);
}

#[test]
fn one_long_turn_is_no_delay_but_many_are() {
    let start = Instant::now();
    let mut overload = Overload::new(250 * MS, start);
    let mut now = start;
    let mut turn = |took: u32, overload: &mut Overload| {
        now += took * MS;
        overload.update(now, took * MS, of(0), of(0));
        overload.levels().delay
    };
    for _ in 0..10 {
        assert_eq!(turn(20_000, &mut overload), Level::Normal);
        for _ in 0..10 {
            assert_eq!(turn(1, &mut overload), Level::Normal);
        }
    }
    let levels: Vec<Level> = (0..12).map(|_| turn(240, &mut overload)).collect();
    assert_eq!(levels.last(), Some(&Level::Critical));
    // A short turn ends the delay, and a second later the level falls.
    turn(1, &mut overload);
    assert_eq!(overload.delay(), MS);
    assert_eq!((0..2000).map(|_| turn(1, &mut overload)).last(), Some(Level::Normal));
}

#[test]
fn each_level_gives_up_what_the_manual_says() {
    let levels = |memory, descriptors, delay| Levels { memory, descriptors, delay };
    use Level::{Critical, Elevated, Normal};
    let minute = Duration::from_secs(60);
    let table = [
        (levels(Normal, Normal, Normal), 128, true, 60, 60),
        (levels(Elevated, Normal, Normal), 16, true, 5, 10),
        (levels(Critical, Normal, Normal), 1, false, 5, 2),
        (levels(Normal, Elevated, Normal), 16, true, 60, 10),
        (levels(Normal, Critical, Normal), 1, false, 60, 2),
        (levels(Normal, Normal, Elevated), 16, true, 60, 60),
        (levels(Normal, Normal, Critical), 1, false, 60, 60),
        (levels(Elevated, Critical, Critical), 1, false, 5, 2),
    ];
    for (levels, streams, accepts, idle, write) in table {
        assert_eq!(levels.streams_max(128), streams, "{levels:?}");
        assert_eq!(levels.streams_max(1), 1, "never more than is configured");
        assert_eq!(levels.accepts(), accepts, "{levels:?}");
        assert_eq!(levels.idle_timeout(minute).as_secs(), idle, "{levels:?}");
        assert_eq!(levels.write_timeout(minute).as_secs(), write, "{levels:?}");
        assert_eq!((levels.idle_timeout(MS), levels.write_timeout(MS)), (MS, MS), "nor longer");
    }
}

proptest! {
    /// A level is never below what the pressure asks for, falls by one step at a time and only after a second of lower pressure,
    /// and is gone two seconds after the pressure is.
    #[test]
    fn levels_follow_the_pressure(readings in proptest::collection::vec((0_u32..1200, 0_u64..700), 1..200)) {
        let mut now = Instant::now();
        let mut overload = Overload::new(250 * MS, now);
        let mut before = Level::Normal;
        let mut low_since: Option<Instant> = None;
        for (pressure, ms) in readings {
            now += Duration::from_millis(ms);
            let level = memory(&mut overload, now, pressure);
            prop_assert!(level >= Level::of(pressure, ELEVATED_FROM, CRITICAL_FROM));
            if Level::of(pressure, ELEVATED_UNTIL, CRITICAL_UNTIL) >= before {
                low_since = None;
                prop_assert!(level >= before);
            } else {
                let since = *low_since.get_or_insert(now);
                if level < before {
                    prop_assert!(now - since >= FALLS_AFTER && level == before.lower());
                }
            }
            before = level;
        }
        for _ in 0..=2 {
            memory(&mut overload, now, 0);
            now += FALLS_AFTER;
        }
        prop_assert_eq!(memory(&mut overload, now, 0), Level::Normal);
    }
}
