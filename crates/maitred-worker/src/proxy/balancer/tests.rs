use std::time::Duration;

use proptest::prelude::*;

use super::super::server::Failure;
use super::super::table::{Listed, Policy};
use super::*;
use maitred_config::{Outliers, Upstream};

const SECOND: Duration = Duration::from_secs(1);

fn listed(number: usize, weight: u16) -> Listed {
    Listed { weight, ..Listed::plain(Upstream::Unix(format!("/server/{number}").into())) }
}

fn policy(balance: Balance) -> Policy {
    Policy { balance, slow_start: Duration::ZERO, panic_percent: 50, outliers: None, cookie_key: None }
}

/// A pool, and the view of one thread.
struct Pool {
    table: ServerTable,
    balancer: Balancer,
    now: Instant,
}

impl Pool {
    fn of(servers: Vec<Listed>, policy: Policy) -> Pool {
        let table = ServerTable::new(servers, 0, policy);
        let balancer = Balancer::new(&table, 0);
        Pool { table, balancer, now: Instant::now() }
    }

    fn new(weights: &[u16], balance: Balance) -> Pool {
        Pool::of(
            weights.iter().enumerate().map(|(at, weight)| listed(at, *weight)).collect(),
            policy(balance),
        )
    }

    fn ask(&mut self, wish: &Wish<'_>) -> Choice {
        self.balancer.refresh(&self.table);
        self.balancer.choose(&self.table, self.now, wish)
    }

    /// A request that stays.
    fn begin(&mut self, wish: &Wish<'_>) -> Option<u16> {
        match self.ask(wish) {
            Choice::Server(slot) => Some(slot),
            Choice::Full | Choice::Nothing => None,
        }
    }

    /// A request that is over at once.
    fn once(&mut self, wish: &Wish<'_>) -> Option<u16> {
        let slot = self.begin(wish)?;
        self.table.leave(self.server(slot));
        Some(slot)
    }

    fn plain(&mut self) -> Option<u16> {
        self.once(&Wish::default())
    }

    fn server(&self, slot: u16) -> &super::super::Server {
        &self.balancer.list().row(slot).unwrap().server
    }

    fn fail(&self, slot: u16) {
        self.server(slot).failed(Failure::Unreachable, self.table.moment(self.now));
    }

    fn counts(&mut self, servers: usize, requests: usize) -> Vec<usize> {
        let mut seen = vec![0; servers];
        (0..requests).for_each(|_| seen[usize::from(self.plain().unwrap())] += 1);
        seen
    }
}

fn tried(tried: &[u16]) -> Wish<'_> {
    Wish { tried, ..Wish::default() }
}

#[test]
fn the_one_with_the_fewest_requests_is_chosen_and_equals_take_turns() {
    let mut pool = Pool::new(&[1, 1, 1], Balance::LeastRequests);
    let turns: Vec<_> = (0..6).map(|_| pool.plain().unwrap()).collect();
    assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
    assert_eq!((pool.begin(&tried(&[1, 2])), pool.begin(&tried(&[0, 2]))), (Some(0), Some(1)));
    assert!((0..5).all(|_| pool.plain() == Some(2)), "the others have one each");
    assert_eq!(pool.begin(&tried(&[0, 1, 2])), None);
    assert_eq!(pool.server(0).under_way(), 1);
}

#[test]
fn threads_begin_at_different_ones() {
    let table = ServerTable::new((0..4).map(|at| listed(at, 1)).collect(), 0, policy(Balance::LeastRequests));
    let first = |thread| match Balancer::new(&table, thread).choose(&table, Instant::now(), &Wish::default())
    {
        Choice::Server(slot) => {
            table.leave(&table.list().row(slot).unwrap().server);
            slot
        }
        other => panic!("{other:?}"),
    };
    assert_eq!([0, 1, 2, 3, 4].map(first), [0, 1, 2, 3, 0]);
}

#[test]
fn a_server_that_fails_is_left_out_by_all_and_one_request_tries_it() {
    for balance in [Balance::LeastRequests, Balance::RoundRobin, Balance::LeastTime, Balance::Hash] {
        let mut pool = Pool::new(&[1, 1], balance);
        pool.fail(0);
        assert!((0..9).all(|_| pool.plain() == Some(1)), "{balance:?}");
        pool.now += SECOND;
        let mut seen: Vec<_> = (0..40).map(|_| pool.plain().unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen.iter().filter(|slot| **slot == 0).count(), 1, "{balance:?}: {seen:?}");
        assert!(pool.server(0).succeeded(pool.table.moment(pool.now)));
        assert!((0..40).any(|_| pool.plain() == Some(0)), "{balance:?}");
    }
}

#[test]
fn when_all_are_out_the_one_that_comes_back_first_is_asked() {
    let mut pool = Pool::new(&[1, 1], Balance::LeastRequests);
    pool.fail(1);
    pool.now += SECOND / 2;
    pool.fail(0);
    assert_eq!((pool.plain(), pool.once(&tried(&[1]))), (Some(1), Some(0)));
    let mut single = Pool::new(&[1], Balance::RoundRobin);
    for _ in 0..5 {
        assert_eq!(single.plain(), Some(0));
        single.fail(0);
    }
    assert_eq!(Pool::new(&[], Balance::Hash).ask(&Wish::default()), Choice::Nothing);
}

#[test]
fn backups_are_asked_when_no_other_is_left() {
    let backup = Listed { backup: true, ..listed(2, 1) };
    let mut pool = Pool::of(vec![listed(0, 1), listed(1, 1), backup], policy(Balance::LeastRequests));
    assert_eq!(pool.counts(3, 10), [5, 5, 0]);
    assert_eq!(pool.once(&tried(&[0, 1])), Some(2), "also for one request that the others have failed");
    pool.fail(0);
    assert_eq!(pool.counts(3, 10), [0, 10, 0]);
    pool.fail(1);
    assert_eq!(pool.counts(3, 10), [0, 0, 10]);
    pool.server(0).succeeded(pool.table.moment(pool.now));
    assert_eq!(pool.counts(3, 10), [10, 0, 0]);
}

#[test]
fn no_server_gets_more_than_its_bound() {
    for balance in [Balance::LeastRequests, Balance::RoundRobin, Balance::LeastTime, Balance::Hash] {
        let bounded = |at, max| Listed { max, ..listed(at, 1) };
        let mut pool = Pool::of(vec![bounded(0, 2), bounded(1, 3)], policy(balance));
        let mut seen: Vec<_> = (0..5).map(|_| pool.begin(&Wish::default()).unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen, [0, 0, 1, 1, 1], "{balance:?}");
        assert_eq!(pool.ask(&Wish::default()), Choice::Full);
        assert_eq!(pool.ask(&tried(&[0])), Choice::Full);
        assert_eq!(pool.ask(&tried(&[0, 1])), Choice::Nothing);
        pool.fail(0);
        pool.table.leave(pool.server(1));
        assert_eq!(pool.begin(&Wish::default()), Some(1));
    }
}

#[test]
fn what_drains_gets_no_new_requests_but_those_of_its_clients() {
    let drains = Listed { drains: true, ..listed(0, 1) };
    let mut pool = Pool::of(vec![drains, listed(1, 1)], policy(Balance::RoundRobin));
    assert_eq!(pool.counts(2, 10), [0, 10]);
    let sticky = Wish { sticky: Some(0), ..Wish::default() };
    assert_eq!(pool.once(&sticky), Some(0));
    pool.fail(0);
    assert_eq!(pool.once(&sticky), Some(1));
    let gone = Wish { sticky: Some(7), ..Wish::default() };
    assert_eq!(pool.once(&gone), Some(1));
}

#[test]
fn judgements_about_more_than_half_are_not_believed() {
    let mut pool = Pool::new(&[1; 4], Balance::RoundRobin);
    let moment = pool.table.moment(pool.now);
    for (slot, expected) in [(0, [0, 4, 4, 4]), (1, [0, 0, 6, 6]), (2, [3, 3, 3, 3])] {
        pool.server(slot).set_well(false, moment);
        pool.now += SECOND;
        assert_eq!(pool.counts(4, 12), expected, "{slot}");
    }
    // What cannot be reached is not asked all the same.
    pool.fail(0);
    assert_eq!(pool.counts(4, 12), [0, 4, 4, 4]);
    let outliers = Outliers { errors: 1, time: 10 * SECOND, time_max: 10 * SECOND };
    pool.server(1).set_well(true, moment);
    pool.server(2).set_well(true, moment);
    let moment = pool.table.moment(pool.now);
    assert!(pool.server(3).judge(true, &outliers, moment).is_some());
    pool.now += SECOND;
    pool.fail(0);
    assert_eq!(pool.counts(4, 12), [0, 6, 6, 0]);
}

#[test]
fn a_server_that_comes_begins_slowly() {
    let count = 20;
    for (balance, servers) in [
        (Balance::RoundRobin, count),
        (Balance::LeastRequests, count),
        (Balance::LeastRequests, 4),
        (Balance::LeastTime, count),
    ] {
        let slow = Policy { slow_start: 10 * SECOND, ..policy(balance) };
        let mut pool = Pool::of((1..servers).map(|at| listed(at, 1)).collect(), slow);
        pool.plain();
        let all: Vec<Listed> = (0..servers).map(|at| listed(at, 1)).collect();
        assert_eq!(pool.table.take(1, all.clone(), pool.now), Some(0));
        assert_eq!(pool.table.take(1, all, pool.now), None, "that list is known");
        pool.plain();
        let new = pool.balancer.list().rows().find(|(_, row)| row.server.name() == "/server/0").unwrap().0;
        let requests = 200 * servers;
        let counts = |pool: &mut Pool| pool.counts(servers, requests)[usize::from(new)];
        let begins = counts(&mut pool);
        pool.now += 10 * SECOND;
        let whole = counts(&mut pool);
        assert!((5..60).contains(&begins), "{balance:?} of {servers}: {begins}");
        assert!((120..280).contains(&whole), "{balance:?} of {servers}: {whole}");
    }
}

#[test]
fn the_quicker_of_two_gets_more() {
    for count in [2, 20] {
        let mut pool = Pool::new(&vec![1; count], Balance::LeastTime);
        let moment = pool.table.moment(pool.now);
        for slot in 0..count as u16 {
            pool.server(slot).note_latency(Duration::from_millis(if slot == 0 { 50 } else { 5 }), moment);
        }
        assert_eq!(pool.counts(count, 200)[0], 0);
        // Ten requests of the quick one are as long as one of the slow one.
        let mut pool = Pool::new(&[1, 1], Balance::LeastTime);
        pool.server(0).note_latency(Duration::from_millis(50), moment);
        pool.server(1).note_latency(Duration::from_millis(5), moment);
        let seen: Vec<_> = (0..22).map(|_| pool.begin(&Wish::default()).unwrap()).collect();
        assert_eq!(seen.iter().filter(|slot| **slot == 0).count(), 2, "{seen:?}");
    }
}

#[test]
fn a_key_stays_with_its_server_until_that_has_too_much() {
    let mut pool = Pool::new(&[1; 10], Balance::Hash);
    let wish = |key: u64| Wish { key: Some(mix(key)), ..Wish::default() };
    for key in 0..50 {
        let first = pool.once(&wish(key));
        assert!((0..5).all(|_| pool.once(&wish(key)) == first));
    }
    // One key for all: no server has more than a quarter above its share.
    for number in 1_u32..=200 {
        pool.begin(&wish(7)).unwrap();
        let most = (0..10).map(|slot| pool.server(slot).under_way()).max().unwrap();
        assert!(most <= (number * 5).div_ceil(40), "{most} of {number}");
    }
    assert_eq!(pool.table.total(), 200);
}

#[test]
fn many_servers_share_evenly_also_when_most_are_out() {
    for balance in [Balance::LeastRequests, Balance::RoundRobin, Balance::LeastTime, Balance::Hash] {
        let mut pool = Pool::new(&[1; 100], balance);
        let seen = pool.counts(100, 10_000);
        assert!(seen.iter().all(|seen| (20..300).contains(seen)), "{balance:?}: {seen:?}");
        (0..98).for_each(|slot| pool.fail(slot));
        let seen = pool.counts(100, 1000);
        assert!(seen[98] + seen[99] == 1000 && seen[98] > 100 && seen[99] > 100, "{balance:?}: {seen:?}");
    }
}

fn any_balance() -> impl Strategy<Value = Balance> {
    prop_oneof![
        Just(Balance::LeastRequests),
        Just(Balance::RoundRobin),
        Just(Balance::LeastTime),
        Just(Balance::Hash)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_happens_a_request_that_was_not_everywhere_finds_a_server(
        balance in any_balance(),
        servers in 2_usize..12,
        events in prop::collection::vec((0_u8..7, any::<u16>(), 0_u64..3000), 0..80),
    ) {
        let mut pool = Pool::new(&vec![1; servers], balance);
        let mut revision = 0;
        for (what, slot, millis) in events {
            pool.now += Duration::from_millis(millis);
            let moment = pool.table.moment(pool.now);
            let slots: Vec<u16> = pool.balancer.list().rows().map(|(slot, _)| slot).collect();
            let slot = slots[usize::from(slot) % slots.len()];
            match what {
                0 => pool.fail(slot),
                1 => drop(pool.server(slot).failed(Failure::Broken, moment)),
                2 => drop(pool.server(slot).succeeded(moment)),
                3 => pool.server(slot).unknown(),
                4 => drop(pool.server(slot).set_well(millis % 2 == 0, moment)),
                5 => {
                    revision += 1;
                    let first = millis as usize;
                    let list = (first..first + servers).map(|at| listed(at % 20, 1)).collect();
                    prop_assert_eq!(pool.table.take(revision, list, pool.now), Some(0));
                }
                _ => {
                    let chosen = pool.once(&tried(&[slot]));
                    prop_assert!(chosen.is_some_and(|chosen| chosen != slot || revision > 0), "{chosen:?}");
                }
            }
        }
        prop_assert!(pool.table.loads().iter().all(|load| *load == 0));
    }

    #[test]
    fn shares_follow_the_weights(
        balance in prop_oneof![Just(Balance::LeastRequests), Just(Balance::RoundRobin)],
        weights in prop::collection::vec(1_u16..20, 1..30),
    ) {
        let mut pool = Pool::new(&weights, balance);
        let requests = 5000;
        let seen = pool.counts(weights.len(), requests);
        let sum: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
        for (seen, weight) in seen.iter().zip(&weights) {
            let expected = (requests * usize::from(*weight)) as f64 / sum as f64;
            prop_assert!((*seen as f64 - expected).abs() < 6.0 * expected.sqrt() + 10.0, "{seen} of {expected}");
        }
    }
}
